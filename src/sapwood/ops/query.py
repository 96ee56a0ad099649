"""Questions about tensors and types: `is_tensor`, `is_floating_point`, `result_type`, `numel` …"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..cuts import note
from ..dtypes import dtype as Dtype
from ..errors import ArgumentError
from ..tensor import Tensor
from .declare import composite


def _tensor(op: str, input: Any) -> Tensor:
    if not isinstance(input, Tensor):
        raise ArgumentError(f"{op}: input must be a tensor, got {type(input).__name__}")
    return input


@composite
def is_tensor(obj: Any) -> bool:
    """Return whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


@composite
def is_storage(obj: Any) -> bool:
    """Return whether `obj` is a storage, the memory under tensors."""
    return type(obj).__name__ in ("UntypedStorage", "TypedStorage")


@composite
def is_floating_point(input: Tensor) -> bool:
    """Return whether the dtype is a floating-point type."""
    return _tensor("is_floating_point", input).is_floating_point()


@composite
def is_complex(input: Tensor) -> bool:
    """Return whether the dtype is complex."""
    return _tensor("is_complex", input).is_complex()


@composite
def is_signed(input: Tensor) -> bool:
    """Return whether the dtype has negative values."""
    return _tensor("is_signed", input).is_signed()


@composite
def detach(input: Tensor) -> Tensor:
    """Return a tensor on the same memory that is not part of any graph."""
    out = _tensor("detach", input).detach()
    if input.requires_grad:
        note("detach()", input, out)
    return out


@composite(name="detach_")
def detach_(input: Tensor) -> Tensor:
    """Take the tensor out of its graph, making it a leaf; graphs already built from it stay as they are."""
    if _tensor("detach_", input).requires_grad:
        note("detach_()", input, input)
    return input.detach_()


@composite
def is_inference(input: Tensor) -> bool:
    """Return whether the tensor was made under `inference_mode`."""
    return _tensor("is_inference", input).is_inference()


@composite(method=True)
def is_distributed(input: Tensor) -> bool:
    """Return False: a tensor lives in one process."""
    _tensor("is_distributed", input)
    return False


@composite(method=True)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether both tensors have the same shape."""
    return _tensor("is_same_size", input)._array.shape == _tensor("is_same_size", other)._array.shape


@composite
def numel(input: Tensor) -> int:
    """Return the number of elements."""
    return _tensor("numel", input)._array.size


@composite
def get_device(input: Tensor) -> int:
    """Return -1: the CPU has no device number."""
    return _tensor("get_device", input).get_device()


@composite
def can_cast(from_: Dtype, to: Dtype) -> bool:
    """Return whether promotion may turn `from_` into `to`: not from complex to real, float to int, or to bool."""
    for name, t in (("from_", from_), ("to", to)):
        if type(t) is not Dtype:
            raise ArgumentError(f"can_cast: {name} must be a dtype, got {type(t).__name__}")
    return from_.category <= to.category


@composite
def result_type(tensor1: Any, tensor2: Any) -> Dtype:
    """Return the type in which an operation on two operands, tensors or numbers, computes."""
    dims: list[Dtype] = []
    zeros: list[Dtype] = []
    numbers: list[Any] = []
    for x in (tensor1, tensor2):
        if isinstance(x, Tensor):
            (dims if x._array.ndim else zeros).append(x.dtype)
        elif isinstance(x, bool | int | float | complex):
            numbers.append(x)
        elif isinstance(x, np.generic):
            numbers.append(x.item())
        else:
            raise ArgumentError(f"result_type: tensors or numbers are expected, got {type(x).__name__}")
    return dtypes.result_dtype(dims, zeros, numbers)


@composite
def typename(obj: Any, /) -> str:
    """Return the name of an object's type; a tensor's with its element type, e.g. "torch.FloatTensor"."""
    if type(obj) is Tensor:
        return obj.type()  # type: ignore[attr-defined, no-any-return]
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


@composite
def set_default_tensor_type(t: Any, /) -> None:
    """Make the type of FloatTensor, DoubleTensor … (or its name) that of new tensors made from Python floats."""
    from .legacy import TENSOR_TYPES

    found = TENSOR_TYPES.get(t.removeprefix("torch.")) if isinstance(t, str) else t
    if not hasattr(found, "dtype"):
        raise ArgumentError(f"set_default_tensor_type: a type such as FloatTensor is expected, got {t!r}")
    dtypes.set_default_dtype(found.dtype)


@composite
def get_default_device() -> Any:
    """Return the CPU: there is no other place for tensors."""
    from ..device import CPU

    return CPU


@composite
def set_default_device(device: Any) -> None:
    """Accept the CPU, or None.

    Raises:
        MissingError: another device.
    """
    from ..device import device as Device

    if device is not None:
        Device(device).require_cpu("set_default_device")
