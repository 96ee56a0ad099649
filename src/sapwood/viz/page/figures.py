"""An array in plain data: all elements of a small one, figures and a histogram of a large one."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

__all__ = ["FULL", "summary"]

# Arrays of at most this many elements are kept whole.
FULL = 64
BINS = 32


def summary(array: Any, *, full: bool = True) -> dict[str, Any]:
    """Describe an array by shape, dtype and norm, and by its elements or by what can be said about many of them.

    Args:
        full: with elements or histogram; without, only what the gradient-flow view needs.

    Returns:
        Data that JSON can carry: numbers are finite, an element that is not is written as text.
    """
    array = np.asarray(array)
    told: dict[str, Any] = {"shape": str(array.shape), "dtype": name_of(array.dtype), "size": int(array.size)}
    if array.size == 1 and array.dtype.kind == "f":
        # Most values of a long recurrence are single numbers, for which NumPy's ways are long.
        value = array.item()
        finite_one = math.isfinite(value)
        told["norm"] = abs(value) if finite_one else 0.0
        told["nan"], told["inf"], told["zero"] = int(value != value), int(math.isinf(value)), int(value == 0)
        if full:
            told["values"] = plain(array.tolist())
        return told
    numbers = np.abs(array) if array.dtype.kind == "c" else array
    with np.errstate(all="ignore"):
        numbers = numbers.astype(np.float64).reshape(-1)
        finite = numbers[np.isfinite(numbers)]
        largest = float(np.abs(finite).max()) if finite.size else 0.0
        # Scaled, so that squares of very large or very small elements neither overflow nor vanish.
        norm = largest * float(np.sqrt(np.square(finite / largest).sum())) if largest else 0.0
    told["norm"] = norm if math.isfinite(norm) else largest
    told["nan"] = int(np.isnan(numbers).sum())
    told["inf"] = int(np.isinf(numbers).sum())
    told["zero"] = int((numbers == 0).sum())
    if not full:
        return told
    if array.size <= FULL:
        told["values"] = plain(array.tolist())
    elif finite.size:
        with np.errstate(all="ignore"):
            told.update(min=float(finite.min()), max=float(finite.max()))
            told.update(mean=sound(finite.mean()), std=sound(finite.std()))
            if math.isfinite(told["max"] - told["min"]):
                told["bins"] = histogram(finite, told["min"], told["max"])
    return told


@cache
def name_of(dtype: Any) -> str:
    return str(dtype)


def sound(number: Any) -> Any:
    return float(number) if math.isfinite(number) else str(number)


def histogram(finite: Any, low: float, high: float) -> list[int]:
    """Count elements in equal bins; where the range is too narrow to be cut, all are in the middle one."""
    width = (high - low) / BINS
    if width == 0.0 or low + width == low or high - width == high:
        return [int(finite.size) if i == BINS // 2 else 0 for i in range(BINS)]
    place = np.minimum(((finite - low) / width).astype(np.int64), BINS - 1)
    return [int(n) for n in np.bincount(place, minlength=BINS)]


def plain(value: Any) -> Any:
    """Return nested lists in which every element is a number, or text where JSON has no such number."""
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)
