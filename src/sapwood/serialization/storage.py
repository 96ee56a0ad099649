"""Storages and the tensors on them, as PyTorch's pickles describe them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import dtype as Dtype
from ..errors import LoadError
from ..node import LEAF
from ..tensor import Parameter, Tensor
from .archive import Archive

STORAGES = {
    "DoubleStorage": dtypes.float64,
    "FloatStorage": dtypes.float32,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "LongStorage": dtypes.int64,
    "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool_,
    "ComplexDoubleStorage": dtypes.complex128,
    "ComplexFloatStorage": dtypes.complex64,
    "UntypedStorage": None,
}
STORAGE_OF = {d: name for name, d in STORAGES.items() if d is not None}
_MOST_DIMS = 64


class StorageType:
    """The class of a storage, as pickles name it."""

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, dtype: Dtype | None) -> None:
        self.name = name
        self.dtype = dtype


class Storage:
    """The memory that tensors of a file share: a flat array, of bytes until a tensor says what they are."""

    __slots__ = ("array", "dtype", "location", "swapped")

    def __init__(self, array: Any, dtype: Dtype | None, location: str, swapped: bool) -> None:
        self.array = array
        self.dtype = dtype
        self.location = location
        self.swapped = swapped
        if dtype is not None:
            self._become(dtype)

    def as_type(self, dtype: Dtype) -> Any:
        """Return the flat array as elements of `dtype`."""
        if self.dtype is None:
            self._become(dtype)
        if self.dtype is not dtype:
            raise LoadError(f"load: a storage is used both as {self.dtype} and as {dtype}")
        return self.array

    def _become(self, dtype: Dtype) -> None:
        item = dtype.itemsize
        if self.array.nbytes % item:
            raise LoadError(f"load: a storage of {self.array.nbytes} bytes cannot hold whole elements of {dtype}")
        self.dtype = dtype
        typed = self.array.view(dtype.numpy)
        if self.swapped and item > 1:
            part = item // 2 if typed.dtype.kind == "c" else item
            self.array.reshape(-1, part)[:] = self.array.reshape(-1, part)[:, ::-1].copy()
        self.array = np.asarray(typed)


class Storages:
    """Reads each storage of a file once, when the first tensor needs it.

    Args:
        where: told each storage and the place that it was saved at.
    """

    def __init__(self, archive: Archive, where: Callable[[Any, str], Any]) -> None:
        self.archive = archive
        self.where = where
        self.found: dict[str, Storage] = {}

    def persistent(self, pid: Any) -> Storage:
        """Return the storage that a pickle refers to.

        Raises:
            LoadError: the reference is malformed, or does not fit the record.
        """
        if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage"):
            raise LoadError("load: the pickle refers to something that is not a storage")
        _, kind, key, location, count = pid
        whole = isinstance(count, int) and not isinstance(count, bool) and count >= 0
        if not (isinstance(kind, StorageType) and isinstance(key, str) and isinstance(location, str) and whole):
            raise LoadError("load: a reference to a storage is malformed")
        found = self.found.get(key)
        if found is None:
            record = f"data/{key}"
            size = self.archive.bytes_of(record)
            item = 1 if kind.dtype is None else kind.dtype.itemsize
            if count * item != size:
                raise LoadError(
                    f"load: storage {key!r} should hold {count} elements of {item} bytes, its record has {size} bytes"
                )
            found = Storage(self.archive.array(record), kind.dtype, location, self.archive.swapped)
            self.found[key] = found
            self.where(found, location)
        elif kind.dtype is not None:
            found.as_type(kind.dtype)
        return found


def rebuild_tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    """Return a tensor on a storage; saved hooks are ignored."""
    if not isinstance(storage, Storage) or storage.dtype is None:
        raise LoadError("load: a tensor refers to something that is not a typed storage")
    return _placed(storage.as_type(storage.dtype), offset, size, stride, requires_grad)


def rebuild_tensor_v3(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Tensor:
    """Return a tensor of `dtype` on an untyped storage."""
    if not isinstance(storage, Storage) or not isinstance(dtype, Dtype):
        raise LoadError("load: a tensor refers to something that is not a storage")
    return _placed(storage.as_type(dtype), offset, size, stride, requires_grad)


def _placed(flat: Any, offset: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    numbers = (offset, *size, *stride) if isinstance(size, tuple) and isinstance(stride, tuple) else ("",)
    if any(type(n) is not int or n < 0 for n in numbers) or len(size) != len(stride) or len(size) > _MOST_DIMS:
        raise LoadError("load: the size, stride or offset of a tensor is malformed")
    out: Tensor = object.__new__(Tensor)
    if math.prod(size):
        last = offset + sum((n - 1) * s for n, s in zip(size, stride))
        if last >= flat.size:
            raise LoadError(
                f"load: a tensor of size {size}, stride {stride} and offset {offset} reaches element {last} of a "
                f"storage of {flat.size}"
            )
        item = flat.itemsize
        out._array = np.ndarray(size, flat.dtype, flat, offset * item, tuple(s * item for s in stride))
    else:
        try:
            out._array = np.empty(size, flat.dtype)
        except ValueError as problem:
            raise LoadError(f"load: a tensor cannot have size {size}") from problem
    out._node = None
    return out.requires_grad_() if requires_grad is True else out


def rebuild_parameter(data: Any, requires_grad: Any, hooks: Any = None) -> Tensor:
    """Return a Parameter on the memory of `data`; saved hooks are ignored."""
    if not isinstance(data, Tensor):
        raise LoadError("load: a parameter must be made of a tensor")
    out: Tensor = object.__new__(Parameter)
    out._array = data._array
    out._node = LEAF if requires_grad is True and data.dtype.is_differentiable else None
    return out


def rebuild_parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Tensor:
    """Return a Parameter that has attributes of its own."""
    return with_attributes(rebuild_parameter(data, requires_grad, hooks), state)


def with_attributes(tensor: Tensor, state: Any) -> Tensor:
    """Set the attributes that a tensor was saved with; none of them can replace what a tensor has itself."""
    if isinstance(state, tuple) and len(state) == 2:
        state = {**(state[0] or {}), **(state[1] or {})}
    if state is None:
        return tensor
    if not isinstance(state, dict):
        raise LoadError("load: the attributes of a tensor must be a dict")
    for name, value in state.items():
        if isinstance(name, str) and not name.startswith("_") and not hasattr(type(tensor), name):
            tensor.__dict__[name] = value
    return tensor
