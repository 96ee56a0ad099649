"""Evenly spaced numbers: `arange`, `range`, `linspace`, `logspace`."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import dtypes, ops
from ..dtypes import COMPLEX, INT
from ..dtypes import dtype as Dtype
from ..errors import ArgumentError, MissingError, ShapeError, ValueRangeError
from ..random.rounding import fma32, fma64
from ..tensor import Tensor
from .declare import composite
from .filling import deliver
from .values import Array, check_place, from_numbers, integer, number

_LANES = {2: 16, 4: 8, 8: 4}
"""Elements of each size in a vector of 32 bytes, by which PyTorch's arange advances."""


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
    if step == 0 or (by == 0 and dtype is dtypes.int64) or math.isnan(by):
        raise ValueRangeError(f"{op}: step must not be 0 in {dtype.name}, got {step}")
    distance, forward = (last - first, by > 0) if dtype is dtypes.int64 else (end - start, step > 0)
    if (distance < 0) if forward else (distance > 0):
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
    return _lanes(n, dtype, float(first), float(by))


def _lanes(n: int, dtype: Dtype, first: float, by: float) -> Array:
    """Return first + i·by, i = 0 … n - 1, as PyTorch's vector loop rounds it.

    A vector starts at a value in `dtype` and adds multiples of the step to it; what does not fill two vectors is
    computed element by element.
    """
    exact_below = 2.0 ** {2: 8, 4: 24, 8: 53}[dtype.itemsize]
    if first.is_integer() and by.is_integer() and max(abs(first), abs(first + by * n)) <= exact_below:
        return (first + by * np.arange(n)).astype(dtype.numpy)  # nothing is rounded
    width = _LANES[dtype.itemsize]
    full = n - n % (2 * width)
    i = np.arange(n, dtype=np.float64)
    with np.errstate(all="ignore"):
        if dtype.itemsize == 2:
            exact: Array = fma32(i.astype(np.float32), by, first)
        else:
            exact = fma64(i, by, first)
        out = exact.astype(dtype.numpy)
        starts = out[:full:width].astype(exact.dtype)
        for k in range_(1, width if full else 0):
            if dtype.itemsize == 2:
                lane = starts + exact.dtype.type(k) * exact.dtype.type(by)
            else:
                lane = fma64(np.full(starts.size, float(k)), by, starts)
            out[k:full:width] = lane.astype(dtype.numpy)
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
    make = lambda t: _steps("range", start, end, step, t)
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
    first, last = (
        number(op, n, v.detach() if isinstance(v, Tensor) else v) for n, v in (("start", start), ("end", end))
    )
    n = integer(op, "steps", steps)
    if n < 0:
        raise ValueRangeError(f"{op}: steps must not be negative, got {n}")
    is_complex = isinstance(first, complex) or isinstance(last, complex)
    return first, last, n, dtypes.default_complex() if is_complex else dtypes.get_default_dtype()


def _between(first: Any, last: Any, n: int, dtype: Dtype) -> Array:
    if dtype is dtypes.bool_:
        raise MissingError("linspace: bool has no numbers in between; make floats and compare them")
    if n == 0:
        return np.empty(0, dtype.numpy)
    if n == 1:
        return from_numbers("linspace", [first], dtype)
    ends = from_numbers("linspace", [first, last], dtype)
    if dtype.category == COMPLEX:
        out = np.empty(n, dtype.numpy)
        for part in ("real", "imag"):
            a, b = getattr(ends, part)
            setattr(out, part, _line(a, b, (b - a) / a.dtype.type(n - 1), n))
        return out
    if dtype.category == INT:
        a, b = ends.astype(np.float64)
        return _line(a, b, (b - a) / (n - 1), n).astype(dtype.numpy)
    with np.errstate(all="ignore"):
        return _between_floats(ends, n)


def _between_floats(ends: Array, n: int) -> Array:
    kind = ends.dtype
    if kind.itemsize > 2:
        return _line(ends[0], ends[1], (ends[1] - ends[0]) / kind.type(n - 1), n)
    # 16-bit floats: indices, products and the step are rounded to 16 bits, sums once.
    rounded = lambda x: x.astype(kind).astype(np.float32)
    a, b = ends.astype(np.float32)
    step = rounded(rounded(b - a) / rounded(np.float32(n - 1)))
    i, back = rounded(np.arange(n)), rounded(np.arange(n)[::-1])
    return np.where(np.arange(n) < n // 2, a + rounded(step * i), b - rounded(step * back)).astype(kind)


def _line(a: Any, b: Any, step: Any, n: int) -> Array:
    """Return a + i·step in the first half and b - (n - 1 - i)·step in the second, each rounded once."""
    fma: Any = fma64 if a.dtype == np.float64 else fma32
    i = np.arange(n, dtype=a.dtype)
    half = n // 2
    return np.concatenate([fma(i[:half], float(step), float(a)), fma(n - 1 - i[half:], -float(step), float(b))])


def _powers(first: Any, last: Any, n: int, base: float, dtype: Dtype) -> Array:
    if dtype is dtypes.bool_:
        raise MissingError("logspace: bool has no powers; make floats and compare them")
    if n == 0:
        return np.empty(0, dtype.numpy)
    if dtype.category == COMPLEX:
        return np.power(dtype.numpy.type(base), _between(first, last, n, dtype))
    if n == 1:
        return from_numbers("logspace", [float(_power(base, np.array([first], np.float64))[0])], dtype)
    ends = from_numbers("logspace", [first, last], dtype)
    a, b = ends.astype(np.float64)
    step = float(ends[1] - ends[0] if dtype.category != INT else b - a) / (n - 1)
    i = np.arange(n)
    exponents = np.where(i < n // 2, a + step * i, b - step * (n - 1 - i))
    with np.errstate(all="ignore"):
        return _power(base, exponents).astype(dtype.numpy)


def _power(base: float, exponents: Array) -> Array:
    """Return base ** exponents as the C library rounds it, which NumPy's own loops may not."""
    try:
        return np.array([math.pow(base, x) for x in exponents.tolist()])
    except (ValueError, OverflowError):
        return np.power(base, exponents)


@composite
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the powers x**(N-1), …, x, 1 of each element as a row, or 1, x, … if `increasing`; N is len(x) by default.

    Raises:
        ShapeError: x has not one dimension.
        ValueRangeError: N is negative.
    """
    if not isinstance(x, Tensor):
        raise ArgumentError(f"vander: x must be a tensor, got {type(x).__name__}")
    if x._array.ndim != 1:
        raise ShapeError(f"vander: x must have one dimension, got shape {x._array.shape}")
    columns = x._array.shape[0] if N is None else integer("vander", "N", N)
    if columns < 0:
        raise ValueRangeError(f"vander: N must not be negative, got {columns}")
    powers = ops.cumprod(ops.expand(ops.unsqueeze(x, -1), (-1, max(columns - 1, 0))), -1)
    first = powers.new_ones((x._array.shape[0], min(columns, 1)))
    rows: Tensor = ops.cat([first, powers], 1)
    return rows if increasing else ops.flip(rows, (1,))
