"""`cut`: end a graph at tensors that it went through, after the fact. Truncated backpropagation through time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ..cuts import note
from ..errors import ArgumentError, ValueRangeError
from ..node import LEAF, Node, Output
from ..state import next_seq
from ..tensor import Tensor


def cut(tensors: Tensor | Sequence[Tensor], keep: int = 0) -> None:
    """Forget how tensors were computed: backward ends at them, also in graphs that were built from them already.

    What their nodes saved, and whatever lies behind them only, is released at once. The tensors keep their values and
    go on requiring grad; gradients still arrive at them.

    Args:
        tensors: one, or a sequence of them in the order of their making.
        keep: how many of the last ones to leave alone. After `cut(states, keep=k)` in every step of a recurrent
            network, each loss reaches through the last k states.

    Raises:
        ArgumentError: something is no tensor.
        ValueRangeError: `keep` is negative.

    Example:
        >>> import sapwood
        >>> w = sapwood.tensor(2.0, requires_grad=True)
        >>> h, states = sapwood.tensor(1.0), []
        >>> for _ in range(10):
        ...     h = w * h
        ...     states.append(h)
        >>> sapwood.autograd.cut(states, keep=1)
        >>> h.backward()
        >>> w.grad
        tensor(512.)
    """
    given = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    for i, t in enumerate(given):
        if not isinstance(t, Tensor):
            raise ArgumentError(f"cut: tensors[{i}] must be a tensor, got {type(t).__name__}")
    if keep < 0:
        raise ValueRangeError(f"cut: keep is a number of tensors and must not be negative, got {keep}")
    for t in given[: max(len(given) - keep, 0)]:
        edge = t._node
        if edge is None or edge is LEAF or _is_end(edge):
            continue
        note("cut()", t, t)
        if type(edge) is Output:
            # The node's other outputs keep their history.
            edge.node = _end_like(edge.node)
        else:
            _end(edge)


def _is_end(edge: Any) -> bool:
    return (edge.node if type(edge) is Output else edge).edges == ()


def _end(node: Node) -> None:
    kind: Any = type(node)
    node.__class__ = _ends(kind)
    node.edges = node.saved = ()


def _end_like(node: Node) -> Node:
    """Return a node that takes gradients as `node` does, and sends none on."""
    own: Any = type(node)
    kind = _ends(own)
    made: Node = kind.__new__(kind)
    made.edges = made.saved = ()
    # Numbers are unique, and smaller than that of the output's edge; below zero there is room.
    made.shape, made.dtype, made.seq, made.extra = node.shape, node.dtype, -next_seq(), None
    made.origin = getattr(node, "origin", None)
    return made


@cache
def _ends(cls: type[Node]) -> Any:
    """Return the class of nodes that are called as those of `cls`, and have neither inputs nor formulas."""
    members = {"__slots__": (), "__module__": cls.__module__, "pull": staticmethod(_nothing), "own_pull": None}
    return type(cls.__name__, (cls,), members | {"saves": False, "wants": (), "keeps": (), "inputs": ()})


def _nothing(g: Any, saved: Any, edges: Any) -> tuple[()]:
    """Stand for the formulas of a node without inputs."""
    return ()


__all__ = ["cut"]
