"""Graphs as rows that can be compared: what goes in, then one row per call or node, then what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sapwood.graph.ir import Call, Graph, Value
from sapwood.viz.collect import Names, is_accumulator, op_name, output_spec, roots_of, saved, walk
from sapwood.viz.describe import dtype_text, shape_text

__all__ = ["CONSTANT", "Listing", "Row", "of_graph", "of_tensors"]

CONSTANT = "a constant"
"""Stands for what an autograd graph does not know: an operand that wants no gradient."""


@dataclass(slots=True)
class Row:
    """One call or node.

    Attributes:
        key: what it is and where: rows face each other if their keys are equal.
        results: name and type of each.
        reads: names of what it takes in.
        attrs: its attributes, as text.
        numbers: numbers in the places of tensors, as text.
        where: the module it is in.
    """

    key: tuple[Any, ...]
    results: list[tuple[str, str]]
    reads: list[str]
    attrs: dict[str, str]
    numbers: str = ""
    where: str = ""

    def __str__(self) -> str:
        made = ", ".join(f"{name}: {kind}" for name, kind in self.results)
        return f"{made} = {self.key[0]}({', '.join(self.reads)})" + (f"  in {self.where}" if self.where else "")


@dataclass(slots=True)
class Listing:
    """A graph as rows.

    Attributes:
        sources: type, and whether a gradient is wanted, of what goes in.
        names: of the values that go in.
        writes: by what is written over: the value's name.
    """

    name: str
    sources: dict[str, tuple[str, bool]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    returns: list[tuple[str, str]] = field(default_factory=list)
    writes: dict[str, str] = field(default_factory=dict)


def of_graph(graph: Graph) -> Listing:
    """List a captured graph."""
    found = Listing(graph.name)
    for value in graph.sources():
        found.sources[f"{value.role} {value.name}"] = value.type, value.requires_grad
        found.names.append(value.name)
    found.rows = [_call(c) for c in graph.calls]
    found.returns = [(v.name, v.type) for v in graph.outputs]
    found.writes = {name: value.name for name, value in graph.writes.items()}
    return found


def _call(call: Call) -> Row:
    numbers = [x for x in call.inputs if not isinstance(x, Value | tuple)]
    marks = {
        name: "yes" for name in ("in_place", "no_grad") if getattr(call, name)
    }  # a view is one by its op and its input
    return Row(
        (call.op.name, tuple(s.path for s in call.scope)),
        [(r.name, r.type) for r in call.results],
        [v.name for v in call.values()],
        {n: repr(v) for n, v in call.attrs.items()} | marks,
        repr(numbers) if numbers else "",
        str(call.scope[-1]) if call.scope else "",
    )


def of_tensors(tensors: Any, names: Mapping[str, Any] | None, module: Any) -> Listing:
    """List the autograd graph of a tensor, or of several: leaves, nodes after those they lead to, roots."""
    roots = roots_of(tensors, "diff")
    known = Names.of(names, module=module)
    found = Listing(_root_name(roots, names))
    called: dict[int, str] = {}
    for number, node in enumerate(walk([_node(r) for r in roots]).nodes):
        if is_accumulator(node):
            leaf = node.variable
            name = known.leaves.get(id(leaf)) or f"leaf {len(found.names) + 1}"
            called[id(node)] = name
            found.names.append(name)
            found.sources[name] = f"{dtype_text(leaf)}{shape_text(leaf)}", True
            continue
        own = known.outputs.get((id(node), 0), ("", None))[0]
        name = called[id(node)] = own or f"{op_name(node)} {number}"
        count = max(len(getattr(node, "_input_metadata", None) or ()), 1)
        kinds = ["".join(reversed(output_spec(node, i))) for i in range(count)]
        reads = [
            CONSTANT if follower is None else called[id(follower)] + (f".{which}" if which else "")
            for follower, which in node.next_functions
        ]
        attrs = {n: repr(v) for n, v in saved(node) if not _holds_tensors(v)}
        results = [(name if not i else f"{name}.{i}", kind) for i, kind in enumerate(kinds)]
        found.rows.append(Row((op_name(node),), results, reads, attrs))
    for root in roots:
        made = called.get(id(_node(root)), CONSTANT) + (f".{root.output_nr}" if root.output_nr else "")
        found.returns.append((made, f"{dtype_text(root)}{shape_text(root)}"))
    return found


def _node(root: Any) -> Any:
    """Return the node of a tensor, for a leaf that of its gradient; None for a tensor without."""
    if root.grad_fn is not None or not root.requires_grad:
        return root.grad_fn
    return root.view_as(root).grad_fn.next_functions[0][0]


def _root_name(roots: list[Any], names: Mapping[str, Any] | None) -> str:
    for name, tensor in (names or {}).items():
        if any(tensor is r for r in roots):
            return name
    node = roots[0].grad_fn
    return "a tensor" if node is None else op_name(node)


def _holds_tensors(x: Any) -> bool:
    return hasattr(x, "grad_fn") or (isinstance(x, tuple | list) and any(map(_holds_tensors, x)))
