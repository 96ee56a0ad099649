"""The native text of attention: forward and backward over blocks of queries and keys.

A block of queries is two vectors wide and lies across the lanes: scores are held as (keys, queries), so that largest
scores, sums and masks are computed lane by lane, and neither keys nor values are ever copied or transposed.

Reference: Dao, Fu, Ermon, Rudra and Ré, FlashAttention, arXiv:2205.14135.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

from . import formulas
from .direct import Job
from .emit import loop_note
from .exponential import exp_reduced, reduced
from .machine import format_of, power_of_two
from .matrices import Tiles
from .scalar import Scalar, const, lower, select, var
from .writer import Function, Module, Value

KEYS = 128
"""Keys of a block: its scores and the weights made of them stay in the first two caches."""

SIZES = ("heads", "times", "length", "keys", "size", "value_size", "causal", "blocks", "scale")
FORWARD = (*SIZES, *(a + b for a in "qkvom" for b in "nhl"))
"""Numbers of the forward pass: sizes, then strides in bytes of query, key, value, result and mask; `times` heads of the
query share one of key and value."""
BACKWARD = (*FORWARD, "segments", *(a + b for a in ("g", "dq", "dk", "dv") for b in "nhl"), "dqs")
"""Those of the backward pass: also the parts that keys are divided into, and the strides of the gradients."""


LEAST = {"f32": -87.0, "f64": -708.0}
"""Below this a weight counts as 0: it would be denormal, and slow, beside a largest one of 1."""


def weight(x: Scalar) -> Scalar:
    """e^x for x <= 0."""
    least = LEAST[x.dtype]
    t, _, r = reduced(select(x < least, least, x), format_of(x).bias)
    return select(x < least, 0.0, exp_reduced(r) * power_of_two(t))


class Writer:
    """Writes one module, for one dtype."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.module = Module()
        self.tiles = Tiles(self.module, dtype)
        self.kind, self.item = self.tiles.kind, self.tiles.size
        self.block = 2 * self.tiles.lanes
        self.row = self.block * self.item
        """Bytes of a row of scores."""

    def text(self) -> str:
        """Return a module with `forward` and `backward`."""
        self.tiles.define()
        module, kind = self.module, self.kind
        with module.function("void", "fill", "ptr %p", "i64 %rows", f"{kind} %x", apart=True) as f:
            with f.loop(f.mul("%rows", self.block)) as i:
                f.store(kind, "%x", f.element(kind, "%p", i))
        with module.function("void", "copy", "ptr %from", "i64 %rows", "i64 %cols", "i64 %fs", "ptr %to", "i64 %ts",
                             apart=True) as f:  # fmt: skip
            with f.loop("%rows") as r:
                here, there = f.at("%from", f.mul(r, "%fs")), f.at("%to", f.mul(r, "%ts"))
                with f.loop("%cols") as c:
                    f.store(kind, f.load(kind, f.element(kind, here, c)), f.element(kind, there, c))
        with module.function("void", "score", "ptr %p", "i64 %rows", "ptr %mask", "i64 %ms", f"{kind} %scale",
                             "i64 %ahead", "ptr %peak", apart=True) as f:  # fmt: skip
            self._score(f)
        x, m, s = self.vars("x", "m", "s")
        e = weight(x - m)
        self._rows("weigh", [("p", x, True), ("ref", m, False), ("sum", s, False)], {"p": e, "sum": s + e})
        p, d, low, mean, scale = self.vars("p", "d", "low", "mean", "scale")
        e = weight(p - low)
        slope = e * (d - mean) * scale
        columns = [("p", p, True), ("d", d, True), ("low", low, False), ("mean", mean, False)]
        self._rows("weigh_back", columns, {"p": e, "d": slope}, f"{kind} %scale")
        old, new = self.vars("old", "new")
        ref = select(new == self.inf(-1), 0.0, new)
        alpha = weight(old - ref)
        columns = [("old", old, False), ("new", new, False), ("sum", s, False)]
        self._rows("settle", columns, {"ref": ref, "alpha": alpha, "sum": s * alpha, "old": new})
        columns = [("ref", m, False), ("sum", s, False)]
        none = s == 0.0
        total = {"ref": select(none, self.inf(-1), m + formulas.log(s)), "sum": select(none, 0.0, 1.0 / s)}
        self._rows("finish", columns, total)
        a, b = self.vars("a", "b")
        self._rows("scaled", [("c", a, True), ("by", b, False)], {"c": a * b})
        self._rows("inner", [("a", a, True), ("b", b, True), ("sum", s, False)], {"sum": s + a * b})
        with module.function("void", "forward", "ptr %job", "i64 %begin", "i64 %end") as f:
            Forward(self, f).write()
        with module.function("void", "backward", "ptr %job", "i64 %begin", "i64 %end") as f:
            Backward(self, f).write()
        return module.text()

    def vars(self, *names: str) -> list[Scalar]:
        return [var(f"%{n}", self.dtype) for n in names]

    def inf(self, sign: int) -> Scalar:
        return const(sign * float("inf"), self.dtype)

    def _score(self, f: Function) -> None:
        """Scale the rows and add the mask; row r is seen by lanes from r + ahead on; take the largest into peak."""
        t = self.tiles
        vec, width = t.vector, t.lanes * t.size
        ints = f"<{t.lanes} x i64>"
        lanes = [f"<{', '.join(f'i64 {v * t.lanes + i}' for i in range(t.lanes))}>" for v in range(2)]
        scale = t.splat(f, "%scale")
        low = const(-float("inf"), self.dtype).value or ""
        floor = t.splat(f, low)
        peaks = [f.cell(vec, t.load(f, f.at("%peak", v * width))) for v in range(2)]
        with f.loop("%rows") as r:
            p, m = f.at("%p", f.mul(r, self.row)), f.at("%mask", f.mul(r, "%ms"))
            first = f.v(f"insertelement {ints} poison, i64 {f.add(r, '%ahead')}, i32 0")
            first = f.v(f"shufflevector {ints} {first}, {ints} poison, <{t.lanes} x i32> zeroinitializer")
            for v, peak in enumerate(peaks):
                x = t.op(f, "fmul", t.load(f, f.at(p, v * width)), scale)
                x = t.op(f, "fadd", x, t.load(f, f.at(m, v * width)))
                seen = f.v(f"icmp sge {ints} {lanes[v]}, {first}")
                x = f.v(f"select <{t.lanes} x i1> {seen}, {vec} {x}, {vec} {floor}")
                t.store(f, x, f.at(p, v * width))
                more = f.v(f"fcmp ogt {vec} {x}, {peak.get()}")
                peak.set(f.v(f"select <{t.lanes} x i1> {more}, {vec} {x}, {vec} {peak.get()}"))
        for v, peak in enumerate(peaks):
            t.store(f, peak.get(), f.at("%peak", v * width))

    def _rows(
        self, name: str, columns: Sequence[tuple[str, Scalar, bool]], results: dict[str, Scalar], *params: str
    ) -> None:
        """Define a function (rows, an address for each name) that computes every row, a block of queries.

        Args:
            columns: name, variable, and whether it has a row each or is the same for all rows.
            results: expressions by the name of where they go.
        """
        names = list(dict.fromkeys([*(c[0] for c in columns), *results]))
        several = {c[0] for c in columns if c[2]}
        head = ("i64 %rows", *(f"ptr %{n}.at" for n in names), *params)
        with self.module.function("void", name, *head, apart=True) as f:
            group = self.module.metadata("distinct !{}")
            facts = [
                f'!{{!"llvm.loop.parallel_accesses", {group}}}',
                f'!{{!"llvm.loop.vectorize.width", i32 {self.tiles.lanes}}}',
                '!{!"llvm.loop.interleave.count", i32 2}',
            ]
            note = loop_note(self.module, *map(self.module.metadata, facts))
            tail = f", !llvm.access.group {group}"
            with f.loop("%rows") as r:
                skip = f.mul(r, self.row)
                here = {n: f.at(f"%{n}.at", skip) if n in several else f"%{n}.at" for n in names}
                with f.loop(self.block, note=note) as i:
                    for n, variable, _ in columns:
                        f.do(f"{variable.value} = load {self.kind}, ptr {f.element(self.kind, here[n], i)}{tail}")
                    lines, values = lower(list(results.values()))
                    for line in lines:
                        f.do(line)
                    for n, value in zip(results, values):
                        f.store(self.kind, value, f.element(self.kind, here[n], i), tail)


class Pass:
    """What forward and backward have in common: the job, places in scratch memory, and products."""

    def __init__(self, w: Writer, f: Function, words: tuple[str, ...]) -> None:
        self.w, self.f = w, f
        self.job = job = Job(f, words)
        self.n = {name: job.word(name) for name in words if name != "scale"}
        scale = job.word("scale", "double")
        self.scale = f.v(f"fptrunc double {scale} to float") if w.dtype == "f32" else f.v(f"fadd double {scale}, -0.0")
        self.causal = f.compare("ne", self.n["causal"], 0)

    def places(self, **rows: Any) -> tuple[Value, list[Value]]:
        """Allocate scratch memory for so many rows of block width each."""
        f = self.f
        sizes = [f.mul(r, self.w.row) for r in rows.values()]
        total: Value = "0"
        offsets = []
        for s in sizes:
            offsets.append(total)
            total = f.add(total, s)
        block, start = self.job.scratch(total)
        return block, [f.at(start, o) for o in offsets]

    def at(self, array: Value, strides: str, n: Value, h: Value, position: Value) -> Value:
        """Return the address of a row of a (N, H, L, …) array."""
        f = self.f
        offset = f.add(f.mul(n, self.n[strides + "n"]), f.mul(h, self.n[strides + "h"]))
        return f.at(array, f.add(offset, f.mul(position, self.n[strides + "l"])))

    def gemm(self, m: Any, n: Any, k: Any, a: Value, ai: Any, ak: Any, b: Value, bk: Any, c: Value, ci: Any,
             add: Value) -> None:  # fmt: skip
        self.f.call("void", "@gemm", f"i64 {m}", f"i64 {n}", f"i64 {k}", f"ptr {a}", f"i64 {ai}", f"i64 {ak}",
                    f"ptr {b}", f"i64 {bk}", f"ptr {c}", f"i64 {ci}", f"i1 {add}")  # fmt: skip

    def turn(self, source: Value, rows: Any, cols: Any, step: Any, to: Value, to_step: Any, *, pad: bool) -> None:
        self.f.call("void", "@turn", f"ptr {source}", f"i64 {rows}", f"i64 {cols}", f"i64 {step}", f"ptr {to}",
                    f"i64 {to_step}", f"i1 {'true' if pad else 'false'}")  # fmt: skip

    def rows(self, name: str, rows: Any, *places: Value, tail: tuple[str, ...] = ()) -> None:
        self.f.call("void", f"@{name}", f"i64 {rows}", *(f"ptr {p}" for p in places), *tail)

    def fill(self, place: Value, rows: Any, value: str) -> None:
        self.f.call("void", "@fill", f"ptr {place}", f"i64 {rows}", f"{self.w.kind} {value}")

    def zeros(self, mask: Value, zero: Value, buffer: Value) -> tuple[Value, Value, Value]:
        """Return whether there is a mask, and what `score` reads: rows of the mask, or one row of zeros."""
        f = self.f
        there = f.compare("ne", mask, "null", "ptr")
        return there, f.choose(there, buffer, zero, "ptr"), f.choose(there, self.w.row, 0)

    def ahead(self, key: Value, query: Value) -> Value:
        """Return how many lanes the first of these keys comes after the first query, or "none" for all to see it."""
        f = self.f
        return f.choose(self.causal, f.sub(key, query), -(1 << 40))

    @contextmanager
    def blocks(self, stop: Value, start: Any = 0) -> Any:
        """Go through keys in blocks."""
        f = self.f
        with f.loop(stop, start, KEYS) as key:
            yield key, f.least(f.sub(stop, key), KEYS)

    def score(self, weights: Value, rows: Value, masks: tuple[Value, Value, Value], mask: Value, queries: Value,
              buffer: Value, ahead: Value, peak: Value) -> None:  # fmt: skip
        f, w = self.f, self.w
        there, place, step = masks
        with f.when(there):
            self.turn(mask, queries, rows, self.n["ml"], buffer, w.row, pad=True)
        f.call("void", "@score", f"ptr {weights}", f"i64 {rows}", f"ptr {place}", f"i64 {step}",
               f"{w.kind} {self.scale}", f"i64 {ahead}", f"ptr {peak}")  # fmt: skip


class Forward(Pass):
    """A unit is one block of queries of one head."""

    def __init__(self, w: Writer, f: Function) -> None:
        super().__init__(w, f, FORWARD)

    def write(self) -> None:
        w, f, n, job = self.w, self.f, self.n, self.job
        query, key, value, mask, out, logs = (job.array(i) for i in range(6))
        low = const(-float("inf"), w.dtype).value or ""
        memory, (q, p, o, masks, zero, peak, new, ref, total, alpha) = self.places(
            q=n["size"], p=KEYS, o=n["value_size"], masks=KEYS, zero=1, peak=1, new=1, ref=1, total=1, alpha=1
        )
        self.fill(zero, 1, "0.0")
        there = self.zeros(mask, zero, masks)
        with f.loop("%end", "%begin") as unit:
            pair, turn = f.udiv(unit, n["blocks"]), f.urem(unit, n["blocks"])
            # First and last blocks by turns: under a causal mask the last ones are the longest.
            half = f.v(f"lshr i64 {turn}, 1")
            odd = f.v(f"trunc i64 {turn} to i1")
            first = f.mul(f.choose(odd, f.sub(f.sub(n["blocks"], 1), half), half), w.block)
            a, h = f.udiv(pair, n["heads"]), f.urem(pair, n["heads"])
            shared = f.udiv(h, n["times"])
            queries = f.least(f.sub(n["length"], first), w.block)
            self.turn(self.at(query, "q", a, h, first), queries, n["size"], n["ql"], q, w.row, pad=True)
            self.fill(peak, 1, low)
            self.fill(new, 1, low)
            self.fill(total, 1, "0.0")
            self.fill(ref, 1, "0.0")
            self.fill(o, n["value_size"], "0.0")
            stop = f.choose(self.causal, f.least(n["keys"], f.add(first, queries)), n["keys"])
            with self.blocks(stop) as (at, rows):
                later = f.compare("ne", at, 0)
                k, v = self.at(key, "k", a, shared, at), self.at(value, "v", a, shared, at)
                self.gemm(rows, w.block, n["size"], k, n["kl"], w.item, q, w.row, p, w.row, "false")
                m = f.at(self.at(mask, "m", a, h, first), f.mul(at, w.item))
                self.score(p, rows, there, m, queries, masks, self.ahead(at, first), new)
                self.rows("settle", 1, peak, new, total, ref, alpha)
                with f.when(later):
                    self.rows("scaled", n["value_size"], o, alpha)
                self.rows("weigh", rows, p, ref, total)
                self.gemm(n["value_size"], w.block, rows, v, w.item, n["vl"], p, w.row, o, w.row, later)
            self.rows("finish", 1, ref, total)
            self.rows("scaled", n["value_size"], o, total)
            to = self.at(out, "o", a, h, first)
            self.turn(o, n["value_size"], queries, w.row, to, n["ol"], pad=False)
            place = f.element(w.kind, logs, f.add(f.mul(pair, n["length"]), first))
            with f.loop(queries) as i:
                f.store(w.kind, f.load(w.kind, f.element(w.kind, ref, i)), f.element(w.kind, place, i))
        job.free(memory)


class Backward(Pass):
    """A unit is one part of the keys of one head of key and value, with all queries that see them."""

    def __init__(self, w: Writer, f: Function) -> None:
        super().__init__(w, f, BACKWARD)

    def write(self) -> None:
        w, f, n, job = self.w, self.f, self.n, self.job
        query, key, value, mask, out, logs, given, given_logs, by_query, by_key, by_value = (
            job.array(i) for i in range(11)
        )
        lanes = w.tiles.lanes
        wide, value_wide = (f.mul(f.udiv(f.add(n[s], lanes - 1), lanes), lanes) for s in ("size", "value_size"))
        step, value_step = (f.mul(x, w.item) for x in (wide, value_wide))
        each = f.mul(
            f.udiv(f.add(f.udiv(f.add(n["keys"], f.sub(n["segments"], 1)), n["segments"]), KEYS - 1), KEYS), KEYS
        )
        kept = f.least(each, n["keys"])
        # Rows of `block` elements; sums over keys have rows of `wide` ones.
        ratio, value_ratio = (f.udiv(f.add(x, w.block - 1), w.block) for x in (wide, value_wide))
        memory, (q, g, o, dq, flat_q, flat_g, p, d, masks, zero, peak, logs_here, mean, dk, dv) = self.places(
            q=n["size"], g=n["value_size"], o=n["value_size"], dq=n["size"],
            flat_q=f.mul(ratio, w.block), flat_g=f.mul(value_ratio, w.block), p=KEYS, d=KEYS, masks=KEYS, zero=1,
            peak=1, logs=1, mean=1, dk=f.mul(ratio, kept), dv=f.mul(value_ratio, kept),
        )  # fmt: skip
        self.fill(zero, 1, "0.0")
        self.fill(flat_q, f.mul(ratio, w.block), "0.0")
        self.fill(flat_g, f.mul(value_ratio, w.block), "0.0")
        there = self.zeros(mask, zero, masks)
        groups = f.udiv(n["heads"], n["times"])
        with f.loop("%end", "%begin") as unit:
            pair, turn = f.udiv(unit, n["segments"]), f.urem(unit, n["segments"])
            half = f.v(f"lshr i64 {turn}, 1")
            odd = f.v(f"trunc i64 {turn} to i1")
            segment = f.choose(odd, f.sub(f.sub(n["segments"], 1), half), half)
            a, shared = f.udiv(pair, groups), f.urem(pair, groups)
            start = f.least(f.mul(segment, each), n["keys"])
            stop = f.least(f.add(start, each), n["keys"])
            self.fill(dk, f.mul(ratio, kept), "0.0")
            self.fill(dv, f.mul(value_ratio, kept), "0.0")
            with f.loop(n["times"]) as t, f.loop(n["length"], 0, w.block) as first:
                h = f.add(f.mul(shared, n["times"]), t)
                queries = f.least(f.sub(n["length"], first), w.block)
                here = self.at(query, "q", a, h, first)
                self.turn(here, queries, n["size"], n["ql"], q, w.row, pad=True)
                self.copy(here, queries, n["size"], n["ql"], flat_q, step)
                here = self.at(given, "g", a, h, first)
                self.turn(here, queries, n["value_size"], n["gl"], g, w.row, pad=True)
                self.copy(here, queries, n["value_size"], n["gl"], flat_g, value_step)
                here = self.at(out, "o", a, h, first)
                self.turn(here, queries, n["value_size"], n["ol"], o, w.row, pad=True)
                self.fill(mean, 1, "0.0")
                self.rows("inner", n["value_size"], g, o, mean)
                place = f.add(f.mul(f.add(f.mul(a, n["heads"]), h), n["length"]), first)
                self.logs(logs, given_logs, place, queries, logs_here, mean)
                self.fill(dq, n["size"], "0.0")
                end = f.choose(self.causal, f.least(stop, f.add(first, queries)), stop)
                with self.blocks(end, start) as (at, rows):
                    k, v = self.at(key, "k", a, shared, at), self.at(value, "v", a, shared, at)
                    self.gemm(rows, w.block, n["size"], k, n["kl"], w.item, q, w.row, p, w.row, "false")
                    m = f.at(self.at(mask, "m", a, h, first), f.mul(at, w.item))
                    self.score(p, rows, there, m, queries, masks, self.ahead(at, first), peak)
                    self.gemm(rows, w.block, n["value_size"], v, n["vl"], w.item, g, w.row, d, w.row, "false")
                    self.rows("weigh_back", rows, p, d, logs_here, mean, tail=(f"{w.kind} {self.scale}",))
                    skip = f.sub(at, start)
                    to = f.at(dv, f.mul(skip, value_step))
                    self.gemm(rows, value_wide, queries, p, w.row, w.item, flat_g, value_step, to, value_step, "true")
                    self.gemm(n["size"], w.block, rows, k, w.item, n["kl"], d, w.row, dq, w.row, "true")
                    to = f.at(dk, f.mul(skip, step))
                    self.gemm(rows, wide, queries, d, w.row, w.item, flat_q, step, to, step, "true")
                to = f.at(self.at(by_query, "dq", a, h, first), f.mul(segment, n["dqs"]))
                self.turn(dq, n["size"], queries, w.row, to, n["dql"], pad=False)
            count = f.sub(stop, start)
            self.copy(dk, count, n["size"], step, self.at(by_key, "dk", a, shared, start), n["dkl"])
            self.copy(dv, count, n["value_size"], value_step, self.at(by_value, "dv", a, shared, start), n["dvl"])
        job.free(memory)

    def copy(self, source: Value, rows: Value, cols: Value, step: Value, to: Value, to_step: Value) -> None:
        self.f.call("void", "@copy", f"ptr {source}", f"i64 {rows}", f"i64 {cols}", f"i64 {step}", f"ptr {to}",
                    f"i64 {to_step}")  # fmt: skip

    def logs(self, logs: Value, given: Value, place: Value, queries: Value, to: Value, mean: Value) -> None:
        """Bring the logarithms of the sums, and take their own gradient off the mean."""
        f, kind = self.f, self.w.kind
        self.fill(to, 1, "0.0")
        low = const(-float("inf"), self.w.dtype).value or ""
        with f.loop(queries) as i:
            x = f.load(kind, f.element(kind, logs, f.add(place, i)))
            none = f.v(f"fcmp oeq {kind} {x}, {low}")
            f.store(kind, f.choose(none, "0.0", x, kind), f.element(kind, to, i))
        with f.unless(f.compare("eq", given, "null", "ptr")), f.loop(queries) as i:
            spot = f.element(kind, mean, i)
            x = f.load(kind, f.element(kind, given, f.add(place, i)))
            f.store(kind, f.v(f"fsub {kind} {f.load(kind, spot)}, {x}"), spot)


def text(dtype: str) -> str:
    """Return the LLVM text of attention in f32 or f64: functions `forward` and `backward`."""
    return Writer(dtype).text()


__all__ = ["BACKWARD", "FORWARD", "KEYS", "text"]
