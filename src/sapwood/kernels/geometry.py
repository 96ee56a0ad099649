"""Sizes and strides of one kernel for arrays of given shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .emit import SIZES
from .loops import Kernel
from .partition import Group
from .rows import BLOCK, DIMS, GEOMETRY, STRIP
from .symbols import Axis, Symbol, Unfusable

WIDE = 8192
"""Columns of a strip where nothing is reduced."""
PART = 1 << 15
"""Elements of one part of a divided sweep, at least."""
PARTS = 64
"""Units from which sweeps are not divided."""

Strides = Mapping[Axis, int]


class Geometry(NamedTuple):
    """What a job needs to know: the words of its geometry, its units, elements in all, and parts of a sweep."""

    words: list[int]
    units: int
    elements: int
    parts: int


def strides_of(x: Symbol, strides: Sequence[int]) -> dict[Axis, int]:
    """Return an array's stride in bytes along each axis."""
    return {a.root(): s for a, s in zip(x.axes, strides) if a is not None}


def dense(x: Symbol) -> dict[Axis, int]:
    """Return the strides of a result, which is made in C order."""
    found: dict[Axis, int] = {}
    step: int = SIZES[x.kind]
    for axis in reversed(x.axes):
        if axis is not None:
            found[axis.root()] = step
            step *= axis.size
    return found


def axis_order(group: Group, operands: Sequence[Symbol], strides: Mapping[Symbol, Strides]) -> list[Axis]:
    """Return the axes of a kernel, outermost first, as they follow each other in memory.

    Results decide, being made in C order; where they are small, the largest input does.
    """
    candidates = [*group.results, *operands]
    first = max(candidates, key=lambda x: (len(x.roots()), strides[x] == dense(x)))
    order = sorted(first.roots(), key=lambda a: -abs(strides[first][a]))
    for x in candidates:
        order = [a for a in x.roots() if a not in order] + order
    return order


def measure(kernel: Kernel, order: Sequence[Axis], strides: Mapping[Symbol, Strides]) -> Geometry:
    """Return the geometry of a kernel; neighbouring axes that every operand walks as one are joined."""
    operands = [*kernel.operands, *kernel.outputs]
    steps = [strides[x] for x in operands]
    gone = kernel.group.reduced
    joined: list[tuple[int, list[int], bool]] = []
    for axis in order:
        here = [s.get(axis, 0) for s in steps]
        if joined:
            size, before, reduced = joined[-1]
            if reduced == (axis in gone) and all(b == h * axis.size for b, h in zip(before, here)):
                joined[-1] = (size * axis.size, here, reduced)
                continue
        joined.append((axis.size, here, axis in gone))
    if not joined:
        joined.append((1, [0] * len(operands), False))
    width = joined[-1][0]
    outer = [[j for j in reversed(joined[:-1]) if j[2] == which] for which in (False, True)]
    if max(map(len, outer)) > DIMS:
        raise Unfusable("too many dimensions")
    kept, rows = (_product(j[0] for j in group) for group in outer)
    reducing = any(s.reductions for s in kernel.sweeps)
    strip = STRIP if reducing or kernel.rows else WIDE
    strips = 1 if kernel.row else -(-width // strip)
    units = kept * strips
    work = rows * (-(-width // BLOCK) if kernel.row else 1)
    parts = 1
    if kernel.partial and units < PARTS:
        each = rows * (width if kernel.row else min(width, strip))
        parts = max(1, min(PARTS // units, each // PART, work))
    scratch = rows * (width if kernel.row else strip)
    words = [0] * ((GEOMETRY["strides"] + 16 * DIMS * len(operands)) // 8)
    values = {
        "kept": len(outer[0]), "gone": len(outer[1]), "width": width, "rows": rows, "strip": strip, "strips": strips,
        "parts": parts, "work": work, "scratch": scratch,
    }  # fmt: skip
    for name, value in values.items():
        words[GEOMETRY[name] // 8] = value
    for which, dims in enumerate(outer):
        for d, (size, here, _) in enumerate(dims):
            words[GEOMETRY["sizes"] // 8 + DIMS * which + d] = size
            for k, step in enumerate(here):
                words[GEOMETRY["strides"] // 8 + 2 * DIMS * k + DIMS * which + d] = step
    return Geometry(words, units * parts, kept * rows * width, parts)


def _product(values: object) -> int:
    n = 1
    for v in values:  # type: ignore[attr-defined]
        n *= v
    return n


__all__ = ["Geometry", "axis_order", "dense", "measure", "strides_of"]
