"""Running sums, products and extremes of arrays along one dimension, by native code."""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np
from numpy import ndarray

from .gather import KINDS, fold

Array = ndarray[Any, Any]

_WORDS = struct.Struct("16q")
BESIDE = 8
"""Lines side by side from which they are computed in vectors."""


@functools.cache
def _kernels(how: str, dtype: str) -> tuple[Any, ...]:
    from . import direct, engine, scan_text

    found = engine.load(scan_text.text(how, dtype), scan_text.NAMES)
    return tuple(direct.make(n, found[n]) for n in scan_text.NAMES)


def scans(dtype: Any) -> bool:
    """Return whether there are kernels for the type."""
    return dtype.char in KINDS


def run(how: str, x: Array, dim: int, *, reverse: bool = False) -> tuple[Array, Array | None]:
    """Return the running "add", "multiply", "maximum" or "minimum", and for extremes the positions, (…), int64.

    Args:
        x: float32, float64 or int64, at least one dimension and one element, aligned.
        reverse: begin at the end of `dim`.
    """
    from .scan_text import COLUMNS, LINES

    out = np.empty(x.shape, x.dtype)
    extreme = how in ("maximum", "minimum")
    positions = np.empty(x.shape, np.int64) if extreme else None
    parts = [fold(x, dim), fold(out, dim)] + ([] if positions is None else [fold(positions, dim)])
    if reverse:
        parts = [p[:, ::-1] for p in parts]
    outer, n, inner = parts[0].shape
    columns = inner >= BESIDE and parts[0].strides[2] == x.itemsize
    chunks = -(-inner // COLUMNS)
    lines = outer * inner
    units = outer * chunks if columns else lines if lines < LINES else -(-lines // LINES)
    words = _WORDS.pack(
        units, 1, x.size * (1 if columns else 2), outer, n, inner, chunks,
        *parts[0].strides, *parts[1].strides, *(parts[2].strides if extreme else (0, 0, 0)),
    )  # fmt: skip
    _kernels(how, KINDS[x.dtype.char])[2 if columns else lines < LINES](words, *parts)
    return out, positions


__all__ = ["run", "scans"]
