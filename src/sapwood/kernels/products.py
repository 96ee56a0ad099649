"""Micro-kernels of convolution: small blocks of a result that stay in registers while the sums run.

`rows_by_windows` multiplies rows of filters with windows of a tile (a tap is one offset, see `tiles`), `dots` makes the
sums over windows that gradients of filters are. Both keep R x C vectors in registers, 24 of 32 or 12 of 16, which hides
the latency of the multiplications and loads one value for every two to three of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from .tiles import Kind, shuffle
from .writer import Cell, Function, Module, Value

DEPTH = 512
"""Taps summed at a time: their rows of filters stay in the first-level cache."""


def row_heights(registers: int) -> tuple[int, ...]:
    """Return the heights of blocks of rows there are kernels for, the usual one first."""
    return (8, 4, 1) if registers >= 32 else (4, 1)


def dot_shape(registers: int) -> tuple[int, int]:
    """Return rows and taps of one block of `dots`."""
    return (4, 6) if registers >= 32 else (3, 4)


WIDE = 3
"""Vectors of windows in a block."""


def define(module: Module, kind: Kind, registers: int) -> None:
    """Define `rows_R_W` for all heights R and W of 1 and 3 vectors, and `dots`."""
    for rows in row_heights(registers):
        for wide in (WIDE, 1):
            with module.function(
                "void", f"rows_{rows}_{wide}", "ptr %filters", "ptr %taps", "i64 %depth", "ptr %windows", "ptr %strip",
                "i64 %pitch", "ptr %bias", "i64 %first", apart=True,
            ) as f:  # fmt: skip
                _rows_by_windows(f, kind, rows, wide)
    with module.function(
        "void", "dots", "ptr %g", "i64 %pitch", "ptr %windows", "ptr %taps", "i64 %n", "ptr %out", apart=True
    ) as f:
        _dots(f, kind, *dot_shape(registers))


def _rows_by_windows(f: Function, kind: Kind, rows: int, wide: int) -> None:
    """Add filters (%depth x rows) times windows to the strip; %first: begin with the bias instead of the strip."""
    sums = [[f.cell(kind.vector) for _ in range(wide)] for _ in range(rows)]
    fresh = f.compare("ne", "%first", 0)
    with f.when(fresh):
        for m in range(rows):
            start = kind.splat(f, f.load(kind.name, f.element(kind.name, "%bias", m)))
            for cell in sums[m]:
                cell.set(start)
    with f.unless(fresh):
        for at, cell in _places(f, kind, sums):
            cell.set(kind.load(f, at))
    with f.loop("%depth") as k:
        window = f.at("%windows", f.load("i64", f.element("i64", "%taps", k)))
        filters = f.element(kind.name, "%filters", f.mul(k, rows))
        xs = [kind.load(f, f.element(kind.name, window, j * kind.lanes)) for j in range(wide)]
        for m in range(rows):
            w = kind.splat(f, f.load(kind.name, f.element(kind.name, filters, m)))
            for x, cell in zip(xs, sums[m]):
                cell.set(multiply_add(f, kind, w, x, cell.get()))
    for at, cell in _places(f, kind, sums):
        kind.store(f, cell.get(), at)


def multiply_add(f: Function, kind: Kind, a: Value, b: Value, c: Value) -> Value:
    """Return a * b + c, rounded once where the processor can."""
    v = kind.vector
    return f.v(f"call {v} @llvm.fmuladd.{kind.suffix}({v} {a}, {v} {b}, {v} {c})")


def _places(f: Function, kind: Kind, sums: list[list[Cell]]) -> list[tuple[Value, Cell]]:
    found = []
    for m, line in enumerate(sums):
        row = f.element(kind.name, "%strip", f.mul("%pitch", m))
        found += [(f.element(kind.name, row, j * kind.lanes), cell) for j, cell in enumerate(line)]
    return found


def _dots(f: Function, kind: Kind, rows: int, taps: int) -> None:
    """Write the sums over %n windows (whole vectors) of rows of g times what taps meet, (rows, taps)."""
    sums = [[f.cell(kind.vector, "zeroinitializer") for _ in range(taps)] for _ in range(rows)]
    gs = [f.element(kind.name, "%g", f.mul("%pitch", m)) for m in range(rows)]
    xs = [f.at("%windows", f.load("i64", f.element("i64", "%taps", t))) for t in range(taps)]
    with f.loop("%n", 0, kind.lanes) as q:
        g = [kind.load(f, f.element(kind.name, p, q)) for p in gs]
        for t, p in enumerate(xs):
            x = kind.load(f, f.element(kind.name, p, q))
            for m in range(rows):
                cell = sums[m][t]
                cell.set(multiply_add(f, kind, g[m], x, cell.get()))
    flat = [cell.get() for line in sums for cell in line]
    for i in range(0, len(flat), kind.lanes):
        part = flat[i : i + kind.lanes]
        _store_sums(f, kind, part, f.element(kind.name, "%out", i))


def _store_sums(f: Function, kind: Kind, vectors: Sequence[Value], to: Value) -> None:
    """Store the sum of the lanes of each vector, in order: vectors are joined in pairs, lane by lane the same tree."""
    lanes = kind.lanes
    # Each vector holds, per lane, which sum the lane belongs to.
    count = 1 << (len(vectors) - 1).bit_length()
    level: list[tuple[Value, list[int]]] = [
        (v, [i] * lanes) for i, v in enumerate([*vectors, *["zeroinitializer"] * (count - len(vectors))])
    ]
    width = lanes
    while len(level) > 1:
        half = width // 2
        # Halves of the blocks of a and b, side by side; the halves add up to blocks of half the width.
        low = [i for b in range(0, lanes, width) for i in (*range(b, b + half), *range(lanes + b, lanes + b + half))]
        high = [i + half for i in low]
        joined = []
        for (a, of_a), (b, of_b) in zip(level[::2], level[1::2]):
            both = of_a + of_b
            left, right = shuffle(f, kind.vector, a, b, low), shuffle(f, kind.vector, a, b, high)
            joined.append((f.v(f"fadd {kind.vector} {left}, {right}"), [both[i] for i in low]))
        level, width = joined, half
    total, owner = level[0]
    while width > 1:
        half = width // 2
        low = [b + i for b in range(0, lanes, width) for i in (*range(half), *range(half))]
        high = [b + i for b in range(0, lanes, width) for i in (*range(half, width), *range(half, width))]
        left, right = (shuffle(f, kind.vector, total, "poison", o) for o in (low, high))
        total, width = f.v(f"fadd {kind.vector} {left}, {right}"), half
    order = [owner.index(i) if i in owner else 0 for i in range(lanes)]
    whole = shuffle(f, kind.vector, total, "poison", order)
    if len(vectors) == lanes:
        kind.store(f, whole, to)
        return
    for i in range(len(vectors)):
        one = f.v(f"extractelement {kind.vector} {whole}, i64 {i}")
        f.store(kind.name, one, f.element(kind.name, to, i))


__all__ = ["DEPTH", "WIDE", "define", "dot_shape", "multiply_add", "row_heights"]
