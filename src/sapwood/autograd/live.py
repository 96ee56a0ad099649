"""`live_graphs`: the graphs that are alive, how large they are, who made them, and which references keep them.

A loss appended to a list, a running total that is not detached, a hidden state carried over: each keeps a whole graph.
"""

from __future__ import annotations

import gc
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import alias
from ..node import Node, Output
from ..origin import at, is_own
from ..tensor import Tensor
from .held import graph_of, in_bytes, saved_arrays_of


class LiveGraph(NamedTuple):
    """One root: the last node of a graph that something keeps alive."""

    root: str
    """Name and line of the node that no other node leads to."""
    nodes: int
    bytes: int
    """Of saved memory; blocks that several graphs share count in each."""
    held_by: tuple[str, ...]
    """The Python references to the tensors at the root."""
    growth: int
    """Nodes more than the graphs of this root's line had at the previous call."""


class LiveGraphs:
    """The graphs alive, the largest first."""

    def __init__(self, graphs: list[LiveGraph]) -> None:
        self.graphs = graphs

    def __iter__(self) -> Iterator[LiveGraph]:
        return iter(self.graphs)

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, i: int) -> LiveGraph:
        return self.graphs[i]

    def only(self, text: str) -> LiveGraphs:
        """Return those whose line or holders mention `text`, such as the name of a list."""
        return LiveGraphs([g for g in self.graphs if text in g.root or any(text in h for h in g.held_by)])

    def __str__(self) -> str:
        if not self.graphs:
            return "live graphs: none"
        lines = [f"live graphs: {len(self)}, {sum(g.nodes for g in self)} nodes"]
        alike: dict[LiveGraph, int] = {}
        for g in self.graphs:
            alike[g] = alike.get(g, 0) + 1
        for g, number in list(alike.items())[:20]:
            grown = f", {g.growth:+d} nodes from this line since the last call" if g.growth else ""
            times = f"{number} graphs of " if number > 1 else ""
            lines.append(f"  {g.root}: {times}{g.nodes} node{'s'[: g.nodes > 1]}, {in_bytes(g.bytes)}{grown}")
            lines += [f"    held by {h}" for h in g.held_by or ("nothing that could be found",)]
        if len(alike) > 20:
            lines.append(f"  and {len(alike) - 20} smaller ones")
        return "\n".join(lines)

    __repr__ = __str__


_before: dict[str, int] = {}


def live_graphs() -> LiveGraphs:
    """Find every graph that is alive, and who keeps it.

    It looks through all objects that Python's collector knows: for finding leaks, not for a training loop's every step.

    Example:
        >>> import sapwood
        >>> losses = [sapwood.ones(1, requires_grad=True) * 2]
        >>> any("list" in str(g.held_by) for g in sapwood.autograd.live_graphs())
        True
    """
    objects = gc.get_objects()
    nodes = [o for o in objects if isinstance(o, Node) and _recorded(o)]
    below = {id(e.node if type(e) is Output else e) for n in nodes for e in n.edges if e is not None}
    roots = [n for n in nodes if id(n) not in below]
    tensors: dict[int, list[Tensor]] = {}
    for o in objects:
        if isinstance(o, Tensor):
            node = getattr(o, "_node", None)
            node = node.node if type(node) is Output else node
            tensors.setdefault(id(node), []).append(o)
    frames = _frames()
    ours = {id(objects), id(nodes), id(roots), id(tensors), *map(id, tensors.values()), *(id(d) for _, d in frames)}
    del objects, o
    found, sizes = [], dict[str, int]()
    for root in roots:
        graph = graph_of([root])
        name = f"{root.name()}{at(root)}"
        holders = [h for t in tensors.get(id(root), ()) for h in _holders(t, ours, frames)]
        sizes[name] = sizes.get(name, 0) + len(graph)
        found.append((name, len(graph), _bytes(graph), tuple(dict.fromkeys(holders))))
    graphs = [LiveGraph(*f, sizes[f[0]] - _before.get(f[0], 0) if _before else 0) for f in found]
    _before.clear()
    _before.update(sizes or {"": 0})
    return LiveGraphs(sorted(graphs, key=lambda g: -g.nodes))


def _recorded(node: Node) -> bool:
    # A custom function's node exists before it is part of a graph.
    return hasattr(node, "edges") and hasattr(node, "seq")


def _bytes(graph: list[Node]) -> int:
    owners = {id(o): o.nbytes for n in graph for _, a in saved_arrays_of(n) for o in (alias.owner(a),)}
    return sum(owners.values())


def _holders(tensor: Tensor, ours: set[int], frames: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return in words the references to a tensor. No inner function may capture it: that would be one more."""
    found = _names(tensor, frames)
    for r in gc.get_referrers(tensor):
        if id(r) in ours or isinstance(r, types.FrameType | types.CellType | Node):
            continue
        if isinstance(r, dict):
            found += [f"{_dict_name(r)}, key {k!r}" for k in _keys(r, tensor)]
        elif isinstance(r, list | tuple | set):
            found.append(f"a {type(r).__name__} of {len(r)} elements{_named_by(r, ours, frames)}")
        else:
            found += _attributes(r, tensor)
    return found


def _keys(d: dict[Any, Any], value: Any) -> list[Any]:
    keys = []
    for k, v in d.items():
        if v is value:
            keys.append(k)
    return keys


def _names(value: Any, frames: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the variables of running functions that refer to a value."""
    found = []
    for function, names in frames:
        found += [f"the variable {k!r} of {function}()" for k in _keys(names, value)]
    return found


def _attributes(holder: Any, value: Any) -> list[str]:
    """Return the attributes of an object that refer to a value."""
    kind = type(holder).__name__
    keys = _keys(getattr(holder, "__dict__", {}), value)
    return [f"the attribute {k!r} of a {kind}" for k in keys] or [f"an object of type {kind}"]


def _dict_name(d: dict[Any, Any]) -> str:
    """Return what a dictionary is: a module's globals, an object's attributes, or a plain one."""
    if "__name__" in d and "__builtins__" in d:
        return f"the globals of {d['__name__']}"
    for r in gc.get_referrers(d):
        if getattr(r, "__dict__", None) is d and not isinstance(r, type):
            return f"the attributes of a {type(r).__name__}"
    return "a dict"


def _named_by(container: Any, ours: set[int], frames: list[tuple[str, dict[str, Any]]]) -> str:
    """Return by what name a list or tuple goes, if a module, an object or a running function names it."""
    named = _names(container, frames)
    if named:
        return f", {named[0]}"
    for r in gc.get_referrers(container):
        if id(r) in ours or isinstance(r, types.FrameType | types.CellType):
            continue
        if isinstance(r, dict):
            keys = _keys(r, container)
            if keys:
                return f", {_dict_name(r)}, key {keys[0]!r}"
        elif hasattr(r, "__dict__") and _keys(r.__dict__, container):
            return f", {_attributes(r, container)[0]}"
    return ""


def _frames() -> list[tuple[str, dict[str, Any]]]:
    """Return the variables of every running function of the user."""
    found = []
    for top in sys._current_frames().values():
        frame: Any = top
        while frame is not None:
            code = frame.f_code
            if code.co_flags & inspect.CO_OPTIMIZED and not is_own(code.co_filename):
                names = frame.f_locals
                found.append((code.co_qualname, dict(names)))
                if sys.version_info < (3, 13):
                    # There f_locals is a copy that the frame keeps: it would hold the very tensors looked for.
                    names.clear()
            frame = frame.f_back
    # The innermost of them is this very function's, which would keep itself and all callers alive.
    del top, frame
    return found


__all__ = ["LiveGraph", "LiveGraphs", "live_graphs"]
