"""How large text and shapes are, estimated without a font, and the colours of each kind of item."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sapwood.viz.model import Item, Kind

__all__ = ["LABEL_SIZE", "LINE_SIZE", "STYLES", "TITLE_SIZE", "Shape", "Style", "shape_of", "text_width"]

TITLE_SIZE = 13.0
LINE_SIZE = 11.0
LABEL_SIZE = 10.5
LEADING = 1.25

# Widths of the characters of Arial by group, in thousandths of the font size; all others count as 560.
_GROUPS = {
    200: "'ijl|",
    280: " !,./:;I[]\\ftr()-",
    350: '"*`{}',
    500: "cksvxyzJ_^",
    640: "ABEFKLPSTVXYZ+<=>~×",
    740: "CDGHNOQRUw&",
    850: "mM%",
    950: "W@…—",
}
_WIDTHS = {character: width / 1000 for width, group in _GROUPS.items() for character in group}
# Names of at most this many characters go into a circle, longer ones into a capsule.
SHORT = 4
# Fonts that stand in for Arial are up to this much wider.
_SPARE = 1.08


@dataclass(frozen=True, slots=True)
class Style:
    """Colours of one kind of item, and the word for it in the legend."""

    fill: str
    stroke: str
    word: str
    dashed: bool = False


STYLES: dict[Kind, Style] = {
    "leaf": Style("#dbeafe", "#2563eb", "leaf"),
    "nonleaf": Style("#fef3c7", "#d97706", "non-leaf"),
    "root": Style("#dcfce7", "#16a34a", "root"),
    "buffer": Style("#f3f4f6", "#6b7280", "no gradient", dashed=True),
    "saved": Style("#ffedd5", "#ea580c", "saved", dashed=True),
    "base": Style("#bbf7d0", "#15803d", "base of a view", dashed=True),
    "op": Style("#ffffff", "#475569", "operation"),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The outline of an item: width, height and radius of the corners, in pixels. A circle is a very round box."""

    width: float
    height: float
    radius: float


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Estimate the width of a line of text, in pixels, for a font size in pixels."""
    # Signs outside Latin scripts are mostly as wide as they are high.
    ems = sum(_WIDTHS.get(c, 0.56 if ord(c) < 0x1100 else 1.0) for c in text)
    return ems * size * _SPARE * (1.07 if bold else 1.0)


def shape_of(item: Item) -> Shape:
    """Return an outline that the item's text fits in: a box, a circle, or for long names a capsule."""
    heights = [TITLE_SIZE * LEADING] + [LINE_SIZE * LEADING] * len(item.lines)
    widths = [text_width(item.title, TITLE_SIZE, bold=True)] + [text_width(line, LINE_SIZE) for line in item.lines]
    height, width = sum(heights), max(widths)
    if not item.is_variable:
        return Shape(max(width + 24.0, 54.0), height + 13.0, 7.0)
    corners = []
    top = -height / 2
    for line_width, line_height in zip(widths, heights):
        corners.append((line_width / 2, max(abs(top), abs(top + line_height))))
        top += line_height
    radius = max(20.0, max(math.hypot(x, y) for x, y in corners) + 3.0)
    if len(item.title) <= SHORT and radius <= 42.0:
        return Shape(2 * radius, 2 * radius, radius)
    radius = height / 2 + 6.0
    # How far a line reaches past the straight part of a capsule depends on how high it lies in the cap.
    straight = max(x - math.sqrt(max(radius * radius - y * y, 0.0)) for x, y in corners)
    return Shape(2 * (straight + radius) + 8.0, 2 * radius, radius)
