"""Powers and roots: pow, square, sqrt, rsqrt, reciprocal, and numbers as mantissa and power of two."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from .. import dtypes, ops
from ..errors import DtypeError, ValueRangeError
from ..tensor import Tensor
from .complex_parts import has_complex
from .declare import Binary, Plain, Unary, composite, op, registry
from .inplace import in_place
from .slow import slow


def power(input: Any, exponent: Any) -> Any:
    """Raise arrays to a power, in the few multiplications and roots that PyTorch takes for small exponents."""
    if type(exponent) is int or type(exponent) is float:
        if exponent == 2:
            return input * input
        if exponent == 1:
            return input + 0 if type(input) is not np.ndarray else input.copy()
        if exponent == 3:
            return input * input * input
        if exponent == 0.5:
            return np.sqrt(input)
        if exponent == -0.5:
            return 1 / np.sqrt(input)
        if exponent == -1:
            return np.reciprocal(input)
        if exponent == -2:
            return 1 / (input * input)
    elif np.asarray(exponent).dtype.kind in "iub":
        return _whole_power(input, exponent)
    return np.power(input, exponent)


def _whole_power(input: Any, exponent: Any) -> Any:
    base = np.asarray(input)
    if base.dtype.kind in "fcV":
        return np.power(input, exponent)
    if base.dtype.kind == "b" and isinstance(exponent, bool):
        return base | (not exponent)
    if base.dtype.kind == "b" and np.asarray(exponent).dtype.kind == "b":
        raise DtypeError("pow: numbers are expected, got two bool tensors; convert one of them first")
    negative = np.less(exponent, 0)
    if not np.any(negative):
        return np.power(input, exponent)
    if not isinstance(exponent, np.ndarray):
        raise ValueRangeError(
            f"pow: integers cannot be raised to negative powers, got the exponent {exponent}; convert to float first"
        )
    # Of two integer tensors, 1/b is rounded to a whole number: only 1 and -1 have one that is not 0.
    whole = np.power(input, np.where(negative, 0, exponent))
    odd = np.where(np.bitwise_and(exponent, 1) == 1, -1, 1)
    inverse = np.where(base == 1, 1, np.where(base == -1, odd, 0))
    return np.where(negative, inverse, whole).astype(whole.dtype)


def _is_number(x: Any) -> bool:
    return not hasattr(x, "shape") or isinstance(x, np.generic)


def _lower(input: Any, exponent: Any) -> Any:
    """Return exponent · input ** (exponent − 1)."""
    if _is_number(exponent) and exponent == 2:
        return exponent * input
    n = exponent - 1
    return exponent * (power(input, n) if type(input) is np.ndarray else input**n)


def _pow_vjp_input(g: Any, input: Any, exponent: Any) -> Any:
    if not _is_number(exponent):
        return g * ops.where(exponent == 0, 0, _lower(input, exponent))
    return ops.zeros_like(g) if exponent == 0 else g * _lower(input, exponent)


def _pow_vjp_exponent(g: Any, input: Any, exponent: Any, out: Any) -> Any:
    # 0 ** e is 0 on a whole neighbourhood of e > 0; log(0) would make that NaN.
    if has_complex(exponent):
        flat = (exponent.imag == 0) & (exponent.real >= 0)
    else:
        flat = exponent >= 0
    if not _is_number(input):
        return g * ops.where((input == 0) & flat, 0, out * ops.log(input))
    if input == 0:
        return g * ops.where(flat, 0, out * -math.inf)
    return g * (out * _log(input, has_complex(out)))


def _log(x: Any, complex_: bool) -> Any:
    if isinstance(x, complex) or complex_:
        return cmath.log(x)
    return math.log(x) if x > 0 else math.nan


@op
class pow(Binary):
    """Raise `input` to the power `exponent`, elementwise; either may be a number.

    Raises:
        ValueRangeError: integers are raised to a negative number.
    """

    scalars = "any"
    inputs = ("input", "exponent")
    forward = power
    grad_fn = (
        "(PowBackward1 if hasattr(exponent, '_node') else PowBackward0) if hasattr(input, '_node') else PowBackward2"
    )
    vjp_input = lambda g, input, exponent: _pow_vjp_input(g, input, exponent)
    vjp_exponent = lambda g, input, exponent, out: _pow_vjp_exponent(g, input, exponent, out)
    dtypes = "ifc"
    numpy = (np.power,)
    samples = lambda rng: [
        (rng.uniform(0.5, 2, (2, 3)), rng.uniform(-2, 2, 3)),
        *((rng.uniform(0.5, 2, 3), e) for e in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.7, 4)),
        (2.5, rng.standard_normal(3)),
        (rng.uniform(0.5, 2, ()), rng.uniform(0.5, 2, (2, 1))),
    ]


@composite(method="__rpow__", function_name=False)
def __rpow__(input: Tensor, other: Any) -> Any:
    """Raise the number `other` to the powers in this tensor."""
    return slow(registry["pow"], (other, input), (), operator=True)


@composite(method=True)
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Square each element."""
    return ops.pow(input, 2, out=out)


@composite(name="square_", method="square_", function_name=False)
def square_in_place(input: Tensor) -> Tensor:
    """Square each element, in place."""
    return in_place(registry["pow"], input, (2,), (), "square_")


def _doubled(x: Any, wide: Any) -> Any:
    return x.to(wide) if isinstance(x, Tensor) else x


def _widest(*operands: Any) -> Any:
    return dtypes.complex128 if any(has_complex(x) for x in operands) else dtypes.float64


@composite(method=True)
def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """Raise `input` to the power `exponent` in double precision; either may be a number."""
    wide = _widest(input, exponent)
    return ops.pow(_doubled(input, wide), _doubled(exponent, wide), out=out)


@composite(name="float_power_", method="float_power_", function_name=False)
def float_power_in_place(input: Tensor, exponent: Any) -> Tensor:
    """Raise this tensor to a power, in place.

    Raises:
        DtypeError: the tensor is not of double precision.
    """
    wide = _widest(input, exponent)
    if input.dtype is not wide:
        raise DtypeError(f"float_power_: the result is {wide.name}, which a {input.dtype.name} tensor cannot hold")
    return in_place(registry["pow"], input, (_doubled(exponent, wide),), (), "float_power_")


@op
class reciprocal(Unary):
    """Return 1 / input."""

    forward = np.reciprocal
    vjp_input = lambda g, out: -g * (out * out)
    domain = (0.5, 3.0)
    dtypes = "bifc"


@op
class sqrt(Unary):
    """Return the square root; NaN for negative real numbers."""

    forward = np.sqrt
    vjp_input = lambda g, out: g / (2 * out)
    domain = (0.2, 3.0)
    dtypes = "bifc"


@op
class rsqrt(Unary):
    """Return 1 / sqrt(input)."""

    forward = lambda input: np.reciprocal(np.sqrt(input))
    vjp_input = lambda g, out: -0.5 * g * (out * out * out)
    domain = (0.2, 3.0)
    dtypes = "bifc"


@op
class ldexp(Binary):
    """Return input · 2 ** other."""

    promote = "float"
    forward = lambda input, other: input * np.exp2(other)
    vjp_input = lambda g, other: g * ops.exp2(other)
    vjp_other = lambda g, out: g * out * math.log(2)
    scalars = False
    numpy = (np.ldexp,)
    dtypes = "bif"


def _frexp(input: Any) -> Any:
    if input.dtype.kind not in "fV":
        raise DtypeError(f"frexp: a floating-point tensor is expected, got {input.dtype}; convert it first")
    return np.frexp(input)


@op
class frexp(Plain):
    """Split each element into a mantissa in [0.5, 1) and an exponent: input = mantissa · 2 ** exponent."""

    inputs = ("input",)
    outs = ("mantissa", "exponent")
    forward = _frexp
    vjp_input = lambda g, exponent: ops.ldexp(g, -exponent)
    smooth = False
    samples = lambda rng: [(rng.standard_normal((2, 3)),), (np.array([0.0, 8.0, -3.0]),)]
