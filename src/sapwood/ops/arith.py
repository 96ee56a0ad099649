"""Arithmetic: the four operations, powers, remainders."""

from __future__ import annotations

import numpy as np

from .declare import Binary, Unary, op


@op
class add(Binary):
    """Add `alpha` times `other` to `input`, elementwise.

    Example:
        >>> import sapwood
        >>> sapwood.add(sapwood.tensor([1., 2.]), 10)
        tensor([11., 12.])
    """

    signature = lambda input, other, *, alpha=1: None
    usual = {"alpha": 1}
    forward = np.add
    formula = lambda input, other, *, alpha: input + alpha * other
    vjp_input = lambda g: g
    vjp_other = lambda g, alpha: g if alpha == 1 else g * alpha
    linear = True
    scalar = "fadd"
    dtypes = "bifc"


@op
class sub(Binary):
    """Subtract `alpha` times `other` from `input`, elementwise."""

    signature = lambda input, other, *, alpha=1: None
    usual = {"alpha": 1}
    forward = np.subtract
    formula = lambda input, other, *, alpha: input - alpha * other
    vjp_input = lambda g: g
    vjp_other = lambda g, alpha: -g if alpha == 1 else g * -alpha
    aliases = ("subtract",)
    linear = True
    scalar = "fsub"
    dtypes = "ifc"


@op
class mul(Binary):
    """Multiply two tensors elementwise."""

    forward = np.multiply
    vjp_input = lambda g, other: g * other
    vjp_other = lambda g, input: g * input
    aliases = ("multiply",)
    scalar = "fmul"
    dtypes = "bifc"


@op
class neg(Unary):
    """Negate each element."""

    promote = None
    forward = np.negative
    vjp_input = lambda g: -g
    aliases = ("negative",)
    linear = True
    scalar = "fneg"
    dtypes = "ifc"
