"""What the engine adds to the formulas: backward through a chain, per node, less the NumPy calls the formulas make.

    python benchmarks/engine.py [--nodes 1000] [--rounds 300]

The chain is y = y * x with x and the first y requiring grad; a node's formulas are two multiplications of one element,
timed on their own in the same rounds. Best of the rounds, in microseconds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import sapwood


def main() -> None:
    """Print the time per node in all, of the formulas, and the difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    w = sapwood.tensor([1.0], requires_grad=True)
    x = sapwood.tensor([1.0], requires_grad=True)
    g, a, b = (np.ones(1, np.float32) for _ in range(3))
    multiply = np.multiply
    whole = formulas = np.inf
    for _ in range(options.rounds):
        y = w
        for _ in range(options.nodes):
            y = y * x
        begin = time.perf_counter()
        y.backward()
        whole = min(whole, time.perf_counter() - begin)
        w.grad = x.grad = None
        begin = time.perf_counter()
        for _ in range(options.nodes):
            multiply(g, a)
            multiply(g, b)
        formulas = min(formulas, time.perf_counter() - begin)
    each, own = (1e6 * t / options.nodes for t in (whole, formulas))
    print(f"backward {each:.2f} µs a node, formulas on NumPy {own:.2f} µs, the engine's own {each - own:.2f} µs")


if __name__ == "__main__":
    main()
