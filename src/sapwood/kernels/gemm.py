"""Products of matrices as a builtin: one matrix or a batch, both factors packed, shared out among threads.

A library's own threads and ours would wait for work on the same cores, and a small product costs a library more in
checks than in sums; so the sums are ours (see `panels`). A large product packs both factors, then computes blocks of
rows and columns; of a batch, each unit is one whole product.

    >>> import numpy as np
    >>> from sapwood.kernels import gemm
    >>> multiply = gemm.builtin_of(np.matmul)
    >>> a, b = np.ones((2, 3)), np.ones((3, 2))
    >>> multiply(a, b)
    array([[3., 3.],
           [3., 3.]])
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from . import builtin, engine, workspace
from .layout import ALIGNED, BYTES_DATA, DATA, DESCR, DIMS, ENV, FLAGS, NDIM, STRIDES, TYPE
from .panels import DEPTH, Panels
from .writer import Function, Module, Value

SMALL = 1 << 18
"""Multiplications that one thread does sooner than two share them."""
SHARED = 1 << 20
"""Multiplications from which a product is worth the work of several threads, in a batch too."""
ROWS, COLUMNS = 192, 4
"""Rows and panels of a block, about: what it reads stays in the second-level cache."""
BLOCKS = 8
"""Blocks of a product, at least, where its panels suffice."""
FEW = 4
"""Rows or columns below which packing costs more than it saves: BLAS does better."""

SELF = workspace.SELF | {name: 8 * (len(workspace.SELF) + i) for i, name in enumerate(("fallback", "least"))}
WORDS = ("a", "b", "bias", "c", "m", "n", "k", "lda", "ldb", "a_turned", "b_turned", "a_step", "b_step", "left",
         "right", "rows", "row_blocks", "wide", "panels", "bands")  # fmt: skip
JOB = {name: workspace.OPERANDS + 8 * i for i, name in enumerate(WORDS)}
"""Operands; leads and steps in bytes; addresses of what is packed; rows and panels of a block, and their numbers."""


@cache
def builtin_of(fallback: Any, least: int = 0) -> Any:
    """Return `multiply(a, b, bias=None)`.

    It multiplies matrices (M, K) and (K, N), or batches of as many (B, M, K) and (B, K, N), of float32 or float64, and
    adds a bias (N,) to each row.

    Args:
        fallback: called with the same arguments for everything else.
        least: products whose larger factor has fewer elements go to the fallback.
    """
    if not builtin.available():
        return fallback

    def other(*args: Any) -> Any:
        if args[0].dtype.char == "d":
            return _builtin("f64", fallback, least)(*args)
        return fallback(*args)

    return _builtin("f32", other, least)


@cache
def _builtin(dtype: str, fallback: Any, least: int) -> Any:
    env = builtin.environment()
    values = workspace.addresses() | {
        "descr": env[ENV[dtype] // 8],
        "height": 0,
        "fallback": id(fallback),
        "least": least,
    }
    table = builtin.table(8 * len(SELF), values, SELF, (env, fallback))
    return builtin.make("multiply", _address(dtype), table, "Multiply two matrices.")


@cache
def _address(dtype: str) -> int:
    """Compile `multiply` for a dtype and return where it is."""
    module = Module()
    workspace.define(module)
    work = _Work(module, dtype)
    work.define()
    with module.function("i1", "matrix", "ptr %array", "i64 %size", "ptr %lead", "ptr %turned", part="control") as f:
        _matrix(f)
    with module.function("ptr", "multiply", "ptr %self", "ptr %args", "i64 %given", "ptr %names", part="control") as f:
        _multiply(f, dtype, work)
    return engine.load(module.text(), ["multiply"])["multiply"]


def dense(x: Any) -> Any:
    """Return the array, or a copy of it if BLAS could not read its matrices in place."""
    down, right = x.strides[-2:]
    rows, columns = x.shape[-2:]
    item = x.itemsize
    plain = (right == item or columns == 1) and (rows == 1 or (down >= columns * item and down % item == 0))
    turned = (down == item or rows == 1) and (columns == 1 or (right >= rows * item and right % item == 0))
    return x if plain or turned else np.array(x, order="C")


def _matrix(f: Function) -> None:
    """Answer whether an array holds aligned matrices that BLAS can read; store their lead, and whether it is turned."""
    nd = f.field("i32", "%array", NDIM)
    batched = f.compare("eq", nd, 3, "i32")
    f.leave(f.no(f.either(f.compare("eq", nd, 2, "i32"), batched)), "no")
    aligned = f.v(f"and i32 {f.field('i32', '%array', FLAGS)}, {ALIGNED}")
    f.leave(f.compare("eq", aligned, 0, "i32"), "no")
    ahead = f.choose(batched, 8, 0)
    dims, strides = (f.at(f.field("ptr", "%array", x), ahead) for x in (DIMS, STRIDES))
    rows, columns = f.load("i64", dims), f.field("i64", dims, 8)
    down, right = f.load("i64", strides), f.field("i64", strides, 8)
    for turned, step, lead, inner, outer in (("0", right, down, columns, rows), ("1", down, right, rows, columns)):
        # The step along a dimension of one element says nothing.
        dense = f.either(f.compare("eq", step, "%size"), f.compare("eq", inner, 1))
        whole = f.compare("eq", f.v(f"and i64 {lead}, {f.sub('%size', 1)}"), 0)
        far = f.both(f.compare("sge", lead, f.mul(inner, "%size")), whole)
        single = f.compare("eq", outer, 1)
        with f.when(f.both(dense, f.either(far, single))):
            f.store("i64", lead, "%lead")
            f.store("i64", turned, "%turned")
            f.ret("i1", "true")
    f.go("no")
    f.start("no")
    f.ret("i1", "false")


def _multiply(f: Function, dtype: str, work: _Work) -> None:
    slow = "slow"
    table = f.at("%self", BYTES_DATA)
    env = f.field("ptr", table, SELF["env"])
    size = work.size
    f.leave(f.compare("ne", "%names", "null", "ptr"), slow)
    f.leave(f.either(f.compare("slt", "%given", 2), f.compare("sgt", "%given", 3)), slow)
    a, b = f.load("ptr", "%args"), f.field("ptr", "%args", 8)
    ndarray, descr = f.field("ptr", env, ENV["ndarray"]), f.field("ptr", table, SELF["descr"])

    def typed(x: Value) -> None:
        f.leave(f.compare("ne", f.field("ptr", x, TYPE), ndarray, "ptr"), slow)
        f.leave(f.compare("ne", f.field("ptr", x, DESCR), descr, "ptr"), slow)

    job = f.space("i64", workspace.OPERANDS // 8 + len(WORDS), align=16)
    for x, lead, turned in ((a, "lda", "a_turned"), (b, "ldb", "b_turned")):
        typed(x)
        readable = f.call(
            "i1", "@matrix", f"ptr {x}", f"i64 {size}", f"ptr {f.at(job, JOB[lead])}", f"ptr {f.at(job, JOB[turned])}"
        )  # fmt: skip
        f.leave(f.no(readable), slow)
    nd = f.field("i32", a, NDIM)
    f.leave(f.compare("ne", nd, f.field("i32", b, NDIM), "i32"), slow)
    batched = f.compare("eq", nd, 3, "i32")
    ahead = f.choose(batched, 8, 0)
    dims, dims_b = (f.at(f.field("ptr", x, DIMS), ahead) for x in (a, b))
    m, k, n = f.load("i64", dims), f.field("i64", dims, 8), f.field("i64", dims_b, 8)
    f.leave(f.compare("ne", k, f.load("i64", dims_b)), slow)
    batch, other = (f.load("i64", f.field("ptr", x, DIMS)) for x in (a, b))
    f.leave(f.both(batched, f.compare("ne", batch, other)), slow)
    batch = f.choose(batched, batch, 1)
    larger = f.mul(f.mul(f.greatest(m, n), k), batch)
    f.leave(f.compare("slt", larger, f.field("i64", table, SELF["least"])), slow)
    f.leave(f.compare("slt", f.least(m, n), FEW), slow)
    each = f.mul(f.mul(m, n), k)
    f.leave(f.compare("eq", f.mul(each, batch), 0), slow)
    for x, step in ((a, "a_step"), (b, "b_step")):
        f.put("i64", f.choose(batched, f.load("i64", f.field("ptr", x, STRIDES)), 0), job, JOB[step])
    f.put("ptr", "null", job, JOB["bias"])
    with f.when(f.compare("eq", "%given", 3)):
        bias = f.field("ptr", "%args", 16)
        typed(bias)
        f.leave(f.compare("ne", f.field("i32", bias, NDIM), 1, "i32"), slow)
        f.leave(f.compare("ne", f.load("i64", f.field("ptr", bias, DIMS)), n), slow)
        f.leave(f.compare("ne", f.load("i64", f.field("ptr", bias, STRIDES)), size), slow)
        f.put("ptr", f.field("ptr", bias, DATA), job, JOB["bias"])
    shape = f.space("i64", 3)
    f.store("i64", batch, shape)
    last = f.at(shape, ahead)
    f.store("i64", m, last)
    f.put("i64", n, last, 8)
    count = f.mul(f.mul(f.mul(m, n), size), batch)
    made = workspace.new(f, table, "descr", f.choose(batched, 3, 2), shape, count)
    for name, value in (("m", m), ("n", n), ("k", k)):
        f.put("i64", value, job, JOB[name])
    for name, x in (("a", a), ("b", b), ("c", made)):
        f.put("ptr", f.field("ptr", x, DATA), job, JOB[name])
    work.spread(f, table, job, batch, each, made)
    f.ret("ptr", made)

    f.start(slow)
    fallback, call = f.field("ptr", table, SELF["fallback"]), f.field("ptr", env, ENV["vectorcall"])
    f.ret("ptr", f.call("ptr", call, f"ptr {fallback}", "ptr %args", "i64 %given", "ptr %names"))


class _Work:
    """How a product of one dtype is packed and computed."""

    def __init__(self, module: Module, dtype: str) -> None:
        self.module, self.panels = module, Panels(module, dtype)
        self.size, self.columns, self.height = self.panels.size, self.panels.columns, self.panels.height
        self.across = self.panels.pitch * self.size
        """Bytes that a column of a band takes."""
        self.rows = ROWS // self.height * self.height
        self.cheap = {4: 5, 8: 4}[self.size]
        """Multiplications in a nanosecond, as a power of two."""

    def define(self) -> None:
        self.panels.define()
        for name, body in (("pack", self._pack), ("blocks", self._blocks), ("whole", self._whole)):
            with self.module.function("void", name, "ptr %job", "i64 %begin", "i64 %end", part="control") as f:
                body(f)

    # The frame of a call.

    def spread(self, f: Function, table: Value, job: Value, batch: Value, each: Value, made: Value) -> None:
        """Compute all products of a call."""
        m, n, k = (f.field("i64", job, JOB[x]) for x in "mnk")
        panels = _up(f, n, self.columns)
        bands = _up(f, m, self.height)
        left = f.mul(f.mul(bands, k), self.across)
        right = f.mul(f.mul(panels, k), self.columns * self.size)
        # A block's tiles at the edge are written to spare memory of a panel's width, with a row of zeros behind them.
        single = f.compare("eq", batch, 1)
        rows = f.least(m, self.rows)
        row_blocks = _up(f, m, rows)
        # Few blocks would leave threads without work at the end.
        wide = f.greatest(1, f.least(COLUMNS, f.udiv(f.mul(panels, row_blocks), BLOCKS)))
        words = {"rows": rows, "wide": wide, "panels": panels, "bands": bands, "row_blocks": row_blocks, "right": left}
        for name, value in words.items():
            f.put("i64", value, job, JOB[name])
        blocks = f.mul(row_blocks, _up(f, panels, wide))
        large = f.compare("sgt", each, SMALL)
        apart = f.both(large, f.either(single, f.compare("sge", each, SHARED)))
        with f.when(apart):
            spare = f.mul(f.add(rows, 1), self.columns * self.size)
            count = workspace.threads(f, table, blocks)
            memory = workspace.scratch(f, table, f.add(f.add(left, right), f.mul(spare, count)), made)
            f.put("ptr", memory, job, JOB["left"])
            f.put("ptr", f.at(memory, left), job, JOB["right"])
            slots = f.at(memory, f.add(left, right))
            packs = f.add(panels, bands)
            moved = f.v(f"lshr i64 {f.add(left, right)}, 4")
            cost = f.v(f"lshr i64 {each}, {self.cheap}")
            with f.loop(batch):
                for function, units, price in (("@pack", packs, moved), ("@blocks", blocks, cost)):
                    workspace.run(f, table, job, "null", units, function, price, count, slots, spare)
                for x, step in (("a", "a_step"), ("b", "b_step")):
                    there = f.at(f.field("ptr", job, JOB[x]), f.field("i64", job, JOB[step]))
                    f.put("ptr", there, job, JOB[x])
                whole = f.mul(f.mul(m, n), self.size)
                f.put("ptr", f.at(f.field("ptr", job, JOB["c"]), whole), job, JOB["c"])
            f.call("void", "@give", f"ptr {table}", f"ptr {memory}")
        with f.unless(apart):
            spare = f.mul(f.add(m, 1), self.columns * self.size)
            room = f.add(f.add(left, right), spare)
            count = workspace.threads(f, table, batch)
            memory = workspace.scratch(f, table, f.mul(room, count), made)
            cost = f.v(f"lshr i64 {f.mul(each, batch)}, {self.cheap}")
            workspace.run(f, table, job, "null", batch, "@whole", cost, count, memory, room)
            f.call("void", "@give", f"ptr {table}", f"ptr {memory}")

    # Units.

    def _words(self, f: Function, *names: str) -> list[Value]:
        return [f.field("ptr" if n in ("a", "b", "c", "bias", "left") else "i64", "%job", JOB[n]) for n in names]

    def _pack(self, f: Function) -> None:
        """Pack a panel of the second factor, or, after those, a band of the first."""
        a, b, left = self._words(f, "a", "b", "left")
        right = f.field("ptr", "%job", JOB["right"])
        panels = self._words(f, "panels")[0]
        with f.loop("%end", "%begin") as unit:
            is_panel = f.compare("slt", unit, panels)
            with f.when(is_panel):
                self._pack_panel(f, b, right, unit)
            with f.unless(is_panel):
                self._pack_band(f, a, left, f.sub(unit, panels))

    def _pack_band(self, f: Function, a: Value, left: Value, band: Value) -> None:
        m, k, lda, turned, bands = self._words(f, "m", "k", "lda", "a_turned", "bands")
        is_turned = f.compare("ne", turned, 0)
        first = f.mul(band, self.height)
        count = f.least(f.sub(m, first), self.height)
        source = f.at(a, f.mul(first, f.choose(is_turned, self.size, lda)))
        f.call("void", "@pack_left", f"ptr {source}", f"i64 {count}", f"i64 {k}", f"i64 {lda}", f"i1 {is_turned}",
               f"ptr {left}", f"i64 {f.mul(bands, self.across)}", f"i64 {band}")  # fmt: skip

    def _pack_panel(self, f: Function, b: Value, right: Value, panel: Value) -> None:
        n, k, ldb, turned = self._words(f, "n", "k", "ldb", "b_turned")
        is_turned = f.compare("ne", turned, 0)
        first = f.mul(panel, self.columns)
        valid = f.least(f.sub(n, first), self.columns)
        source = f.at(b, f.mul(first, f.choose(is_turned, ldb, self.size)))
        to = f.at(right, f.mul(f.mul(first, k), self.size))
        f.call("void", "@pack_right", f"ptr {source}", f"i64 {k}", f"i64 {valid}", f"i64 {ldb}", f"i1 {is_turned}",
               f"ptr {to}")  # fmt: skip

    def _blocks(self, f: Function) -> None:
        """Compute blocks of the product from what is packed."""
        c, left = self._words(f, "c", "left")
        right, spare = f.field("ptr", "%job", JOB["right"]), workspace.slot(f, "%job")
        m, rows, wide, panels, blocks = self._words(f, "m", "rows", "wide", "panels", "row_blocks")
        with f.loop("%end", "%begin") as unit:
            across = f.udiv(unit, blocks)
            first = f.mul(f.sub(unit, f.mul(across, blocks)), rows)
            count = f.least(f.sub(m, first), rows)
            from_ = f.mul(across, wide)
            self._sums(f, (left, right, c, spare), (first, count), (from_, f.least(f.add(from_, wide), panels)))

    def _whole(self, f: Function) -> None:
        """Pack and compute whole products of a batch."""
        a, b, c = self._words(f, "a", "b", "c")
        m, n, k, panels, bands = self._words(f, "m", "n", "k", "panels", "bands")
        a_step, b_step = self._words(f, "a_step", "b_step")
        own = workspace.slot(f, "%job")
        size = f.field("i64", "%job", JOB["right"])
        right = f.at(own, size)
        spare = f.at(right, f.mul(f.mul(panels, k), self.columns * self.size))
        with f.loop("%end", "%begin") as unit:
            here_a, here_b = f.at(a, f.mul(unit, a_step)), f.at(b, f.mul(unit, b_step))
            here_c = f.at(c, f.mul(unit, f.mul(f.mul(m, n), self.size)))
            with f.loop(bands) as band:
                self._pack_band(f, here_a, own, band)
            with f.loop(panels) as panel:
                self._pack_panel(f, here_b, right, panel)
            self._sums(f, (own, right, here_c, spare), ("0", m), ("0", panels))

    def _sums(
        self, f: Function, places: tuple[Value, ...], rows: tuple[Value, Value], panels: tuple[Value, Value]
    ) -> None:
        """Compute a block of the product, stretch by stretch."""
        left, right, c, spare = places
        n, k, bands = self._words(f, "n", "k", "bands")
        bias = f.field("ptr", "%job", JOB["bias"])
        biased = f.compare("ne", bias, "null", "ptr")
        lead = f.mul(n, self.size)
        first, count = rows
        with f.loop(k, 0, DEPTH) as start:
            length = f.least(f.sub(k, start), DEPTH)
            fresh = f.v(f"zext i1 {f.compare('eq', start, 0)} to i64")
            band = f.udiv(first, self.height)
            a = f.at(left, f.mul(f.add(f.mul(start, bands), f.mul(band, length)), self.across))
            with f.loop(panels[1], panels[0]) as panel:
                column = f.mul(panel, self.columns)
                b = f.at(right, f.mul(f.add(f.mul(column, k), f.mul(start, self.columns)), self.size))
                here = f.at(c, f.add(f.mul(first, lead), f.mul(column, self.size)))
                begin = f.choose(biased, f.at(bias, f.mul(column, self.size)), "null", "ptr")
                valid = f.least(f.sub(n, column), self.columns)
                f.call("void", "@block", f"ptr {a}", f"ptr {b}", f"i64 {length}", f"i64 {count}", f"i64 {valid}",
                       f"ptr {here}", f"i64 {lead}", f"ptr {begin}", f"i64 {fresh}", f"ptr {spare}")  # fmt: skip


def _up(f: Function, n: Value, step: Value | int) -> Value:
    """Return n / step, rounded up."""
    return f.udiv(f.sub(f.add(n, step), 1), step)


__all__ = ["builtin_of", "dense"]
