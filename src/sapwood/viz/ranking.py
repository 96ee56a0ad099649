"""Layers for the items of a directed graph: which links lead back, and how deep each item lies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sapwood.viz.plan import Wire

__all__ = ["closing", "on_cycles", "ranks", "side_branches", "span"]


def closing(count: int, wires: Sequence[Wire]) -> set[int]:
    """Return the wires that close a cycle, met depth first in the order of the items; without them none is left."""
    after: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for i, wire in enumerate(wires):
        after[wire.source].append(i)
        waiting[wire.target] += 1
    free = [v for v in range(count) if not waiting[v]]
    for v in free:  # grows while it is walked
        for i in after[v]:
            target = wires[i].target
            waiting[target] -= 1
            if not waiting[target]:
                free.append(target)
    if len(free) == count:
        return set()
    back: set[int] = set()
    state = [0] * count  # 1 while what follows is being met, 2 afterwards
    for start in range(count):
        if state[start]:
            continue
        state[start] = 1
        stack = [(start, iter(after[start]))]
        while stack:
            at, following = stack[-1]
            for i in following:
                target = wires[i].target
                if state[target] == 1:
                    back.add(i)
                elif not state[target]:
                    state[target] = 1
                    stack.append((target, iter(after[target])))
                    break
            else:
                state[at] = 2
                stack.pop()
    return back


def span(wire: Wire) -> int:
    """Return the least number of layers a wire goes down: a label takes a layer of its own."""
    return 1 if wire.label is None else 2


def ranks(count: int, wires: Sequence[Wire], first: Iterable[int] = (), last: Iterable[int] = ()) -> list[int]:
    """Give each item a layer: ends by the longest path to them, all others as close above their consumers as can be.

    first, last: items that have the first and the last layer to themselves.
    """
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
    head, tail = set(first), set(last)
    rank = [0] * count
    for v in sequence:
        if v not in head:
            rank[v] = max((rank[u] + s for u, s in above[v]), default=1 if head else 0)
    if tail:
        bottom = max([max((rank[v] for v in sequence if v not in tail), default=0) + 1, *(rank[v] for v in tail)])
        for v in tail:
            rank[v] = bottom
    for v in reversed(sequence):
        if below[v] and v not in head:
            rank[v] = min(rank[t] - s for t, s in below[v])
    lowest = min(rank, default=0)
    return [r - lowest for r in rank]


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


def on_cycles(count: int, wires: Sequence[Wire]) -> list[int]:
    """Return the items that lie on a cycle, or on a way from one cycle to another."""
    left = set(range(count))
    for forward in (True, False):
        after: dict[int, list[int]] = {}
        waiting = dict.fromkeys(sorted(left), 0)
        for wire in wires:
            a, b = (wire.source, wire.target) if forward else (wire.target, wire.source)
            if a in left and b in left:
                after.setdefault(a, []).append(b)
                waiting[b] += 1
        free = [v for v, number in waiting.items() if not number]
        for v in free:  # grows while it is walked
            left.discard(v)
            for target in after.get(v, ()):
                waiting[target] -= 1
                if not waiting[target]:
                    free.append(target)
    return sorted(left)
