"""What `vmap(grad(f))` saves over a Python loop, and over PyTorch where it is installed, in the same run.

    python benchmarks/func.py [--samples 1000] [--rounds 5] [--json out/func.json]

Gradients per sample of a small MLP (20-32-32-1, float32), one thread. Each figure is the best of several rounds; the
loop is run once.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any


def measure(package: Any, samples: int, rounds: int) -> dict[str, float]:
    """Return seconds for all samples: at once, and one after another."""
    func = importlib.import_module(package.__name__ + ".func")
    package.manual_seed(0)
    sizes = (20, 32, 32, 1)
    params = {}
    for i, (n, m) in enumerate(pairwise(sizes)):
        params[f"w{i}"] = package.randn(n, m) * 0.2
        params[f"b{i}"] = package.zeros(m)
    x, y = package.randn(samples, 20), package.randn(samples)

    def loss(params: Any, x: Any, y: Any) -> Any:
        h = package.tanh(x @ params["w0"] + params["b0"])
        h = package.tanh(h @ params["w1"] + params["b1"])
        return ((h @ params["w2"] + params["b2"]).squeeze(-1) - y) ** 2

    one = func.grad(loss)
    together = func.vmap(one, in_dims=(None, 0, 0))
    found = together(params, x, y)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        together(params, x, y)
        times.append(time.perf_counter() - start)
    one(params, x[0], y[0])
    start = time.perf_counter()
    rows = [one(params, x[i], y[i]) for i in range(samples)]
    loop = time.perf_counter() - start
    for name, value in found.items():
        assert package.allclose(value, package.stack([r[name] for r in rows]), rtol=1e-3, atol=1e-4), name
    return {"vmap": min(times), "loop": loop}


def main() -> None:
    """Print a table of seconds and ratios; write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    names = ["sapwood"] + (["torch"] if importlib.util.find_spec("torch") else [])
    results: dict[str, Any] = {"samples": given.samples, "python": sys.version.split()[0]}
    print(f"gradients of {given.samples} samples{'vmap':>14}{'loop':>12}{'loop / vmap':>14}")
    for name in names:
        package = importlib.import_module(name)
        if name == "torch":
            package.set_num_threads(1)
        found = results[name] = measure(package, given.samples, given.rounds)
        vmap, loop = found["vmap"], found["loop"]
        print(f"{name:<26}{vmap * 1e3:>11.1f} ms{loop * 1e3:>9.0f} ms{loop / vmap:>14.0f}")
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
