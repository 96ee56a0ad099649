"""A drawing as PNG or PDF, painted by matplotlib where it is installed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from sapwood.errors import MissingError
from sapwood.files import atomic_file
from sapwood.viz.measure import FAINT, LABEL_SIZE, LEADING, LINE_SIZE, STYLES, Shape, plain, rows_of
from sapwood.viz.model import Drawing, Item
from sapwood.viz.plan import Box, Layout
from sapwood.viz.svg import FRAME_FILLS, FRAME_LINE, LINE, TAB_WIDTH, TABS, arrange, grounds_of, head_of, is_straight

__all__ = ["save_raster"]

# Pixels of the drawing per inch of paper, and how much finer a PNG is.
PER_INCH = 96.0
FINENESS = 2
# The font that comes with matplotlib is that much wider than the one the outlines are measured for.
NARROW = 0.88
# Agg refuses pictures of 2**16 pixels and more along a side.
LARGEST = 60_000


def save_raster(drawing: Drawing, path: Path) -> None:
    """Paint the drawing into a .png or .pdf file.

    Raises:
        MissingError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingError(
            f"Drawing.save: a {path.suffix} file is painted by matplotlib, which is not installed; "
            "install sapwood[viz], or save as .svg, which needs nothing."
        ) from error
    shapes, plan = arrange(drawing)
    dpi = min(FINENESS * PER_INCH, LARGEST / max(plan.width, plan.height) * PER_INCH)
    figure = Figure(figsize=(plan.width / PER_INCH, plan.height / PER_INCH))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, plan.width)
    axes.set_ylim(plan.height, 0)
    axes.axis("off")
    titles = {group.path: plain(group.title) for group in drawing.groups()}
    for frame in plan.frames:
        paint_box(axes, frame.box, 8.0, FRAME_FILLS[len(frame.path) % 2], FRAME_LINE)
        paint_text(axes, titles[frame.path], *frame.title, LINE_SIZE, FAINT, bold=True, left=True)
    paint_links(axes, drawing, plan)
    ground = grounds_of(plan)
    for box, wire in plan.labels:
        paint_text(axes, plain(drawing.links[wire].label), box.x, box.y, LABEL_SIZE, FAINT, background=ground(box))
    colors = {path: TABS[k % len(TABS)] for k, path in enumerate(dict.fromkeys(path for _, path in plan.tabs))}
    for item_number, module in plan.tabs:
        box = plan.boxes[item_number]
        tab = Box(box.x - box.width / 2 - TAB_WIDTH / 2 - 1, box.y, TAB_WIDTH, box.height - 8)
        paint_box(axes, tab, 2.0, colors[module], colors[module])
    for item, shape, box in zip(drawing.items, shapes, plan.boxes):
        paint_item(axes, item, shape, box)
    with atomic_file(path) as file:
        figure.savefig(file, dpi=dpi, format=path.suffix.lower().lstrip("."))


def paint_links(axes: Any, drawing: Drawing, plan: Layout) -> None:
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path as Curve

    sideways = drawing.direction == "LR"
    for route in plan.routes:
        points, head = head_of(route, sideways=sideways)
        vertices, codes = [points[0]], [int(Curve.MOVETO)]
        for k, ((a, b), (c, d)) in enumerate(pairwise(points)):
            if is_straight(k, (a, b), (c, d), sideways=sideways):
                vertices.append((c, d))
                codes.append(int(Curve.LINETO))
            else:
                middle = ((a + c) / 2, (b + d) / 2)
                bends = [(middle[0], b), (middle[0], d)] if sideways else [(a, middle[1]), (c, middle[1])]
                vertices += [*bends, (c, d)]
                codes += [int(Curve.CURVE4)] * 3
        style = (0, (4, 3)) if drawing.links[route.wires[0]].dashed else "-"
        curve = PathPatch(Curve(vertices, codes), fill=False, edgecolor=LINE, linewidth=1.0, linestyle=style)
        axes.add_patch(curve)
        if head:
            axes.add_patch(Polygon(head, facecolor=LINE, edgecolor="none"))


def paint_box(axes: Any, box: Box, radius: float, fill: str, stroke: str, *, dashed: bool = False) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    vertices, codes = rounded(box, min(radius, box.width / 2, box.height / 2))
    kinds = {"M": int(Curve.MOVETO), "L": int(Curve.LINETO), "C": int(Curve.CURVE4)}
    axes.add_patch(
        PathPatch(
            Curve(vertices, [kinds[code] for code in codes]),
            facecolor=fill,
            edgecolor=stroke,
            linewidth=1.1,
            linestyle="--" if dashed else "-",
        )
    )


def paint_item(axes: Any, item: Item, shape: Shape, box: Box) -> None:
    style = STYLES[item.kind]
    paint_box(axes, box, shape.radius, style.fill, style.stroke, dashed=style.dashed)
    rows = rows_of(item)
    y = box.y - sum(row.size for row in rows) * LEADING / 2
    for row in rows:
        paint_text(axes, row.text, box.x, y + row.size * LEADING / 2, row.size, row.color, bold=row.bold)
        y += row.size * LEADING


def rounded(box: Box, radius: float) -> tuple[list[tuple[float, float]], str]:
    """Return the outline of a box with round corners: points, and for each one M (move), L (line) or C (curve)."""
    # Control points at this part of the radius bring a cubic within 0.03 % of a quarter of a circle.
    bend = radius * (1 - 0.5522847)
    points = [(box.x + box.width / 2 - radius, box.y - box.height / 2)]
    codes = "M"
    for across, down in ((1, -1), (1, 1), (-1, 1), (-1, -1)):
        x, y = box.x + across * box.width / 2, box.y + down * box.height / 2
        # Clockwise on the screen: corners between a horizontal and a vertical side take turns.
        along = [(x - across * radius, y), (x - across * bend, y), (x, y - down * bend), (x, y - down * radius)]
        points += along if across * down < 0 else along[::-1]
        codes += "LCCC"
    return [*points, points[0]], codes + "L"


def paint_text(
    axes: Any,
    text: str,
    x: float,
    y: float,
    size: float,
    color: str,
    *,
    bold: bool = False,
    left: bool = False,
    background: str = "",
) -> None:
    axes.text(
        x,
        y,
        text,
        fontsize=size * 72 / PER_INCH * NARROW,
        color=color,
        ha="left" if left else "center",
        va="center_baseline",
        fontweight="bold" if bold else "normal",
        family="DejaVu Sans",
        parse_math=False,
        bbox={"facecolor": background, "edgecolor": "none", "pad": 1.0} if background else None,
    )
