"""The order of vertices within the layers of a layered graph, chosen so that few edges cross."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["count_crossings", "order"]

SWEEPS = 16
PATIENCE = 4
# Swapping neighbours one pair at a time is left out for graphs with more edges than this.
SWAP_LIMIT = 4_000
# Graphs with more edges than this are ordered from one start only.
RESTART_LIMIT = 1_000


def order(
    rank: Sequence[int],
    edges: Sequence[tuple[int, int]],
    key: Sequence[float],
    reach: Sequence[tuple[float, float]] | None = None,
) -> tuple[list[list[int]], list[int]]:
    """Order the vertices of every layer.

    Small graphs are ordered from several starts, of which the one with the fewest crossings wins.

    Args:
        rank: layer of each vertex; every edge leads one layer down.
        edges: (upper, lower) vertices.
        key: the first order within a layer.
        reach: how far from the middle each edge touches its upper and its lower vertex, in parts of their width.

    Returns:
        Vertices by layer, and the fewest crossings seen before the first sweep and after each.
    """
    sides = Sides([[] for _ in rank], [[] for _ in rank], [[] for _ in rank], [[] for _ in rank])
    for (u, v), (leave, enter) in zip(edges, reach or [(0.0, 0.0)] * len(edges)):
        sides.below[u].append(v)
        sides.above[v].append(u)
        sides.leans_below[u].append(enter)
        sides.leans_above[v].append(leave)
    best, history = improved(layers_by(rank, key), sides, len(edges))
    if history[-1] and len(edges) <= RESTART_LIMIT:
        for turned in (False, True):
            layers, found = improved(
                layers_by(rank, met_from_below(rank, sides.above, turned=turned)), sides, len(edges)
            )
            if found[-1] < history[-1]:
                best = layers
            history += [min(history[-1], crossings) for crossings in found]
        if turns(best, key) * 2 > sum(len(layer) - 1 for layer in best):
            best = [layer[::-1] for layer in best]
    return best, history


@dataclass(frozen=True, slots=True)
class Sides:
    """The neighbours of each vertex above and below, and how far from their middle the edges to them touch them."""

    above: list[list[int]]
    below: list[list[int]]
    leans_above: list[list[float]]
    leans_below: list[list[float]]


def layers_by(rank: Sequence[int], key: Sequence[float]) -> list[list[int]]:
    layers: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for v in sorted(range(len(rank)), key=lambda v: (key[v], v)):
        layers[rank[v]].append(v)
    return layers


def turns(layers: list[list[int]], key: Sequence[float]) -> int:
    """Return how many neighbours stand the other way round than their keys."""
    return sum(key[u] > key[v] for layer in layers for u, v in pairwise(layer))


def met_from_below(rank: Sequence[int], above: list[list[int]], *, turned: bool) -> list[float]:
    """Return when each vertex is met walking up from the lowest ones, depth first, in order or turned round."""
    met = [-1.0] * len(rank)
    stack = sorted(range(len(rank)), key=lambda v: (rank[v], v))
    count = 0.0
    while stack:
        v = stack.pop()
        if met[v] < 0:
            met[v] = count
            count += 1
            stack.extend(above[v] if turned else reversed(above[v]))
    return met


def improved(layers: list[list[int]], sides: Sides, edges: int) -> tuple[list[list[int]], list[int]]:
    """Return the best of the orders met by sweeping, and the fewest crossings seen so far after each sweep."""
    best, fewest = [list(layer) for layer in layers], total_crossings(layers, sides.below)
    history = [fewest]
    stale = 0
    for sweep in range(SWEEPS):
        if not fewest or stale >= PATIENCE:
            break
        if sweep % 2 == 0:
            for upper, lower in pairwise(layers):
                sort_by_mean(upper, lower, sides.above, sides.leans_above)
        else:
            for upper, lower in zip(reversed(layers[:-1]), reversed(layers[1:])):
                sort_by_mean(lower, upper, sides.below, sides.leans_below)
        if edges <= SWAP_LIMIT:
            swap_neighbours(layers, sides.above, sides.below)
        crossings = total_crossings(layers, sides.below)
        stale += 1
        if crossings < fewest:
            best, fewest, stale = [list(layer) for layer in layers], crossings, 0
        history.append(fewest)
    return best, history


def sort_by_mean(fixed: list[int], layer: list[int], neighbours: list[list[int]], leans: list[list[float]]) -> None:
    """Sort a layer by the mean place of each vertex's neighbours in the fixed layer; others keep their place."""
    place = {v: k for k, v in enumerate(fixed)}
    moving = [v for v in layer if neighbours[v]]
    mean = {v: (sum(place[u] for u in neighbours[v]) + sum(leans[v])) / len(neighbours[v]) for v in moving}
    moving.sort(key=mean.__getitem__)
    ordered = iter(moving)
    layer[:] = [next(ordered) if neighbours[v] else v for v in layer]


def swap_neighbours(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Swap adjacent vertices of a layer wherever that removes crossings, layer by layer."""
    place = [0] * len(above)
    for layer in layers:
        for k, v in enumerate(layer):
            place[v] = k
    for layer in layers:
        improved = True
        while improved:
            improved = False
            for k in range(len(layer) - 1):
                u, v = layer[k], layer[k + 1]
                change = 0
                for neighbours in (above, below):
                    left = [place[n] for n in neighbours[u]]
                    right = [place[n] for n in neighbours[v]]
                    # Crossings with u left of v are the pairs a > b; swapped, the pairs a < b.
                    change += sum((a < b) - (a > b) for a in left for b in right)
                if change < 0:
                    layer[k], layer[k + 1] = v, u
                    place[u], place[v] = k + 1, k
                    improved = True


def total_crossings(layers: list[list[int]], below: list[list[int]]) -> int:
    return sum(count_crossings(upper, lower, below) for upper, lower in pairwise(layers))


def count_crossings(upper: Sequence[int], lower: Sequence[int], below: Sequence[Sequence[int]]) -> int:
    """Return how many pairs of edges between two layers cross, in O(edges · log vertices).

    Reference: Barth, Jünger and Mutzel, Simple and efficient bilayer cross counting, Graph Drawing 2002.
    """
    place = {v: k for k, v in enumerate(lower)}
    tree = [0] * (len(lower) + 1)  # a Fenwick tree of the ends seen so far
    crossings = seen = 0
    for u in upper:
        ends = sorted(place[v] for v in below[u])
        for end in ends:
            not_right = 0
            k = end + 1
            while k:
                not_right += tree[k]
                k &= k - 1
            crossings += seen - not_right
        for end in ends:
            seen += 1
            k = end + 1
            while k < len(tree):
                tree[k] += 1
                k += k & -k
    return crossings
