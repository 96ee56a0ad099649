"""Arithmetic between a tensor and a Python number inside composed functions.

They compute what the operators do; the graph names them as PyTorch names such steps (AddBackward1, MulBackward1 …).
"""

from __future__ import annotations

import numpy as np

from .. import dtypes, ops
from .declare import Plain, Unary, op


class WithNumber(Unary):
    """An elementwise function of a tensor and a number; for other families only."""

    promote = "given"
    function = method = inplace = False
    samples = lambda rng: [(rng.standard_normal((3, 4)), 0.5)]
    dtypes = "bifc"


def _fit(input, number):
    """Return integers as the default float where the number is a float."""
    exact = input.dtype.kind in "biu" and isinstance(number, float)
    return input.astype(dtypes.get_default_dtype().numpy) if exact else input


def _real(input):  # type: ignore[no-untyped-def]
    """Return integers as the default float: a quotient is never an integer."""
    return input.astype(dtypes.get_default_dtype().numpy) if input.dtype.kind in "biu" else input


@op
class add_number(WithNumber):
    """Add a number to each element."""

    grad_fn = "AddBackward1"
    forward = lambda input, number: _fit(input, number) + number
    formula = lambda input, number: input + number
    vjp_input = lambda g: g


@op
class number_minus(WithNumber):
    """Subtract each element from a number."""

    grad_fn = "SubBackward0"
    forward = lambda input, number: number - _fit(input, number)
    formula = lambda input, number: number - input
    vjp_input = lambda g: -g


@op
class mul_number(WithNumber):
    """Multiply each element by a number."""

    grad_fn = "MulBackward1"
    forward = lambda input, number: _fit(input, number) * number
    formula = lambda input, number: input * number
    vjp_input = lambda g, number: g * number


@op
class div_number(WithNumber):
    """Divide each element by a number."""

    grad_fn = "DivBackward1"
    forward = lambda input, number: _real(input) / number
    formula = lambda input, number: input / number
    vjp_input = lambda g, number: g / number


@op
class clamp_min_number(WithNumber):
    """Replace elements below a number by it; elements equal to it keep their gradient."""

    dtypes = "bif"
    grad_fn = "ClampMinBackward0"
    forward = lambda input, number: np.maximum(_fit(input, number), number)
    formula = lambda input, number: ops.where(input < number, number, input)
    vjp_input = lambda g, input, number: ops.where(input >= number, g, 0)


@op
class tied(Plain):
    """Return a copy of `grad`, recorded as depending on `other` with derivative zero.

    PyTorch's backward functions are single nodes: all their results carry history, even those that other does not
    change. Formulas made of small ops say so with this one.
    """

    inputs = ("grad", "other")
    function = method = False
    samples = lambda rng: [(rng.standard_normal(3), rng.standard_normal((2, 3)))]
    forward = lambda grad, other: grad.copy()
    vjp_grad = lambda g: g
    vjp_other = lambda g, other_shape: ops.zeros_of(g, other_shape)


__all__ = ["add_number", "clamp_min_number", "div_number", "mul_number", "number_minus", "tied"]
