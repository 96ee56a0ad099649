"""Kernels as LLVM text: units, sweeps, blocks.

A kernel's function `run(job, begin, end)` computes units. In a kernel whose innermost axis is reduced, a unit is one
result of each reduction, and a sweep goes through its elements in blocks; otherwise a unit is a strip of columns, and a
sweep goes through it row by row. Sizes and strides are read from the job, so one text serves all shapes.
"""

from __future__ import annotations

from . import reducing
from .emit import SIZES, STORED, Source, define_loop, inline, load_element, splat, store_element, word_of
from .layout import ENV, fields
from .loops import Kernel, Stage, variables
from .scalar import const, convert, var
from .writer import Cell, Function, Module, Operand, Value

BLOCK = 1024
"""Elements of a row that are reduced at a time; what they are computed into stays in the first-level cache."""
STRIP = 256
"""Columns that are reduced together."""
NEAR = 4096
"""Elements of a row whose successor is fetched ahead."""
TOGETHER = 32
"""Rows of columns that are added up in their own dtype before the sums are added to doubles."""
DIMS = 8
"""Kept and reduced dimensions there can be, each."""

JOB = fields("units", "grain", "run", "geometry", "params", "pointers", "partials", "env", "cost")
GEOMETRY = fields("kept", "gone", "width", "rows", "strip", "strips", "parts", "work", "scratch")
"""Numbers of dimensions; length of the innermost axis; rows of a unit; columns of a strip; strips; parts of a sweep;
blocks or rows that are divided into parts; elements of scratch memory."""
GEOMETRY |= {"sizes": 96, "strides": 96 + 16 * DIMS}


class Writer:
    """The text of one kernel."""

    def __init__(self, kernel: Kernel, name: str, module: Module) -> None:
        self.kernel, self.name, self.module = kernel, name, module
        self.columns = 1 if kernel.row else STRIP
        self.reductions = kernel.sweeps[0].reductions if kernel.partial else []
        self.word = word_of([*kernel.kinds, *kernel.rows, *kernel.scratch])
        self.lanes = reducing.LANES[self.word]

    def define(self) -> None:
        """Define `name.run` and, for a partial kernel, `name.finish`."""
        module, kernel = self.module, self.kernel
        params = [(f"%p{j}", self._param_kind()) for j in range(len(kernel.numbers))]
        for s, (sweep, stage) in enumerate(zip(kernel.sweeps, kernel.stages)):
            if not kernel.row:
                self._sweep_loop(s, params)
            if stage.roots and not kernel.row:
                sources = variables(stage.sources, self._one_in_stage)
                define_loop(module, f"{self.name}.stage{s}", sources, stage.roots, params, internal=True)
            for name, root, row in sweep.reductions:
                self._total_loops(name, root.dtype, row)
        # Along rows the loops are written where they are needed: a call and a pass through memory cost a short row more
        # than its elements do.
        part = "vector" if kernel.row else "control"
        with module.function("void", f"{self.name}.run", "ptr %job", "i64 %begin", "i64 %end", part=part) as f:
            self._run(f)
        if kernel.partial:
            with module.function("void", f"{self.name}.finish", "ptr %job", part="control") as f:
                self._finish(f)

    def _param_kind(self) -> str:
        return "f64" if "f64" in self.kernel.kinds else "f32"

    # The loops.

    def _one(self, kind: str, index: int) -> bool:
        if kind == "operand":
            return not self.kernel.inner[index]
        return kind == "row" and self.kernel.row

    def _one_in_stage(self, kind: str, index: int) -> bool:
        return kind == "operand" and not self.kernel.inner[index]

    def _sweep_loop(self, s: int, params: list[tuple[str, str]]) -> None:
        """Define the loop of a sweep over columns: results, then accumulators."""
        sweep = self.kernel.sweeps[s]
        sources = variables(sweep.sources, self._one)
        roots = list(sweep.roots)
        for q, (name, root, _) in enumerate(sweep.reductions):
            have = var(f"%acc{q}", root.dtype)
            sources.append(Source(f"%acc{q}", root.dtype))
            roots.append(have + root if name == "sum" else reducing.accumulate(name, have, have, root)[0])
        define_loop(self.module, f"{self.name}.sweep{s}", sources, roots, params, internal=True)

    def _total_loops(self, name: str, dtype: str, row: int) -> None:
        """Define the loops that take a block's result into the running ones, and those into the row value."""
        high, low, x = var("%h", "f64"), var("%l", "f64"), var("%x", "f64")
        pair = [Source("%h", "f64"), Source("%l", "f64")]
        into = list(reducing.accumulate(name, high, low, x))
        label = f"{self.name}.row{row}"
        if self.kernel.partial:
            define_loop(self.module, f"{label}.add", [*pair, Source("%x", "f64")], into, internal=True)
        if self.kernel.partial or not self.kernel.row:
            define_loop(self.module, f"{label}.total", pair, [reducing.total(name, high, low, dtype)], internal=True)
        if self.kernel.row:
            return
        if self.kernel.partial:
            define_loop(self.module, f"{label}.part", pair, [reducing.total(name, high, low, "f64")], internal=True)
        wide = list(reducing.accumulate(name, high, low, convert(var("%x", dtype), "f64")))
        identity = const({"sum": 0.0, "max": -float("inf"), "min": float("inf")}[name], dtype)
        sources = [*pair, Source("%x", dtype)]
        define_loop(self.module, f"{label}.flush", sources, [*wide, identity], internal=True)

    # The control around them.

    def _geometry(self, f: Function, name: str) -> Value:
        return f.field("i64", "%geometry", GEOMETRY[name])

    def _prepare(self, f: Function) -> None:
        f.do(f"%geometry.p = getelementptr i8, ptr %job, i64 {JOB['geometry']}")
        f.do("%geometry = load ptr, ptr %geometry.p")
        self.params = f.field("ptr", "%job", JOB["params"])
        pointers = f.field("ptr", "%job", JOB["pointers"])
        self.bases = [f.field("ptr", pointers, 8 * k) for k in range(len(self.kernel.kinds))]
        self.counts = {
            n: self._geometry(f, n) for n in ("kept", "gone", "width", "rows", "strip", "strips", "parts", "work")
        }
        self.whole = f.compare("eq", self.counts["parts"], 1) if self.kernel.partial else "true"
        # Stores into arrays might change the geometry for all that LLVM knows, so what every row needs is read once.
        self.simple = {group: f.compare("sle", self.counts[group], 1) for group in ("kept", "gone")}
        strides = [GEOMETRY["strides"] + 16 * DIMS * k for k in range(len(self.kernel.kinds))]
        self.steps = {
            group: [f.field("i64", "%geometry", at + 8 * DIMS * which) for at in strides]
            for which, group in enumerate(("kept", "gone"))
        }
        count = max(1, len(self.kernel.rows))
        self.rows = f.space("[8 x i8]", self.columns * count, align=64)
        self.high = f.space("double", self.columns * count, align=64)
        self.low = f.space("double", self.columns * count, align=64)
        self.here = [f.cell("ptr") for _ in self.kernel.kinds]
        if self.kernel.row:
            kind, numbers = self._param_kind(), range(len(self.kernel.numbers))
            self.numbers = {f"%p{j}": splat(f, kind, self._param(f, j), self.lanes) for j in numbers}
        else:
            self.blocks = f.space("[8 x i8]", STRIP * count, align=64)
        self.list = f.space("ptr", 3 * len(self.kernel.kinds) + 3 * count + 8)

    def _slot(self, f: Function, memory: Value, index: int, width: int) -> Value:
        return f.at(memory, 8 * width * index)

    def _row_slot(self, f: Function, row: int) -> Value:
        return self._slot(f, self.rows, row, self.columns)

    def _offset(self, f: Function, group: str, operand: int, index: Operand) -> Value:
        """Return where an index over the kept or the reduced dimensions lies in an operand, in bytes."""
        found = f.cell("i64", f.mul(index, self.steps[group][operand]))
        with f.unless(self.simple[group]):
            which = 0 if group == "kept" else 1
            sizes = f.at("%geometry", GEOMETRY["sizes"] + 8 * DIMS * which)
            strides = f.at("%geometry", GEOMETRY["strides"] + 16 * DIMS * operand + 8 * DIMS * which)
            dims = f"i64 {self.counts[group]}"
            found.set(f.call("i64", "@offset", dims, f"ptr {sizes}", f"ptr {strides}", f"i64 {index}"))
        return found.get()

    def _call(self, f: Function, loop: str, n: Operand, pointers: list[Value]) -> None:
        for i, p in enumerate(pointers):
            f.put("ptr", p, self.list, 8 * i)
        f.call("void", f"@{self.name}.{loop}", f"i64 {n}", f"ptr {self.list}", f"ptr {self.params}")

    def _unit(self, f: Function, unit: Value) -> Value:
        """Go to a unit; return its number of columns."""
        kernel = self.kernel
        if kernel.row:
            for k, base in enumerate(self.bases):
                self.here[k].set(f.at(base, self._offset(f, "kept", k, unit)))
            return "1"
        strip, kept = f.urem(unit, self.counts["strips"]), f.udiv(unit, self.counts["strips"])
        first = f.mul(strip, self.counts["strip"])
        for k, base in enumerate(self.bases):
            at = f.at(base, self._offset(f, "kept", k, kept))
            self.here[k].set(f.at(at, f.mul(first, SIZES[kernel.kinds[k]])) if kernel.inner[k] else at)
        return f.least(f.sub(self.counts["width"], first), self.counts["strip"])

    def _part_slot(self, f: Function, number: Value, q: int) -> Value:
        """Return where the part `number` of reduction q is kept until all parts are there."""
        place = f.add(f.mul(number, len(self.reductions)), q)
        return f.at(f.field("ptr", "%job", JOB["partials"]), f.mul(place, 8 * self.columns))

    def _clear(self, f: Function, n: Operand, reductions: list[tuple[str, str, int]]) -> None:
        for name, dtype, row in reductions:
            with f.loop(n) as i:
                identity = reducing.IDENTITY[name]
                f.store("double", identity, f.element("double", self._slot(f, self.high, row, self.columns), i))
                f.store("double", "0.0", f.element("double", self._slot(f, self.low, row, self.columns), i))
                if not self.kernel.row:
                    kind = STORED[dtype]
                    f.store(kind, identity, f.element(kind, self._slot(f, self.blocks, row, STRIP), i))

    def _run(self, f: Function) -> None:
        self._prepare(f)
        kernel = self.kernel
        env = f.field("ptr", "%job", JOB["env"])
        scratch: list[Value] = []
        if kernel.scratch:
            length = f.mul(self._geometry(f, "scratch"), 8)
            memory = f.call("ptr", f.field("ptr", env, ENV["malloc"]), f"i64 {f.mul(length, len(kernel.scratch))}")
            scratch = [f.at(memory, f.mul(length, j)) for j in range(len(kernel.scratch))]
        with f.loop("%end", "%begin") as number:
            part, unit = f.cell("i64", 0), f.cell("i64", number)
            if kernel.partial:
                with f.unless(self.whole):
                    part.set(f.urem(number, self.counts["parts"]))
                    unit.set(f.udiv(number, self.counts["parts"]))
            n = self._unit(f, unit.get())
            for s, sweep in enumerate(kernel.sweeps):
                found = [(name, root.dtype, row) for name, root, row in sweep.reductions]
                if kernel.row:
                    self._sweep_row(f, s, part.get(), number, scratch)
                else:
                    self._clear(f, n, found)
                    self._sweep_columns(f, s, part.get(), n, scratch)
                for q, (_, _, row) in enumerate(found if not kernel.row else ()):
                    pair = [self._slot(f, m, row, self.columns) for m in (self.high, self.low)]
                    if kernel.partial:
                        self._call(f, f"row{row}.part", n, [self._part_slot(f, number, q), *pair])
                    else:
                        self._call(f, f"row{row}.total", n, [self._row_slot(f, row), *pair])
                if kernel.row or not kernel.partial:
                    with f.when(self.whole):
                        self._stage(f, s, n)
        if kernel.scratch:
            f.call("void", f.field("ptr", env, ENV["free"]), f"ptr {memory}")

    def _stage(self, f: Function, s: int, n: Operand) -> None:
        stage: Stage = self.kernel.stages[s]
        if not stage.roots:
            return
        pointers = [
            self.here[i].get() if kind == "operand" else self._row_slot(f, i)
            for kind, i in (*stage.places, *((kind, i) for kind, i, _ in stage.sources))
        ]
        if not self.kernel.row:
            self._call(f, f"stage{s}", n, pointers)
            return
        outs = len(stage.roots)
        sources = variables(stage.sources, lambda kind, i: True)
        names = {source.name: load_element(f, source, p) for source, p in zip(sources, pointers[outs:])}
        names |= {f"%p{j}": self._param(f, j) for j in range(len(self.kernel.numbers))}
        for root, pointer, value in zip(stage.roots, pointers, inline(f, stage.roots, names)):
            store_element(f, root.dtype, value, pointer, "0")

    def _param(self, f: Function, j: int) -> Value:
        given = f.field("double", self.params, 8 * j)
        return f.v(f"fptrunc double {given} to float") if self._param_kind() == "f32" else given

    def _range(self, f: Function, part: Value, total: Value) -> tuple[Value, Value]:
        """Return the part of a sweep's blocks or rows that is this unit's."""
        if not self.kernel.partial:
            return "0", total
        parts = self.counts["parts"]
        begin, end = f.cell("i64", 0), f.cell("i64", total)
        # A division costs as much as a short row.
        with f.unless(self.whole):
            begin.set(f.udiv(f.mul(part, total), parts))
            end.set(f.udiv(f.mul(f.add(part, 1), total), parts))
        return begin.get(), end.get()

    def _sweep_row(self, f: Function, s: int, part: Value, number: Value, scratch: list[Value]) -> None:
        sweep = self.kernel.sweeps[s]
        running = [
            (f.cell("double", reducing.IDENTITY[name]), f.cell("double", "0.0")) for name, _, _ in sweep.reductions
        ]
        width = self.counts["width"]
        if not sweep.reductions:
            with f.loop(self.counts["rows"]) as row:
                self._block(f, s, row, "0", width, scratch, running)
        else:
            blocks = f.v(f"lshr i64 {f.add(width, BLOCK - 1)}, {BLOCK.bit_length() - 1}")
            begin, end = self._range(f, part, f.mul(self.counts["rows"], blocks))
            at, start = f.cell("i64", 0), f.cell("i64", 0)
            if self.kernel.partial:
                with f.unless(f.compare("eq", begin, 0)):
                    at.set(f.udiv(begin, blocks))
                    start.set(f.mul(f.urem(begin, blocks), BLOCK))
            with f.loop(end, begin):
                n = f.least(f.sub(width, start.get()), BLOCK)
                self._block(f, s, at.get(), start.get(), n, scratch, running)
                start.set(f.add(start.get(), BLOCK))
                with f.when(f.compare("sge", start.get(), width)):
                    start.set(0)
                    at.set(f.add(at.get(), 1))
        for q, ((high, low), (name, root, index)) in enumerate(zip(running, sweep.reductions)):
            pair = {"%h": high.get(), "%l": low.get()}

            def put(dtype: str, place: Value, name: str = name, pair: dict[str, Value] = pair) -> None:
                (value,) = inline(f, [reducing.total(name, var("%h", "f64"), var("%l", "f64"), dtype)], pair)
                f.store(STORED[dtype], value, place)

            with f.when(self.whole):
                put(root.dtype, self._row_slot(f, index))
            if self.kernel.partial:
                with f.unless(self.whole):
                    put("f64", self._part_slot(f, number, q))

    def _block(
        self,
        f: Function,
        s: int,
        row: Value,
        start: Value,
        n: Value,
        scratch: list[Value],
        running: list[tuple[Cell, Cell]],
    ) -> None:
        """Compute one block of a sweep along a row, and take its reductions into the running ones."""
        sweep = self.kernel.sweeps[s]
        flat = f.add(f.mul(row, self.counts["width"]), start)
        pointers = [self._at(f, kind, i, row, start, flat, scratch) for kind, i in self._places(s)]
        outs, lanes = pointers[: len(sweep.roots)], self.lanes
        places = dict(zip(variables(sweep.sources, self._one), pointers[len(outs) :]))
        names = dict(self.numbers)
        for source, place in places.items():
            if source.one:
                names[source.name] = splat(f, source.dtype, load_element(f, source, place), lanes)
        roots = [*sweep.roots, *(root for _, root, _ in sweep.reductions)]
        blocks = [reducing.Lanes(f, name, root.dtype, lanes) for name, root, _ in sweep.reductions]
        reducing.block_loop(
            f, n, lanes, places, roots, outs, names, blocks, self._coming(f, s, start), word=self.word
        )  # fmt: skip
        for block, (high, low), (name, root, _) in zip(blocks, running, sweep.reductions):
            x = block.total()
            # Sums of float32 blocks lose nothing as doubles that float32 could hold.
            exact = name == "sum" and root.dtype == "f32"
            high_, low_, x_ = var("%h", "f64"), var("%l", "f64"), var("%x", "f64")
            after = [high_ + x_, low_] if exact else list(reducing.accumulate(name, high_, low_, x_))
            values = inline(f, after, {"%h": high.get(), "%l": low.get(), "%x": x})
            high.set(values[0])
            low.set(values[1])

    def _coming(self, f: Function, s: int, start: Value) -> list[tuple[Value, int]]:
        """Return where the next unit's elements lie and their sizes, of what the first sweep will read.

        The second sweep finds its own numbers in the cache, so it has them fetched while the memory has nothing to do.
        """
        if s != 1:
            return []
        kinds, inner = self.kernel.kinds, self.kernel.inner
        # A long row would drive out what it comes for.
        near = f.compare("sle", self.counts["width"], NEAR)
        found = []
        for k in dict.fromkeys(i for kind, i, _ in self.kernel.sweeps[0].sources if kind == "operand" and inner[i]):
            skip = f.add(f.choose(near, self.steps["kept"][k], 0), f.mul(start, SIZES[kinds[k]]))
            found.append((f.at(self.here[k].get(), skip), SIZES[kinds[k]]))
        return found

    def _places(self, s: int) -> list[tuple[str, int]]:
        sweep = self.kernel.sweeps[s]
        return [*sweep.places, *((kind, i) for kind, i, _ in sweep.sources)]

    def _at(
        self, f: Function, kind: str, index: int, row: Value, start: Value, flat: Value, scratch: list[Value]
    ) -> Value:
        """Return where a sweep finds or puts a value in row `row` of the unit, from element `start` on."""
        kernel = self.kernel
        if kind == "row":
            return self._row_slot(f, index)
        if kind == "scratch":
            return f.at(scratch[index], f.mul(flat, SIZES[kernel.scratch[index]]))
        at = f.at(self.here[index].get(), self._offset(f, "gone", index, row))
        return f.at(at, f.mul(start, SIZES[kernel.kinds[index]])) if kernel.inner[index] else at

    def _sweep_columns(self, f: Function, s: int, part: Value, n: Value, scratch: list[Value]) -> None:
        sweep = self.kernel.sweeps[s]
        begin, end = self._range(f, part, self.counts["rows"])
        sums = [self._slot(f, self.blocks, row, STRIP) for _, _, row in sweep.reductions]
        with f.loop(end, begin, TOGETHER) as first:
            with f.loop(f.least(f.add(first, TOGETHER), end), first) as row:
                flat = f.mul(row, self.counts["strip"])
                pointers = [self._at(f, kind, i, row, "0", flat, scratch) for kind, i in self._places(s)]
                outs = len(sweep.roots)
                self._call(f, f"sweep{s}", n, [*pointers[:outs], *sums, *pointers[outs:], *sums])
            for block, (_, _, index) in zip(sums, sweep.reductions):
                pair = [self._slot(f, m, index, STRIP) for m in (self.high, self.low)]
                self._call(f, f"row{index}.flush", n, [*pair, block, *pair, block])

    def _finish(self, f: Function) -> None:
        """Add up the parts of every unit, and compute what follows; where rows are whole `run` has done it."""
        self._prepare(f)
        if self.kernel.row:
            with f.when(self.whole):
                f.ret()
        found = [(name, root.dtype, row) for name, root, row in self.kernel.sweeps[0].reductions]
        partials = f.field("ptr", "%job", JOB["partials"])
        parts = self.counts["parts"]
        units = f.udiv(f.field("i64", "%job", JOB["units"]), parts)
        with f.loop(units) as unit:
            n = self._unit(f, unit)
            self._clear(f, n, found)
            with f.loop(parts) as part:
                number = f.add(f.mul(unit, parts), part)
                for q, (_, _, row) in enumerate(found):
                    pair = [self._slot(f, m, row, self.columns) for m in (self.high, self.low)]
                    place = f.at(partials, f.mul(f.add(f.mul(number, len(found)), q), 8 * self.columns))
                    self._call(f, f"row{row}.add", n, [*pair, *pair, place])
            for _, _, row in found:
                pair = [self._slot(f, m, row, self.columns) for m in (self.high, self.low)]
                self._call(f, f"row{row}.total", n, [self._row_slot(f, row), *pair])
            self._stage(f, 0, n)


def define_common(module: Module) -> None:
    """Define what the kernels of one module share: `offset`."""
    with module.function(
        "i64", "offset", "i64 %dims", "ptr %sizes", "ptr %strides", "i64 %index", internal=True, part="control"
    ) as f:
        with f.when(f.compare("eq", "%dims", 1)):
            f.ret("i64", f.mul("%index", f.load("i64", "%strides")))
        left, sum_ = f.cell("i64", "%index"), f.cell("i64", 0)
        with f.loop("%dims") as d:
            size = f.load("i64", f.element("i64", "%sizes", d))
            step = f.load("i64", f.element("i64", "%strides", d))
            sum_.set(f.add(sum_.get(), f.mul(f.urem(left.get(), size), step)))
            left.set(f.udiv(left.get(), size))
        f.ret("i64", sum_.get())


__all__ = ["DIMS", "GEOMETRY", "JOB", "Writer", "define_common"]
