"""Images in scratch memory, as native loops over windows want them.

A tile is a part of an image with its padding written out, in C order (channel, phase, n, d, h, w). With a stride s the
elements of a dimension are dealt to s phases, so that the elements one tap of a kernel meets lie next to each other
whatever the stride and dilation; a tap then is one offset, and window q of the tile finds its elements at offset + q.
Windows that begin in the padding of a row meet elements of the next row: their results are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import numpy as np

from .layout import fields
from .writer import Function, Module, Value

Sizes = tuple[int, ...]

DIMS = 4
"""Of an image: the batch, and up to three in space."""
_LISTS = ("size", "step", "pad", "source", "shape", "extent")
IMAGE = fields("phases", "channel", "phase_table", "gap")
IMAGE |= {name: 8 * (4 + DIMS * i) for i, name in enumerate(_LISTS)}
IMAGE_WORDS = 4 + DIMS * len(_LISTS)
"""A tile: what to copy from where.

channel: elements between two channels in memory; phase_table: the word in the plan where the phases begin, one number
per dimension each; gap: elements of padding behind each channel of the tile. Per dimension: size of the image; step:
stride of the windows; pad: elements in front; source: elements from one to the next in memory; shape: sizes of the
tile; extent: how many of these may be filled, the others are padding.
"""


class Tile:
    """The tile of one kernel's windows, and where the taps find their elements."""

    def __init__(self, shifts: Sequence[Sizes], phases: Sequence[Sizes], block: Sizes) -> None:
        """Lay out a tile.

        Args:
            shifts, phases: per tap, what it adds to a window's position and the phase it looks at, per dimension.
            block: windows per dimension.
        """
        self.phases = sorted(set(phases)) or [(0,) * DIMS]
        self.reach = tuple([max([s[i] for s in shifts], default=0) for i in range(DIMS)])
        self.block = block
        self.shape = tuple([b + r for b, r in zip(block, self.reach)])
        self.plane = prod(self.shape)
        self.image = self.plane * len(self.phases)
        steps = [prod(self.shape[i + 1 :]) for i in range(DIMS)]
        numbers = {p: i for i, p in enumerate(self.phases)}
        self.taps = np.array(
            [numbers[p] * self.plane + sum(a * b for a, b in zip(s, steps)) for s, p in zip(shifts, phases)], np.int64
        )

    def words(
        self,
        channel: int,
        phase_table: int,
        size: Sizes,
        step: Sizes,
        pad: Sizes,
        source: Sizes,
        extent: Sizes | None = None,
        gap: int = 0,
    ) -> list[int]:
        """Return the tile's words in a plan."""
        lists = (size, step, pad, source, self.shape, extent or self.shape)
        return [len(self.phases), channel, phase_table, gap, *(v for one in lists for v in one)]

    def phase_words(self) -> list[int]:
        return [v for p in self.phases for v in p]


def blocks(count: Sizes, reach: Sizes, per_window: int, limit: int, *, windows: int, least: int) -> Sizes:
    """Return how many windows per dimension to take at a time.

    Args:
        count: windows per dimension.
        reach: elements a tile has beyond its windows.
        per_window: bytes of a tile per element of one plane.
        limit: bytes of a tile, kept where a single row of windows does.
        windows: images are joined until there are about so many windows.
        least: number of blocks below which images are not joined.
    """
    chosen = [1] * DIMS
    for i in reversed(range(DIMS)):
        others = per_window * prod([c + r for j, (c, r) in enumerate(zip(chosen, reach)) if j != i])
        most = max(1 if i < DIMS - 1 else min(64, count[i]), limit // max(1, others) - reach[i])
        if i == 0:
            most = min(most, max(1, windows // max(1, prod(chosen))), max(1, count[0] // least))
        # Even parts, so that the last one is not a mere rest.
        chosen[i] = -(-count[i] // -(-count[i] // min(most, count[i]))) if count[i] else 1
        if chosen[i] < count[i]:
            break
    return tuple(chosen)


def four(values: Sequence[int], default: int) -> Sizes:
    """Return one value for the batch and three for space, `default` where there are fewer."""
    return (default,) * (DIMS - len(values)) + tuple(values)


def steps_of(shape: Sizes) -> tuple[int, Sizes]:
    """Return the elements between channels, and between elements of the other dimensions, of an array in C order."""
    space = shape[2:]
    steps = [prod(space[i + 1 :]) for i in range(len(space))]
    return prod(space), (shape[1] * prod(space), *four(steps, 0)[1:])


def corners(count: Sizes) -> list[Sizes]:
    """Return every position of a grid."""
    return list(product(*map(range, count)))


# -- native code ------------------------------------------------------------------------------------------------------


class Kind:
    """A float type as LLVM's vectors hold it."""

    def __init__(self, dtype: str, register: int) -> None:
        self.name, self.item = {"f32": ("float", 4), "f64": ("double", 8)}[dtype]
        self.lanes = register // self.item
        self.vector = f"<{self.lanes} x {self.name}>"
        self.suffix = f"v{self.lanes}{dtype}"
        """What LLVM's intrinsics for these vectors end in."""

    def splat(self, f: Function, value: Value) -> Value:
        """Return a vector of copies of one number."""
        return spread(f, self.vector, self.name, self.lanes, value)

    def load(self, f: Function, pointer: Value) -> Value:
        return f.load(self.vector, pointer, f", align {self.item}")

    def store(self, f: Function, value: Value, pointer: Value) -> None:
        f.store(self.vector, value, pointer, f", align {self.item}")


def spread(f: Function, vector: str, name: str, lanes: int, value: Value) -> Value:
    """Return a vector whose lanes are all `value`."""
    one = f.v(f"insertelement {vector} poison, {name} {value}, i64 0")
    return f.v(f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer")


def shuffle(f: Function, vector: str, a: Value, b: Value, order: Sequence[int]) -> Value:
    """Return chosen lanes of two vectors."""
    lanes = ", ".join(f"i32 {i}" for i in order)
    return f.v(f"shufflevector {vector} {a}, {vector} {b}, <{len(order)} x i32> <{lanes}>")


def define(module: Module, kind: Kind) -> None:
    """Define `copy_run`, `copy_apart`, `fill_run` and `fetch`."""
    with module.function("void", "copy_run", "ptr %to", "ptr %from", "i64 %n", internal=True) as f:

        def move(vector: str, at: Value) -> None:
            tail = f", align {kind.item}"
            x = f.load(vector, f.element(kind.name, "%from", at), tail)
            f.store(vector, x, f.element(kind.name, "%to", at), tail)

        _pieces(f, kind, move)
    with module.function("void", "fill_run", "ptr %to", "i64 %n", f"{kind.name} %x", internal=True) as f:

        def put(vector: str, at: Value) -> None:
            lanes = int(vector[1:].split()[0])
            x = spread(f, vector, kind.name, lanes, "%x")
            f.store(vector, x, f.element(kind.name, "%to", at), f", align {kind.item}")

        _pieces(f, kind, put)
    with module.function(
        "void", "copy_apart", "ptr %to", "ptr %from", "i64 %n", "i64 %step", "i64 %tostep", apart=True
    ) as f:
        _copy_apart(f, kind)
    with module.function(
        "void", "fetch", "ptr %plan", "ptr %image", "ptr %from", "ptr %to", "ptr %origin", "i64 %channels",
        f"{kind.name} %fill",
        apart=True,
    ) as f:  # fmt: skip
        _fetch(f, kind)


def _pieces(f: Function, kind: Kind, move: Callable[[str, Value], None]) -> None:
    """Cover %n elements with vectors: the last one overlaps the one before, fewer than one are halves of halves."""
    with f.when(f.compare("sge", "%n", kind.lanes)):
        last = f.sub("%n", kind.lanes)
        with f.loop(last, 0, kind.lanes) as i:
            move(kind.vector, i)
        move(kind.vector, last)
        f.ret()
    size = kind.lanes // 2
    while size:
        with f.unless(f.compare("eq", f.v(f"and i64 %n, {size}"), 0)):
            move(f"<{size} x {kind.name}>", f.v(f"and i64 %n, {kind.lanes - 2 * size}"))
        size //= 2


def _copy_apart(f: Function, kind: Kind) -> None:
    """Copy elements %step apart to places %tostep apart."""
    begin = f.cell("i64", 0)
    pairs = f.both(f.compare("eq", "%step", 2), f.compare("eq", "%tostep", 1))
    with f.when(pairs):
        # A pair of vectors holds one more element than is needed, which at the end of the image is not there.
        whole = f.v(f"and i64 {f.sub('%n', 1)}, {-kind.lanes}")
        with f.loop(whole, 0, kind.lanes) as i:
            at = f.element(kind.name, "%from", f.mul(i, 2))
            a, b = kind.load(f, at), kind.load(f, f.element(kind.name, at, kind.lanes))
            even = shuffle(f, kind.vector, a, b, range(0, 2 * kind.lanes, 2))
            kind.store(f, even, f.element(kind.name, "%to", i))
        begin.set(f.greatest(whole, 0))
    with f.loop("%n", begin.get()) as i:
        x = f.load(kind.name, f.element(kind.name, "%from", f.mul(i, "%step")))
        f.store(kind.name, x, f.element(kind.name, "%to", f.mul(i, "%tostep")))


def word(f: Function, struct: Value, offset: int, index: int = 0) -> Value:
    """Load a word of a table."""
    return f.field("i64", struct, offset + 8 * index)


def place(f: Function, plan: Value, block: Value, grid_at: int, block_at: int, origin: Value) -> None:
    """Write the position of a block's first window to %origin."""
    rest = block
    for i in reversed(range(DIMS)):
        size = word(f, plan, grid_at, i)
        index = f.urem(rest, size)
        f.put("i64", f.mul(index, word(f, plan, block_at, i)), origin, 8 * i)
        rest = f.udiv(rest, size)


def clip(f: Function, count: Value, plan: Value, block_at: int, origin: Value) -> tuple[Value, list[Value]]:
    """Write how many windows of a block there are behind its position; return whether there are any, and how many."""
    counts = []
    some = f.compare("eq", 0, 0)
    for i in range(DIMS):
        left = f.sub(word(f, count, 0, i), f.field("i64", origin, 8 * i))
        n = f.least(left, word(f, plan, block_at, i))
        f.put("i64", n, origin, 8 * (DIMS + i))
        some = f.both(some, f.compare("sgt", n, 0))
        counts.append(n)
    return some, counts


def flat(f: Function, counts: list[Value], shape: list[Value]) -> Value:
    """Return the number of windows from the first to the last, those in gaps included."""
    last = f.sub(counts[0], 1)
    for n, size in zip(counts[1:], shape[1:]):
        last = f.add(f.mul(last, size), f.sub(n, 1))
    return f.add(last, 1)


def _fetch(f: Function, kind: Kind) -> None:
    """Write a tile: %image says which, %origin holds the position of its first window."""
    lists = {name: [word(f, "%image", IMAGE[name], i) for i in range(DIMS)] for name in _LISTS}
    first = [f.mul(f.field("i64", "%origin", 8 * i), lists["step"][i]) for i in range(DIMS)]
    first = [f.sub(a, p) for a, p in zip(first, lists["pad"])]
    phases = f.element("i64", "%plan", word(f, "%image", IMAGE["phase_table"]))
    to = f.cell("ptr", "%to")
    width, step = lists["shape"][3], lists["step"][3]
    apart = f.mul(lists["source"][3], step)
    dense = f.compare("eq", apart, 1)
    plane = f.mul(f.mul(lists["shape"][0], lists["shape"][1]), f.mul(lists["shape"][2], width))
    with f.loop("%channels") as c:
        channel = f.element(kind.name, "%from", f.mul(c, word(f, "%image", IMAGE["channel"])))
        with f.loop(word(f, "%image", IMAGE["phases"])) as number:
            phase = f.element("i64", phases, f.mul(number, DIMS))
            start = [f.add(a, f.field("i64", phase, 8 * i)) for i, a in enumerate(first)]
            a = _reach(f, f.sub(0, start[3]), step, width)
            end = f.least(lists["extent"][3], width)
            b = f.greatest(_reach(f, f.sub(lists["size"][3], start[3]), step, end), a)
            edges = f.either(f.compare("ne", a, 0), f.compare("ne", b, width))
            with f.when(edges):
                # All at once is faster than the ends of each row.
                f.call("void", "@fill_run", f"ptr {to.get()}", f"i64 {plane}", f"{kind.name} %fill")
            x = f.mul(f.add(f.mul(a, step), start[3]), lists["source"][3])
            base = f.element(kind.name, channel, x)
            n = f.sub(b, a)
            with f.loop(lists["shape"][0]) as i0:
                p0, in0 = _line(f, lists, start, i0, 0)
                with f.loop(lists["shape"][1]) as i1:
                    p1, in1 = _line(f, lists, start, i1, 1)
                    outer, in01 = f.add(p0, p1), f.both(in0, in1)
                    with f.loop(lists["shape"][2]) as i2:
                        p2, in2 = _line(f, lists, start, i2, 2)
                        inside = f.both(in01, in2)
                        row = to.get()
                        with f.when(f.no(f.either(inside, edges))):
                            f.call("void", "@fill_run", f"ptr {row}", f"i64 {width}", f"{kind.name} %fill")
                        with f.when(inside):
                            source = f.element(kind.name, base, f.add(outer, p2))
                            target = f.element(kind.name, row, a)
                            with f.when(dense):
                                f.call("void", "@copy_run", f"ptr {target}", f"ptr {source}", f"i64 {n}")
                            with f.unless(dense):
                                f.call("void", "@copy_apart", f"ptr {target}", f"ptr {source}", f"i64 {n}",
                                       f"i64 {apart}", "i64 1")  # fmt: skip
                        to.set(f.element(kind.name, row, width))
            gap = word(f, "%image", IMAGE["gap"])
            f.call("void", "@fill_run", f"ptr {to.get()}", f"i64 {gap}", f"{kind.name} %fill")
            to.set(f.element(kind.name, to.get(), gap))


def _reach(f: Function, distance: Value, step: Value, most: Value) -> Value:
    """Return how many steps it takes to cover a distance, between 0 and `most`."""
    steps = f.udiv(f.add(distance, f.sub(step, 1)), step)
    return f.least(f.choose(f.compare("sgt", distance, 0), steps, 0), most)


def _line(f: Function, lists: dict[str, list[Value]], start: list[Value], i: Value, dim: int) -> tuple[Value, Value]:
    """Return where line `i` of a dimension is, and whether it is inside the image."""
    at = f.add(start[dim], f.mul(i, lists["step"][dim]))
    inside = f.both(f.compare("ult", at, lists["size"][dim]), f.compare("slt", i, lists["extent"][dim]))
    return f.mul(at, lists["source"][dim]), inside


__all__ = ["DIMS", "IMAGE", "IMAGE_WORDS", "Kind", "Tile", "blocks", "clip", "corners", "define", "flat",
           "four", "place", "shuffle", "spread", "steps_of", "word"]  # fmt: skip
