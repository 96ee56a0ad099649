"""`Tensor(…)`, and the typed constructors FloatTensor, LongTensor …"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, ops
from ..dtypes import dtype as Dtype
from ..errors import ArgumentError
from ..tensor import Size, Tensor
from .declare import composite
from .values import check_place, is_sequence, leaf, new_array, size_of


def legacy_constructor(cls: Any, *args: Any, device: Any = None, dtype: Dtype | None = None) -> Tensor:
    """Build `Tensor(…)` and `Subclass(…)`: from sizes an uninitialised tensor, from a sequence its values.

    Args:
        dtype: the element type that FloatTensor, LongTensor … stand for; None is the default floating-point type.

    Raises:
        ArgumentError: neither sizes nor a sequence nor a tensor came.
        ValueRangeError: a negative size.
    """
    name = cls.__name__ if dtype is None else dtype.name.capitalize() + "Tensor"
    check_place(name, device)
    wanted = dtype or dtypes.get_default_dtype()
    if (len(args) == 1 and not isinstance(args[0], Size | int)) or (args and isinstance(args[0], bool)):
        data = args[0]
        if isinstance(data, Tensor):
            return _alias(cls, data, dtype, name)
        if not is_sequence(data) and not (isinstance(data, np.ndarray) or hasattr(data, "__array__")):
            raise ArgumentError(f"{name}: sizes, a sequence or a tensor are expected, got {type(data).__name__}")
        array = new_array(name, data, wanted)
    else:
        array = np.empty(size_of(name, args) if args else 0, wanted.numpy)
    out: Tensor = leaf(array)
    return out if cls is Tensor else _as_class(out, cls)


def _as_class(t: Tensor, cls: Any) -> Tensor:
    out: Tensor = object.__new__(cls)
    out._array = t._array
    out._node = t._node
    return out


def _alias(cls: Any, data: Tensor, dtype: Dtype | None, name: str) -> Tensor:
    if dtype is not None and data.dtype is not dtype:
        raise ArgumentError(
            f"{name}: a tensor of type {dtype.name} is expected, got {data.dtype.name}; convert it first"
        )
    out = data.detach() if data._node is None else ops.alias(data)
    return out if cls is Tensor else _as_class(out, cls)


class TensorType:
    """Name a dtype in the form of PyTorch's legacy constructors: FloatTensor, LongTensor.

    Calling it builds a tensor of that type, `isinstance` tests for it.
    """

    __slots__ = ("__name__", "dtype")
    __module__ = "torch"
    layout = "torch.strided"
    is_cuda = is_sparse = False

    def __init__(self, name: str, dtype: Dtype) -> None:
        self.__name__ = name
        self.dtype = dtype

    def __call__(self, *args: Any, device: Any = None) -> Tensor:
        return legacy_constructor(Tensor, *args, device=device, dtype=self.dtype)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is self.dtype

    def __repr__(self) -> str:
        return f"<class 'torch.{self.__name__}'>"


TENSOR_TYPES: dict[str, TensorType] = {
    name: TensorType(name, dtype)
    for name, dtype in {
        "FloatTensor": dtypes.float32,
        "DoubleTensor": dtypes.float64,
        "HalfTensor": dtypes.float16,
        "BFloat16Tensor": dtypes.bfloat16,
        "LongTensor": dtypes.int64,
        "IntTensor": dtypes.int32,
        "ShortTensor": dtypes.int16,
        "CharTensor": dtypes.int8,
        "ByteTensor": dtypes.uint8,
        "BoolTensor": dtypes.bool_,
    }.items()
}
"""The legacy constructors by name."""

for _name, _type in TENSOR_TYPES.items():
    composite(_type, name=_name)
