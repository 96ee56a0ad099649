"""Circular functions and their inverses, as Scalars of f32 or f64.

The nearest multiple of pi/2 is subtracted, and one of two polynomials taken. Up to `LIMIT` the multiple is subtracted
in three pieces (Cody and Waite); beyond, 1/pi is multiplied as a long integer (Payne and Hanek), which is right for
every number but costs ten times as much, so it is marked as `rare`.
"""

from __future__ import annotations

import math

from . import coefficients as table
from .machine import INF, format_of, polynomial, sign_of, two_sum, with_sign
from .reduction import turns
from .scalar import Scalar, bitcast, const, copysign, fabs, fma, rare, select, sqrt

__all__ = ["acos", "asin", "atan", "atan2", "cos", "sin", "tan"]

LIMIT = {"f32": 1e5, "f64": 1e9}
"""Largest argument whose multiple of pi is subtracted in pieces."""


def _reduced(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return (r, low, q): x = k·pi/2 + r + low with |r| <= pi/4, and k's last binary digits in those of the integer q.

    x must not be negative; `low` is what rounding r lost.
    """
    f = format_of(x)
    t = fma(x, 2 / math.pi, f.magic)
    n = t - f.magic
    high, middle, least = table.HALF_PI[x.dtype]
    # The first difference is exact.
    first = fma(n, -high, x)
    piece = n * -middle
    near, lost = two_sum(first, piece)
    lost = fma(n, -least, lost + fma(n, -middle, -piece))
    r = near + lost
    far = x > LIMIT[x.dtype]
    wide, wide_low, quadrant = turns(x)
    return rare(far, wide, r), rare(far, wide_low, (near - r) + lost), rare(far, quadrant, bitcast(t, f.bits))


def _wave(x: Scalar, ahead: int) -> Scalar:
    """sin(x + ahead·pi/2) for x >= 0."""
    f = format_of(x)
    r, _, q = _reduced(x)
    q = q + ahead
    z = r * r
    sine = fma(z * r, polynomial(table.SIN_SHORT[x.dtype], z), r)
    cosine = fma(z, fma(z, polynomial(table.COS_SHORT[x.dtype], z), -0.5), 1.0)
    y = select((q & 1) == 0, sine, cosine)
    return with_sign(y, (q << (f.top - 1)) & f.sign)


def sin(x: Scalar) -> Scalar:
    """The sine of an angle in radians."""
    # Of |x|, so that the sine of -0 is -0.
    return with_sign(_wave(fabs(x), 0), sign_of(x))


def cos(x: Scalar) -> Scalar:
    """The cosine of an angle in radians."""
    return _wave(fabs(x), 1)


def tan(x: Scalar) -> Scalar:
    """The tangent of an angle in radians."""
    r, low, q = _reduced(fabs(x))
    z = r * r
    # The slope of the tangent, for what rounding r lost: 1 + tan²(r), roughly.
    tail = fma(z * r, polynomial(table.TAN[x.dtype], z), low * fma(z, 1.5, 1.0))
    t = r + tail
    # -1/t, put right by what is left of 1 when t with what it lost is multiplied by it.
    inverse = -1.0 / t
    rest = fma(inverse, t, 1.0) + inverse * ((r - t) + tail)
    y = select((q & 1) == 0, t, fma(inverse, rest, inverse))
    return with_sign(y, sign_of(x))


def _atan_of_quotient(small: Scalar, large: Scalar) -> Scalar:
    """atan(small / large) for 0 <= small <= large, large > 0 and finite."""
    high, low, _ = table.PI[small.dtype]
    # atan(q) = pi/4 + atan((q - 1)/(q + 1)).
    upper = small > large * 0.5
    t = select(upper, small - large, small) / select(upper, small + large, large)
    z = t * t
    tail = z * t * polynomial(table.ATAN[small.dtype], z)
    return select(upper, (tail + low / 4 + t) + high / 4, tail + t)


def atan(x: Scalar) -> Scalar:
    """The angle between -pi/2 and pi/2 whose tangent is x."""
    high, low, _ = table.PI[x.dtype]
    a = fabs(x)
    middle = a > 0.5
    outer = a > 2.0
    t = select(outer, -1.0, select(middle, a - 1.0, a)) / select(outer, a, select(middle, a + 1.0, 1.0))
    z = t * t
    tail = z * t * polynomial(table.ATAN[x.dtype], z)
    quarter = tail + select(outer, low / 2, const(low / 4, x.dtype)) + t
    return copysign(select(middle, quarter + select(outer, high / 2, const(high / 4, x.dtype)), tail + t), x)


def atan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of the point (x, y) with the positive x axis, between -pi and pi."""
    f = format_of(x)
    high, low, _ = table.PI[x.dtype]
    a, b = fabs(y), fabs(x)
    steep = a > b
    small, large = select(steep, b, a), select(steep, a, b)
    # Sums must not overflow; the quotient of two infinities is 1, of two zeros 0.
    scale = select(large > 2.0 ** (f.bias - 3), 0.25, const(1.0, x.dtype))
    both = small == INF
    small, large = select(both, 1.0, small * scale), select(both | (large == 0), 1.0, large * scale)
    angle = _atan_of_quotient(small, large)
    angle = select(steep, high / 2 - (angle - low / 2), angle)
    back = bitcast(x, f.bits) < 0
    angle = select(back, high - (angle - low), angle)
    # NaN of either operand.
    return copysign(select((x == x) & (y == y), angle, x + y), y)


def _asin_parts(a: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return (outer, s, p): asin(a) is s + p, or pi/2 - 2 (s + p) where a > 1/2."""
    outer = a > 0.5
    z = select(outer, 0.5 - 0.5 * a, a * a)
    s = select(outer, sqrt(z), a)
    return outer, s, s * z * polynomial(table.ASIN[a.dtype], z)


def asin(x: Scalar) -> Scalar:
    """The angle between -pi/2 and pi/2 whose sine is x; NaN beyond ±1."""
    high, low, _ = table.HALF_PI[x.dtype]
    outer, s, p = _asin_parts(fabs(x))
    # pi/2 - 2 s and what its rounding loses.
    rest = fma(-2.0, s, high)
    lost = fma(-2.0, s, high - rest)
    return copysign(select(outer, rest + (lost + fma(-2.0, p, low)), s + p), x)


def acos(x: Scalar) -> Scalar:
    """The angle between 0 and pi whose cosine is x; NaN beyond ±1."""
    f = format_of(x)
    high, low, _ = table.HALF_PI[x.dtype]
    outer, s, p = _asin_parts(fabs(x))
    twice = 2.0 * (s + p)
    below = fma(-2.0, s, 2 * high) + fma(-2.0, p, 2 * low)
    sign = sign_of(x)
    inner = high - (with_sign(s, sign) - (low - with_sign(p, sign)))
    return select(outer, select(bitcast(x, f.bits) < 0, below, twice), inner)
