"""One kernel as sweeps over its iteration space.

The axes a kernel keeps are divided into units, which may run on any thread; for each unit the reduced axes are swept
one or more times. A sweep computes results and the arguments of reductions, whose results later sweeps use; between two
sweeps a *stage* computes what follows from reductions alone. Values that are costly and needed by more than one sweep
are stored: in the memory of a result that is not yet written, else in scratch memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, NamedTuple

from .emit import Source, work
from .partition import Group, check_shapes, topological
from .scalar import Scalar, var
from .symbols import Axis, Symbol, Unfusable

HEAVY = 300
"""Picoseconds of work per float32 element from which a value is stored rather than computed again."""


KNOWN = 4096
"""Expressions that are remembered, some hundred bytes each; then remembering begins anew."""

_applied: dict[tuple[Any, ...], tuple[list[Scalar], Scalar]] = {}
_work: dict[tuple[int, ...], tuple[list[Scalar], int]] = {}


def applied(function: Callable[..., Scalar], args: list[Scalar]) -> Scalar:
    """Return a function of expressions; building one takes most of a trace, and formulas are used again and again."""
    # Equal expressions are one object, and comparing them is an expression: so ids, of what the entry keeps alive.
    key = (function, *map(id, args))
    found = _applied.get(key)
    if found is None:
        if len(_applied) >= KNOWN:
            _applied.clear()
        found = _applied[key] = args, function(*args)
    return found[1]


def work_of(roots: list[Scalar]) -> int:
    """Return `work`, remembered."""
    key = tuple(map(id, roots))
    found = _work.get(key)
    if found is None:
        if len(_work) >= KNOWN:
            _work.clear()
        found = _work[key] = roots, work(roots)
    return found[1]


class Sweep(NamedTuple):
    """One pass over the reduced axes.

    Attributes:
        roots: values stored element for element.
        places: where each of them goes: ("operand", index) or ("scratch", index).
        reductions: name of the reduction, its argument, and the number of its row value.
        sources: variables the expressions read, in order: inputs, row values, scratch.
    """

    roots: list[Scalar]
    places: list[tuple[str, int]]
    reductions: list[tuple[str, Scalar, int]]
    sources: list[tuple[str, int, str]]


class Stage(NamedTuple):
    """What is computed once per unit between two sweeps; places are ("row", index) or ("operand", index)."""

    roots: list[Scalar]
    places: list[tuple[str, int]]
    sources: list[tuple[str, int, str]]


class Kernel:
    """The structure of a kernel, without sizes.

    Attributes:
        operands: the arrays it reads, then those it writes.
        kinds: their element types.
        inner: for each, whether it has the innermost axis.
        row: whether the innermost axis is reduced; else results of reductions are vectors of columns.
        partial: only reductions are stored, after one sweep: the sweep may be divided among threads.
        numbers: values of the parameters %p0 …, which are those of the symbols `parameters`.
        rows: element types of the row values.
        scratch: element types of stored values.
    """

    def __init__(self, group: Group, known: set[int], inner_axis: object) -> None:
        check_shapes(group)
        self.group = group
        self._known = known
        self.operands: list[Symbol] = []
        self.outputs = list(group.results)
        self.numbers: list[float] = []
        self.parameters: list[Symbol] = []
        self.rows: list[str] = []
        self.scratch: list[str] = []
        self.row = inner_axis in group.reduced
        self._level: dict[Symbol, int] = {}
        self._row_of: dict[Symbol, int] = {}
        self._parameter_of: dict[Symbol, int] = {}
        self._kept_in: dict[Symbol, tuple[int, tuple[str, int]]] = {}
        self._measure()
        self._find_operands()
        self.kinds = [x.kind for x in (*self.operands, *self.outputs)]
        self.inner = [any(a is inner_axis for a in x.roots()) for x in (*self.operands, *self.outputs)]
        self.sweeps: list[Sweep] = []
        self.stages: list[Stage] = []
        self._arrange()
        self.partial = len(self.sweeps) == 1 and not self.sweeps[0].roots and bool(self.sweeps[0].reductions)

    # What the values are.

    def _leaf(self, node: Symbol) -> bool:
        return node.op == "input" or id(node) in self._known

    def _measure(self) -> None:
        """Find the sweep before which each value can be known."""
        self._order = topological(self.outputs, self._leaf)
        for node in self._order:
            if self._leaf(node) or node.op == "number":
                self._level[node] = 0
            else:
                self._level[node] = max(self._level[a] for a in node.args) + (node.op == "reduce")

    def _is_row(self, node: Symbol) -> bool:
        """Return whether a value follows from reductions and is the same along the reduced axes: once per unit."""
        return self._level[node] > 0 and not self.group.reduced.intersection(node.roots())

    def _find_operands(self) -> None:
        self.operands = [n for n in self._order if self._leaf(n)]
        self._number_of = {n: i for i, n in enumerate([*self.operands, *self.outputs])}

    # From values to expressions.

    def _scalar(self, node: Symbol, sources: dict[str, tuple[str, int, str]], sweep: int | None) -> Scalar:
        """Return the expression of a value, noting what it reads; in a stage (sweep None) row values are computed."""
        memo: dict[Symbol, Scalar] = {}
        for x in topological([node], lambda n: self._variable(n, sweep) is not None):
            found = self._variable(x, sweep)
            if found is not None:
                kind, index = found
                name = f"%{kind[0]}{index}"
                if kind != "parameter":
                    sources[name] = (kind, index, x.kind)
                memo[x] = var(name, x.kind)
            else:
                memo[x] = applied(x.what, [memo[a] for a in x.args])
        return memo[node]

    def _variable(self, x: Symbol, sweep: int | None) -> tuple[str, int] | None:
        """Return what variable stands for a value: operand, row value, scratch or parameter; None if it is computed."""
        if self._leaf(x):
            return "operand", self._number_of[x]
        if x.op == "number":
            return "parameter", self._parameter(x)
        if x.op == "reduce":
            return "row", self._row(x)
        if sweep is None:
            return None
        if self._is_row(x):
            return "row", self._row(x)
        kept = self._kept_in.get(x)
        return kept[1] if kept is not None and sweep > kept[0] else None

    def _parameter(self, x: Symbol) -> int:
        found = self._parameter_of.get(x)
        if found is None:
            found = self._parameter_of[x] = len(self.numbers)
            self.numbers.append(float(x.what))
            self.parameters.append(x)
        return found

    def _row(self, x: Symbol) -> int:
        found = self._row_of.get(x)
        if found is None:
            found = self._row_of[x] = len(self.rows)
            self.rows.append(x.kind)
        return found

    # Which value in which sweep.

    def _arrange(self) -> None:
        reductions = [n for n in self._order if n.op == "reduce" and not self._leaf(n)]
        full = [o for o in self.outputs if not self._is_row(o)]
        if not reductions and not full:
            raise Unfusable("a result that depends on no array")
        depth = max([self._level[r.args[0]] for r in reductions] + [self._level[o] for o in full]) + 1
        wanted = [
            [o for o in full if self._level[o] == s] + [r.args[0] for r in reductions if self._level[r.args[0]] == s]
            for s in range(depth)
        ]
        self._keep(wanted, full)
        for s in range(depth):
            sources: dict[str, tuple[str, int, str]] = {}
            roots, places = [], []
            for o in full:
                if self._level[o] == s:
                    roots.append(self._scalar(o, sources, s))
                    places.append(("operand", self._number_of[o]))
            for node, (first, place) in self._kept_in.items():
                if first == s and place != ("operand", self._number_of.get(node)):
                    roots.append(self._scalar(node, sources, s))
                    places.append(place)
            mine = [r for r in reductions if self._level[r] == s + 1]
            reduced = [(str(r.what[0]), self._scalar(r.args[0], sources, s), self._row(r)) for r in mine]
            self.sweeps.append(Sweep(roots, places, reduced, _ordered(sources)))
        for s in range(depth):
            self.stages.append(self._stage(s + 1))

    def _keep(self, wanted: list[list[Symbol]], full: list[Symbol]) -> None:
        """Choose the values that are stored by one sweep for a later one."""
        seen: dict[Symbol, int] = {}
        free = [o for o in full if self._level[o] > 0]
        for s, roots in enumerate(wanted):
            heavy: dict[Symbol, bool] = {}

            def stop(n: Symbol, s: int = s, heavy: dict[Symbol, bool] = heavy) -> bool:
                if self._leaf(n) or n.op in ("number", "reduce") or self._is_row(n):
                    return True
                if seen.get(n, s) < s:
                    heavy[n] = n in self._kept_in or work_of([self._scalar(n, {}, None)]) >= HEAVY
                    return heavy[n]
                return False

            for n in topological(roots, stop):
                if heavy.get(n) and n not in self._kept_in:
                    self._kept_in[n] = (seen[n], self._home(n, seen[n], free))
                if not self._leaf(n):
                    seen.setdefault(n, s)

    def _home(self, node: Symbol, first: int, free: list[Symbol]) -> tuple[str, int]:
        """Return where a value is kept: in a later result of its layout, or in scratch memory."""
        if any(node is o for o in self.outputs):
            return "operand", self._number_of[node]
        for o in free:
            if o.kind == node.kind and set(o.roots()) == set(node.roots()) and self._level[o] > first:
                free.remove(o)
                return "operand", self._number_of[o]
        self.scratch.append(node.kind)
        return "scratch", len(self.scratch) - 1

    def _stage(self, level: int) -> Stage:
        """Return the row values that are known from this level on and used by something else than row values."""
        used = {
            a
            for n in self._order
            if not self._leaf(n) and (n.op == "reduce" or not self._is_row(n))
            for a in n.args
            if self._is_row(a) and a.op == "point"
        }
        sources: dict[str, tuple[str, int, str]] = {}
        roots, places = [], []
        for n in self._order:
            if self._leaf(n) or not self._is_row(n) or self._level[n] != level:
                continue
            if n in used:
                roots.append(self._scalar(n, sources, None))
                places.append(("row", self._row(n)))
            if any(n is o for o in self.outputs):
                roots.append(self._scalar(n, sources, None))
                places.append(("operand", self._number_of[n]))
        return Stage(roots, places, _ordered(sources))

    @functools.cached_property
    def structure(self) -> tuple[Any, ...]:
        """What the kernel's text depends on; equal for equal texts as long as the kernels compared are alive."""
        # Equal expressions are one object, and comparing expressions is an expression: so ids.
        sweeps = tuple(
            (
                tuple(map(id, s.roots)),
                tuple(s.places),
                tuple((name, id(x), row) for name, x, row in s.reductions),
                tuple(s.sources),
            )
            for s in self.sweeps
        )
        stages = tuple((tuple(map(id, s.roots)), tuple(s.places), tuple(s.sources)) for s in self.stages)
        arrays = (tuple(self.kinds), tuple(self.inner), tuple(self.rows), tuple(self.scratch))
        return (self.row, self.partial, len(self.numbers), arrays, sweeps, stages)

    @functools.cached_property
    def cost(self) -> int:
        """Picoseconds of work per element."""
        total = 0
        for sweep in self.sweeps:
            total += work_of([*sweep.roots, *(x for _, x, _ in sweep.reductions)])
            total += 80 * (len(sweep.roots) + len(sweep.reductions) + len(sweep.sources))
        return total


_kernels: dict[tuple[Any, ...], tuple[Kernel, list[int], list[int], list[int]]] = {}
"""Kernels by what they were made from, and the places of their operands, results and numbers in it."""


def kernel_of(group: Group, known: set[int], inner_axis: Axis | None) -> Kernel:
    """Return the kernel of a group, `Kernel(group, known, inner_axis)`.

    Groups that differ in sizes and numbers only have kernels of one structure, which is found once.
    """
    order = topological(group.results, lambda n: n.op == "input" or id(n) in known)
    place = {id(n): i for i, n in enumerate(order)}
    axes: dict[Axis, int] = {}

    def places(of: Iterable[Axis]) -> tuple[int, ...]:
        return tuple([axes.setdefault(a, len(axes)) for a in of])

    key: list[Any] = [place[id(r)] for r in group.results]
    for n in order:
        if n.op == "input" or id(n) in known:
            key += ("leaf", n.kind, places(n.roots()))
        elif n.op == "number":
            key += ("number", n.kind)
        else:
            what = (n.what[0], places(a.root() for a in n.what[1])) if n.op == "reduce" else n.what
            key += (n.op, what, n.kind, places(n.roots()), *[place[id(a)] for a in n.args])
    key += (places(sorted_axes(group, axes)), None if inner_axis is None else axes.get(inner_axis))
    found = _kernels.get(tuple(key))
    if found is None:
        kernel = Kernel(group, known, inner_axis)
        if len(_kernels) >= KNOWN:
            _kernels.clear()
        a, b, c = ([place[id(n)] for n in one] for one in (kernel.operands, kernel.outputs, kernel.parameters))
        _kernels[tuple(key)] = kernel, a, b, c
        return kernel
    first, operands, outputs, numbers = found
    kernel = copy(first)
    kernel.group = group
    kernel.operands, kernel.outputs = [order[i] for i in operands], [order[i] for i in outputs]
    kernel.parameters = [order[i] for i in numbers]
    kernel.numbers = [float(n.what) for n in kernel.parameters]
    return kernel


def sorted_axes(group: Group, axes: dict[Axis, int]) -> list[Axis]:
    """Return the reduced axes in the order of their numbers."""
    return sorted(group.reduced, key=lambda a: axes.get(a, -1))


def _ordered(sources: dict[str, tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    return [sources[name] for name in sorted(sources, key=lambda n: (n[1], int(n[2:])))]


def variables(sources: Sequence[tuple[str, int, str]], one: Callable[[str, int], bool]) -> list[Source]:
    """Return a sweep's sources as an emitted loop wants them; `one` says which are the same for all elements."""
    return [Source(f"%{kind[0]}{i}", dtype, one(kind, i)) for kind, i, dtype in sources]


__all__ = ["Kernel", "Stage", "Sweep", "kernel_of", "variables"]
