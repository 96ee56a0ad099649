"""`assert_close`: two tensors, or structures of them, agree within tolerances that depend on the dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..tensor import Tensor, wrap

TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex128": (1e-7, 1e-7),
}
"""dtype -> (rtol, atol), PyTorch's defaults."""


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol · |expected| everywhere.

    Args:
        actual, expected: tensors, arrays, numbers, or sequences and mappings of them.
        rtol, atol: give both or neither; by default by dtype, 0 for integers.
        equal_nan: NaN equals NaN.
    """
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close: give both rtol and atol, or neither")
    problem = _difference(actual, expected, rtol, atol, equal_nan, check_dtype, check_stride, "")
    if problem:
        raise AssertionError(msg(problem) if callable(msg) else msg or problem)


def _difference(a: Any, b: Any, rtol: Any, atol: Any, nan: bool, dtype: bool, stride: bool, where: str) -> str:
    pairs: Any = None
    if isinstance(b, Mapping):
        if not isinstance(a, Mapping) or set(a) != set(b):
            return f"assert_close{where}: the keys differ: {list(a)} and {list(b)}"
        pairs = ((k, a[k], b[k]) for k in b)
    elif isinstance(b, Sequence) and not isinstance(b, str):
        if not isinstance(a, Sequence) or len(a) != len(b):
            return f"assert_close{where}: the lengths differ"
        pairs = ((i, x, y) for i, (x, y) in enumerate(zip(a, b)))
    if pairs is not None:
        found = (_difference(x, y, rtol, atol, nan, dtype, stride, f"{where}[{k!r}]") for k, x, y in pairs)
        return next(filter(None, found), "")
    x, y = _tensor(a), _tensor(b)
    if x._array.shape != y._array.shape:
        return f"assert_close{where}: the shapes differ: {tuple(x.shape)} and {tuple(y.shape)}"
    if dtype and x._array.dtype != y._array.dtype:
        return f"assert_close{where}: the dtypes differ: {x.dtype} and {y.dtype}"
    if stride and x.stride() != y.stride():
        return f"assert_close{where}: the strides differ: {x.stride()} and {y.stride()}"
    return _values(x._array, y._array, rtol, atol, nan, where)


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else wrap(np.asarray(x))


def _values(x: Any, y: Any, rtol: float | None, atol: float | None, nan: bool, where: str) -> str:
    if rtol is None or atol is None:
        pairs = [TOLERANCES.get(a.dtype.name, (0.0, 0.0)) for a in (x, y)]
        rtol, atol = max(p[0] for p in pairs), max(p[1] for p in pairs)
    wide = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
    if x.dtype.kind in "iub" and y.dtype.kind in "iub":
        ok = x == y
        a, b = x.astype(np.float64), y.astype(np.float64)
    else:
        a, b = x.astype(wide), y.astype(wide)
        with np.errstate(all="ignore"):
            ok = (a == b) | (np.abs(a - b) <= atol + rtol * np.abs(b))
            ok &= np.isfinite(a) == np.isfinite(b)
            if nan:
                ok |= np.isnan(a) & np.isnan(b)
    if ok.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~np.atleast_1d(ok))[0])
    with np.errstate(all="ignore"):
        gap = np.abs(np.atleast_1d(a) - np.atleast_1d(b))
    return (
        f"assert_close{where}: {int((~ok).sum())} of {ok.size} elements differ, first at {at}: "
        f"{np.atleast_1d(x)[at]} and {np.atleast_1d(y)[at]}, the largest difference is {np.nanmax(gap):.3g} "
        f"(rtol {rtol}, atol {atol})"
    )
