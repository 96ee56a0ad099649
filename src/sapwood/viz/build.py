"""From a live autograd graph to a drawing: variables become circles, operations become boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sapwood.errors import ArgumentError, ValueRangeError
from sapwood.graph.ir import Graph
from sapwood.node import Freed
from sapwood.origin import origin_of
from sapwood.origin import place as place_of
from sapwood.viz.collect import Names, constants_of, is_accumulator, node_name, op_name, output_spec, roots_of, walk
from sapwood.viz.describe import (
    SMALL,
    carried_text,
    dtype_text,
    element_count,
    gradient_of,
    shape_text,
    single_text,
    value_text,
)
from sapwood.viz.folding import within
from sapwood.viz.model import Direction, Drawing, Item, Kind, Link, Mark, common
from sapwood.viz.text import graph_text

__all__ = ["draw", "variable_item"]

# Values of more characters than this are left to the tooltip.
WIDEST = 20


def draw(
    tensors: Any,
    *,
    params: Mapping[str, Any] | None = None,
    module: Any = None,
    names: Mapping[str, Any] | None = None,
    show_values: bool = True,
    direction: Direction = "TB",
    example: Any = None,
    depth: int | None = None,
    limit: int | None = 2_000,
) -> Drawing:
    """Draw the graph that a tensor, or several, were computed by; or a captured graph, or a module's on an example.

    Intermediate results appear as circles when they are named, and gradients on them when they were retained;
    otherwise operations connect directly. Tensors without gradient appear where an operation kept them.

    Args:
        tensors: one tensor, or a sequence of them: the roots. Or a `sapwood.graph.Graph`; or, with `example`, a module
            or a function of tensors.
        params: names of tensors, usually leaves.
        module: names leaves by `named_parameters` and `named_buffers`.
        names: names of any tensors, as in `draw(y, names=dict(w=w, x=x, a=a))`.
        show_values: write value and gradient into variables of at most 4 elements; the others show their shape.
        direction: "TB" (leaves on top) or "LR" (leaves on the left).
        example: what the module or function is run on: a tensor, or a tuple of arguments.
        depth: of a module, how many levels of submodules are drawn from the inside; None: all.
        limit: the most items that are drawn; of larger graphs modules are folded, then repetitions, then the beginning
            is left out. None: no limit.

    Returns:
        A drawing that shows itself in a notebook, with `.svg()`, `.dot()`, `.text()` and `.save(path)`.

    Raises:
        ArgumentError: there is nothing to draw a graph of, or an argument is of the wrong kind.
        ValueRangeError: the direction is unknown, the depth negative, or the limit less than 2.
        CaptureError: the module or function fails on the example.

    Example:
        >>> drawing = draw(y, names={"w": w, "x": x, "y": y})  # doctest: +SKIP
        >>> drawing.save("graph.svg")  # doctest: +SKIP
    """
    check(direction, depth, limit, params, names, module)
    if example is not None or isinstance(tensors, Graph):
        from sapwood.viz.from_graph import captured, graph_drawing

        graph = tensors if isinstance(tensors, Graph) else captured(tensors, example)
        return graph_drawing(graph, depth=depth, direction=direction, limit=limit)
    if callable(tensors) and not hasattr(tensors, "grad_fn"):
        what = "a module" if hasattr(tensors, "named_parameters") else "a function"
        raise ArgumentError(
            f"draw: {what} has a graph only on an input; pass example=, a tensor or a tuple of arguments"
        )
    roots = roots_of(tensors, "draw")
    builder = Builder(Names.of(names, params, module=module), show_values=show_values, module=module)
    builder.add_graph(roots)
    outline = graph_text(roots, params=params, module=module, names=names, show_values=show_values)
    drawing = Drawing(builder.items, builder.links(), direction, outline, builder.modules)
    return within(drawing, limit)


def check(direction: Any, depth: Any, limit: Any, params: Any, names: Any, module: Any) -> None:
    """Raise for arguments of `draw` that are of the wrong kind."""
    if direction not in ("TB", "LR"):
        raise ValueRangeError(f"draw: expected direction 'TB' or 'LR', got {direction!r}; use one of these.")
    for name, value in (("depth", depth), ("limit", limit)):
        if value is not None and type(value) is not int:
            raise ArgumentError(f"draw: expected an integer or None as {name}, got {type(value).__name__}.")
    if depth is not None and depth < 0:
        raise ValueRangeError(
            f"draw: expected a depth of at least 0 levels, got {depth}; 0 draws each module as a box."
        )
    for name, value in (("params", params), ("names", names)):
        if value is not None and not isinstance(value, Mapping):
            raise ArgumentError(
                f"draw: expected a mapping from names to tensors as {name}, got {type(value).__name__}; "
                f"write {name}=dict(x=x)."
            )
    if module is not None and not hasattr(module, "named_parameters"):
        raise ArgumentError(f"draw: expected a module, got {type(module).__name__}; pass the model itself.")


def variable_item(kind: Kind, name: str, tensor: Any, *, show_values: bool) -> Item:
    """Describe a tensor: small ones by value and gradient, others by shape."""
    shape = shape_text(tensor)
    gradient = gradient_of(tensor)
    small = show_values and element_count(tensor) <= SMALL and len(single_text(tensor)) <= WIDEST
    lines = [f"value {single_text(tensor)}" if small else shape]
    tip = [name or STAND_INS[kind], f"shape {shape}", f"dtype {dtype_text(tensor)}", f"value {value_text(tensor)}"]
    if gradient is not None:
        if small:
            lines.append(f"grad {single_text(gradient)}")
        tip.append(f"grad {value_text(gradient)}")
    tip.append(f"is_leaf {tensor.is_leaf}")
    if tensor.grad_fn is not None:
        tip.append(f"grad_fn {node_name(tensor.grad_fn)}")
    return Item(kind, name or STAND_INS[kind], tuple(lines), "\n".join(tip))


def marks_of(node: Any) -> tuple[Mark, ...]:
    """Return what is special about a node: a write in place, a view, and whether a backward pass has freed it."""
    marks: list[Mark] = []
    if node_name(node) == "CopySlices":
        marks.append("in place")
    elif getattr(getattr(node, "op", None), "view", None):
        marks.append("view")
    if isinstance(getattr(node, "saved", None), Freed):
        marks.append("freed")
    return tuple(marks)


STAND_INS: dict[Kind, str] = {"leaf": "leaf", "nonleaf": "value", "root": "output", "buffer": "input"}
"""What a variable is called that nobody named."""


@dataclass(slots=True)
class Builder:
    """A drawing in the making.

    variables: items by the identity of the tensor they show. outputs: items by node and output number, with -1 for the
    box of the operation itself. edges: how often each (source, target, label) occurs.
    """

    names: Names
    show_values: bool
    module: Any = None
    items: list[Item] = field(default_factory=list)
    modules: dict[tuple[str, ...], str] = field(default_factory=dict)
    variables: dict[int, int] = field(default_factory=dict)
    outputs: dict[tuple[int, int], int] = field(default_factory=dict)
    edges: dict[tuple[int, int, str, str], int] = field(default_factory=dict)
    light: dict[int, list[tuple[str, ...]]] = field(default_factory=dict)
    lines: dict[Any, str] = field(default_factory=dict)

    def add_graph(self, roots: Sequence[Any]) -> None:
        visited = walk(root.grad_fn for root in roots)
        ends = {(id(root.grad_fn), root.output_nr): root for root in roots if root.grad_fn is not None}
        leaves = {id(root) for root in roots if root.grad_fn is None}
        shown: dict[int, set[int]] = {}
        for node_id, number in (*ends, *self.names.outputs):
            shown.setdefault(node_id, set()).add(number)
        for node in visited.nodes:
            if is_accumulator(node):
                tensor = node.variable
                kind: Kind = "root" if id(tensor) in leaves else "leaf"
                self.outputs[id(node), 0] = self.add_variable(kind, self.names.leaves.get(id(tensor), ""), tensor)
                continue
            self.add_operation(node)
            for number in sorted(shown.get(id(node), ())):
                self.add_output(node, number, ends.get((id(node), number)))
        for root in roots:
            if id(root) in leaves:
                self.add_variable("root", self.names.leaves.get(id(root), ""), root)

    def add_variable(self, kind: Kind, name: str, tensor: Any) -> int:
        place = self.variables.setdefault(id(tensor), len(self.items))
        if place == len(self.items):
            item = variable_item(kind, name, tensor, show_values=self.show_values)
            scope = self.home(name) if kind in ("leaf", "buffer") else ()
            self.items.append(replace(item, scope=scope) if scope else item)
        return place

    def add_operation(self, node: Any) -> None:
        constants = [
            (self.add_variable("buffer", name, t), shape_text(t), dtype_text(t))
            for name, t in constants_of(node, self.names)
        ]
        tip = [node_name(node)]
        for number in range(len(getattr(node, "_input_metadata", None) or ())):
            tip.append(" ".join(("output", *output_spec(node, number))))
        tip += [f"{key} {str(value)[:200]}" for key, value in (getattr(node, "metadata", None) or {}).items()]
        op = len(self.items)
        scope = self.scope(node)
        self.items.append(Item("op", op_name(node), (), "\n".join(tip), marks_of(node), scope, self.line(node)))
        self.outputs[id(node), -1] = op
        for source, shape, dtype in constants:
            self.connect(source, op, shape, dtype)
        for follower, number in node.next_functions:
            if follower is None:
                continue
            leaf = follower.variable if is_accumulator(follower) else None
            shape, dtype = output_spec(follower, number) if leaf is None else (shape_text(leaf), dtype_text(leaf))
            place = (id(follower), number)
            self.connect(self.outputs[place if place in self.outputs else (id(follower), -1)], op, shape, dtype)

    def home(self, name: str) -> tuple[str, ...]:
        """Return the path of the submodule that owns a leaf of this name."""
        if self.module is None or "." not in name:
            return ()
        if not self.modules:
            named = getattr(self.module, "named_modules", lambda: ())()
            self.modules.update((tuple(path.split(".")), type(m).__name__) for path, m in named if path)
        path = tuple(name.split(".")[:-1])
        return path if path in self.modules else ()

    def scope(self, node: Any) -> tuple[str, ...]:
        """Return the path of the submodule that made a node: as noted at the call, or that of the leaves it takes."""
        if self.module is None:
            return ()
        noted = (getattr(node, "extra", None) or {}).get("module") or ""
        path = noted.rpartition(" (")[0]
        if path and self.home(path + "."):
            return self.home(path + ".")
        found: list[tuple[str, ...]] = []
        through: list[tuple[str, ...]] = []
        light = True
        for follower, _ in node.next_functions:
            if follower is None:
                continue
            if not is_accumulator(follower):
                light = False
                through += self.light.get(id(follower), [])
            elif self.items[self.outputs[id(follower), 0]].scope:
                found.append(self.items[self.outputs[id(follower), 0]].scope)
        if light and found:
            self.light[id(node)] = found
        return common(found or through)

    def line(self, node: Any) -> str:
        """Return the user's line that made a node, where it was noted."""
        origin = origin_of(node) if hasattr(node, "origin") else None
        if origin is None:
            return ""
        if origin not in self.lines:
            self.lines[origin] = str(place_of(origin) or "")
        return self.lines[origin]

    def add_output(self, node: Any, number: int, root: Any) -> None:
        name, tensor = self.names.outputs.get((id(node), number), ("", root))
        kind: Kind = "nonleaf" if root is None else "root"
        place = self.outputs[id(node), number] = self.add_variable(kind, name, tensor if root is None else root)
        self.connect(self.outputs[id(node), -1], place, shape_text(tensor), dtype_text(tensor))

    def connect(self, source: int, target: int, shape: str, dtype: str) -> None:
        """Join two items, with the shape on the link unless the variable at either end says it or the link before."""
        item = self.items[source]
        said = shape in item.lines or shape in self.items[target].lines or item.kind in ("nonleaf", "root")
        key = (source, target, "" if said else carried_text(shape, dtype), dtype)
        self.edges[key] = self.edges.get(key, 0) + 1

    def links(self) -> list[Link]:
        return [
            Link(source, target, f"{label} ×{count}".strip() if count > 1 else label, dtype=dtype)
            for (source, target, label, dtype), count in self.edges.items()
        ]
