"""`backward` and `grad`: what may be asked of the engine, checked, and the answers put where they belong."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from sys import _getframe as getframe
from typing import Any

import numpy as np

from ..errors import ArgumentError, DtypeError, GradError, ShapeError
from ..node import LEAF, GradientEdge, Output, edge_of
from ..origin import of_frame, user_files
from ..state import GRAD, get_mode, mode
from ..tensor import Tensor, wrap
from ..warned import warn
from . import engine, hooks, told
from .engine import run

transformed: Any = None
"""What answers `grad` for tensors inside transforms (vmap, forward mode); set when these are first used."""


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of the sum of `tensors`, weighted by `grad_tensors`, to `.grad` of the leaves they depend on.

    Args:
        tensors: the roots, a tensor or a sequence of them.
        grad_tensors: per root its cotangent, of its shape; None for roots of one element.
        retain_graph: keep what the graph saved for another pass; by default only with `create_graph`.
        create_graph: record the pass, for higher derivatives.
        grad_variables: the old name of `grad_tensors`.
        inputs: only these tensors receive gradients.

    Raises:
        GradError: a root has no graph, or its graph was freed by an earlier pass.
        ShapeError: a cotangent does not have its root's shape.
    """
    keep = create_graph if retain_graph is None else retain_graph
    if grad_variables is not None:
        if grad_tensors is not None:
            raise GradError("backward: grad_variables is the old name of grad_tensors; pass only the latter")
        warn("backward: grad_variables is the old name of grad_tensors; use the new one", FutureWarning)
        grad_tensors = grad_variables
    roots = _roots("backward", tensors, grad_tensors, create_graph)
    wanted = None
    if inputs is not None:
        inputs = _sequence("backward", "inputs", inputs)
        if not inputs:
            raise GradError("backward: inputs is empty, so nothing would receive a gradient; leave it out")
        wanted = _edges("backward", inputs, roots)
        for tensor in inputs:
            if isinstance(tensor, Tensor):
                tensor.retain_grad()
    if create_graph:
        warn(
            "backward(create_graph=True) leaves gradients that hold the graph that made them; use autograd.grad for "
            "higher derivatives, or set .grad = None afterwards",
            once=True,
        )
    _run(roots, create_graph, keep, wanted, into=True)


def _run(
    roots: Any, create: bool, keep: bool, wanted: list[Any] | None, *, into: bool = False, stop: Collection[Any] = ()
) -> dict[Any, Any]:
    """Run the engine; a pass that is recorded is recorded whatever the caller's grad mode."""
    origin = None
    if not keep:
        frame = getframe(2)
        # Every `loss.backward()` comes through the method; asking for the frame above it is quicker than walking.
        origin = of_frame(getframe(3) if frame.f_code is _METHOD else frame)
    try:
        if not create:
            return run(roots, False, keep, wanted, into, origin, stop)
        token = mode.set(get_mode() | GRAD)
        try:
            return run(roots, True, keep, wanted, into, origin, stop)
        finally:
            mode.reset(token)
    except Exception as problem:
        told.add_notes(problem, roots, run)
        raise


def _sequence(op: str, what: str, given: Any) -> tuple[Any, ...]:
    """Return one tensor, one edge or a sequence of them as a tuple."""
    if isinstance(given, Tensor | GradientEdge):
        return (given,)
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        error = GradError if what == "inputs" else ArgumentError
        raise error(f"{op}: {what} must be a tensor or a sequence of tensors, got {type(given).__name__}")
    return tuple(given)


_ones: dict[Any, np.ndarray[Any, Any]] = {}
"""Per shape and type of a root of one element: the gradient it starts with."""


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
    *,
    stop: Any = None,
) -> Any:
    """Return the gradients of the sum of `outputs` with respect to `inputs`, leaving every `.grad` alone.

    Args:
        outputs, grad_outputs: the roots and their cotangents, as in `backward`.
        inputs: a tensor, a sequence of them, or a dict; non-leaves are allowed.
        only_inputs: has no effect any more; use `backward` to reach other leaves.
        allow_unused: return None for an input that the outputs do not depend on, instead of raising.
        is_grads_batched: the first dimension of every cotangent counts a batch of backward passes.
        materialize_grads: return zeros for such an input.
        stop: tensors to take for constants: the pass does not go beyond them, and what lies there stays as it is. A
            stop that is also an input gets the gradient that arrives at it.

    Returns:
        One gradient per input, of its shape and dtype: a tuple, or a dict for a dict of inputs.

    Raises:
        GradError: an input does not require grad, or is not used and neither switch allows it.
    """
    if isinstance(inputs, dict):
        values = grad(
            outputs, tuple(inputs.values()), grad_outputs, retain_graph, create_graph, only_inputs, allow_unused,
            is_grads_batched, materialize_grads, stop=stop,
        )  # fmt: skip
        return dict(zip(inputs, values))
    if not only_inputs:
        warn("grad: only_inputs has no effect any more; use backward to reach other leaves as well", FutureWarning)
    inputs = _sequence("grad", "inputs", inputs)
    if allow_unused is False and materialize_grads:
        raise ValueError("grad: materialize_grads turns unused inputs into zeros, which allow_unused=False forbids")
    ends = frozenset(() if stop is None else _stops(stop))
    if is_grads_batched and not ends:
        from ..func.reverse import batched_grad

        return batched_grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads)
    if is_grads_batched:
        raise GradError("grad: stop and is_grads_batched cannot be combined; call grad once per row")
    if transformed is not None:
        found = (
            None if ends else transformed(outputs, inputs, grad_outputs, create_graph, allow_unused, materialize_grads)
        )
        if found is not None:
            return found
    roots = _roots("grad", outputs, grad_outputs, create_graph)
    if not inputs:
        raise GradError("grad: inputs is empty, so there is nothing to differentiate with respect to")
    wanted = _edges("grad", inputs, roots)
    keep = create_graph if retain_graph is None else retain_graph
    found = _run(roots, create_graph, keep, wanted, stop=ends)
    results: list[Tensor | None] = []
    for i, edge in enumerate(wanted):
        g = found[edge]
        if g is None:
            results.append(unused(i, edge, allow_unused, materialize_grads))
        else:
            results.append(g if create_graph else wrap(np.asarray(g)))
    return tuple(results)


def _stops(stop: Any) -> list[Any]:
    """Return the edges at the tensors that a pass is to stop at; at leaves and constants it ends anyway."""
    edges = []
    for i, t in enumerate(_sequence("grad", "stop", stop)):
        if not isinstance(t, Tensor) or hasattr(type(t), "__sapwood_op__"):
            raise ArgumentError(f"grad: stop[{i}] must be a plain tensor, got {type(t).__name__}")
        if t._node is not None and t._node is not LEAF:
            edges.append(t._node)
    return edges


def unused(i: int, place: Any, allow: bool | None, materialize: bool) -> Tensor | None:
    """Return what stands for the gradient of an input, a tensor or an edge, that the outputs do not depend on.

    Raises:
        GradError: neither None nor zeros were allowed.
    """
    like = place._array if isinstance(place, Tensor) else place
    if materialize:
        return wrap(np.zeros(like.shape, like.dtype))
    if not allow:
        raise GradError(
            f"grad: inputs[{i}], of shape {like.shape}, is not part of the outputs' graph; pass allow_unused=True to "
            "get None for it, or materialize_grads=True to get zeros"
        )
    return None


before_pass: list[Any] = []
"""Functions called with the name of whatever is about to run a backward pass; a capture refuses it here."""


def _roots(op: str, tensors: Any, grads: Any, create: bool) -> list[tuple[Any, Any]]:
    """Return (edge, gradient) per root, after checking that each has a graph and a fitting gradient."""
    for refuse in before_pass:
        refuse(op)
    tensors = _sequence(op, "roots", tensors)
    if grads is None:
        grads = (None,) * len(tensors)
    grads = _sequence(op, "gradients", grads)
    for g in grads:
        if g is not None and not isinstance(g, Tensor):
            raise ArgumentError(f"{op}: a gradient must be a tensor or None, got {type(g).__name__}")
    if len(grads) != len(tensors):
        raise GradError(f"{op}: {len(tensors)} root tensors came with {len(grads)} gradients; give one for each")
    roots = []
    for i, (t, g) in enumerate(zip(tensors, grads)):
        if isinstance(t, GradientEdge):
            edge = edge_of(t)
            like = edge._array if isinstance(edge, Tensor) else edge
            shape, dtype = like.shape, like.dtype
        elif isinstance(t, Tensor):
            edge = t if t._node is LEAF else t._node
            shape, dtype = t._array.shape, t._array.dtype
        else:
            raise ArgumentError(f"{op}: root {i} must be a tensor or a GradientEdge, got {type(t).__name__}")
        if edge is None:
            raise GradError(
                f"{op}: root {i} does not require grad and no op recorded it, so there is nothing to differentiate. "
                "Was it computed under no_grad, detached, converted to NumPy or to integers, is it a gradient taken "
                "without create_graph=True, or does no input have requires_grad=True?"
            )
        roots.append((edge, _gradient(op, i, shape, dtype, g, create)))
    return roots


def _gradient(op: str, i: int, shape: tuple[int, ...], dtype: Any, g: Any, create: bool) -> Any:
    if g is None:
        if prod(shape) != 1:
            raise GradError(
                f"{op}: a gradient can be left out only for a root of one element, root {i} has shape {shape}; reduce "
                "it first, e.g. with .sum() or .mean(), or pass a gradient of its shape"
            )
        if dtype.kind == "c":
            raise GradError(f"{op}: a gradient can be left out only for a real root, root {i} is {dtype}; pass one")
        if create:
            return wrap(np.ones(shape, dtype))
        one = _ones.get((shape, dtype))
        if one is None:
            one = _ones[shape, dtype] = np.ones(shape, dtype)
            one.flags.writeable = False
        return one
    if g._array.shape != shape:
        raise ShapeError(f"{op}: the gradient of root {i} has shape {g._array.shape}, the root has {shape}")
    if g._array.dtype is not dtype:
        if (g._array.dtype.kind == "c") != (dtype.kind == "c"):
            raise DtypeError(f"{op}: the gradient of root {i} is {g._array.dtype}, the root is {dtype}")
        return engine.repair(g if create else g._array, shape, dtype)
    return g if create else g._array


def _edges(op: str, inputs: tuple[Any, ...], roots: Any) -> list[Any]:
    edges = []
    for i, t in enumerate(inputs):
        if isinstance(t, GradientEdge):
            edges.append(_in_graph(edge_of(t), roots))
            continue
        if not isinstance(t, Tensor):
            raise GradError(f"{op}: inputs[{i}] must be a tensor or a GradientEdge, got {type(t).__name__}")
        if t._node is None:
            raise GradError(f"{op}: inputs[{i}] does not require grad; call requires_grad_() before using it")
        edges.append(t if t._node is LEAF else t._node)
    return edges


def _in_graph(edge: Any, roots: Any) -> Any:
    """Return the edge of the roots' graph that is the same place as `edge`, which the user may have made by hand."""
    if type(edge) is not Output:
        return edge
    same = (e for e in hooks.reachable([r for r, _ in roots]) if type(e) is Output)
    return next((e for e in same if e.node is edge.node and e.nr == edge.nr), edge)


def _method(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Add the gradient of this tensor to `.grad` of every leaf that it depends on.

    Args:
        gradient: cotangent of this tensor, its shape; may be left out for a tensor of one element.
        retain_graph: keep what the graph saved, so that backward can run through it again.
        create_graph: record the backward computation, for higher derivatives.
        inputs: only these tensors receive gradients.

    Raises:
        GradError: the tensor has no graph, has several elements and no `gradient` is given, its graph was already
            freed, or a value saved for backward was written over.
    """
    if gradient is not None or inputs is not None or create_graph or retain_graph:
        return backward(self, gradient, retain_graph, create_graph, inputs=inputs)
    # The commonest call, straight to the engine.
    a, node = self._array, self._node
    one = _ones.get((a.shape, a.dtype))
    if one is None or node is None or node is LEAF or before_pass:
        return backward(self, None, retain_graph)
    roots = ((node, one),)
    frame = getframe(1)
    code = frame.f_code
    origin = (code, frame.f_lasti) if code.co_filename in user_files else of_frame(frame)
    try:
        run(roots, False, False, None, True, origin)
    except Exception as problem:
        told.add_notes(problem, roots, run)
        raise


_method.__name__, _method.__qualname__ = "backward", "Tensor.backward"
_METHOD = _method.__code__
Tensor.backward = _method  # type: ignore[attr-defined] # installed as arithmetic is: Tensor lies below the engine
