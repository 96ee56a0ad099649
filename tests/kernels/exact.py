"""What the formulas are measured against: exact values of each function, and errors in units in the last place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
import scipy.special

mpmath.mp.prec = 160
mpf = mpmath.mpf
DIGITS = {"f32": 23, "f64": 52}
SMALLEST = {"f32": -149, "f64": -1074}
KINDS = {"f32": np.float32, "f64": np.float64}


def _positive(x: Any, f: Callable[[Any], Any]) -> Any:
    return f(x) if x > 0 else mpf("-inf") if x == 0 else mpmath.nan


def _log1pexp(x: Any) -> Any:
    return np.where(x > 40, x + np.exp(-x), np.log1p(np.exp(np.minimum(x, 41))))


# Name: (reference in double for float32, reference in mpmath for float64, intervals of dense points).
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[tuple[float, float], ...]]] = {
    "exp": (np.exp, mpmath.exp, ((-750, 712), (-1, 1))),
    "exp2": (np.exp2, lambda x: mpf(2) ** x, ((-1080, 1025), (-1, 1))),
    "expm1": (np.expm1, mpmath.expm1, ((-40, 712), (-1.5, 1.5))),
    "log": (np.log, lambda x: _positive(x, mpmath.log), ((0, 4), (0.99, 1.01), (0, 1e-307))),
    "log2": (np.log2, lambda x: _positive(x, lambda v: mpmath.log(v, 2)), ((0, 4), (0.99, 1.01), (0, 1e-307))),
    "log10": (np.log10, lambda x: _positive(x, mpmath.log10), ((0, 4), (0.99, 1.01), (0, 1e-307))),
    "log1p": (np.log1p, lambda x: _positive(1 + x, lambda v: mpmath.log1p(x)), ((-1, 3), (-0.1, 0.1), (0, 1e18))),
    "tanh": (np.tanh, mpmath.tanh, ((-22, 22), (-1, 1))),
    "sigmoid": (lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (1 + np.exp(-np.abs(x))),
                lambda x: 1 / (1 + mpmath.exp(-x)), ((-750, 40), (-2, 2))),
    "sinh": (np.sinh, mpmath.sinh, ((-712, 712), (-2, 2))),
    "cosh": (np.cosh, mpmath.cosh, ((-712, 712), (-2, 2))),
    "asinh": (np.arcsinh, mpmath.asinh, ((-4, 4), (-1e9, 1e9))),
    "acosh": (np.arccosh, lambda x: mpmath.acosh(x) if x >= 1 else mpmath.nan, ((1, 4), (1, 1.001), (1, 1e9))),
    "atanh": (np.arctanh, lambda x: mpmath.nan if abs(x) > 1 else mpmath.atanh(x) if abs(x) < 1 else x * mpf("inf"),
              ((-1, 1), (-0.1, 0.1))),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda x: x**-0.5 if x > 0 else mpmath.nan, ((0, 4),)),
    "sin": (np.sin, mpmath.sin, ((-4, 4), (-1e4, 1e4), (-1e10, 1e10))),
    "cos": (np.cos, mpmath.cos, ((-4, 4), (-1e4, 1e4), (-1e10, 1e10))),
    "tan": (np.tan, mpmath.tan, ((-4, 4), (-1e4, 1e4), (-1e10, 1e10))),
    "asin": (np.arcsin, lambda x: mpmath.asin(x) if abs(x) <= 1 else mpmath.nan, ((-1, 1), (-0.01, 0.01))),
    "acos": (np.arccos, lambda x: mpmath.acos(x) if abs(x) <= 1 else mpmath.nan, ((-1, 1), (0.999, 1))),
    "atan": (np.arctan, mpmath.atan, ((-4, 4), (-1000, 1000))),
    "erf": (scipy.special.erf, mpmath.erf, ((-6, 6), (-1.1, 1.1))),
    "erfc": (scipy.special.erfc, mpmath.erfc, ((-6, 27.5), (-1, 1), (5, 26))),
    "gelu": (lambda x: x * scipy.special.ndtr(x), lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
             ((-39, 10), (-1, 1))),
    "gelu_tanh": (lambda x: x * scipy.special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)),
                  lambda x: x / (1 + mpmath.exp(-2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpf("0.044715") * x**3))),
                  ((-30, 10), (-1, 1))),
    "silu": (lambda x: x * scipy.special.expit(x), lambda x: x / (1 + mpmath.exp(-x)), ((-760, 40), (-2, 2))),
    "softplus": (lambda x: np.where(x > 20, x, _log1pexp(x)),
                 lambda x: x if x > 20 else mpmath.log1p(mpmath.exp(x)), ((-750, 40), (-2, 2))),
    "logsigmoid": (lambda x: 0 - _log1pexp(-x), lambda x: -mpmath.log1p(mpmath.exp(-x)), ((-40, 750), (-2, 2))),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(x)), lambda x: x if x > 0 else mpmath.expm1(x), ((-40, 4),)),
    "mish": (lambda x: x * np.tanh(_log1pexp(x)), lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))),
             ((-750, 40), (-2, 2))),
    "hardswish": (lambda x: x * (np.clip(x + 3, 0, 6) / 6), lambda x: x * min(max(x + 3, 0), 6) / 6, ((-4, 4),)),
    "pow": (np.power, lambda x, y: x**y, ()),
    "atan2": (np.arctan2, mpmath.atan2, ()),
}  # fmt: skip


def ulps(got: Any, exact: Any, dtype: str) -> Any:
    """Return errors in units in the last place of `exact`, which has more digits than `got`."""
    with np.errstate(all="ignore"):
        exponent = np.frexp(exact)[1] - 1
        unit = np.ldexp(np.ones_like(exact), np.maximum(exponent - DIGITS[dtype], SMALLEST[dtype]).astype(int))
        error = np.abs(got.astype(exact.dtype) - exact) / unit
        rounded = exact.astype(got.dtype)
    # One unit beyond the largest number an infinity is a neighbour.
    largest = np.finfo(got.dtype).max
    near = np.isinf(got) & (np.abs(exact) >= largest) & (np.sign(got) == np.sign(exact))
    near |= np.isinf(rounded) & (np.abs(got) == largest) & (np.sign(got) == np.sign(exact))
    error = np.where((got == rounded) | near, np.where(np.isinf(got) | np.isinf(rounded), 0, error), error)
    error = np.where(np.isnan(got) & np.isnan(exact), 0, error)
    error = np.where((got == 0) & (exact == 0) & (np.signbit(got) != np.signbit(exact)), np.inf, error)
    return np.where(np.isnan(error), np.inf, error)


def singles(step: int) -> Iterator[Any]:
    """Yield every step-th float32, in blocks."""
    yield np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0], np.float32)
    block = 1 << 22
    for start in range(0, 1 << 32, block * step):
        yield np.arange(start, min(start + block * step, 1 << 32), step, dtype=np.uint32).view(np.float32)


def doubles(intervals: tuple[tuple[float, float], ...], count: int, rng: Any) -> Any:
    """Return random doubles: of every bit pattern, of moderate size, in the intervals, and the special ones."""
    sign = rng.choice([-1.0, 1.0], count)
    parts = [
        rng.integers(0, 1 << 64, count, dtype=np.uint64).view(np.float64),
        sign * np.exp(rng.uniform(-40, 10, count)),
        *[rng.uniform(a, b, count) for a, b in intervals],
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, 5e-324, 2.2e-308, 1.7e308, 709.78, -745.13],
    ]
    return np.concatenate(parts)


def long(value: Any) -> Any:
    """Return an mpmath number as a longdouble (64 digits)."""
    if mpmath.isnan(value) or mpmath.isinf(value) or value == 0:
        return np.longdouble(float(value))
    mantissa, exponent = mpmath.frexp(value)
    exponent = min(max(exponent, -16000), 16000)
    top = int(mpmath.nint(mantissa * 2**64))
    return np.ldexp(np.longdouble(top >> 32) * 2**32 + np.longdouble(top & 0xFFFFFFFF), int(exponent) - 64)


def exactly(f: Callable[..., Any], *operands: Any) -> Any:
    """Return f of each row of doubles, with mpmath, as longdoubles; NumPy's answer where an operand is special."""
    out = np.empty(len(operands[0]), np.longdouble)
    for i, row in enumerate(zip(*operands)):
        out[i] = long(f(*map(mpf, map(float, row))))
    return out


def truth(double: Callable[..., Any], exact: Callable[..., Any], row: tuple[Any, ...]) -> Any:
    """Return the true values as longdoubles: from mpmath, and NumPy's where an operand or the result is special."""
    want = double(*row)
    regular = np.isfinite(want) & (want != 0) & np.all([np.isfinite(x) for x in row], axis=0)
    regular &= (len(row) == 1) | np.all([x != 0 for x in row], axis=0)
    regular |= np.isinf(want) & np.all([np.isfinite(x) & (x != 0) for x in row], axis=0)
    want = want.astype(np.longdouble)
    want[regular] = exactly(exact, *(x[regular] for x in row))
    return want


def operands(name: str, dtype: str, step: int, count: int, intervals: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    if name not in ("pow", "atan2"):
        if dtype == "f32":
            yield from ((x,) for x in singles(step))
        else:
            yield (doubles(intervals, count, rng),)
        return
    special = np.array([0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e-40, 1e38, -1e38, 1e300])
    x, y = (v.ravel().astype(KINDS[dtype]) for v in np.meshgrid(special, special))
    yield x, y
    n = count if dtype == "f64" else 200 * count
    if name == "atan2":
        yield tuple((rng.standard_normal(n) * np.exp(rng.uniform(-5, 5, n))).astype(KINDS[dtype]) for _ in range(2))
        yield tuple(rng.integers(0, 1 << 64, n, dtype=np.uint64).view(KINDS[dtype])[:n] for _ in range(2))
        return
    # Exponents that put x^y anywhere between the smallest and the largest number.
    top = 150 if dtype == "f32" else 1080
    for spread in (1e-6, 0.7, 80.0 if dtype == "f32" else 700.0):
        x = np.exp(rng.uniform(-spread, spread, n)).astype(KINDS[dtype])
        y = (rng.uniform(-top, top, n) / np.where(x == 1, 1, np.log2(x.astype(np.float64)))).astype(KINDS[dtype])
        yield x, y
    yield -rng.integers(1, 40, n).astype(KINDS[dtype]), rng.integers(-30, 30, n).astype(KINDS[dtype])
