"""A captured graph, or a module with an example, as a drawing: what goes in, the calls, what comes out."""

from __future__ import annotations

from typing import Any

from sapwood.graph.capture import capture
from sapwood.graph.ir import Graph, Value
from sapwood.viz.model import Direction, Drawing, Item, Kind, Link

__all__ = ["captured", "graph_drawing"]

KINDS: dict[str, Kind] = {"input": "buffer", "parameter": "leaf", "buffer": "buffer", "constant": "buffer"}


def captured(thing: Any, example: Any) -> Graph:
    """Return the graph of a module or function on an example: a tensor, or a tuple of arguments."""
    return capture(thing, *(example if isinstance(example, tuple) else (example,)))


def graph_drawing(graph: Graph, *, depth: int | None = None, direction: Direction = "TB") -> Drawing:
    """Draw a graph.

    Args:
        graph: as `sapwood.graph.capture` returns it.
        depth: how many levels of modules are drawn from the inside; deeper ones are one box each. None: all.
        direction: "TB" (inputs on top) or "LR".
    """
    drawing = Drawing(direction=direction, outline=graph.text())
    place: dict[str, int] = {}
    links: dict[tuple[int, int, str], int] = {}
    uses = graph.uses()
    outputs = {v.name for v in graph.outputs}

    def add(item: Item) -> int:
        drawing.items.append(item)
        return len(drawing.items) - 1

    def source(value: Value) -> int:
        if value.name not in place:
            kind = KINDS[value.role]
            tip = f"{value.role} {value.name}\n{value.type}"
            place[value.name] = add(Item(kind, value.name, (shape_of(value),), tip))
        return place[value.name]

    for value in graph.inputs:
        source(value)
    boxes: dict[Any, int] = {}
    for call in graph.calls:
        folded = None if depth is None or len(call.scope) <= depth else call.scope[: depth + 1]
        if folded is None:
            title = call.op.name + ("_" if call.in_place else "")
            box = add(Item("op", title, marks_of(call), tip_of(call)))
        elif folded in boxes:
            box = boxes[folded]
        else:
            scope = folded[-1]
            box = boxes[folded] = add(Item("op", scope.kind, (scope.path,), f"module {scope.path} ({scope.kind})"))
        for value in call.values():
            at = place[value.name] if value.role == "result" else source(value)
            if at != box:
                key = (at, box, "" if value.role != "result" else shape_of(value))
                links[key] = links.get(key, 0) + 1
        for value in call.results:
            place[value.name] = box
    for value in graph.outputs:
        at = place[value.name] if value.role == "result" else source(value)
        end = add(Item("root", value.name if uses[value.name] or value.role != "result" else "output",
                       (shape_of(value),), f"output {value.name}\n{value.type}"))  # fmt: skip
        links[at, end, ""] = 1
    assert outputs or not graph.outputs
    drawing.links += [
        Link(a, b, f"{label} ×{count}".strip() if count > 1 else label) for (a, b, label), count in links.items()
    ]
    return ordered(drawing)


def ordered(drawing: Drawing) -> Drawing:
    """Return the drawing with items so ordered that links lead forward; links that close a cycle are left out.

    A folded module that is left and entered again makes a cycle.
    """
    after: list[list[int]] = [[] for _ in drawing.items]
    for link in drawing.links:
        after[link.source].append(link.target)
    order: list[int] = []
    state = [0] * len(drawing.items)
    back: set[tuple[int, int]] = set()
    for start in range(len(drawing.items)):
        stack = [(start, iter(after[start]))] if not state[start] else []
        if stack:
            state[start] = 1
        while stack:
            at, following = stack[-1]
            for target in following:
                if state[target] == 1:
                    back.add((at, target))
                elif not state[target]:
                    state[target] = 1
                    stack.append((target, iter(after[target])))
                    break
            else:
                state[at] = 2
                order.append(at)
                stack.pop()
    order.reverse()
    place = {old: new for new, old in enumerate(order)}
    links = [
        Link(place[k.source], place[k.target], k.label, k.dashed)
        for k in drawing.links
        if (k.source, k.target) not in back
    ]
    return Drawing([drawing.items[i] for i in order], links, drawing.direction, drawing.outline)


def shape_of(value: Value) -> str:
    return str(value.shape)


def marks_of(call: Any) -> tuple[str, ...]:
    return ("in place",) if call.in_place else ("view",) if call.view else ()


def tip_of(call: Any) -> str:
    lines = [call.op.name, *(f"result {r.name}: {r.type}" for r in call.results)]
    lines += [f"{n} = {v!r}"[:100] for n, v in call.attrs.items()]
    lines += [f"in {s}" for s in call.scope]
    return "\n".join([*lines, *([f"{call.line} {call.line.text}"] if call.line else [])])
