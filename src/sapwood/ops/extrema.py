"""Smaller and larger, elementwise: maximum, minimum, clamp."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import DtypeError, ValueRangeError
from .declare import Binary, Plain, op


def _refuse_complex(name: str, x: Any) -> Any:
    if x.dtype.kind == "c":
        raise DtypeError(f"{name}: complex numbers have no order; compare their abs() or real parts")
    return x


def _larger(g: Any, this: Any, that: Any) -> Any:
    """Return the gradient of the larger one of two: half of it to each where they are equal."""
    return ops.where(this == that, g / 2, ops.where(this < that, 0, g))


def _smaller(g: Any, this: Any, that: Any) -> Any:
    return ops.where(this == that, g / 2, ops.where(this > that, 0, g))


@op
class maximum(Binary):
    """Return the larger of two elements, NaN if one is."""

    scalars = False
    inplace = False
    half = False
    forward = lambda input, other: np.maximum(_refuse_complex("maximum", input), other)
    numpy = (np.maximum,)
    vjp_input = lambda g, input, other: _larger(g, input, other)
    vjp_other = lambda g, input, other: _larger(g, other, input)
    dtypes = "bif"


@op
class minimum(Binary):
    """Return the smaller of two elements, NaN if one is."""

    scalars = False
    inplace = False
    half = False
    forward = lambda input, other: np.minimum(_refuse_complex("minimum", input), other)
    numpy = (np.minimum,)
    vjp_input = lambda g, input, other: _smaller(g, input, other)
    vjp_other = lambda g, input, other: _smaller(g, other, input)
    dtypes = "bif"


@op
class fmax(Binary):
    """Return the larger of two elements, the number where the other is NaN."""

    scalars = False
    inplace = False
    half = False
    forward = lambda input, other: np.fmax(_refuse_complex("fmax", input), other)
    numpy = (np.fmax,)
    vjp_input = lambda g, input, other: g * ((input >= other) | (other != other))
    vjp_other = lambda g, input, other: g * ~((input >= other) | (other != other))
    dtypes = "bif"


@op
class fmin(Binary):
    """Return the smaller of two elements, the number where the other is NaN."""

    scalars = False
    inplace = False
    half = False
    forward = lambda input, other: np.fmin(_refuse_complex("fmin", input), other)
    numpy = (np.fmin,)
    vjp_input = lambda g, input, other: g * ((input <= other) | (other != other))
    vjp_other = lambda g, input, other: g * ~((input <= other) | (other != other))
    dtypes = "bif"


def _clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    _refuse_complex("clamp", input)
    if min is None:
        if max is None:
            raise ValueRangeError("clamp: min, max or both must be given, got neither")
        return np.minimum(input, max)
    low = np.maximum(input, min)
    return low if max is None else np.minimum(low, max)


def _inside(input: Any, min: Any, max: Any) -> Any:
    if max is None:
        return input >= min
    return input <= max if min is None else (input >= min) & (input <= max)


def _clamp_vjp_min(g: Any, input: Any, min: Any, max: Any) -> Any:
    below = input < min
    return ops.where(below if max is None else below & (min < max), g, 0)


def _clamp_vjp_max(g: Any, input: Any, min: Any, max: Any) -> Any:
    above = input > max
    return ops.where(above if min is None else above | (max < min), g, 0)


@op
class clamp(Plain):
    """Limit each element to at least `min` and at most `max`; numbers or tensors, one may be None.

    Raises:
        ValueRangeError: neither is given.
    """

    inputs = ("input", "min", "max")
    optional = ("min", "max")
    kind = "elementwise"
    promote = "same"
    scalars = True
    half = False
    inplace = True
    forward = _clamp
    grad_fn = "ClampBackward0 if hasattr(min, '_node') or hasattr(max, '_node') else ClampBackward1"
    vjp_input = lambda g, input, min, max: ops.where(_inside(input, min, max), g, 0)
    vjp_min = lambda g, input, min, max: _clamp_vjp_min(g, input, min, max)
    vjp_max = lambda g, input, min, max: _clamp_vjp_max(g, input, min, max)
    aliases = ("clip",)
    numpy = (np.clip,)
    dtypes = "if"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), -0.5, 0.5),
        (rng.standard_normal((2, 3)), None, 0.5),
        (rng.standard_normal((2, 3)), rng.standard_normal(3), rng.standard_normal((2, 1))),
        (np.array([0.0, 1.0, np.nan]), 0.0, 1.0),
    ]
    smooth = False


@op
class clamp_min(Binary):
    """Limit each element to at least `min`."""

    inputs = ("input", "min")
    half = False
    forward = lambda input, min: np.maximum(_refuse_complex("clamp_min", input), min)
    formula = lambda input, min: ops.maximum(input, min)
    grad_fn = "ClampMinBackward1 if hasattr(min, '_node') else ClampMinBackward0"
    vjp_input = lambda g, input, min: ops.where(input >= min, g, 0)
    vjp_min = lambda g, input, min: ops.where(input < min, g, 0)
    dtypes = "if"


@op
class clamp_max(Binary):
    """Limit each element to at most `max`."""

    inputs = ("input", "max")
    half = False
    forward = lambda input, max: np.minimum(_refuse_complex("clamp_max", input), max)
    formula = lambda input, max: ops.minimum(input, max)
    grad_fn = "ClampMaxBackward1 if hasattr(max, '_node') else ClampMaxBackward0"
    vjp_input = lambda g, input, max: ops.where(input <= max, g, 0)
    vjp_max = lambda g, input, max: ops.where(input > max, g, 0)
    dtypes = "if"


@op
class gcd(Binary):
    """Return the greatest common divisor of two integers."""

    scalars = False
    forward = np.gcd
    dtypes = "i"
    samples = lambda rng: [(np.array([[4], [-6], [0]]), np.array([6, 9]))]


@op
class lcm(Binary):
    """Return the least common multiple of two integers."""

    scalars = False
    forward = np.lcm
    dtypes = "i"
    samples = lambda rng: [(np.array([[4], [-6], [0]]), np.array([6, 9]))]
