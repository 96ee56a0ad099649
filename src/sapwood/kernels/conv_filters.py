"""The gradient of filters in native code: dot products over windows, between the tile of an image and that of `g`.

Both tiles have the same rows, so that windows in gaps meet a zero of `g`. The images are cut into parts by their shapes
alone; each part has sums of its own, which are added in order at the end, so the result does not depend on threads.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from . import workspace
from .layout import DATA, fields
from .products import WIDE
from .tiles import DIMS, IMAGE, IMAGE_WORDS, Kind, Sizes, Tile, blocks, clip, corners, flat, four, place, steps_of, word
from .workspace import JOB, OPERANDS, SELF
from .writer import Function, Module, Value

Plan = np.ndarray[Any, Any]

TILE = 256 << 10
"""Bytes of an image's tile, which is read once for each block of rows of `g`."""
TALL_TILE = 1 << 20
"""Bytes of a tile that FEW or more taps look at."""
FEW = 4
WINDOWS = 768
"""Windows from which the joining of a block's lanes is a small part of its work; smaller images are joined."""
LEAST = 2
"""Blocks below which images are not joined."""
PARTS = 16
"""Parts the images are cut into, at most."""
PARTIAL_BYTES = 32 << 20
"""Bytes of the sums of all parts."""
CHUNK = 1024
"""Elements of a unit where parts are added."""

PLANS = 128
"""Plans that are kept for the next call."""

_LISTS = ("block", "grid", "count")
HEAD = fields(
    *("units", "parts", "blocks", "chunks", "chunk_rows", "groups", "rows", "channels", "depth", "pitch"),
    *("slot_bytes", "g_at", "out_at", "x_group", "g_group", "g_row", "tile_elements", "ndim", "bytes", "cost", "taps"),
    "elements",
)
HEAD |= {"shape": 8 * len(HEAD)}
HEAD |= {name: HEAD["shape"] + 8 * (5 + DIMS * i) for i, name in enumerate(_LISTS)}
HEAD |= {"image": HEAD["count"] + 8 * DIMS}
HEAD |= {"g_image": HEAD["image"] + 8 * IMAGE_WORDS}
HEAD_WORDS = HEAD["g_image"] // 8 + IMAGE_WORDS


@lru_cache(maxsize=PLANS)
def plan(
    dtype: str, register: int, block_shape: tuple[int, int],
    x: Sizes, g: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int,
) -> Plan:  # fmt: skip
    """Return the plan of the gradient of filters."""
    kind = Kind(dtype, register)
    channels, rows = x[1] // groups, g[1] // groups
    shape = (g[1], channels, *kernel)
    out = g[2:]
    if max(kernel) == 1 == max(stride) and not any(padding) and x[2:] == out:
        x, out, kernel = (*x[:2], prod(x[2:])), (prod(out),), (1,)
        stride, padding, dilation = (1,), (0,), (1,)
    step, apart = four(stride, 1), four(dilation, 1)
    taps = corners(four(kernel, 1))
    shifts = [tuple([k * d // s for k, d, s in zip(t, apart, step)]) for t in taps]
    phases = [tuple([k * d % s for k, d, s in zip(t, apart, step)]) for t in taps]
    count = (x[0], *four(out, 1)[1:])
    reach = Tile(shifts, phases, (1,) * DIMS).reach
    limit = TILE if len(taps) < FEW else TALL_TILE
    block = blocks(count, reach, channels * len(set(phases)) * kind.item, limit, windows=WINDOWS, least=LEAST)
    tile = Tile(shifts, phases, block)
    grid = tuple([-(-c // b) for c, b in zip(count, block)])
    depth = channels * len(taps)
    across, along = block_shape
    total = prod(grid)
    parts = max(1, min(total, PARTS, PARTIAL_BYTES // (groups * rows * depth * kind.item)))
    row_blocks = -(-rows // across)
    # A range of rows fetches the image again, so there should be enough of them to pay for it.
    chunks = max(1, min(-(-row_blocks // 4), -(-PARTS // (parts * groups))))
    chunk_rows = -(-row_blocks // chunks) * across
    chunks = -(-rows // chunk_rows)
    pitch = -(-tile.plane // kind.lanes) * kind.lanes
    tile_elements = channels * tile.image
    g_at = -(-(tile_elements + 2 * WIDE * kind.lanes) * kind.item // 64) * 64
    # Rows of the last block that are not there are computed all the same.
    out_at = -(-(g_at + (chunk_rows + across) * pitch * kind.item) // 64) * 64
    slot = out_at + across * along * kind.item + 64
    images = np.arange(channels)[:, None] * tile.image
    offsets = np.pad((images + tile.taps).reshape(-1) * kind.item, (0, -depth % along), mode="edge")
    x_channel, x_source = steps_of(x)
    g_channel, g_source = steps_of((*g[:2], *out))
    values = {
        "units": parts * groups * chunks,
        "parts": parts,
        "blocks": total,
        "chunks": chunks,
        "chunk_rows": chunk_rows,
        "groups": groups,
        "rows": rows,
        "channels": channels,
        "depth": depth,
        "pitch": pitch,
        "slot_bytes": -(-slot // 4096) * 4096 + 2048,
        "g_at": g_at,
        "out_at": out_at,
        "x_group": channels * x_channel,
        "g_group": rows * g_channel,
        "g_row": g_channel,
        "tile_elements": tile_elements,
        "ndim": len(shape),
        "bytes": prod(shape) * kind.item,
        "cost": prod(count) * depth * rows * groups // 20 + groups * rows * depth,
        "taps": HEAD_WORDS,
        "elements": groups * rows * depth,
    }
    head = [values[name] for name in list(HEAD)[: len(values)]]
    lists = [*shape, *[0] * (5 - len(shape)), *block, *grid, *count]
    phase_table = HEAD_WORDS + len(offsets)
    size = (x[0], *four(x[2:], 1)[1:])
    image = tile.words(x_channel, phase_table, size, step, four(padding, 0), x_source)
    ones, zeros = (1,) * DIMS, (0,) * DIMS
    g_image = tile.words(
        g_channel, phase_table + len(tile.phase_words()), count, ones, zeros, g_source, block, pitch - tile.plane
    )
    g_image[0] = 1
    words = np.array([*head, *lists, *image, *g_image], np.int64)
    return np.concatenate([words, offsets, [*tile.phase_words(), *zeros]])


X, G, PARTIALS, Y, FLAG = range(5)
"""Operands of the job; FLAG: where to say that a sum is NaN."""


def define(module: Module, kind: Kind, shape: tuple[int, int]) -> None:
    """Define `filters`, the C function of a builtin of (plan, image, g).

    It returns None where a sum is NaN: an infinity that only a gap has met would be the reason.
    """
    with module.function("void", "filter_units", "ptr %job", "i64 %begin", "i64 %end", apart=True) as f:
        _units(f, kind, shape)
    with module.function("void", "add_parts", "ptr %job", "i64 %begin", "i64 %end", apart=True) as f:
        _add_parts(f, kind)
    with module.function("ptr", "filters", "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
        _filters(f)


def _units(f: Function, kind: Kind, shape: tuple[int, int]) -> None:
    plan = f.field("ptr", "%job", JOB["plan"])
    x, g, partials = (workspace.operand(f, "%job", i) for i in (X, G, PARTIALS))
    tile = workspace.slot(f, "%job")
    g_tile, sums = f.at(tile, word(f, plan, HEAD["g_at"])), f.at(tile, word(f, plan, HEAD["out_at"]))
    chunks, groups, parts = (word(f, plan, HEAD[n]) for n in ("chunks", "groups", "parts"))
    rows, depth, pitch = (word(f, plan, HEAD[n]) for n in ("rows", "depth", "pitch"))
    tile_shape = [word(f, plan, HEAD["image"] + IMAGE["shape"], i) for i in range(DIMS)]
    origin = f.space("i64", 2 * DIMS)
    across, along = shape
    with f.loop("%end", "%begin") as u:
        chunk, rest = f.urem(u, chunks), f.udiv(u, chunks)
        group, part = f.urem(rest, groups), f.udiv(rest, groups)
        first = f.mul(chunk, word(f, plan, HEAD["chunk_rows"]))
        here = f.least(f.sub(rows, first), word(f, plan, HEAD["chunk_rows"]))
        at = f.add(f.mul(f.add(f.mul(part, groups), group), rows), first)
        out = f.element(kind.name, partials, f.mul(at, depth))
        f.call("void", "@fill_run", f"ptr {out}", f"i64 {f.mul(here, depth)}", f"{kind.name} 0.0")
        total = word(f, plan, HEAD["blocks"])
        begin, end = f.udiv(f.mul(part, total), parts), f.udiv(f.mul(f.add(part, 1), total), parts)
        with f.loop(end, begin) as block:
            place(f, plan, block, HEAD["grid"], HEAD["block"], origin)
            _, counts = clip(f, f.at(plan, HEAD["count"]), plan, HEAD["block"], origin)
            windows = flat(f, counts, tile_shape)
            source = f.element(kind.name, x, f.mul(group, word(f, plan, HEAD["x_group"])))
            f.call("void", "@fetch", f"ptr {plan}", f"ptr {f.at(plan, HEAD['image'])}", f"ptr {source}", f"ptr {tile}",
                   f"ptr {origin}", f"i64 {word(f, plan, HEAD['channels'])}", f"{kind.name} 0.0")  # fmt: skip
            # The last vector of windows may reach behind the tile.
            behind = f.element(kind.name, tile, word(f, plan, HEAD["tile_elements"]))
            f.call("void", "@fill_run", f"ptr {behind}", f"i64 {2 * WIDE * kind.lanes}", f"{kind.name} 0.0")
            offset = f.add(f.mul(group, word(f, plan, HEAD["g_group"])), f.mul(first, word(f, plan, HEAD["g_row"])))
            source = f.element(kind.name, g, offset)
            f.call("void", "@fetch", f"ptr {plan}", f"ptr {f.at(plan, HEAD['g_image'])}", f"ptr {source}",
                   f"ptr {g_tile}", f"ptr {origin}", f"i64 {here}", f"{kind.name} 0.0")  # fmt: skip
            with f.loop(here, 0, across) as r:
                row = f.element(kind.name, g_tile, f.mul(r, pitch))
                to = f.element(kind.name, out, f.mul(r, depth))
                tall = f.least(f.sub(here, r), across)
                with f.loop(depth, 0, along) as k:
                    taps = f.element("i64", f.element("i64", plan, word(f, plan, HEAD["taps"])), k)
                    f.call("void", "@dots", f"ptr {row}", f"i64 {pitch}", f"ptr {tile}", f"ptr {taps}",
                           f"i64 {windows}", f"ptr {sums}")  # fmt: skip
                    broad = f.least(f.sub(depth, k), along)
                    whole = f.both(f.compare("eq", tall, across), f.compare("eq", broad, along))
                    at = f.element(kind.name, to, k)
                    with f.when(whole):
                        _add_block(f, kind, shape, sums, at, depth)
                    with f.unless(whole):
                        with f.loop(tall) as m:
                            found, line = f.element(kind.name, sums, f.mul(m, along)), f.mul(m, depth)
                            with f.loop(broad) as t:
                                spot = f.element(kind.name, at, f.add(line, t))
                                more = f.load(kind.name, f.element(kind.name, found, t))
                                f.store(kind.name, f.v(f"fadd {kind.name} {f.load(kind.name, spot)}, {more}"), spot)


def _add_block(f: Function, kind: Kind, shape: tuple[int, int], sums: Value, to: Value, depth: Value) -> None:
    """Add a whole block of sums to rows `depth` elements apart, with vectors as long as they fit."""
    across, along = shape
    for m in range(across):
        row = f.element(kind.name, to, f.mul(depth, m))
        at = 0
        while at < along:
            size = min(1 << (along - at).bit_length() - 1, kind.lanes)
            vector, tail = f"<{size} x {kind.name}>", f", align {kind.item}"
            spot = f.element(kind.name, row, at)
            more = f.load(vector, f.element(kind.name, sums, m * along + at), tail)
            f.store(vector, f.v(f"fadd {vector} {f.load(vector, spot, tail)}, {more}"), spot, tail)
            at += size


def _add_parts(f: Function, kind: Kind) -> None:
    """Add the sums of all parts, in order."""
    plan = f.field("ptr", "%job", JOB["plan"])
    partials, y, flag = (workspace.operand(f, "%job", i) for i in (PARTIALS, Y, FLAG))
    elements, parts = word(f, plan, HEAD["elements"]), word(f, plan, HEAD["parts"])
    end = f.least(f.mul("%end", CHUNK), elements)
    bad = f.cell("i1", "false")
    with f.loop(end, f.mul("%begin", CHUNK)) as i:
        total = f.cell(kind.name, f.load(kind.name, f.element(kind.name, partials, i)))
        with f.loop(parts, 1) as p:
            more = f.load(kind.name, f.element(kind.name, partials, f.add(f.mul(p, elements), i)))
            total.set(f.v(f"fadd {kind.name} {total.get()}, {more}"))
        value = total.get()
        f.store(kind.name, value, f.element(kind.name, y, i))
        bad.set(f.either(bad.get(), f.v(f"fcmp uno {kind.name} {value}, {value}")))
    with f.when(bad.get()):
        f.store("i64", 1, flag)


def _filters(f: Function) -> None:
    table, plan = workspace.begin(f)
    size = word(f, plan, HEAD["bytes"])
    out = workspace.new(f, table, "descr", word(f, plan, HEAD["ndim"]), f.at(plan, HEAD["shape"]), size)
    units, slot_bytes = word(f, plan, HEAD["units"]), word(f, plan, HEAD["slot_bytes"])
    threads = workspace.threads(f, table, units)
    slots, partial_bytes = f.mul(threads, slot_bytes), f.mul(word(f, plan, HEAD["parts"]), size)
    memory = workspace.scratch(f, table, f.add(slots, partial_bytes), out)
    flag, job = f.space("i64", 1), workspace.space(f)
    f.store("i64", 0, flag)
    data = [f.field("ptr", workspace.argument(f, i), DATA) for i in (1, 2)]
    for i, value in enumerate((*data, f.at(memory, slots), f.field("ptr", out, DATA), flag)):
        f.put("ptr", value, job, OPERANDS + 8 * i)
    cost = word(f, plan, HEAD["cost"])
    workspace.run(f, table, job, plan, units, "@filter_units", cost, threads, memory, slot_bytes)
    chunks = f.udiv(f.add(word(f, plan, HEAD["elements"]), CHUNK - 1), CHUNK)
    # A sixteenth of a nanosecond per byte.
    cost = f.v(f"lshr i64 {partial_bytes}, 4")
    workspace.run(f, table, job, plan, chunks, "@add_parts", cost, threads, memory, slot_bytes)
    f.call("void", "@give", f"ptr {table}", f"ptr {memory}")
    with f.unless(f.compare("eq", f.load("i64", flag), 0)):
        workspace.drop(f, table, [out])
        none = f.field("ptr", table, SELF["none"])
        f.call("void", "@keep", f"ptr {none}")
        f.ret("ptr", none)
    f.ret("ptr", out)


__all__ = ["define", "plan"]
