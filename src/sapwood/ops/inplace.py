"""In-place forms: the same op, its result written over its first input.

Every check comes before the write. A write to a view changes its base: the base's history goes through `copy_slices`,
and every other view of it gets a node that reads the changed base.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from .. import alias
from ..errors import DtypeError, ShapeError
from ..node import LEAF, Node, rare
from ..state import GRAD, get_mode
from ..tensor import Tensor
from . import slow
from .declare import Op, op


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
    for x in others:
        takes_over = getattr(type(x), "__sapwood_op__", None)
        if takes_over is not None:
            return takes_over(op, (self, *others), attrs)
    checked = slow._checked(op, (self, *others), operator)
    if checked is NotImplemented:
        return NotImplemented
    others = checked[1:]
    mode = get_mode()
    recording = bool(mode & GRAD)
    alias.check_writable(self, name, recording)
    target = self._array
    arrays, common = slow.to_arrays(op, checked)
    if common is not None and op.promote != "bool" and common.category > self.dtype.category:
        raise DtypeError(
            f"{name}: the result is {common.name}, which the tensor of type {self.dtype.name} cannot hold; use "
            f"{name.removesuffix('_')} for a new tensor, or convert this one first"
        )
    attrs = slow.canonical(op, arrays, attrs)
    record = recording and any(isinstance(x, Tensor) and x._node is not None for x in checked)
    if record and any("input" in w for w in op.wants) and arrays[0] is target:
        arrays = (target.copy(), *arrays[1:])
    plain = (
        isinstance(op.forward, np.ufunc) and attrs == tuple(op.usual.values()) and not record and arrays[0] is target
    )
    if plain and op.promote != "bool" and all(not isinstance(a, ndarray) or a.dtype is target.dtype for a in arrays):
        _ufunc_into(op, name, target, arrays, attrs)
    else:
        result = slow.evaluate(op, arrays, attrs, checked)
        write(name, self, result)
    alias.stamp(self, name)
    if record:
        saved = self._array if self._array.dtype == np.asarray(arrays[0]).dtype else np.asarray(result)
        edges = slow.record(op, checked, arrays, attrs, (saved,))
        if edges is not None:
            rebase(self, edges[0])
    return self


def _ufunc_into(op: Any, name: str, target: Any, arrays: Any, attrs: Any) -> None:
    try:
        op.forward(*arrays, out=target)
    except RuntimeWarning:
        with np.errstate(all="ignore"):
            op.forward(*arrays, out=target)
    except ValueError as problem:
        _refuse_growth(name, target, np.broadcast_shapes(*(np.shape(a) for a in arrays)), problem)


def write(name: str, tensor: Tensor, result: Any) -> None:
    """Copy `result` over the tensor's elements; sizes must match, types are converted.

    Raises:
        ShapeError: `result` does not broadcast to the tensor.
    """
    target = tensor._array
    if np.shape(result) != target.shape:
        _refuse_growth(name, target, np.shape(result), None)
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
        layout, geometry = _layout(base), alias.strided_over(base._array, tensor._array)
        node = _node("CopySlices", (history, edge), (layout, *geometry), base._array)
        _move(base, node)
    for view in alias.live_views(base):
        refresh(view, base)


def refresh(view: Tensor, base: Tensor) -> None:
    """Give a view the history of its changed base."""
    if view._view_kind == "multiple":
        view._node = _invalid(view)
    elif base._node is not None:
        geometry = alias.strided_over(base._array, view._array)
        _move(view, _node("AsStridedBackward0", (base._node,), (_layout(base), *geometry), view._array))


def _move(tensor: Tensor, edge: Any) -> None:
    """Replace the tensor's node; a retained gradient follows the tensor, hooks stay with the old value."""
    old = tensor._node
    if old is not None and old is not LEAF and old.extra is not None and tensor.retains_grad:
        rare(edge)["retain"] = old.extra.pop("retain")
    tensor._node = edge


def _layout(base: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    a = base._array
    return a.shape, tuple(s // a.itemsize for s in a.strides)


def _node(name: str, edges: tuple[Any, ...], geometry: tuple[Any, ...], out: ndarray[Any, Any]) -> Node:
    from .call import node_class

    declared: Any = (copy_slices if name == "CopySlices" else slice_of).op  # type: ignore[attr-defined]
    node: Node = node_class(declared, name)()
    node.edges = edges
    node.saved = (geometry,) * len(edges)
    node.shape, node.dtype, node.extra, node.seq = out.shape, out.dtype, None, slow.next_seq()
    return node


def _invalid(view: Tensor) -> Node:
    from .call import node_class

    node = node_class(invalid_view.op, "Invalid")()  # type: ignore[attr-defined]
    node.edges = (None,)
    node.saved = None
    node.shape, node.dtype, node.extra, node.seq = view._array.shape, view._array.dtype, None, slow.next_seq()
    return node


def _laid_out(a: ndarray[Any, Any], layout: Any) -> ndarray[Any, Any]:
    """Return a writable copy of `a` with the strides of `layout`."""
    shape, strides = layout
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if a.size else 0
    buffer = np.zeros(span, a.dtype)
    out = np.ndarray(shape, a.dtype, buffer, 0, tuple(s * a.itemsize for s in strides))
    out[...] = a
    return out


def _region(a: ndarray[Any, Any], size: Any, stride: Any, offset: int) -> ndarray[Any, Any]:
    flat = alias.flat_storage(a)
    return np.ndarray(size, a.dtype, flat, offset * a.itemsize, tuple(s * a.itemsize for s in stride))


@op
class copy_slices(Op):
    """Return `input` with the region that a view covered replaced by `src`: the history of a base after the write."""

    inputs = ("input", "src")
    function = method = False
    grad_fn = "CopySlices"
    half = False
    samples = lambda rng: [
        (rng.standard_normal((3, 4)), rng.standard_normal((2,)), ((3, 4), (4, 1)), (2,), (4, ), 1),
    ]  # fmt: skip

    def forward(input, src, layout, size, stride, offset):  # type: ignore[no-untyped-def]
        out = _laid_out(input, layout)
        _region(out, size, stride, offset)[...] = src
        return out

    def vjp_input(g, layout, size, stride, offset):  # type: ignore[no-untyped-def]
        return copy_slices(g, slice_of(g, layout, size, stride, offset) * 0, layout, size, stride, offset)

    def vjp_src(g, layout, size, stride, offset):  # type: ignore[no-untyped-def]
        return slice_of(g, layout, size, stride, offset)


@op
class slice_of(Op):
    """Return a copy of the region of `input` that a view covers."""

    inputs = ("input",)
    function = method = False
    grad_fn = "AsStridedBackward0"
    half = False
    samples = lambda rng: [(rng.standard_normal((3, 4)), ((3, 4), (4, 1)), (2,), (4,), 1)]

    def forward(input, layout, size, stride, offset):  # type: ignore[no-untyped-def]
        return _region(_laid_out(input, layout), size, stride, offset).copy()

    def vjp_input(g, layout, size, stride, offset):  # type: ignore[no-untyped-def]
        from . import zeros_of

        return copy_slices(zeros_of(g, layout[0]), g, layout, size, stride, offset)


@op
class invalid_view(Op):
    """Stand for a view whose base was changed in place although the view cannot follow."""

    inputs = ("input",)
    function = method = False
    grad_fn = "Invalid"
    samples = lambda rng: [(rng.standard_normal(3),)]

    def forward(input):  # type: ignore[no-untyped-def]
        return input.copy()

    def vjp_input(g, out):  # type: ignore[no-untyped-def]
        return g


__all__ = ["copy_slices", "in_place", "rebase", "refresh", "slice_of", "write"]
