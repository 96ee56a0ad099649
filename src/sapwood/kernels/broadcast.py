"""Native broadcasting: from arrays of any layout to a result and a nest of as few dimensions as possible.

The result is laid out as NumPy would: its axes are ordered by the operands' strides, so that transposed operands give a
transposed result and every array is walked along its memory. Neighbouring dimensions that every operand steps through
alike become one.
"""

from __future__ import annotations

from . import nest
from .front import ndim
from .layout import ALIGNED, DATA, DIMS, ENV, FLAGS, JOB, MAX_DIMS, MAX_OPERANDS, NDIM, STRIDES, TYPE
from .writer import Function, Module, Value

SEGMENT = 8192
"""Elements of a row that are one unit of work."""


def define(module: Module) -> None:
    """Define `general(env, job, args, descr, cost)`: the result of a call, or null for the fallback."""
    with module.function("i1", "spread", "ptr %job", "i64 %k", "ptr %array", "i64 %nd", apart=True) as f:
        _spread(f)
    with module.function("i1", "order", "ptr %job", "i64 %nd", "i64 %count", "ptr %axes", apart=True) as f:
        _order(f)
    with module.function("void", "collapse", "ptr %job", "i64 %nd", "i64 %count", "ptr %axes", apart=True) as f:
        _collapse(f)
    with module.function("void", "plan", "ptr %job", apart=True) as f:
        _plan(f)
    with module.function(
        "ptr", "general", "ptr %env", "ptr %job", "ptr %args", "ptr %descr", "i64 %cost", apart=True
    ) as f:
        _general(f)


def _size(f: Function, d: Value) -> Value:
    return f.element("i64", f.at("%job", JOB["size"]), d)


def _stride(f: Function, k: Value, d: Value) -> Value:
    return f.element("i64", f.at("%job", JOB["strides"]), f.add(f.mul(k, MAX_DIMS), d))


def _spread(f: Function) -> None:
    """Take an array's sizes and strides into the job, innermost first; answer false if it does not broadcast."""
    own, dims = ndim(f, "%array"), f.field("ptr", "%array", DIMS)
    strides = f.field("ptr", "%array", STRIDES)
    with f.loop(own) as i:
        d = f.sub(f.sub(own, 1), i)
        size = f.load("i64", f.element("i64", dims, d))
        with f.unless(f.compare("eq", size, 1)):
            before = f.load("i64", _size(f, i))
            with f.when(f.both(f.compare("ne", before, 1), f.compare("ne", before, size))):
                f.ret("i1", "false")
            f.store("i64", size, _size(f, i))
            f.store("i64", f.load("i64", f.element("i64", strides, d)), _stride(f, "%k", i))
    f.ret("i1", "true")


def _order(f: Function) -> None:
    """Sort the axes by the inputs' strides as NumPy does; return whether any moved.

    An insertion sort, because strides of several operands are no total order: the operands vote, a vote for the given
    order wins over any other, and operands that are broadcast along one of the two axes have none.
    """
    moved = f.cell("i1", "false")
    with f.loop("%nd") as i:
        f.store("i64", i, f.element("i64", "%axes", i))
    with f.loop("%nd", 1) as i:
        axis = f.load("i64", f.element("i64", "%axes", i))
        target, j = f.cell("i64"), f.cell("i64")
        target.set(i)
        j.set(f.sub(i, 1))
        again, done = f.label("again"), f.label("placed")
        f.go(again)
        f.start(again)
        f.leave(f.compare("slt", j.get(), 0), done)
        other = f.load("i64", f.element("i64", "%axes", j.get()))
        decided, swap = f.cell("i1"), f.cell("i1")
        decided.set("false")
        swap.set("false")
        with f.loop("%count", 1) as k:
            a, b = f.load("i64", _stride(f, k, axis)), f.load("i64", _stride(f, k, other))
            a, b = (f.call("i64", "@llvm.abs.i64", f"i64 {x}", "i1 false") for x in (a, b))
            with f.when(f.both(f.compare("ne", a, 0), f.compare("ne", b, 0))):
                given = f.compare("sle", b, a)
                first = f.no(decided.get())
                swap.set(f.choose(given, "false", f.choose(first, "true", swap.get(), "i1"), "i1"))
                decided.set("true")
        with f.when(decided.get()):
            f.leave(f.no(swap.get()), done)
            target.set(j.get())
        j.set(f.sub(j.get(), 1))
        f.go(again)
        f.start(done)
        with f.when(f.compare("ne", target.get(), i)):
            moved.set("true")
            back = f.cell("i64")
            back.set(i)
            shift, shifted = f.label("shift"), f.label("shifted")
            f.go(shift)
            f.start(shift)
            f.leave(f.compare("sle", back.get(), target.get()), shifted)
            before = f.sub(back.get(), 1)
            f.store("i64", f.load("i64", f.element("i64", "%axes", before)), f.element("i64", "%axes", back.get()))
            back.set(before)
            f.go(shift)
            f.start(shifted)
            f.store("i64", axis, f.element("i64", "%axes", target.get()))
    f.ret("i1", moved.get())


def _collapse(f: Function) -> None:
    """Bring the dimensions into the order of `axes`, without those of size 1, and join neighbours."""
    sizes, steps = f.space("i64", MAX_DIMS), f.space("i64", MAX_DIMS * MAX_OPERANDS)

    def step(k: Value, d: Value) -> Value:
        return f.element("i64", steps, f.add(f.mul(k, MAX_DIMS), d))

    last = f.cell("i64", -1)
    with f.loop("%nd") as i:
        axis = f.load("i64", f.element("i64", "%axes", i))
        size = f.load("i64", _size(f, axis))
        with f.unless(f.compare("eq", size, 1)):
            join = f.cell("i1")
            join.set(f.compare("sge", last.get(), 0))
            with f.when(join.get()):
                width = f.load("i64", f.element("i64", sizes, last.get()))
                with f.loop("%count") as k:
                    expected = f.mul(f.load("i64", step(k, last.get())), width)
                    with f.when(f.compare("ne", f.load("i64", _stride(f, k, axis)), expected)):
                        join.set("false")
            with f.when(join.get()):
                place = f.element("i64", sizes, last.get())
                f.store("i64", f.mul(f.load("i64", place), size), place)
            with f.unless(join.get()):
                last.set(f.add(last.get(), 1))
                f.store("i64", size, f.element("i64", sizes, last.get()))
                with f.loop("%count") as k:
                    f.store("i64", f.load("i64", _stride(f, k, axis)), step(k, last.get()))
    dims = f.add(last.get(), 1)
    with f.loop(dims) as d:
        f.store("i64", f.load("i64", f.element("i64", sizes, d)), _size(f, d))
        with f.loop("%count") as k:
            f.store("i64", f.load("i64", step(k, d)), _stride(f, k, d))
    with f.when(f.compare("eq", dims, 0)):
        # One element: a row of length one.
        f.store("i64", 1, _size(f, "0"))
        with f.loop("%count") as k:
            f.store("i64", 0, _stride(f, k, "0"))
    f.put("i64", f.greatest(dims, 1), "%job", JOB["dims"])


def _plan(f: Function) -> None:
    """Choose how each operand is supplied, the loop, and the units of work."""
    count, outs = nest.word(f, "%job", "operands"), nest.word(f, "%job", "outs")
    mask = f.cell("i64", 0)
    with f.loop(count, outs) as k:
        with f.when(f.compare("eq", f.load("i64", _stride(f, k, "0")), 0)):
            bit = f.v(f"shl i64 1, {f.sub(k, outs)}")
            mask.set(f.v(f"or i64 {mask.get()}, {bit}"))
    has = f.compare("ne", nest.loop_of(f, "%job", mask.get()), "null", "ptr")
    mask.set(f.choose(has, mask.get(), 0))
    f.put("i64", mask.get(), "%job", JOB["mask"])
    buffered = f.cell("i1", "false")
    width = f.load("i64", _size(f, "0"))
    with f.loop(count) as k:
        stride = f.load("i64", _stride(f, k, "0"))
        still = f.compare("eq", stride, 0)
        # A row of one element is contiguous whatever its stride.
        direct = f.either(f.compare("eq", stride, nest.item(f, "%job", k)), f.compare("eq", width, 1))
        other = f.choose(still, f.choose(has, nest.ONE, nest.FILL), nest.GATHER)
        kind = f.choose(direct, nest.DIRECT, other)
        f.store("i64", kind, f.element("i64", f.at("%job", JOB["kinds"]), k))
        buffered.set(f.either(buffered.get(), f.compare("sge", kind, nest.FILL)))
    segment = f.choose(buffered.get(), nest.BUFFER, SEGMENT)
    segments = f.udiv(f.add(width, f.sub(segment, 1)), segment)
    rows = f.cell("i64", 1)
    with f.loop(nest.word(f, "%job", "dims"), 1) as d:
        rows.set(f.mul(rows.get(), f.load("i64", _size(f, d))))
    f.put("i64", segment, "%job", JOB["segment"])
    f.put("i64", segments, "%job", JOB["segments"])
    f.put("i64", f.mul(rows.get(), segments), "%job", JOB["units"])
    f.put("i64", 1, "%job", JOB["grain"])
    f.put("ptr", "@run_nest", "%job", JOB["run"])


def _general(f: Function) -> None:
    count = nest.word(f, "%job", "operands")
    shape, strides, axes = (f.space("i64", MAX_DIMS) for _ in range(3))
    ndarray = f.field("ptr", "%env", ENV["ndarray"])
    nd = f.cell("i64", 0)
    with f.loop(MAX_DIMS) as d:
        f.store("i64", 1, _size(f, d))
    with f.loop(f.mul(count, MAX_DIMS)) as i:
        f.store("i64", 0, f.element("i64", f.at("%job", JOB["strides"]), i))
    with f.loop(count, 1) as k:
        thing = f.load("ptr", f.element("ptr", "%args", f.sub(k, 1)))
        with f.when(f.compare("eq", f.field("ptr", thing, TYPE), ndarray, "ptr")):
            own = f.v(f"sext i32 {f.field('i32', thing, NDIM)} to i64")
            flags = f.v(f"and i32 {f.field('i32', thing, FLAGS)}, {ALIGNED}")
            with f.when(f.either(f.compare("sgt", own, MAX_DIMS), f.compare("eq", flags, 0, "i32"))):
                f.ret("ptr", "null")
            nd.set(f.greatest(nd.get(), own))
            with f.unless(f.call("i1", "@spread", "ptr %job", f"i64 {k}", f"ptr {thing}", "i64 0")):
                f.ret("ptr", "null")
    dims = nd.get()
    total = f.cell("i64", 1)
    with f.loop(dims) as i:
        size = f.load("i64", _size(f, i))
        total.set(f.mul(total.get(), size))
        f.store("i64", size, f.element("i64", shape, f.sub(f.sub(dims, 1), i)))
    moved = f.call("i1", "@order", "ptr %job", f"i64 {dims}", f"i64 {count}", f"ptr {axes}")
    step = f.cell("i64", nest.item(f, "%job", "0"))
    with f.loop(dims) as i:
        axis = f.load("i64", f.element("i64", axes, i))
        f.store("i64", step.get(), _stride(f, "0", axis))
        f.store("i64", step.get(), f.element("i64", strides, f.sub(f.sub(dims, 1), axis)))
        step.set(f.mul(step.get(), f.load("i64", _size(f, axis))))
    given = f.choose(moved, strides, "null", "ptr")
    size = f.mul(total.get(), nest.item(f, "%job", "0"))
    result = f.call(
        "ptr", "@new", "ptr %env", "ptr %descr", f"i64 {dims}", f"ptr {shape}", f"ptr {given}", f"i64 {size}"
    )  # fmt: skip
    with f.when(f.compare("eq", result, "null", "ptr"), seldom=True):
        # The fallback meets the same lack of memory, and words it.
        f.call("void", f.field("ptr", "%env", ENV["error_clear"]))
        f.ret("ptr", "null")
    f.put("ptr", f.field("ptr", result, DATA), "%job", JOB["pointers"])
    with f.when(f.compare("eq", total.get(), 0)):
        f.ret("ptr", result)
    f.call("void", "@collapse", "ptr %job", f"i64 {dims}", f"i64 {count}", f"ptr {axes}")
    f.call("void", "@plan", "ptr %job")
    f.put("i64", f.v(f"lshr i64 {f.mul(total.get(), '%cost')}, 10"), "%job", JOB["cost"])
    f.call("void", "@launch", "ptr %env", "ptr %job")
    f.ret("ptr", result)


__all__ = ["SEGMENT", "define"]
