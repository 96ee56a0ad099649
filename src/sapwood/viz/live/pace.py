"""How often to look, so that looking stays within a share of the time."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

__all__ = ["Pace"]

# Medians of a few: one interrupted step or one pause for validation does not change the pace.
REMEMBERED = 5


class Pace:
    """Says after how many steps to look again.

        period = cost of one look / (share · seconds per step)

    Args:
        share: of the time that looking may take, between 0 and 1.
        every: a fixed number of steps instead.
    """

    def __init__(self, share: float, every: int | None = None) -> None:
        self.share, self.every = share, every
        self._costs: deque[float] = deque(maxlen=REMEMBERED)
        self._steps: deque[float] = deque(maxlen=REMEMBERED)

    def period(self, cost: float, step: float) -> int:
        """Return the number of steps until the next look.

        Args:
            cost: seconds that this look took.
            step: seconds of a step without looking; 0 while that is not known.
        """
        if self.every is not None:
            return self.every
        self._costs.append(cost)
        if step > 0:
            self._steps.append(step)
        if not self._steps:
            return 1
        return max(1, math.ceil(median(self._costs) / (self.share * median(self._steps))))
