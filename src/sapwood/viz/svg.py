"""A drawing as a self-contained SVG document: no script, no font file, no system program."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from xml.sax.saxutils import escape

from sapwood.errors import ValueRangeError
from sapwood.viz.measure import (
    FAINT,
    FORBIDDEN,
    LABEL_SIZE,
    LEADING,
    LINE_SIZE,
    STYLES,
    Shape,
    plain,
    rows_of,
    shape_of,
    text_width,
)
from sapwood.viz.model import BOXES, Drawing, Item, Kind, Theme
from sapwood.viz.nesting import nested
from sapwood.viz.plan import Box, Frame, Layout, Route, Wire

__all__ = ["Theme", "arrange", "head_of", "is_straight", "svg_text"]

FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
LINE, PAPER = "#64748b", "#ffffff"
# Frames of modules take turns, so that nested ones stand out from each other.
FRAME_FILLS, FRAME_LINE = ("#f8fafc", "#eef2f7"), "#cbd5e1"
TABS = ("#7c3aed", "#0891b2", "#db2777", "#65a30d", "#ea580c", "#2563eb")
"""Colours of modules without a frame."""
TAB_WIDTH = 5.0
ARROW_LENGTH, ARROW_WIDTH = 8.0, 7.0
LEGEND_HEIGHT = 30.0

DARK = {
    "#ffffff": "#171d1a", "#0f172a": "#e6ece9", "#475569": "#9fb0a8", "#64748b": "#7c8b84",
    "#dbeafe": "#1c3350", "#2563eb": "#6ea8fe", "#fef3c7": "#42350f", "#d97706": "#f0b449", "#dcfce7": "#16391f",
    "#16a34a": "#5cc987", "#f3f4f6": "#262b2e", "#6b7280": "#98a2ab", "#ffedd5": "#472a10", "#ea580c": "#f58b4c",
    "#bbf7d0": "#1b4a2b", "#15803d": "#4fb878", "#ccfbf1": "#123b37", "#0d9488": "#3fc7b8", "#e0e7ff": "#262a52",
    "#4f46e5": "#9b96ff", "#f5f5f4": "#2a2826", "#78716c": "#a8a09a", "#f1f5f9": "#242d33", "#334155": "#b4c2cc",
    "#f8fafc": "#1c2421", "#eef2f7": "#222c28", "#cbd5e1": "#3d4a45", "#c2410c": "#fb8b55", "#0f766e": "#45c4b4",
    "#7c3aed": "#a78bfa", "#0891b2": "#3cc5e0", "#db2777": "#f472b6", "#65a30d": "#a3d14c",
}  # fmt: skip
"""What each colour becomes on a dark ground."""


def style_text(theme: Theme, scope: str, body: str) -> str:
    """Return rules that repaint the picture for a dark ground: always, or where the viewer prefers it.

    They hold inside the class `scope` alone: several pictures may stand on one page, each in its own theme.
    """
    if theme == "light":
        return ""
    rules = ""
    for light, dark in DARK.items():
        for name in ("fill", "stroke"):
            if f'{name}="{light}"' in body:
                rules += f'.{scope} [{name}="{light}"]{{{name}:{dark}}}'
    return f"<style>{rules if theme == 'dark' else f'@media (prefers-color-scheme: dark){{{rules}}}'}</style>"


def svg_text(drawing: Drawing, theme: Theme = "auto", *, legend: bool = True) -> str:
    """Return the drawing as an SVG document.

    Raises:
        ValueRangeError: another theme than "light", "dark" and "auto", which follows the viewer's preference.
    """
    if theme not in ("light", "dark", "auto"):
        raise ValueRangeError(f"svg: expected theme 'light', 'dark' or 'auto', got {theme!r}; use one of these.")
    shapes, plan = arrange(drawing)
    row, row_width = legend_text(drawing) if legend else ("", 0.0)
    width = max(plan.width, row_width)
    height = plan.height + (LEGEND_HEIGHT if row else 0.0)
    groups = {group.path: group.title for group in drawing.groups()}
    out = [
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<g transform="translate({number((width - plan.width) / 2)} 0)">',
    ]
    if plan.frames:
        out.append('<g class="modules">')
        out += [frame_text(frame, groups[frame.path]) for frame in plan.frames]
        out.append("</g>")
    out.append('<g class="links">')
    out += [route_text(drawing, route) for route in plan.routes]
    out.append("</g>")
    grounds = grounds_of(plan)
    for box, wire in plan.labels:
        out.append(label_text(plain(drawing.links[wire].label), box, grounds(box)))
    tabs = dict(plan.tabs)
    colors = {path: TABS[k % len(TABS)] for k, path in enumerate(dict.fromkeys(tabs.values()))}
    for k, (item, shape, box) in enumerate(zip(drawing.items, shapes, plan.boxes)):
        tab = "" if k not in tabs else tab_text(groups[tabs[k]], colors[tabs[k]], box)
        out.append(item_text(item, shape, box, tab))
    out.append("</g>")
    if row:
        out.append(f'<g transform="translate(0 {number(plan.height)})" class="legend">{row}</g>')
    body = "\n".join(out)
    scope = "sapwood-" + hashlib.sha256(f"{theme}{body}".encode("utf-8", "replace")).hexdigest()[:10]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" height="{number(height)}" '
        f'viewBox="0 0 {number(width)} {number(height)}" font-family="{FONT}" text-anchor="middle" role="img" '
        f'class="{scope}">\n<title>{clean(caption(drawing))}</title><desc>{clean(summary(drawing))}</desc>'
        f"{style_text(theme, scope, body)}\n{body}\n</svg>\n"
    )


def arrange(drawing: Drawing) -> tuple[list[Shape], Layout]:
    """Return the outline of each item and where everything goes."""
    shapes = [shape_of(item) for item in drawing.items]
    wires = [Wire(link.source, link.target, label_size(link.label) if link.label else None) for link in drawing.links]
    plan = nested(
        [(shape.width, shape.height) for shape in shapes],
        wires,
        [item.scope for item in drawing.items],
        {group.path: text_width(plain(group.title), LINE_SIZE, bold=True) for group in drawing.groups()},
        radii=[shape.radius for shape in shapes],
        direction=drawing.direction,
    )
    return shapes, plan


def label_size(label: str) -> tuple[float, float]:
    return text_width(plain(label), LABEL_SIZE) + 6, LABEL_SIZE + 4


def caption(drawing: Drawing) -> str:
    roots = [plain(item.title) for item in drawing.items if item.kind == "root"]
    return "Computation graph" + (f" of {', '.join(roots[:3])}" if roots else "")


def summary(drawing: Drawing) -> str:
    """Return the picture in words, for those who hear it."""
    variables = [plain(item.title) for item in drawing.items if item.is_variable]
    operations = len(drawing.items) - len(variables)
    names = ", ".join(variables[:12]) + (f" and {len(variables) - 12} more" if len(variables) > 12 else "")
    return f"{len(variables)} variables ({names}), {operations} operations, {len(drawing.links)} links."


def frame_text(frame: Frame, title: str) -> str:
    box = frame.box
    fill = FRAME_FILLS[len(frame.path) % 2]
    return (
        f"<g><title>{clean('.'.join(frame.path))}</title>"
        f'<rect x="{number(box.x - box.width / 2)}" y="{number(box.y - box.height / 2)}" width="{number(box.width)}" '
        f'height="{number(box.height)}" rx="8" fill="{fill}" stroke="{FRAME_LINE}"/>'
        f'<text x="{number(frame.title[0])}" y="{number(frame.title[1] + LINE_SIZE * 0.36)}" font-size="{LINE_SIZE:g}" '
        f'font-weight="600" fill="{FAINT}" text-anchor="start">{clean(plain(title))}</text></g>'
    )


def grounds_of(plan: Layout) -> Callable[[Box], str]:
    """Return what says which colour a label stands on: that of the innermost frame around it."""

    def ground(box: Box) -> str:
        found = PAPER
        for frame in plan.frames:
            around = frame.box
            if abs(box.x - around.x) < around.width / 2 and abs(box.y - around.y) < around.height / 2:
                found = FRAME_FILLS[len(frame.path) % 2]
        return found

    return ground


def tab_text(title: str, color: str, box: Box) -> str:
    x, y = box.x - box.width / 2 - TAB_WIDTH - 1, box.y - box.height / 2 + 4
    return (
        f'<rect x="{number(x)}" y="{number(y)}" width="{TAB_WIDTH:g}" height="{number(box.height - 8)}" rx="2" '
        f'fill="{color}"><title>{clean(title)}</title></rect>'
    )


def head_of(route: Route, *, sideways: bool) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return a route's points, and the corners of its arrowhead: none where it does not end at its target."""
    points = list(route.points)
    if not route.ends:
        return points, []
    x, y = points[-1]
    half, along = ARROW_WIDTH / 2, -ARROW_LENGTH if not route.back else ARROW_LENGTH
    # The line stops inside the arrowhead, so that its end does not blunt the point.
    stop = along + (1 if not route.back else -1)
    if sideways:
        points[-1] = (x + stop, y)
        return points, [(x, y), (x + along, y - half), (x + along, y + half)]
    points[-1] = (x, y + stop)
    return points, [(x, y), (x - half, y + along), (x + half, y + along)]


def route_text(drawing: Drawing, route: Route) -> str:
    sideways = drawing.direction == "LR"
    points, corners = head_of(route, sideways=sideways)
    dashes = ' stroke-dasharray="5 4"' if drawing.links[route.wires[0]].dashed else ""
    line = f'<path d="{path_text(points, sideways=sideways)}" fill="none" stroke="{LINE}" stroke-width="1.3"{dashes}/>'
    if not corners:
        return line
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


def label_text(label: str, box: Box, ground: str) -> str:
    corner = f'x="{number(box.x - box.width / 2)}" y="{number(box.y - box.height / 2)}"'
    size = f'width="{number(box.width)}" height="{number(box.height)}"'
    return (
        f'<rect {corner} {size} fill="{ground}"/>'
        f'<text x="{number(box.x)}" y="{number(box.y + LABEL_SIZE * 0.36)}" font-size="{LABEL_SIZE}" '
        f'fill="{FAINT}">{clean(label)}</text>'
    )


def item_text(item: Item, shape: Shape, box: Box, tab: str = "") -> str:
    rows = rows_of(item)
    y = box.y - sum(row.size * LEADING for row in rows) / 2
    tip = "\n".join(filter(None, (item.tip or item.title, item.line)))
    out = [f'<g class="{item.kind}">', f"<title>{clean(tip)}</title>{tab}"]
    out.append(outline_text(item.kind, shape, box.x, box.y))
    for row in rows:
        # Baselines lie a little below the middle of their line.
        baseline = y + row.size * LEADING / 2 + row.size * 0.36
        weight = ' font-weight="600"' if row.bold else ""
        out.append(
            f'<text x="{number(box.x)}" y="{number(baseline)}" font-size="{number(row.size)}"{weight} '
            f'fill="{row.color}">{clean(row.text)}</text>'
        )
        y += row.size * LEADING
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
        shape = Shape(12.0, 12.0, 6.0) if kind not in BOXES else Shape(17.0, 12.0, 3.0)
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
    """Return text as XML, with line ends kept: only tips have any."""
    return escape(FORBIDDEN.sub("\ufffd", text))
