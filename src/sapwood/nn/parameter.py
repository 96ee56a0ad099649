"""What a Module registers when it is assigned to an attribute: `Parameter`, `Buffer`, and their uninitialised forms."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import GradError
from ..tensor import Parameter as Parameter
from ..tensor import Tensor

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class _BufferMeta(type):
    """Makes any tensor that carries the mark of a buffer an instance of Buffer."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Buffer:
            return isinstance(instance, Tensor) and bool(instance.__dict__.get("_is_buffer"))
        return type.__instancecheck__(cls, instance)


class Buffer(metaclass=_BufferMeta):
    """A tensor that a Module registers as a buffer when it is assigned to an attribute.

    Calling it returns a plain Tensor on the memory of `data`, marked so that the Module recognises it.

    Args:
        data: the values; None for an empty tensor.
        persistent: whether the buffer is part of the module's state_dict.
    """

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = ops.empty(0)
        t = data.detach().requires_grad_(data.requires_grad)
        t.persistent = persistent
        t._is_buffer = True
        return t


_UNKNOWN = frozenset({"shape", "size", "numel", "data_ptr", "stride", "tolist", "item", "numpy"})


class _Uninitialized:
    """The behaviour of a tensor whose shape is not known yet: it can be moved, but not looked into."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name in _UNKNOWN:
            raise GradError(
                f"{name}: this {type(self).__name__} has no shape yet; run its module once on an example input, or "
                "call materialize(shape)"
            )
        return object.__getattribute__(self, name)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the tensor memory for `shape`; from now on it is an ordinary one."""
        wanted = object.__getattribute__(self, "dtype") if dtype is None else dtype
        array = ops.empty(shape, dtype=wanted)._array
        object.__setattr__(self, "_array", array)
        self.__class__ = self._becomes

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        cls: Any = type(self)
        made = cls(dtype=self.dtype, requires_grad=self.requires_grad)
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, None, self.dtype)


class UninitializedParameter(_Uninitialized, Parameter):
    """A Parameter whose shape becomes known when a lazy module sees its first input."""

    __slots__ = ()

    _becomes = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        made: Any = Parameter.__new__(cls, ops.empty(0, dtype=dtype), requires_grad)
        return made


class UninitializedBuffer(_Uninitialized, Tensor):
    """A buffer whose shape becomes known when a lazy module sees its first input."""

    __slots__ = ()

    _becomes = Tensor

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: Any = None) -> UninitializedBuffer:
        made: Any = object.__new__(cls)
        made._array = ops.empty(0, dtype=dtype)._array
        made._node = None
        return made.requires_grad_() if requires_grad else made


def is_lazy(value: Any) -> bool:
    """Return whether `value` is a parameter or buffer without a shape yet."""
    return isinstance(value, _Uninitialized)
