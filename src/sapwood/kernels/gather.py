"""Elements of arrays from and to indexed places along one dimension, by native code.

Indices are int64, have been found to lie in range, and count from 0. What is combined into one place is combined in the
order of the indices, however many threads there are.
"""

from __future__ import annotations

import functools
import struct
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

Array = ndarray[Any, Any]

KINDS = {"f": "f32", "d": "f64", "l": "i64", "q": "i64"}
"""Types that are combined, by NumPy's letter."""
MOVED = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
"""Types that are moved, by their size."""
_WORDS = struct.Struct("17q")
COLUMNS = 64
"""Columns of a unit, at least: a few cache lines."""
UNITS = 8
"""Units wanted, so that threads share the work evenly."""
PART = 4096
"""Elements of a unit of gathering."""


@functools.cache
def _scatter(how: str, dtype: str) -> tuple[Any, Any]:
    return _loaded(lambda text: text.scatter(how, dtype))


@functools.cache
def _gather(dtype: str) -> tuple[Any, Any]:
    return _loaded(lambda text: text.gather(dtype))


def _loaded(make: Any) -> tuple[Any, Any]:
    """Return the builtins `rows` and `elements` of a text."""
    from . import direct, engine, gather_text

    found = engine.load(make(gather_text), ["rows", "elements"])
    return direct.make("rows", found["rows"]), direct.make("elements", found["elements"])


def combines(dtype: Any) -> bool:
    """Return whether `combine` knows the type."""
    return dtype.char in KINDS


def moves(dtype: Any) -> bool:
    """Return whether `bring` knows the type."""
    return dtype.itemsize in MOVED


def fold(x: Array, dim: int) -> Array:
    """Return an array as (outer, n, inner) around one of its dimensions; a view where that is possible."""
    shape = x.shape
    return x.reshape(prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :]))


def combine(
    how: str, out: Array, index: Array, other: Array, second: Array | None = None, factors: Array | None = None
) -> None:
    """Combine `other` into places of `out`, in place.

    Args:
        how: "add", "multiply", "maximum", "minimum" or "set".
        out: (outer, rows, inner), contiguous, float32, float64 or int64.
        index: (outer, n, inner), or strides of 0 where it is the same: the row each element goes to.
        other: (outer, n, inner), dtype of out.
        second: (n,), the row of `other` that is taken in place of the next one; needs an index that is the same for
            all columns.
        factors: (n,), what rows of `other` are multiplied by, likewise.
    """
    outer, n, inner = index.shape
    item = out.itemsize
    rows = index.strides[2] == 0 and other.strides[2] == item and inner > 1
    if second is not None and not rows:
        # Columns far apart, or one alone: bring the rows together first.
        taken = other[:, second]
        combine(how, out, index, taken if factors is None else taken * factors[:, None])
        return
    chunks = 1 if outer >= UNITS else max(1, min(-(-UNITS // outer), inner // COLUMNS))
    chunk = -(-inner // chunks)
    chunk = -(-chunk // COLUMNS) * COLUMNS if chunks > 1 else chunk
    chunks = -(-inner // chunk)
    words = _WORDS.pack(
        outer * chunks, 1, outer * n * inner // 2 + outer * n, n, inner, chunk, chunks, out.strides[0], out.strides[1],
        *index.strides, *other.strides, 0, 0 if second is None else second.strides[0],
    )  # fmt: skip
    _scatter(how, KINDS[out.dtype.char])[not rows](words, out, index, other, second, factors)


def bring(x: Array, index: Array, out: Array) -> None:
    """Write x[o, index[o, i, j], j] to out[o, i, j].

    Args:
        x: (outer, rows, inner).
        index: (outer, n, inner), or strides of 0 where it is the same.
        out: (outer, n, inner), dtype of x.
    """
    outer, n, inner = index.shape
    item = x.itemsize
    together = x.strides[2] == out.strides[2] == item
    rows = index.strides[2] == 0 and together and inner > 1
    chunk = max(1, PART // inner)
    chunks = -(-n // chunk)
    words = _WORDS.pack(
        outer * chunks, 1, outer * n * inner // (4 if rows else 1), n, inner, chunk, chunks, x.strides[0], x.strides[1],
        *index.strides, *out.strides, 0, x.strides[2],
    )  # fmt: skip
    _gather(MOVED[item])[not rows](words, x, index, out)


def wide(index: Array) -> Array:
    """Return indices as aligned int64."""
    return index if index.dtype == np.int64 and index.flags.aligned else index.astype(np.int64)


def along(index: Array, outer: int, inner: int) -> Array:
    """Return indices (n,) as (outer, n, inner), the same for all."""
    return np.broadcast_to(index[None, :, None], (outer, index.size, inner))


__all__ = ["along", "bring", "combine", "combines", "fold", "moves", "wide"]
