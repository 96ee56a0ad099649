"""`backward` and `grad`: what may be asked of the engine, checked, and the answers put where they belong."""

from __future__ import annotations

import warnings
from sys import _getframe as getframe
from typing import Any

import numpy as np

from ..errors import ArgumentError, DtypeError, GradError, ShapeError
from ..node import LEAF
from ..origin import of_frame
from ..state import GRAD, get_mode, mode
from ..tensor import Tensor, wrap
from . import engine, told

transformed: Any = None
"""What answers `grad` for tensors inside transforms (vmap, forward mode); set when these are first used."""


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of the sum of `tensors`, weighted by `grad_tensors`, to `.grad` of the leaves they depend on.

    Args:
        tensors: the roots, a tensor or a sequence of them.
        grad_tensors: per root its cotangent, of its shape; None for roots of one element.
        retain_graph: keep what the graph saved for another pass; by default only with `create_graph`.
        create_graph: record the pass, for higher derivatives.
        inputs: only these tensors receive gradients.

    Raises:
        GradError: a root has no graph, or its graph was freed by an earlier pass.
        ShapeError: a cotangent does not have its root's shape.
    """
    keep = create_graph if retain_graph is None else retain_graph
    if grad_tensors is None and isinstance(tensors, Tensor) and not create_graph:
        roots = _one_root(tensors)
    else:
        roots = _roots("backward", tensors, grad_tensors, create_graph)
    if inputs is None:
        leaves = _run(roots, create_graph, keep)
    else:
        wanted = _edges("backward", (inputs,) if isinstance(inputs, Tensor) else tuple(inputs))
        if not wanted:
            raise ValueError("backward: inputs is empty, so nothing would receive a gradient; leave it out")
        leaves = {}
        found = _run(roots, create_graph, keep, wanted, hooks=False)
        for tensor, edge in zip((inputs,) if isinstance(inputs, Tensor) else tuple(inputs), wanted):
            if found[edge] is None:
                continue
            if edge is tensor:
                leaves[edge] = found[edge]
            else:
                g = found[edge] if create_graph else wrap(np.array(found[edge]))
                tensor._grad = g if tensor._grad is None else tensor._grad + g
    if create_graph and leaves:
        warnings.warn(
            "backward(create_graph=True) leaves gradients that hold the graph that made them; use autograd.grad for "
            "higher derivatives, or set .grad = None afterwards",
            UserWarning,
            stacklevel=3,
        )
    while leaves:
        leaf = next(iter(leaves))
        # Popped straight into the call, so that a fresh gradient has no second holder and can be taken as it is.
        engine.accumulate(leaf, leaves.pop(leaf), create_graph)


def _run(roots: Any, create: bool, keep: bool, wanted: list[Any] | None = None, hooks: bool = True) -> dict[Any, Any]:
    """Run the engine; a pass that is recorded is recorded whatever the caller's grad mode."""
    origin = None
    if not keep:
        frame = getframe(2)
        # Every `loss.backward()` comes through the method; asking for the frame above it is quicker than walking.
        origin = of_frame(getframe(3) if frame.f_code is _METHOD else frame)
    current = engine.current_pass.set(engine.Pass(wanted is not None))
    try:
        if not create:
            return engine.run(roots, keep=keep, wanted=wanted, hooks=hooks, origin=origin)
        token = mode.set(get_mode() | GRAD)
        try:
            return engine.run(roots, create=True, keep=keep, wanted=wanted, hooks=hooks, origin=origin)
        finally:
            mode.reset(token)
    except Exception as problem:
        told.add_notes(problem, roots, engine.run)
        raise
    finally:
        engine.current_pass.reset(current)


_ones: dict[Any, np.ndarray[Any, Any]] = {}


def _one_root(tensor: Tensor) -> Any:
    """Return the root of the commonest call, `loss.backward()`, without looking at what it does not have."""
    node, a = tensor._node, tensor._array
    if node is None or node is LEAF or a.size != 1 or a.dtype.kind == "c":
        return _roots("backward", tensor, None, False)
    key = a.ndim, a.dtype
    one = _ones.get(key)
    if one is None:
        one = _ones[key] = np.ones(a.shape, a.dtype)
        one.flags.writeable = False
    return ((node, one),)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of the sum of `outputs` with respect to `inputs`, leaving every `.grad` alone.

    Args:
        outputs, grad_outputs: the roots and their cotangents, as in `backward`.
        inputs: a tensor, a sequence of them, or a dict; non-leaves are allowed.
        allow_unused: return None for an input that the outputs do not depend on, instead of raising.
        is_grads_batched: the first dimension of every cotangent counts a batch of backward passes.
        materialize_grads: return zeros for such an input.

    Returns:
        One gradient per input, of its shape and dtype: a tuple, or a dict for a dict of inputs.

    Raises:
        GradError: an input does not require grad, or is not used and neither switch allows it.
    """
    if isinstance(inputs, dict):
        values = grad(
            outputs, tuple(inputs.values()), grad_outputs, retain_graph, create_graph, allow_unused, is_grads_batched,
            materialize_grads,
        )  # fmt: skip
        return dict(zip(inputs, values))
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if allow_unused is False and materialize_grads:
        raise ValueError("grad: materialize_grads turns unused inputs into zeros, which allow_unused=False forbids")
    if is_grads_batched:
        from ..func.reverse import batched_grad

        return batched_grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads)
    if transformed is not None:
        found = transformed(outputs, inputs, grad_outputs, create_graph, allow_unused, materialize_grads)
        if found is not None:
            return found
    roots = _roots("grad", outputs, grad_outputs, create_graph)
    wanted = _edges("grad", inputs)
    keep = create_graph if retain_graph is None else retain_graph
    found = _run(roots, create_graph, keep, wanted)
    results: list[Tensor | None] = []
    for i, (tensor, edge) in enumerate(zip(inputs, wanted)):
        g = found[edge]
        if g is None:
            results.append(unused(i, tensor, allow_unused, materialize_grads))
        else:
            results.append(g if create_graph else wrap(np.asarray(g)))
    return tuple(results)


def unused(i: int, tensor: Tensor, allow: bool | None, materialize: bool) -> Tensor | None:
    """Return what stands for the gradient of an input that the outputs do not depend on.

    Raises:
        GradError: neither None nor zeros were allowed.
    """
    if materialize:
        return wrap(np.zeros_like(tensor._array))
    if not allow:
        raise GradError(
            f"grad: inputs[{i}], a tensor of shape {tuple(tensor.shape)}, is not part of the outputs' graph; pass "
            "allow_unused=True to get None for it, or materialize_grads=True to get zeros"
        )
    return None


def _roots(op: str, tensors: Any, grads: Any, create: bool) -> list[tuple[Any, Any]]:
    """Return (edge, gradient) per root, after checking that each has a graph and a fitting gradient."""
    tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    if isinstance(grads, Tensor) or grads is None:
        grads = (grads,) * (1 if grads is not None else len(tensors))
    grads = tuple(grads)
    if len(grads) != len(tensors):
        raise GradError(f"{op}: {len(tensors)} root tensors came with {len(grads)} gradients; give one for each")
    roots = []
    for i, (t, g) in enumerate(zip(tensors, grads)):
        if not isinstance(t, Tensor):
            edge, t = t.edge, t  # a GradientEdge
            shape, dtype = edge.shape, edge.dtype
        else:
            edge = t if t._node is LEAF else t._node
            shape, dtype = t._array.shape, t._array.dtype
        if edge is None:
            raise GradError(
                f"{op}: root {i} does not require grad and no op recorded it, so there is nothing to differentiate. "
                "Was it computed under no_grad, detached, converted to NumPy or to integers, or does no input have "
                "requires_grad=True?"
            )
        roots.append((edge, _gradient(op, i, shape, dtype, g, create)))
    return roots


def _gradient(op: str, i: int, shape: tuple[int, ...], dtype: Any, g: Any, create: bool) -> Any:
    if g is None:
        if np.prod(shape, dtype=int) != 1:
            raise GradError(
                f"{op}: a gradient can be left out only for a root of one element, root {i} has shape {shape}; reduce "
                "it first, e.g. with .sum() or .mean(), or pass a gradient of its shape"
            )
        if dtype.kind == "c":
            raise GradError(f"{op}: a gradient can be left out only for a real root, root {i} is {dtype}; pass one")
        one = np.ones(shape, dtype)
        return wrap(one) if create else one
    if not isinstance(g, Tensor):
        raise ArgumentError(f"{op}: a gradient must be a tensor or None, got {type(g).__name__} for root {i}")
    if g._array.shape != shape:
        raise ShapeError(f"{op}: the gradient of root {i} has shape {g._array.shape}, the root has {shape}")
    if g._array.dtype is not dtype:
        if (g._array.dtype.kind == "c") != (dtype.kind == "c"):
            raise DtypeError(f"{op}: the gradient of root {i} is {g._array.dtype}, the root is {dtype}")
        return engine.repair(g if create else g._array, shape, dtype)
    return g if create else g._array


def _edges(op: str, inputs: tuple[Any, ...]) -> list[Any]:
    edges = []
    for i, t in enumerate(inputs):
        if not isinstance(t, Tensor):
            if hasattr(t, "edge"):
                edges.append(t.edge)
                continue
            raise ArgumentError(f"{op}: inputs[{i}] must be a tensor, got {type(t).__name__}")
        if t._node is None:
            raise GradError(f"{op}: inputs[{i}] does not require grad; call requires_grad_() before using it")
        edges.append(t if t._node is LEAF else t._node)
    return edges


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
    backward(self, gradient, retain_graph, create_graph, inputs)


_method.__name__, _method.__qualname__ = "backward", "Tensor.backward"
_METHOD = _method.__code__
Tensor.backward = _method  # type: ignore[attr-defined] # installed as arithmetic is: Tensor lies below the engine
