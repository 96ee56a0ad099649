"""A captured graph, or a module with an example, as a drawing: what goes in, the calls, what comes out."""

from __future__ import annotations

from typing import Any

from sapwood.graph.capture import capture
from sapwood.graph.ir import Call, Graph, Scope, Value
from sapwood.viz.describe import carried_text
from sapwood.viz.folding import fold_modules, ordered, within
from sapwood.viz.model import Direction, Drawing, Item, Kind, Link, Mark, common

__all__ = ["captured", "graph_drawing"]

KINDS: dict[str, Kind] = {"input": "input", "parameter": "parameter", "buffer": "buffer", "constant": "constant"}
LIMIT = 2_000

Path = tuple[str, ...]


def captured(thing: Any, example: Any) -> Graph:
    """Return the graph of a module or function on an example: a tensor, or a tuple of arguments."""
    return capture(thing, *(example if isinstance(example, tuple) else (example,)))


def graph_drawing(
    graph: Graph, *, depth: int | None = None, direction: Direction = "TB", limit: int | None = LIMIT
) -> Drawing:
    """Draw a graph.

    Args:
        graph: as `sapwood.graph.capture` returns it.
        depth: how many levels of modules are drawn from the inside; deeper ones are one box each. None: all.
        direction: "TB" (inputs on top) or "LR".
        limit: the most items that are drawn; of larger graphs modules are folded, then repetitions, then the beginning
            is left out. None: no limit.
    """
    builder = Builder(graph)
    for value in graph.inputs:
        builder.source(value)
    for call in graph.calls:
        builder.call(call)
    for value in graph.outputs:
        builder.output(value)
    drawing = ordered(Drawing(builder.items, builder.links(), direction, graph.text(), builder.modules))
    return within(drawing if depth is None else fold_modules(drawing, depth), limit)


class Builder:
    """A drawing in the making."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.items: list[Item] = []
        self.modules: dict[Path, str] = {}
        self._places: dict[str, int] = {}
        self._links: dict[tuple[int, int, str, str], int] = {}
        self._uses = graph.uses()
        self._written: dict[str, list[str]] = {}
        for name, value in graph.writes.items():
            self._written.setdefault(value.name, []).append(name)

    def add(self, item: Item) -> int:
        self.items.append(item)
        return len(self.items) - 1

    def source(self, value: Value) -> int:
        """Return the item of a value that goes in."""
        if value.name not in self._places:
            tip = f"{value.role} {value.name}\n{value.type}"
            item = Item(KINDS[value.role], value.name, (str(value.shape),), tip, scope=self.home(value))
            self._places[value.name] = self.add(item)
        return self._places[value.name]

    def home(self, value: Value) -> Path:
        """Return the module that owns a parameter or buffer, or the innermost around it in which all its uses lie."""
        if value.role not in ("parameter", "buffer"):
            return ()
        around = common([self.scope(call.scope) for call in self._uses[value.name]])
        for end in range(len(around), 0, -1):
            owner = ".".join(part.partition(" #")[0] for part in around[:end])
            if value.name.startswith(owner + "."):
                return around[:end]
        return ()

    def scope(self, scopes: tuple[Scope, ...]) -> Path:
        """Return the modules around a call by name, each relative to the one around it, with the number of its call."""
        path: Path = ()
        above = ""
        for scope in scopes:
            name = scope.path.removeprefix(above + ".") if above else scope.path
            path = (*path, f"{name} #{scope.number + 1}" if scope.number else name)
            self.modules[path] = scope.kind
            above = scope.path
        return path

    def call(self, call: Call) -> None:
        title = call.op.name + ("_" if call.in_place else "")
        line = f"{call.line} {call.line.text}".strip() if call.line else ""
        written = [name for value in call.results for name in self._written.get(value.name, ())]
        marks = marks_of(call, writes=bool(written))
        lines = tuple(f"writes {name}" for name in written)
        box = self.add(Item("op", title, lines, tip_of(call), marks, self.scope(call.scope), line))
        for value in call.values():
            made = value.role == "result"
            at = self._places[value.name] if made else self.source(value)
            self.link(at, box, carried_text(str(value.shape), value.dtype.name) if made else "", value.dtype.name)
        for value in call.results:
            self._places[value.name] = box

    def output(self, value: Value) -> None:
        made = value.role == "result"
        at = self._places[value.name] if made else self.source(value)
        name = value.name if self._uses[value.name] or not made else "output"
        end = self.add(Item("root", name, (str(value.shape),), f"output {value.name}\n{value.type}"))
        self.link(at, end, "", value.dtype.name)

    def link(self, source: int, target: int, label: str, dtype: str) -> None:
        key = source, target, label, dtype
        self._links[key] = self._links.get(key, 0) + 1

    def links(self) -> list[Link]:
        return [
            Link(a, b, f"{label} ×{count}".strip() if count > 1 else label, dtype=dtype)
            for (a, b, label, dtype), count in self._links.items()
        ]


def marks_of(call: Call, *, writes: bool) -> tuple[Mark, ...]:
    return ("in place",) if call.in_place or writes else ("view",) if call.view else ()


def tip_of(call: Call) -> str:
    lines = [call.op.name, *(f"result {r.name}: {r.type}" for r in call.results)]
    lines += [f"{n} = {v!r}"[:100] for n, v in call.attrs.items()]
    lines += [f"in {s}" for s in call.scope]
    return "\n".join(lines)
