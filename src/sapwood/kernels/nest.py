"""Running pointwise loops over arrays of any layout: blocks of contiguous elements, copied together where they are not.

A loop only knows contiguous operands, and for some patterns operands of one element (the bits of its mask). Operands of
any other layout are gathered into a small buffer, block by block, which costs a pass through the first-level cache.
"""

from __future__ import annotations

from .layout import JOB, MAX_DIMS, MAX_OPERANDS
from .writer import Cell, Function, Module, Value

BUFFER = 1024
"""Elements of a buffer."""
DIRECT, ONE, FILL, GATHER = 0, 1, 2, 3
"""How an operand reaches the loop: in place, as one element, repeated in a buffer, copied to a buffer."""


def define(module: Module) -> None:
    """Define run_flat and run_nest, the `run` functions of jobs, and what they call."""
    head = ("ptr %from", "ptr %to", "i64 %n", "i64 %step", "i64 %item")
    with module.function("void", "fill", *head, apart=True, part="vector") as f:
        for size, kind in ((4, "i32"), (8, "i64"), (1, "i8")):
            with f.when(f.compare("eq", "%item", size)):
                with f.loop("%n") as i:
                    f.store(kind, f.load(kind, f.at("%from", f.mul(i, "%step"))), f.element(kind, "%to", i))
    with module.function("void", "run_flat", "ptr %job", "i64 %begin", "i64 %end") as f:
        _run_flat(f, "%job")
    with module.function("void", "run_nest", "ptr %job", "i64 %begin", "i64 %end") as f:
        _run_nest(f, "%job")


def word(f: Function, job: Value, name: str, index: Value | int = 0) -> Value:
    """Load entry `index` of a job's field."""
    return f.load("i64", f.element("i64", f.at(job, JOB[name]), index))


def pointer(f: Function, job: Value, index: Value | int) -> Value:
    """Load the address of operand `index`."""
    return f.load("ptr", f.element("ptr", f.at(job, JOB["pointers"]), index))


def item(f: Function, job: Value, index: Value | int) -> Value:
    """Load the size in bytes of an element of operand `index`."""
    return f.load("i64", f.element("i64", f.field("ptr", job, JOB["items"]), index))


def loop_of(f: Function, job: Value, mask: Value) -> Value:
    """Load the address of the loop for a mask, null if there is none."""
    return f.load("ptr", f.element("ptr", f.field("ptr", job, JOB["loops"]), mask))


def _run_flat(f: Function, job: Value) -> None:
    """Run elements begin … end of operands that are contiguous or of one element."""
    moved = f.space("ptr", MAX_OPERANDS)
    count, mask = word(f, job, "operands"), word(f, job, "mask")
    attrs = f.field("ptr", job, JOB["attrs"])
    outs = word(f, job, "outs")
    loop = loop_of(f, job, mask)
    usual = f.compare("ne", loop, "null", "ptr")
    with f.when(usual):
        with f.loop(count) as k:
            one = f.both(f.compare("sge", k, outs), _bit(f, mask, f.sub(k, outs)))
            offset = f.choose(one, 0, f.mul("%begin", item(f, job, k)))
            f.store("ptr", f.at(pointer(f, job, k), offset), f.element("ptr", moved, k))
        f.call("void", loop, f"i64 {f.sub('%end', '%begin')}", f"ptr {moved}", f"ptr {attrs}")
        f.ret()
    buffers = f.space("[8 x i8]", BUFFER * MAX_OPERANDS, align=64)
    length = f.least(f.sub("%end", "%begin"), BUFFER)
    with f.loop(count, outs) as k:
        with f.when(_bit(f, mask, f.sub(k, outs))):
            buffer = f.element("i8", buffers, f.mul(k, 8 * BUFFER))
            f.call("void", "@fill", f"ptr {pointer(f, job, k)}", f"ptr {buffer}", f"i64 {length}", "i64 0",
                   f"i64 {item(f, job, k)}")  # fmt: skip
            f.store("ptr", buffer, f.element("ptr", moved, k))
    plain = loop_of(f, job, "0")
    with f.loop("%end", "%begin", BUFFER) as start:
        with f.loop(count) as k:
            fixed = f.both(f.compare("sge", k, outs), _bit(f, mask, f.sub(k, outs)))
            with f.unless(fixed):
                here = f.at(pointer(f, job, k), f.mul(start, item(f, job, k)))
                f.store("ptr", here, f.element("ptr", moved, k))
        n = f.least(f.sub("%end", start), BUFFER)
        f.call("void", plain, f"i64 {n}", f"ptr {moved}", f"ptr {attrs}")


def _bit(f: Function, mask: Value, k: Value) -> Value:
    return f.v(f"trunc i64 {f.v(f'lshr i64 {mask}, {k}')} to i1")


def _run_nest(f: Function, job: Value) -> None:
    """Run units begin … end, each a segment of one row; rows are counted over dims 1 and up."""
    here, moved, used = f.space("ptr", MAX_OPERANDS), f.space("ptr", MAX_OPERANDS), f.space("ptr", MAX_OPERANDS)
    index = f.space("i64", MAX_DIMS)
    buffers = f.space("[8 x i8]", BUFFER * MAX_OPERANDS, align=64)
    count, dims = word(f, job, "operands"), word(f, job, "dims")
    attrs = f.field("ptr", job, JOB["attrs"])
    loop = loop_of(f, job, word(f, job, "mask"))
    segment, segments, width = word(f, job, "segment"), word(f, job, "segments"), word(f, job, "size")
    part = f.cell("i64", f.urem("%begin", segments))
    row = f.cell("i64", f.udiv("%begin", segments))
    with f.loop(count) as k:
        f.store("ptr", pointer(f, job, k), f.element("ptr", here, k))
        f.store("ptr", "null", f.element("ptr", used, k))
    with f.loop(dims, 1) as d:
        size = word(f, job, "size", d)
        at = f.urem(row.get(), size)
        row.set(f.udiv(row.get(), size))
        f.store("i64", at, f.element("i64", index, d))
        with f.loop(count) as k:
            _move(f, here, k, f.mul(at, _stride(f, job, k, d)))
    with f.loop("%end", "%begin"):
        first = f.mul(part.get(), segment)
        n = f.least(f.sub(width, first), segment)
        with f.loop(count) as k:
            _supply(f, job, k, f.load("ptr", f.element("ptr", here, k)), first, n, moved, used, buffers)
        f.call("void", loop, f"i64 {n}", f"ptr {moved}", f"ptr {attrs}")
        part.set(f.add(part.get(), 1))
        with f.when(f.compare("eq", part.get(), segments)):
            part.set(0)
            _next_row(f, job, here, index, count, dims)


def _stride(f: Function, job: Value, k: Value, d: Value) -> Value:
    return word(f, job, "strides", f.add(f.mul(k, MAX_DIMS), d))


def _move(f: Function, here: Value, k: Value, offset: Value) -> None:
    place = f.element("ptr", here, k)
    f.store("ptr", f.at(f.load("ptr", place), offset), place)


def _next_row(f: Function, job: Value, here: Value, index: Value, count: Value, dims: Value) -> None:
    """Advance the outer indices like an odometer."""
    d = f.cell("i64", 1)
    again, done = f.label("carry"), f.label("row")
    f.go(again)
    f.start(again)
    f.leave(f.compare("sge", d.get(), dims), done)
    place = f.element("i64", index, d.get())
    at = f.add(f.load("i64", place), 1)
    size = word(f, job, "size", d.get())
    full = f.compare("eq", at, size)
    f.store("i64", f.choose(full, 0, at), place)
    steps = f.choose(full, f.sub(1, size), 1)
    with f.loop(count) as k:
        _move(f, here, k, f.mul(steps, _stride(f, job, k, d.get())))
    d.set(f.add(d.get(), 1))
    f.split(full, again, done)
    f.start(done)


def _supply(
    f: Function, job: Value, k: Value, base: Value, first: Value, n: Value, moved: Value, used: Value, buffers: Value
) -> None:
    """Write where the loop finds operand k's next n elements, after copying them if they are scattered."""
    kind = word(f, job, "kinds", k)
    size = item(f, job, k)
    stride = _stride(f, job, k, "0")
    address: Cell = f.cell("ptr", f.at(base, f.mul(first, stride)))
    with f.when(f.compare("sge", kind, FILL)):
        buffer = f.element("i8", buffers, f.mul(k, 8 * BUFFER))
        last = f.element("ptr", used, k)
        # A repeated element of the same row is still in the buffer.
        stale = f.either(f.compare("eq", kind, GATHER), f.compare("ne", f.load("ptr", last), base, "ptr"))
        whole = f.least(word(f, job, "segment"), word(f, job, "size"))
        length = f.choose(f.compare("eq", kind, FILL), whole, n)
        with f.when(stale):
            f.store("ptr", base, last)
            start = f"ptr {address.get()}"
            f.call("void", "@fill", start, f"ptr {buffer}", f"i64 {length}", f"i64 {stride}", f"i64 {size}")
        address.set(buffer)
    f.store("ptr", address.get(), f.element("ptr", moved, k))


__all__ = ["BUFFER", "DIRECT", "FILL", "GATHER", "ONE", "define", "item", "loop_of", "pointer", "word"]
