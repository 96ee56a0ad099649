"""Tensors from data: `tensor`, `as_tensor`, `asarray`, `from_numpy`, `frombuffer`, `from_dlpack`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import alias, dtypes, ops
from ..dtypes import dtype as Dtype
from ..errors import ArgumentError, ValueRangeError
from ..node import LEAF
from ..tensor import Tensor
from . import slow
from .declare import composite
from .values import Array, as_type, check_place, element_type, leaf, new_array, shared


@composite
def tensor(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    names: Any = None,
) -> Tensor:
    """Return a new leaf tensor with a copy of `data`.

    Args:
        data: a number, nested sequences of numbers (or of tensors and arrays of one element), an array, or a tensor.
        dtype: the element type; by default that of an array, and for Python numbers bool, int64, the default
            floating-point type or its complex counterpart, whichever holds them all.

    Raises:
        ShapeError: sequences of different lengths.
        DtypeError: something in `data` is no number.
        ValueRangeError: an integer does not fit.

    Example:
        >>> import sapwood
        >>> sapwood.tensor([[1., 2.], [3., 4.]])
        tensor([[1., 2.],
                [3., 4.]])
    """
    check_place("tensor", device)
    if isinstance(data, Tensor):
        warnings.warn(
            "tensor: the argument is a tensor already; tensor.clone().detach(), with .requires_grad_() if wanted, says "
            "that a copy outside the graph is meant",
            UserWarning,
            stacklevel=2,
        )
    wanted = None if dtype is None else element_type("tensor()", dtype, dtypes.float32)
    if isinstance(data, Tensor) and slow.watched(data):
        copied = _cast(data.detach(), wanted or data.dtype)
        copied = copied.clone() if copied.dtype is data.dtype else copied  # type: ignore[attr-defined]
        return copied.requires_grad_() if requires_grad else copied
    return leaf(new_array("tensor", data, wanted), requires_grad)


@composite
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return `data` as a tensor, sharing memory and keeping the graph where its type allows."""
    check_place("as_tensor", device)
    wanted = None if dtype is None else element_type("as_tensor", dtype, dtypes.float32)
    if isinstance(data, Tensor):
        return data if wanted is None or data.dtype is wanted else _cast(data, wanted)
    if isinstance(data, np.ndarray):
        return leaf(as_type(shared("as_tensor", data), wanted, copy=False))
    return leaf(new_array("as_tensor", data, wanted))


def _cast(t: Tensor, dtype: Dtype) -> Tensor:
    out: Tensor = t.to(dtype)  # type: ignore[attr-defined]
    return out


@composite
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """Return `obj` as a tensor.

    Args:
        obj: a tensor, an array, an object with DLPack or a buffer, a number, or nested sequences of numbers.
        copy: True always copies, False never does, None only where it must.
        requires_grad: of the result; by default that of `obj`, whose graph the result then stays in.

    Raises:
        ValueRangeError: `copy=False`, and the memory cannot be shared.
    """
    check_place("asarray", device)
    wanted = None if dtype is None else element_type("asarray", dtype, dtypes.float32)
    if isinstance(obj, Tensor):
        return _tensor_as_array(obj, wanted, copy, requires_grad)
    if isinstance(obj, np.ndarray | np.generic):
        array = shared("asarray", np.asarray(obj))
    elif hasattr(obj, "__dlpack__"):
        array = _from_dlpack_array(obj)
    elif isinstance(obj, bytes | bytearray | memoryview) or type(obj).__module__ == "array":
        array = _buffer("asarray", obj, wanted or dtypes.get_default_dtype(), -1, 0)
    elif copy is False:
        raise ValueRangeError("asarray: a Python number or sequence has no memory to share; drop copy=False")
    else:
        return leaf(new_array("asarray", obj, wanted), bool(requires_grad))
    if copy is False and wanted is not None and array.dtype != wanted.numpy:
        raise ValueRangeError(f"asarray: {array.dtype} cannot become {wanted.name} without a copy; drop copy=False")
    return leaf(as_type(array, wanted, copy=bool(copy)), bool(requires_grad))


def _tensor_as_array(obj: Tensor, wanted: Dtype | None, copy: bool | None, requires_grad: bool | None) -> Tensor:
    if wanted is not None and obj.dtype is not wanted:
        if copy is False:
            raise ValueRangeError(
                f"asarray: {obj.dtype.name} cannot become {wanted.name} without a copy; drop copy=False"
            )
        out = _cast(obj, wanted)
    else:
        out = ops.clone(obj) if copy else obj
    if requires_grad is False and out._node is not None:
        return out.requires_grad_(False) if out is obj and out._node is LEAF else out.detach()
    return out.requires_grad_() if requires_grad else out


@composite
def from_numpy(ndarray: Array) -> Tensor:
    """Return a tensor on the memory of an array: a change to one is seen in the other.

    Raises:
        ArgumentError: the argument is no array.
        DtypeError: its element type has no counterpart.
        ValueRangeError: its strides are negative, or its byte order foreign.
    """
    if not isinstance(ndarray, np.ndarray):
        raise ArgumentError(f"from_numpy: an array is expected, got {type(ndarray).__name__}; use tensor() for it")
    return leaf(shared("from_numpy", ndarray))


@composite
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Return a one-dimensional tensor on the memory of an object with Python's buffer protocol.

    Args:
        count: elements to take, -1 for all.
        offset: bytes to skip at the front.

    Raises:
        ValueRangeError: the buffer does not hold what is asked for.
    """
    return leaf(
        _buffer("frombuffer", buffer, element_type("frombuffer", dtype, dtypes.float32), count, offset), requires_grad
    )


def _buffer(op: str, buffer: Any, dtype: Dtype, count: int, offset: int) -> Array:
    try:
        view = memoryview(buffer).cast("B")
    except TypeError:
        raise ValueRangeError(
            f"{op}: {type(buffer).__name__} has no buffer; pass bytes, a bytearray, an array …"
        ) from None
    size, item = view.nbytes, dtype.itemsize
    if not size or not count:
        raise ValueRangeError(f"{op}: the buffer ({size} bytes) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueRangeError(f"{op}: offset must lie in [0, {size - 1}], got {offset}")
    if count < 0:
        if (size - offset) % item:
            raise ValueRangeError(f"{op}: {size - offset} bytes are no multiple of the {item} bytes of {dtype.name}")
        count = (size - offset) // item
    if offset + count * item > size:
        raise ValueRangeError(f"{op}: {count} elements of {item} bytes after byte {offset} do not fit {size} bytes")
    a: Array = np.frombuffer(view, dtype.numpy, count, offset)
    if not a.flags.writeable:
        warnings.warn(
            f"{op}: the buffer is read-only, and so the tensor on its memory will be; pass a bytearray to write to it",
            UserWarning,
            stacklevel=4,
        )
    return a


class _Capsule:
    """Give a bare DLPack capsule the methods that NumPy asks for."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class _Memory:
    """Describe the memory of an array as writable, and keep it alive."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__ | {"data": (alias.address(array), False)}


def _from_dlpack_array(ext_tensor: Any) -> Array:
    if type(ext_tensor).__name__ != "PyCapsule":
        found: Array = np.from_dlpack(ext_tensor)
        return found
    # The first version of DLPack cannot say whether memory may be written to: NumPy thinks not, PyTorch does.
    old = '"dltensor"' in repr(ext_tensor)
    a: Array = np.from_dlpack(_Capsule(ext_tensor))
    return np.asarray(_Memory(a)) if old and not a.flags.writeable else a


@composite
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor on the memory of another library's tensor, given as it is or as a DLPack capsule."""
    check_place("from_dlpack", device)
    if isinstance(ext_tensor, Tensor):
        return ext_tensor.detach()
    a = _from_dlpack_array(ext_tensor)
    return leaf(a.copy() if copy else a)


@composite
def to_dlpack(tensor: Tensor) -> Any:
    """Return a DLPack capsule of the tensor, which another library can take over once."""
    return tensor.detach().__dlpack__()
