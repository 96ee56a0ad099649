"""In-place forms: the same op, its result written over its first input.

Every check comes before the write. A write to a view changes its base: the base's history goes through `copy_slices`,
and every other view of it gets a node that reads the changed base.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from .. import alias
from ..errors import DtypeError, OverwrittenError, ShapeError
from ..node import LEAF, Node, rare
from ..origin import here
from ..state import GRAD, OBSERVE, get_mode, next_seq
from ..tensor import Tensor
from . import serving, slow
from .declare import Op, registry
from .record import is_differentiable, record

FILLS = {"masked_fill_", "index_fill_", "index_put_", "__setitem__"}
"""They give some elements one value, so they make sense, if hardly ever, on expanded tensors: a warning is enough."""

ORDERS = {"eq", "ne", "lt", "le", "gt", "ge"}
"""Their truth may be written over numbers that have a history."""


def in_place(
    op: type[Op], self: Tensor, others: tuple[Any, ...], attrs: tuple[Any, ...], name: str = "", operator: bool = False
) -> Any:
    """Write op(self, *others, *attrs) over `self` and return it.

    Raises:
        GradError: `self` must not be written to (a leaf that requires grad, an expanded tensor, some views).
        DtypeError: the result's type cannot be held by `self`.
        ShapeError: the result is larger than `self`.
    """
    name = name or op.name + "_"
    owner = slow.owner_of((self, *others))
    if owner is not None:
        over = getattr(owner, "__sapwood_write__", None)
        return owner.__sapwood_op__(op, (self, *others), attrs) if over is None else over(op, self, others, attrs)
    checked = slow.checked_inputs(op, (self, *others), operator)
    if checked is NotImplemented:
        return NotImplemented
    others = checked[1:]
    mode = get_mode()
    recording = bool(mode & GRAD)
    alias.check_writable(self, name, recording, *others, fills=name in FILLS)
    target = self._array
    arrays, common = slow.to_arrays(op, checked)
    if common is not None and op.promote != "bool" and common.category > self.dtype.category:
        raise DtypeError(
            f"{name}: the result is {common.name}, which the tensor of type {self.dtype.name} cannot hold; use "
            f"{name.removesuffix('_')} for a new tensor, or convert this one first"
        )
    attrs = slow.canonical(op, arrays, attrs)
    records = recording and any(isinstance(x, Tensor) and x._node is not None for x in checked)
    if records and any("input" in w for w in op.wants) and arrays[0] is target:
        arrays = (target.copy(), *arrays[1:])
    plain = (
        isinstance(op.forward, np.ufunc) and attrs == tuple(op.usual.values()) and not records and arrays[0] is target
    )
    if mode & OBSERVE:
        from ..autograd.observe import observe

        result = observe(op, name, checked, attrs, lambda: slow.evaluate(op, arrays, attrs, checked))
        write(name, self, result)
    elif plain and op.promote != "bool" and all(not isinstance(a, ndarray) or a.dtype is target.dtype for a in arrays):
        _ufunc_into(op, name, target, arrays, attrs)
    else:
        result = slow.evaluate(op, arrays, attrs, checked)
        write(name, self, result)
    alias.stamp(self, name)
    if records:
        saved = self._array if self._array.dtype == np.asarray(arrays[0]).dtype else np.asarray(result)
        lost = [n for n, a in zip(op.inputs, arrays) if type(a) is ndarray and shares(a, target)]
        edges = record(op, checked, arrays, attrs, (saved,))
        if edges is not None:
            if lost:
                _lose(edges[0], lost, name)
            rebase(self, edges[0])
        elif op.name in ORDERS and is_differentiable(self._array.dtype):
            # Truth written as numbers: constant almost everywhere, so what was there before gets zeros.
            from .overwrite import forgetting

            sources = [x for x in checked if isinstance(x, Tensor) and x._node is not None]
            rebase(self, forgetting(f"{op.name.capitalize()}Backward0", self._array, *sources))
    if mode & OBSERVE:
        slow.tell(op, checked, (self,))
    return self


def shares(a: ndarray[Any, Any], target: ndarray[Any, Any]) -> bool:
    """Return whether two arrays lie in one storage."""
    return a is target or alias.owner(a) is alias.owner(target)


def _lose(node: Any, names: list[str], op: str) -> None:
    """Make the node refuse to give out operands that its own write may have changed."""
    from ..autograd.keeping import Packed, PackedValue

    def refuse(name: Any) -> Any:
        raise OverwrittenError(
            f"backward: {node.name()} needs its argument {name!r}, which shares memory with the tensor that {op} "
            f"itself has written over; pass {name}.clone() to it, or use {op.removesuffix('_')}"
        )

    if type(node.saved) is tuple and any(n in node.keeps for n in names):
        node.saved = Packed(
            tuple(PackedValue(n, refuse) if n in names and v is not None else v for n, v in zip(node.keeps, node.saved))
        )


def _ufunc_into(op: Any, name: str, target: Any, arrays: Any, attrs: Any) -> None:
    forward = serving.forward_of(op)
    try:
        forward(*arrays, target)
    except RuntimeWarning:
        with np.errstate(all="ignore"):
            forward(*arrays, target)
    except ValueError as problem:
        try:
            shape = np.broadcast_shapes(*(np.shape(a) for a in arrays))
        except ValueError:
            slow.explain(op, arrays, attrs, (arrays, {}), problem)
        else:
            _refuse_growth(name, target, shape, problem)


def write(name: str, tensor: Tensor, result: Any) -> None:
    """Copy `result` over the tensor's elements; sizes must match, types are converted.

    Raises:
        ShapeError: `result` does not broadcast to the tensor.
    """
    target = tensor._array
    if np.shape(result) != target.shape:
        _refuse_growth(name, target, np.shape(result), None)
    if alias.overlaps_itself(target):
        # An element that is left alone must not undo what a neighbour on the same memory was filled with.
        np.copyto(target, result, where=result != target)
    else:
        target[...] = result


def _refuse_growth(name: str, target: Any, shape: tuple[int, ...], problem: Exception | None) -> None:
    raise ShapeError(
        f"{name}: the result has shape {shape} and the tensor {target.shape}; an in-place op cannot change the shape, "
        f"use {name.removesuffix('_')} for a new tensor"
    ) from problem


def rebase(tensor: Tensor, edge: Any) -> None:
    """Make `edge` the history of a tensor that was just written over, and let its base and views follow."""
    base = tensor._base
    if base is None:
        _move(tensor, edge)
        base = tensor
    else:
        history = base._node
        node = _node("CopySlices", (history, edge), region_of(tensor, base), base._array)
        _move(base, node)
    _refresh_views(base)


def _refresh_views(base: Tensor) -> None:
    for view in alias.live_views(base):
        refresh(view, base)


def refresh(view: Tensor, base: Tensor) -> None:
    """Give a view the history of its changed base, or mark it as unable to follow."""
    if base._node is None or not is_differentiable(view._array.dtype):
        return
    if view._view_kind:
        view._node = _invalid(view, base)
    else:
        edge = base if base._node is LEAF else base._node
        _move(view, _node("AsStridedBackward0", (edge,), region_of(view, base), view._array))


def _follow(tensor: Tensor) -> None:
    """Renew the histories of all views of a storage that was written to."""
    base = tensor if tensor._base is None else tensor._base
    if base._node is not None:
        _refresh_views(base)


alias.follow = _follow


def _move(tensor: Tensor, edge: Any) -> None:
    """Replace the tensor's node; a retained gradient follows the tensor, hooks stay with the old value."""
    old = tensor._node
    if old is not None and old is not LEAF and old.extra is not None and tensor.retains_grad:
        rare(edge)["retain"] = old.extra.pop("retain")
    tensor._node = edge


def region_of(view: Tensor, base: Tensor) -> tuple[Any, ...]:
    """Return the attributes of copy_slices and slice_of: where `view` lies within `base`."""
    a, b = base._array, view._array
    layout = a.shape, tuple(s // a.itemsize for s in a.strides)
    part = "" if a.dtype.kind == b.dtype.kind else "real" if a.dtype.kind == "c" else "complex"
    return layout, *alias.strided_over(a, b), part


def _node(name: str, edges: tuple[Any, ...], geometry: tuple[Any, ...], out: ndarray[Any, Any]) -> Node:
    from .nodes import node_class

    declared = registry["copy_slices" if name == "CopySlices" else "slice_of"]
    node: Node = node_class(declared, name)()
    node.edges = edges
    node.saved = geometry
    node.shape, node.dtype, node.extra, node.seq = out.shape, out.dtype, None, next_seq()
    node.origin = here()
    return node


def _invalid(view: Tensor, base: Tensor) -> Node:
    """Return the node of a view that cannot follow its base; its edge makes every pass towards the base meet it."""
    from .nodes import node_class

    node = node_class(registry["invalid_view"], "Invalid")()
    node.edges = (base if base._node is LEAF else base._node,)
    node.saved = None
    # Not None: the engine has to look at it.
    node.extra = {}
    node.shape, node.dtype, node.seq = view._array.shape, view._array.dtype, next_seq()
    return node
