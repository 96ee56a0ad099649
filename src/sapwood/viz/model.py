"""The drawing model: what every picture of a graph is made of.

A `Drawing` is a snapshot in plain strings. It keeps no tensor and no node alive, so it can be printed, saved or shown
long after the graph it was taken from is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from sapwood.errors import ValueRangeError
from sapwood.files import write_text

__all__ = ["Direction", "Drawing", "Group", "Item", "Kind", "Link", "Mark", "common"]

Kind = Literal[
    "leaf", "parameter", "input", "constant", "nonleaf", "root", "buffer", "saved", "base", "op", "module", "more"
]
Mark = Literal["in place", "view", "freed"]
Direction = Literal["TB", "LR"]
Theme = Literal["light", "dark", "auto"]

BOXES: frozenset[Kind] = frozenset({"op", "module", "more"})
"""Kinds drawn as boxes; all others are variables."""


@dataclass(frozen=True, slots=True)
class Item:
    """One shape in the picture: a circle for a variable, a box for an operation.

    title: the name. lines: small print below it, such as shape, value and gradient. tip: text shown on hovering.
    marks: what is special about an operation. scope: the modules it belongs to, outermost first. line: where in the
    user's program it was made.
    """

    kind: Kind
    title: str
    lines: tuple[str, ...] = ()
    tip: str = ""
    marks: tuple[Mark, ...] = ()
    scope: tuple[str, ...] = ()
    line: str = ""

    @property
    def is_variable(self) -> bool:
        return self.kind not in BOXES


@dataclass(frozen=True, slots=True)
class Link:
    """An arrow from one item to another, given as places in `Drawing.items`.

    label: what travels along it, usually a shape. dashed: a relation that is not a gradient edge, or a link that leads
    back. dtype: of what travels along it, where it is known.
    """

    source: int
    target: int
    label: str = ""
    dashed: bool = False
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A module in the picture.

    path: its name and those of the modules around it, outermost first. kind: its class, where it is known.
    items: what lies in it, in modules inside it too.
    """

    path: tuple[str, ...]
    kind: str
    items: tuple[int, ...]

    @property
    def title(self) -> str:
        return " · ".join(filter(None, (self.path[-1], self.kind)))


def common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the innermost module around several."""
    if not paths:
        return ()
    shortest, *_ = sorted(paths, key=len)
    depth = 0
    while depth < len(shortest) and all(path[depth] == shortest[depth] for path in paths):
        depth += 1
    return shortest[:depth]


@dataclass(slots=True)
class Drawing:
    """Items and links, and the formats they can be written in.

    Items come in an order in which every link leads forward, save dashed ones that close a cycle; nearby items were met
    one after the other.

    modules: the class of each module in the picture, by its path.
    """

    items: list[Item] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    direction: Direction = "TB"
    outline: str = ""
    modules: dict[tuple[str, ...], str] = field(default_factory=dict)

    def groups(self) -> list[Group]:
        """Return the modules in the picture, outer before inner ones."""
        found: dict[tuple[str, ...], list[int]] = {}
        for k, item in enumerate(self.items):
            for depth in range(1, len(item.scope) + 1):
                found.setdefault(item.scope[:depth], []).append(k)
        return [Group(path, self.modules.get(path, ""), tuple(items)) for path, items in found.items()]

    def svg(self, theme: Theme = "auto", *, legend: bool = True) -> str:
        """Return the picture as a self-contained SVG document.

        Args:
            theme: "light", "dark", or "auto", which follows the viewer's preference.
            legend: explain the kinds of items below the picture.
        """
        from sapwood.viz.svg import svg_text

        return svg_text(self, theme, legend=legend)

    def dot(self) -> str:
        """Return the graph in the DOT language, for those who have Graphviz."""
        from sapwood.viz.dot import dot_text

        return dot_text(self)

    def text(self) -> str:
        """Return the graph as a tree of text lines."""
        return self.outline

    def json(self) -> dict[str, Any]:
        """Return items, links and groups with their places, in pixels, as data that `json.dumps` takes."""
        from sapwood.viz.plain import plain_data

        return plain_data(self)

    def html(self) -> str:
        """Return a page that needs no network, on which the picture can be moved, enlarged and searched."""
        from sapwood.viz.page import html

        items = [replace(item, kind=SEEN_AS.get(item.kind, item.kind), lines=(*item.lines, *item.marks))
                 for item in self.items]  # fmt: skip
        return html(replace(self, items=items))

    def save(self, path: str | Path, *, theme: Theme = "auto", legend: bool = True) -> Path:
        """Write the picture to a file whose suffix says the format, whole or not at all.

        Args:
            path: ends in .svg, .html, .json, .dot, .gv or .txt; with matplotlib installed also .png or .pdf.
            theme: of an .svg.
            legend: of an .svg.

        Returns:
            The path written.

        Raises:
            ValueRangeError: the suffix names no known format.
            MissingError: the format needs matplotlib, which is not installed.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix == ".svg":
            text = self.svg(theme, legend=legend)
        elif suffix in (".dot", ".gv"):
            text = self.dot()
        elif suffix == ".txt":
            text = self.text() + "\n"
        elif suffix in (".html", ".htm"):
            text = self.html()
        elif suffix == ".json":
            import json

            text = json.dumps(self.json(), ensure_ascii=False, allow_nan=False, indent=1) + "\n"
        elif suffix in (".png", ".pdf"):
            from sapwood.viz.raster import save_raster

            save_raster(self, path)
            return path
        else:
            raise ValueRangeError(
                "Drawing.save: expected a path ending in .svg, .html, .json, .dot, .gv, .txt, .png or .pdf, "
                f"got {str(path)!r}; give the file one of these suffixes."
            )
        write_text(path, text)
        return path

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        variables = sum(item.is_variable for item in self.items)
        operations = len(self.items) - variables
        return f"Drawing({variables} variables, {operations} operations, {len(self.links)} links)"


SEEN_AS: dict[Kind, Kind] = {
    "parameter": "leaf", "input": "buffer", "constant": "buffer", "module": "op", "more": "op"
}  # fmt: skip
"""The kind that the explorer shows in place of another."""
