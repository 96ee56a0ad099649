"""Uniform integers of every dtype: `random_` and `randint`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sapwood.errors import DtypeError, ValueRangeError
from sapwood.random.draws import assign, finfo, is_floating
from sapwood.random.generator import Generator, default_generator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    Array = NDArray[Any]
    A = TypeVar("A", bound=NDArray[Any])

__all__ = ["randint", "random_"]

_LEAST, _MOST = -(2**63), 2**63 - 1


def random_(
    out: A, low: int | None = None, high: int | None = None, *, generator: Generator | None = None
) -> A:  # fmt: skip
    """Fill out with uniform integers, whatever its dtype.

    Without bounds they lie in [0, largest integer of the dtype], or [0, 2**significand] for a real dtype. With low
    alone the upper end is the same; low = -2**63 alone means all 64 bits. With both they lie in [low, high).

    Raises:
        ValueRangeError: low >= high, or a bound that the dtype cannot hold.
        DtypeError: out is complex.
    """
    dtype = out.dtype
    if dtype.kind not in "biu" and not is_floating(dtype):
        raise DtypeError(f"random_: expected an integer, bool or real dtype, got {dtype}")
    g = generator or default_generator
    n = out.size
    if low is None and high is None:
        if dtype.kind == "u" and dtype.itemsize > 1:
            raise DtypeError(f"random_: {dtype} needs bounds; pass low and high")
        words = g.words64(n) if dtype in (np.int64, np.float64) else g.words(n)
        return _store(out, _mod(words, 1 + _top(dtype)), 0)
    low = 0 if low is None else low
    if high is None and low == _LEAST:
        if dtype != np.int64 and not (is_floating(dtype) and dtype != np.float16):
            raise ValueRangeError(f"random_: only int64 and wide real dtypes hold all 64-bit integers, got {dtype}")
        return _store(out, g.words64(n), 0)
    if high is None:
        low = _round_low(low, dtype)
        last = _top(dtype)
        if low > last or (is_floating(dtype) and low == last):
            raise ValueRangeError(f"random_: low must not exceed {last} for {dtype}, got {low}")
    else:
        if low < high:
            low, high = _round_low(low, dtype), _round_high(high, dtype)
        if low >= high:
            raise ValueRangeError(f"random_: expected low < high in {dtype}, got low={low}, high={high}")
        last = high - 1
    _check_bounds(low, last, dtype)
    span = (last - low + 1) % 2**64
    words = g.words64(n) if span >= 2**28 or span == 0 else g.words(n)
    return _store(out, _mod(words, span), low)


def randint(
    low: int, high: int, shape: Sequence[int], dtype: DTypeLike = np.int64, *, generator: Generator | None = None
) -> Array:
    """Return uniform integers in [low, high)."""
    return random_(np.empty(shape, dtype), low, high, generator=generator)


def _top(dtype: np.dtype[Any]) -> int:
    """Return the largest integer that random_ draws for dtype when no upper bound is given."""
    if dtype.kind == "b":
        return 1
    if dtype.kind in "iu":
        return min(int(np.iinfo(dtype).max), _MOST)
    return 1 << finfo(dtype)[1]


def _mod(words: NDArray[np.uint64], span: int) -> NDArray[np.uint64]:
    """Return words mod span, in place; 0 stands for 2**64."""
    if span & (span - 1) == 0:
        words &= np.uint64((span - 1) % 2**64)
        return words
    divisor = np.uint64(span)
    quotient = words // divisor  # NumPy divides by a constant with SIMD; its remainder does not
    quotient *= divisor
    words -= quotient
    return words


def _store(out: A, offset: NDArray[np.uint64], low: int) -> A:
    values = offset.view(np.int64)
    if low:
        values += np.int64(low)  # wraps as two's complement does
    if out.dtype.itemsize == 2 and is_floating(out.dtype):
        return assign(out, values.astype(np.float32))
    return assign(out, values)


def _as(dtype: np.dtype[Any], value: int) -> int:
    """Return the integer that value becomes in a real dtype (float16 and bfloat16 by way of float32)."""
    wide = np.float64(value) if dtype == np.float64 else np.float32(value)
    with np.errstate(over="ignore"):
        rounded = float(np.asarray(wide).astype(dtype))
    return int(rounded) if abs(rounded) < 2.0**63 else _LEAST


def _round_low(low: int, dtype: np.dtype[Any]) -> int:
    """Return the least integer from low on that survives rounding to a real dtype."""
    if is_floating(dtype) and (after := _as(dtype, low + 1)) < low:
        return after + (1 << max(abs(low + 1).bit_length() - finfo(dtype)[1], 0))
    return low


def _round_high(high: int, dtype: np.dtype[Any]) -> int:
    """Return the greatest bound up to high below which integers stay when rounded to a real dtype."""
    if is_floating(dtype) and (before := _as(dtype, high - 1)) >= high:
        return before - (1 << max(abs(high - 1).bit_length() - finfo(dtype)[1], 0))
    return high


def _check_bounds(low: int, last: int, dtype: np.dtype[Any]) -> None:
    if is_floating(dtype):
        largest, digits = finfo(dtype)
        fits = -largest <= low and last <= largest
        if fits and not (-(2**digits) <= low <= 2**digits and -(2**digits) <= last <= 2**digits):
            warnings.warn(
                f"random_: {dtype} holds every integer only up to 2**{digits}; of those from {low} to {last} some "
                "cannot come up and others come up more often",
                UserWarning,
                stacklevel=4,
            )
    else:
        kind = np.iinfo(dtype) if dtype.kind in "iu" else None
        least = max(int(kind.min), _LEAST) if kind else 0
        fits = least <= low and last <= _top(dtype)
    if not fits:
        raise ValueRangeError(f"random_: [{low}, {last}] does not fit {dtype}; use a wider dtype or narrower bounds")
