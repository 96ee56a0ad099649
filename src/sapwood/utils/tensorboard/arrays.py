"""Tensors as the NumPy arrays that event files are made from."""

from __future__ import annotations

from typing import Any

import numpy as np

from sapwood.errors import DtypeError
from sapwood.tensor import Tensor

__all__ = ["array", "plain"]


def array(what: str, value: Any) -> Any:
    """Return a tensor, or anything NumPy understands, as an array of a type that event files know.

    16-bit floats become float32. `what` names the caller in errors.

    Raises:
        DtypeError: the elements are complex, or no numbers.
    """
    if isinstance(value, list | tuple) and any(isinstance(v, Tensor) for v in value):
        found = np.stack([array(what, v) for v in value])
    else:
        found = value._array if isinstance(value, Tensor) else np.asarray(value)
    if found.dtype.kind == "c":
        raise DtypeError(f"{what}: complex values have no place in event files; give .real, .imag or .abs()")
    if found.dtype.kind not in "biufV" or (found.dtype.kind == "V" and found.dtype.name != "bfloat16"):
        raise DtypeError(f"{what}: expected numbers, got {found.dtype}")
    # float16 too: sums over a histogram would not fit.
    return found.astype(np.float32) if found.dtype.name in ("bfloat16", "float16") else found


def plain(value: Any) -> Any:
    """Return what holds one element of NumPy or a tensor as a Python number, anything else as it is."""
    array = value._array if isinstance(value, Tensor) else value
    return array.item() if isinstance(array, np.generic | np.ndarray) else value
