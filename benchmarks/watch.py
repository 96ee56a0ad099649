"""What watching a training costs: the same steps with and without a watch, taking turns in one process.

    python benchmarks/watch.py [--rounds 20] [--seconds 2] [--page]

A round trains for so many seconds without a watch and with one, the one and the other first in turn. What is printed is
the best round of each compared (a busy machine only makes rounds longer), the median over the pairs, and the share that
the watch measures of itself. Processor time is that of all threads. With `--page` a thread fetches the news as an open
page does, which is work for this process too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import urllib.request
from collections.abc import Callable
from itertools import pairwise
from time import perf_counter, process_time
from typing import Any

from training import training_step

import sapwood
from sapwood import nn
from sapwood.viz.watch import Watch, watch


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


def steps_in(seconds: float, step: Callable[[], object], seen: Watch | None) -> tuple[float, float]:
    """Return seconds per step by the clock and of processor time; a loss is logged at every step."""
    begin, used, n = perf_counter(), process_time(), 0
    while (now := perf_counter()) - begin < seconds:
        step()
        n += 1
        if seen is not None:
            seen.log(loss=0.5)
    return (now - begin) / n, (process_time() - used) / n


def compared(name: str, rounds: int, seconds: float, page: bool) -> None:
    model, optimizer, step = CASES[name]()
    steps_in(seconds, step, None)
    times: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    shares = []
    for k in range(rounds):
        took = {}
        for watched in (False, True) if k % 2 else (True, False):
            if not watched:
                took[watched] = steps_in(seconds, step, None)
                continue
            with watch(model, optimizer) as seen:
                reader = Reader(seen.url) if page else None
                # The first looks allocate, and the pace is found.
                steps_in(0.3, step, seen)
                took[watched] = steps_in(seconds, step, seen)
                shares.append(seen.cost)
                if reader is not None:
                    reader.stop()
        for watched, figures in times.items():
            figures.append(took[watched])
    pairs = [100 * a[0] / b[0] - 100 for a, b in zip(times[True], times[False])]
    # What the median of other rounds would be: its standard error, from the quartiles.
    low, middle, high = statistics.quantiles(pairs, n=4)
    error = 1.25 * (high - low) / 1.35 / len(pairs) ** 0.5
    best = [100 * min(t[i] for t in times[True]) / min(t[i] for t in times[False]) - 100 for i in (0, 1)]
    alone = 1e3 * min(t[0] for t in times[False])
    print(
        f"{name:33} {alone:7.3f} ms/step  best by the clock {best[0]:+.2f} %, of processor time {best[1]:+.2f} %  "
        f"median of pairs {middle:+.2f} ± {error:.2f} %  own figure {100 * statistics.median(shares):.2f} %",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--case", choices=CASES)
    chosen = parser.parse_args()
    for name in [chosen.case] if chosen.case else CASES:
        compared(name, chosen.rounds, chosen.seconds, chosen.page)


if __name__ == "__main__":
    main()
