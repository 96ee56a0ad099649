"""The pickle of an object as PyTorch writes it: its tensors by PyTorch's names, their storages apart."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np

from .. import alias
from ..device import device as Device
from ..dtypes import dtype as Dtype
from ..errors import DtypeError, LoadError
from ..tensor import Parameter, Size, Tensor
from .archive import Bytes
from .storage import STORAGE_OF


class Name:
    """A name that is written into the pickle as it is. PyTorch need not be there to be named."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: Any) -> Any:
        """Names stand where pickle expects functions; they are never called here."""
        raise LoadError(f"save: {self.module}.{self.name} is only a name")


class _Reference:
    """What a tensor's pickle has for its storage."""

    __slots__ = ("pid",)

    def __init__(self, pid: tuple[Any, ...]) -> None:
        self.pid = pid


_REBUILD = Name("torch._utils", "_rebuild_tensor_v2")
_REBUILD_3 = Name("torch._utils", "_rebuild_tensor_v3")
_PARAMETER = Name("torch._utils", "_rebuild_parameter")
_PARAMETER_STATE = Name("torch._utils", "_rebuild_parameter_with_state")
_FROM_TYPE = Name("torch._tensor", "_rebuild_from_type_v2")
_TENSOR, _SIZE, _DEVICE = Name("torch", "Tensor"), Name("torch", "Size"), Name("torch", "device")
_names: dict[tuple[str, str], Name] = {}


def _torch(name: str) -> Name:
    # One object per name, so that pickle writes it once and refers to it afterwards.
    return _names.setdefault(("torch", name), Name("torch", name))


_Base: Any = pickle._Pickler


class _Pickler(_Base):  # type: ignore[misc] # typeshed does not describe the methods of pickle._Pickler
    """The standard library's pickler in Python, which can be taught to write a name without importing it."""

    dispatch = _Base.dispatch.copy()

    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: list[Bytes] = []
        self.by_owner: dict[int, tuple[int, Dtype, Any]] = {}

    def persistent_id(self, obj: Any) -> Any:
        """Return the reference to a storage."""
        return obj.pid if type(obj) is _Reference else None

    def reducer_override(self, obj: Any) -> Any:
        """Say how tensors and what belongs to them are rebuilt."""
        if isinstance(obj, Tensor):
            return self._tensor(obj)
        if isinstance(obj, Device):
            return _DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def save_name(self, obj: Name) -> None:
        """Write a name."""
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    def save_dtype(self, obj: Dtype) -> None:
        """Write a dtype as PyTorch's object of the same name."""
        self.save(_torch(obj.name))

    def save_size(self, obj: Size) -> None:
        """Write a Size."""
        self.save_reduce(_SIZE, (tuple(obj),), obj=obj)

    dispatch[Name] = save_name
    dispatch[Dtype] = save_dtype
    dispatch[Size] = save_size

    def _tensor(self, t: Tensor) -> tuple[Any, ...]:
        requires_grad = t._node is not None
        parameter = isinstance(t, Parameter)
        attributes = {k: v for k, v in t.__dict__.items() if not k.startswith("_")}
        rebuilt = self._plain(t, requires_grad and not parameter)
        if parameter:
            data = _Call(*rebuilt)
            if attributes:
                return _PARAMETER_STATE, (data, requires_grad, OrderedDict(), attributes)
            return _PARAMETER, (data, requires_grad, OrderedDict())
        if attributes:
            return _FROM_TYPE, (rebuilt[0], _TENSOR, rebuilt[1], attributes)
        return rebuilt

    def _plain(self, t: Tensor, requires_grad: bool) -> tuple[Any, tuple[Any, ...]]:
        a = t._array
        key, numel, offset, strides = self._storage(a, t.dtype)
        kind = STORAGE_OF.get(t.dtype)
        count = numel if kind is not None else numel * a.itemsize
        # PyTorch has no typed storage for the unsigned types it got last.
        storage = _torch(kind) if kind is not None else Name("torch.storage", "UntypedStorage")
        reference = _Reference(("storage", storage, str(key), "cpu", count))
        args: tuple[Any, ...] = (reference, offset, tuple(a.shape), strides, requires_grad, OrderedDict())
        return (_REBUILD, args) if kind is not None else (_REBUILD_3, (*args, _torch(t.dtype.name)))

    def _storage(self, a: Any, dtype: Dtype) -> tuple[int, int, int, tuple[int, ...]]:
        """Return the key and length of the storage under an array, and the array's place on it."""
        owner = alias.owner(a)
        flat = _flat(owner, a)
        if flat is None:
            # Memory that is no plain block: the elements alone are saved, and nothing is shared.
            a = flat = np.ascontiguousarray(a).reshape(a.shape)
            owner, flat = a, a.reshape(-1)
        found = self.by_owner.get(id(owner))
        if found is None:
            found = self.by_owner[id(owner)] = len(self.storages), dtype, owner
            self.storages.append(flat.view(np.uint8))
        key, first, _ = found
        if first is not dtype:
            raise DtypeError(
                f"save: two tensors share memory, one as {first} and one as {dtype}, which the format cannot express; "
                "clone one of them"
            )
        return key, flat.size, alias.offset_in_storage(a), alias.element_strides(a)


class _Call:
    """An object that pickles as a call: the tensor inside a parameter."""

    __slots__ = ("args", "function")

    def __init__(self, function: Any, args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args

    def __reduce__(self) -> tuple[Any, ...]:
        return self.function, self.args


def _flat(owner: Any, a: Any) -> Any:
    """Return the whole memory of `owner` as a flat array of a's dtype, None if it has no such form."""
    if not (owner.flags.c_contiguous or owner.flags.f_contiguous) or owner.nbytes % a.itemsize:
        return None
    flat = owner.reshape(-1, order="A")
    if a.size and not 0 <= alias.address(a) - alias.address(owner) < owner.nbytes:
        return None
    return flat if flat.dtype == a.dtype else flat.view(np.uint8).view(a.dtype)


def pickled(obj: Any, protocol: int) -> tuple[bytes, list[Bytes]]:
    """Return the pickle of `obj`, and its storages by number."""
    file = io.BytesIO()
    pickler = _Pickler(file, protocol)
    pickler.dump(obj)
    return file.getvalue(), pickler.storages
