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
    exp_sum,
    expm1,
    log,
    log1p,
    log1p_of_exp,
    log2,
    log10,
    pow,
    reduced_exp,
    rsqrt,
    sigmoid,
    sinh,
    tanh,
)
from .machine import INF, NAN, clamp, product, two_sum
from .normal import erf, erfc, gelu
from .scalar import Number, Scalar, const, copysign, fabs, fma, maximum, minimum, select

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "elu",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "gelu",
    "gelu_tanh",
    "hardswish",
    "log",
    "log1p",
    "log2",
    "log10",
    "logsigmoid",
    "mish",
    "pow",
    "relu",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sinh",
    "softplus",
    "tan",
    "tanh",
]  # fmt: skip


# Beyond this x·e^-x is 0, and so is x times the sigmoid in gelu_tanh.
SILU_HIGH = {"f32": 110.0, "f64": 760.0}
GELU_HIGH = {"f32": 11.5, "f64": 22.5}


def relu(x: Scalar) -> Scalar:
    """max(x, 0)."""
    return maximum(x, 0.0)


def silu(x: Scalar) -> Scalar:
    """x · sigmoid(x)."""
    a = fabs(x)
    a = select(a > SILU_HIGH[x.dtype], SILU_HIGH[x.dtype], a)
    r, first, second = reduced_exp(-a)
    return _weighted(x, a, *exp_sum(r), first, second)


def _weighted(x: Scalar, a: Scalar, e: Scalar, low: Scalar, first: Scalar, second: float) -> Scalar:
    """x / (1 + E) above zero, x·E / (1 + E) below, with E = (e + low)·first·second <= 1.

    `a` is |x|, but no larger than where the result is 0 below zero. The last rounding is the only one that counts.
    """
    below = x < 0
    size = -a * e
    size_low = fma(-a, e, -size) - a * low
    size = select(below, size * first * second, x)
    size_low = select(below, size_low * first * second, 0.0)
    e = e * first * second
    d = e + 1.0
    d_low = (1.0 - d) + fma(low * first, second, e)
    q = 1.0 / d
    q_low = q * fma(-q, d_low, fma(-q, d, 1.0))
    return _finite(x, fma(size, q, fma(size, q_low, size_low * q)))


def _finite(x: Scalar, y: Scalar) -> Scalar:
    """Return y with the sign of x where x is finite; infinity for infinity, NaN for -infinity: infinity times zero."""
    return select(fabs(x) < INF, copysign(y, x), select(x > 0, x, NAN))


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
    # tanh(log(1 + e)) = (e² + 2 e)/(e² + 2 e + 2), in e^-|x| so that nothing overflows.
    a = fabs(x)
    a = select(a > SILU_HIGH[x.dtype], SILU_HIGH[x.dtype], a)
    r, first, second = reduced_exp(-a)
    e, low = exp_sum(r)
    below = x < 0
    size = -a * e
    size_low = fma(-a, e, -size) - a * low
    size = select(below, size * first * second, x)
    size_low = select(below, size_low * first * second, 0.0)
    e = e * first * second
    low = low * first * second
    # x·e·(2 + e)/(2 + e + e + e²) below zero, x·(1 + 2 e)/(1 + 2 e + 2 e²) above.
    base, step = select(below, const(2.0, x.dtype), 1.0), select(below, e, e + e)
    top = base + step
    top_low = (base - top) + step + select(below, low, low + low)
    rest = e * select(below, e + 1.0, e + e)
    d = top + rest
    d_low = (top - d) + rest + top_low
    q = 1.0 / d
    q_low = q * fma(-q, d_low, fma(-q, d, 1.0))
    size, size_low = product(size, size_low, top, top_low)
    return _finite(x, fma(size, q, fma(size, q_low, size_low * q)))


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
    return _weighted(x, a, *exp_sum(r), first, second)
