"""A layered layout for directed acyclic graphs: where every item and every arrow goes.

    1. rank    each item gets a layer, and long links get one point per layer they cross   (here)
    2. order   the places within a layer are swapped until few links cross                 (ordering.py)
    3. place   layers are spread out so that links run straight                            (placing.py)
    4. route   links become curves that bend between layers only                           (here)

Because links are upright inside a layer and points keep their distance from items, no link passes behind an item, save
the longest links of graphs with more than `MANY_POINTS` points, which run straight across.
Everything is iterative and deterministic.

Reference: Gansner, Koutsofios, North and Vo, A technique for drawing directed graphs, IEEE TSE 19 (1993).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sapwood.errors import ValueRangeError
from sapwood.viz.ordering import order
from sapwood.viz.placing import place, settle

__all__ = ["Box", "Layout", "Route", "Wire", "layout"]

# A source with more links than this gets one shared trunk from which its links branch off.
MANY_LINKS = 3
# Points on long links are given up beyond this number; such links then run straight across.
MANY_POINTS = 12_000

MARGIN = 14.0
GAP = 26.0
WIDE_GAP = 80.0


@dataclass(frozen=True, slots=True)
class Wire:
    """A link as the layout sees it: two item numbers and the size (width, height) of its label, if it has one."""

    source: int
    target: int
    label: tuple[float, float] | None = None


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
    """

    points: tuple[tuple[float, float], ...]
    wires: tuple[int, ...]
    ends: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes by item, routes, label boxes with the wire they belong to, and crossings left after each sweep."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    routes: tuple[Route, ...]
    labels: tuple[tuple[Box, int], ...]
    crossings: tuple[int, ...]


@dataclass(slots=True)
class Chain:
    """The points between a source and the targets that share them, one per layer."""

    source: int
    points: list[int]
    wires: list[int]


@dataclass(slots=True)
class Points:
    """Every vertex of the layered graph: the items first, then the points on links."""

    rank: list[int]
    width: list[float]
    height: list[float]
    key: list[float]
    edges: list[tuple[int, int]]
    chains: list[Chain]
    labels: list[tuple[int, int]]


def layout(
    sizes: Sequence[tuple[float, float]],
    wires: Sequence[Wire],
    *,
    radii: Sequence[float] | None = None,
    direction: str = "TB",
) -> Layout:
    """Place items and links.

    Args:
        sizes: width and height of each item, in pixels.
        radii: radius of the corners of each item, in pixels; links end on the rounded outline. None means square.
        wires: links between items; no cycles.
        direction: "TB" (top to bottom) or "LR" (left to right).

    Raises:
        ValueRangeError: the links form a cycle, or the direction is unknown.
    """
    if direction not in ("TB", "LR"):
        raise ValueRangeError(f"layout: expected direction 'TB' or 'LR', got {direction!r}; use one of these.")
    sideways = direction == "LR"
    if sideways:
        sizes = [(height, width) for width, height in sizes]
        wires = [Wire(w.source, w.target, w.label and (w.label[1], w.label[0])) for w in wires]
    count = len(sizes)
    rank = ranks(count, wires)
    points = add_points(sizes, wires, rank)
    layers, crossings = order(points.rank, points.edges, points.key)
    x = place(layers, points.width, points.edges, count, side_branches(points.edges, points.rank))
    tops, bottoms, length = levels(layers, points, x, count)
    y = [(tops[r] + bottoms[r]) / 2 for r in points.rank]
    boxes = [Box(x[v], y[v], points.width[v], points.height[v]) for v in range(len(x))]
    routes = route(points, boxes, radii or [0.0] * count, tops, bottoms, wires)
    breadth = max((b.x + b.width / 2 for b in boxes), default=0.0) + MARGIN
    labels = [(boxes[v], wire) for v, wire in points.labels]
    if sideways:
        boxes = [turn(b) for b in boxes]
        labels = [(turn(b), wire) for b, wire in labels]
        routes = [Route(tuple((py, px) for px, py in r.points), r.wires, r.ends) for r in routes]
        breadth, length = length, breadth
    return Layout(breadth, length, tuple(boxes[:count]), tuple(routes), tuple(labels), tuple(crossings))


def turn(box: Box) -> Box:
    return Box(box.y, box.x, box.height, box.width)


def span(wire: Wire) -> int:
    """Return the least number of layers a wire goes down: a label takes a layer of its own."""
    return 1 if wire.label is None else 2


def ranks(count: int, wires: Sequence[Wire]) -> list[int]:
    """Give each item a layer: ends by the longest path to them, all others as close above their consumers as can be."""
    below: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    above: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for wire in wires:
        below[wire.source].append((wire.target, span(wire)))
        above[wire.target].append((wire.source, span(wire)))
    waiting = [len(a) for a in above]
    sequence = [v for v in range(count) if not waiting[v]]
    for v in sequence:  # grows while it is walked
        for target, _ in below[v]:
            waiting[target] -= 1
            if not waiting[target]:
                sequence.append(target)
    if len(sequence) < count:
        raise ValueRangeError(
            f"layout: expected links without cycles, got a cycle among {count - len(sequence)} items; "
            "leave out the link that leads back."
        )
    rank = [0] * count
    for v in sequence:
        rank[v] = max((rank[u] + s for u, s in above[v]), default=0)
    for v in reversed(sequence):
        if below[v]:
            rank[v] = min(rank[t] - s for t, s in below[v])
    lowest = min(rank, default=0)
    return [r - lowest for r in rank]


def add_points(sizes: Sequence[tuple[float, float]], wires: Sequence[Wire], rank: list[int]) -> Points:
    """Cut links into pieces of one layer each, sharing pieces where one source feeds many targets."""
    points = Points(
        rank=list(rank),
        width=[w for w, _ in sizes],
        height=[h for _, h in sizes],
        key=[float(v) for v in range(len(sizes))],
        edges=[],
        chains=[],
        labels=[],
    )
    for group in groups(wires):
        source = wires[group[0]].source
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
            points.edges.append((chain.points[-1] if chain.points else source, vertex))
            chain.points.append(vertex)
        for i in group:
            target = wires[i].target
            last = rank[target] - rank[source] - 1
            if last == 0:
                points.edges.append((source, target))
            elif last <= depth:
                points.edges.append((chain.points[last - 1], target))
    return points


def groups(wires: Sequence[Wire]) -> list[list[int]]:
    """Return wires by the trunk they share."""
    by_source: dict[tuple[int, tuple[float, float] | None], list[int]] = {}
    for i, wire in enumerate(wires):
        by_source.setdefault((wire.source, wire.label), []).append(i)
    result: list[list[int]] = []
    for group in by_source.values():
        if len(group) > MANY_LINKS:
            result.append(group)
        else:
            result.extend([i] for i in group)
    return result


def side_branches(edges: list[tuple[int, int]], rank: Sequence[int]) -> list[bool]:
    """Tell which vertices lie on a side branch that joins a main path, such as a parameter and its transpose.

    They give way to the main path of a network, so that it runs straight.
    """
    above: list[list[int]] = [[] for _ in rank]
    outs = [0] * len(rank)
    for u, v in edges:
        above[v].append(u)
        outs[u] += 1
    # A path from a source without branches is light; it is a side branch if it joins something that is not.
    light = [False] * len(rank)
    side = [False] * len(rank)
    for v in sorted(range(len(rank)), key=rank.__getitem__):
        inputs = above[v]
        light[v] = outs[v] == 1 and (not inputs or (len(inputs) == 1 and light[inputs[0]]))
        if light[v] or all(light[u] for u in inputs):
            continue
        for u in inputs:
            while light[u]:
                side[u] = True
                if not above[u]:
                    break
                u = above[u][0]
    return side


def levels(
    layers: list[list[int]], points: Points, x: list[float], count: int
) -> tuple[list[float], list[float], float]:
    """Return the top and the bottom of each layer, with more room where links go far sideways, and the total height."""
    reach = [0.0] * len(layers)
    for u, v in points.edges:
        reach[points.rank[u]] = max(reach[points.rank[u]], abs(x[u] - x[v]))
    bare = [all(v >= count for v in layer) for layer in layers]
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


def route(
    points: Points,
    boxes: list[Box],
    radii: Sequence[float],
    tops: list[float],
    bottoms: list[float],
    wires: Sequence[Wire],
) -> list[Route]:
    """Turn links into curves."""
    leave, enter = ports(points, boxes, wires)
    routes: list[Route] = []
    for chain in points.chains:
        box = boxes[chain.source]
        start = box.x + leave[chain.wires[0]]
        edge = box.y + outline(box, radii[chain.source], start - box.x)
        trunk = [(start, edge), (start, bottoms[points.rank[chain.source]])]
        through = {0: len(trunk)}
        for step, v in enumerate(chain.points):
            r = points.rank[v]
            trunk += [(boxes[v].x, tops[r]), (boxes[v].x, bottoms[r])]
            through[step + 1] = len(trunk)
        shared = 0  # points of the trunk already drawn
        for i in reversed(chain.wires):
            target = wires[i].target
            last = min(points.rank[target] - points.rank[chain.source] - 1, len(chain.points))
            end = boxes[target].x + enter[i]
            edge = boxes[target].y - outline(boxes[target], radii[target], enter[i])
            tail = [(end, tops[points.rank[target]]), (end, edge)]
            head = trunk[: through[last]]
            if not shared:
                shared = len(head)
                routes.append(Route(tuple(head + tail), tuple(chain.wires), True))
            else:
                routes.append(Route(tuple(head[-2:] + tail), (i,), True))
    return routes


def outline(box: Box, radius: float, offset: float) -> float:
    """Return how far the rounded outline of a box is from its middle line, at a sideways offset from the centre."""
    radius = min(radius, box.width / 2, box.height / 2)
    into = max(abs(offset) - (box.width / 2 - radius), 0.0)
    return box.height / 2 - radius + math.sqrt(max(radius * radius - into * into, 0.0))


def ports(points: Points, boxes: list[Box], wires: Sequence[Wire]) -> tuple[dict[int, float], dict[int, float]]:
    """Spread the ends of links along the sides of the items they touch, in the order they arrive."""
    leaving: dict[int, list[tuple[float, list[int]]]] = {}
    entering: dict[int, list[tuple[float, int]]] = {}
    for chain in points.chains:
        rank = points.rank[chain.source]
        for i in chain.wires:
            target = wires[i].target
            last = min(points.rank[target] - rank - 1, len(chain.points))
            before = chain.points[last - 1] if last else chain.source
            entering.setdefault(target, []).append((boxes[before].x, i))
        first = chain.points[0] if chain.points else wires[chain.wires[0]].target
        leaving.setdefault(chain.source, []).append((boxes[first].x, chain.wires))
    leave: dict[int, float] = {}
    enter: dict[int, float] = {}
    for v, ends in leaving.items():
        ends.sort(key=lambda end: (end[0], end[1][0]))
        for offset, (_, group) in zip(spread([x - boxes[v].x for x, _ in ends], boxes[v].width), ends):
            leave.update(dict.fromkeys(group, offset))
    for v, arrivals in entering.items():
        arrivals.sort()
        for offset, (_, i) in zip(spread([x - boxes[v].x for x, _ in arrivals], boxes[v].width), arrivals):
            enter[i] = offset
    return leave, enter


def spread(towards: Sequence[float], width: float) -> list[float]:
    """Return where links touch a side, as offsets from its middle, given the offsets they come from in order.

    A link that can run straight does; the others keep their distance, near the middle.
    """
    if len(towards) == 1 and abs(towards[0]) > width / 4:
        return [0.0]
    reach = width / 4
    gaps = [min(16.0, 2 * reach / max(len(towards) - 1, 1))] * (len(towards) - 1)
    wanted = [at if abs(at) <= reach else math.copysign(min(reach, 8.0 * len(gaps)), at) for at in towards]
    places = settle(wanted, [20.0 if abs(at) <= reach else 1.0 for at in towards], gaps)
    # Keep within reach: the gaps leave room for all of them.
    for k in range(len(places)):
        places[k] = max(places[k], places[k - 1] + gaps[k - 1] if k else -reach)
    for k in reversed(range(len(places))):
        places[k] = min(places[k], places[k + 1] - gaps[k] if k < len(gaps) else reach)
    return places
