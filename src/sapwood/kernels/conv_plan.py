"""Plans of convolutions and their adjoints: which taps meet which elements, in tables that native code reads.

`conv_correlate` runs them. Everything here depends on shapes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .layout import fields
from .products import WIDE
from .tiles import DIMS, IMAGE_WORDS, Kind, Sizes, Tile, blocks, corners, four, steps_of

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


__all__ = ["HEAD", "PART", "PART_WORDS", "adjoint_plan", "forward_plan"]
