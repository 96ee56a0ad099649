"""Coordinates within layers: vertices keep their order and their distance, and edges run as straight as that allows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

__all__ = ["place", "settle"]

SWEEPS = 12
STRAIGHTEN = 6
# Beyond this many vertices fewer sweeps have to do.
LARGE = 4_000
MARGIN = 14.0
APART_ITEMS = 24.0
APART_POINTS = 16.0
# How much more the side a sweep comes from counts: more than the pull of a label on the other side.
FAVOUR = 3.0
YIELD = 0.05

# How strongly an edge pulls, by how many of its ends are mere points on a link (the weights of Gansner et al., 1993).
PULL = (1.0, 2.0, 8.0)

# By vertex: a neighbour, how strongly it pulls, and how far beside its middle.
Neighbours = list[list[tuple[int, float, float]]]


def place(
    layers: Sequence[Sequence[int]],
    width: Sequence[float],
    edges: Sequence[tuple[int, int]],
    items: int,
    side: Sequence[bool],
    ends: Sequence[tuple[float, float]] | None = None,
) -> list[float]:
    """Return the x coordinate of the centre of each vertex, in pixels.

    Args:
        layers: vertices by layer, in order.
        width: of each vertex, in pixels.
        edges: (upper, lower) vertices in adjacent layers.
        items: vertices below this number are items, the others points on links.
        side: whether each vertex lies on a side branch, which gives way to the main path.
        ends: how far from the middle of its two vertices each edge starts and ends, in pixels.
    """
    above: Neighbours = [[] for _ in width]
    below: Neighbours = [[] for _ in width]
    for (u, v), (leave, enter) in zip(edges, ends or [(0.0, 0.0)] * len(edges)):
        pull = PULL[(u >= items) + (v >= items)]
        below[u].append((v, pull, enter - leave))
        if side[v] or not side[u]:
            above[v].append((u, pull, leave - enter))
    apart = [distances(layer, width, items) for layer in layers]
    x = [0.0] * len(width)
    for layer, gaps in zip(layers, apart):
        at = -sum(gaps) / 2
        for k, v in enumerate(layer):
            at += gaps[k - 1] if k else 0.0
            x[v] = at
    down = list(zip(layers, apart))
    large = len(width) > LARGE
    for _ in range(SWEEPS // 3 if large else SWEEPS):
        for layer, gaps in down:
            pull_layer(x, layer, gaps, above, side)
        for layer, gaps in reversed(down):
            pull_layer(x, layer, gaps, below, side)
    # Between one neighbour above and one below, the side already settled wins: links then bend once instead of leaning.
    # Where several links meet, none of them can count on being the straight one.
    ups = [[(u, p / len(below[u]) ** 2, s) for u, p, s in a] for a in above]
    downs = [[(v, p / max(len(above[v]), 1) ** 2, s) for v, p, s in b] for b in below]
    from_above = [[(u, p * FAVOUR, s) for u, p, s in a] + b for a, b in zip(ups, downs)]
    from_below = [a + [(v, p * FAVOUR, s) for v, p, s in b] for a, b in zip(ups, downs)]
    for _ in range(STRAIGHTEN // 2 if large else STRAIGHTEN):
        for layer, gaps in down:
            pull_layer(x, layer, gaps, from_above, side, straight=True)
        for layer, gaps in reversed(down):
            pull_layer(x, layer, gaps, from_below, side, straight=True)
    left = min((x[v] - width[v] / 2 for v in range(len(x))), default=0.0)
    return [at - left + MARGIN for at in x]


def distances(layer: Sequence[int], width: Sequence[float], items: int) -> list[float]:
    """Return the least distance between the centres of each pair of neighbours in a layer."""
    return [
        (width[u] + width[v]) / 2 + (APART_ITEMS if u < items and v < items else APART_POINTS)
        for u, v in pairwise(layer)
    ]


def pull_layer(
    x: list[float],
    layer: Sequence[int],
    gaps: Sequence[float],
    neighbours: Neighbours,
    side: Sequence[bool],
    *,
    straight: bool = False,
) -> None:
    """Move the vertices of a layer towards their neighbours: to the mean, or in line with the one in the middle."""
    wanted, weight = [], []
    for v in layer:
        pulls = neighbours[v]
        if not pulls:
            wanted.append(x[v])
            weight.append(YIELD)
            continue
        if len(pulls) == 1:  # most have one neighbour: no sums for these
            u, total, shift = pulls[0]
            wanted.append(x[u] + shift)
        else:
            total = 0.0
            for _, p, _ in pulls:
                total += p
            if straight:
                wanted.append(median([(x[u] + shift, p) for u, p, shift in pulls], total))
            else:
                moment = 0.0
                for u, p, shift in pulls:
                    moment += (x[u] + shift) * p
                wanted.append(moment / total)
        weight.append(total * YIELD if side[v] else total)
    if len(layer) == 1:
        x[layer[0]] = wanted[0]
        return
    for v, at in zip(layer, settle(wanted, weight, gaps)):
        x[v] = at


def median(pulls: list[tuple[float, float]], total: float) -> float:
    """Return the weighted median; halfway between the middle two where they balance."""
    pulls.sort()
    passed = 0.0
    for k, (at, pull) in enumerate(pulls):
        passed += pull
        if passed * 2 > total:
            return at
        if passed * 2 == total:
            return (at + pulls[k + 1][0]) / 2
    return pulls[-1][0]


def settle(wanted: Sequence[float], weight: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Return the places nearest to the wanted ones, by weighted squares, that keep the order and the gaps.

    Pools adjacent violators: neighbours that would come too close move as one block.

    Reference: Barlow, Bartholomew, Bremner and Brunk, Statistical inference under order restrictions, 1972.
    """
    for k, gap in enumerate(gaps):
        if wanted[k + 1] - wanted[k] < gap:
            break
    else:
        return list(wanted)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, length
    offset = 0.0
    offsets = []
    for k, (at, w) in enumerate(zip(wanted, weight)):
        offset += gaps[k - 1] if k else 0.0
        offsets.append(offset)
        mean, size = at - offset, 1
        while blocks and blocks[-1][0] > mean:
            before, before_weight, before_size = blocks.pop()
            mean = (before * before_weight + mean * w) / (before_weight + w)
            w += before_weight
            size += before_size
        blocks.append((mean, w, size))
    settled = [mean for mean, _, size in blocks for _ in range(size)]
    return [at + shift for at, shift in zip(settled, offsets)]
