"""Convolution and its adjoint in native code: tiles of the image, blocks of filters, sums that stay in registers.

Both are correlations: the adjoint of a convolution with strides is, for each phase of its result, a correlation with
the taps that reach that phase. A plan holds one or several such parts, a unit of work is a tile times a range of
filters. No sum is split among units, so the result does not depend on threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from . import workspace
from .layout import DATA, fields
from .products import DEPTH, WIDE
from .tiles import DIMS, IMAGE, IMAGE_WORDS, Kind, Sizes, Tile, blocks, clip, corners, flat, four, place, steps_of, word
from .workspace import JOB, OPERANDS, SELF
from .writer import Function, Module, Value

Plan = np.ndarray[Any, Any]

TILE = 256 << 10
"""Bytes of a tile: with a block of filters and the strip of results it stays in a core's second-level cache."""
TALL_TILE = 768 << 10
"""Bytes of a tile that several taps look at, which use an element from the first-level cache once it is there."""
FEW = 4
"""Taps that are not several."""
WINDOWS = 768
"""Windows from which a block of filters is used often enough; smaller images are joined."""
PLANS = 128
"""Plans that are kept for the next call; one has two words per tap and channel."""
SPREAD = 8
"""Units wanted at least, where the work can be cut up that far."""

_LISTS = ("block", "grid", "y_step")
HEAD = fields(
    *("units", "chunks", "chunk_rows", "groups", "rows", "channels", "parts", "slot_bytes", "strip_at", "pitch"),
    *("packed_bytes", "bias_at", "packed_group", "padded_rows", "x_group", "w_group", "w_row", "y_group", "y_row"),
    *("ndim", "bytes", "cost", "part_table"),
)
HEAD |= {"shape": 8 * len(HEAD)}
HEAD |= {name: HEAD["shape"] + 8 * (5 + DIMS * i) for i, name in enumerate(_LISTS)}
HEAD |= {"image": HEAD["y_step"] + 8 * DIMS}
HEAD_WORDS = HEAD["image"] // 8 + IMAGE_WORDS
PART = fields("depth", "taps", "weights", "packed_at", "origin", "count")
PART_WORDS = len(PART) - 1 + DIMS
"""A part: number of taps over all channels; the words where their offsets in the tile (bytes) and in the filters begin;
where its filters are packed; where its results begin, how many there are per dimension."""


class Part:
    """The taps that make one phase of a result."""

    def __init__(self, taps: Sequence[int], shifts: Sequence[Sizes], phases: Sequence[Sizes], start: int, count: Sizes):
        self.taps, self.shifts, self.phases, self.start, self.count = taps, shifts, phases, start, count


def padded_rows(rows: int, heights: tuple[int, ...]) -> int:
    """Return how many rows blocks of these heights cover; the last block is of the least height that does."""
    whole = rows // heights[0] * heights[0]
    rest = rows - whole
    return whole + min((h for h in heights if h >= rest), default=0) if rest else whole


def make(
    parts: Sequence[Part],
    kind: Kind,
    heights: tuple[int, ...],
    *,
    groups: int,
    rows: int,
    channels: int,
    size: Sizes,
    step: Sizes,
    pad: Sizes,
    source: Sizes,
    x_channel: int,
    w_row: int,
    w_channel: int,
    shape: Sizes,
    y_channel: int,
    y_step: Sizes,
) -> Plan:
    """Return the plan of a correlation.

    Args:
        rows: filters of a group; channels: of the image, in a group.
        size, step, pad, source: of the image, see `tiles`; x_channel: elements between channels.
        w_row, w_channel: elements between filters, and between their channels.
        shape: of the result; y_channel, y_step: elements between its channels and windows.
    """
    every = [s for p in parts for s in p.shifts]
    phases = [s for p in parts for s in p.phases]
    count = tuple([max(p.count[i] for p in parts) for i in range(DIMS)])
    reach = Tile(every, phases, (1,) * DIMS).reach
    per_window = channels * len(set(phases) or {0}) * kind.item
    row_blocks = -(-rows // heights[0])
    limit = TILE if len(every) < FEW * len(parts) else TALL_TILE
    # Where there are many filters, they are what is split, so that each of them is read for many windows.
    block = blocks(count, reach, per_window, limit, windows=WINDOWS, least=1 if row_blocks >= SPREAD else SPREAD)
    tile = Tile(every, phases, block)
    grid = tuple([-(-c // b) for c, b in zip(count, block)])
    height = heights[0]
    wide = WIDE * kind.lanes
    pitch = -(-tile.plane // wide) * wide + wide
    strip_at = -(-(channels * tile.image + 2 * wide) * kind.item // 64) * 64
    covered = padded_rows(rows, heights)
    chunks = min(row_blocks, -(-SPREAD // max(1, prod(grid) * groups)))
    chunk_rows = -(-row_blocks // chunks) * height
    chunks = -(-rows // chunk_rows)
    phase_table = HEAD_WORDS + PART_WORDS * len(parts)
    tables: list[Any] = [tile.phase_words()]
    where = phase_table + len(tables[0])
    words: list[int] = []
    packed, at, cost = 0, 0, 0
    for p in parts:
        n = len(p.taps)
        depth = channels * n
        images = np.arange(channels)[:, None] * tile.image
        offsets = (images + tile.taps[at : at + n]).reshape(-1) * kind.item
        weights = (np.arange(channels)[:, None] * w_channel + np.array(p.taps, np.int64)).reshape(-1)
        tables += [offsets, weights]
        words += [depth, where, where + depth, packed, p.start, *p.count]
        where += 2 * depth
        packed += depth * covered
        at += n
        cost += prod(p.count) * depth * rows * groups
    slot = strip_at + height * pitch * kind.item
    values = {
        "units": prod(grid) * groups * chunks,
        "chunks": chunks,
        "chunk_rows": chunk_rows,
        "groups": groups,
        "rows": rows,
        "channels": channels,
        "parts": len(parts),
        # Slots apart by an odd number of pages' halves do not fall onto each other in the caches.
        "slot_bytes": -(-slot // 4096) * 4096 + 2048,
        "strip_at": strip_at,
        "pitch": pitch,
        "bias_at": packed * groups,
        "packed_bytes": -(-(packed + covered) * groups * kind.item // 64) * 64,
        "packed_group": packed,
        "padded_rows": covered,
        "x_group": channels * x_channel,
        # Filters of a convolution are grouped by their results, those of the adjoint by what they meet.
        "w_group": max(rows * w_row, channels * w_channel),
        "w_row": w_row,
        "y_group": rows * y_channel,
        "y_row": y_channel,
        "ndim": len(shape),
        "bytes": prod(shape) * kind.item,
        # 20 multiply-adds a nanosecond.
        "cost": cost // 20 + prod(shape),
        "part_table": HEAD_WORDS,
    }
    head = [values[name] for name in list(HEAD)[: len(values)]]
    lists = [*shape, *[0] * (5 - len(shape)), *block, *grid, *y_step]
    image = tile.words(x_channel, phase_table, size, step, pad, source)
    return np.concatenate([np.array([*head, *lists, *image, *words], np.int64), *tables])


@lru_cache(maxsize=PLANS)
def forward_plan(
    dtype: str, register: int, heights: tuple[int, ...],
    x: Sizes, w: Sizes, out: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int,
) -> Plan:  # fmt: skip
    """Return the plan of a convolution; `out` holds the spatial sizes of the result."""
    kind = Kind(dtype, register)
    shape = (x[0], w[0], *out)
    kernel = w[2:]
    if max(kernel) == 1 == max(stride) and not any(padding):
        # Nothing is left of the image's form: it is one long row.
        x, out, kernel = (*x[:2], prod(x[2:])), (prod(out),), (1,)
        stride, padding, dilation = (1,), (0,), (1,)
    step, apart = four(stride, 1), four(dilation, 1)
    taps = corners(four(kernel, 1))
    shifts = [tuple([k * d // s for k, d, s in zip(t, apart, step)]) for t in taps]
    phases = [tuple([k * d % s for k, d, s in zip(t, apart, step)]) for t in taps]
    count = (x[0], *four(out, 1)[1:])
    part = Part(range(len(taps)), shifts, phases, 0, count)
    x_channel, source = steps_of(x)
    y_channel, y_step = steps_of((x[0], w[0], *out))
    return make(
        [part], kind, heights, groups=groups, rows=w[0] // groups, channels=w[1],
        size=(x[0], *four(x[2:], 1)[1:]), step=step, pad=four(padding, 0), source=source, x_channel=x_channel,
        w_row=w[1] * len(taps), w_channel=len(taps),
        shape=shape, y_channel=y_channel, y_step=y_step,
    )  # fmt: skip


@lru_cache(maxsize=PLANS)
def adjoint_plan(
    dtype: str, register: int, heights: tuple[int, ...],
    x: Sizes, w: Sizes, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int,
) -> Plan:  # fmt: skip
    """Return the plan of the adjoint of a convolution, whose result has spatial sizes `size`."""
    kind = Kind(dtype, register)
    channels = w[1]
    shape = (x[0], channels * groups, *size)
    kernel = w[2:]
    if max(kernel) == 1 == max(stride) and not any(padding) and x[2:] == size:
        x, size, kernel = (*x[:2], prod(x[2:])), (prod(size),), (1,)
        stride, padding, dilation = (1,), (0,), (1,)
    step, apart, pad = four(stride, 1), four(dilation, 1), four(padding, 0)
    whole = (x[0], *four(size, 1)[1:])
    taps = corners(four(kernel, 1))
    y_channel, steps = steps_of((x[0], channels * groups, *size))
    # Element i of the result meets element m of the image at tap k if i + pad = m * step + k * apart. With
    # i + pad = phase + step * v and k * apart = phase + step * e it is m = v - e.
    most = [max(t[i] * apart[i] // step[i] for t in taps) for i in range(DIMS)]
    parts, lowest = [], [0] * DIMS
    found = []
    for phase in corners(step):
        begin = [(f - p) % s for f, p, s in zip(phase, pad, step)]
        count = tuple([max(0, -(-(n - b) // s)) for n, b, s in zip(whole, begin, step)])
        v = [(b + p) // s for b, p, s in zip(begin, pad, step)]
        found.append((phase, begin, count, v))
    lowest = [min(v[i] for *_, v in found) for i in range(DIMS)]
    for phase, begin, count, v in found:
        if not all(count):
            continue
        mine = [i for i, t in enumerate(taps) if all(k * d % s == f for k, d, s, f in zip(t, apart, step, phase))]
        shifts = [
            tuple([v[i] - lowest[i] + most[i] - taps[j][i] * apart[i] // step[i] for i in range(DIMS)]) for j in mine
        ]
        origin = sum(b * s for b, s in zip(begin, steps))
        parts.append(Part(mine, shifts, [(0,) * DIMS] * len(mine), origin, count))
    x_channel, source = steps_of(x)
    return make(
        parts, kind, heights, groups=groups, rows=channels, channels=w[0] // groups,
        size=(x[0], *four(x[2:], 1)[1:]), step=(1,) * DIMS, pad=tuple(m - v for m, v in zip(most, lowest)),
        source=source, x_channel=x_channel, w_row=len(taps), w_channel=channels * len(taps),
        shape=shape, y_channel=y_channel, y_step=tuple([a * b for a, b in zip(steps, step)]),
    )  # fmt: skip


# -- native code ------------------------------------------------------------------------------------------------------

X, W, BIAS, Y = range(4)
"""Operands of the job."""


def define(module: Module, kind: Kind, heights: tuple[int, ...]) -> None:
    """Define `correlate`, the C function of a builtin of (plan, image, filters, bias or None)."""
    with module.function("void", "pack", "ptr %job", "i64 %begin", "i64 %end", apart=True) as f:
        _pack(f, kind, heights)
    with module.function("void", "strip_out", "ptr %plan", "ptr %part", "ptr %origin", "ptr %strip", "ptr %y",
                         apart=True) as f:  # fmt: skip
        _strip_out(f, kind)
    with module.function("void", "correlate_units", "ptr %job", "i64 %begin", "i64 %end", apart=True) as f:
        _units(f, kind, heights)
    with module.function("ptr", "correlate", "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
        _correlate(f)


def _part(f: Function, plan: Value, index: Value) -> Value:
    parts = f.element("i64", plan, word(f, plan, HEAD["part_table"]))
    return f.element("i64", parts, f.mul(index, PART_WORDS))


def _pack(f: Function, kind: Kind, heights: tuple[int, ...]) -> None:
    """Lay out filters as the micro-kernels read them: blocks of rows, and for each tap the rows side by side."""
    plan, packed = f.field("ptr", "%job", JOB["plan"]), f.field("ptr", "%job", JOB["shared"])
    w, bias = workspace.operand(f, "%job", W), workspace.operand(f, "%job", BIAS)
    rows, covered = word(f, plan, HEAD["rows"]), word(f, plan, HEAD["padded_rows"])
    height = heights[0]
    row_blocks = f.udiv(f.add(rows, height - 1), height)
    w_row = word(f, plan, HEAD["w_row"])
    with f.loop("%end", "%begin") as u:
        g, first = f.udiv(u, row_blocks), f.mul(f.urem(u, row_blocks), height)
        filters = f.element(kind.name, w, f.mul(g, word(f, plan, HEAD["w_group"])))
        filters = f.element(kind.name, filters, f.mul(first, w_row))
        here = f.least(f.sub(rows, first), height)
        tall = f.least(f.sub(covered, first), height)
        group = f.element(kind.name, packed, f.mul(g, word(f, plan, HEAD["packed_group"])))
        with f.loop(word(f, plan, HEAD["parts"])) as p:
            part = _part(f, plan, p)
            depth = word(f, part, PART["depth"])
            to = f.element(kind.name, group, word(f, part, PART["packed_at"]))
            to = f.element(kind.name, to, f.mul(first, depth))
            taps = f.element("i64", plan, word(f, part, PART["weights"]))
            with f.loop(tall) as m:
                source = f.element(kind.name, filters, f.mul(w_row, m))
                target = f.element(kind.name, to, m)
                with f.when(f.compare("slt", m, here)):
                    with f.loop(depth) as k:
                        x = f.load(kind.name, f.element(kind.name, source, f.load("i64", f.element("i64", taps, k))))
                        f.store(kind.name, x, f.element(kind.name, target, f.mul(k, tall)))
                with f.when(f.compare("sge", m, here)):
                    with f.loop(depth) as k:
                        f.store(kind.name, "0.0", f.element(kind.name, target, f.mul(k, tall)))
        biases = f.element(kind.name, packed, word(f, plan, HEAD["bias_at"]))
        biases = f.element(kind.name, biases, f.add(f.mul(g, covered), first))
        f.call("void", "@fill_run", f"ptr {biases}", f"i64 {tall}", f"{kind.name} 0.0")
        with f.when(f.compare("ne", bias, "null", "ptr")):
            given = f.element(kind.name, bias, f.add(f.mul(g, rows), first))
            f.call("void", "@copy_run", f"ptr {biases}", f"ptr {given}", f"i64 {here}")


def _strip_out(f: Function, kind: Kind) -> None:
    """Copy one row of results from the strip, which has gaps, to its place in the result."""
    shape = [word(f, "%plan", HEAD["image"] + IMAGE["shape"], i) for i in range(DIMS)]
    step = [word(f, "%plan", HEAD["y_step"], i) for i in range(DIMS)]
    start = [f.field("i64", "%origin", 8 * i) for i in range(DIMS)]
    count = [f.field("i64", "%origin", 8 * (DIMS + i)) for i in range(DIMS)]
    base = f.element(kind.name, "%y", word(f, "%part", PART["origin"]))
    for first, apart in zip(start, step):
        base = f.element(kind.name, base, f.mul(first, apart))
    dense = f.compare("eq", step[3], 1)
    with f.loop(count[0]) as i0:
        with f.loop(count[1]) as i1:
            with f.loop(count[2]) as i2:
                line = f.add(f.mul(f.add(f.mul(i0, shape[1]), i1), shape[2]), i2)
                source = f.element(kind.name, "%strip", f.mul(line, shape[3]))
                offset = f.add(f.add(f.mul(i0, step[0]), f.mul(i1, step[1])), f.mul(i2, step[2]))
                to = f.element(kind.name, base, offset)
                with f.when(dense):
                    f.call("void", "@copy_run", f"ptr {to}", f"ptr {source}", f"i64 {count[3]}")
                with f.unless(dense):
                    f.call("void", "@copy_apart", f"ptr {to}", f"ptr {source}", f"i64 {count[3]}", "i64 1",
                           f"i64 {step[3]}")  # fmt: skip


def _units(f: Function, kind: Kind, heights: tuple[int, ...]) -> None:
    plan, packed = f.field("ptr", "%job", JOB["plan"]), f.field("ptr", "%job", JOB["shared"])
    x, y = workspace.operand(f, "%job", X), workspace.operand(f, "%job", Y)
    tile = workspace.slot(f, "%job")
    strip = f.at(tile, word(f, plan, HEAD["strip_at"]))
    origin = f.space("i64", 2 * DIMS)
    chunks, groups = word(f, plan, HEAD["chunks"]), word(f, plan, HEAD["groups"])
    rows, covered = word(f, plan, HEAD["rows"]), word(f, plan, HEAD["padded_rows"])
    pitch = word(f, plan, HEAD["pitch"])
    shape = [word(f, plan, HEAD["image"] + IMAGE["shape"], i) for i in range(DIMS)]
    there = f.cell("i64", -1)
    wide = WIDE * kind.lanes
    with f.loop("%end", "%begin") as u:
        number, chunk = f.udiv(u, chunks), f.urem(u, chunks)
        block, g = f.udiv(number, groups), f.urem(number, groups)
        with f.when(f.compare("ne", number, there.get())):
            there.set(number)
            place(f, plan, block, HEAD["grid"], HEAD["block"], origin)
            source = f.element(kind.name, x, f.mul(g, word(f, plan, HEAD["x_group"])))
            f.call("void", "@fetch", f"ptr {plan}", f"ptr {f.at(plan, HEAD['image'])}", f"ptr {source}", f"ptr {tile}",
                   f"ptr {origin}", f"i64 {word(f, plan, HEAD['channels'])}", f"{kind.name} 0.0")  # fmt: skip
        first = f.mul(chunk, word(f, plan, HEAD["chunk_rows"]))
        last = f.least(f.add(first, word(f, plan, HEAD["chunk_rows"])), rows)
        with f.loop(word(f, plan, HEAD["parts"])) as p:
            part = _part(f, plan, p)
            some, counts = clip(f, f.at(part, PART["count"]), plan, HEAD["block"], origin)
            with f.when(some):
                windows = flat(f, counts, shape)
                depth = word(f, part, PART["depth"])
                filters = f.element(kind.name, packed, f.mul(g, word(f, plan, HEAD["packed_group"])))
                filters = f.element(kind.name, filters, word(f, part, PART["packed_at"]))
                taps = f.element("i64", plan, word(f, part, PART["taps"]))
                bias = f.element(kind.name, packed, f.add(word(f, plan, HEAD["bias_at"]), f.mul(g, covered)))
                with f.loop(last, first, heights[0]) as r:
                    tall = f.least(f.sub(covered, r), heights[0])
                    mine = f.element(kind.name, filters, f.mul(r, depth))
                    begun = f.cell("i64", 0)
                    # At least once: without taps the result is the bias.
                    passes = f.greatest(f.udiv(f.add(depth, DEPTH - 1), DEPTH), 1)
                    deep = f.udiv(f.add(depth, f.sub(passes, 1)), passes)
                    with f.loop(passes):
                        k = begun.get()
                        some_taps = f.least(deep, f.sub(depth, k))
                        arguments = (
                            f"ptr {f.element(kind.name, mine, f.mul(k, tall))}", f"ptr {f.element('i64', taps, k)}",
                            f"i64 {some_taps}",
                        )  # fmt: skip
                        new = f.v(f"zext i1 {f.compare('eq', k, 0)} to i64")
                        rest = (f"i64 {pitch}", f"ptr {f.element(kind.name, bias, r)}", f"i64 {new}")
                        for h in heights:
                            with f.when(f.compare("eq", tall, h)):
                                _across(f, kind, h, windows, wide, arguments, tile, strip, rest)
                        begun.set(f.add(k, deep))
                    to = f.element(kind.name, y, f.mul(g, word(f, plan, HEAD["y_group"])))
                    y_row = word(f, plan, HEAD["y_row"])
                    with f.loop(f.least(f.sub(rows, r), heights[0])) as m:
                        target = f.element(kind.name, to, f.mul(f.add(r, m), y_row))
                        row = f.element(kind.name, strip, f.mul(pitch, m))
                        f.call("void", "@strip_out", f"ptr {plan}", f"ptr {part}", f"ptr {origin}", f"ptr {row}",
                               f"ptr {target}")  # fmt: skip


def _across(
    f: Function, kind: Kind, height: int, windows: Value, wide: int, arguments: tuple[str, ...], tile: Value,
    strip: Value, rest: tuple[str, ...],
) -> None:  # fmt: skip
    """Run a block of filters over all windows: wide blocks, then single vectors."""
    done = f.cell("i64", 0)
    with f.loop(f.sub(windows, wide - kind.lanes), 0, wide) as q:
        places = (f"ptr {f.element(kind.name, tile, q)}", f"ptr {f.element(kind.name, strip, q)}")
        f.call("void", f"@rows_{height}_{WIDE}", *arguments, *places, *rest)
        done.set(f.add(q, wide))
    with f.loop(windows, done.get(), kind.lanes) as q:
        places = (f"ptr {f.element(kind.name, tile, q)}", f"ptr {f.element(kind.name, strip, q)}")
        f.call("void", f"@rows_{height}_1", *arguments, *places, *rest)


def _correlate(f: Function) -> None:
    table, plan = workspace.begin(f)
    out = workspace.new(
        f, table, "descr", word(f, plan, HEAD["ndim"]), f.at(plan, HEAD["shape"]), word(f, plan, HEAD["bytes"])
    )
    units = word(f, plan, HEAD["units"])
    threads = workspace.threads(f, table, units)
    slot_bytes, packed_bytes = word(f, plan, HEAD["slot_bytes"]), word(f, plan, HEAD["packed_bytes"])
    memory = workspace.scratch(f, table, f.add(packed_bytes, f.mul(threads, slot_bytes)), out)
    slots = f.at(memory, packed_bytes)
    data = [f.field("ptr", workspace.argument(f, i), DATA) for i in (1, 2)]
    bias, given = workspace.argument(f, 3), f.cell("ptr", "null")
    with f.when(f.compare("ne", bias, f.field("ptr", table, SELF["none"]), "ptr")):
        given.set(f.field("ptr", bias, DATA))
    job = workspace.space(f)
    for i, value in enumerate((*data, given.get(), f.field("ptr", out, DATA))):
        f.put("ptr", value, job, OPERANDS + 8 * i)
    f.put("ptr", memory, job, JOB["shared"])
    height = f.field("i64", table, SELF["height"])
    row_blocks = f.udiv(f.add(word(f, plan, HEAD["rows"]), f.sub(height, 1)), height)
    row_blocks = f.mul(row_blocks, word(f, plan, HEAD["groups"]))
    # Half a nanosecond per byte.
    half = f.v(f"lshr i64 {packed_bytes}, 1")
    workspace.run(f, table, job, plan, row_blocks, "@pack", half, threads, slots, slot_bytes)
    cost = word(f, plan, HEAD["cost"])
    workspace.run(f, table, job, plan, units, "@correlate_units", cost, threads, slots, slot_bytes)
    f.call("void", "@give", f"ptr {table}", f"ptr {memory}")
    f.ret("ptr", out)


__all__ = ["adjoint_plan", "define", "forward_plan", "make"]
