"""Euclidean norms of arrays of any element type, as cheaply as one pass allows, and what a histogram is made from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["drawn", "norm", "odd"]

# Below, squares of float32 elements have lost digits; above, their sum is not finite.
LEAST, MOST = 1e-30, math.inf
# As many elements of a large tensor go into its histogram: enough for 32 bins within a few percent.
DRAWN = 2048


def norm(array: Any) -> float:
    """Return the Euclidean norm; NaN or an infinity if an element is one.

        sqrt(sum |a|²)

    One BLAS call where that is accurate, scaled float64 arithmetic where squares would overflow or vanish.
    """
    flat = flattened(array)
    kind = flat.dtype.kind
    squares = float(np.vdot(flat, flat).real if kind == "c" else np.dot(flat, flat))
    return math.sqrt(squares) if LEAST < squares < MOST else scaled(flat)


def flattened(array: Any) -> Any:
    """Return the elements as a vector that BLAS knows: a view where memory is contiguous."""
    flat = array.ravel("K")
    # 16-bit floats and integers would be summed in their own few digits.
    return flat if flat.dtype.char in "fdFD" else flat.astype(np.float32 if flat.dtype.itemsize <= 2 else np.float64)


def scaled(flat: Any) -> float:
    magnitudes = np.abs(flat).astype(np.float64)
    largest = float(magnitudes.max()) if magnitudes.size else 0.0
    if not math.isfinite(largest) or not largest:
        return largest
    return largest * float(np.sqrt(np.square(magnitudes / largest).sum()))


def odd(array: Any) -> tuple[str, int]:
    """Return what is not finite in an array, "NaN", "infinity" or "", and how many elements are not."""
    flat = flattened(array)
    finite = int(np.isfinite(flat).sum())
    return ("NaN" if np.isnan(flat).any() else "infinity" if finite < flat.size else ""), flat.size - finite


def drawn(array: Any) -> Any:
    """Return a copy of at most DRAWN elements at equal distances, as real numbers."""
    flat = array.ravel("K")
    some = flat[:: -(-flat.size // DRAWN) or 1]
    return np.abs(some) if some.dtype.kind == "c" else some.astype(np.float32 if some.dtype.itemsize <= 4 else float)
