"""What the page knows about a run: filled by the background thread, read by the requests, bounded in size."""

from __future__ import annotations

import math
import threading
from collections import deque
from time import monotonic, thread_time
from typing import Any

from sapwood.viz.live.curve import Curve, Ridge, sound

__all__ = ["Record"]

METRIC_POINTS, LAYER_POINTS = 2000, 400
# The rate that is shown is that of the last ten seconds.
RECENT = 10.0
# More metrics or alarms than anyone reads are a mistake in the program, not something to keep.
METRICS, ALARMS = 64, 16
NORMS = ("gradient", "weight", "ratio")


class Record:
    """Curves, histograms, alarms and progress of one run.

    Attributes:
        changed: the condition that is notified when there is something new; its lock guards all the rest.
        version: number of the latest change.
        ended: None while the run goes on, then why it ended.
    """

    def __init__(self, title: str, names: list[str], shapes: list[tuple[int, ...]], total: int | None) -> None:
        self.changed = threading.Condition()
        self.version = 1
        self.title, self.names, self.shapes, self.total = title, names, shapes, total
        self.ended: str | None = None
        self.step, self.cost = 0, 0.0
        self.metrics: dict[str, Curve] = {}
        self.layers: list[dict[str, Curve]] = []
        self.ridges: list[dict[str, Ridge]] = []
        self.alarms: list[dict[str, Any]] = []
        self.seconds: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        self._odd: set[str] = set()
        self._begin = monotonic()
        self._end: float | None = None
        self._pace: deque[tuple[float, int]] = deque([(self._begin, 0)])

    def absorb(self, events: list[Any], logs: list[Any], step: int, cost: float) -> None:
        """Take in what the training thread has left.

        Args:
            step: the number of steps now.
            cost: the share of the time that watching has taken so far.
        """
        with self.changed:
            if not events and not logs and step == self.step:
                return
            self.version += 1
            self.step, self.cost = step, cost
            now = monotonic()
            self._pace.append((now, step))
            while len(self._pace) > 2 and now - self._pace[0][0] > RECENT:
                self._pace.popleft()
            while len(self.layers) < len(self.names):
                self.layers.append({kind: Curve(LAYER_POINTS) for kind in NORMS})
                self.ridges.append({"weight": Ridge(), "gradient": Ridge()})
            for event in events:
                kind, begin = event[0], thread_time()
                getattr(self, "_" + kind)(*event[1:])
                self.seconds[kind] = self.seconds.get(kind, 0.0) + thread_time() - begin
                self.counts[kind] = self.counts.get(kind, 0) + 1
            self._log(logs)
            self.changed.notify_all()

    def seconds_each(self, kind: str) -> float:
        """Return the processor time that one event of a kind has taken here on average."""
        return self.seconds.get(kind, 0.0) / self.counts.get(kind, 1)

    def end(self, why: str) -> None:
        """Note that the run is over; the first reason stays."""
        with self.changed:
            if self.ended is None:
                self.version += 1
                self.ended, self._end = why, monotonic()
            self.changed.notify_all()

    def _look(self, step: int, rows: list[list[Any]]) -> None:
        for i, gradient, weight, change in rows:
            layer = self.layers[i]
            layer["gradient"].add(step, gradient, self.version)
            layer["weight"].add(step, weight, self.version)
            layer["ratio"].add(step, change / weight if weight else math.nan, self.version)

    def _log(self, logs: list[tuple[int, dict[str, float]]]) -> None:
        columns: dict[str, tuple[list[int], list[float]]] = {}
        for step, values in logs:
            for name, value in values.items():
                column = columns.get(name)
                if column is None:
                    column = columns[name] = [], []
                column[0].append(step)
                column[1].append(value)
        for name, (steps, numbers) in columns.items():
            curve = self.metrics.get(name)
            if curve is None:
                if len(self.metrics) >= METRICS:
                    continue
                curve = self.metrics[name] = Curve(METRIC_POINTS)
            if name not in self._odd:
                bad = next((k for k, x in enumerate(numbers) if not math.isfinite(x)), None)
                if bad is not None:
                    self._odd.add(name)
                    what = "NaN" if math.isnan(numbers[bad]) else "infinity"
                    self._alarm("metric", name, what, 1, 0, steps[bad], 0)
            curve.extend(steps, numbers, self.version)

    def _alarm(self, *found: Any) -> None:
        if len(self.alarms) < ALARMS:
            keys = ("what", "name", "value", "elements", "others", "step", "healthy")
            self.alarms.append(dict(zip(keys, found)) | {"text": told(*found)})

    def _histogram(self, step: int, drawings: list[Any]) -> None:
        for i, weights, gradients in drawings:
            self.ridges[i]["weight"].add(step, weights, self.version)
            if gradients is not None:
                self.ridges[i]["gradient"].add(step, gradients, self.version)

    def rate(self) -> float:
        """Return steps per second of late; 0 while that is not known."""
        (then, before), (now, after) = self._pace[0], self._pace[-1]
        return (after - before) / (now - then) if now > then else 0.0

    def wait(self, version: int, seconds: float) -> None:
        """Return when something is newer than `version`, or after some seconds."""
        with self.changed:
            self.changed.wait_for(lambda: self.version > version or self.ended is not None, seconds)

    def since(self, version: int) -> dict[str, Any]:
        """Return what changed after `version` as plain data; everything if it is 0."""
        with self.changed:
            rate = self.rate()
            left = None if self.total is None or not rate else max(0, self.total - self.step) / rate
            told: dict[str, Any] = {
                "version": self.version,
                "step": self.step,
                "total": self.total,
                "rate": sound(rate),
                "left": None if left is None else sound(left),
                "elapsed": sound((self._end or monotonic()) - self._begin),
                "cost": sound(self.cost),
                "ended": self.ended,
                "alarms": list(self.alarms),
                "metrics": {n: new for n, c in self.metrics.items() if (new := c.since(version))},
                "layers": _news(self.layers, version),
                "histograms": _news(self.ridges, version),
            }
            if version == 0:
                told |= {"title": self.title, "names": self.names, "shapes": self.shapes}
            return told


def _news(layers: list[Any], version: int) -> dict[str, Any]:
    """Return what changed in curves or histograms by the layer's number and the kind, without what did not."""
    found = {
        str(i): {kind: new for kind, kept in kinds.items() if (new := kept.since(version))}
        for i, kinds in enumerate(layers)
    }
    return {i: news for i, news in found.items() if news}


def told(what: str, name: str, value: str, elements: int, others: int, step: int, healthy: int) -> str:
    """Return an alarm in words: what was found, where, at which step, and how long ago all was well."""
    place = name if what == "metric" else f"the gradient of {name}" if what == "gradient" else f"parameter {name}"
    text = f"{value} in {place} at step {step}"
    if elements > 1:
        text += f", in {elements} elements"
    if others:
        text += f", and in {others} more parameter{'s' if others > 1 else ''}"
    if what == "metric":
        return text + "."
    if healthy >= step - 1:
        return text + "."
    return text + (f"; at step {healthy} all was finite." if healthy else "; nobody had looked before.")
