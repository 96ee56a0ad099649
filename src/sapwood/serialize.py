"""Copies and pickles of tensors: storages shared between tensors stay shared."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import alias
from .errors import GradError
from .node import LEAF
from .tensor import Parameter, Tensor


def deep_copy(tensor: Any, memo: dict[int, Any]) -> Any:
    """Return a copy with its own memory, its `.grad` and its attributes copied too (of a Parameter, its values only).

    Raises:
        GradError: the tensor was made by an op: copying it would have to copy its graph.
    """
    found = memo.get(id(tensor))
    if found is not None:
        return found
    if tensor._node is not None and tensor._node is not LEAF:
        raise GradError(
            "deepcopy: only leaves can be deep-copied, this tensor was made by "
            f"{tensor.grad_fn.name()}; copy tensor.detach(), or clone() it to stay in the graph"
        )
    if isinstance(tensor, Parameter):
        # PyTorch copies a parameter's values alone: no gradient, no attributes, no shared storage.
        out = object.__new__(type(tensor))
        out._array, out._node = tensor._array.copy(order="K"), tensor._node
        memo[id(tensor)] = out
        return out
    whole = alias.owner(tensor._array)
    storage = memo.get(id(whole))
    if storage is None:
        storage = memo[id(whole)] = alias.flat_storage(whole).copy()
        memo.setdefault(id(memo), []).append(whole)
    out = object.__new__(type(tensor))
    out._array = placed(storage, tensor._array)
    out._node = tensor._node
    memo[id(tensor)] = out
    rebuild_attributes(out, tensor, memo)
    return out


def rebuild_attributes(out: Any, tensor: Any, memo: dict[int, Any]) -> None:
    """Copy the gradient and the user's own attributes."""
    import copy

    skip = {"_views", "_base", "_accumulator", "_extra", "_record", "_view_kind"}
    for name, value in tensor.__dict__.items():
        if name not in skip:
            setattr(out, name, copy.deepcopy(value, memo))


def placed(storage: np.ndarray[Any, Any], like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array on `storage` with the shape, strides and offset that `like` has on its own storage."""
    if not like.size:
        return np.empty(like.shape, like.dtype)
    offset = alias.offset_in_storage(like) * like.itemsize
    return np.ndarray(like.shape, like.dtype, storage, offset, like.strides)


def reduced(tensor: Any) -> tuple[Any, ...]:
    """Return what pickle stores: the storage once, the geometry, whether gradients are wanted, attributes."""
    a = tensor._array
    storage = alias.owner(a)
    if not (storage.flags.c_contiguous or storage.flags.f_contiguous):
        storage = alias.flat_storage(a)
    # The owner itself, and not a view of it: pickle stores an object once, so tensors that share it share it again.
    geometry = (a.shape, alias.element_strides(a) if a.size else None, alias.offset_in_storage(a))
    attributes = {k: v for k, v in tensor.__dict__.items() if not k.startswith("_")}
    return _restore, (type(tensor), storage, geometry, tensor._node is not None, attributes or None)


def _restore(cls: Any, storage: Any, geometry: Any, requires_grad: bool, attributes: Any) -> Any:
    flat = alias.flat_storage(storage)
    shape, strides, offset = geometry
    out: Tensor = object.__new__(cls)
    if strides is None:
        out._array = np.empty(shape, flat.dtype)
    else:
        item = flat.itemsize
        out._array = np.ndarray(shape, flat.dtype, flat, offset * item, tuple(s * item for s in strides))
    out._node = LEAF if requires_grad else None
    for key, value in (attributes or {}).items():
        setattr(out, key, value)
    return out
