"""The graph as a tree of text lines for a terminal."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from sapwood.viz.collect import Names, Walk, is_accumulator, node_name, output_spec, roots_of, walk
from sapwood.viz.describe import gradient_of, shape_text, value_text

__all__ = ["graph_text"]

# A branch deeper than this goes on at the left margin, so that lines stay readable and long chains cost linear time.
DEEPEST = 20
# Tensors of up to this many elements are written out.
FULL = 8

Edge = tuple[Any, int]


def graph_text(
    tensors: Any,
    *,
    params: Mapping[str, Any] | None = None,
    module: Any = None,
    names: Mapping[str, Any] | None = None,
    show_values: bool = True,
    max_nodes: int | None = 500,
) -> str:
    """Return the graph behind a tensor, or several, as a tree: each line one tensor, its inputs indented below it.

    Named tensors, leaves and roots show value, shape, is_leaf, grad and grad_fn; other results show the name of their
    node. A node with several consumers is shown at the first and referred to by name or number at the others.

    Args:
        tensors: one tensor, or a sequence of them.
        params: names of tensors, usually leaves.
        module: names leaves by `named_parameters` and `named_buffers`.
        names: names of any tensors, intermediate results among them.
        show_values: show elements and gradients, the first few of large tensors.
        max_nodes: lines after which the rest is only counted; None shows everything.

    Example:
        >>> print(graph_text(y, names=dict(w=w, x=x, a=a, b=b, y=y)))  # doctest: +SKIP
        y = [6.]  shape=(1,)  is_leaf=False  grad=None (not retained)  grad_fn=MulBackward0
        ├─ a = [3.]  shape=(1,)  is_leaf=False  grad=None (not retained)  grad_fn=AddBackward0
        │  ├─ x = [2.]  shape=(1,)  is_leaf=True  grad=[2.]  grad_fn=None
        │  └─ w = [1.]  shape=(1,)  is_leaf=True  grad=[5.]  grad_fn=None
        └─ b = [2.]  shape=(1,)  is_leaf=False  grad=None (not retained)  grad_fn=AddBackward0
           └─ w  (see above)
    """
    roots = roots_of(tensors, "graph_text")
    tree = Tree(Names.of(names, params, module=module), roots, show_values=show_values)
    return "\n".join(tree.lines(max_nodes))


class Tree:
    """A tree of text lines over a graph in which nodes may be shared."""

    def __init__(self, names: Names, roots: list[Any], *, show_values: bool) -> None:
        self.names = names
        self.roots = roots
        self.show_values = show_values
        self.graph: Walk = walk(root.grad_fn for root in roots)
        self.tensors: dict[tuple[int, int], tuple[str, Any]] = {
            (id(r.grad_fn), r.output_nr): ("", r) for r in roots if r.grad_fn is not None
        }
        self.tensors.update(names.outputs)
        self.shown: set[int] = set()
        self.described: set[tuple[int, int]] = set()
        self.numbers: dict[int, int] = {}

    def lines(self, max_nodes: int | None) -> list[str]:
        out: list[str] = []
        for root in self.roots:
            if root.grad_fn is None:
                out.append(self.tensor_text(self.names.leaves.get(id(root), "leaf"), root))
        # Each entry is one edge to show, with what to print before it and before its inputs, and its depth.
        sections: deque[Edge] = deque((r.grad_fn, r.output_nr) for r in self.roots if r.grad_fn is not None)
        opened = {id(node) for node, _ in sections}
        while sections:
            stack: list[tuple[Edge, str, str, int]] = [(sections.popleft(), "", "", 0)]
            while stack:
                (node, number), lead, indent, depth = stack.pop()
                if max_nodes is not None and len(out) >= max_nodes:
                    left = len(self.graph.nodes) - len(self.shown)
                    return [*out, f"… {left} more nodes"] if left else out
                if id(node) in self.shown:
                    news = (id(node), number) in self.tensors and (id(node), number) not in self.described
                    label = self.text(node, number) if news else self.label(node, number, numbered=True)
                    self.described.add((id(node), number))
                    out.append(f"{lead}{label}  (see above)")
                    continue
                edges = [edge for edge in node.next_functions if edge[0] is not None]
                if depth and (id(node) in opened or (depth >= DEEPEST and edges)):
                    if id(node) not in opened:
                        opened.add(id(node))
                        sections.append((node, number))
                    out.append(f"{lead}{self.label(node, number, numbered=True)}  (see below)")
                    continue
                self.shown.add(id(node))
                self.described.add((id(node), number))
                out.append(lead + self.text(node, number))
                for k, edge in reversed(list(enumerate(edges))):
                    last = k == len(edges) - 1
                    branch, trunk = ("└─ ", "   ") if last else ("├─ ", "│  ")
                    stack.append((edge, indent + branch, indent + trunk, depth + 1))
        return out

    def text(self, node: Any, number: int) -> str:
        """Describe a tensor as fully as it is known."""
        label = self.label(node, number, numbered=self.graph.uses[self.graph.index[id(node)]] > 1)
        if is_accumulator(node):
            return self.tensor_text(label, node.variable)
        if (id(node), number) in self.tensors:
            return self.tensor_text(label, self.tensors[id(node), number][1])
        shape, _ = output_spec(node, number)
        return label + (f"  shape={shape}" if shape else "")

    def label(self, node: Any, number: int, *, numbered: bool) -> str:
        """Name a tensor; one without a name gets a number where others refer to it."""
        known = self.tensors.get((id(node), number))
        if is_accumulator(node):
            name, stand_in = self.names.leaves.get(id(node.variable), ""), "leaf"
        else:
            name, stand_in = known[0] if known else "", "output" if known else node_name(node)
        if name:
            return name
        if numbered or id(node) in self.numbers:
            return f"{stand_in} #{self.numbers.setdefault(id(node), len(self.numbers) + 1)}"
        return stand_in

    def tensor_text(self, name: str, tensor: Any) -> str:
        parts = [name]
        if self.show_values:
            parts[0] += f" = {value_text(tensor, FULL)}"
        parts.append(f"shape={shape_text(tensor)}")
        parts.append(f"is_leaf={tensor.is_leaf}")
        gradient = gradient_of(tensor)
        if gradient is not None:
            parts.append(f"grad={value_text(gradient, FULL)}" if self.show_values else "grad=yes")
        elif tensor.is_leaf or getattr(tensor, "retains_grad", False):
            parts.append("grad=None")
        else:
            parts.append("grad=None (not retained)")
        parts.append(f"grad_fn={node_name(tensor.grad_fn) if tensor.grad_fn is not None else None}")
        return "  ".join(parts)
