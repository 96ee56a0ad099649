"""Measure the vector maths: largest error in units in the last place (ulp), and time per element.

    python benchmarks/maths_ulp.py [NAME …] [--points N] [--no-time]

float32: a sample of all 2^32 numbers (`maths_scan.py` takes every one of them), against NumPy and SciPy in double.
float64: random numbers of every size and dense ones where the function changes, against mpmath. An error counts in
units of the last place of the true result; a wrong NaN, infinity or zero sign counts as infinite.
Times are those of one thread on 4 k elements in cache: per element, the best of many runs; beside them that of twenty
dependent multiply-adds, as a measure of the machine.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "kernels"))
from exact import FUNCTIONS, KINDS, operands, truth, ulps
from plain_loop import Loop

from sapwood.kernels import formulas
from sapwood.kernels.scalar import fma


def measure_error(name: str, dtype: str, step: int, count: int) -> tuple[float, tuple[float, ...]]:
    """Return the largest error of a function in ulp, and where it is."""
    double, exact, intervals = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    run = Loop(getattr(formulas, name), *[dtype] * (1 + (name in ("pow", "atan2"))))
    worst, where = -1.0, (0.0,)
    with np.errstate(all="ignore"):
        for row in operands(name, dtype, step, count, intervals, rng):
            got = run(*row)
            single = dtype == "f32"
            want = double(*(x.astype(np.float64) for x in row)) if single else truth(double, exact, row)
            error = ulps(got, want, dtype)
            i = int(np.argmax(error))
            if error[i] > worst:
                worst, where = float(error[i]), tuple(float(x[i]) for x in row)
    return worst, where


def measure_time(body: Callable[..., Any], dtype: str, arity: int = 1) -> float:
    """Return nanoseconds per element of a formula in a plain loop over moderate numbers."""
    rng = np.random.default_rng(0)
    n = 1 << 12
    arrays = [rng.uniform(0.1, 0.9, n).astype(KINDS[dtype]) for _ in range(arity)]
    run = Loop(body, *[dtype] * arity, fast=True)
    out = np.empty(n, KINDS[dtype])
    pointers = (n, out.ctypes.data, *(a.ctypes.data for a in arrays))
    best = np.inf
    for _ in range(2000):
        start = time.perf_counter()
        run.call(*pointers)
        best = min(best, time.perf_counter() - start)
    return best / n * 1e9


def twenty(x: Any) -> Any:
    """Twenty dependent multiply-adds."""
    y = x
    for _ in range(20):
        y = fma(y, x, 0.5)
    return y


def main() -> None:
    """Print a table: function, and for each type the largest error, where it is, and the time."""
    parser = argparse.ArgumentParser(description=inspect.getdoc(main))
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--points", type=int, default=2000, help="doubles per interval")
    parser.add_argument("--step", type=int, default=1009, help="every step-th float32")
    parser.add_argument("--no-time", action="store_true")
    parser.add_argument("--dtype", choices=["f32", "f64"])
    options = parser.parse_args()
    for name in options.names or FUNCTIONS:
        for dtype in [options.dtype] if options.dtype else ["f32", "f64"]:
            error, where = measure_error(name, dtype, options.step, options.points)
            spent = ""
            if not options.no_time:
                body = getattr(formulas, name)
                spent = f"{measure_time(body, dtype, 1 + (name in ('pow', 'atan2'))):6.2f} ns"
                spent += f" (twenty fma {measure_time(twenty, dtype):.2f})"
            print(f"{name:11}{dtype:5}{error:8.3f} ulp {spent}   at {', '.join(map(repr, where))}", flush=True)


if __name__ == "__main__":
    main()
