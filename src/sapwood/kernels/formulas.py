"""Vector maths and activations over Scalars: every function without a branch and without a library call.

A loop around one of these vectorises whatever the target is. Each takes and returns f32 or f64 and is within 2 units in
the last place of the true value, denormals included, and right at ±0, ±infinity and NaN; `docs/decisions.md` has the
measured figures. Names and defaults are those of the ops.
"""

from __future__ import annotations

from . import coefficients as table
from .angles import acos, asin, atan, atan2, cos, sin, tan
from .exponential import (
    acosh,
    asinh,
    atanh,
    cosh,
    exp,
    exp2,
    exp_negative_times,
    exp_sum,
    reduced_exp,
    PRODUCT_HIGH,
    expm1,
    log,
    log1p,
    log1p_of_exp,
    log2,
    log10,
    pow,
    rsqrt,
    sigmoid,
    sinh,
    tanh,
)
from .machine import clamp, two_sum
from .normal import erf, erfc, gelu
from .scalar import Number, Scalar, const, copysign, fabs, fma, maximum, minimum, select

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "elu", "erf", "erfc", "exp", "exp2",
    "expm1", "gelu", "gelu_tanh", "hardswish", "log", "log10", "log1p", "log2", "logsigmoid", "mish", "pow", "relu",
    "rsqrt", "sigmoid", "silu", "sin", "sinh", "softplus", "tan", "tanh",
]  # fmt: skip


# Beyond this x times the sigmoid in gelu_tanh is 0.
GELU_HIGH = {"f32": 11.5, "f64": 22.5}


def relu(x: Scalar) -> Scalar:
    """max(x, 0)."""
    return maximum(x, 0.0)


def silu(x: Scalar) -> Scalar:
    """x · sigmoid(x)."""
    e, below = exp_negative_times(fabs(x), maximum(x, -PRODUCT_HIGH[x.dtype]))
    # 0·x is NaN at -infinity, as infinity times zero is.
    return _less(select(x < 0, fma(x, 0.0, below), x), e / (e + 1.0), x)


def logsigmoid(x: Scalar) -> Scalar:
    """log(sigmoid(x))."""
    return minimum(x, 0.0) - log1p_of_exp(fabs(x))


def softplus(x: Scalar, beta: Number = 1.0, threshold: Number = 20.0) -> Scalar:
    """log(1 + e^(beta·x)) / beta; x itself where beta·x is above `threshold`."""
    scaled = x if isinstance(beta, float) and beta == 1.0 else x * beta
    y = maximum(scaled, 0.0) + log1p_of_exp(fabs(scaled))
    return select(scaled > threshold, x, y if scaled is x else y / beta)


def elu(x: Scalar, alpha: Number = 1.0, scale: Number = 1.0, input_scale: Number = 1.0) -> Scalar:
    """scale·x above zero, else scale·alpha·(e^(input_scale·x) - 1)."""
    return select(x <= 0, expm1(x * input_scale) * (alpha * scale), x * scale)


def mish(x: Scalar) -> Scalar:
    """x · tanh(log(1 + e^x))."""
    # tanh(log(1 + e)) = (e² + 2 e)/(e² + 2 e + 2), in e^-|x| so that nothing overflows, and as e·(1 - q) below zero,
    # 1 - q above, where the roundings of a small q matter less.
    e, below = exp_negative_times(fabs(x), maximum(x, -PRODUCT_HIGH[x.dtype]))
    square = e * e
    q = select(x < 0, square + e, square + square) / select(x < 0, fma(e, e + 2.0, 2.0), fma(e + e, e + 1.0, 1.0))
    return _less(select(x < 0, fma(x, 0.0, below), x), q, x)


def _less(size: Scalar, q: Scalar, sign: Scalar) -> Scalar:
    """size·(1 - q), rounded once more than q; with the sign of `sign`, also where it is zero."""
    return copysign(fma(-size, q, size), sign)


def hardswish(x: Scalar) -> Scalar:
    """x · min(max(x + 3, 0), 6) / 6."""
    return x * (clamp(x + 3.0, 0.0, 6.0) / 6.0)


def gelu_tanh(x: Scalar) -> Scalar:
    """x/2 · (1 + tanh(sqrt(2/pi)·(x + 0.044715 x³))): gelu's approximation without erf."""
    # (1 + tanh(u))/2 is the sigmoid of 2 u, which has no cancellation. It magnifies errors of u, so u is a sum of two.
    (c1, l1, _), (c3, l3, _) = table.GELU_1[x.dtype], table.GELU_3[x.dtype]
    limit = GELU_HIGH[x.dtype]
    a = fabs(x)
    a = select(a > limit, limit, a)
    z = a * a
    cube = z * c3
    inner, lost = two_sum(cube, const(c1, x.dtype))
    lost = lost + (fma(z, c3, -cube) + fma(fma(a, a, -z), c3, fma(z, l3, l1)))
    u = a * inner
    r, first, second = reduced_exp(-u, -fma(a, lost, fma(a, inner, -u)))
    e, low = exp_sum(r)
    below = fma(a, e, a * low) * first * second
    e = e * first * second
    return _less(select(x < 0, fma(x, 0.0, -below), x), e / (e + 1.0), x)
