"""What a graph keeps alive for backward: the storages under its saved arrays, each counted once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from numpy import ndarray

from ... import alias
from ...autograd.hooks import edges_of
from ...autograd.keeping import Packed, PackedValue
from ...node import LEAF, Node, Output
from ...tensor import Tensor
from .frame import Argument, Frame

Array = ndarray[Any, Any]


def nodes_under(roots: Iterable[Tensor]) -> list[Node]:
    """Return every node of the graph under `roots`, in the order of recording."""
    stack = [t._node for t in roots if t._node is not None and t._node is not LEAF]
    seen: set[Any] = set()
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(e for e in edges_of(node) if isinstance(e, (Node, Output)))
    return sorted((n for n in seen if isinstance(n, Node)), key=lambda n: n.seq)


def saved_arrays(node: Node, values: bool = True) -> Iterator[Array]:
    """Yield the arrays that a node keeps alive.

    Args:
        values: whether recomputed values that still wait in the node's checkpointed call are among them.
    """
    saved: Any = node.saved
    if saved is None:
        return
    if type(saved) is Packed:
        for frame in _frames(saved.saved):
            yield from frame_arrays(frame, values)
        saved = saved.saved
    yield from _arrays(saved)


def _frames(value: Any) -> list[Frame]:
    """Return the checkpointed calls that will make the packed values again, each once."""
    if type(value) is PackedValue:
        frame = getattr(value.unpack, "__self__", None)
        return [frame] if isinstance(frame, Frame) else []
    members = [f for m in value for f in _frames(m)] if isinstance(value, tuple) else []
    return list({id(f): f for f in members}.values())


def _arrays(value: Any) -> Iterator[Array]:
    if type(value) is ndarray:
        yield value
    elif isinstance(value, Tensor):
        yield value._array
    elif type(value) is PackedValue:
        yield from _arrays(value.value)
    elif isinstance(value, tuple):
        for member in value:
            yield from _arrays(member)


def frame_arrays(frame: Frame, values: bool) -> Iterator[Array]:
    """Yield the arrays that a checkpointed call keeps alive: its arguments, and what was recomputed and not used."""
    for a in (*frame.arguments, *frame.named.values()):
        if type(a) is Argument and a.array is not None:
            yield a.array
    if values:
        for recomputed in tuple(frame.values.values()):
            for array, _ in tuple(recomputed.values()):
                yield array


class Storages:
    """A set of storages with their bytes; those in `ignored` (parameters, inputs) are alive anyhow and not counted."""

    def __init__(self, ignored: Iterable[Array] = ()) -> None:
        self.owners: dict[int, Array] = {}
        self.ignored = {id(alias.owner(a)): alias.owner(a) for a in ignored}

    def add(self, arrays: Iterable[Array]) -> frozenset[int]:
        """Add the storages of `arrays`; return their keys."""
        keys = set()
        for a in arrays:
            owner = alias.owner(a)
            if id(owner) not in self.ignored and owner.nbytes:
                self.owners[id(owner)] = owner
                keys.add(id(owner))
        return frozenset(keys)

    @property
    def nbytes(self) -> int:
        """The bytes of all storages."""
        return sum(o.nbytes for o in self.owners.values())


def live_bytes(roots: Iterable[Tensor], ignored: Iterable[Array] = ()) -> int:
    """Return the bytes that the graph under `roots` keeps alive for backward at this moment.

    Args:
        ignored: arrays that are alive anyhow, such as parameters.
    """
    storages = Storages(ignored)
    for node in nodes_under(roots):
        storages.add(saved_arrays(node))
    return storages.nbytes
