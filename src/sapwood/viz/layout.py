"""A layered layout for directed graphs: where every item and every arrow goes.

    1. rank    each item gets a layer, and long links get one point per layer they cross   (ranking.py, here)
    2. order   the places within a layer are swapped until few links cross                 (ordering.py)
    3. place   layers are spread out so that links run straight                            (placing.py)
    4. route   links become curves that bend between layers only                           (routing.py)

Because links are upright inside a layer and points keep their distance from items, no link passes behind an item, save
the longest links of graphs with more than `MANY_POINTS` points, which run straight across.
Everything is iterative and deterministic.

Reference: Gansner, Koutsofios, North and Vo, A technique for drawing directed graphs, IEEE TSE 19 (1993).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sapwood.errors import ValueRangeError
from sapwood.viz.ordering import order
from sapwood.viz.placing import place
from sapwood.viz.plan import Box, Chain, Frame, Layout, Points, Route, Wire
from sapwood.viz.ranking import closing, ranks, side_branches
from sapwood.viz.routing import route

__all__ = ["MARGIN", "Box", "Frame", "Layout", "Route", "Wire", "layout"]

# A source with more links than this gets one shared trunk from which its links branch off.
MANY_LINKS = 3
# Points on long links are given up beyond this number; such links then run straight across.
MANY_POINTS = 12_000

MARGIN = 14.0
GAP = 26.0
WIDE_GAP = 80.0


def layout(
    sizes: Sequence[tuple[float, float]],
    wires: Sequence[Wire],
    *,
    radii: Sequence[float] | None = None,
    direction: str = "TB",
    first: Sequence[int] = (),
    last: Sequence[int] = (),
) -> Layout:
    """Place items and links. Links that close a cycle lead back, from the far side of one item to that of another.

    Args:
        sizes: width and height of each item, in pixels.
        radii: radius of the corners of each item, in pixels; links end on the rounded outline. None means square.
        wires: links between items.
        direction: "TB" (top to bottom) or "LR" (left to right).
        first: items without links to them that have the first layer to themselves.
        last: items without links from them that have the last layer to themselves.

    Raises:
        ValueRangeError: a link leads from an item to itself or to none, or the direction is unknown.
    """
    if direction not in ("TB", "LR"):
        raise ValueRangeError(f"layout: expected direction 'TB' or 'LR', got {direction!r}; use one of these.")
    for wire in wires:
        if not (0 <= wire.source < len(sizes) and 0 <= wire.target < len(sizes)):
            raise ValueRangeError(
                f"layout: expected links between items 0 to {len(sizes) - 1}, got one from {wire.source} to "
                f"{wire.target}; give both ends as places in the list of items."
            )
        if wire.source == wire.target:
            raise ValueRangeError(
                f"layout: expected links between two items, got one from item {wire.source} to itself; leave it out."
            )
    sideways = direction == "LR"
    if sideways:
        sizes = [(height, width) for width, height in sizes]
        wires = [replace(w, label=w.label and (w.label[1], w.label[0])) for w in wires]
    count = len(sizes)
    back = closing(count, wires)
    if back:
        wires = [Wire(w.target, w.source, w.label, w.enter, w.leave) if i in back else w for i, w in enumerate(wires)]
    points = add_points(sizes, wires, ranks(count, wires, first, last), back)
    reach = [
        (leave / (points.width[u] or 1), enter / (points.width[v] or 1))
        for (u, v), (leave, enter) in zip(points.edges, points.ends)
    ]
    layers, crossings = order(points.rank, points.edges, points.key, reach)
    side = side_branches(points.edges, points.rank)
    x = place(layers, points.width, points.edges, count, side, points.ends)
    tops, bottoms, length = levels(layers, points, x, count, {*first, *last})
    y = [(tops[r] + bottoms[r]) / 2 for r in points.rank]
    boxes = [Box(x[v], y[v], points.width[v], points.height[v]) for v in range(len(x))]
    routes = [
        replace(r, points=r.points[::-1], back=True) if r.wires[0] in back else r
        for r in route(points, boxes, radii or [0.0] * count, tops, bottoms, wires)
    ]
    breadth = max((b.x + b.width / 2 for b in boxes), default=0.0) + MARGIN
    labels = [(boxes[v], wire) for v, wire in points.labels]
    if sideways:
        boxes = [turn(b) for b in boxes]
        labels = [(turn(b), wire) for b, wire in labels]
        routes = [replace(r, points=tuple((py, px) for px, py in r.points)) for r in routes]
        breadth, length = length, breadth
    return Layout(breadth, length, tuple(boxes[:count]), tuple(routes), tuple(labels), tuple(crossings))


def turn(box: Box) -> Box:
    return Box(box.y, box.x, box.height, box.width)


def add_points(sizes: Sequence[tuple[float, float]], wires: Sequence[Wire], rank: list[int], back: set[int]) -> Points:
    """Cut links into pieces of one layer each, sharing pieces where one source feeds many targets."""
    points = Points(
        rank=list(rank),
        width=[w for w, _ in sizes],
        height=[h for _, h in sizes],
        key=[float(v) for v in range(len(sizes))],
        edges=[],
        ends=[],
        chains=[],
        labels=[],
    )
    for group in trunks(wires, back):
        source, leave = wires[group[0]].source, wires[group[0]].leave
        label = wires[group[0]].label
        group.sort(key=lambda i: rank[wires[i].target])
        chain = Chain(source, [], group)
        points.chains.append(chain)
        depth = rank[wires[group[-1]].target] - rank[source] - 1
        # A label needs its point; the rest of an overlong chain does not.
        if len(points.rank) + depth > MANY_POINTS + len(sizes):
            depth = 1 if label else 0
        for step in range(depth):
            vertex = len(points.rank)
            labelled = step == 0 and label is not None
            points.rank.append(rank[source] + 1 + step)
            points.width.append(label[0] if labelled and label else 0.0)
            points.height.append(label[1] if labelled and label else 0.0)
            points.key.append((source + wires[group[0]].target) / 2)
            if labelled:
                points.labels.append((vertex, group[0]))
            points.join(chain.points[-1] if step else source, vertex, None if step else leave, None)
            chain.points.append(vertex)
        for i in group:
            target, enter = wires[i].target, wires[i].enter
            last = rank[target] - rank[source] - 1
            if last == 0:
                points.join(source, target, leave, enter)
            elif last <= depth:
                points.join(chain.points[last - 1], target, None, enter)
    return points


def trunks(wires: Sequence[Wire], back: set[int]) -> list[list[int]]:
    """Return wires by the trunk they share."""
    by_source: dict[tuple[int, tuple[float, float] | None, float | None, int], list[int]] = {}
    for i, wire in enumerate(wires):
        alone = i if i in back else -1
        by_source.setdefault((wire.source, wire.label, wire.leave, alone), []).append(i)
    result: list[list[int]] = []
    for group in by_source.values():
        if len(group) > MANY_LINKS:
            result.append(group)
        else:
            result.extend([i] for i in group)
    return result


def levels(
    layers: list[list[int]], points: Points, x: list[float], count: int, ports: set[int]
) -> tuple[list[float], list[float], float]:
    """Return the top and the bottom of each layer, with more room where links go far sideways, and the total height."""
    reach = [0.0] * len(layers)
    for (u, v), (leave, enter) in zip(points.edges, points.ends):
        reach[points.rank[u]] = max(reach[points.rank[u]], abs(x[u] + leave - x[v] - enter))
    bare = [all(v >= count or v in ports for v in layer) for layer in layers]
    tops, bottoms = [], []
    y = MARGIN
    for r, layer in enumerate(layers):
        height = max((points.height[v] for v in layer), default=0.0)
        tops.append(y)
        bottoms.append(y + height)
        # A layer of nothing but points and labels sits in the middle of a gap; arrowheads need room above items.
        least = GAP * 0.5 if bare[min(r + 1, len(layers) - 1)] else GAP * 0.85 if bare[r] else GAP
        y += height + min(WIDE_GAP, max(least, 0.12 * reach[r] + 8))
    return tops, bottoms, (bottoms[-1] if bottoms else MARGIN) + MARGIN
