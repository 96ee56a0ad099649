"""`make_dot`: the graph of a tensor drawn node by node, for programs written for torchviz."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sapwood.errors import ValueRangeError
from sapwood.files import write_text
from sapwood.viz.collect import Names, is_accumulator, node_name, output_spec, roots_of, saved, walk
from sapwood.viz.describe import shape_text
from sapwood.viz.dot import dot_text
from sapwood.viz.folding import within
from sapwood.viz.model import Drawing, Item, Kind, Link
from sapwood.viz.svg import svg_text

__all__ = ["Digraph", "make_dot"]

# Pictures of more items than this are folded; the DOT text is not.
LARGEST = 2_000


def make_dot(
    var: Any,
    params: Mapping[str, Any] | None = None,
    show_attrs: bool = False,
    show_saved: bool = False,
    max_attr_chars: int = 50,
) -> Digraph:
    """Draw the backward graph of a tensor, or of several, with every node under its class name.

    Blue are leaves, green the outputs, dashed green the tensor an output is a view of, orange tensors kept for the
    backward pass, white the nodes.

    Args:
        var: one tensor, or a sequence of them.
        params: names of tensors, as in `dict(model.named_parameters())`.
        show_attrs: write the numbers that nodes keep, such as sizes and strides, into their boxes.
        show_saved: show the tensors that nodes keep.
        max_attr_chars: longer attributes are cut to this length.

    Returns:
        A picture with `.source` (DOT text), `.save(path)`, `.render(path)` and notebook display.
    """
    if max_attr_chars < 3:
        raise ValueRangeError(f"make_dot: expected max_attr_chars of at least 3, got {max_attr_chars}; allow more.")
    roots = roots_of(var, "make_dot")
    names = Names.of(params)
    items: list[Item] = []
    links: list[Link] = []
    boxes: dict[int, int] = {}

    def add(kind: Kind, title: str, *lines: str) -> int:
        items.append(Item(kind, title, tuple(line for line in lines if line)))
        return len(items) - 1

    def add_tensor(kind: Kind, tensor: Any, name: str = "") -> int:
        if tensor.grad_fn is not None:
            name = name or names.outputs.get((id(tensor.grad_fn), tensor.output_nr), ("",))[0]
        name = names.leaves.get(id(tensor), name)
        shape = shape_text(tensor)
        return add(kind, name, shape) if name else add(kind, shape)

    visited = walk(root.grad_fn for root in roots)
    for node in visited.nodes:
        leaf = add_tensor("leaf", node.variable) if is_accumulator(node) else None
        kept = saved(node) if show_attrs or show_saved else []
        lines = attribute_lines(kept, max_attr_chars) if show_attrs else []
        tensors = [(key, value) for key, value in kept if hasattr(value, "grad_fn")] if show_saved else []
        first = len(items)
        for key, value in tensors:
            add_tensor("saved", value, key)
        box = boxes[id(node)] = add("op", node_name(node), *lines)
        if leaf is not None:
            links.append(Link(leaf, box))
        links.extend(Link(source, box, dashed=True) for source in range(first, first + len(tensors)))
        for follower, number in node.next_functions:
            if follower is not None:
                shape = "" if is_accumulator(follower) else output_spec(follower, number)[0]
                links.append(Link(boxes[id(follower)], box, shape))
    for root in roots:
        end = add_tensor("root", root)
        source = boxes.get(id(root.grad_fn))
        base = getattr(root, "_base", None)
        if base is not None and id(base.grad_fn) in boxes:
            view_of = add_tensor("base", base)
            links.append(Link(boxes[id(base.grad_fn)], view_of))
            links.append(Link(view_of, end, dashed=True))
        if source is not None:
            links.append(Link(source, end))
    return Digraph(Drawing(items, links))


def attribute_lines(kept: list[tuple[str, Any]], longest: int) -> list[str]:
    lines = []
    for key, value in kept:
        text = shape_text(value) if hasattr(value, "grad_fn") else re.sub(r"\s+", " ", str(value))
        lines.append(f"{key}: {text if len(text) <= longest else text[: longest - 1] + '…'}")
    return lines


class Digraph:
    """A drawn graph with the methods that programs call on torchviz's result.

    format: the suffix `render` uses when it is given none.
    """

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        self.format = "svg"

    @property
    def source(self) -> str:
        """The graph in the DOT language."""
        return dot_text(self.drawing)

    def save(self, filename: str | Path = "Digraph.gv", directory: str | Path | None = None) -> str:
        """Write the graph and return the path. The suffix says the format; DOT where it is none that is known."""
        path = Path(directory or ".") / filename
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() in (".svg", ".png", ".pdf"):
            within(self.drawing, LARGEST).save(path)
        else:
            write_text(path, self.source)
        return str(path)

    def render(
        self,
        filename: str | Path = "Digraph.gv",
        directory: str | Path | None = None,
        view: bool = False,
        cleanup: bool = False,
        format: str | None = None,
    ) -> str:
        """Write the DOT text as `filename` and the picture as `filename.format`, and return the picture's path.

        Args:
            filename: where the DOT text goes.
            directory: the folder both go to, made where it is missing.
            view: accepted and ignored: no viewer is started.
            cleanup: leave out the DOT text.
            format: "svg"; "png" and "pdf" need matplotlib.

        Raises:
            ValueRangeError: another format.
            MissingError: the format needs matplotlib, which is not installed.
        """
        format = format or self.format
        if format not in ("svg", "png", "pdf"):
            raise ValueRangeError(f"render: expected format 'svg', 'png' or 'pdf', got {format!r}; use one of these.")
        if not cleanup:
            plain = Path(directory or ".") / filename
            plain.parent.mkdir(parents=True, exist_ok=True)
            write_text(plain, self.source)
        return self.save(f"{filename}.{format}", directory)

    def _repr_svg_(self) -> str:
        return svg_text(within(self.drawing, LARGEST))

    def __str__(self) -> str:
        return self.source
