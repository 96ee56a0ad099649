"""A drawing with the places of everything in it, as plain data."""

from __future__ import annotations

from typing import Any

from sapwood.viz.model import Drawing
from sapwood.viz.plan import Box
from sapwood.viz.svg import arrange

__all__ = ["plain_data"]


def plain_data(drawing: Drawing) -> dict[str, Any]:
    """Return items, links and groups with their places in pixels; x and y are the middle of what has a size."""
    shapes, plan = arrange(drawing)
    frames = {frame.path: frame.box for frame in plan.frames}
    return {
        "direction": drawing.direction,
        "width": rounded(plan.width),
        "height": rounded(plan.height),
        "items": [
            {
                "kind": item.kind,
                "title": clean(item.title),
                "lines": [clean(line) for line in item.lines],
                "marks": list(item.marks),
                "tip": clean(item.tip),
                "line": clean(item.line),
                "scope": [clean(part) for part in item.scope],
                **place(box),
                "radius": rounded(shape.radius),
            }
            for item, shape, box in zip(drawing.items, shapes, plan.boxes)
        ],
        "links": [
            {
                "source": link.source,
                "target": link.target,
                "label": clean(link.label),
                "dtype": link.dtype,
                "dashed": link.dashed,
            }
            for link in drawing.links
        ],
        "groups": [
            {
                "path": [clean(part) for part in group.path],
                "kind": clean(group.kind),
                "items": list(group.items),
                "frame": place(frames[group.path]) if group.path in frames else None,
            }
            for group in drawing.groups()
        ],
        "routes": [
            {
                "points": [[rounded(x), rounded(y)] for x, y in route.points],
                "links": list(route.wires),
                "ends": route.ends,
                "back": route.back,
            }
            for route in plan.routes
        ],
        "labels": [{"link": wire, **place(box)} for box, wire in plan.labels],
    }


def place(box: Box) -> dict[str, float]:
    return {"x": rounded(box.x), "y": rounded(box.y), "width": rounded(box.width), "height": rounded(box.height)}


def rounded(value: float) -> float:
    return round(value, 2)


def clean(text: str) -> str:
    """Return text without halves of surrogate pairs, which no encoding has."""
    return text.encode("utf-8", "replace").decode("utf-8")
