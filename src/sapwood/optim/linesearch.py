"""A line search for the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

Array = ndarray[Any, Any]


@dataclass
class Trial:
    """A point on the line: its distance t, the value, the gradient, and the slope along the line there."""

    t: float
    value: float
    gradient: Array
    slope: float


def cubic_minimum(a: Trial, b: Trial, low: float | None = None, high: float | None = None) -> float:
    """Return where the cubic through values and slopes at two points is least, clipped to [low, high].

    The bounds are the two points unless given; without a minimum the result is their middle.

    Reference: Nocedal and Wright, *Numerical Optimization*, equation 3.59.
    """
    if low is None or high is None:
        low, high = min(a.t, b.t), max(a.t, b.t)
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    left, right = (a, b) if a.t <= b.t else (b, a)
    bottom = right.slope - left.slope + 2 * d2
    if bottom == 0:
        return (low + high) / 2
    t = right.t - (right.t - left.t) * ((right.slope + d2 - d1) / bottom)
    return min(max(t, low), high)


def strong_wolfe(
    at: Callable[[float], tuple[float, Array]],
    t: float,
    d: Array,
    value: float,
    gradient: Array,
    slope: Any,
    *,
    decrease: float = 1e-4,
    flatten: float = 0.9,
    change: float = 1e-9,
    most: int = 25,
) -> tuple[float, Array, float, int]:
    """Find a distance along d at which the value has dropped enough and the slope has flattened enough.

        value(t) ≤ value(0) + decrease · t · slope(0)     and     |slope(t)| ≤ flatten · |slope(0)|

    Args:
        at: returns value and gradient at a distance.
        t: the first distance to try.
        d: the direction.
        value, gradient, slope: those at distance 0.
        change: give up when the bracket, times the largest element of d, is smaller.
        most: limit on the trials.

    Returns:
        (value, gradient, distance, number of evaluations) of the best point found.

    Reference: Nocedal and Wright, *Numerical Optimization*, algorithms 3.5 and 3.6.
    """
    slope = float(slope)
    reach = float(np.maximum.reduce(np.abs(d)))

    def trial(t: float) -> Trial:
        value, g = at(t)
        return Trial(t, value, g, float(np.dot(g, d)))

    def too_high(x: Trial) -> bool:
        return x.value > value + decrease * x.t * slope

    def flat(x: Trial) -> bool:
        return abs(x.slope) <= -flatten * slope

    start = Trial(0, value, gradient.copy(), slope)
    before, now = start, trial(t)
    rounds, calls, found = 0, 1, False
    bracket = []
    while rounds < most:
        if too_high(now) or (rounds > 1 and now.value >= before.value):
            bracket = [before, now]
        elif flat(now):
            bracket, found = [now], True
        elif now.slope >= 0:
            bracket = [before, now]
        if bracket:
            break
        further = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10)
        before, now = now, trial(further)
        rounds, calls = rounds + 1, calls + 1
    bracket = bracket or [start, now]

    low, high = _ordered(bracket)
    stuck = False
    while not found and rounds < most and abs(bracket[1].t - bracket[0].t) * reach >= change:
        t, stuck = _inside(bracket, stuck)
        now = trial(t)
        rounds, calls = rounds + 1, calls + 1
        if too_high(now) or now.value >= bracket[low].value:
            bracket[high] = now
            low, high = _ordered(bracket)
            continue
        if flat(now):
            found = True
        elif now.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = now
    best = bracket[low]
    return best.value, best.gradient, best.t, calls


def _ordered(bracket: list[Trial]) -> tuple[int, int]:
    """Return the indices of the lower and of the higher end."""
    return (0, 1) if bracket[0].value <= bracket[-1].value else (1, 0)


def _inside(bracket: list[Trial], stuck: bool) -> tuple[float, bool]:
    """Return the next distance to try, and whether it lies so near an end that the next one must not.

    Within a tenth of an end a trial gains little: the second time in a row, or at the end itself, step inside.
    """
    left, right = sorted(x.t for x in bracket)
    t = cubic_minimum(bracket[0], bracket[1])
    margin = 0.1 * (right - left)
    if min(right - t, t - left) >= margin:
        return t, False
    if not (stuck or t >= right or t <= left):
        return t, True
    return (right - margin if abs(t - right) < abs(t - left) else left + margin), False
