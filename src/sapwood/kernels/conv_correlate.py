"""Convolution and its adjoint in native code: tiles of the image, blocks of filters, sums that stay in registers.

Both are correlations: the adjoint of a convolution with strides is, for each phase of its result, a correlation with
the taps that reach that phase. A plan holds one or several such parts, a unit of work is a tile times a range of
filters. No sum is split among units, so the result does not depend on threads.
"""

from __future__ import annotations

from . import workspace
from .conv_plan import HEAD, PART, PART_WORDS
from .layout import DATA
from .products import DEPTH, WIDE
from .tiles import DIMS, IMAGE, Kind, clip, flat, place, word
from .workspace import JOB, OPERANDS, SELF
from .writer import Function, Module, Value

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


__all__ = ["define"]
