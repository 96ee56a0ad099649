"""The engine: reverse accumulation over recorded nodes.

    while nodes wait: take the one with the highest sequence number; for each edge, pull the gradient back and add it
    to what waits there.

Edges lead to smaller sequence numbers only, so a heap gives a valid order without recursion and without counting
dependencies, and every gradient is complete when its node is taken. The loop runs on bare arrays; with `create` it
runs the same formulas on Tensors, which records the backward pass as a graph of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from functools import lru_cache
from heapq import heappop, heappush
from operator import attrgetter
from sys import getrefcount
from typing import Any

import numpy as np
from numpy import ndarray

from .. import alias
from ..alias import moved
from ..dtypes import F32, F64
from ..errors import ShapeError
from ..node import Freed, Node, Output, Unusual, hooked
from ..ops.reduce import totals
from ..state import ANOMALY, GUARD, get_mode, last, next_seq
from ..tensor import Tensor, wrap
from . import hooks
from .keeping import in_graph, readable

sweep: Any = None
"""The loop over ordinary nodes in native code; set by `native.switch`."""
examine: Any = None
"""What looks at every node's gradients in anomaly mode; set by the module `anomaly`."""
by_number = attrgetter("seq")
C64, C128 = np.dtype("complex64"), np.dtype("complex128")
add = np.add
new = object.__new__
_accumulating = threading.Lock()
"""Held while gradients are added to a `.grad`: passes of several threads may end at the same leaf."""


def run(
    roots: Iterable[tuple[Any, Any]],
    create: bool = False,
    keep: bool = False,
    wanted: list[Any] | None = None,
    into: bool = False,
    origin: Any = None,
    stop: Collection[Any] = (),
) -> dict[Any, Any]:
    """Send gradients from the roots back through the graph.

    Args:
        roots: pairs of an edge and its gradient: an array, or a Tensor with `create`.
        create: record the pass, so that gradients can be differentiated again.
        keep: leave saved values in place for another pass.
        wanted: edges whose gradients to return; nothing else is visited.
        into: add the gradients of leaves to their `.grad`, of the wanted ones where there are some.
        origin: the user's line that asked for the pass, for the error of a second one.
        stop: edges that a pass for `wanted` gradients does not go beyond.

    Returns:
        The gradients of the `wanted` edges that were reached; an empty dictionary with `into`.
    """
    waiting: dict[Any, Any] = {}
    heap: list[tuple[int, Any]] = []
    # Edges that only undefined gradients reached, and edges whose gradient is a sum of our own, which may be added to
    # in place. Dictionaries, because an empty one is made quicker than an empty set.
    undefined: dict[Any, bool] = {}
    summed: dict[Any, bool] = {}
    found: dict[Any, Any] = {}
    path: set[Any] | None = None
    counts = running = token = freed = None
    if wanted is not None or hooked:
        roots = list(roots)
        if wanted is not None:
            path = nodes_towards(roots, wanted, stop)
            found = dict.fromkeys(wanted)
            if into:
                # `backward(inputs=…)` runs the nodes of its inputs too: their hooks, and what they saved is freed.
                path.update(edge for edge in wanted if isinstance(edge, Node | Output))
        if into and hooked:
            counts = hooks.leaf_counts([edge for edge, _ in roots], path, wanted)
    for edge, g in roots:
        if edge in waiting:
            waiting[edge] = waiting[edge] + g
        else:
            waiting[edge] = g
            if not isinstance(edge, Tensor):
                heappush(heap, (-edge.seq, edge))
    if not keep:
        freed = new(Freed)
        freed.origin = origin
        freed.seq = next_seq()
    anomaly = get_mode() & (ANOMALY | GUARD)
    unusual = create or anomaly or wanted is not None or counts is not None or moved
    written = last.write
    arrived = waiting.get
    # A node that alone waits: it need not go through the heap. While there is one, the heap is empty.
    ahead = None
    try:
        if counts:
            running, token = _enter(roots, path, wanted, stop)
            for leaf in [leaf for leaf, n in counts.items() if not n]:
                del counts[leaf]
                accumulate(leaf, waiting.pop(leaf), create)
        while True:
            if sweep is not None and not unusual:
                if ahead is not None:
                    heappush(heap, (-ahead.seq, ahead))
                    ahead = None
                try:
                    node = sweep(waiting, heap, summed, freed, written)
                except BaseException:
                    # The node it happened in, which the error's notes name, is the newest that still waits.
                    node = max((e for e in waiting if isinstance(e, Node)), key=by_number, default=None)
                    raise
                if node is None:
                    break
            elif ahead is not None:
                node = ahead
                ahead = None
            elif heap:
                node = heappop(heap)[1]
            else:
                break
            g = waiting.pop(node, None)
            dtype = node.dtype
            grads = None
            if not (unusual or node.extra is not None or node.seq < written or dtype is C64 or dtype is C128):
                try:
                    grads = node.pull(g, node.saved, node.edges)
                except RuntimeWarning:
                    grads = quietly(node.pull, g, node.saved, node.edges)
                except Unusual:
                    pass
            if grads is None:
                if g is None:
                    if node not in undefined:
                        continue
                    del undefined[node]
                if running is None:
                    running, token = _enter(roots, path, wanted, stop)
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
                grads = pull_any(node, g, create)
                if anomaly:
                    examine(node, g, grads)
                # Hooks and the user's formulas may have written.
                written = last.write
                if create:
                    grads = _join(node, grads, waiting, heap, undefined)
            for edge, g in zip(node.edges, grads):
                if g is None:
                    if edge is not None and edge not in waiting and not isinstance(edge, Tensor):
                        unusual = True
                        if edge not in undefined:
                            undefined[edge] = True
                            heappush(heap, (-edge.seq, edge))
                            if ahead is not None:
                                heappush(heap, (-ahead.seq, ahead))
                                ahead = None
                    continue
                total = arrived(edge)
                if total is None:
                    if isinstance(edge, Tensor):
                        spec = edge._array
                    elif edge is None:
                        continue
                    else:
                        spec = edge
                        if heap or ahead is not None:
                            heappush(heap, (-edge.seq, edge))
                            if ahead is not None:
                                heappush(heap, (-ahead.seq, ahead))
                                ahead = None
                        else:
                            ahead = edge
                    if g.shape != spec.shape or g.dtype is not spec.dtype:
                        g = repair(g, spec.shape, spec.dtype, node)
                    waiting[edge] = g
                    continue
                if g.shape != total.shape or g.dtype is not total.dtype:
                    g = repair(g, total.shape, total.dtype, node)
                if edge in summed:
                    add(total, g, total)
                else:
                    waiting[edge] = total = add(total, g)
                    # A 0-d sum is a scalar, which cannot be added to in place.
                    if type(total) is ndarray:
                        summed[edge] = True
            if not keep and node.saves:
                node.saved = freed
            if counts:
                g = total = grads = None
                _complete(node.edges, counts, waiting, create)
        # What the loop's variables still hold would look like a second owner of a fresh gradient.
        g = total = grads = None
        # Leaves are never taken from the heap: what still waits is theirs.
        if not into:
            for edge in found:
                if edge in waiting:
                    if running is None and edge._extra is not None:
                        running, token = _enter(roots, path, wanted, stop)
                    found[edge] = hooks.leaf_tensor_hooks(edge, waiting[edge], create)
        else:
            if wanted is not None:
                waiting = _picked(found, waiting)
            with _accumulating:
                for leaf in tuple(waiting):
                    if leaf._extra is None:
                        # Popped straight into the call: with no second holder, a fresh gradient is taken as it is.
                        _add_to(leaf, waiting.pop(leaf), create)
            for leaf, g in waiting.items():
                accumulate(leaf, g, create)
        if running is not None:
            for callback in running.callbacks:
                callback()
    finally:
        if token is not None:
            hooks.current.reset(token)
    return found


def repair_at(g: Any, edge: Any, node: Any) -> Any:
    """Return `g` as an array that fits an edge."""
    spec = edge._array if isinstance(edge, Tensor) else edge
    return np.asarray(repair(g, spec.shape, spec.dtype, node))


def _picked(edges: Iterable[Any], waiting: dict[Any, Any]) -> dict[Any, Any]:
    """Move the gradients of some edges into a dictionary of their own."""
    return {e: waiting.pop(e) for e in edges if e in waiting}


def _join(node: Any, grads: Any, waiting: Any, heap: Any, undefined: Any) -> list[None]:
    """Send gradients that are Tensors along the edges, by recorded additions; leave None for each."""
    for edge, g in zip(node.edges, grads):
        if edge is None or g is None:
            continue
        leaf = isinstance(edge, Tensor)
        spec = edge._array if leaf else edge
        if g._array.shape != spec.shape or g._array.dtype is not spec.dtype:
            g = repair(g, spec.shape, spec.dtype, node)
        total = waiting.get(edge)
        waiting[edge] = g if total is None else total + g
        if total is None and not leaf and edge not in undefined:
            heappush(heap, (-edge.seq, edge))
    return [None] * len(grads)


def _enter(roots: Any, path: Any, wanted: Any, stop: Any) -> tuple[hooks.Pass, Any]:
    """Let the hooks and functions that will be called find the pass that calls them."""
    running = hooks.Pass(roots, path, wanted, stop)
    return running, hooks.current.set(running)


def _complete(edges: Iterable[Any], counts: dict[Any, int], leaves: dict[Any, Any], create: bool) -> None:
    """Note that a gradient went along each edge; accumulate in the leaves with hooks whose gradient is complete."""
    for edge in edges:
        if edge is not None and edge in counts:
            counts[edge] -= 1
            if counts[edge] <= 0:
                del counts[edge]
                accumulate(edge, leaves.pop(edge, None), create)


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


def pull_any(node: Node, g: Any, create: bool = False) -> Any:
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
    if moved:
        saved = tuple(map(alias.current, saved))
    if create:
        saved = in_graph(node, saved)
    seen = g
    if type(g) is list:
        zeros = not node.takes_none
        g = tuple([zeros_for(node, k, create) if x is None and zeros else x for k, x in enumerate(g)])
    # For a holomorphic f the gradient is g · conj(f') = conj(conj(g) · f'): formulas stay those of real numbers.
    conjugate = node.holomorphic and type(node.dtype) is not tuple and node.dtype.kind == "c"
    if conjugate:
        g = g.conj()
    grads = quietly(node.pull, g, saved, node.edges)
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
        dims = _broadcast(a.shape, shape)
        if dims is None:
            by = "the gradient" if node is None else f"{node.name()}: a returned gradient"
            raise ShapeError(f"backward: {by} has shape {a.shape}, and cannot be summed down to the input's {shape}")
        if tensor:
            g = g.sum(dims, keepdim=True)
        elif a.dtype is F32 or a.dtype is F64:
            g = totals["forward"](a, dims, True)
        else:
            g = a.sum(dims, keepdims=True)
        if a.ndim != len(shape):
            g = g.reshape(shape)
    if (g._array if tensor else g).dtype is not dtype:
        g = _convert(g, dtype, tensor)
    return g


@lru_cache(4096)
def _broadcast(large: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the dimensions that broadcasting from `shape` to `large` added or repeated; None if it does not."""
    extra = len(large) - len(shape)
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, large[extra:])):
        return None
    repeated = [i + extra for i, n in enumerate(shape) if n == 1 and large[i + extra] != 1]
    return (*range(extra), *repeated)


def _convert(g: Any, dtype: np.dtype[Any], tensor: bool) -> Any:
    kind = (g._array if tensor else g).dtype.kind
    if kind == "c" and dtype.kind != "c":
        g = g.real
    if not tensor:
        return g.astype(dtype)
    from ..dtypes import of_numpy

    return g.to(of_numpy(dtype))


def nodes_towards(roots: list[tuple[Any, Any]], wanted: list[Any], stop: Collection[Any] = ()) -> set[Any]:
    """Return the nodes on a path from a root to one of the `wanted` edges that does not go beyond `stop`."""
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
        if node in stop:
            continue
        stack.extend(e for e in hooks.edges_of(node) if isinstance(e, (Node, Output)))
    on_path: set[Any] = set()
    for node in sorted(order, key=lambda n: n.seq):
        if node not in stop and any(e in goals or e in on_path for e in hooks.edges_of(node) if e is not None):
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
    """Add a gradient to the `.grad` of a leaf; called with the lock held.

    A fresh array that only the engine has is taken as it is; else the leaf gets one that nobody else holds, laid out
    like the leaf.
    """
    old = leaf._grad
    if create:
        leaf._grad = g if old is None else old + g
    elif old is None:
        like = leaf._array
        whole = g if type(g) is ndarray and getrefcount(g) <= _SOLE else None
        if whole is not None and whole.base is not None:
            # A view of all of an array, such as its transpose transposed, is as good as the array.
            base = whole.base
            alone = type(base) is ndarray and base.base is None and getrefcount(base) <= _SOLE_BASE
            whole = base if alone and base.shape == g.shape and base.strides == g.strides else None
        if whole is None or whole.strides != like.strides:
            whole = np.empty_like(like)
            whole[...] = g
        t = new(Tensor)
        t._array = whole
        t._node = None
        leaf._grad = t
    elif old._array.flags.writeable:
        add(old._array, g, old._array)
        if old._node is not None or old._record is not None or alias.record_of(old) is not None:
            alias.stamp(old, "backward")
    else:
        leaf._grad = wrap(np.asarray(old._array + g))


def _count(leaf: Any, g: Any, create: bool) -> int:
    return getrefcount(g)


def _sole_count() -> int:
    """Return the count that `_add_to` sees for an array that only its caller held; it differs between interpreters."""
    store = {0: np.zeros(1)}
    return _count(None, store.pop(0), False)


def _count_base(leaf: Any, g: Any, create: bool) -> int:
    base = g.base
    return getrefcount(base)


def _sole_base_count() -> int:
    """Return the count that `_add_to` sees for an array that only a view has."""
    store = {0: np.zeros((1, 1)).T}
    return _count_base(None, store.pop(0), False)


_SOLE = _sole_count()
_SOLE_BASE = _sole_base_count()
