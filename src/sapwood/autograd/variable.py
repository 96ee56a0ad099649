"""`Variable`, by which old programs make tensors, and the handle of the engine that hangs on it."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError
from ..tensor import Tensor
from .hooks import queue_callback


class ImperativeEngine:
    """What programs reach as `Variable._execution_engine`."""

    queue_callback = staticmethod(queue_callback)


class _VariableMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor)


class Variable(metaclass=_VariableMeta):
    """Return a tensor on the memory of `data`: `Variable(data, requires_grad=True)`. Every tensor is one."""

    _execution_engine = ImperativeEngine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise ArgumentError(f"Variable: data must be a tensor, got {type(data).__name__}")
        made = data.detach()
        return made.requires_grad_() if requires_grad else made


__all__ = ["ImperativeEngine", "Variable"]
