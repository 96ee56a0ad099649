"""Pooling over windows in native code: the largest element, with its place or without, or the sum, divided.

A window's elements are met tap by tap, as in convolution: the image is written out as a tile with its padding, and a
vector of windows stays in registers while the taps go by, in the order of the elements in memory.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from . import workspace
from .layout import DATA, fields
from .tiles import DIMS, IMAGE, IMAGE_WORDS, Kind, Sizes, Tile, blocks, clip, corners, flat, four, place, spread, word
from .workspace import JOB, OPERANDS
from .writer import Function, Module, Value

Plan = np.ndarray[Any, Any]
TILE = 64 << 10
"""Bytes of a tile, which is read once for each tap."""
WINDOWS = 512
"""Windows from which a tile's fixed costs are small; smaller images are joined."""
SPREAD = 8
"""Units wanted at least."""
PLANS = 128
"""Plans that are kept for the next call."""
MAX_NDIM = 8
SPACE = 3
"""Dimensions that are pooled, at most."""

_LISTS = ("block", "grid", "count", "base", "first")
HEAD = fields("units", "taps", "offsets", "distances", "slot_bytes", "strip_at", "places_at", "ndim", "bytes", "cost")
HEAD |= {"shape": 8 * len(HEAD)}
HEAD |= {name: HEAD["shape"] + 8 * (MAX_NDIM + DIMS * i) for i, name in enumerate(_LISTS)}
HEAD |= {"image": HEAD["first"] + 8 * DIMS}
HEAD_WORDS = HEAD["image"] // 8 + IMAGE_WORDS
"""taps: how many; offsets: the word where their offsets in the tile (bytes) begin; distances: where their distances
from a window's corner in the image begin. base and first: per dimension, the words where two tables begin, one number
per window: for maxima the corner's index and the distance of the first element inside the image, for means the number
of elements (base alone)."""

LARGEST, PLACES, MEAN = range(3)


@lru_cache(maxsize=PLANS)
def plan(
    dtype: str, register: int, shape: Sizes, lead: int, out: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes,
    dilation: Sizes, counts: tuple[Sizes, ...] | None,
) -> Plan:  # fmt: skip
    """Return the plan of a pooling.

    Args:
        shape: of the images; lead: number of its dimensions that are not pooled; out: sizes of the result.
        counts: per dimension and window, the numbers whose product divides the sum; None for maxima.
    """
    kind = Kind(dtype, register)
    planes, size = prod(shape[:lead]), shape[lead:]
    step, apart, pad = four(stride, 1), four(dilation, 1), four(padding, 0)
    taps = corners(four(kernel, 1))
    shifts = [tuple([k * d // s for k, d, s in zip(t, apart, step)]) for t in taps]
    phases = [tuple([k * d % s for k, d, s in zip(t, apart, step)]) for t in taps]
    whole, count = (planes, *four(size, 1)[1:]), (planes, *four(out, 1)[1:])
    reach = Tile(shifts, phases, (1,) * DIMS).reach
    block = blocks(count, reach, len(set(phases)) * kind.item, TILE, windows=WINDOWS, least=SPREAD)
    tile = Tile(shifts, phases, block)
    grid = tuple([-(-c // b) for c, b in zip(count, block)])
    steps = [prod(whole[i + 1 :]) for i in range(DIMS)]
    inner = [0, *steps[1:]]
    distances = [sum(k * d * s for k, d, s in zip(t, apart, inner)) for t in taps]
    strip_at = -(-(tile.image + 2 * kind.lanes) * kind.item // 64) * 64
    pitch = -(-tile.plane // kind.lanes) * kind.lanes + kind.lanes
    places_at = strip_at + pitch * kind.item
    slot = places_at + pitch * 4
    values = [
        prod(grid), len(taps), HEAD_WORDS, HEAD_WORDS + len(taps), -(-slot // 4096) * 4096 + 2048, strip_at, places_at,
        lead + len(out), prod(count) * kind.item, prod(count) * len(taps) // 4 + prod(whole) // 4,
    ]  # fmt: skip
    tables: list[Any] = [tile.taps * kind.item, distances]
    base, first = [0] * DIMS, [0] * DIMS
    where = HEAD_WORDS + 2 * len(taps)
    # The batch has no table: it adds nothing to the index.
    for i in range(1, DIMS):
        base[i] = where
        first[i] = where + count[i]
        if counts is None:
            corner = np.arange(count[i]) * step[i] - pad[i]
            tables += [corner * inner[i], -(np.minimum(corner, 0) // apart[i]) * apart[i] * inner[i]]
        else:
            tables += [counts[i - 1], np.zeros(count[i], np.int64)]
        where += 2 * count[i]
    phase_table = where
    image = tile.words(0, phase_table, whole, step, pad, tuple(steps))
    full = [*shape[:lead], *out]
    lists = [*full, *[0] * (MAX_NDIM - len(full)), *block, *grid, *count, *base, *first]
    return np.concatenate([np.array([*values, *lists, *image], np.int64), *tables, tile.phase_words()])


X, Y, AT = range(3)


def define(module: Module, kind: Kind) -> None:
    """Define the C functions `largest`, `places` and `means` of builtins of (plan, images)."""
    for mode, name in enumerate(("largest", "places", "means")):
        with module.function("void", f"{name}_units", "ptr %job", "i64 %begin", "i64 %end", apart=True) as f:
            _units(f, kind, mode)
        with module.function("ptr", name, "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
            _call(f, name, mode)


def _units(f: Function, kind: Kind, mode: int) -> None:
    plan = f.field("ptr", "%job", JOB["plan"])
    x, y, at = (workspace.operand(f, "%job", i) for i in (X, Y, AT))
    tile = workspace.slot(f, "%job")
    strip, places = f.at(tile, word(f, plan, HEAD["strip_at"])), f.at(tile, word(f, plan, HEAD["places_at"]))
    shape = [word(f, plan, HEAD["image"] + IMAGE["shape"], i) for i in range(DIMS)]
    origin = f.space("i64", 2 * DIMS)
    low = {"float": "0xFFF0000000000000", "double": "0xFFF0000000000000"}[kind.name]
    fill = "0.0" if mode == MEAN else low
    with f.loop("%end", "%begin") as u:
        place(f, plan, u, HEAD["grid"], HEAD["block"], origin)
        f.call("void", "@fetch", f"ptr {plan}", f"ptr {f.at(plan, HEAD['image'])}", f"ptr {x}", f"ptr {tile}",
               f"ptr {origin}", "i64 1", f"{kind.name} {fill}")  # fmt: skip
        _, counts = clip(f, f.at(plan, HEAD["count"]), plan, HEAD["block"], origin)
        with f.loop(flat(f, counts, shape), 0, kind.lanes) as q:
            _vector(f, kind, mode, plan, f.element(kind.name, tile, q), f.element(kind.name, strip, q),
                    f.element("i32", places, q), fill)  # fmt: skip
        _out(f, kind, mode, plan, origin, counts, shape, strip, places, y, at)


def _vector(
    f: Function, kind: Kind, mode: int, plan: Value, windows: Value, strip: Value, places: Value, fill: str
) -> None:
    """Pool a vector of windows."""
    v, ints = kind.vector, f"<{kind.lanes} x i32>"
    best, where = f.cell(v), f.cell(ints)
    best.set(kind.splat(f, fill))
    where.set(spread(f, ints, "i32", kind.lanes, "-1"))
    offsets = f.element("i64", plan, word(f, plan, HEAD["offsets"]))
    distances = f.element("i64", plan, word(f, plan, HEAD["distances"]))
    with f.loop(word(f, plan, HEAD["taps"])) as t:
        x = kind.load(f, f.at(windows, f.load("i64", f.element("i64", offsets, t))))
        if mode == MEAN:
            best.set(f.v(f"fadd {v} {best.get()}, {x}"))
        else:
            above = f.v(f"fcmp ogt {v} {x}, {best.get()}")
            wins = f.v(f"or <{kind.lanes} x i1> {above}, {f.v(f'fcmp uno {v} {x}, {x}')}")
            best.set(f.v(f"select <{kind.lanes} x i1> {wins}, {v} {x}, {v} {best.get()}"))
            if mode == PLACES:
                distance = f.v(f"trunc i64 {f.load('i64', f.element('i64', distances, t))} to i32")
                mine = spread(f, ints, "i32", kind.lanes, distance)
                where.set(f.v(f"select <{kind.lanes} x i1> {wins}, {ints} {mine}, {ints} {where.get()}"))
    kind.store(f, best.get(), strip)
    if mode == PLACES:
        f.store(ints, where.get(), places, ", align 4")


def _out(
    f: Function, kind: Kind, mode: int, plan: Value, origin: Value, counts: list[Value], shape: list[Value],
    strip: Value, places: Value, y: Value, at: Value,
) -> None:  # fmt: skip
    """Copy results from the strip, which has gaps, to their place."""
    total = [word(f, plan, HEAD["count"], i) for i in range(DIMS)]
    start = [f.field("i64", origin, 8 * i) for i in range(DIMS)]
    base = [f.element("i64", plan, word(f, plan, HEAD["base"], i)) for i in range(DIMS)]
    first = [f.element("i64", plan, word(f, plan, HEAD["first"], i)) for i in range(DIMS)]

    def entry(tables: list[Value], dim: int, i: Value) -> Value:
        return f.load("i64", f.element("i64", tables[dim], f.add(start[dim], i)))

    with f.loop(counts[0]) as i0:
        with f.loop(counts[1]) as i1:
            with f.loop(counts[2]) as i2:
                source = f.mul(f.add(f.mul(f.add(f.mul(i0, shape[1]), i1), shape[2]), i2), shape[3])
                to = f.add(f.mul(f.add(start[0], i0), total[1]), f.add(start[1], i1))
                to = f.add(f.mul(f.add(f.mul(to, total[2]), f.add(start[2], i2)), total[3]), start[3])
                row, target = f.element(kind.name, strip, source), f.element(kind.name, y, to)
                if mode == MEAN:
                    lines = f.mul(entry(base, 1, i1), entry(base, 2, i2))
                    with f.loop(counts[3]) as i3:
                        n = f.v(f"sitofp i64 {f.mul(lines, entry(base, 3, i3))} to {kind.name}")
                        value = f.v(f"fdiv {kind.name} {f.load(kind.name, f.element(kind.name, row, i3))}, {n}")
                        f.store(kind.name, value, f.element(kind.name, target, i3))
                else:
                    f.call("void", "@copy_run", f"ptr {target}", f"ptr {row}", f"i64 {counts[3]}")
                if mode == PLACES:
                    corner, inside = (f.add(entry(t, 1, i1), entry(t, 2, i2)) for t in (base, first))
                    found, spots = f.element("i32", places, source), f.element("i64", at, to)
                    with f.loop(counts[3]) as i3:
                        distance = f.v(f"sext i32 {f.load('i32', f.element('i32', found, i3))} to i64")
                        # Nothing was larger than the padding: the first element that is not padding stands for all.
                        least = f.add(inside, entry(first, 3, i3))
                        distance = f.choose(f.compare("slt", distance, 0), least, distance)
                        spot = f.add(f.add(corner, entry(base, 3, i3)), distance)
                        f.store("i64", spot, f.element("i64", spots, i3))


def _call(f: Function, name: str, mode: int) -> None:
    table, plan = workspace.begin(f)
    ndim, shape, size = word(f, plan, HEAD["ndim"]), f.at(plan, HEAD["shape"]), word(f, plan, HEAD["bytes"])
    outs = [workspace.new(f, table, "descr", ndim, shape, size)]
    if mode == PLACES:
        outs.append(workspace.new(f, table, "indices", ndim, shape, f.mul(size, 2), *outs))
    units, slot_bytes = word(f, plan, HEAD["units"]), word(f, plan, HEAD["slot_bytes"])
    threads = workspace.threads(f, table, units)
    memory = workspace.scratch(f, table, f.mul(threads, slot_bytes), *outs)
    job = workspace.space(f)
    for i, array in enumerate((workspace.argument(f, 1), outs[0], outs[-1])):
        f.put("ptr", f.field("ptr", array, DATA), job, OPERANDS + 8 * i)
    cost = word(f, plan, HEAD["cost"])
    workspace.run(f, table, job, plan, units, f"@{name}_units", cost, threads, memory, slot_bytes)
    f.call("void", "@give", f"ptr {table}", f"ptr {memory}")
    workspace.answer(f, table, outs)


__all__ = ["define", "plan"]
