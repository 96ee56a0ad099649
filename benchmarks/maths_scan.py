"""Measure the float32 maths on all 2^32 numbers, and write the table of docs/maths.md.

    python benchmarks/maths_scan.py [NAME …] [--threads N]

One native loop computes a function in float32, the same function in float64, and the difference in units of the last
place (ulp) of the latter; half a minute to two minutes a function. Negative numbers of odd and even functions are only
compared with the positive ones, bit for bit. The float64 formula is itself off by two
ulp of its own at most, 4e-9 of what is measured here. What it says is not taken on trust: every number whose error
seems above the bound, and the worst one of all, is computed again with mpmath; and a sample of all numbers is compared
with NumPy and SciPy, in case both formulas share a mistake. Rows that are there already are replaced, others stay.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "kernels"))
from exact import FUNCTIONS, truth, ulps
from maths_ulp import measure_error
from plain_loop import Loop

from sapwood.kernels import formulas
from sapwood.kernels.scalar import Scalar, bitcast, const, convert, fabs, guard, isnan, lshr, maximum, select

PAGE = Path(__file__).parent.parent / "docs" / "maths.md"
UNARY = [name for name in FUNCTIONS if name not in ("pow", "atan2")]
BOUND = 2.0
BLOCK = 1 << 17
"""Numbers of one call: what is written stays in the second-level cache until its maximum is taken."""
SAMPLE = 4099
"""Every how manieth number is compared with NumPy too; a prime, so that all low bits occur."""
ODD = ("tanh", "sinh", "asinh", "atanh", "sin", "tan", "asin", "atan", "erf")
EVEN = ("cosh", "cos")
HEAD = """# The accuracy of vector maths

Errors are in units in the last place (ulp) of the true value: 0.5 is the best that rounding allows, 2 is the bound for
every function. **float32** is the greatest error over *all* 2^32 numbers, and where it is; **float64** is the greatest
of some ten thousand random ones of every size, against mpmath. A wrong NaN, infinity or sign of zero would count as an
infinite error. `benchmarks/maths_scan.py` measures it and writes this table.

Functions that are not here have been measured on a sample of the float32 numbers only (`benchmarks/maths_ulp.py`).

| function | float32, ulp | at | float64, ulp |
|---|---|---|---|
"""


def error_of(name: str, *, fast: bool) -> Loop:
    """Return a loop that gives the float32 function's error at each number, as ulps of the float64 function's value.

    With `fast` it leaves out what is rarely needed, and answers infinity where that would have been.
    """
    f = getattr(formulas, name)

    def body(x: Scalar) -> Scalar:
        got, want = f(x), f(convert(x, "f64"))
        rounded, wide = convert(want, "f32"), convert(got, "f64")
        # 1 / unit, made from the exponent; below the smallest normal number the unit stays the same.
        exponent = maximum((lshr(bitcast(want, "i64"), 52) & 0x7FF) - 23, const(1023 - 149, "i64"))
        error = fabs(wide - want) * bitcast((2046 - exponent) << 52, "f64")
        error = select(isnan(error), float("inf"), error)
        infinite = fabs(rounded) == float("inf")
        error = select((infinite & (got == rounded)) | (isnan(want) & isnan(got)), 0.0, error)
        other_sign = bitcast(got, "i32") != bitcast(rounded, "i32")
        error = select((want == 0.0) & (got == 0.0) & other_sign, float("inf"), error)
        seldom = guard([error]) if fast else None
        return convert(error if seldom is None else select(seldom, float("inf"), error), "f32")

    return Loop(body, "f32", fast=fast)


def exactly(name: str, run: Loop, x: Any) -> Any:
    """Return the errors at a few numbers, against mpmath."""
    double, exact, _ = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        return ulps(run(x), truth(double, exact, (x.astype(np.float64),)), "f32").astype(np.float64)


def mirrored(run: Loop, x: Any, sign: int) -> bool:
    """Return whether f(x) is f(-x) with its sign kept or changed, to the last bit, for every x; NaN equals NaN."""
    here, there = run(x), run(-x)
    with np.errstate(invalid="ignore"):
        there *= np.float32(sign)
    return bool(np.all((here.view(np.uint32) == there.view(np.uint32)) | (np.isnan(here) & np.isnan(there))))


def scan(name: str, threads: int) -> tuple[float, float]:
    """Return the greatest error over all float32 numbers, and where it is."""
    quick, error, plain = error_of(name, fast=True), error_of(name, fast=False), Loop(getattr(formulas, name), "f32")

    def part(first: int) -> tuple[float, float]:
        worst, where = -1.0, 0.0
        out = np.empty(BLOCK, np.float32)
        for start in range(first, first + (1 << 26), BLOCK):
            x = np.arange(start, start + BLOCK, dtype=np.uint32).view(np.float32)
            if start >> 31 and name in ODD + EVEN and mirrored(plain, x, -1 if name in ODD else 1):
                continue
            quick.run(out, x)
            if (top := float(out.max())) > BOUND:
                error.run(out, x)
                top = float(out.max())
            if top > BOUND:
                suspects = x[out > BOUND]
                if len(suspects) > 1000:
                    return top, float(suspects[0])
                out[out > BOUND] = exactly(name, plain, suspects)
                top = float(out.max())
            if top > worst:
                worst, where = top, float(x[int(np.argmax(out))])
        return worst, where

    with ThreadPoolExecutor(threads) as pool:
        worst, where = max(pool.map(part, range(0, 1 << 32, 1 << 26)))
    at = np.array([where], np.float32)
    return float(exactly(name, plain, at)[0]) if worst <= BOUND else worst, where


def rows() -> dict[str, str]:
    """Return the rows the page has, by function."""
    lines = PAGE.read_text().splitlines() if PAGE.exists() else []
    found = {line.split("|")[1].strip(): line for line in lines if line.startswith("|")}
    return {name: found[name] for name in UNARY if name in found}


def main() -> None:
    """Scan functions and write each one's row as soon as it is known."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", help="functions; all unless given")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for name in options.names or UNARY:
        begun = time.perf_counter()
        sampled, _ = measure_error(name, "f32", SAMPLE, 0)
        worst, where = scan(name, options.threads)
        if sampled > worst + 1e-3:
            raise SystemExit(f"{name}: NumPy finds an error of {sampled:.3f} ulp, the scan {worst:.3f} at most")
        double, _ = measure_error(name, "f64", 1, 1000)
        row = f"| {name} | {worst:.3f} | {where!r} | {double:.2f} |"
        # Read again: another run may have written meanwhile.
        known = rows() | {name: row}
        PAGE.write_text(HEAD + "".join(f"{known[n]}\n" for n in UNARY if n in known))
        print(f"{row}  {time.perf_counter() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
