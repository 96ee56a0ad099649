"""Exponentials, logarithms and the functions made of them, as Scalars of f32 or f64.

An exponential is 2^n · e^r with |r| <= ln(2)/2; a logarithm is e·ln(2) + log(1 + f) with 1 + f between sqrt(1/2) and
sqrt(2). Powers of two are put together from integer bits, in two halves where the result may be infinite or denormal.
"""

from __future__ import annotations

import math

from . import coefficients as table
from .machine import FORMATS, INF, NAN, clamp, float_of, format_of, polynomial, power_of_two, product
from .scalar import (
    Number,
    Scalar,
    as_scalar,
    bitcast,
    const,
    convert,
    copysign,
    fabs,
    fma,
    isnan,
    lshr,
    rint,
    select,
    sqrt,
)

__all__ = [
    "acosh",
    "asinh",
    "atanh",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "pow",
    "rsqrt",
    "sigmoid",
    "sinh",
    "tanh",
]  # fmt: skip

# Beyond these e^x is 0 or infinite, also after a division by two.
EXP_RANGE = {"f32": (-104.0, 90.0), "f64": (-746.0, 711.0)}
# How far below the smallest exponent `reduced_exp` reaches: products with up to e^-127 or e^-850 are 0 in the end.
ROOM = {"f32": 64, "f64": 256}
EXP2_RANGE = {"f32": (-151.0, 129.0), "f64": (-1076.0, 1025.0)}
# Below e^x - 1 is -1; above it is infinite.
EXPM1_RANGE = {"f32": (-18.0, 88.8), "f64": (-38.0, 709.9)}
# Twice the number from which on tanh is 1.
TANH_HIGH = {"f32": 20.0, "f64": 40.0}


def reduced(x: Scalar, offset: int, tail: Scalar | None = None) -> tuple[Scalar, Scalar, Scalar]:
    """Return (t, n, r) with x + tail = n·ln(2) + r; t holds n + offset in its low bits."""
    f = format_of(x)
    magic = f.magic + offset
    t = fma(x, table.LOG2_E[x.dtype][0], magic)
    n = t - magic
    high, low, _ = table.LN2[x.dtype]
    r = fma(n, -high, x)
    if tail is not None:
        r = r + tail
    return t, n, fma(n, -low, r)


def halves(t: Scalar, n: Scalar) -> tuple[Scalar, Scalar]:
    """Return two powers of two whose product is 2^n; t holds n + 2·bias."""
    f = format_of(n)
    first = fma(n, 0.5, f.magic + f.bias)
    rest = bitcast(t, f.bits) - bitcast(first, f.bits)
    return power_of_two(first), bitcast(rest << f.digits, f.name)


def reduced_exp(x: Scalar, tail: Scalar | None = None) -> tuple[Scalar, Scalar, float]:
    """Return (r, a, b): e^(x + tail) = e^r · a · b for x <= 0, where a and b are powers of two.

    Multiply by b last: what was before it is not denormal.
    """
    f = format_of(x)
    up = ROOM[x.dtype]
    t, _, r = reduced(x, f.bias + up, tail)
    return r, power_of_two(t), 2.0**-up


def scaled_exp(x: Scalar, shift: int = 0) -> tuple[Scalar, Scalar, Scalar]:
    """Return three factors of 2^shift · e^x, the last two powers of two; x is in EXP_RANGE."""
    t, n, r = reduced(x, 2 * format_of(x).bias + shift)
    return exp_reduced(r), *halves(t, n + shift if shift else n)


def exp_reduced(r: Scalar) -> Scalar:
    """e^r of a reduced argument."""
    return fma(fma(polynomial(table.EXP[r.dtype], r), r, 1.0), r, 1.0)


def exp_sum(r: Scalar) -> tuple[Scalar, Scalar]:
    """e^r of a reduced argument as a sum of two numbers."""
    w = exp_less_one(r)
    e = 1.0 + w
    return e, (1.0 - e) + w


def exp(x: Scalar) -> Scalar:
    """e^x."""
    p, first, second = scaled_exp(clamp(x, *EXP_RANGE[x.dtype]))
    return p * first * second


def exp2(x: Scalar) -> Scalar:
    """2^x."""
    f = format_of(x)
    x = clamp(x, *EXP2_RANGE[x.dtype])
    magic = f.magic + 2 * f.bias
    t = x + magic
    n = t - magic
    r = x - n
    first, second = halves(t, n)
    return fma(polynomial(table.EXP2[x.dtype], r), r, 1.0) * first * second


def exp_less_one(r: Scalar) -> Scalar:
    """e^r - 1 of a reduced argument."""
    return fma(r * r, polynomial(table.EXP[r.dtype], r), r)


def expm1(x: Scalar) -> Scalar:
    """e^x - 1, exact to the last digit near zero."""
    f = format_of(x)
    t, _, r = reduced(clamp(x, *EXPM1_RANGE[x.dtype]), f.bias - 1)
    # Half of 2^n, because 2^n is infinite just before the result is.
    h = power_of_two(t)
    y = fma(h, exp_less_one(r), h - 0.5)
    return select(fabs(x) < 2.0 ** (30 - f.bias), x, y + y)


def tanh(x: Scalar) -> Scalar:
    """The hyperbolic tangent."""
    f = format_of(x)
    a = fabs(x)
    z = a * a
    small = fma(z * a, polynomial(table.TANH[x.dtype], z), a)
    twice = a + a
    t, _, r = reduced(select(twice > TANH_HIGH[x.dtype], TANH_HIGH[x.dtype], twice), f.bias)
    e = exp_reduced(r) * power_of_two(t)
    return copysign(select(a < 0.5, small, 1.0 - 2.0 / (e + 1.0)), x)


def sigmoid(x: Scalar) -> Scalar:
    """1 / (1 + e^-x)."""
    e = exp_negative(fabs(x))
    # 1/(1 + e) = 1 - q and e/(1 + e) = e - e·q with q = e/(1 + e), whose own roundings matter less.
    size = select(x < 0, e, 1.0)
    return fma(-size, e / (e + 1.0), size)


def exp_negative(a: Scalar) -> Scalar:
    """e^-a for a >= 0."""
    low, _ = EXP_RANGE[a.dtype]
    r, first, second = reduced_exp(-select(a > -low, -low, a))
    return exp_reduced(r) * first * second


def _half_exp(a: Scalar) -> Scalar:
    """e^a / 2 for a >= 0."""
    _, high = EXP_RANGE[a.dtype]
    p, first, second = scaled_exp(select(a > high, high, a), shift=-1)
    return p * first * second


def sinh(x: Scalar) -> Scalar:
    """The hyperbolic sine."""
    a = fabs(x)
    z = a * a
    small = fma(z * a, polynomial(table.SINH[x.dtype], z), a)
    h = _half_exp(a)
    return copysign(select(a < 1.0, small, h - 0.25 / h), x)


def cosh(x: Scalar) -> Scalar:
    """The hyperbolic cosine."""
    h = _half_exp(fabs(x))
    return h + 0.25 / h


def _fields(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return (field, e + bias, m) with x = 2^e · m, sqrt(1/2) <= m < sqrt(2); field holds e + bias as x does."""
    f = format_of(x)
    bits = bitcast(x, f.bits)
    root = bitcast(const(math.sqrt(0.5), x.dtype), f.bits)
    above = bits - root + f.one
    field = above & -(1 << f.digits)
    return field, float_of(lshr(above, f.digits), f), bitcast(bits - field + f.one, f.name)


def split(x: Scalar, *, denormal: bool = True) -> tuple[Scalar, Scalar]:
    """Return (e, f) with x = 2^e · (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), of a positive finite x."""
    f = format_of(x)
    offset = const(f.bias, x.dtype)
    if denormal:
        small = x < f.smallest
        up = f.digits + 2
        x = select(small, x * 2.0**up, x)
        offset = select(small, const(f.bias + up, x.dtype), offset)
    _, e, m = _fields(x)
    return e - offset, m - 1.0


def log_tail(f: Scalar) -> Scalar:
    """Return log(1 + f) - f for sqrt(1/2) <= 1 + f <= sqrt(2)."""
    if f.dtype == "f32":
        return f * f * fma(polynomial(table.LOG["f32"], f), f, -0.5)
    # Twice as many digits would need twenty coefficients; a division and seven run beside each other.
    s = f / (f + 2.0)
    z = s * s
    half = 0.5 * f * f
    return fma(s, fma(z, polynomial(table.LOG_ODD["f64"], z), half), -half)


def _where_finite(x: Scalar, y: Scalar) -> Scalar:
    """Return y, a logarithm of x; what it is at zero, below, at infinity and of NaN."""
    special = select(x == 0, -INF, const(NAN, x.dtype))
    return select(x > 0, select(x < INF, y, x), special)


def log(x: Scalar) -> Scalar:
    """The natural logarithm."""
    e, f = split(x)
    return _where_finite(x, _joined(e, f, log_tail(f)))


def _joined(e: Scalar, f: Scalar, tail: Scalar) -> Scalar:
    """Return e·ln(2) + f + tail."""
    high, low, _ = table.LN2[f.dtype]
    return fma(e, high, fma(e, low, tail) + f)


def log2(x: Scalar) -> Scalar:
    """The logarithm to base 2."""
    e, f = split(x)
    high, low, _ = table.LOG2_E[x.dtype]
    return _where_finite(x, fma(f, high, fma(log_tail(f), high, f * low)) + e)


def log10(x: Scalar) -> Scalar:
    """The logarithm to base 10."""
    e, f = split(x)
    high, low, _ = table.LOG10_E[x.dtype]
    two, rest, _ = table.LOG10_2[x.dtype]
    return _where_finite(x, fma(e, two, fma(f, high, fma(log_tail(f), high, fma(f, low, e * rest)))))


def log1p_finite(x: Scalar, low: Scalar | None = None) -> Scalar:
    """log(1 + x + low) for -1 < x < infinity and a very small `low`; the sign of zero is lost."""
    f = format_of(x)
    u = x + 1.0
    field, e, m = _fields(u)
    # What rounding 1 + x lost, scaled as u was; twice that power of two, which the largest exponent still has.
    lost = x - (u - 1.0)
    if low is not None:
        lost = lost + low
    lost = lost * bitcast(2 * f.one + (1 << f.digits) - field, f.name)
    fraction = fma(lost, 0.5, m - 1.0)
    return _joined(e - f.bias, fraction, log_tail(fraction))


def log1p(x: Scalar) -> Scalar:
    """log(1 + x), exact to the last digit near zero."""
    special = select(x == -1.0, -INF, select(x > -1.0, x, NAN))
    return select((x > -1.0) & (x < INF) & (x != 0), log1p_finite(x), special)


def log1p_of_exp(a: Scalar) -> Scalar:
    """log(1 + e^-a) for a >= 0."""
    w = exp_negative(a)
    # 1 + w <= 2, so the exponent is 0 or 1 and comes from one comparison.
    upper = w > math.sqrt(2) - 1
    f = select(upper, fma(w, 0.5, -0.5), w)
    high, low, _ = table.LN2[a.dtype]
    tail = log_tail(f)
    return select(upper, (tail + low + f) + high, tail + f)


def asinh(x: Scalar) -> Scalar:
    """The inverse hyperbolic sine."""
    a = fabs(x)
    z = fma(a, a, 1.0)
    w = fma(a, a / (sqrt(z) + 1.0), a)
    return copysign(_log1p_or_log(a, w), x)


def _log1p_or_log(a: Scalar, w: Scalar, low: Scalar | None = None) -> Scalar:
    """log(1 + w + low), or log(2 a) where a is so large that w overflows; infinity and NaN stay."""
    f = format_of(a)
    large = a > 2.0 ** (f.bias // 2 - 3)
    y = log1p_finite(select(large, a, w), None if low is None else select(large, 0.0, low))
    return select(a < INF, select(large, y + math.log(2), y), a)


def acosh(x: Scalar) -> Scalar:
    """The inverse hyperbolic cosine; NaN below 1."""
    t = x - 1.0
    square = fma(t, t, t + t)
    root = sqrt(square)
    w = root + t
    # What the sum and the root lost; near 1, where it counts, the root is nearly w. The last term is for x = 1.
    lost = (root - w) + t + fma(-root, root, square) / (w + w + 1e-30)
    return select(x >= 1.0, _log1p_or_log(t, w, lost), NAN)


def atanh(x: Scalar) -> Scalar:
    """The inverse hyperbolic tangent; infinite at ±1, NaN beyond."""
    a = fabs(x)
    d = 1.0 - a
    inverse = 1.0 / d
    q = (a + a) * inverse
    y = 0.5 * log1p_finite(q, inverse * fma(-q, (1.0 - d) - a, fma(-q, d, a + a)))
    return copysign(select(a < 1.0, y, select(a == 1.0, INF, const(NAN, x.dtype))), x)


def rsqrt(x: Scalar) -> Scalar:
    """1 / sqrt(x)."""
    return 1.0 / sqrt(x)


def pow(x: Scalar, y: Number) -> Scalar:
    """x^y as C's pow has it: 1 for y = 0 and for x = 1, NaN for a negative x with a broken y."""
    y = as_scalar(y, x)
    a = fabs(x)
    size = _pow_short(a, y) if x.dtype == "f32" else _pow_long(a, y)
    size = select((y == 0) | (a == 1.0), 1.0, size)
    whole = rint(y) == y
    half = y * 0.5
    odd = whole & (rint(half) != half)
    signed = select(odd, copysign(size, x), size)
    # NaN operands: 1 stands above only for y = 0, for x = 1, and for x = -1 whose broken powers follow here.
    broken = (x < 0) & (x > -INF) & (rint(y) != y)
    signed = select(broken, NAN, signed)
    return select(isnan(x) & (y != 0), x, signed)


def _pow_short(a: Scalar, y: Scalar) -> Scalar:
    """a^y for a >= 0 of f32, computed in double with 36 digits."""
    wide = convert(a, "f64")
    e, f = split(wide, denormal=False)
    s = f / (f + 2.0)
    power = fma(polynomial(table.LOG2_SHORT["f64"], s * s), s, e)
    power = select(a < INF, select(a == 0, -INF, power), INF) * convert(y, "f64")
    power = clamp(power, -200.0, 200.0)
    magic = FORMATS["f64"].magic + FORMATS["f64"].bias
    t = power + magic
    r = power - (t - magic)
    return convert(polynomial(table.EXP2_SHORT["f64"], r) * power_of_two(t), "f32")


def _pow_long(a: Scalar, y: Scalar) -> Scalar:
    """a^y for a >= 0 of f64: the logarithm as an unevaluated sum of two doubles."""
    e, f = split(a)
    divisor = f + 2.0
    inverse = 1.0 / divisor
    s = f * inverse
    s_low = inverse * fma(-s, f - (divisor - 2.0), fma(-s, divisor, f))
    z = s * s
    z_low = fma(s, s, -z) + 2.0 * s * s_low
    third, third_low, _ = table.THIRD["f64"]
    u = z * polynomial(table.LOG_TAIL["f64"], z)
    w = u + third
    w_low = (third - w) + u + third_low
    # v = z·w, then log2(1 + f) = c·s·(1 + v).
    v, v_low = product(z, z_low, w, w_low)
    one = v + 1.0
    one_low = (1.0 - one) + v + v_low
    c, c_low, _ = table.TWICE_LOG2_E["f64"]
    cs = s * c
    cs_low = fma(s, c, -cs) + fma(s, c_low, s_low * c)
    low_part, rest = product(cs, cs_low, one, one_low)
    high = e + low_part
    low = (e - high) + low_part + rest
    high = select(a < INF, select(a == 0, -INF, high), INF)
    power = y * high
    lost = fma(y, high, -power) + y * low
    inside = fabs(power) < 1100.0
    power = clamp(power, *EXP2_RANGE["f64"])
    fmt = FORMATS["f64"]
    magic = fmt.magic + 2 * fmt.bias
    t = power + magic
    n = t - magic
    r = (power - n) + select(inside, lost, 0.0)
    first, second = halves(t, n)
    return fma(polynomial(table.EXP2["f64"], r), r, 1.0) * first * second
