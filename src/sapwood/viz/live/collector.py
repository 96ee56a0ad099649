"""The part that runs in the training thread: the hooks of the optimizer, which look at every k-th step."""

from __future__ import annotations

import math
import weakref
from collections import deque
from time import perf_counter
from typing import Any

import numpy as np

from sapwood.viz.live.norms import drawn, norm, odd
from sapwood.viz.live.pace import Pace

__all__ = ["Collector"]

# Shares of the time. 2 % are promised; a look costs about twice what it measures of itself, since it drives the weights
# of the next step out of the caches, and the steps between and logging need their part (benchmarks/watch.py).
SHARE, HISTOGRAM_SHARE = 0.002, 0.0005
# What waits for the background thread; the oldest goes when it cannot follow.
WAITING = 65_536


class Collector:
    """Knows the parameters, counts steps, and holds what was seen until the background thread fetches it.

    Attributes:
        step: steps taken so far; with several optimizers, by the one that took most.
        events: what was seen; the first of each tuple says what it is.
        logs: (step, values by name) that the program has logged.
        spent: seconds that watching has cost in the training thread.
        background: seconds that a look and a histogram take in the background thread, which writes them here.
    """

    def __init__(self, model: Any, *, every: int | None, histogram_every: int | None) -> None:
        self.names: list[str] = []
        self.shapes: list[tuple[int, ...]] = []
        self.places: dict[int, int] = {}
        # Kept alive, so that no other object gets the number of one that is gone.
        self._parameters: list[Any] = []
        for name, parameter in model.named_parameters():
            self.places[id(parameter)] = len(self.names)
            self._parameters.append(parameter)
            self.names.append(name)
            self.shapes.append(tuple(parameter.shape))
        self.every, self.histogram_every = every, histogram_every
        self.step, self.looks = 0, 0
        self.events: deque[tuple[Any, ...]] = deque(maxlen=WAITING)
        self.logs: deque[tuple[int, dict[str, float]]] = deque(maxlen=WAITING)
        self.spent, self.background = 0.0, (0.0, 0.0)
        self.lanes: weakref.WeakKeyDictionary[Any, Lane] = weakref.WeakKeyDictionary()
        self.alarmed = self.stopped = False

    def owns(self, optimizer: Any) -> bool:
        """Tell whether an optimizer changes a parameter that is known."""
        return any(id(p) in self.places for group in optimizer.param_groups for p in group["params"])

    def lane(self, optimizer: Any) -> Lane:
        """Return what follows one optimizer."""
        found = self.lanes.get(optimizer)
        if found is None:
            found = self.lanes[optimizer] = Lane(self)
        return found

    def stop(self) -> None:
        """Look at nothing any more and let go of the parameters."""
        self.stopped = True
        for lane in list(self.lanes.values()):
            lane.stop()
        self._parameters, self.places = [], {}


class Lane:
    """Follows one optimizer: counts its steps, and takes the norms at every k-th.

    Only the hook after the step is always there; the one before it, which keeps the weights, comes for the steps to
    look at, because the machinery of a hook costs as much as that of a small op.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.steps = 0
        self._pace = Pace(SHARE, collector.every)
        self._histogram_pace = Pace(HISTOGRAM_SHARE, collector.histogram_every)
        self._due, self._histogram_due = collector.every or 1, collector.histogram_every or 1
        self._handle: Any = None
        self._kept: dict[int, Any] = {}
        self._looking: Any = None
        self._ended, self._ended_step, self._before = perf_counter(), 0, 0.0
        self._healthy = 0

    def prepare(self, optimizer: Any) -> None:
        """Have the weights kept, if the next step is one to look at."""
        if self.steps + 1 >= self._due and self._handle is None and not self._collector.stopped:
            self._handle = optimizer.register_step_pre_hook(self.before)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.remove()
        self._looking, self._kept = None, {}

    def before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Keep the weights."""
        begin = perf_counter()
        self._handle.remove()
        self._handle = None
        known = self._collector.places
        looking = []
        for group in optimizer.param_groups:
            for p in group["params"]:
                i = known.get(id(p))
                if i is None:
                    continue
                array, kept = p._array, self._kept.get(i)
                if kept is None or kept.shape != array.shape or kept.dtype != array.dtype:
                    kept = self._kept[i] = np.empty_like(array)
                np.copyto(kept, array)
                looking.append((i, p, kept))
        self._looking = looking
        self._before = perf_counter() - begin

    def after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Count the step, and look at what it did if it is one to look at."""
        self.steps += 1
        collector = self._collector
        if self.steps > collector.step:
            collector.step = self.steps
        if self._looking is not None:
            with np.errstate(all="ignore"):
                self._look(self._looking, perf_counter())
            self._looking = None
        if self.steps + 1 >= self._due:
            self.prepare(optimizer)

    def _look(self, looking: Any, begin: float) -> None:
        collector, step = self._collector, self.steps
        rows = []
        healthy = True
        for i, p, _ in looking:
            weight = norm(p._array)
            gradient = math.nan if p._grad is None else norm(p._grad._array)
            healthy = healthy and math.isfinite(weight) and (p._grad is None or math.isfinite(gradient))
            rows.append([i, gradient, weight, math.nan])
        if healthy:
            self._healthy = step
        elif not collector.alarmed:
            collector.alarmed = True
            collector.events.append(("alarm", *self._blame(looking, rows)))
        for row, (_, p, kept) in zip(rows, looking):
            np.subtract(p._array, kept, out=kept)
            row[3] = norm(kept)
        collector.looks += 1
        collector.events.append(("look", step, rows))
        middle = perf_counter()
        histogram = step >= self._histogram_due
        if histogram:
            drawings = [(i, drawn(p._array), None if p._grad is None else drawn(p._grad._array)) for i, p, _ in looking]
            collector.events.append(("histogram", step, drawings))
        end = perf_counter()
        own = self._before + end - begin
        collector.spent += own
        # Of the steps since the last look, without the looks; optimizers that take turns share what is allowed.
        seconds = (end - self._ended - own) / (step - self._ended_step) if self._ended_step else 0.0
        seconds /= len(collector.lanes)
        self._ended, self._ended_step = end, step
        look, drawing = collector.background
        self._due = step + self._pace.period(self._before + middle - begin + look, seconds)
        if histogram:
            self._histogram_due = step + self._histogram_pace.period(end - middle + drawing, seconds)

    def _blame(self, looking: Any, rows: Any) -> tuple[Any, ...]:
        """Return where the first value that is not finite is: weights before the step, gradients, weights after it.

        Among gradients the last parameter is named: backward reaches it first.
        """
        before = [(i, odd(kept)) for i, _, kept in looking if not math.isfinite(norm(kept))]
        gradients = [(i, odd(p._grad._array)) for i, p, _ in reversed(looking) if p._grad is not None]
        gradients = [(i, found) for i, found in gradients if found[0]]
        after = [(i, odd(p._array)) for (i, p, _), row in zip(looking, rows) if not math.isfinite(row[2])]
        what, places = next((w, p) for w, p in (("weight", before), ("gradient", gradients), ("weight", after)) if p)
        (i, (value, count)) = places[0]
        when = self.steps - 1 if places is before else self.steps
        return what, self._collector.names[i], value, count, len(places) - 1, when, self._healthy
