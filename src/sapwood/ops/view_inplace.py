"""Methods that change how a tensor looks at its memory: `t_`, `transpose_`, `squeeze_`, `resize_`, `set_` …"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from .. import alias
from ..errors import GradError, ShapeError
from ..node import LEAF
from ..state import GRAD, get_mode
from ..tensor import Tensor
from .declare import composite
from .nodes import node_class
from .overwrite import forgetting
from .sizes import ints
from .strided import strided
from .views import squeeze, t, transpose, unsqueeze


def _turned(self: Tensor, name: str, view: Any, *attrs: Any, node: str = "") -> Tensor:
    """Make the tensor what `view` of it is; its history goes on through the view's node, called `node`."""
    recording = bool(get_mode() & GRAD)
    if recording and (self._node is LEAF or (self._base is not None and self._base._node is LEAF)):
        raise GradError(
            f"{name}: this tensor is a leaf that requires grad, or a view of one, and its shape cannot be changed in "
            f"place; use {name.removesuffix('_')} for a new tensor"
        )
    looked = view(self, *attrs)
    recorded = looked._node
    self._array = looked._array
    if recording and recorded is not None:
        self._node = recorded
        if node:
            recorded.__class__ = node_class(view.op, node)
    # Last, because the views of this tensor look at array and node together.
    alias.stamp(self, name)
    return self


@composite(name="t_", method=True, function_name=False)
def t_(self: Tensor) -> Tensor:
    """Transpose the matrix in place, without moving elements."""
    return _turned(self, "t_", t, node="TBackward1")


@composite(name="transpose_", method=True, function_name=False, aliases=("swapaxes_", "swapdims_"))
def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swap two dimensions in place, without moving elements."""
    return _turned(self, "transpose_", transpose, dim0, dim1, node="TransposeBackward1")


@composite(name="squeeze_", method=True, function_name=False)
def squeeze_(self: Tensor, dim: Any = None) -> Tensor:
    """Drop dimensions of size 1 in place."""
    node = (
        "SqueezeBackward3"
        if dim is None
        else "SqueezeBackward5"
        if isinstance(dim, tuple | list)
        else "SqueezeBackward4"
    )
    return _turned(self, "squeeze_", squeeze, dim, node=node)


@composite(name="unsqueeze_", method=True, function_name=False)
def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """Insert a dimension of size 1 in place."""
    return _turned(self, "unsqueeze_", unsqueeze, dim, node="UnsqueezeBackward1")


@composite(name="as_strided_", method=True)
def as_strided_(self: Tensor, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
    """Change sizes, strides and offset in place."""
    return _turned(self, "as_strided_", strided, size, stride, storage_offset)


@composite(name="resize_", method=True, function_name=False)
def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Give the tensor another size; its elements stay in memory order, new ones are not initialised."""
    size = ints("resize_", "sizes", sizes[0] if len(sizes) == 1 and type(sizes[0]) is not int else sizes)
    if self._node is not None:
        raise GradError("resize_: a tensor that requires grad cannot be resized; use view, reshape or a new tensor")
    if any(n < 0 for n in size):
        raise ShapeError(f"resize_: sizes must not be negative, got {size}")
    a = self._array
    if a.shape == size:
        return self
    memory = alias.flat_storage(a)
    start, count = alias.offset_in_storage(a), prod(size)
    if start + count > memory.size:
        grown = np.zeros(start + count, a.dtype)
        grown[: memory.size] = memory
        memory = grown
    self._array = ndarray(size, a.dtype, memory, start * a.itemsize)
    alias.stamp(self, "resize_")
    return self


@composite(name="resize_as_", method=True)
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Give the tensor the size of another."""
    return self.resize_(tuple(the_template.shape))


@composite(name="set_", method=True, function_name=False)
def set_(self: Tensor, source: Any = None) -> Tensor:
    """Make the tensor share the memory, size and strides of `source`; without it, empty."""
    if get_mode() & GRAD and self._node is LEAF:
        raise GradError("set_: a leaf that requires grad cannot be given other memory in place; use `with no_grad():`")
    if source is not None and source.dtype is not self.dtype:
        raise ShapeError(f"set_: the source must be {self.dtype.name} like the tensor, got {source.dtype.name}")
    self._array = np.empty(0, self._array.dtype) if source is None else source._array
    alias.stamp(self, "set_")
    if self._node is not None and self._node is not LEAF and get_mode() & GRAD:
        self._node = forgetting("NotImplemented", self._array, self)
    return self


__all__ = ["resize_", "set_", "t_", "transpose_"]
