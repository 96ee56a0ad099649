"""Links as curves that bend between layers only."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sapwood.viz.placing import settle
from sapwood.viz.plan import Box, Points, Route, Wire

__all__ = ["route"]


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
            given = wires[group[0]].leave
            leave.update(dict.fromkeys(group, offset if given is None else given))
    for v, arrivals in entering.items():
        arrivals.sort()
        for offset, (_, i) in zip(spread([x - boxes[v].x for x, _ in arrivals], boxes[v].width), arrivals):
            given = wires[i].enter
            enter[i] = offset if given is None else given
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
