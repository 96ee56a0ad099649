"""Which values are computed by one kernel: a graph of Symbols is cut where reductions run over different axes.

A kernel can reduce over one set of axes only, several times and in sequence (softmax needs the maximum before the sum).
Values that later kernels need from earlier ones are the small ones: results of reductions, and what follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .symbols import Axis, Symbol, Unfusable

AxisSet = frozenset[Axis]
Key = tuple[int, AxisSet]
"""Reductions of one rank over the same axes; the rank says how many changes of axes lie behind them."""


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


def topological(outputs: Sequence[Symbol], stop: Callable[[Symbol], bool] | None = None) -> list[Symbol]:
    """Return every value the outputs depend on, arguments first; nothing below a value where `stop` holds."""
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
            if stop is None or not stop(node):
                stack.extend((a, False) for a in reversed(node.args))
    return order


def reduced_by(node: Symbol) -> AxisSet:
    """Return the axes a reduction runs over."""
    return frozenset(a.root() for a in node.what[1])


def partition(outputs: Sequence[Symbol]) -> list[Group]:
    """Return groups in the order they must run; every output is among the results of one of them."""
    order = topological(outputs)
    behind: dict[Symbol, frozenset[Key]] = {}
    needs: dict[Key, frozenset[Key]] = {}
    for node in order:
        nothing: frozenset[Key] = frozenset()
        found = nothing.union(*(behind[a] for a in node.args))
        if node.op == "reduce":
            axes = reduced_by(node)
            key = max((rank if other == axes else rank + 1 for rank, other in found), default=0), axes
            needs[key] = needs.get(key, nothing) | (found - {key})
            found |= {key}
        behind[node] = found
    sequence, merged = _sequence(needs)
    groups = [Group(key[1]) for key in sequence]
    place = {key: sequence.index(merged[key]) for key in needs}
    last = {node: max((place[k] for k in behind[node]), default=-1) for node in order}
    _assign(outputs, last, groups)
    for h in range(len(groups) - 1, -1, -1):
        for root in list(groups[h].results):
            _cut(root, h, last, groups)
    return [g for g in groups if g.results]


def _sequence(needs: dict[Key, frozenset[Key]]) -> tuple[list[Key], dict[Key, Key]]:
    """Return the groups in order, and into which one each has gone: those over the same axes join where they can."""
    merged = {key: key for key in needs}
    for early in sorted(needs, key=lambda k: k[0]):
        for late in sorted(needs, key=lambda k: k[0]):
            if early[1] == late[1] and early[0] < late[0] and merged[early] == early:
                trial = {k: late if m == early else m for k, m in merged.items()}
                if _sorted(needs, trial) is not None:
                    merged = trial
    order = _sorted(needs, merged)
    assert order is not None, "unmerged groups are ordered by their ranks"
    return order, merged


def _sorted(needs: dict[Key, frozenset[Key]], merged: dict[Key, Key]) -> list[Key] | None:
    """Return the merged groups, each after those it needs, or None if that is impossible."""
    left: dict[Key, set[Key]] = {}
    for key, wanted in needs.items():
        left.setdefault(merged[key], set()).update(merged[w] for w in wanted)
    for key, wanted_now in left.items():
        wanted_now.discard(key)
    order: list[Key] = []
    while left:
        ready = [key for key, wanted_now in left.items() if not wanted_now.intersection(left)]
        if not ready:
            return None
        order += ready
        for key in ready:
            del left[key]
    return order


def _assign(outputs: Sequence[Symbol], last: dict[Symbol, int], groups: list[Group]) -> None:
    """Give each output to the group that has everything it needs, pointwise ones to a group that walks their axes."""
    plain: list[Symbol] = []
    for out in outputs:
        if last[out] >= 0:
            groups[last[out]].add(out)
        else:
            plain.append(out)
    walks: dict[AxisSet, Group] = {}
    for out in plain:
        axes = frozenset(out.roots())
        if axes not in walks:
            walks[axes] = Group(frozenset())
            groups.append(walks[axes])
        walks[axes].add(out)


def _cut(root: Symbol, h: int, last: dict[Symbol, int], groups: list[Group]) -> None:
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
    """Refuse results that have some of the reduced axes but not all, or not the axes the others keep."""
    kept = None
    for result in group.results:
        axes = frozenset(result.roots())
        some = group.reduced & axes
        if some and some != group.reduced:
            raise Unfusable("a result along some of the reduced dimensions only")
        if kept is not None and axes - group.reduced != kept:
            raise Unfusable("results along different dimensions")
        kept = axes - group.reduced


__all__ = ["AxisSet", "Group", "check_shapes", "leaves_of", "partition", "reduced_by", "topological"]
