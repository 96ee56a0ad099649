"""What a layout is told and what it answers: wires, boxes, routes and frames."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Box", "Chain", "Frame", "Layout", "Points", "Route", "Wire"]


@dataclass(frozen=True, slots=True)
class Wire:
    """A link as the layout sees it: two item numbers and the size (width, height) of its label, if it has one.

    leave, enter: where it touches the side of its source and of its target, in pixels from the middle; None: where it
    likes to.
    """

    source: int
    target: int
    label: tuple[float, float] | None = None
    leave: float | None = None
    enter: float | None = None


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle given by its centre and its size, in pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Route:
    """A piece of a link: points joined alternately by straight lines and by curves.

    wires: the links that share this piece. ends: whether the piece ends at its target, with an arrowhead.
    back: whether it leads against the flow, to the far side of its target.
    """

    points: tuple[tuple[float, float], ...]
    wires: tuple[int, ...]
    ends: bool
    back: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle around a module, and where its title starts: left edge and middle line, in pixels."""

    path: tuple[str, ...]
    box: Box
    title: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes by item, routes, label boxes with the wire they belong to, and crossings left after each sweep.

    frames: of modules, outer before inner ones. tabs: items by the innermost module that has no frame.
    """

    width: float
    height: float
    boxes: tuple[Box, ...]
    routes: tuple[Route, ...]
    labels: tuple[tuple[Box, int], ...]
    crossings: tuple[int, ...]
    frames: tuple[Frame, ...] = ()
    tabs: tuple[tuple[int, tuple[str, ...]], ...] = ()


@dataclass(slots=True)
class Chain:
    """The points between a source and the targets that share them, one per layer."""

    source: int
    points: list[int]
    wires: list[int]


@dataclass(slots=True)
class Points:
    """Every vertex of the layered graph: the items first, then the points on links.

    ends: per edge, how far from the middle of its upper and of its lower vertex it starts and ends.
    """

    rank: list[int]
    width: list[float]
    height: list[float]
    key: list[float]
    edges: list[tuple[int, int]]
    ends: list[tuple[float, float]]
    chains: list[Chain]
    labels: list[tuple[int, int]]

    def join(self, upper: int, lower: int, leave: float | None, enter: float | None) -> None:
        self.edges.append((upper, lower))
        self.ends.append((leave or 0.0, enter or 0.0))
