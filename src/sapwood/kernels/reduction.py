"""Angles of any size modulo pi: the product with 1/pi as a long integer (Payne and Hanek, SIGNUM 18(1), 1983).

A float is m·2^q with an integer m. Of 1/pi only the digits from 2^-q on matter, because the ones before give multiples
of 2; they are picked from a table of 32-bit words by the exponent, shifted, and multiplied by m modulo 2.
"""

from __future__ import annotations

from . import coefficients as table
from .machine import FORMATS, INF, NAN, float_of, format_of, with_sign
from .scalar import Scalar, bitcast, const, convert, fma, lshr, select

__all__ = ["turns"]

PAD = 32
"""Zero digits put before those of 1/pi, for exponents q down to -32."""
LOW = 0xFFFFFFFF


def turns(a: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Subtract the nearest multiple k·pi/2 from a large positive number.

    Args:
        a: finite, at least 2^16 (f32) or 2^29 (f64); otherwise the result has no meaning, NaN if a is infinite.

    Returns:
        the remainder as a sum of two numbers, and an integer of the float's size with k's last two binary digits.
    """
    f = format_of(a)
    # words[0] has the parity of a/pi and 31 binary places, the others 32 each.
    words = _short_product(a) if f.name == "f32" else _long_product(a)
    # Two digits of the multiple of pi/2; the nearest integer is the next one from 1/2 on.
    quadrant = lshr((words[0] + 0x20000000) & LOW, 30)
    words = _doubled(_doubled(words))
    # Now a fraction modulo 1; from 1/2 on it stands for the negative number that its complement has.
    negative = lshr(words[0], 31)
    mask = (-negative) & LOW
    high, low = _times_half_pi([w ^ mask for w in words])
    high, low = (with_sign(x, negative << 63) for x in (high, low))
    if f.name == "f32":
        rounded = convert(high, "f32")
        high, low, quadrant = rounded, convert(high - convert(rounded, "f64"), "f32"), convert(quadrant, "i32")
    return select(a < INF, high, NAN), low, quadrant


def _doubled(words: list[Scalar]) -> list[Scalar]:
    """Shift a number of 32-bit words one place to the left."""
    carries = [lshr(w, 31) for w in words[1:]]
    return [(w << 1) & LOW | carry for w, carry in zip(words, carries)] + [(words[-1] << 1) & LOW]


def _times_half_pi(words: list[Scalar]) -> tuple[Scalar, Scalar]:
    """Return pi/2 · (words[0]·2^-32 + words[1]·2^-64 + …) as a sum of two numbers in f64."""
    f = FORMATS["f64"]
    high, low = (c * 2.0**-32 for c in table.HALF_PI["f64"][:2])
    step = 2.0**-32
    first, second, third = (float_of(w, f) for w in words[:3])
    # Pieces of falling size: each sum's rounding is made up for by the second number.
    a = first * high
    b = second * (high * step)
    total = a + b
    lost = fma(first, high, -a) + ((a - total) + b)
    lost = lost + fma(first, low, fma(second, low * step, third * (high * step * step)))
    result = total + lost
    return result, (total - result) + lost


def _window(field: Scalar, most: int, count: int) -> list[Scalar]:
    """Return `count` words of 1/pi from binary place `field` of the table on; field < 32·most."""
    total = 32 * 42
    digits = table.INVERSE_PI << (total - 1280 - PAD - 1)
    words = [const((digits >> (total - 32 * (i + 1))) & LOW, "i64") for i in range(most + count)]
    # Halve the table by each binary digit of the word's number, the highest first.
    step = 1 << (most - 1).bit_length()
    while step > 1:
        step //= 2
        chosen = (field & (32 * step)) != 0
        keep = count + step
        words = [
            select(chosen, words[i + step], words[i]) if i + step < len(words) else words[i]
            for i in range(min(keep, len(words)))
        ]
    places = field & 31
    return [lshr(((words[i] << 32) | words[i + 1]) << places, 32) for i in range(count)]


def _short_product(a: Scalar) -> list[Scalar]:
    """Return a/pi modulo 2 of an f32: 95 binary places."""
    bits = convert(bitcast(a, "i32"), "i64")
    m = (bits & 0x7FFFFF) | 0x800000
    w = _window(lshr(bits, 23) - (150 - PAD), 5, 3)
    products = [m * x for x in w]
    c2 = products[2] & LOW
    c1 = (products[1] & LOW) + lshr(products[2], 32)
    c0 = products[0] + lshr(products[1], 32) + lshr(c1, 32)
    return [c0 & LOW, c1 & LOW, c2]


def _long_product(a: Scalar) -> list[Scalar]:
    """Return a/pi modulo 2 of an f64: 127 binary places, the last two of them uncertain."""
    bits = bitcast(a, "i64")
    low = bits & LOW
    high = (lshr(bits, 32) & 0xFFFFF) | 0x100000
    w = _window(lshr(bits, 52) - (1075 - PAD), 32, 6)
    lows = [low * x for x in w]
    highs = [high * x for x in w]
    carry = const(0, "i64")
    words = []
    for j in (3, 2, 1, 0):
        column = (lows[j] & LOW) + lshr(lows[j + 1], 32) + (highs[j + 1] & LOW) + lshr(highs[j + 2], 32) + carry
        words.append(column & LOW)
        carry = lshr(column, 32)
    return words[::-1]
