"""What the formulas of the vector maths know of the two float formats, and the steps they share."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import DtypeError
from .coefficients import Table
from .scalar import Scalar, bitcast, const, convert, fma, select

__all__ = [
    "FORMATS",
    "INF",
    "NAN",
    "Format",
    "clamp",
    "float_of",
    "format_of",
    "polynomial",
    "power_of_two",
    "product",
    "sign_of",
    "two_sum",
    "with_sign",
]

INF = float("inf")
NAN = float("nan")


@dataclass(frozen=True)
class Format:
    """One binary float format."""

    name: str
    bits: str
    """Integer type of the same size."""
    digits: int
    """Explicit bits of the significand."""
    bias: int

    @property
    def magic(self) -> float:
        """1.5·2^digits: adding it rounds to an integer that the low bits of the sum then hold."""
        return 1.5 * 2.0**self.digits

    @property
    def one(self) -> int:
        """The bits of 1.0."""
        return self.bias << self.digits

    @property
    def top(self) -> int:
        """The place of the sign bit."""
        return 31 if self.name == "f32" else 63

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << self.top

    @property
    def smallest(self) -> float:
        """The smallest number with all its digits."""
        return 2.0 ** (1 - self.bias)


FORMATS = {"f32": Format("f32", "i32", 23, 127), "f64": Format("f64", "i64", 52, 1023)}


def format_of(x: Scalar) -> Format:
    """Return the format of a float Scalar."""
    found = FORMATS.get(x.dtype)
    if found is None:
        raise DtypeError(f"formula: expected f32 or f64, got {x.dtype}; use convert(x, dtype)")
    return found


def polynomial(table: Table, x: Scalar) -> Scalar:
    """Evaluate a polynomial, coefficients from the lowest up, by Horner's rule: in a loop over many elements the
    number of instructions counts, not how long one chain takes."""
    total = const(table[-1], x.dtype)
    for c in reversed(table[:-1]):
        total = fma(total, x, c)
    return total


def clamp(x: Scalar, low: float, high: float) -> Scalar:
    """Limit x to [low, high]; NaN stays."""
    x = select(x < low, low, x)
    return select(x > high, high, x)


def power_of_two(exponent: Scalar) -> Scalar:
    """Return 2^(e - bias) for the integer e in the low bits of a float that `Format.magic` was added to."""
    f = format_of(exponent)
    return bitcast(bitcast(exponent, f.bits) << f.digits, f.name)


def float_of(bits: Scalar, f: Format) -> Scalar:
    """Return a non-negative integer below 2^(digits) as a float: in 64 bits without the conversion that AVX2 lacks."""
    if f.name == "f32":
        return convert(bits, "f32")
    return bitcast(bits | (1075 << 52), "f64") - 2.0**52


def sign_of(x: Scalar) -> Scalar:
    """Return the sign bit of x in place, as an integer."""
    f = format_of(x)
    return bitcast(x, f.bits) & f.sign


def with_sign(x: Scalar, sign: Scalar) -> Scalar:
    """Flip the sign of x where the integer `sign` has the sign bit."""
    f = format_of(x)
    return bitcast(bitcast(x, f.bits) ^ sign, f.name)


def two_sum(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """Return x + y rounded, and exactly what rounding lost (Knuth)."""
    total = x + y
    of_y = total - x
    return total, (x - (total - of_y)) + (y - of_y)


def product(x: Scalar, x_low: Scalar, y: Scalar, y_low: Scalar) -> tuple[Scalar, Scalar]:
    """Return the product of two sums of two numbers as a sum of two."""
    high = x * y
    return high, fma(x, y, -high) + fma(x, y_low, x_low * y)
