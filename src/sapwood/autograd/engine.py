"""The engine: reverse accumulation over recorded nodes.

    while nodes wait: take the one with the highest sequence number; for each edge, pull the gradient back and add it
    to what waits there.

Edges lead to smaller sequence numbers only, so a heap gives a valid order without recursion and without counting
dependencies, and every gradient is complete when its node is taken. The loop runs on bare arrays; with `create` it
runs the same formulas on Tensors, which records the backward pass as a graph of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextvars import ContextVar
from heapq import heappop, heappush
from itertools import repeat
from typing import Any

import numpy as np
from numpy import ndarray

from .. import alias
from ..errors import DtypeError, ShapeError
from ..node import Freed, Node, Output
from ..state import ANOMALY, GRAD, GUARD, last, mode, next_seq
from ..tensor import Tensor, wrap
from .saved import as_tensors, readable

examine: Any = None
"""What looks at every node's gradients in anomaly mode; set by the module `anomaly`."""


class Pass:
    """One call of `backward` or `grad`: the key of what is worked out once for it."""

    __slots__ = ("__weakref__", "partial")

    def __init__(self, partial: bool) -> None:
        self.partial = partial
        """Whether only the gradients of given tensors are wanted."""


current_pass: ContextVar[Pass | None] = ContextVar("sapwood_pass", default=None)
C64, C128 = np.dtype("complex64"), np.dtype("complex128")
add = np.add


def run(
    roots: Iterable[tuple[Any, Any]],
    *,
    create: bool = False,
    keep: bool = False,
    wanted: list[Any] | None = None,
    hooks: bool = True,
    origin: Any = None,
) -> dict[Any, Any]:
    """Send gradients from the roots back through the graph.

    Args:
        roots: pairs of an edge and its gradient: an array, or a Tensor with `create`.
        create: record the pass, so that gradients can be differentiated again.
        keep: leave saved values in place for another pass.
        wanted: edges whose gradients to return; nothing else is visited.
        hooks: run the hooks of wanted leaves (accumulating their gradients runs them otherwise).
        origin: the user's line that asked for the pass, for the error of a second one.

    Returns:
        The gradients of the `wanted` edges that were reached; without `wanted`, of the leaves.
    """
    waiting: dict[Any, Any] = {}
    leaves: dict[Any, Any] = {}
    heap: list[tuple[int, Any]] = []
    owned: set[int] = set()
    path: set[Any] | None = None
    found: dict[Any, Any] = {}
    if wanted is not None:
        roots = list(roots)
        path = nodes_towards(roots, wanted)
        found = dict.fromkeys(wanted)
    for edge, g in roots:
        store = leaves if isinstance(edge, Tensor) else waiting
        if edge in store:
            store[edge] = store[edge] + g
        else:
            store[edge] = g
            if store is waiting:
                heappush(heap, (-edge.seq, edge))
    freed = None if keep else Freed(origin, next_seq())
    anomaly = bool(mode.get() & (ANOMALY | GUARD))
    unusual = create or anomaly or wanted is not None or bool(alias.moved)
    while heap:
        node = heappop(heap)[1]
        g = waiting.pop(node)
        if owned:
            # From here on it may be handed to several edges, or its id to another array.
            owned.discard(id(g))
        saved = node.saved
        dtype = node.dtype
        vjps = node.vjps
        if (
            unusual
            or type(saved) is not tuple
            or node.extra is not None
            or node.seq < last.write
            or vjps is None
            or dtype is C64
            or dtype is C128
        ):
            if node.extra is not None:
                g = before(node, g, create)
            if path is not None:
                if node in found:
                    found[node] = g
                if node not in path:
                    continue
            if type(node) is Output:
                _collect(node, g, waiting, heap)
                continue
            grads = pull(node, g, create)
            if anomaly:
                examine(node, g, grads)
            saved = [(x,) for x in grads]
            vjps = repeat(_given)
        for edge, vjp, args in zip(node.edges, vjps, saved):
            if edge is None:
                continue
            try:
                gi = vjp(g, *args)
            except RuntimeWarning:
                gi = quietly(vjp, g, *args)
            if gi is None:
                continue
            if isinstance(edge, Tensor):
                store, spec = leaves, edge._array
            else:
                store, spec = waiting, edge
            a = gi._array if create else gi
            if a.shape != spec.shape or a.dtype is not spec.dtype:
                gi = repair(gi, spec.shape, spec.dtype, node)
            if edge not in store:
                store[edge] = gi
                if store is waiting:
                    heappush(heap, (-edge.seq, edge))
            elif create:
                store[edge] = store[edge] + gi
            else:
                total = store[edge]
                if id(total) in owned:
                    add(total, gi, total)
                else:
                    total = store[edge] = add(total, gi)
                    # A 0-d sum is a scalar, which cannot be added to in place.
                    if type(total) is ndarray:
                        owned.add(id(total))
        if not keep and node.saves:
            node.saved = freed
    if wanted is None:
        return leaves
    for edge in found:
        if edge in leaves:
            found[edge] = _leaf_hooks(edge, leaves[edge], create) if hooks else leaves[edge]
    return found


def _given(g: Any, gi: Any) -> Any:
    """The formula of a gradient that `pull` has computed already."""
    return gi


def _collect(output: Output, g: Any, waiting: dict[Any, Any], heap: list[tuple[int, Any]]) -> None:
    """Put the gradient of one of several outputs into its place in the list that waits for their node."""
    node = output.node
    slots = waiting.get(node)
    if slots is None:
        slots = waiting[node] = [None] * node.outs
        heappush(heap, (-node.seq, node))
    slots[output.nr] = g if slots[output.nr] is None else slots[output.nr] + g


def quietly(function: Any, *args: Any) -> Any:
    """Call `function` with NumPy's floating-point warnings off: inf and nan are results, not accidents."""
    with np.errstate(all="ignore"):
        return function(*args)


def pull(node: Node, g: Any, create: bool = False) -> Any:
    """Return the gradient of every input of `node`, whatever is unusual about it.

    Raises:
        GradError: what the node saved was freed, or written over.
    """
    if node.own_pull is not None:
        grads = node.own_pull(g, create)
        return grads if node.extra is None else _after(node, g, grads, create)
    saved = node.saved
    if type(saved) is not tuple:
        saved = readable(node)
    elif node.seq < last.write:
        alias.check_saved(node)
    if alias.moved:
        saved = tuple([s and tuple(map(alias.current, s)) for s in saved])
    if create:
        saved = tuple([as_tensors(node, i, s) for i, s in enumerate(saved)])
    needs = tuple([e is not None for e in node.edges])
    seen = g
    if type(g) is list and not node.takes_none:
        g = [zeros_for(node, k, create) if x is None else x for k, x in enumerate(g)]
    # For a holomorphic f the gradient is g · conj(f') = conj(conj(g) · f'): formulas stay those of real numbers.
    conjugate = node.holomorphic and type(node.dtype) is not tuple and node.dtype.kind == "c"
    if conjugate:
        g = g.conj()
    if node.vjps is None:
        grads = quietly(node.joint, g, needs, *saved[0])
    else:
        grads = [quietly(vjp, g, *args) if n else None for vjp, n, args in zip(node.vjps, needs, saved)]
    if conjugate:
        grads = [x if x is None else x.conj() for x in grads]
    return grads if node.extra is None else _after(node, seen, grads, create)


def zeros_for(node: Node, nr: int, create: bool) -> Any:
    """Return the gradient of an output that nothing used."""
    zero = np.zeros(node.shape[nr], node.dtype[nr])
    return wrap(zero) if create else zero


def repair(g: Any, shape: tuple[int, ...], dtype: np.dtype[Any], node: Any = None) -> Any:
    """Return `g` summed down to `shape` and converted to `dtype`: what broadcasting and promotion did, undone.

    Raises:
        ShapeError: `shape` does not broadcast to the shape of `g`.
    """
    tensor = not isinstance(g, ndarray | np.generic)
    a = g._array if tensor else g
    if not tensor and a.size and shape.count(1) == len(shape) <= a.ndim and a.ndim:
        # Down to one element, the commonest case.
        g = a = add.reduce(a, None).reshape(shape)
    elif a.shape != shape:
        extra = a.ndim - len(shape)
        dims = tuple(range(extra)) + tuple(
            i + extra for i, n in enumerate(shape) if extra >= 0 and n == 1 and a.shape[i + extra] != 1
        )
        fits = extra >= 0 and all(n in (1, m) for n, m in zip(shape, a.shape[extra:]))
        if not fits:
            by = "the gradient" if node is None else f"{node.name()}: a returned gradient"
            raise ShapeError(f"backward: {by} has shape {a.shape}, and cannot be summed down to the input's {shape}")
        g = g.sum(dims, keepdim=True) if tensor else a.sum(dims, keepdims=True)
        if extra:
            g = g.reshape(shape)
    if (g._array if tensor else g).dtype is not dtype:
        g = _convert(g, dtype, tensor)
    return g


def _convert(g: Any, dtype: np.dtype[Any], tensor: bool) -> Any:
    kind = (g._array if tensor else g).dtype.kind
    if kind == "c" and dtype.kind != "c":
        g = g.real
    if not tensor:
        return g.astype(dtype)
    from ..dtypes import of_numpy

    return g.to(of_numpy(dtype))


def nodes_towards(roots: list[tuple[Any, Any]], wanted: list[Any]) -> set[Any]:
    """Return the nodes that lie on a path from a root to one of the `wanted` edges."""
    goals = set(wanted)
    order: list[Any] = []
    seen: set[Any] = set()
    stack = [edge for edge, _ in roots if not isinstance(edge, Tensor)]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        order.append(node)
        stack.extend(e for e in edges_of(node) if isinstance(e, (Node, Output)))
    on_path: set[Any] = set()
    for node in sorted(order, key=lambda n: n.seq):
        if any(e in goals or e in on_path for e in edges_of(node) if e is not None):
            on_path.add(node)
    return on_path


def edges_of(node: Any) -> tuple[Any, ...]:
    """Return the edges of a Node or an Output."""
    return (node.node,) if type(node) is Output else node.edges


# -- hooks: reached only where a node or a leaf carries some ----------------------------------------------------------


def _as_tensor(g: Any, create: bool) -> Any:
    if create or g is None:
        return g
    a = np.asarray(g)
    return wrap(a if a.flags.writeable else a.copy())


def _call(hook: Any, args: tuple[Any, ...], create: bool) -> Any:
    """Run user code with grad mode equal to `create`."""
    word = mode.get()
    token = mode.set(word | GRAD if create else word & ~GRAD)
    try:
        return hook(*args)
    finally:
        mode.reset(token)


def _checked(result: Any, like: Any, create: bool) -> Any:
    """Return what a hook gave in place of a gradient, after checking that it can take its place."""
    if not isinstance(result, Tensor):
        raise DtypeError(f"hook: a gradient hook must return a tensor or None, got {type(result).__name__}")
    if result._array.shape != like._array.shape:
        raise ShapeError(
            f"hook: the hook returned a gradient of shape {result._array.shape}, it must have {like._array.shape}"
        )
    return result


def _tensor_hooks(extra: dict[str, Any], g: Any, create: bool) -> Any:
    for hook in tuple(extra.get("tensor", {}).values()):
        t = _as_tensor(g, create)
        result = _call(hook, (t,), create)
        if result is not None:
            result = _checked(result, t, create)
            g = result if create else result._array
    return g


def before(node: Any, g: Any, create: bool) -> Any:
    """Run what must see a gradient before its node runs: tensor hooks, node pre-hooks, retained gradients."""
    extra = node.extra
    if not isinstance(g, list):
        g = _tensor_hooks(extra, g, create)
    for hook in tuple(extra.get("pre", {}).values()):
        gs = tuple(_as_tensor(x, create) for x in g) if isinstance(g, list) else (_as_tensor(g, create),)
        result = _call(hook, (gs,), create)
        if result is not None:
            result = result if isinstance(result, tuple | list) else (result,)
            new = [r if create or r is None else r._array for r in result]
            g = new if isinstance(g, list) else new[0]
    retained = extra.get("retain")
    if retained is not None and (tensor := retained()) is not None:
        t = _as_tensor(g, create)
        tensor._grad = t if tensor._grad is None else tensor._grad + t
    return g


def _after(node: Node, g: Any, grads: Any, create: bool) -> Any:
    """Run the node's post-hooks on (grad_inputs, grad_outputs)."""
    hooks = node.extra.get("post") if node.extra else None
    for hook in tuple(hooks.values()) if hooks else ():
        inputs = tuple(_as_tensor(x, create) for x in grads)
        outputs = tuple(_as_tensor(x, create) for x in g) if isinstance(g, list) else (_as_tensor(g, create),)
        result = _call(hook, (inputs, outputs), create)
        if result is not None:
            result = result if isinstance(result, tuple | list) else (result,)
            grads = [r if create or r is None else r._array for r in result]
    return grads


def _leaf_hooks(leaf: Any, g: Any, create: bool) -> Any:
    extra = leaf._extra
    if extra is None:
        return g
    g = _tensor_hooks(extra, g, create)
    for hook in tuple(extra.get("pre", {}).values()):
        result = _call(hook, ((_as_tensor(g, create),),), create)
        if result is not None:
            first = result[0] if isinstance(result, tuple | list) else result
            g = first if create else first._array
    return g


# -- leaves -----------------------------------------------------------------------------------------------------------


def accumulate(leaf: Any, g: Any, create: bool) -> None:
    """Add a complete gradient to the `.grad` of a leaf."""
    extra = leaf._extra
    if extra is not None:
        g = _leaf_hooks(leaf, g, create)
    old = leaf._grad
    if create:
        leaf._grad = g if old is None else old + g
    elif old is None:
        leaf._grad = wrap(_own(g, leaf._array))
    elif old._node is None:
        np.add(old._array, g, out=old._array)
        if old._record is not None or alias.record_of(old) is not None:
            alias.stamp(old, "backward")
    else:
        leaf._grad = _as_tensor(old._array + g, create)
    if extra is not None:
        for hook in tuple(extra.get("post", {}).values()):
            _call(hook, ((), (_as_tensor(g, create),)), create)
        for hook in tuple(extra.get("accumulated", {}).values()):
            _call(hook, (leaf,), False)


def _own(g: Any, like: ndarray[Any, Any]) -> ndarray[Any, Any]:
    """Return `g` as an array that nobody else holds, laid out like the leaf.

    A fresh array is taken as it is. Three references mean that only the engine has it: this parameter, the caller's
    variable and the argument of getrefcount.
    """
    if type(g) is ndarray and g.base is None and g.strides == like.strides and sys.getrefcount(g) <= _SOLE:
        return g
    out = np.empty_like(like)
    out[...] = g
    return out


def _count(g: Any) -> int:
    return sys.getrefcount(g)


def _sole_count() -> int:
    """Return the count that `_own` sees for an array only its caller holds; it differs between interpreters."""
    fresh = np.zeros(1)
    return _count(fresh)


_SOLE = _sole_count()
