"""Exponentials, logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..errors import DtypeError
from .complex_parts import has_complex
from .declare import Binary, Unary, op

LN2 = math.log(2)
LN10 = math.log(10)


@op
class exp(Unary):
    """Return e ** input."""

    forward = np.exp
    vjp_input = lambda g, out: g * out
    dtypes = "bifc"


@op
class exp2(Unary):
    """Return 2 ** input."""

    forward = np.exp2
    vjp_input = lambda g, out: g * out * LN2
    dtypes = "bifc"


@op
class expm1(Unary):
    """Return e ** input − 1, accurate near 0."""

    forward = np.expm1
    vjp_input = lambda g, out: g * (out + 1)
    dtypes = "bifc"


@op
class log(Unary):
    """Return the natural logarithm; -inf at 0, NaN for negative real numbers."""

    forward = np.log
    vjp_input = lambda g, input: g / input
    domain = (0.2, 3.0)
    dtypes = "bifc"


@op
class log2(Unary):
    """Return the logarithm to base 2."""

    forward = np.log2
    vjp_input = lambda g, input: g / (input * LN2)
    domain = (0.2, 3.0)
    dtypes = "bifc"


@op
class log10(Unary):
    """Return the logarithm to base 10."""

    forward = np.log10
    vjp_input = lambda g, input: g / (input * LN10)
    domain = (0.2, 3.0)
    dtypes = "bifc"


@op
class log1p(Unary):
    """Return log(1 + input), accurate near 0."""

    forward = np.log1p
    vjp_input = lambda g, input: g / (input + 1)
    grad_fn = "Log1PBackward0"
    domain = (-0.8, 3.0)
    dtypes = "bifc"


@op
class sin(Unary):
    """Return the sine of an angle in radians."""

    forward = np.sin
    vjp_input = lambda g, input: g * ops.cos(input)
    dtypes = "bifc"


@op
class cos(Unary):
    """Return the cosine of an angle in radians."""

    forward = np.cos
    vjp_input = lambda g, input: g * -ops.sin(input)
    dtypes = "bifc"


@op
class tan(Unary):
    """Return the tangent of an angle in radians."""

    forward = np.tan
    vjp_input = lambda g, out: g * (1 + out * out)
    domain = (-1.4, 1.4)
    dtypes = "bifc"


@op
class asin(Unary):
    """Return the angle in radians whose sine is given; NaN outside [-1, 1]."""

    forward = np.arcsin
    vjp_input = lambda g, input: g * ops.rsqrt(1 - input * input)
    aliases = ("arcsin",)
    domain = (-0.9, 0.9)
    dtypes = "bifc"


@op
class acos(Unary):
    """Return the angle in radians whose cosine is given; NaN outside [-1, 1]."""

    forward = np.arccos
    vjp_input = lambda g, input: g * -ops.rsqrt(1 - input * input)
    aliases = ("arccos",)
    domain = (-0.9, 0.9)
    dtypes = "bifc"


@op
class atan(Unary):
    """Return the angle in radians whose tangent is given."""

    forward = np.arctan
    vjp_input = lambda g, input: g / (input * input + 1)
    aliases = ("arctan",)
    dtypes = "bifc"


@op
class atan2(Binary):
    """Return the angle in radians of the point with ordinate `input` and abscissa `other`."""

    promote = "float"
    scalars = False
    forward = np.arctan2
    vjp_input = lambda g, input, other: g * (other * _inverse_square(input, other))
    vjp_other = lambda g, input, other: g * (-input * _inverse_square(input, other))
    aliases = ("arctan2",)
    dtypes = "bif"


def _inverse_square(y: Any, x: Any) -> Any:
    """Return 1 / (y² + x²), and 0 at the origin, where the angle has no slope."""
    square = y * y + x * x
    return ops.where(square == 0, 0, 1 / square)


@op
class sinh(Unary):
    """Return the hyperbolic sine."""

    forward = np.sinh
    vjp_input = lambda g, input: g * ops.cosh(input)
    dtypes = "bifc"


@op
class cosh(Unary):
    """Return the hyperbolic cosine."""

    forward = np.cosh
    vjp_input = lambda g, input: g * ops.sinh(input)
    dtypes = "bifc"


@op
class tanh(Unary):
    """Return the hyperbolic tangent."""

    forward = np.tanh
    vjp_input = lambda g, out: g * (1 - out * out)
    dtypes = "bifc"


@op
class asinh(Unary):
    """Return the number whose hyperbolic sine is given."""

    forward = np.arcsinh
    vjp_input = lambda g, input: g * ops.rsqrt(input * input + 1)
    aliases = ("arcsinh",)
    dtypes = "bifc"


def _acosh_slope(x: Any) -> Any:
    # On the complex plane the square root of a product is not the product of the roots.
    if has_complex(x):
        return ops.rsqrt(x - 1) * ops.rsqrt(x + 1)
    return ops.rsqrt(x * x - 1)


@op
class acosh(Unary):
    """Return the number whose hyperbolic cosine is given; NaN below 1."""

    forward = np.arccosh
    vjp_input = lambda g, input: g * _acosh_slope(input)
    aliases = ("arccosh",)
    domain = (1.2, 3.0)
    dtypes = "bifc"


@op
class atanh(Unary):
    """Return the number whose hyperbolic tangent is given; infinite at -1 and 1, NaN beyond."""

    forward = np.arctanh
    vjp_input = lambda g, input: g / (1 - input * input)
    aliases = ("arctanh",)
    domain = (-0.9, 0.9)
    dtypes = "bifc"


def _sinc(input: Any) -> Any:
    x = input * math.pi
    return np.where(x == 0, 1, np.sin(x) / np.where(x == 0, 1, x)).astype(x.dtype)


def _sinc_vjp(g: Any, input: Any) -> Any:
    x = input * math.pi
    bottom = x * input
    there = bottom != 0
    return g * ops.where(there, (x * ops.cos(x) - ops.sin(x)) / ops.where(there, bottom, 1), 0)


@op
class sinc(Unary):
    """Return sin(π x) / (π x), and 1 at 0."""

    forward = _sinc
    vjp_input = lambda g, input: _sinc_vjp(g, input)
    numpy = (np.sinc,)
    dtypes = "bifc"


def _sigmoid(input: Any) -> Any:
    e = np.exp(-input)
    e += 1
    return np.reciprocal(e)


@op
class sigmoid(Unary):
    """Return 1 / (1 + exp(−input))."""

    forward = _sigmoid
    vjp_input = lambda g, out: g * ((1 - out) * out)
    dtypes = "bifc"


def _floating(name: str, ufunc: Any) -> Any:
    """Return a ufunc that refuses integers, which NumPy would turn into doubles."""

    def forward(input: Any, other: Any) -> Any:
        if input.dtype.kind in "iub":
            raise DtypeError(f"{name}: floating-point tensors are expected, got {input.dtype}; convert them first")
        return ufunc(input, other)

    return forward


@op
class hypot(Binary):
    """Return sqrt(input² + other²) without overflow on the way."""

    scalars = False
    forward = _floating("hypot", np.hypot)
    numpy = (np.hypot,)
    vjp_input = lambda g, input, out: g * (input / out)
    vjp_other = lambda g, other, out: g * (other / out)


def _logaddexp(input: Any, other: Any) -> Any:
    if np.result_type(input, other).kind != "c":
        return np.logaddexp(input, other)
    # The exponent with the larger real part goes in front, so that the other one cannot overflow.
    first = input.real >= other.real
    large, small = np.where(first, input, other), np.where(first, other, input)
    return large + np.log1p(np.exp(small - large))


@op
class logaddexp(Binary):
    """Return log(exp(input) + exp(other)) without overflow on the way."""

    scalars = False
    inplace = False
    dtypes = "fc"
    forward = _floating("logaddexp", _logaddexp)
    numpy = (np.logaddexp,)
    vjp_input = lambda g, input, other: g / (1 + ops.exp(other - input))
    vjp_other = lambda g, input, other: g / (1 + ops.exp(input - other))


@op
class logaddexp2(Binary):
    """Return log2(2 ** input + 2 ** other) without overflow on the way."""

    scalars = False
    inplace = False
    forward = _floating("logaddexp2", np.logaddexp2)
    numpy = (np.logaddexp2,)
    vjp_input = lambda g, input, other: g / (1 + ops.exp2(other - input))
    vjp_other = lambda g, input, other: g / (1 + ops.exp2(input - other))


def _xlogy(input: Any, other: Any) -> Any:
    # A number has to take the other operand's type: NumPy's log of it would be a double.
    common = np.result_type(input, other)
    input, other = np.asarray(input, common), np.asarray(other, common)
    return np.where(np.isnan(other), other, np.where(input == 0, 0, input * np.log(other)))


def _xlogy_vjp(g: Any, input: Any, other: Any) -> Any:
    return ops.where((input == 0) & (other <= 0), 0, ops.xlogy(g, other))


@op
class xlogy(Binary):
    """Return input · log(other), and 0 where `input` is 0 and `other` is not NaN; either may be a number."""

    scalars = "any"
    promote = "float"
    forward = _xlogy
    grad_fn = (
        "(XlogyBackward0 if hasattr(other, '_node') else XlogyBackward2) if hasattr(input, '_node') else XlogyBackward1"
    )
    vjp_input = lambda g, input, other: _xlogy_vjp(g, input, other)
    vjp_other = lambda g, input, other: g * input / other
    dtypes = "bif"
    samples = lambda rng: [
        (rng.uniform(0.5, 2, (2, 3)), rng.uniform(0.5, 2, 3)),
        (rng.uniform(0.5, 2, 3), 2.5),
        (1.5, rng.uniform(0.5, 2, 3)),
        (np.array([0.0, 0.0]), np.array([2.0, 3.0])),
    ]
