"""Workloads in PyTorch's vocabulary: `python workloads.py MODULE NAME` prints the best seconds per iteration.

One process measures one workload with one module, so that two modules can take turns on a shared machine.
"""

from __future__ import annotations

import gc
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

Step = Callable[[], object]


def numpy_multiply(t: Any) -> Step:
    import numpy as np

    a, b = np.ones(1, np.float32), np.ones(1, np.float32)
    return lambda: np.multiply(a, b)


def recorded_multiply(t: Any) -> Step:
    w, x = t.tensor([1.0], requires_grad=True), t.tensor([2.0], requires_grad=True)
    return lambda: w * x


def plain_multiply(t: Any) -> Step:
    w, x = t.tensor([1.0]), t.tensor([2.0])
    return lambda: w * x


def seed_graph(t: Any) -> Step:
    w, x = t.tensor([1.0], requires_grad=True), t.tensor([2.0], requires_grad=True)

    def step() -> None:
        y = t.mul(t.add(w, x), t.add(w, 1))
        y.backward()
        w.grad = x.grad = None

    return step


def chain_of_100(t: Any) -> Step:
    w, x = t.tensor([1.0], requires_grad=True), t.tensor([1.01], requires_grad=True)

    def step() -> None:
        y = w
        for _ in range(100):
            y = y * x
        y.backward()
        w.grad = x.grad = None

    return step


def regression_step(t: Any) -> Step:
    t.manual_seed(100)
    x = t.unsqueeze(t.linspace(-1, 1, 100), dim=1)
    y = 3 * x.pow(2) + 2 + 0.2 * t.rand(x.size())
    w, b = t.randn(1, 1, requires_grad=True), t.zeros(1, 1, requires_grad=True)

    def step() -> None:
        loss = ((y - (w * x.pow(2) + b)) ** 2).sum()
        loss.backward()
        with t.no_grad():
            w.sub_(0.001 * w.grad)
            b.sub_(0.001 * b.grad)
            w.grad.zero_()
            b.grad.zero_()

    return step


def mlp_step(t: Any) -> Step:
    nn = t.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = t.optim.Adam(model.parameters(), lr=1e-3)
    x, y = t.randn(64, 64), t.arange(64) % 10

    def step() -> None:
        optimizer.zero_grad()
        t.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


WORKLOADS = (
    numpy_multiply,
    recorded_multiply,
    plain_multiply,
    seed_graph,
    chain_of_100,
    regression_step,
    mlp_step,
)


def best_seconds(step: Step, seconds: float = 0.6) -> float:
    """Return the least time per iteration over many short rounds, garbage collector as the user has it."""
    for _ in range(3):
        step()
    rounds = 1
    while True:
        begin = time.perf_counter()
        for _ in range(rounds):
            step()
        took = time.perf_counter() - begin
        if took > seconds / 30:
            break
        rounds *= 2
    best = took / rounds
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(rounds):
            step()
        best = min(best, (time.perf_counter() - begin) / rounds)
    return best


def main() -> None:
    module, name = sys.argv[1:3]
    t = importlib.import_module(module)
    for part in ("nn", "nn.functional", "optim"):
        importlib.import_module(f"{module}.{part}")
    t.manual_seed(0)
    step = {w.__name__: w for w in WORKLOADS}[name](t)
    gc.collect()
    print(best_seconds(step))


if __name__ == "__main__":
    main()
