"""Gradients of layer normalisation: all of them in one pass over the rows.

Mean and deviation of a row, its gradient, and its share of the gradients of weight and bias are computed while it lies
in the first-level cache. Those shares are added up in the arrays' own dtype over a few rows, then as doubles, part by
part; parts depend on the sizes alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from . import direct, engine, reducing
from .direct import Job
from .emit import SIZES, Source, splat, word_of
from .rows import BLOCK, TOGETHER
from .scalar import LLVM_TYPES, Scalar, convert, var
from .writer import Function, Module, Value

Array = ndarray[Any, Any]

DTYPES = {"f": "f32", "d": "f64"}
WORDS = ("rows", "width", "height", "parts", "eps")
_WORDS = struct.Struct("7qd")
PARTS = 16
"""Parts of the rows, at most."""
PART = 1 << 14
"""Elements of a part, at least."""
COST = 2
"""Elements that are done in a nanosecond, about."""


class Kind(NamedTuple):
    """What a kernel is written for: the dtype, whether there is a weight, and which gradients are wanted."""

    dtype: str
    weighted: bool
    input: bool
    sums: bool


class _Rows:
    """Loops over the elements of one row or over all columns."""

    def __init__(self, f: Function, dtype: str, width: Value) -> None:
        self.f, self.dtype, self.width = f, dtype, width
        self.names: dict[str, Value] = {}

    def number(self, name: str, value: Value) -> Scalar:
        """Make a double a variable of the loops that follow, in the arrays' dtype."""
        f, dtype = self.f, self.dtype
        if dtype == "f32":
            value = f.v(f"fptrunc double {value} to float")
        lanes = reducing.LANES[word_of([dtype])]
        self.names[f"%{name}"] = splat(f, dtype, value, lanes)
        return var(f"%{name}", dtype)

    def run(
        self,
        places: dict[Source, Value],
        roots: Sequence[Scalar] = (),
        outs: Sequence[Value] = (),
        sums: Sequence[Scalar] = (),
        ahead: Value = "",
    ) -> list[Value]:
        """Store the roots for every element, and return sums over the row as doubles; fetch the line `ahead`."""
        f = self.f
        word = word_of([*(s.dtype for s in places), *(r.dtype for r in (*roots, *sums))])
        lanes = reducing.LANES[word]
        totals = [f.cell("double", "0.0") for _ in sums]
        with f.loop(self.width, step=BLOCK) as start:
            n = f.least(f.sub(self.width, start), BLOCK)
            here = {s: f.element(LLVM_TYPES[s.dtype], p, start) for s, p in places.items()}
            there = [f.element(LLVM_TYPES[r.dtype], p, start) for r, p in zip(roots, outs)]
            coming = [(f.element(LLVM_TYPES[self.dtype], ahead, start), SIZES[self.dtype])] if ahead else []
            blocks = [reducing.Lanes(f, "sum", root.dtype, lanes) for root in sums]
            reducing.block_loop(f, n, lanes, here, [*roots, *sums], there, self.names, blocks, coming, word=word)
            for total, block in zip(totals, blocks):
                total.set(f.v(f"fadd double {total.get()}, {block.total()}"))
        return [total.get() for total in totals]


def _back(f: Function, kind: Kind) -> None:
    """Arrays: input, gradient, weight, gradient of the input, doubles (parts, 2, width). A unit is a part."""
    dtype, size = kind.dtype, SIZES[kind.dtype]
    job = Job(f, WORDS)
    x, g, weight, into, sums = (job.array(i) for i in range(5))
    rows, width, height = (job.word(n) for n in ("rows", "width", "height"))
    eps = job.word("eps", "double")
    line = f.mul(width, size)
    block, own = job.scratch(f.mul(line, 2))
    shares = [own, f.at(own, line)]
    loops = _Rows(f, dtype, width)
    count = f.v(f"sitofp i64 {width} to double")

    def over(total: Value) -> Value:
        return f.v(f"fdiv double {total}, {count}")

    with f.loop("%end", "%begin") as part:
        parts = f.at(sums, f.mul(f.mul(part, width), 16))
        totals = [parts, f.at(parts, f.mul(width, 8))]
        if kind.sums:
            f.do(f"call void @llvm.memset.p0.i64(ptr {parts}, i8 0, i64 {f.mul(width, 16)}, i1 false)")
        begin = f.mul(part, height)
        stop = f.least(f.add(begin, height), rows)
        with f.loop(stop, begin, TOGETHER) as first:
            if kind.sums:
                f.do(f"call void @llvm.memset.p0.i64(ptr {own}, i8 0, i64 {f.mul(line, 2)}, i1 false)")
            with f.loop(f.least(f.add(first, TOGETHER), stop), first) as row:
                skip = f.mul(row, line)
                # Variables, and where they lie.
                places = {"x": f.at(x, skip), "g": f.at(g, skip), "w": weight, "a": shares[0], "b": shares[1]}

                def at(names: str, places: dict[str, Value] = places) -> dict[Source, Value]:
                    return {Source(f"%{n}", dtype): places[n] for n in names}

                v = {n: var(f"%{n}", dtype) for n in places}
                (total,) = loops.run(at("x"), sums=[v["x"]])
                d = v["x"] - loops.number("mean", over(total))
                # The passes that find their numbers in the cache leave the memory time to bring those of the next row.
                (squares,) = loops.run(at("x"), sums=[d * d], ahead=f.at(x, f.add(skip, line)))
                root = f.call("double", "@llvm.sqrt.f64", f"double {f.v(f'fadd double {over(squares)}, {eps}')}")
                rstd = loops.number("rstd", f.v(f"fdiv double 1.0, {root}"))
                unit = d * rstd
                inner = v["g"] * v["w"] if kind.weighted else v["g"]
                roots, outs, needed = [], [], "xg" + "w" * (kind.weighted and kind.input) + "ab" * kind.sums
                if kind.input:
                    found = loops.run(
                        at("xgw" if kind.weighted else "xg"),
                        sums=[inner, inner * unit],
                        ahead=f.at(g, f.add(skip, line)),
                    )
                    middle, slope = (loops.number(n, over(s)) for n, s in zip(("middle", "slope"), found))
                    roots.append(rstd * (inner - middle - unit * slope))
                    outs.append(f.at(into, skip))
                if kind.sums:
                    roots += [v["a"] + v["g"] * unit, v["b"] + v["g"]]
                    outs += shares
                loops.run(at(needed), roots, outs)
            if kind.sums:
                for total, share in zip(totals, shares):
                    _add(_Rows(f, dtype, width), total, share, dtype)
    job.free(block)
    f.ret()


def _add(loops: _Rows, total: Value, share: Value, dtype: str) -> None:
    """Add a line of the arrays' dtype to a line of doubles."""
    after = var("%t", "f64") + convert(var("%s", dtype), "f64")
    loops.run({Source("%t", "f64"): total, Source("%s", dtype): share}, [after], [total])


def _finish(f: Function, dtype: str) -> None:
    """Arrays: doubles (parts, 2, width), gradients of weight and bias or null; the parts are added up."""
    job = Job(f, WORDS)
    sums, width = job.array(0), job.word("width")
    loops = _Rows(f, dtype, width)
    line = f.mul(width, 8)
    for which in range(2):
        made = job.array(1 + which)
        with f.when(f.compare("ne", made, "null", "ptr")):
            total = f.at(sums, f.mul(line, which))
            with f.loop(job.word("parts"), 1) as part:
                _add(loops, total, f.at(total, f.mul(f.mul(part, line), 2)), "f64")
            loops.run({Source("%t", "f64"): total}, [convert(var("%t", "f64"), dtype)], [made])
    f.ret()


@functools.cache
def _functions(kind: Kind) -> tuple[Any, ...]:
    """Return the builtins for one kind: gradients by parts, and the sums of the parts."""
    module = Module()
    with module.function("void", "layer_norm_back", "ptr %job", "i64 %begin", "i64 %end", part="vector") as f:
        _back(f, kind)
    with module.function("void", "layer_norm_sums", "ptr %job", "i64 %begin", "i64 %end", part="vector") as f:
        _finish(f, kind.dtype)
    found = engine.load(module.text(), ["layer_norm_back", "layer_norm_sums"])
    return tuple(direct.make(name, address) for name, address in found.items())


def back(
    g: Array, x: Array, weight: Array | None, width: int, eps: float, needs: Sequence[bool]
) -> tuple[Array | None, Array | None, Array | None] | None:
    """Return the gradients of input, weight and bias that are needed; None for arrays of a kind it does not know.

    Args:
        g, x: (…, width elements), float32 or float64, without gaps.
        weight: of `width` elements; its shape is that of its and the bias's gradient.
    """
    dtype = DTYPES.get(x.dtype.char)
    if dtype is None or not (x.flags.c_contiguous and g.flags.c_contiguous and g.dtype is x.dtype and width):
        return None
    if weight is not None and not (weight.dtype is x.dtype and weight.flags.c_contiguous):
        return None
    rows = x.size // width
    height = max(-(-rows // PARTS), -(-PART // width))
    parts = -(-rows // height)
    wants_sums = needs[1] or needs[2]
    head = (rows, width, height, parts, eps)
    run, finish = _functions(Kind(dtype, weight is not None, needs[0], wants_sums))
    into = np.empty(x.shape, x.dtype) if needs[0] else None
    sums = np.empty((parts, 2, width)) if wants_sums else None
    run(_WORDS.pack(parts, 1, x.size // COST, *head), x, g, weight, into, sums)
    found = [np.empty(width, x.dtype) if need else None for need in needs[1:]]
    if wants_sums:
        finish(_WORDS.pack(1, 1, width, *head), sums, *found)
    return into, found[0], found[1]


__all__ = ["back"]
