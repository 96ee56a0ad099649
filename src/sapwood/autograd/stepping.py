"""The backward pass one node at a time: look at every gradient, change it, go on.

    for event in autograd.steps(loss):
        print(event)

The loop is the engine's, written for looking instead of for speed, on the engine's own `pull`, `repair` and
`accumulate`; afterwards `.grad` holds what `loss.backward()` would have left, unless something was replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..node import Freed, Node, Output, accumulator
from ..origin import Place, here, origin_of, place
from ..state import next_seq
from ..tensor import Tensor, wrap
from . import engine, told
from .hooks import before
from .run import _roots


class Step:
    """One node of a backward pass, just after it ran.

    Attributes:
        node: the node; an AccumulateGrad where a leaf receives its gradient.
        incoming: the gradient of each output of the node, None where nothing used it.
        grads: the gradient of each input, None where none is wanted. Assigning to an entry replaces it.
        edges: per input, where its gradient goes: a node, a leaf Tensor, or None.
    """

    __slots__ = ("edges", "grads", "incoming", "node", "number")

    def __init__(self, number: int, node: Any, incoming: tuple[Any, ...], grads: list[Any], edges: Any) -> None:
        self.number = number
        self.node = node
        self.incoming = incoming
        self.grads = grads
        self.edges = edges

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.node.name()).rpartition("::")[2]

    @property
    def leaf(self) -> Tensor | None:
        """The leaf that receives this gradient, None at an inner node."""
        return None if isinstance(self.node, Node) else self.node.variable

    @property
    def place(self) -> Place | None:
        """The user's line that made the node, if it was noted."""
        return place(origin_of(self.node))

    def __repr__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        arriving = ", ".join(_brief(g) for g in self.incoming)
        if self.leaf is not None:
            return f"step {self.number}: {self.name}: {arriving} is added to .grad"
        leaving = ", ".join(_brief(g) for g in self.grads)
        return f"step {self.number}: {self.name}{where}: {arriving} -> {leaving}"


def _brief(g: Any) -> str:
    if g is None:
        return "None"
    a = g._array
    return f"{a.item():.6g}" if a.size == 1 else f"{a.dtype}{list(a.shape)}"


def steps(tensors: Any, grad_tensors: Any = None, *, retain_graph: bool = False) -> Iterator[Step]:
    """Run backward from `tensors` one node at a time.

    The last events, one per leaf, come when all gradients are complete; a leaf's `.grad` changes when the loop goes
    on after its event. Leaving the loop early leaves the other leaves as they were.

    Args:
        tensors, grad_tensors, retain_graph: as in `backward`.

    Returns:
        An iterator of Step: node, incoming gradients, outgoing gradients (which may be replaced).

    Raises:
        GradError: a root has no graph.
        ArgumentError: a gradient was replaced by something that is no tensor.

    Example:
        >>> import sapwood
        >>> x = sapwood.tensor(3.0, requires_grad=True)
        >>> for event in sapwood.autograd.steps(x * x):
        ...     print(event.number, event.name, [g.item() for g in event.incoming])
        1 MulBackward0 [1.0]
        2 AccumulateGrad [6.0]
        >>> x.grad
        tensor(6.)
    """
    roots = _roots("steps", tensors, grad_tensors, False)
    return _steps(roots, retain_graph)


def _steps(roots: list[tuple[Any, Any]], keep: bool) -> Iterator[Step]:
    leaves: dict[Any, Any] = {}
    number = 0
    for step in walk(roots, leaves, keep=keep):
        number = step.number
        yield step
    for leaf, g in leaves.items():
        number += 1
        shown = wrap(np.array(g))
        step = Step(number, accumulator(leaf), (shown,), [shown], (leaf,))
        yield step
        final = _replaced(step, 0, leaf._array)
        if final is not None:
            engine.accumulate(leaf, np.array(final), False)


def walk(roots: list[tuple[Any, Any]], leaves: dict[Any, Any], *, keep: bool, hooks: bool = True) -> Iterator[Step]:
    """Yield the steps of the inner nodes; put the gradients of leaves into `leaves`.

    Args:
        hooks: run the hooks of nodes, and keep retained gradients.
    """
    waiting: dict[Any, Any] = {}
    heap: list[tuple[int, Any]] = []
    freed = Freed()
    freed.origin, freed.seq = here(), next_seq()
    for edge, g in roots:
        _add(edge, g, leaves, waiting, heap)
    number = 0
    while heap:
        node = heappop(heap)[1]
        g = waiting.pop(node)
        extra = node.extra
        if extra is not None and hooks:
            g = before(node, g, False)
        if type(node) is Output:
            engine._collect(node, g, waiting, heap)
            continue
        try:
            node.extra = extra if hooks else None
            pulled = engine.pull_any(node, g)
        except Exception as problem:
            told.add_notes(problem, roots, walk)
            raise
        finally:
            node.extra = extra
        grads = [_at(edge, x, node) for edge, x in zip(node.edges, pulled)]
        incoming = g if isinstance(g, list) else [g]
        number += 1
        step = Step(number, node, tuple(map(_shown, incoming)), list(map(_shown, grads)), node.edges)
        yield step
        for i, edge in enumerate(node.edges):
            if edge is not None:
                new = _replaced(step, i, edge._array if isinstance(edge, Tensor) else edge)
                if new is not None:
                    _add(edge, new, leaves, waiting, heap)
        if not keep and node.saves:
            node.saved = freed


def _at(edge: Any, g: Any, node: Any) -> Any:
    """Return a gradient in the shape and type of the edge it goes along."""
    if edge is None or g is None:
        return None
    like = edge._array if isinstance(edge, Tensor) else edge
    return engine.repair(g, like.shape, like.dtype, node)


def _shown(g: Any) -> Any:
    # A copy: several inputs of one node may receive one and the same array.
    return None if g is None else wrap(np.array(g))


def _replaced(step: Step, i: int, like: Any) -> Any:
    """Return the array of outgoing gradient i, after checking what the user may have put there."""
    g = step.grads[i]
    if g is None:
        return None
    if not isinstance(g, Tensor):
        raise ArgumentError(
            f"steps: grads[{i}] of {step.name} must be a tensor or None, got {type(g).__name__}; wrap numbers with "
            "sapwood.full_like"
        )
    return engine.repair(g._array, like.shape, like.dtype, None)


def _add(edge: Any, g: Any, leaves: dict[Any, Any], waiting: dict[Any, Any], heap: list[tuple[int, Any]]) -> None:
    store = leaves if isinstance(edge, Tensor) else waiting
    if edge in store:
        store[edge] = store[edge] + g
    else:
        store[edge] = g
        if store is waiting:
            heappush(heap, (-edge.seq, edge))
