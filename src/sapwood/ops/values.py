"""Arrays from what users pass: numbers, nested sequences, NumPy arrays; and the arguments all constructors share."""

from __future__ import annotations

import warnings
from itertools import chain
from typing import Any

import numpy as np
from numpy import ndarray

from .. import dtypes
from ..device import CPU
from ..device import device as Device
from ..dtypes import dtype as Dtype
from ..errors import ArgumentError, DtypeError, MissingError, ShapeError, ValueRangeError
from ..state import INFERENCE, get_mode
from ..tensor import InferenceTensor, Tensor, wrap

Array = ndarray[Any, Any]
_PLAIN = {bool, int, float, complex}


# -- what every constructor shares ------------------------------------------------------------------------------------


def leaf(array: Array, requires_grad: bool = False) -> Tensor:
    """Return a new leaf tensor on `array`, an inference tensor under `inference_mode`."""
    t = wrap(array)
    if get_mode() & INFERENCE:
        t = object.__new__(InferenceTensor)
        t._array = array
        t._node = None
    return t.requires_grad_() if requires_grad else t


def element_type(op: str, dtype: Any, default: Dtype) -> Dtype:
    """Return the dtype that a constructor's argument asks for."""
    if dtype is None:
        return default
    return dtype if type(dtype) is Dtype else dtypes.as_dtype(dtype, op)


def check_place(op: str, device: Any, layout: Any = None) -> None:
    """Raise unless a tensor can live on `device` in `layout`."""
    if device is not None and device is not CPU and device != "cpu":
        Device(device).require_cpu(op)
    if layout is not None and str(layout) != "torch.strided":
        raise MissingError(f"{op}: tensors are strided here, got layout={layout}; leave it out")


def number(op: str, name: str, value: Any) -> Any:
    """Return a Python number for a number, a NumPy scalar or a tensor of no dimensions.

    Raises:
        ArgumentError: something else came, a tensor that requires grad among it.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Tensor) and value._array.ndim == 0 and value._node is None:
        return value.item()
    if isinstance(value, np.generic) or (isinstance(value, ndarray) and value.ndim == 0):
        return value.item()
    if isinstance(value, bool | int | float | complex):
        return value
    what = "a tensor that has dimensions or requires grad" if isinstance(value, Tensor) else type(value).__name__
    raise ArgumentError(f"{op}: {name} must be a number, got {what}")


# -- Python data ------------------------------------------------------------------------------------------------------


class _NestedError(DtypeError, ValueError):
    """Something that is no number deep inside a sequence: PyTorch raises ValueError for it."""


def new_array(op: str, data: Any, dtype: Dtype | None) -> Array:
    """Return a new array with a copy of `data`: a tensor, an array, a number, or nested sequences of them."""
    if isinstance(data, Tensor):
        return as_type(data._array, dtype, copy=True)
    if isinstance(data, ndarray | np.generic):
        return as_type(shareable(op, np.asarray(data)), dtype, copy=True)
    if not is_sequence(data):
        if type(data) not in _PLAIN and hasattr(data, "__array__"):
            return as_type(shareable(op, np.asarray(data)), dtype, copy=True)
        return from_numbers(op, [data], dtype, ()).reshape(())
    shape: list[int] = []
    level: Any = [data]
    while level and is_sequence(level[0]):
        sizes = set(map(len, level)) if all(map(is_sequence, level)) else None
        if sizes is None or len(sizes) > 1:
            raise _ragged(op, level, len(shape))
        shape.append(sizes.pop())
        level = list(chain.from_iterable(level))
    return from_numbers(op, level, dtype, tuple(shape)).reshape(shape)


def is_sequence(x: Any) -> bool:
    kind = type(x)
    if kind is list or kind is tuple:
        return True
    if kind in _PLAIN or isinstance(x, str | bytes | dict | set | np.generic | Tensor):
        return False
    if isinstance(x, ndarray):
        return x.ndim > 0
    return hasattr(x, "__getitem__") and hasattr(x, "__len__")


def _ragged(op: str, level: Any, depth: int) -> Exception:
    if not all(map(is_sequence, level)):
        return ArgumentError(f"{op}: sequences and numbers are mixed at depth {depth}; all must be nested alike")
    sizes = ", ".join(map(str, sorted(set(map(len, level)))))
    return ShapeError(f"{op}: the sequences at depth {depth} have lengths {sizes}; they must have the same length")


def from_numbers(op: str, values: list[Any], dtype: Dtype | None, shape: tuple[int, ...] = ()) -> Array:
    """Return numbers as an array of `dtype`, or of the type they promote to.

    Raises:
        ValueRangeError: an integer type cannot hold one of them.
        DtypeError: something is no number, or complex where a real one is needed.
    """
    kinds = set(map(type, values))
    if kinds <= _PLAIN:
        found = None
        if dtype is None:
            found = dtypes.get_default_dtype()
            if kinds:
                found = max(map(dtypes.of_number, (k() for k in kinds)), key=lambda t: t.category)
    else:
        values, found = _unwrapped(op, values, len(shape))
        kinds = set(map(type, values))
    target = dtype or found
    assert target is not None
    if complex in kinds and target.category < dtypes.COMPLEX and target.category != dtypes.BOOL:
        raise DtypeError(f"{op}: a complex number cannot become {target.name}; take .real, or ask for complex64")
    if target.category == dtypes.INT:
        return _integers(op, values, kinds, target)
    if target.category == dtypes.BOOL:
        return np.fromiter(map(bool, values), np.bool_, len(values))
    wide = np.complex128 if target.category == dtypes.COMPLEX else np.float64
    a: Array = np.array(values, wide)
    if target.itemsize == 2:
        # 16-bit floats are rounded twice, through float32, as PyTorch does.
        with np.errstate(over="ignore"):
            a = a.astype(np.float32)
    if a.dtype is target.numpy:
        return a
    with np.errstate(over="ignore"):
        return a.astype(target.numpy)


def _integers(op: str, values: list[Any], kinds: set[type], target: Dtype) -> Array:
    info = np.iinfo(target.numpy)
    # PyTorch lets a negative integer wrap around into an unsigned type as far as its magnitude fits.
    low = -int(info.max) if not target.is_signed and target.itemsize < 8 else int(info.min)
    if values:
        if float in kinds:
            for v in values:
                if isinstance(v, float) and not info.min <= v <= info.max:
                    raise _too_large(op, v, target, info)
            values = [int(v) for v in values]
        least, most = min(values), max(values)
        if least < low or most > info.max:
            raise _too_large(op, least if least < low else most, target, info)
        if low < 0 and not target.is_signed:
            return np.array(values, np.int64).astype(target.numpy)
    return np.array(values, target.numpy)


def _too_large(op: str, value: Any, target: Dtype, info: Any) -> Exception:
    return ValueRangeError(
        f"{op}: {value} does not fit {target.name}, which holds {info.min} to {info.max}; ask for a wider dtype"
    )


def _unwrapped(op: str, values: list[Any], depth: int) -> tuple[list[Any], Dtype]:
    """Return tensors and NumPy scalars among numbers as numbers, and the type all of them promote to."""
    plain: list[Any] = []
    found: list[Dtype] = []
    for x in values:
        if isinstance(x, Tensor):
            if x._array.size != 1:
                raise ShapeError(
                    f"{op}: a tensor inside a sequence needs one element, got {x._array.shape}; use stack() or cat()"
                )
            if x._node is not None:
                warn_loss(op, "the tensors in the sequence require grad", "stack()")
            found.append(x.dtype)
            plain.append(x.item())
        elif isinstance(x, np.generic | ndarray):
            found.append(dtypes.of_numpy(x.dtype))
            plain.append(float(x) if x.dtype.name == "bfloat16" else x.item())
        elif isinstance(x, bool | int | float | complex):
            found.append(dtypes.of_number(x))
            plain.append(
                x if type(x) in _PLAIN else next(k for k in (bool, int, float, complex) if isinstance(x, k))(x)
            )
        else:
            kind = _NestedError if depth and not plain else DtypeError
            raise kind(f"{op}: numbers, or nested sequences of numbers, can become a tensor, got {type(x).__name__}")
    common = found[0]
    for t in found[1:]:
        common = dtypes.promote_types(common, t)
    return plain, common


def warn_loss(op: str, what: str, way: str) -> None:
    warnings.warn(
        f"{op}: {what}, and the new tensor will not be connected to the graph; use {way} to stay in it, or detach "
        "first to say that this is meant",
        UserWarning,
        stacklevel=5,
    )


# -- arrays -----------------------------------------------------------------------------------------------------------


def shareable(op: str, a: Array) -> Array:
    """Return a plain ndarray that a tensor can share.

    Raises:
        DtypeError: an element type without counterpart.
        ValueRangeError: foreign byte order, a negative stride, or one that is no multiple of the element size.
    """
    dtypes.of_numpy(a.dtype)
    if not a.dtype.isnative:
        raise ValueRangeError(
            f"{op}: the array's byte order is not this machine's; use a.astype(a.dtype.newbyteorder('='))"
        )
    for s in a.strides:
        if s < 0:
            raise ValueRangeError(f"{op}: the array has a negative stride {a.strides}; pass a.copy()")
        if s % a.itemsize:
            raise ValueRangeError(
                f"{op}: the strides {a.strides} are no multiples of the {a.itemsize} bytes of an element; pass a.copy()"
            )
    return a if type(a) is ndarray else np.asarray(a)


def as_type(a: Array, dtype: Dtype | None, *, copy: bool) -> Array:
    target = a.dtype if dtype is None else dtype.numpy
    if a.dtype == target and not copy:
        return a
    if a.dtype.kind == "c" and np.dtype(target).kind != "c":
        a = a.real
    with np.errstate(all="ignore"):
        out: Array = np.array(a, target, order="K")
    return out


def shared(op: str, data: Any) -> Array:
    a = shareable(op, data)
    if not a.flags.writeable:
        warnings.warn(
            f"{op}: the array is read-only, and so the tensor on its memory will be; pass array.copy() to write to it",
            UserWarning,
            stacklevel=4,
        )
    return a


# -- sizes ------------------------------------------------------------------------------------------------------------


def size_of(op: str, given: tuple[Any, ...], size: Any = None) -> tuple[int, ...]:
    """Return a size that was given as integers, as one sequence of them, or by the keyword `size`.

    Raises:
        ArgumentError: no size, or something that is no integer.
        ValueRangeError: a negative size.
    """
    if size is not None:
        if given:
            raise ArgumentError(f"{op}: the size was given twice, as {given} and as size={size!r}")
        given = (size,)
    if not given:
        raise ArgumentError(f"{op}: a size is expected, as in {op}(2, 3) or {op}((2, 3))")
    first = given[0]
    if len(given) == 1 and isinstance(first, tuple | list):
        given = tuple(first)
    for n in given:
        if type(n) is not int:
            given = tuple(_one_size(op, n) for n in given)
            break
    if given and min(given) < 0:
        raise ValueRangeError(f"{op}: sizes must not be negative, got {tuple(given)}")
    return tuple(given)


def sequence_size(op: str, size: Any) -> tuple[int, ...]:
    """Return a size that must be given as one sequence."""
    if not isinstance(size, tuple | list):
        raise ArgumentError(f"{op}: size must be a sequence of ints such as (2, 3), got {type(size).__name__}")
    return size_of(op, (size,))


def _one_size(op: str, n: Any) -> int:
    if isinstance(n, bool | np.bool_) or not hasattr(n, "__index__") or (isinstance(n, np.ndarray) and n.ndim):
        raise ArgumentError(f"{op}: a size must be an int, got {type(n).__name__}")
    return n.__index__()


def integer(op: str, name: str, value: Any) -> int:
    """Return an int for an integer of any kind.

    Raises:
        ArgumentError: something else came.
    """
    if type(value) is int:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentError(f"{op}: {name} must be an int, got {type(value).__name__}")
    return value.__index__()
