"""Dynamic sizes: a function is run on a second example with other sizes, to see what follows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sapwood.errors import ArgumentError, ExportError
from sapwood.graph.capture import capture
from sapwood.graph.ir import Graph

__all__ = ["axes_of", "compare"]


def axes_of(graph: Graph, names: Any, dynamic: Any) -> dict[int, dict[int, str]]:
    """Return by the number of an input its dynamic dimensions and what they are called."""
    found: dict[int, dict[int, str]] = {}
    known = list(names) if names else [v.name for v in graph.inputs]
    for name, axes in (dynamic or {}).items():
        if name not in known:
            continue
        i = known.index(name)
        given = axes if isinstance(axes, Mapping) else {a: f"{name}_{a}" for a in axes}
        rank = len(graph.inputs[i].shape)
        for a, word in given.items():
            if not -rank <= a < rank:
                raise ArgumentError(f"export: dynamic_axes: {name} has {rank} dimensions, got {a}")
            found.setdefault(i, {})[a % rank] = str(word)
    return found


def compare(
    graph: Graph, function: Any, args: Any, kwargs: Any, axes: dict[int, dict[int, str]]
) -> tuple[dict[str, list[Any]], dict[int, dict[str, Any]]]:
    """Run the function on other sizes.

    Returns:
        The sizes of values by name, symbols among them; and by the identity of a call the attributes that came out
        otherwise.
    """
    import sapwood

    if isinstance(function, Graph):
        raise ArgumentError("export: dynamic_axes needs the function itself, to run it on other sizes")
    words = list(dict.fromkeys(w for a in axes.values() for w in a.values()))
    grown = {word: 1 + k for k, word in enumerate(words)}
    count = -1

    def larger(thing: Any) -> Any:
        nonlocal count
        if isinstance(thing, sapwood.Tensor):
            count += 1
            shape = list(thing.shape)
            for a, word in axes.get(count, {}).items():
                shape[a] += grown[word]
            index = tuple(sapwood.arange(n) % max(o, 1) for n, o in zip(shape, thing.shape))
            for d, (n, o) in enumerate(zip(shape, tuple(thing.shape))):
                if n != o:
                    thing = sapwood.index_select(thing, d, index[d])
            return thing
        if isinstance(thing, list | tuple):
            return type(thing)(larger(t) for t in thing)
        return {k: larger(v) for k, v in thing.items()} if isinstance(thing, dict) else thing

    other = capture(function, *larger(tuple(args)), **larger(kwargs))
    if [c.op for c in other.calls] != [c.op for c in graph.calls]:
        raise ExportError("export: with other sizes the function makes other calls; export it with fixed sizes")
    by_growth = {v: k for k, v in grown.items()}
    sizes: dict[str, list[Any]] = {}
    for a, b in zip(graph.values(), other.values()):
        if a.shape != b.shape:
            sizes[a.name] = [
                m if m == n else by_growth.get(n - m) or f"{a.name}_{d}"
                for d, (m, n) in enumerate(zip(a.shape, b.shape))
            ]
    changes: dict[int, dict[str, Any]] = {}
    for mine, theirs in zip(graph.calls, other.calls):
        changed = {k: theirs.attrs[k] for k, v in mine.attrs.items() if repr(v) != repr(theirs.attrs[k])}
        if changed:
            changes[id(mine)] = changed
    return sizes, changes
