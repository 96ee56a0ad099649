"""Products of matrices by BLAS, shared out among the threads of native loops.

A library's own threads and ours would wait for work on the same cores: the one pool spins while the other computes. So
a large product is cut into blocks of rows or columns, by its sizes alone, and every block is one product on one thread.
The matrices of two batches are multiplied pair by pair, in the same way.

    >>> import numpy as np
    >>> from sapwood.kernels import gemm
    >>> multiply = gemm.builtin_of(np.matmul)
    >>> a, b = np.ones((2, 3)), np.ones((3, 2))
    >>> multiply(a, b)
    array([[3., 3.],
           [3., 3.]])
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from . import blas, builtin, engine
from .emit import SIZES
from .front import define_drop, define_new
from .layout import ALIGNED, BYTES_DATA, DATA, DESCR, DIMS, ENV, FLAGS, NDIM, STRIDES, TYPE, fields
from .writer import Function, Module

SMALL = 1 << 18
"""Multiplications up to which a BLAS computes on one thread by itself."""
BLOCK = 1 << 19
"""Multiplications from which a product is cut in two."""
LENGTH = 512
"""Rows or columns of a block where there are more than two: each block packs the other factor again, which costs a
block of 128 rows a third of its time, one of 512 a tenth."""

TABLE = fields("env", "launch", "fallback", "gemm32", "gemm64", "get_threads", "set_threads", "least")
JOB = fields("units", "grain", "run", "a", "b", "bias", "c", "gemm", "cost", "m", "n", "k", "lda", "ldb", "across",
             "block", "a_turned", "b_turned", "parts", "a_step", "b_step")  # fmt: skip
"""`units`, `grain`, `run` and `cost` lie where `threads.launch` looks for them."""


@cache
def builtin_of(fallback: Any, least: int = 0) -> Any:
    """Return `multiply(a, b, bias=None)`, or the fallback itself if there is no BLAS that native code can call.

    It multiplies matrices (M, K) and (K, N), or batches of as many (B, M, K) and (B, K, N), of float32 or float64, and
    adds a bias (N,) to each row.

    Args:
        fallback: called with the same arguments for everything else.
        least: products whose larger factor has fewer elements go to the fallback.
    """
    found = blas.find()
    if found is None or not builtin.available():
        return fallback
    env = builtin.environment()
    self = [builtin.runtime()["launch"], id(fallback), found.sgemm, found.dgemm, found.get_threads, found.set_threads]
    values = dict(zip(TABLE, [ctypes.addressof(env), *self, least]))
    table = builtin.table(8 * len(TABLE), values, TABLE, fallback)
    return builtin.make("multiply", _address(), table, "Multiply two matrices.")


@cache
def _address() -> int:
    """Compile `multiply` and return where it is."""
    found = blas.find()
    assert found is not None
    module = Module()
    define_drop(module)
    define_new(module)
    for dtype in ("f32", "f64"):
        with module.function("void", f"blocks_{dtype}", "ptr %job", "i64 %begin", "i64 %end") as f:
            _blocks(f, dtype, found)
    with module.function("i1", "matrix", "ptr %array", "i64 %size", "ptr %lead", "ptr %turned", apart=True) as f:
        _matrix(f)
    with module.function("ptr", "multiply", "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
        _multiply(f)
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
            f.store("i64", f.choose(single, inner, f.udiv(lead, "%size")), "%lead")
            f.store("i64", turned, "%turned")
            f.ret("i1", "true")
    f.go("no")
    f.start("no")
    f.ret("i1", "false")


def _multiply(f: Function) -> None:
    slow = "slow"
    table = f.at("%self", BYTES_DATA)
    env = f.field("ptr", table, TABLE["env"])
    f.leave(f.compare("ne", "%names", "null", "ptr"), slow)
    f.leave(f.either(f.compare("slt", "%given", 2), f.compare("sgt", "%given", 3)), slow)
    a, b = f.load("ptr", "%args"), f.field("ptr", "%args", 8)
    ndarray = f.field("ptr", env, ENV["ndarray"])
    for x in (a, b):
        f.leave(f.compare("ne", f.field("ptr", x, TYPE), ndarray, "ptr"), slow)
    descr = f.field("ptr", a, DESCR)
    f.leave(f.compare("ne", f.field("ptr", b, DESCR), descr, "ptr"), slow)
    double = f.compare("eq", descr, f.field("ptr", env, ENV["f64"]), "ptr")
    f.leave(f.no(f.either(double, f.compare("eq", descr, f.field("ptr", env, ENV["f32"]), "ptr"))), slow)
    size = f.choose(double, 8, 4)
    job = f.space("i64", len(JOB), align=16)
    for x, lead, turned in ((a, "lda", "a_turned"), (b, "ldb", "b_turned")):
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
    f.leave(f.compare("slt", larger, f.field("i64", table, TABLE["least"])), slow)
    each = f.mul(f.mul(m, n), k)
    work = f.mul(each, batch)
    f.leave(f.compare("eq", work, 0), slow)
    for x, step in ((a, "a_step"), (b, "b_step")):
        f.put("i64", f.choose(batched, f.load("i64", f.field("ptr", x, STRIDES)), 0), job, JOB[step])
    f.put("ptr", "null", job, JOB["bias"])
    with f.when(f.compare("eq", "%given", 3)):
        bias = f.field("ptr", "%args", 16)
        f.leave(f.compare("ne", f.field("ptr", bias, TYPE), ndarray, "ptr"), slow)
        f.leave(f.compare("ne", f.field("ptr", bias, DESCR), descr, "ptr"), slow)
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
    rank = f.choose(batched, 3, 2)
    made = f.call(
        "ptr", "@new", f"ptr {env}", f"ptr {descr}", f"i64 {rank}", f"ptr {shape}", "ptr null", f"i64 {count}"
    )
    with f.when(f.compare("eq", made, "null", "ptr"), seldom=True):
        f.ret("ptr", "null")
    run = f.choose(double, "@blocks_f64", "@blocks_f32", "ptr")
    gemm = f.choose(double, f.field("i64", table, TABLE["gemm64"]), f.field("i64", table, TABLE["gemm32"]))
    # Blocks of rows, or of columns where these are more.
    across = f.compare("sgt", n, m)
    total = f.choose(across, n, m)
    blocks = f.choose(f.compare("sgt", each, BLOCK), f.greatest(f.udiv(total, LENGTH), 2), 1)
    block = f.v(f"and i64 {f.add(f.udiv(f.sub(f.add(total, blocks), 1), blocks), 15)}, -16")
    parts = f.udiv(f.sub(f.add(total, block), 1), block)
    units = f.mul(parts, batch)
    for name, value in (
        ("units", units), ("grain", "1"), ("m", m), ("n", n), ("k", k), ("block", block), ("gemm", gemm),
        ("parts", parts), ("across", f.v(f"zext i1 {across} to i64")),
        ("cost", f.v(f"lshr i64 {work}, {f.choose(double, 4, 5)}")),
    ):  # fmt: skip
        f.put("i64", value, job, JOB[name])
    f.put("ptr", run, job, JOB["run"])
    for name, x in (("a", a), ("b", b), ("c", made)):
        f.put("ptr", f.field("ptr", x, DATA), job, JOB[name])
    small = f.both(f.compare("sle", each, SMALL), f.compare("sle", work, 4 * SMALL))
    get, set_ = f.field("ptr", table, TABLE["get_threads"]), f.field("ptr", table, TABLE["set_threads"])
    alone = f.either(small, f.compare("eq", set_, "null", "ptr"))
    with f.when(small):
        f.call("void", run, f"ptr {job}", "i64 0", f"i64 {units}")
    with f.unless(small):
        before = f.cell("i32", 1)
        with f.unless(alone):
            before.set(f.call("i32", get))
        several = f.compare("sgt", before.get(), 1, "i32")
        with f.when(several):
            f.call("void", set_, "i32 1")
        f.call("void", f.field("ptr", table, TABLE["launch"]), f"ptr {env}", f"ptr {job}")
        with f.when(several):
            f.call("void", set_, f"i32 {before.get()}")
    f.ret("ptr", made)

    f.start(slow)
    fallback, call = f.field("ptr", table, TABLE["fallback"]), f.field("ptr", env, ENV["vectorcall"])
    f.ret("ptr", f.call("ptr", call, f"ptr {fallback}", "ptr %args", "i64 %given", "ptr %names"))


_WORDS = ("m", "n", "k", "lda", "ldb", "block", "parts", "a_step", "b_step")


def _blocks(f: Function, dtype: str, found: blas.Blas) -> None:
    """Compute blocks of the product, each by one call."""
    item = SIZES[dtype]
    word = {name: f.field("i64", "%job", JOB[name]) for name in _WORDS}
    a, b, c, bias, gemm = (f.field("ptr", "%job", JOB[name]) for name in ("a", "b", "c", "bias", "gemm"))
    across, a_turned, b_turned = (
        f.compare("ne", f.field("i64", "%job", JOB[name]), 0) for name in ("across", "a_turned", "b_turned")
    )
    total = f.choose(across, word["n"], word["m"])
    biased = f.compare("ne", bias, "null", "ptr")
    with f.loop("%end", "%begin") as unit:
        which = f.udiv(unit, word["parts"])
        start = f.mul(f.sub(unit, f.mul(which, word["parts"])), word["block"])
        length = f.least(f.sub(total, start), word["block"])
        # From one row (of a) or column (of b) to the next.
        down = f.choose(a_turned, 1, word["lda"])
        right = f.choose(b_turned, word["ldb"], 1)
        own_a, own_b = f.at(a, f.mul(which, word["a_step"])), f.at(b, f.mul(which, word["b_step"]))
        own_c = f.at(c, f.mul(which, f.mul(f.mul(word["m"], word["n"]), item)))
        here_a = f.at(own_a, f.mul(f.choose(across, 0, f.mul(start, down)), item))
        here_b = f.at(own_b, f.mul(f.choose(across, f.mul(start, right), 0), item))
        here_c = f.at(own_c, f.mul(f.choose(across, start, f.mul(start, word["n"])), item))
        rows, columns = f.choose(across, word["m"], length), f.choose(across, length, word["n"])
        with f.when(biased):
            offset = f.at(bias, f.mul(f.choose(across, start, 0), item))
            with f.loop(rows) as row:
                to = f.at(here_c, f.mul(f.mul(row, word["n"]), item))
                f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {offset}, i64 {f.mul(columns, item)}, i1 false)")
        kind = {"f32": "float", "f64": "double"}[dtype]
        blas.write_gemm(
            f, found, dtype, gemm, (rows, columns, word["k"]),
            (here_a, word["lda"], a_turned), (here_b, word["ldb"], b_turned), (here_c, word["n"]),
            beta=f.choose(biased, "1.0", "0.0", kind),
        )  # fmt: skip


__all__ = ["builtin_of", "dense"]
