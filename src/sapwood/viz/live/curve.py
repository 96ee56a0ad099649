"""Curves and histograms over time in bounded memory: what no longer fits is merged or thinned."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from typing import Any

import numpy as np

__all__ = ["Curve", "Ridge", "sound"]

BINS = 32


def sound(number: float) -> float | None:
    """Return a number with the digits that a picture shows; None where JSON has no such number."""
    return float(f"{number:.6g}") if math.isfinite(number) else None


class Curve:
    """Values by step, at most `limit` points; when they are full, neighbours are merged in pairs.

    A point holds the last step, the mean, the least and the greatest of the values merged in it. A value that is not
    finite makes the mean so, until a JSON reader sees None.
    """

    def __init__(self, limit: int = 2000) -> None:
        self.limit, self.stride, self.rebuilt = limit - limit % 2, 1, 0
        self.latest = self.latest_step = math.nan
        self.changed = 0
        self._points = tuple(array("d") for _ in range(4))
        self._versions = array("q")
        self._count, self._sum, self._low, self._high = 0, 0.0, math.inf, -math.inf

    def __len__(self) -> int:
        return len(self._versions)

    def add(self, step: float, value: float, version: int) -> None:
        """Add a value.

        Args:
            version: number of this change, never smaller than an earlier one.
        """
        self.latest_step, self.latest, self.changed = step, value, version
        self._count += 1
        self._sum += value
        # Comparisons with NaN are false; an infinity is not shown.
        if value < self._low:
            self._low = value
        if value > self._high:
            self._high = value
        if self._count < self.stride:
            return
        steps, means, lows, highs = self._points
        steps.append(step)
        means.append(self._sum / self._count)
        lows.append(self._low)
        highs.append(self._high)
        self._versions.append(version)
        self._count, self._sum, self._low, self._high = 0, 0.0, math.inf, -math.inf
        if len(self._versions) >= self.limit:
            self._merge(version)

    def extend(self, steps: list[int], values: list[float], version: int) -> None:
        """Add many values, of which those that fill whole points are merged at once."""
        done = 0
        while done < len(values):
            points = min((len(values) - done) // self.stride, self.limit - len(self))
            if self._count or points < 2:
                self.add(steps[done], values[done], version)
                done += 1
                continue
            end = done + points * self.stride
            some = np.array(values[done:end]).reshape(points, self.stride)
            last = np.array(steps[done:end], float)[self.stride - 1 :: self.stride]
            for column, new in zip(self._points, (last, some.mean(1), some.min(1), some.max(1))):
                column.frombytes(new.tobytes())
            self._versions.extend([version] * points)
            self.latest_step, self.latest, self.changed = steps[end - 1], values[end - 1], version
            done = end
            if len(self) >= self.limit:
                self._merge(version)

    def _merge(self, version: int) -> None:
        steps, means, lows, highs = self._points
        pairs = range(0, len(self), 2)
        self._points = (
            steps[1::2],
            array("d", [(means[i] + means[i + 1]) / 2 for i in pairs]),
            array("d", [min(lows[i], lows[i + 1]) for i in pairs]),
            array("d", [max(highs[i], highs[i + 1]) for i in pairs]),
        )
        self._versions = array("q", [version]) * len(steps[1::2])
        self.stride *= 2
        self.rebuilt = version

    def since(self, version: int) -> dict[str, Any] | None:
        """Return what changed after `version` as plain data, None if nothing did; all points if some were merged."""
        if self.changed <= version:
            return None
        whole = self.rebuilt > version
        first = 0 if whole else bisect_right(self._versions, version)
        steps, means, lows, highs = ([sound(x) for x in column[first:]] for column in self._points)
        return {
            "whole": whole or first == 0,
            "steps": steps,
            "mean": means,
            "low": lows,
            "high": highs,
            "latest": [sound(self.latest_step), sound(self.latest)],
        }


class Ridge:
    """Histograms by step, at most `limit`; when they are full, every second one goes and half as many are kept."""

    def __init__(self, limit: int = 40) -> None:
        self.limit, self.stride, self.rebuilt = limit, 1, 0
        self.rows: list[dict[str, Any]] = []
        self._versions: list[int] = []
        self._seen = 0

    def add(self, step: int, values: Any, version: int) -> None:
        """Add the histogram of some values; those that are not finite are counted apart."""
        self._seen += 1
        if (self._seen - 1) % self.stride:
            return
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
        # Halves, whose difference is finite whatever the ends are.
        width = (high / 2 - low / 2) / BINS
        place = (finite / 2 - low / 2) / width if width > 0 else np.zeros(finite.size)
        counts = np.bincount(np.minimum(place.astype(np.int64), BINS - 1), minlength=BINS)
        odd = int(values.size - finite.size)
        self.rows.append({"step": step, "low": sound(low), "high": sound(high), "counts": counts.tolist(), "odd": odd})
        self._versions.append(version)
        if len(self.rows) >= self.limit:
            del self.rows[1::2], self._versions[1::2]
            self.stride *= 2
            self.rebuilt = version

    def since(self, version: int) -> dict[str, Any] | None:
        """Return the histograms after `version` as plain data, None if there are none; all if some were dropped."""
        whole = self.rebuilt > version
        first = 0 if whole else bisect_right(self._versions, version)
        return {"whole": whole or first == 0, "rows": self.rows[first:]} if first < len(self.rows) else None
