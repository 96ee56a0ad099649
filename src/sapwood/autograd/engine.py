"""The engine: reverse accumulation over recorded nodes.

    while nodes wait: take the one with the highest sequence number; for each edge, pull the gradient back and add it
    to what waits there.

Edges lead to smaller sequence numbers only, so a heap gives a valid order without recursion and without counting
dependencies, and every gradient is complete when its node is taken. The loop runs on bare arrays; with `create` it
runs the same formulas on Tensors, which records the backward pass as a graph of its own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import repeat
from typing import Any

import numpy as np
from numpy import ndarray

from .. import alias
from ..errors import ShapeError
from ..node import Freed, Node, Output, hooked
from ..state import ANOMALY, GUARD, last, mode, next_seq
from ..tensor import Tensor, wrap
from . import hooks
from .keeping import in_graph, readable

examine: Any = None
"""What looks at every node's gradients in anomaly mode; set by the module `anomaly`."""
C64, C128 = np.dtype("complex64"), np.dtype("complex128")
add = np.add
_accumulating = threading.Lock()
"""Held while gradients are added to a `.grad`: passes of several threads may end at the same leaf."""


def run(
    roots: Iterable[tuple[Any, Any]],
    *,
    create: bool = False,
    keep: bool = False,
    wanted: list[Any] | None = None,
    into: bool = False,
    origin: Any = None,
) -> dict[Any, Any]:
    """Send gradients from the roots back through the graph.

    Args:
        roots: pairs of an edge and its gradient: an array, or a Tensor with `create`.
        create: record the pass, so that gradients can be differentiated again.
        keep: leave saved values in place for another pass.
        wanted: edges whose gradients to return; nothing else is visited.
        into: add the gradients of leaves to their `.grad`, of the wanted ones where there are some.
        origin: the user's line that asked for the pass, for the error of a second one.

    Returns:
        The gradients of the `wanted` edges that were reached; an empty dictionary with `into`.
    """
    waiting: dict[Any, Any] = {}
    leaves: dict[Any, Any] = {}
    heap: list[tuple[int, Any]] = []
    owned: set[int] = set()
    path: set[Any] | None = None
    found: dict[Any, Any] = {}
    if wanted is not None or hooked:
        roots = list(roots)
    if wanted is not None:
        path = nodes_towards(list(roots), wanted)
        found = dict.fromkeys(wanted)
        if into:
            # `backward(inputs=…)` runs the nodes of its inputs too: their hooks, and what they saved is freed.
            path.update(edge for edge in wanted if isinstance(edge, Node | Output))
    for edge, g in roots:
        store = leaves if isinstance(edge, Tensor) else waiting
        if edge in store:
            store[edge] = store[edge] + g
        else:
            store[edge] = g
            if store is waiting:
                heappush(heap, (-edge.seq, edge))
    counts = hooks.leaf_counts([edge for edge, _ in roots], path, wanted) if into and hooked else None
    freed = None if keep else Freed(origin, next_seq())
    anomaly = bool(mode.get() & (ANOMALY | GUARD))
    unusual = create or anomaly or wanted is not None or bool(alias.moved) or counts is not None
    undefined: set[Any] = set()
    running = token = None
    try:
        if counts:
            running, token = _enter(roots, path, wanted)
            for leaf in [leaf for leaf, n in counts.items() if not n]:
                del counts[leaf]
                accumulate(leaf, leaves.pop(leaf), create)
        while heap:
            node = heappop(heap)[1]
            g = waiting.pop(node, None)
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
                if g is None:
                    if node not in undefined:
                        continue
                    undefined.remove(node)
                if running is None and (node.extra is not None or node.own_pull is not None):
                    running, token = _enter(roots, path, wanted)
                if node.extra is not None:
                    g = hooks.before(node, g, create)
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
                    unusual = True
                    if not isinstance(edge, Tensor) and edge not in waiting and edge not in undefined:
                        undefined.add(edge)
                        heappush(heap, (-edge.seq, edge))
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
            if counts:
                a = g = gi = total = grads = saved = args = None
                _complete(node.edges, counts, leaves, create)
        # What the loop's variables still hold would look like a second owner of a fresh gradient.
        a = g = gi = total = grads = saved = args = None
        if not into:
            for edge in found:
                if edge in leaves:
                    found[edge] = hooks.leaf_tensor_hooks(edge, leaves[edge], create)
        else:
            if wanted is not None:
                leaves = {e: leaves.pop(e) for e in found if e in leaves}
            hooked_late = []
            with _accumulating:
                while leaves:
                    leaf = next(iter(leaves))
                    if leaf._extra is not None:
                        hooked_late.append((leaf, leaves.pop(leaf)))
                    else:
                        # Popped straight into the call: with no second holder, a fresh gradient can be taken as it is.
                        _add_to(leaf, leaves.pop(leaf), create)
            for leaf, g in hooked_late:
                accumulate(leaf, g, create)
        if running is not None:
            for callback in running.callbacks:
                callback()
    finally:
        if token is not None:
            hooks.current.reset(token)
    return found


def _enter(roots: Any, path: Any, wanted: Any) -> tuple[hooks.Pass, Any]:
    """Let the hooks and functions that will be called find the pass that calls them."""
    running, token = hooks.current.get(), None
    if running is None or running.begun:
        running = hooks.Pass(wanted is not None)
        token = hooks.current.set(running)
    running.begin(roots, path, wanted)
    return running, token


def _complete(edges: Iterable[Any], counts: dict[Any, int], leaves: dict[Any, Any], create: bool) -> None:
    """Note that a gradient went along each edge; accumulate in the leaves with hooks whose gradient is complete."""
    for edge in edges:
        if edge is not None and edge in counts:
            counts[edge] -= 1
            if counts[edge] <= 0:
                del counts[edge]
                accumulate(edge, leaves.pop(edge, None), create)


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
    if g is not None:
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
    if node.extra is not None:
        g = hooks.pre_hooks(node, g, create)
    if node.own_pull is not None:
        grads = node.own_pull(g, create)
        return grads if node.extra is None else hooks.after(node, g, grads, create)
    if g is None or (type(g) is list and not any(x is not None for x in g)):
        if node.saves and type(node.saved) is Freed:
            readable(node)
        grads = [None] * len(node.edges)
        return grads if node.extra is None else hooks.after(node, g, grads, create)
    saved = node.saved
    if type(saved) is not tuple:
        saved = readable(node)
    if node.seq < last.write:
        alias.check_saved(node)
    if alias.moved:
        saved = tuple([s and tuple(map(alias.current, s)) for s in saved])
    if create:
        saved = in_graph(node, saved)
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
    return grads if node.extra is None else hooks.after(node, seen, grads, create)


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
        stack.extend(e for e in hooks.edges_of(node) if isinstance(e, (Node, Output)))
    on_path: set[Any] = set()
    for node in sorted(order, key=lambda n: n.seq):
        if any(e in goals or e in on_path for e in hooks.edges_of(node) if e is not None):
            on_path.add(node)
    return on_path


# -- leaves -----------------------------------------------------------------------------------------------------------


def accumulate(leaf: Any, g: Any, create: bool) -> None:
    """Add a complete gradient (None if none arrived, which only hooks see) to the `.grad` of a leaf."""
    extra = leaf._extra
    if extra is not None:
        g = hooks.before_leaf(extra, g, create)
    if g is not None:
        with _accumulating:
            _add_to(leaf, g, create)
    if extra is not None:
        hooks.after_leaf(leaf, extra, g, create)


def _add_to(leaf: Any, g: Any, create: bool) -> None:
    """Add a gradient to the `.grad` of a leaf; called with the lock held."""
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
        leaf._grad = wrap(np.asarray(old._array + g))


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
