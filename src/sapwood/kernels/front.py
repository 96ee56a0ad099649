"""The native front of pointwise kernels: what a Python call goes through before the loop runs.

The front is the C function of every builtin (`METH_FASTCALL | METH_KEYWORDS`); what differs between kernels is read
from the table in the builtin's `self`. It looks at the arguments inside the array objects, makes the result, runs the
loop, and calls the fallback with the same arguments wherever something is unusual. Loops are compiled for one type at
its first use: where there are none yet, the front calls what compiles them.
"""

from __future__ import annotations

from . import nest
from .layout import (
    ALIGNED,
    BYTES_DATA,
    C_CONTIGUOUS,
    DATA,
    DESCR,
    DIMS,
    ENV,
    FLAGS,
    FLOAT_VALUE,
    JOB,
    JOB_BYTES,
    MAX_DIMS,
    MAX_OPERANDS,
    NDIM,
    STRIDES,
    TABLE,
    TUPLE_ITEMS,
    TUPLE_SIZE,
    TYPE,
    WRITEABLE,
)
from .memory import LARGE
from .threads import WORTH
from .writer import Function, Module, Value

MAX_ATTRS = 8
MAX_ARITY = MAX_OPERANDS - 1


def define(module: Module) -> None:
    """Define `front` and what it calls."""
    with module.function("i1", "number", "ptr %env", "ptr %object", "ptr %to", apart=True) as f:
        _number(f)
    with module.function("i1", "keywords", "ptr %table", "ptr %names", "i64 %given", apart=True) as f:
        _keywords(f)
    with module.function("i64", "elements", "ptr %array", internal=True) as f:
        total = f.cell("i64", 1)
        dims = f.field("ptr", "%array", DIMS)
        with f.loop(ndim(f, "%array")) as d:
            total.set(f.mul(total.get(), f.load("i64", f.element("i64", dims, d))))
        f.ret("i64", total.get())
    with module.function("i1", "alike", "ptr %a", "ptr %b", internal=True) as f:
        write_alike(f)
    define_new(module)
    with module.function("ptr", "into", "ptr %env", "ptr %job", "ptr %object", "ptr %like", "ptr %descr", "i64 %bytes",
                         apart=True) as f:  # fmt: skip
        _into(f)
    with module.function("ptr", "front", "ptr %self", "ptr %args", "i64 %given", "ptr %names", part="vector") as f:
        _front(f)


def define_new(module: Module) -> None:
    """Define `new`, which makes an array; the module must define `drop`."""
    with module.function("ptr", "new", "ptr %env", "ptr %descr", "i64 %nd", "ptr %dims", "ptr %strides", "i64 %bytes",
                         apart=True) as f:  # fmt: skip
        _new(f)


def define_drop(module: Module) -> None:
    """Define `drop`, which gives a reference to a handler of memory back."""
    with module.function("void", "drop", "ptr %object", internal=True) as f:
        # Handlers of memory live for ever, so a reference given back never is the last one.
        with f.unless(f.compare("eq", "%object", "null", "ptr")):
            incref(f, "%object", -1)


def ndim(f: Function, array: Value) -> Value:
    """Return how many dimensions an array has."""
    return f.v(f"sext i32 {f.field('i32', array, NDIM)} to i64")


def _number(f: Function) -> None:
    """Write a Python float or int as a double; answer false for anything else, and for ints a double cannot hold."""
    kind = f.field("ptr", "%object", TYPE)
    with f.when(f.compare("eq", kind, f.field("ptr", "%env", ENV["float"]), "ptr")):
        f.store("double", f.field("double", "%object", FLOAT_VALUE), "%to")
        f.ret("i1", "true")
    with f.when(f.compare("ne", kind, f.field("ptr", "%env", ENV["int"]), "ptr")):
        f.ret("i1", "false")
    value = f.call("double", f.field("ptr", "%env", ENV["as_double"]), "ptr %object")
    # -1 also says that the int is beyond a double and that OverflowError is set.
    with f.when(f.v(f"fcmp oeq double {value}, -1.0")):
        with f.unless(f.compare("eq", f.call("ptr", f.field("ptr", "%env", ENV["error"])), "null", "ptr")):
            f.call("void", f.field("ptr", "%env", ENV["error_clear"]))
            f.ret("i1", "false")
    small = f.v(f"fcmp olt double {f.call('double', '@llvm.fabs.f64', f'double {value}')}, {float(1 << 53)!r}")
    f.store("double", value, "%to")
    f.ret("i1", small)


def _keywords(f: Function) -> None:
    """Return whether keyword arguments came in the order of the parameters, by their interned names."""
    expected = f.field("ptr", "%table", TABLE["names"])
    count = f.field("i64", "%names", TUPLE_SIZE)
    with f.loop(count) as i:
        name = f.load("ptr", f.element("ptr", f.at("%names", TUPLE_ITEMS), i))
        wanted = f.load("ptr", f.element("ptr", expected, f.add("%given", i)))
        with f.when(f.compare("ne", name, wanted, "ptr")):
            f.ret("i1", "false")
    f.ret("i1", "true")


def write_alike(f: Function) -> None:
    """Write a function of two arrays, %a and %b: whether they have the same shape."""
    nd = ndim(f, "%a")
    with f.when(f.compare("ne", nd, ndim(f, "%b"))):
        f.ret("i1", "false")
    ours, theirs = f.field("ptr", "%a", DIMS), f.field("ptr", "%b", DIMS)
    with f.loop(nd) as d:
        differs = f.compare("ne", f.load("i64", f.element("i64", ours, d)), f.load("i64", f.element("i64", theirs, d)))
        with f.when(differs):
            f.ret("i1", "false")
    f.ret("i1", "true")


def incref(f: Function, thing: Value, by: int = 1) -> None:
    """Take one more reference to an object, or with -1 give one back that is not the last."""
    count = f.load("i64", thing)
    # From Python 3.12 on, objects that live for ever have counts whose low half is negative, and must keep them.
    mortal = f.compare("sge", f.v(f"trunc i64 {count} to i32"), 0, "i32")
    f.store("i64", f.add(count, f.choose(mortal, by, 0)), thing)


def _new(f: Function) -> None:
    """Make an array, a large one from kept memory; null if there is an error set."""
    incref(f, "%descr")
    make = f.field("ptr", "%env", ENV["new_array"])
    pool, swap = f.field("ptr", "%env", ENV["pool"]), f.field("ptr", "%env", ENV["set_handler"])
    nd = f.v("trunc i64 %nd to i32")
    kind = f.field("ptr", "%env", ENV["ndarray"])
    arguments = (f"ptr {kind}", "ptr %descr", f"i32 {nd}", "ptr %dims", "ptr %strides", "ptr null", "i32 0", "ptr null")
    pooled = f.both(f.compare("uge", "%bytes", LARGE), f.compare("ne", pool, "null", "ptr"))
    with f.when(pooled):
        before = f.call("ptr", swap, f"ptr {pool}")
        array = f.call("ptr", make, *arguments)
        for handler in (f.call("ptr", swap, f"ptr {before}"), before):
            f.call("void", "@drop", f"ptr {handler}")
        f.ret("ptr", array)
    f.ret("ptr", f.call("ptr", make, *arguments))


def _into(f: Function) -> None:
    """Return `out` with a reference if a loop may write to it, else null; the job knows the inputs."""
    with f.when(f.compare("ne", f.field("ptr", "%object", TYPE), f.field("ptr", "%env", ENV["ndarray"]), "ptr")):
        f.ret("ptr", "null")
    wanted = C_CONTIGUOUS | ALIGNED | WRITEABLE
    flags = f.v(f"and i32 {f.field('i32', '%object', FLAGS)}, {wanted}")
    fits = f.both(f.compare("eq", flags, wanted, "i32"), f.call("i1", "@alike", "ptr %object", "ptr %like"))
    fits = f.both(fits, f.compare("eq", f.field("ptr", "%object", DESCR), "%descr", "ptr"))
    with f.unless(fits):
        f.ret("ptr", "null")
    begin = f.field("i64", "%object", DATA)
    end = f.add(begin, "%bytes")
    outs, mask = nest.word(f, "%job", "outs"), nest.word(f, "%job", "mask")
    own = nest.item(f, "%job", "0")
    with f.loop(nest.word(f, "%job", "operands"), outs) as k:
        size = nest.item(f, "%job", k)
        one = f.v(f"trunc i64 {f.v(f'lshr i64 {mask}, {f.sub(k, outs)}')} to i1")
        first = f.load("i64", f.element("i64", f.at("%job", JOB["pointers"]), k))
        length = f.choose(one, size, f.mul(f.udiv("%bytes", own), size))
        apart = f.either(f.compare("ule", end, first), f.compare("ule", f.add(first, length), begin))
        # Element for element over an input is what in-place means.
        same = f.both(f.both(f.compare("eq", begin, first), f.compare("eq", size, own)), f.no(one))
        with f.unless(f.either(apart, same)):
            f.ret("ptr", "null")
    incref(f, "%object")
    f.ret("ptr", "%object")


def _front(f: Function) -> None:
    """Write the front of kernels with one output."""
    slow, late = "slow", "late"
    table = f.at("%self", BYTES_DATA)
    env = f.field("ptr", table, TABLE["env"])
    total = f.cell("i64", "%given")
    with f.when(f.compare("ne", "%names", "null", "ptr")):
        f.leave(f.no(f.call("i1", "@keywords", f"ptr {table}", "ptr %names", "i64 %given")), slow)
        total.set(f.add("%given", f.field("i64", "%names", TUPLE_SIZE)))
    count = total.get()
    arity = f.field("i64", table, TABLE["arity"])
    full = f.add(f.field("i64", table, TABLE["attrs"]), arity)
    f.leave(f.compare("slt", count, f.add(f.field("i64", table, TABLE["required"]), arity)), slow)
    f.leave(f.compare("sgt", count, f.add(full, 1)), slow)

    ndarray = f.field("ptr", env, ENV["ndarray"])
    first = f.load("ptr", "%args")
    f.leave(f.compare("ne", f.field("ptr", first, TYPE), ndarray, "ptr"), slow)
    descr = f.field("ptr", first, DESCR)
    double = f.compare("eq", descr, f.field("ptr", env, ENV["f64"]), "ptr")
    f.leave(f.no(f.either(double, f.compare("eq", descr, f.field("ptr", env, ENV["f32"]), "ptr"))), slow)
    n = f.call("i64", "@elements", f"ptr {first}")
    f.leave(f.compare("slt", n, f.field("i64", table, TABLE["least"])), slow)

    job, values = f.space("i64", JOB_BYTES // 8, align=16), f.space("double", MAX_OPERANDS)
    given, items = f.space("double", MAX_ATTRS), f.space("i64", MAX_OPERANDS)
    size = f.choose(double, 8, 4)
    f.store("i64", f.load("i64", f.at(table, f.choose(double, TABLE["out_item64"], TABLE["out_item32"]))), items)
    with f.loop(f.add(arity, 1), 1) as k:
        f.store("i64", size, f.element("i64", items, k))
    for name, value in (("operands", f.add(arity, 1)), ("outs", "1")):
        f.put("i64", value, job, JOB[name])
    f.put("ptr", items, job, JOB["items"])
    f.put("ptr", given, job, JOB["attrs"])
    loops = f.load("ptr", f.at(table, f.choose(double, TABLE["loops64"], TABLE["loops32"])))
    f.put("ptr", loops, job, JOB["loops"])
    f.leave(f.compare("eq", f.load("ptr", loops), "null", "ptr"), late)
    _attributes(f, table, env, count, arity, given, slow)
    mask, flat = _operands(f, env, first, descr, double, ndarray, arity, job, values, slow)
    f.put("i64", mask, job, JOB["mask"])
    result_descr = f.load("ptr", f.at(table, f.choose(double, TABLE["out_descr64"], TABLE["out_descr32"])))
    cost = f.field("i64", table, TABLE["cost"])
    with f.unless(flat):
        f.leave(f.compare("sgt", count, full), slow)
        made = f.call("ptr", "@general", f"ptr {env}", f"ptr {job}", "ptr %args", f"ptr {result_descr}", f"i64 {cost}")
        f.leave(f.compare("eq", made, "null", "ptr"), slow)
        f.ret("ptr", made)

    out_bytes = f.mul(n, f.load("i64", items))
    result = f.cell("ptr")
    with_out = f.compare("sgt", count, full)
    with f.when(with_out):
        out = f.load("ptr", f.element("ptr", "%args", full))
        result.set(f.call("ptr", "@into", f"ptr {env}", f"ptr {job}", f"ptr {out}", f"ptr {first}",
                          f"ptr {result_descr}", f"i64 {out_bytes}"))  # fmt: skip
        f.leave(f.compare("eq", result.get(), "null", "ptr"), slow)
    with f.unless(with_out):
        dims = f.field("ptr", first, DIMS)
        result.set(f.call("ptr", "@new", f"ptr {env}", f"ptr {result_descr}", f"i64 {ndim(f, first)}", f"ptr {dims}",
                          "ptr null", f"i64 {out_bytes}"))  # fmt: skip
        with f.when(f.compare("eq", result.get(), "null", "ptr"), seldom=True):
            f.ret("ptr", "null")
    f.put("ptr", f.field("ptr", result.get(), DATA), job, JOB["pointers"])
    whole = f.v(f"lshr i64 {f.mul(n, cost)}, 10")
    loop = f.load("ptr", f.element("ptr", loops, mask))
    quick = f.both(f.compare("slt", whole, WORTH), f.compare("ne", loop, "null", "ptr"))
    with f.when(quick):
        f.call("void", loop, f"i64 {n}", f"ptr {f.at(job, JOB['pointers'])}", f"ptr {given}")
    with f.unless(quick):
        f.put("i64", n, job, JOB["units"])
        f.put("i64", 64, job, JOB["grain"])
        f.put("ptr", "@run_flat", job, JOB["run"])
        f.put("i64", whole, job, JOB["cost"])
        f.call("void", "@launch", f"ptr {env}", f"ptr {job}")
    f.ret("ptr", result.get())

    for label, instead in ((slow, "fallback"), (late, "late")):
        f.start(label)
        called, call = f.field("ptr", table, TABLE[instead]), f.field("ptr", env, ENV["vectorcall"])
        f.ret("ptr", f.call("ptr", call, f"ptr {called}", "ptr %args", "i64 %given", "ptr %names"))


def _attributes(f: Function, table: Value, env: Value, count: Value, arity: Value, given: Value, slow: str) -> None:
    """Read the attributes as doubles; one with an expected object must be that object."""
    attrs = f.field("i64", table, TABLE["attrs"])
    some = f.compare("ne", attrs, 0)
    with f.when(some):
        expected, defaults = f.field("ptr", table, TABLE["expected"]), f.field("ptr", table, TABLE["defaults"])
        with f.loop(attrs) as j:
            place = f.element("double", given, j)
            f.store("double", f.load("double", f.element("double", defaults, j)), place)
            position = f.add(j, arity)
            with f.when(f.compare("slt", position, count)):
                thing = f.load("ptr", f.element("ptr", "%args", position))
                wanted = f.load("ptr", f.element("ptr", expected, j))
                number = f.compare("eq", wanted, "null", "ptr")
                with f.unless(number):
                    f.leave(f.compare("ne", thing, wanted, "ptr"), slow)
                with f.when(number):
                    f.leave(f.no(f.call("i1", "@number", f"ptr {env}", f"ptr {thing}", f"ptr {place}")), slow)


def _operands(
    f: Function,
    env: Value,
    first: Value,
    descr: Value,
    double: Value,
    ndarray: Value,
    arity: Value,
    job: Value,
    values: Value,
    slow: str,
) -> tuple[Value, Value]:
    """Store where each operand is; return the mask of one-element operands, and whether the others are alike, flat."""
    wanted = C_CONTIGUOUS | ALIGNED
    flags = f.v(f"and i32 {f.field('i32', first, FLAGS)}, {wanted}")
    flat = f.cell("i1", f.compare("eq", flags, wanted, "i32"))
    mask = f.cell("i64", 0)
    f.put("ptr", f.field("ptr", first, DATA), job, JOB["pointers"] + 8)
    with f.loop(arity, 1) as k:
        thing = f.load("ptr", f.element("ptr", "%args", k))
        place = f.element("ptr", f.at(job, JOB["pointers"] + 8), k)
        bit = f.v(f"shl i64 1, {k}")
        is_array = f.compare("eq", f.field("ptr", thing, TYPE), ndarray, "ptr")
        with f.when(is_array):
            f.leave(f.compare("ne", f.field("ptr", thing, DESCR), descr, "ptr"), slow)
            f.store("ptr", f.field("ptr", thing, DATA), place)
            flags = f.v(f"and i32 {f.field('i32', thing, FLAGS)}, {wanted}")
            same = f.both(f.compare("eq", flags, wanted, "i32"), f.call("i1", "@alike", f"ptr {thing}", f"ptr {first}"))
            with f.unless(same):
                aligned = f.compare("ne", f.v(f"and i32 {flags}, {ALIGNED}"), 0, "i32")
                one = f.both(aligned, f.compare("eq", f.call("i64", "@elements", f"ptr {thing}"), 1))
                one = f.both(one, f.compare("sle", ndim(f, thing), ndim(f, first)))
                mask.set(f.v(f"or i64 {mask.get()}, {f.choose(one, bit, 0)}"))
                flat.set(f.both(flat.get(), one))
        with f.unless(is_array):
            value = f.element("double", values, k)
            f.leave(f.no(f.call("i1", "@number", f"ptr {env}", f"ptr {thing}", f"ptr {value}")), slow)
            given = f.load("double", value)
            single = f.v(f"fptrunc double {given} to float")
            # A finite number that float32 cannot hold is the fallback's to judge.
            size, rounded = "@llvm.fabs.f64", f.v(f"fpext float {single} to double")
            lost = f.both(
                f.v(f"fcmp oeq double {f.call('double', size, f'double {rounded}')}, 0x7FF0000000000000"),
                f.v(f"fcmp one double {f.call('double', size, f'double {given}')}, 0x7FF0000000000000"),
            )
            with f.unless(double):
                f.leave(lost, slow)
                f.store("float", single, value)
            f.store("ptr", value, place)
            mask.set(f.v(f"or i64 {mask.get()}, {bit}"))
    return mask.get(), flat.get()


__all__ = ["MAX_ARITY", "MAX_ATTRS", "MAX_DIMS", "STRIDES", "define", "incref", "ndim", "write_alike"]
