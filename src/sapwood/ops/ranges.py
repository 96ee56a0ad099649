"""Evenly spaced numbers: `arange`, `range`, `linspace`, `logspace`."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import COMPLEX, INT
from ..dtypes import dtype as Dtype
from ..errors import ArgumentError, MissingError, ShapeError, ValueRangeError
from ..tensor import Tensor
from .declare import composite
from .fill import deliver
from .values import Array, check_place, from_numbers, integer, number

_LANES = {1: 64, 2: 32, 4: 16, 8: 8}
"""Elements of each size that PyTorch's loops advance at a time, with AVX-512."""
_GRAIN = 32768
"""Elements after which PyTorch's loops start anew for another thread."""


@composite
def arange(
    start: Any = None, end: Any = None, step: Any = None, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return start, start + step, … below `end`: arange(end), arange(start, end) or arange(start, end, step).

    Integers give int64, anything else the default floating-point type.

    Raises:
        ArgumentError: something that is no real number.
        ValueRangeError: step is 0, leads away from `end`, or a bound is not finite.
    """
    check_place("arange", device, layout)
    if end is None:
        start, end = None, start
    if end is None:
        raise ArgumentError("arange: an end is expected, as in arange(3)")
    start = 0 if start is None else _real("arange", "start", start)
    end = _real("arange", "end", end)
    step = 1 if step is None else _real("arange", "step", step)
    whole = all(isinstance(v, int) for v in (start, end, step))
    default = dtypes.int64 if whole else dtypes.get_default_dtype()
    return deliver("arange", lambda t: _steps("arange", start, end, step, t), out, dtype, default, requires_grad)


def _real(op: str, name: str, value: Any) -> Any:
    value = number(op, name, value)
    if isinstance(value, complex):
        raise ValueRangeError(f"{op}: {name} must be real, got {value}")
    return value


def _steps(op: str, start: Any, end: Any, step: Any, dtype: Dtype) -> Array:
    if dtype.category in (dtypes.BOOL, COMPLEX):
        raise MissingError(f"{op}: {dtype.name} has no ranges; make one of integers or floats and convert it")
    for name, v in (("start", start), ("end", end)):
        if not math.isfinite(v):
            raise ValueRangeError(f"{op}: {name} must be finite, got {v}")
    if dtype.category == INT:
        first, last, by = int(start), int(end), int(step)
    else:
        first, last, by = start, end, step
    if by == 0 or math.isnan(by):
        raise ValueRangeError(f"{op}: step must not be 0 in {dtype.name}, got {step}")
    if (end - start if dtype is not dtypes.int64 else last - first) * (1 if by > 0 else -1) < 0:
        raise ValueRangeError(f"{op}: step {step} leads away from end: start is {start}, end is {end}")
    if op == "range":
        n = int((float(end) - float(start)) / float(step) + 1)
    elif dtype is dtypes.int64:
        n = -((first - last) // by)
    else:
        n = math.ceil((float(end) - float(start)) / float(step))
    if dtype.category == INT:
        return (first + by * np.arange(n, dtype=np.int64)).astype(dtype.numpy)
    if op == "range":
        return (first + by * np.arange(n, dtype=np.float64)).astype(dtype.numpy)
    return _lanes(n, dtype, lambda i: first + by * i, by)


def _lanes(n: int, dtype: Dtype, value: Any, by: Any) -> Array:
    """Return value(0) … value(n - 1) as PyTorch's vector loops round them.

    A vector starts at a rounded value and adds multiples of the step to it; what does not fill two vectors is computed
    element by element.
    """
    out = np.empty(n, dtype.numpy)
    width = _LANES[dtype.itemsize]
    for begin in range_(0, n, _GRAIN):
        size = min(_GRAIN, n - begin)
        full = size - size % (2 * width)
        i = np.arange(begin, begin + size, dtype=np.float64)
        exact = value(i)
        if full and dtype.itemsize > 2:
            starts = exact[:full:width].astype(dtype.numpy).astype(np.float64)
            exact[:full] = (starts[:, None] + by * np.arange(width)).reshape(-1)
        out[begin : begin + size] = exact.astype(np.float32) if dtype.itemsize == 2 else exact
    return out


range_ = range


@composite(name="range")
def _range(
    start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return start, start + step, … up to and with `end`. PyTorch has deprecated it: arange leaves `end` out."""
    check_place("range", device, layout)
    warnings.warn("range: it includes its end, unlike Python's; use arange, which does not", UserWarning, stacklevel=2)
    if end is None:
        raise ArgumentError("range: an end is expected, as in range(0, 3)")
    start, end, step = (_real("range", n, v) for n, v in (("start", start), ("end", end), ("step", step)))
    make = lambda t: _steps("range", start, end, step, t)  # noqa: E731
    return deliver("range", make, out, dtype, dtypes.get_default_dtype(), requires_grad)


@composite
def linspace(
    start: Any, end: Any, steps: int, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return `steps` numbers at equal distances, from `start` to `end`, both included.

    Raises:
        ShapeError: a bound is a tensor with dimensions.
        ValueRangeError: steps is negative.
    """
    check_place("linspace", device, layout)
    first, last, n, default = _bounds("linspace", start, end, steps)
    return deliver("linspace", lambda t: _between(first, last, n, t), out, dtype, default, requires_grad)


@composite
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return `base` raised to each of `steps` exponents at equal distances, from `start` to `end`.

    Raises:
        ShapeError: a bound is a tensor with dimensions.
        ValueRangeError: steps is negative.
    """
    check_place("logspace", device, layout)
    first, last, n, default = _bounds("logspace", start, end, steps)
    return deliver("logspace", lambda t: _powers(first, last, n, float(base), t), out, dtype, default, requires_grad)


def _bounds(op: str, start: Any, end: Any, steps: Any) -> tuple[Any, Any, int, Dtype]:
    for name, v in (("start", start), ("end", end)):
        if isinstance(v, Tensor) and v._array.ndim:
            raise ShapeError(f"{op}: {name} must be a number or have no dimensions, got shape {v._array.shape}")
    first, last = (number(op, n, v.detach() if isinstance(v, Tensor) else v) for n, v in (("start", start), ("end", end)))
    n = integer(op, "steps", steps)
    if n < 0:
        raise ValueRangeError(f"{op}: steps must not be negative, got {n}")
    is_complex = isinstance(first, complex) or isinstance(last, complex)
    return first, last, n, dtypes.default_complex() if is_complex else dtypes.get_default_dtype()


def _between(first: Any, last: Any, n: int, dtype: Dtype) -> Array:
    if dtype is dtypes.bool_:
        raise MissingError("linspace: bool has no numbers in between; make floats and compare them")
    ends = from_numbers("linspace", [first, last], dtype)
    if n < 2:
        return ends[:n]
    kind = np.float64 if dtype.category == INT else np.float32 if dtype.itemsize == 2 else dtype.numpy.type
    a, b = ends.astype(kind)
    step = (b - a) / kind(n - 1)
    if dtype.itemsize == 2 and dtype.category != INT:
        step = step.astype(dtype.numpy).astype(kind)
    i = np.arange(n)
    half = n // 2
    with np.errstate(all="ignore"):
        exact = np.where(i < half, a + step * i.astype(kind), b - step * (n - 1 - i).astype(kind))
        return exact.astype(dtype.numpy)


def _powers(first: Any, last: Any, n: int, base: float, dtype: Dtype) -> Array:
    if dtype is dtypes.bool_:
        raise MissingError("logspace: bool has no powers; make floats and compare them")
    exponents = _between(first, last, n, dtype if dtype.category != INT else dtypes.float64)
    kind = np.float32 if dtype.itemsize == 2 and dtype.category != INT else exponents.dtype.type
    with np.errstate(all="ignore"):
        return np.power(kind(base), exponents.astype(kind)).astype(dtype.numpy)
