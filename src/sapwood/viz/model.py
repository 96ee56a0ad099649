"""The drawing model: what every picture of a graph is made of.

A `Drawing` is a snapshot in plain strings. It keeps no tensor and no node alive, so it can be printed, saved or shown
long after the graph it was taken from is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sapwood.errors import ValueRangeError

__all__ = ["Direction", "Drawing", "Item", "Kind", "Link"]

Kind = Literal["leaf", "nonleaf", "root", "buffer", "saved", "base", "op"]
Direction = Literal["TB", "LR"]

VARIABLES: frozenset[Kind] = frozenset({"leaf", "nonleaf", "root", "buffer", "saved", "base"})


@dataclass(frozen=True, slots=True)
class Item:
    """One shape in the picture: a circle for a variable, a box for an operation.

    title: the name. lines: small print below it, such as shape, value and gradient. tip: text shown on hovering.
    """

    kind: Kind
    title: str
    lines: tuple[str, ...] = ()
    tip: str = ""

    @property
    def is_variable(self) -> bool:
        return self.kind in VARIABLES


@dataclass(frozen=True, slots=True)
class Link:
    """An arrow from one item to another, given as places in `Drawing.items`.

    label: what travels along it, usually a shape. dashed: a relation that is not a gradient edge.
    """

    source: int
    target: int
    label: str = ""
    dashed: bool = False


@dataclass(slots=True)
class Drawing:
    """Items and links, and the formats they can be written in.

    Items come in an order in which every link leads forward, and nearby items were met one after the other.
    """

    items: list[Item] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    direction: Direction = "TB"
    outline: str = ""

    def svg(self, theme: Literal["light", "dark", "auto"] = "auto") -> str:
        """Return the picture as a self-contained SVG document; "auto" follows the viewer's preference."""
        from sapwood.viz.svg import svg_text

        return svg_text(self, theme)

    def dot(self) -> str:
        """Return the graph in the DOT language, for those who have Graphviz."""
        from sapwood.viz.dot import dot_text

        return dot_text(self)

    def text(self) -> str:
        """Return the graph as a tree of text lines."""
        return self.outline

    def save(self, path: str | Path, *, theme: Literal["light", "dark", "auto"] = "auto") -> Path:
        """Write the picture to a file whose suffix says the format.

        Args:
            path: ends in .svg, .dot, .gv or .txt; with matplotlib installed also .png or .pdf.
            theme: of an .svg.

        Returns:
            The path written.

        Raises:
            ValueRangeError: the suffix names no known format.
            MissingError: the format needs matplotlib, which is not installed.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix == ".svg":
            path.write_text(self.svg(theme), encoding="utf-8")
        elif suffix in (".dot", ".gv"):
            path.write_text(self.dot(), encoding="utf-8")
        elif suffix == ".txt":
            path.write_text(self.text() + "\n", encoding="utf-8")
        elif suffix in (".png", ".pdf"):
            from sapwood.viz.raster import save_raster

            save_raster(self, path)
        else:
            raise ValueRangeError(
                f"Drawing.save: expected a path ending in .svg, .dot, .gv, .txt, .png or .pdf, got {str(path)!r}; "
                "give the file one of these suffixes."
            )
        return path

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        variables = sum(item.is_variable for item in self.items)
        operations = len(self.items) - variables
        return f"Drawing({variables} variables, {operations} operations, {len(self.links)} links)"
