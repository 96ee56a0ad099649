"""The native text of running sums, products and extremes along one dimension.

Arrays are seen as (outer, n, inner) with any strides. `rows` follows several lines at once, whose chains of operations
do not wait for each other; `columns` computes lines that lie side by side in vectors. Both take the elements of a line
in order, so they give the same numbers.
"""

from __future__ import annotations

from .direct import Job
from .emit import SIZES, loop_note
from .scalar import LLVM_TYPES
from .writer import Function, Module, Value

WORDS = ("outer", "n", "inner", "chunks", "xo", "xi", "xj", "yo", "yi", "yj", "po", "pi", "pj")
"""Sizes, then strides in bytes of input, result and positions."""
NAMES = ("rows", "line", "columns")
LINES = 4
"""Lines followed at once."""
COLUMNS = 256
"""Columns of a unit; what they have run up to stays in the first-level cache."""


def text(how: str, dtype: str) -> str:
    """Return `rows`, `line` (one at a time) and `columns` for "add", "multiply", "maximum" or "minimum".

    The types are f32, f64 and i64.
    Sums and products of float32 run in double precision and are rounded at each step. Extremes also give positions,
    the last of equals.
    """
    module = Module()
    write = _Scan(how, dtype)
    for name in NAMES:
        with module.function("void", name, "ptr %job", "i64 %begin", "i64 %end") as f:
            if name == "columns":
                write.columns(f)
            else:
                write.rows(f, LINES if name == "rows" else 1)
    return module.text()


class _Scan:
    def __init__(self, how: str, dtype: str) -> None:
        self.how, self.dtype = how, dtype
        self.kind, self.size = LLVM_TYPES[dtype], SIZES[dtype]
        self.extreme = how in ("maximum", "minimum")
        self.float = dtype != "i64"
        self.wide = "double" if dtype == "f32" and not self.extreme else self.kind
        # What leaves the first element as it is, the sign of zero included.
        self.start = {"add": "-0.0" if self.float else "0", "multiply": "1.0" if self.float else "1"}.get(how, "")

    def step(self, f: Function, old: Value, x: Value) -> Value:
        """Return the next running value; `x` is of the array's type."""
        if self.wide != self.kind:
            x = f.v(f"fpext {self.kind} {x} to {self.wide}")
        op = {"add": "add", "multiply": "mul"}[self.how]
        return f.v(f"{'f' if self.float else ''}{op} {self.wide} {old}, {x}")

    def better(self, f: Function, old: Value, x: Value) -> Value:
        """Return whether `x` takes the place of the running extreme."""
        how = "ge" if self.how == "maximum" else "le"
        if not self.float:
            return f.compare(f"s{how}", x, old, self.kind)
        # Unordered: a NaN takes over, and gives way to another NaN alone.
        takes = f.v(f"fcmp o{how} {self.kind} {x}, {old}")
        return f.either(takes, f.v(f"fcmp uno {self.kind} {x}, {x}"))

    def narrow(self, f: Function, x: Value) -> Value:
        return x if self.wide == self.kind else f.v(f"fptrunc {self.wide} {x} to {self.kind}")

    def rows(self, f: Function, lines: int) -> None:
        job = Job(f, WORDS)
        w = {name: job.word(name) for name in WORDS}
        arrays = [(job.array(i), tuple(w[p + q] for q in "oij")) for i, p in enumerate("xyp")]
        last = f.sub(f.mul(w["outer"], w["inner"]), 1)
        with f.loop("%end", "%begin") as unit:
            places: list[list[Value]] = []
            for k in range(lines):
                # The last unit repeats its last line where there are not enough.
                line = f.least(f.add(f.mul(unit, lines), k), last)
                o, j = f.udiv(line, w["inner"]), f.urem(line, w["inner"])
                places.append([f.at(f.at(a, f.mul(o, so)), f.mul(j, sj)) for a, (so, _, sj) in arrays])
            running = [f.cell(self.wide) for _ in range(lines)]
            at = [f.cell("i64", 0) for _ in range(lines)]
            for k, cell in enumerate(running):
                cell.set(f.load(self.kind, places[k][0]) if self.extreme else self.start)
            with f.loop(w["n"]) as i:
                values = [f.load(self.kind, f.at(places[k][0], f.mul(i, w["xi"]))) for k in range(lines)]
                for k, x in enumerate(values):
                    if self.extreme:
                        take = self.better(f, running[k].get(), x)
                        running[k].set(f.choose(take, x, running[k].get(), self.kind))
                        at[k].set(f.choose(take, i, at[k].get()))
                        f.store("i64", at[k].get(), f.at(places[k][2], f.mul(i, w["pi"])))
                    else:
                        running[k].set(self.step(f, running[k].get(), x))
                for k, cell in enumerate(running):
                    f.store(self.kind, self.narrow(f, cell.get()), f.at(places[k][1], f.mul(i, w["yi"])))

    def columns(self, f: Function) -> None:
        job = Job(f, WORDS)
        w = {name: job.word(name) for name in WORDS}
        running, at = f.space(self.wide, COLUMNS, align=64), f.space("i64", COLUMNS, align=64)
        with f.loop("%end", "%begin") as unit:
            o, first = f.udiv(unit, w["chunks"]), f.mul(f.urem(unit, w["chunks"]), COLUMNS)
            width = f.least(f.sub(w["inner"], first), COLUMNS)
            x, y, p = (
                f.at(f.at(job.array(i), f.mul(o, w[s + "o"])), f.mul(first, size))
                for i, (s, size) in enumerate((("x", self.size), ("y", self.size), ("p", 8)))
            )
            with f.loop(width) as j:
                start = f.load(self.kind, f.element(self.kind, x, j)) if self.extreme else self.start
                f.store(self.wide, start, f.element(self.wide, running, j))
                f.store("i64", 0, f.element("i64", at, j))
            with f.loop(w["n"]) as i:
                here, there, spot = (f.at(a, f.mul(i, w[s + "i"])) for a, s in ((x, "x"), (y, "y"), (p, "p")))
                group = f.module.metadata("distinct !{}")
                note = loop_note(f.module, f.module.metadata(f'!{{!"llvm.loop.parallel_accesses", {group}}}'))
                tail = f", !llvm.access.group {group}"
                with f.loop(width, note=note) as j:
                    cell = f.element(self.wide, running, j)
                    old = f.load(self.wide, cell, tail)
                    value = f.load(self.kind, f.element(self.kind, here, j), tail)
                    if self.extreme:
                        take = self.better(f, old, value)
                        new = f.choose(take, value, old, self.kind)
                        place = f.element("i64", at, j)
                        position = f.choose(take, i, f.load("i64", place, tail))
                        f.store("i64", position, place, tail)
                        f.store("i64", position, f.element("i64", spot, j), tail)
                    else:
                        new = self.step(f, old, value)
                    f.store(self.wide, new, cell, tail)
                    f.store(self.kind, self.narrow(f, new), f.element(self.kind, there, j), tail)


__all__ = ["COLUMNS", "LINES", "NAMES", "WORDS", "text"]
