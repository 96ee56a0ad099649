"""Elementary functions and fused multiply-adds, rounded as PyTorch's compiled loops round them.

NumPy's own float64 loops are vectorised and differ from the C library in the last digit on some machines.
PyTorch's serial random kernels call the C library, and its compiler contracts `a*b + c` to one rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


_BATCH = 16384
"""Elements worked on together, so that what lies between two passes stays in the cache."""


def libm(function: Callable[[float], float], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Apply a function of `math`, that is of the C library, to each element of x: (n,), float64."""
    try:
        return np.fromiter(map(function, x.tolist()), np.float64, x.size)
    except (ValueError, OverflowError):  # Python raises where C returns an infinity or NaN
        with np.errstate(all="ignore"):
            out: NDArray[np.float64] = getattr(np, function.__name__)(x)
            return out


def sincos(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return sin x and cos x as the C library rounds them: its complex exponential calls both, in one NumPy loop."""
    z = np.zeros(x.size, np.complex128)
    z.imag = x
    np.exp(z, out=z)
    return z.imag, z.real


def fma64(a: NDArray[np.float64], b: float, c: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a·b + c, c a number or (n,), with a single rounding: (n,), float64.

    The product and the sum are split into value and error; the error is rounded to odd, so that the last addition
    rounds as if it were the only one.

    Reference: Boldo and Melquiond, Emulation of FMA and correctly rounded sums, IEEE Trans. Computers 57 (2008).
    """
    if b == 1.0 and np.ndim(c) == 0 and c == 0.0:
        return a
    if a.size > _BATCH:
        parts = [slice(i, i + _BATCH) for i in range(0, a.size, _BATCH)]
        return np.concatenate([fma64(a[i], b, c[i] if isinstance(c, np.ndarray) else c) for i in parts])
    with np.errstate(all="ignore"):
        product, below = _two_product(a, np.float64(b))
        plain = product + c
        high, low = _two_sum(product, np.broadcast_to(np.asarray(c, np.float64), product.shape))
        tail, rest = _two_sum(low, below)
        bits = tail.view(np.int64)
        nudge = (rest != 0) & ((bits & 1) == 0)
        towards = np.where((rest > 0) == (tail > 0), np.int64(1), np.int64(-1))
        odd = np.where(nudge, bits + towards, bits).view(np.float64)
        return np.where(np.isfinite(high + odd), high + odd, plain)


def _two_sum(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _two_product(a: NDArray[np.float64], b: np.float64) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    split = 134217729.0  # 2**27 + 1 halves a 53-bit significand
    ah = a * split - (a * split - a)
    bh = b * split - (b * split - b)
    al, bl = a - ah, b - bh
    p = a * b
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def fma32(a: NDArray[np.float32], b: float, c: float) -> NDArray[np.float32]:
    """Return a·b + c with a single rounding; b and c are rounded to float32 first: (n,), float32.

    The product is exact in float64. The sum there is rounded, which matters only where it falls midway between two
    float32 numbers; those elements are moved to the side on which the exact sum lies.
    """
    bw, cw = float(np.float32(b)), float(np.float32(c))
    if bw == 1.0 and cw == 0.0:
        return a
    out = np.empty_like(a)
    for start in range(0, a.size, _BATCH):
        product = a[start : start + _BATCH].astype(np.float64)
        product *= bw
        total = product + cw
        midway = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
        if midway.any():
            _, error = _two_sum(product[midway], np.full(int(midway.sum()), cw))
            tie = total[midway]
            total[midway] = np.where(error == 0, tie, np.nextafter(tie, np.copysign(np.inf, error)))
        out[start : start + _BATCH] = total
    return out
