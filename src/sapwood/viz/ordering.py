"""The order of vertices within the layers of a layered graph, chosen so that few edges cross."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

__all__ = ["count_crossings", "order"]

SWEEPS = 16
PATIENCE = 4
# Swapping neighbours one pair at a time is left out for graphs with more edges than this.
SWAP_LIMIT = 4_000


def order(
    rank: Sequence[int], edges: Sequence[tuple[int, int]], key: Sequence[float]
) -> tuple[list[list[int]], list[int]]:
    """Order the vertices of every layer.

    Args:
        rank: layer of each vertex; every edge leads one layer down.
        edges: (upper, lower) vertices.
        key: the first order within a layer.

    Returns:
        Vertices by layer, and the fewest crossings seen before the first sweep and after each.
    """
    layers: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for v in sorted(range(len(rank)), key=lambda v: (key[v], v)):
        layers[rank[v]].append(v)
    above: list[list[int]] = [[] for _ in rank]
    below: list[list[int]] = [[] for _ in rank]
    for u, v in edges:
        below[u].append(v)
        above[v].append(u)
    best, fewest = [list(layer) for layer in layers], total_crossings(layers, below)
    history = [fewest]
    stale = 0
    for sweep in range(SWEEPS):
        if not fewest or stale >= PATIENCE:
            break
        if sweep % 2 == 0:
            for upper, lower in pairwise(layers):
                sort_by_mean(upper, lower, above)
        else:
            for upper, lower in zip(reversed(layers[:-1]), reversed(layers[1:])):
                sort_by_mean(lower, upper, below)
        if len(edges) <= SWAP_LIMIT:
            swap_neighbours(layers, above, below)
        crossings = total_crossings(layers, below)
        stale += 1
        if crossings < fewest:
            best, fewest, stale = [list(layer) for layer in layers], crossings, 0
        history.append(fewest)
    return best, history


def sort_by_mean(fixed: list[int], layer: list[int], neighbours: list[list[int]]) -> None:
    """Sort a layer by the mean place of each vertex's neighbours in the fixed layer; others keep their place."""
    place = {v: k for k, v in enumerate(fixed)}
    moving = [v for v in layer if neighbours[v]]
    mean = {v: sum(place[u] for u in neighbours[v]) / len(neighbours[v]) for v in moving}
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
