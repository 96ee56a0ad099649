"""What watching a training costs: the same steps with and without a watch, taking turns in one process.

    python benchmarks/watch.py [--seconds 40] [--page]

One training runs in blocks of some hundredths of a second, every second one of them without the hooks of its watch and
without logging, so that whatever else the machine does meets both kinds. How often it is looked at is what the watch
finds for a training that runs by itself. Printed is the mean over pairs of blocks with its standard error, without
pairs in which a block was interrupted (1.5 times the median), and the share that the watch measures of itself, in all
its threads and with the beginning, when the training runs by itself. With `--page` a thread fetches the news as an
open page does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import urllib.request
from collections.abc import Callable
from itertools import pairwise
from time import perf_counter
from typing import Any

from training import training_step

import sapwood
from sapwood import nn
from sapwood.viz import Watch, watch


def mlp(widths: list[int], batch: int) -> tuple[Any, Any, Callable[[], object]]:
    layers: list[Any] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    x, y = sapwood.randn(batch, widths[0]), sapwood.randint(0, widths[-1], (batch,))
    optimizer = sapwood.optim.Adam(model.parameters(), lr=1e-4)
    return model, optimizer, training_step(sapwood, model, x, y, optimizer)


CASES: dict[str, Callable[[], tuple[Any, Any, Callable[[], object]]]] = {
    "MLP 8-32-10, batch 32": lambda: mlp([8, 32, 10], 32),
    "MLP 64-128-64-10, batch 64": lambda: mlp([64, 128, 64, 10], 64),
    "MLP 256-256-256-10, batch 128": lambda: mlp([256, 256, 256, 10], 128),
    "MLP 784-512-512-10, batch 128": lambda: mlp([784, 512, 512, 10], 128),
    "MLP of 20 layers of 64, batch 64": lambda: mlp([64] * 21, 64),
}


class Reader:
    """Fetches news until told to stop."""

    def __init__(self, url: str) -> None:
        self.url, self.stopped = url, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        version = 0
        while not self.stopped:
            with urllib.request.urlopen(f"{self.url}data?since={version}") as answer:
                version = json.loads(answer.read())["version"]

    def stop(self) -> None:
        self.stopped = True


def block(step: Callable[[], object], n: int, seen: Watch | None) -> float:
    """Return the seconds that some steps take; a loss is logged at every step."""
    begin = perf_counter()
    if seen is None:
        for _ in range(n):
            step()
    else:
        for _ in range(n):
            step()
            seen.log(loss=0.5)
    return perf_counter() - begin


def alone(name: str, seconds: float) -> tuple[int, int, float, float]:
    """Return the steps between looks and between histograms, the watch's own figure, and the seconds per step."""
    model, optimizer, step = CASES[name]()
    with watch(model, optimizer) as seen:
        begin, n = perf_counter(), 0
        while perf_counter() - begin < seconds:
            step()
            seen.log(loss=0.5)
            n += 1
        took = perf_counter() - begin
        drawn = max(1, seen._record.counts.get("histogram", 1))
        return max(1, n // seen._collector.looks), max(1, n // drawn), seen.cost, took / n


def compared(name: str, seconds: float, page: bool) -> None:
    every, histogram_every, own, each = alone(name, min(10.0, seconds))
    model, optimizer, step = CASES[name]()
    # Histograms are taken at steps that are looked at; a block has at least one look.
    histogram_every = -(-histogram_every // every) * every
    n = every * (int(0.03 / each / every) + 1)
    pairs = []
    with watch(model, optimizer, every=every, histogram_every=histogram_every) as seen:
        reader = Reader(seen.url) if page else None
        block(step, n, seen)
        begin = perf_counter()
        while perf_counter() - begin < seconds:
            took = {}
            for watched in (True, False) if len(pairs) % 2 else (False, True):
                hooks = optimizer._pre.copy(), optimizer._post.copy()
                if not watched:
                    optimizer._pre.clear()
                    optimizer._post.clear()
                took[watched] = block(step, n, seen if watched else None)
                if not watched:
                    optimizer._pre.update(hooks[0])
                    optimizer._post.update(hooks[1])
            pairs.append((took[False], took[True]))
        if reader is not None:
            reader.stop()
    limits = [1.5 * statistics.median(times) for times in zip(*pairs)]
    kept = [100 * b / a - 100 for a, b in pairs if a < limits[0] and b < limits[1]]
    error = statistics.stdev(kept) / len(kept) ** 0.5
    mean, median = statistics.mean(kept), 1e3 * statistics.median(a for a, _ in pairs) / n
    print(
        f"{name:33} {median:7.3f} ms/step, looks every {every}, histograms every {histogram_every} steps: "
        f"{mean:+.2f} ± {error:.2f} % ({len(kept)} of {len(pairs)} pairs), own figure {100 * own:.2f} %",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--case", choices=CASES)
    chosen = parser.parse_args()
    for name in [chosen.case] if chosen.case else CASES:
        compared(name, chosen.seconds, chosen.page)


if __name__ == "__main__":
    main()
