"""Which parts of a model to compute again, so that what is kept for backward fits a budget at the least time.

The graph is cut into units in the order of recording: calls of children, and the ops between them. While backward is
at unit k, alive are

    what unit k saved or has recomputed
    what units before k saved, where they keep it
    the arguments of units before k that will be recomputed

each storage once. The plan is the subset of children with the least time for which no moment exceeds the budget: a
small integer program, solved exactly by HiGHS where SciPy is there, and greedily where it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Unit:
    """A stretch of the graph: one call of a child, or the ops between two calls (child None)."""

    child: int | None
    saved: set[int] = field(default_factory=set)
    arguments: frozenset[int] = frozenset()


@dataclass
class Problem:
    """The units in order, the bytes of each storage, and the seconds of each child."""

    units: list[Unit]
    nbytes: dict[int, int]
    seconds: list[float]

    def peak(self, again: Sequence[bool]) -> int:
        """Return the most bytes alive at any moment of backward, with the children of `again` recomputed."""
        most = 0
        held: set[int] = set()
        for unit in self.units:
            recomputed = unit.child is not None and again[unit.child]
            held |= unit.arguments if recomputed else unit.saved
            most = max(most, sum(self.nbytes[s] for s in held | unit.saved))
        return most


@dataclass
class Plan:
    """Which children are recomputed, whether that is known to be the best choice, and the peak it leads to."""

    again: list[bool]
    exact: bool
    peak: int


def cheapest(problem: Problem, budget: int) -> Plan | None:
    """Return the plan of least time whose peak fits `budget` bytes, None if there is none."""
    n = len(problem.seconds)
    if problem.peak([False] * n) <= budget:
        return Plan([False] * n, True, problem.peak([False] * n))
    again = _solve(problem, budget)
    if again is not NotImplemented:
        return None if again is None else Plan(again, True, problem.peak(again))
    again = _greedy(problem, budget)
    return None if again is None else Plan(again, False, problem.peak(again))


def smallest(problem: Problem) -> Plan:
    """Return the plan of the least peak."""
    again = _solve(problem, None)
    if again is NotImplemented or again is None:
        again = _greedy(problem, 0, best=True) or []
        return Plan(again, False, problem.peak(again))
    return Plan(again, True, problem.peak(again))


def _greedy(problem: Problem, budget: int, best: bool = False) -> list[bool] | None:
    """Recompute what frees the most bytes per second until the budget holds, then keep what need not be recomputed."""
    n = len(problem.seconds)
    again = [False] * n
    order: list[int] = []
    peaks = [problem.peak(again)]
    while peaks[-1] > budget and len(order) < n:
        left = [i for i in range(n) if not again[i]]
        gains = {i: peaks[-1] - problem.peak([*again[:i], True, *again[i + 1 :]]) for i in left}
        chosen = max(left, key=lambda i: gains[i] / max(problem.seconds[i], 1e-9))
        again[chosen] = True
        order.append(chosen)
        peaks.append(problem.peak(again))
    if best:
        for i in order[peaks.index(min(peaks)) :]:
            again[i] = False
        return again
    if peaks[-1] > budget:
        return None
    for i in sorted(order, key=lambda i: -problem.seconds[i]):
        again[i] = False
        if problem.peak(again) > budget:
            again[i] = True
    return again


def _solve(problem: Problem, budget: int | None) -> Any:
    """Solve the integer program; None if it has no solution, NotImplemented without SciPy.

    Variables: per child 1 if it is recomputed; per storage and stretch of units a number that the constraints push to 1
    where the storage is alive; the peak, which is bounded by `budget`, or minimised where there is none.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array
    except ImportError:
        return NotImplemented
    n = len(problem.seconds)
    scale = float(max(1, max(problem.nbytes.values(), default=1)))
    rows: list[dict[int, float]] = []
    most: list[float] = []
    count = n + 1  # the last of the fixed variables is the peak
    alive: dict[int, Any] = {}  # storage -> variable, or None where it is alive whatever is chosen
    for unit in problem.units:
        for s in unit.saved | unit.arguments:
            if s in alive and alive[s] is None:
                continue
            saves, takes = s in unit.saved, s in unit.arguments
            if (saves and unit.child is None) or (saves and takes):
                alive[s] = None
                continue
            if unit.child is None:
                continue
            earlier, alive[s] = alive.get(s), count
            # alive >= 1 - again where the unit saves it; alive >= again where it is an argument
            rows.append({count: -1.0, unit.child: -1.0 if saves else 1.0})
            most.append(-1.0 if saves else 0.0)
            if earlier is not None:
                rows.append({earlier: 1.0, count: -1.0})
                most.append(0.0)
            count += 1
        row: dict[int, float] = {n: -1.0}
        fixed = 0.0
        for s, variable in alive.items():
            if variable is None or s in unit.saved:
                fixed += problem.nbytes[s] / scale
            else:
                row[variable] = problem.nbytes[s] / scale
        rows.append(row)
        most.append(-fixed)
    entries = [(i, j, v) for i, row in enumerate(rows) for j, v in row.items()]
    i, j, v = (np.array(x) for x in zip(*entries))
    cost = np.zeros(count)
    total = sum(problem.seconds) or 1.0
    cost[:n] = np.asarray(problem.seconds) / total
    if budget is None:
        cost[:n] *= 1e-6
        cost[n] = 1.0
    high = np.ones(count)
    high[n] = np.inf if budget is None else budget / scale
    result = milp(
        cost,
        integrality=np.array([1] * n + [0] * (count - n)),
        bounds=Bounds(np.zeros(count), high),
        constraints=LinearConstraint(csr_array((v, (i, j)), (len(rows), count)), ub=np.array(most)),
    )
    if result.x is None:
        return None
    again = [bool(x > 0.5) for x in result.x[:n]]
    # The solver works with a tolerance, the budget is in whole bytes.
    return again if budget is None or problem.peak(again) <= budget else NotImplemented
