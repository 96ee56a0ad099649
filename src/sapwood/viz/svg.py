"""A drawing as a self-contained SVG document: no script, no font file, no system program."""

from __future__ import annotations

import re
from typing import Literal
from xml.sax.saxutils import escape

from sapwood.errors import ValueRangeError
from sapwood.viz.layout import Box, Layout, Route, Wire, layout
from sapwood.viz.measure import (
    LABEL_SIZE,
    LEADING,
    LINE_SIZE,
    STYLES,
    TITLE_SIZE,
    Shape,
    shape_of,
    text_width,
)
from sapwood.viz.model import VARIABLES, Drawing, Item, Kind

__all__ = ["Theme", "arrange", "is_straight", "svg_text"]

FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
INK, FAINT, LINE = "#0f172a", "#475569", "#64748b"
ARROW_LENGTH, ARROW_WIDTH = 8.0, 7.0
LEGEND_HEIGHT = 30.0

# Characters that XML 1.0 does not allow, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


DARK = {
    "#ffffff": "#171d1a", "#0f172a": "#e6ece9", "#475569": "#9fb0a8", "#64748b": "#7c8b84",
    "#dbeafe": "#1c3350", "#2563eb": "#6ea8fe", "#fef3c7": "#42350f", "#d97706": "#f0b449", "#dcfce7": "#16391f",
    "#16a34a": "#5cc987", "#f3f4f6": "#262b2e", "#6b7280": "#98a2ab", "#ffedd5": "#472a10", "#ea580c": "#f58b4c",
    "#bbf7d0": "#1b4a2b", "#15803d": "#4fb878",
}  # fmt: skip
"""What each colour becomes on a dark ground."""
Theme = Literal["light", "dark", "auto"]


def _style(theme: Theme) -> str:
    """Return rules that repaint the picture for a dark ground: always, or where the viewer prefers it."""
    if theme == "light":
        return ""
    rules = "".join(f'[fill="{a}"]{{fill:{b}}}[stroke="{a}"]{{stroke:{b}}}' for a, b in DARK.items())
    # The ink of outlines is white nowhere, so one rule for fills and one for strokes do.
    return f"<style>{rules if theme == 'dark' else f'@media (prefers-color-scheme: dark){{{rules}}}'}</style>"


def svg_text(drawing: Drawing, theme: Theme = "auto") -> str:
    """Return the drawing as an SVG document.

    Raises:
        ValueRangeError: another theme than "light", "dark" and "auto", which follows the viewer's preference.
    """
    if theme not in ("light", "dark", "auto"):
        raise ValueRangeError(f"svg: theme must be 'light', 'dark' or 'auto', got {theme!r}")
    shapes, plan = arrange(drawing)
    legend, legend_width = legend_text(drawing)
    width = max(plan.width, legend_width)
    height = plan.height + LEGEND_HEIGHT
    shift = (width - plan.width) / 2
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" height="{number(height)}" '
        f'viewBox="0 0 {number(width)} {number(height)}" font-family="{FONT}" text-anchor="middle" role="img">',
        f"<title>{clean(caption(drawing))}</title>{_style(theme)}",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<g transform="translate({number(shift)} 0)">',
        '<g class="links">',
    ]
    for route in plan.routes:
        out.append(route_text(drawing, route))
    out.append("</g>")
    for box, wire in plan.labels:
        out.append(label_text(drawing.links[wire].label, box))
    for item, shape, box in zip(drawing.items, shapes, plan.boxes):
        out.append(item_text(item, shape, box))
    out.append("</g>")
    out.append(f'<g transform="translate(0 {number(plan.height)})" class="legend">{legend}</g>')
    out.append("</svg>\n")
    return "\n".join(out)


def arrange(drawing: Drawing) -> tuple[list[Shape], Layout]:
    """Return the outline of each item and where everything goes."""
    shapes = [shape_of(item) for item in drawing.items]
    wires = [
        Wire(link.source, link.target, (text_width(link.label, LABEL_SIZE) + 6, LABEL_SIZE + 4) if link.label else None)
        for link in drawing.links
    ]
    plan = layout(
        [(shape.width, shape.height) for shape in shapes],
        wires,
        radii=[shape.radius for shape in shapes],
        direction=drawing.direction,
    )
    return shapes, plan


def caption(drawing: Drawing) -> str:
    roots = [item.title for item in drawing.items if item.kind == "root"]
    return "Computation graph" + (f" of {', '.join(roots[:3])}" if roots else "")


def route_text(drawing: Drawing, route: Route) -> str:
    sideways = drawing.direction == "LR"
    points = list(route.points)
    tip = points[-1]
    # The line stops inside the arrowhead, so that its end does not blunt the point.
    points[-1] = (tip[0] - ARROW_LENGTH + 1, tip[1]) if sideways else (tip[0], tip[1] - ARROW_LENGTH + 1)
    dashes = ' stroke-dasharray="5 4"' if drawing.links[route.wires[0]].dashed else ""
    line = f'<path d="{path_text(points, sideways=sideways)}" fill="none" stroke="{LINE}" stroke-width="1.3"{dashes}/>'
    x, y = tip
    half = ARROW_WIDTH / 2
    if sideways:
        corners = [(x, y), (x - ARROW_LENGTH, y - half), (x - ARROW_LENGTH, y + half)]
    else:
        corners = [(x, y), (x - half, y - ARROW_LENGTH), (x + half, y - ARROW_LENGTH)]
    head = " ".join(f"{number(a)},{number(b)}" for a, b in corners)
    return f'{line}<polygon points="{head}" fill="{LINE}"/>'


def path_text(points: list[tuple[float, float]], *, sideways: bool) -> str:
    """Join points: straight within a layer, and between layers by a curve that leaves and arrives along the flow."""
    x, y = points[0]
    out = [f"M{number(x)} {number(y)}"]
    for k, (a, b) in enumerate(points[1:]):
        if (a, b) == (x, y):
            continue
        if is_straight(k, (x, y), (a, b), sideways=sideways):
            out.append(f"L{number(a)} {number(b)}")
        elif sideways:
            middle = number((x + a) / 2)
            out.append(f"C{middle} {number(y)} {middle} {number(b)} {number(a)} {number(b)}")
        else:
            middle = number((y + b) / 2)
            out.append(f"C{number(x)} {middle} {number(a)} {middle} {number(a)} {number(b)}")
        x, y = a, b
    return "".join(out)


def is_straight(place: int, start: tuple[float, float], end: tuple[float, float], *, sideways: bool) -> bool:
    """Tell whether the piece of a route at a place is a straight line: within a layer, or right along the flow."""
    return place % 2 == 0 or (start[1] == end[1] if sideways else start[0] == end[0])


def label_text(label: str, box: Box) -> str:
    corner = f'x="{number(box.x - box.width / 2)}" y="{number(box.y - box.height / 2)}"'
    size = f'width="{number(box.width)}" height="{number(box.height)}"'
    return (
        f'<rect {corner} {size} fill="#ffffff"/>'
        f'<text x="{number(box.x)}" y="{number(box.y + LABEL_SIZE * 0.36)}" font-size="{LABEL_SIZE}" '
        f'fill="{FAINT}">{clean(label)}</text>'
    )


def item_text(item: Item, shape: Shape, box: Box) -> str:
    sizes = [TITLE_SIZE] + [LINE_SIZE] * len(item.lines)
    y = box.y - sum(size * LEADING for size in sizes) / 2
    out = [f'<g class="{item.kind}">', f"<title>{clean(item.tip or item.title)}</title>"]
    out.append(outline_text(item.kind, shape, box.x, box.y))
    for k, (text, size) in enumerate(zip((item.title, *item.lines), sizes)):
        # Baselines lie a little below the middle of their line.
        baseline = y + size * LEADING / 2 + size * 0.36
        weight = ' font-weight="600"' if k == 0 else ""
        out.append(
            f'<text x="{number(box.x)}" y="{number(baseline)}" font-size="{number(size)}"{weight} '
            f'fill="{INK if k == 0 else FAINT}">{clean(text)}</text>'
        )
        y += size * LEADING
    out.append("</g>")
    return "".join(out)


def outline_text(kind: Kind, shape: Shape, x: float, y: float) -> str:
    style = STYLES[kind]
    paint = f'fill="{style.fill}" stroke="{style.stroke}" stroke-width="1.5"'
    if style.dashed:
        paint += ' stroke-dasharray="4 3"'
    if shape.width == shape.height == 2 * shape.radius:
        return f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(shape.radius)}" {paint}/>'
    return (
        f'<rect x="{number(x - shape.width / 2)}" y="{number(y - shape.height / 2)}" width="{number(shape.width)}" '
        f'height="{number(shape.height)}" rx="{number(shape.radius)}" {paint}/>'
    )


def legend_text(drawing: Drawing) -> tuple[str, float]:
    """Return a row that explains the kinds of items in the drawing, and its width."""
    present = {item.kind for item in drawing.items}
    x, y = 16.0, LEGEND_HEIGHT / 2 - 2
    out = []
    for kind, style in STYLES.items():
        if kind not in present:
            continue
        shape = Shape(12.0, 12.0, 6.0) if kind in VARIABLES else Shape(17.0, 12.0, 3.0)
        out.append(outline_text(kind, shape, x + shape.width / 2, y))
        x += shape.width + 6
        out.append(
            f'<text x="{number(x)}" y="{number(y + LABEL_SIZE * 0.36)}" font-size="{LABEL_SIZE}" fill="{FAINT}" '
            f'text-anchor="start">{style.word}</text>'
        )
        x += text_width(style.word, LABEL_SIZE) + 16
    return "".join(out), x


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def clean(text: str) -> str:
    return escape(_FORBIDDEN.sub("\ufffd", text))
