"""How large text and shapes are, estimated without a font, and the colours of each kind of item."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass

from sapwood.viz.model import Item, Kind

__all__ = [
    "FAINT",
    "FORBIDDEN",
    "INK",
    "LABEL_SIZE",
    "LEADING",
    "LINE_SIZE",
    "STYLES",
    "TITLE_SIZE",
    "Row",
    "Shape",
    "Style",
    "plain",
    "rows_of",
    "shape_of",
    "text_width",
]

TITLE_SIZE = 13.0
LINE_SIZE = 11.0
LABEL_SIZE = 10.5
LEADING = 1.25
INK, FAINT = "#0f172a", "#475569"
MARKS = {"in place": "#c2410c", "view": "#0f766e", "freed": "#6b7280"}
"""The colour of each mark."""

# Widths of the characters of Arial by group, in thousandths of the font size.
_GROUPS = {
    200: "'ijl|",
    280: " !,./:;I[]\\ftr()-",
    350: '"*`{}',
    500: "cksvxyzJ_^",
    560: "abdeghnopqu0123456789$#?L",
    600: "TFZ+<=>~×",
    670: "ABEKPSVXY&",
    740: "CDGHNOQRUw",
    850: "mM",
    900: "%",
    950: "W",
    1020: "@…—",
}
_WIDTHS = {character: width / 1000 for width, group in _GROUPS.items() for character in group}
# Cyrillic and Greek have more wide letters than Latin does; other scripts come from fonts that nobody knows here, and
# some of their letters, as in Arabic, are wider than they are high.
_ALPHABET, _WIDE, _OTHER = 0.72, 1.05, 1.0
_EMOJI = 1.4
# Names of at most this many characters go into a circle, longer ones into a capsule.
SHORT = 4
# Fonts that stand in for Arial are up to this much wider.
_SPARE = 1.08
# Text of more characters than this is cut in the middle; the tip has all of it.
LONGEST = 64

# Characters that XML 1.0 does not allow, not even escaped, and controls that it does.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPACE = re.compile("[\t\n\r\x0b\x0c\x85\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Style:
    """Colours of one kind of item, and the word for it in the legend."""

    fill: str
    stroke: str
    word: str
    dashed: bool = False


STYLES: dict[Kind, Style] = {
    "input": Style("#ccfbf1", "#0d9488", "input"),
    "leaf": Style("#dbeafe", "#2563eb", "leaf"),
    "parameter": Style("#e0e7ff", "#4f46e5", "parameter"),
    "constant": Style("#f5f5f4", "#78716c", "constant"),
    "nonleaf": Style("#fef3c7", "#d97706", "non-leaf"),
    "root": Style("#dcfce7", "#16a34a", "root"),
    "buffer": Style("#f3f4f6", "#6b7280", "no gradient", dashed=True),
    "saved": Style("#ffedd5", "#ea580c", "saved", dashed=True),
    "base": Style("#bbf7d0", "#15803d", "base of a view", dashed=True),
    "op": Style("#ffffff", "#475569", "operation"),
    "module": Style("#f1f5f9", "#334155", "several operations"),
    "more": Style("#ffffff", "#6b7280", "left out", dashed=True),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The outline of an item: width, height and radius of the corners, in pixels. A circle is a very round box."""

    width: float
    height: float
    radius: float


@dataclass(frozen=True, slots=True)
class Row:
    """A line of text in an item: what it says, its font size in pixels, its colour and whether it is bold."""

    text: str
    size: float
    color: str
    bold: bool = False


def rows_of(item: Item) -> list[Row]:
    """Return the lines of text in an item, from top to bottom."""
    return [
        Row(plain(item.title), TITLE_SIZE, INK, bold=True),
        *(Row(plain(line), LINE_SIZE, FAINT) for line in item.lines),
        *(Row(mark, LINE_SIZE, MARKS[mark]) for mark in item.marks),
    ]


def plain(text: str) -> str:
    """Return text that fits on one line of a picture: without control characters, and cut in the middle if long."""
    text = FORBIDDEN.sub("\ufffd", _SPACE.sub(" ", text))
    if len(text) > LONGEST:
        half = (LONGEST - 1) // 2
        text = f"{text[:half]}…{text[-half:]}"
    return text


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Estimate the width of a line of text, in pixels, for a font size in pixels: rather too wide than too narrow."""
    ems = 0.0
    for c in text:
        known = _WIDTHS.get(c)
        ems += _width(c) if known is None else known
    return ems * size * _SPARE * (1.07 if bold else 1.0)


def _width(c: str) -> float:
    """Return the width of a character outside ASCII, in font sizes.

    Signs that combine with the one before, joiners and other marks without width count a little: a font that does not
    know them shows a sign of its own.
    """
    code = ord(c)
    if code < 0x80 or 0xA0 <= code < 0x250:  # Latin with accents: as wide as its widest letters of that case
        return 1.0 if c in "ÆŒæœ©®¼½¾‰Ŋ" else 0.78 if c.isupper() else 0.61
    if code < 0x600 and c.isalpha():
        return 1.0 if c in "ЖМФШЩЮЪЫжмфшщюыъΩΦΨΜѠѡ" else _ALPHABET
    if unicodedata.category(c) in ("Mn", "Me", "Cf"):
        return 0.35
    if code >= 0x1F000:
        return _EMOJI
    if unicodedata.east_asian_width(c) in "WF":
        return _WIDE
    return 0.63 if 0x2000 <= code < 0x2100 else _OTHER


def shape_of(item: Item) -> Shape:
    """Return an outline that the item's text fits in: a box, a circle, or for long names a capsule."""
    rows = rows_of(item)
    heights = [row.size * LEADING for row in rows]
    widths = [text_width(row.text, row.size, bold=row.bold) for row in rows]
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
    straight = max(0.0, *(x - math.sqrt(max(radius * radius - y * y, 0.0)) for x, y in corners))
    return Shape(2 * (straight + radius) + 8.0, 2 * radius, radius)
