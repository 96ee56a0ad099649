"""The error function, its complement, and the normal distribution's weight in gelu, as Scalars of f32 or f64.

The complement is e^(-x²) · p((x - 3)/(x + 3)) / (x + 3) for x >= 0, in which x² and the quotient are kept in two
numbers: one rounding of x² would cost x² units in the last place. Near zero erf is a polynomial.
"""

from __future__ import annotations

import math

from . import coefficients as table
from .coefficients import Table
from .exponential import exp_reduced, exp_sum, reduced_exp
from .machine import format_of, polynomial, power_of_two, product
from .scalar import Scalar, copysign, fabs, fma, rare, select

__all__ = ["erf", "erfc", "gelu"]

# Beyond these erf is 1, and erfc is 0.
ERF_HIGH = {"f32": 4.0, "f64": 6.0}
ERFC_HIGH = {"f32": 10.2, "f64": 27.3}
# Beyond this the normal distribution's lower tail, times x, is 0.
TAIL_HIGH = {"f32": 14.5, "f64": 38.7}
# Down to here gelu has a short formula; from GELU_HIGH on what it is short of x is nothing.
GELU_LOW, GELU_HIGH = -4.5, 5.5


def _small_erf(x: Scalar) -> Scalar:
    """erf(x) for |x| <= 1."""
    return fma(x, polynomial(table.ERF[x.dtype], x * x), x)


def erf(x: Scalar) -> Scalar:
    """The error function."""
    a = fabs(x)
    b = select(a > ERF_HIGH[x.dtype], ERF_HIGH[x.dtype], a)
    # Its complement is at most 0.16 here: two digits fewer are enough.
    r, first, second = reduced_exp(-(b * b))
    d = 1.0 / (b + 3.0)
    rest = exp_reduced(r) * first * second * (d * polynomial(table.ERF_TAIL[x.dtype], fma(-6.0, d, 1.0)))
    return copysign(select(a > 1.0, 1.0 - rest, _small_erf(a)), x)


def _tail(
    a: Scalar, square: Scalar, lost: Scalar, shift: tuple[float, float], coefficients: Table
) -> tuple[Scalar, Scalar, Scalar, float]:
    """Return (y, low, b, c): (y + low)·b·c = e^-(square + lost) · p(t) / (a + shift), t = (a - shift)/(a + shift).

    b and c are powers of two. Every rounding that matters is followed by one that computes what was lost.
    """
    high, low = shift
    s = a + high
    d = 1.0 / s
    d_low = d * fma(-d, (a - (s - high)) + low, fma(-s, d, 1.0))
    twice = a + a
    near = fma(twice, d, -1.0)
    t_low = fma(twice, d_low, fma(twice, d, -1.0 - near))
    t = near + t_low
    t_low = (near - t) + t_low
    # Horner's last two steps with what they lose, and what t lost: p falls by about its own size per unit of t.
    c0, c1, *others = coefficients
    rest = polynomial(tuple(others), t)
    q = fma(t, rest, c1)
    p = fma(t, q, c0)
    p_low = fma(t, fma(t, rest, c1 - q), fma(t, q, c0 - p)) - t_low * p
    y, y_low = product(p, p_low, d, d_low)
    r, first, second = reduced_exp(-square, -lost)
    y, y_low = product(*exp_sum(r), y, y_low)
    return y, y_low, first, second


def erfc(x: Scalar) -> Scalar:
    """1 - erf(x), exact to the last digits where it is small."""
    a = fabs(x)
    high = ERFC_HIGH[x.dtype]
    a = select(a > high, high, a)
    square = a * a
    y, low, first, second = _tail(a, square, fma(a, a, -square), (3.0, 0.0), table.ERFCX[x.dtype])
    y = (y + low) * first * second
    return select(x < 0, 2.0 - y, y)


def gelu(x: Scalar) -> Scalar:
    """x times the normal distribution's probability of lying below x."""
    if x.dtype == "f64":
        return _gelu_long(x)
    return rare(x < GELU_LOW, _gelu_long(x), _gelu_short(x))


def _gelu_short(x: Scalar) -> Scalar:
    """gelu of x >= GELU_LOW in float32: a quarter of the work.

    N(-a) = e^-s / 2 with s = a²/2 + 7/16·a - a·p(a). The first two terms are a·(a + 7/8)/2, a product that fma computes
    without loss; the last is at most 0.4, so that s needs no second number.
    """
    f = format_of(x)
    a = fabs(x)
    a = select(a > GELU_HIGH, GELU_HIGH, a)
    half = a * -0.5
    v = a + 0.875
    lost = a - (v - 0.875)
    magic = f.magic + f.bias
    t = fma(v, a * (-0.5 * table.LOG2_E["f32"][0]), magic)
    n = t - magic
    # Of ln(2) the first digits, so that their product with n is exact.
    high = 0.693359375
    near = fma(v, half, -(n * high))
    rest = fma(lost, half, n * (high - math.log(2)))
    r = near + fma(a, polynomial(table.MILLS["f32"], a - 2.75), rest)
    w = fma(r * r, polynomial(table.EXP_WIDE["f32"], r), r)
    z = half * power_of_two(t)
    # Plus -0, so that a small result keeps its sign.
    return select(x < 0, -0.0, x) + fma(z, w, z)


def _gelu_long(x: Scalar) -> Scalar:
    """gelu of any number."""
    a = fabs(x)
    high = TAIL_HIGH[x.dtype]
    a = select(a > high, high, a)
    square = a * a
    lost = fma(a, a, -square) * 0.5
    root, root_low, _ = table.SQRT_18[x.dtype]
    y, low, first, second = _tail(a, square * 0.5, lost, (root, root_low), table.NORMAL[x.dtype])
    y = fma(y, a, low * a) * first * second
    # 0·x is NaN at -infinity, as infinity times probability zero is.
    return select(x < 0, fma(x, 0.0, -y), x - y)
