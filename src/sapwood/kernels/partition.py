"""Which values are computed by one kernel: a graph of Symbols is cut where reductions run over different axes.

A kernel can reduce over one set of axes only, several times and in sequence (softmax needs the maximum before the sum).
Values that later kernels need from earlier ones are the small ones: results of reductions, and what follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence

from .symbols import Axis, Symbol, Unfusable

AxisSet = frozenset[Axis]


class Group:
    """The values that one kernel computes.

    Attributes:
        reduced: the axes it reduces over.
        results: the values it stores.
    """

    def __init__(self, reduced: AxisSet) -> None:
        self.reduced = reduced
        self.results: list[Symbol] = []

    def add(self, value: Symbol) -> None:
        if not any(value is r for r in self.results):
            self.results.append(value)


def topological(outputs: Sequence[Symbol]) -> list[Symbol]:
    """Return every value the outputs depend on, arguments first."""
    order: list[Symbol] = []
    done: set[int] = set()
    stack = [(x, False) for x in reversed(outputs)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif id(node) not in done:
            done.add(id(node))
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args))
    return order


def reduced_by(node: Symbol) -> AxisSet:
    """Return the axes a reduction runs over."""
    return frozenset(a.root() for a in node.what[1])


def partition(outputs: Sequence[Symbol]) -> list[Group]:
    """Return groups in the order they must run; every output is among the results of one of them."""
    order = topological(outputs)
    rank: dict[Symbol, int] = {}
    groups: dict[tuple[int, AxisSet], Group] = {}
    behind: dict[Symbol, frozenset[tuple[int, AxisSet]]] = {}
    for node in order:
        found = frozenset().union(*(behind[a] for a in node.args)) if node.args else frozenset()
        if node.op == "reduce":
            axes = reduced_by(node)
            rank[node] = max((r if a == axes else r + 1 for r, a in found), default=0)
            key = (rank[node], axes)
            groups.setdefault(key, Group(axes))
            found |= {key}
        behind[node] = found
    sequence = sorted(groups, key=lambda key: key[0])
    place = {key: i for i, key in enumerate(sequence)}
    last = {node: max((place[k] for k in behind[node]), default=-1) for node in order}
    result = [groups[key] for key in sequence]
    _assign(outputs, last, result)
    for h in range(len(result) - 1, -1, -1):
        for root in list(result[h].results):
            _cut(root, h, last, result, sequence)
    return [g for g in result if g.results]


def _assign(outputs: Sequence[Symbol], last: dict[Symbol, int], groups: list[Group]) -> None:
    """Give each output to the group that has everything it needs, pointwise ones to a group that walks their axes."""
    plain: list[Symbol] = []
    for out in outputs:
        if last[out] >= 0:
            groups[last[out]].add(out)
        else:
            plain.append(out)
    if plain:
        group = Group(frozenset())
        for out in plain:
            group.add(out)
        groups.append(group)


def _cut(
    root: Symbol, h: int, last: dict[Symbol, int], groups: list[Group], sequence: list[tuple[int, AxisSet]]
) -> None:
    """Store, in earlier groups, the small values that a result of group h is made of."""
    stack, done = list(root.args), {id(root)}
    while stack:
        node = stack.pop()
        if id(node) in done:
            continue
        done.add(id(node))
        own = last[node]
        if 0 <= own < h:
            small = not groups[own].reduced.intersection(node.roots())
            if node.op == "reduce" or small:
                groups[own].add(node)
                continue
            if any(node is r for r in groups[own].results):
                continue
        stack.extend(node.args)


def leaves_of(groups: Sequence[Group], index: int) -> set[int]:
    """Return the ids of values that earlier groups have stored."""
    return {id(r) for g in groups[:index] for r in g.results}


def check_shapes(group: Group) -> None:
    """Refuse results that have some of the reduced axes but not all."""
    for result in group.results:
        some = group.reduced.intersection(result.roots())
        if some and some != group.reduced:
            raise Unfusable("a result along some of the reduced dimensions only")


__all__ = ["AxisSet", "Group", "check_shapes", "leaves_of", "partition", "reduced_by", "topological"]
