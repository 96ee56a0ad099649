"""Custom functions that can be differentiated once, and the base classes of old programs."""

from __future__ import annotations

import functools
from typing import Any

from ..errors import GradError
from ..state import GRAD, get_mode, mode
from ..tensor import Tensor, wrap
from .function import Function


def once_differentiable(backward: Any) -> Any:
    """Mark a backward whose result cannot be differentiated again: doing so raises instead of being wrong."""

    @functools.wraps(backward)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        word = get_mode()
        token = mode.set(word & ~GRAD)
        try:
            results = backward(ctx, *grads)
        finally:
            mode.reset(token)
        if not word & GRAD or not any(isinstance(g, Tensor) and g._node is not None for g in grads):
            return results
        several = isinstance(results, tuple)
        barred = tuple(
            Error.apply(r, *grads) if isinstance(r, Tensor) else r for r in (results if several else (results,))
        )
        return barred if several else barred[0]

    return wrapped


class Error(Function):
    """Pass a value on and refuse to be differentiated."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *others: Tensor) -> Tensor:
        return wrap(value._array.copy())

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise GradError(
            "once_differentiable: this backward is marked as differentiable once, and was differentiated again"
        )


_error_node: Any = vars(Error)["_node_class"]
_error_node.name = lambda self: "torch::autograd::Error"


class InplaceFunction(Function):
    """A base class of old programs; `mark_dirty` says more exactly what a function writes over."""

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


class NestedIOFunction(Function):
    """A base class of old programs, for nested inputs and outputs; `apply` takes and returns flat ones."""
