"""What a call, a graph and a step cost: Sapwood beside PyTorch, in the same run, taking turns.

    python benchmarks/overhead.py [--rounds 5] [--json out/overhead.json]

Every figure is the best of several rounds of alternating processes; the ratio is peer time / our time. Without PyTorch
in the environment only our column is printed.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import platform
import resource
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

from workloads import WORKLOADS

HERE = Path(__file__).resolve().parent
BARS = {"recorded_multiply": 3.0, "seed_graph": 4.0, "chain_of_100": 2.0, "regression_step": 2.0}
"""The least ratio that each workload is meant to reach."""


def once(module: str, name: str) -> float:
    """Return the seconds per iteration of one workload in a process of its own."""
    result = subprocess.run(
        [sys.executable, str(HERE / "workloads.py"), module, name], capture_output=True, text=True, check=True
    )
    return float(result.stdout)


def import_milliseconds(module: str, after: str = "") -> float:
    """Return the milliseconds that importing a module takes in a fresh interpreter, after another import."""
    code = f"import time\n{after}\nt = time.perf_counter()\nimport {module}\nprint(time.perf_counter() - t)"
    # As users have it: with compiled bytecode, which the first of several imports leaves behind.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    return 1e3 * float(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout)


def growth_in_kilobytes(steps: int = 10_000) -> float:
    """Return how much the process grows over training steps with the garbage collector off."""
    from workloads import mlp_step

    import sapwood

    step = mlp_step(sapwood)
    gc.collect()
    gc.disable()
    for _ in range(200):
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(steps):
        step()
    gc.enable()
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def measure(rounds: int, peer: str | None) -> list[dict[str, Any]]:
    """Return a row per workload: ours and the peer's microseconds."""
    rows = []
    for workload in WORKLOADS:
        name = workload.__name__
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(once("sapwood", name))
            if peer and name != "numpy_multiply":
                theirs.append(once(peer, name))
        row: dict[str, Any] = {"workload": name, "ours_us": 1e6 * min(ours)}
        if theirs:
            row |= {"torch_us": 1e6 * min(theirs), "ratio": min(theirs) / min(ours), "bar": BARS.get(name)}
        rows.append(row)
        print(_line(row), flush=True)
    return rows


def _line(row: dict[str, Any]) -> str:
    theirs = f"{row['torch_us']:10.2f} | {row['ratio']:6.2f}" if "ratio" in row else f"{'':10s} | {'':6s}"
    bar = f"{row['bar']:4.1f}" if row.get("bar") else "    "
    return f"| {row['workload']:18s} | {row['ours_us']:10.2f} | {theirs} | {bar} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("out/overhead.json"))
    options = parser.parse_args()
    peer = "torch" if importlib.util.find_spec("torch") else None
    print(f"{date.today()}, Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    print("| workload           |   ours, µs |  torch, µs |  ratio |  bar |")
    print("|--------------------|------------|------------|--------|------|")
    rows = measure(options.rounds, peer)
    imports = {"sapwood_after_numpy_ms": min(import_milliseconds("sapwood", "import numpy") for _ in range(5))}
    if peer:
        imports["torch_after_numpy_ms"] = min(import_milliseconds(peer, "import numpy") for _ in range(3))
    growth = growth_in_kilobytes()
    print(", ".join(f"{k} {v:.1f}" for k, v in imports.items()), f"| 10,000 steps without collector: +{growth:.0f} kB")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"rows": rows, **imports, "growth_kb": growth}, indent=1))


if __name__ == "__main__":
    main()
