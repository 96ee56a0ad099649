"""Native calls of pointwise ops: arguments, kernel, Tensor and node in one C function.

It does what the printed flat wrapper does, for the case that wrapper is printed for: one or two operands, attributes at
their defaults, a plain mode word. Everything else, and everything that fails, goes to the Python wrapper with the same
arguments.
"""

from __future__ import annotations

from ..kernels.layout import C_CONTIGUOUS, DESCR, DIMS, F_CONTIGUOUS, FLAGS, NDIM, TYPE, fields
from ..kernels.writer import Function, Module, Value
from .objects import at, drop, forgive, give, hold, item, same, slot

OP = fields(
    "call", "world", "fallback", "front", "kernel", "arity", "node", "able", "keeps", "plan", "scalars",
)  # fmt: skip
"""What the call needs to know about its op: `able` has a bit per differentiable input, `plan` a KEEP per kept value."""
KEEP = fields("kind", "object", "users", "other")
"""One kept value: what it is, the object if it is a constant, and a bit per input whose gradient needs it (0: all).

An order is the object, or `other` if the input is contiguous by columns alone."""
OUT, CONSTANT, ORDER = 2, 3, 4
"""Kinds of kept values; smaller ones are the number of an input, and larger ones the order of one."""
STUBS = 16
"""Methods that can be bound to native calls."""
TABLES = f"@method_tables = internal global [{STUBS} x ptr] zeroinitializer\n"


def define(module: Module) -> None:
    """Define `call_op(table, args, n, names)` and the stubs of methods."""
    with module.function("ptr", "shape_of", "ptr %world", "ptr %array", apart=True) as f:
        _shape_of(f)
    with module.function(
        "ptr", "call_in", "ptr %world", "ptr %op", "ptr %args", "i64 %n", "ptr %names", internal=True
    ) as f:
        _call(f)
    with module.function("ptr", "call_op", "ptr %op", "ptr %args", "i64 %n", "ptr %names") as f:
        world = f.field("ptr", "%op", OP["world"])
        f.ret("ptr", f.call("ptr", "@call_in", f"ptr {world}", "ptr %op", "ptr %args", "i64 %n", "ptr %names"))
    with module.function("ptr", "builtin_op", "ptr %self", "ptr %args", "i64 %n", "ptr %names") as f:
        table = f.field("ptr", "%self", BUILTIN_TABLE)
        f.ret("ptr", f.call("ptr", "@call_op", f"ptr {table}", "ptr %args", "i64 %n", "ptr %names"))


BUILTIN_TABLE = bytes.__basicsize__ - 1
"""A builtin's `self` is a bytes object that holds the address of the table."""


def define_stubs(module: Module) -> None:
    """Define `stub0` …: C functions of method descriptors, each for one table, whose address is put into `tables()`."""
    with module.function("ptr", "tables") as f:
        f.ret("ptr", "@method_tables")
    for k in range(STUBS):
        with module.function("ptr", f"stub{k}", "ptr %self", "ptr %args", "i64 %n", "ptr %names") as f:
            table = f.load("ptr", f.element("ptr", "@method_tables", k))
            arguments = f.space("ptr", 8)
            f.store("ptr", "%self", arguments)
            few = f.compare("sle", "%n", 6)
            with f.when(few):
                with f.loop("%n") as i:
                    f.store(
                        "ptr", f.load("ptr", f.element("ptr", "%args", i)), f.element("ptr", arguments, f.add(i, 1))
                    )
                f.ret(
                    "ptr",
                    f.call(
                        "ptr",
                        f.load("ptr", table),
                        f"ptr {table}",
                        f"ptr {arguments}",
                        f"i64 {f.add('%n', 1)}",
                        "ptr %names",
                    ),
                )
            f.ret("ptr", "null")


def _shape_of(f: Function) -> None:
    """Return an array's shape as a tuple."""
    nd = f.v(f"sext i32 {f.field('i32', '%array', NDIM)} to i64")
    dims = f.field("ptr", "%array", DIMS)
    made = f.call("ptr", at(f, "tuple"), f"i64 {nd}")
    with f.when(same(f, made, "null"), seldom=True):
        f.ret("ptr", "null")
    with f.loop(nd) as i:
        size = f.load("i64", f.element("i64", dims, i))
        f.store("ptr", f.call("ptr", at(f, "from_long"), f"i64 {size}"), item(f, made, i))
    f.ret("ptr", made)


def _call(f: Function) -> None:
    slow = "slow"
    arity = f.field("i64", "%op", OP["arity"])
    f.leave(f.compare("ne", "%n", arity), slow)
    f.leave(f.compare("ne", "%names", "null", "ptr"), slow)
    arrays, nodes = f.space("ptr", 2), f.space("ptr", 2)
    tensor, parameter = at(f, "tensor"), at(f, "parameter")
    first = f.load("ptr", "%args")
    kind = f.field("ptr", first, TYPE)
    f.leave(f.no(f.either(same(f, kind, tensor), same(f, kind, parameter))), slow)
    array = slot(f, first, "tensor_array")
    f.leave(f.compare("ne", f.field("ptr", array, TYPE), at(f, "ndarray"), "ptr"), slow)
    descr = f.field("ptr", array, DESCR)
    f.leave(f.no(f.either(same(f, descr, at(f, "f32")), same(f, descr, at(f, "f64")))), slow)
    f.store("ptr", array, arrays)
    able = f.field("i64", "%op", OP["able"])
    none = at(f, "none")
    _take_node(f, first, nodes, able, 0, none)
    f.store("ptr", none, f.element("ptr", nodes, 1))
    with f.when(f.compare("eq", arity, 2)):
        second = f.load("ptr", f.element("ptr", "%args", 1))
        kind2 = f.field("ptr", second, TYPE)
        is_tensor = f.either(same(f, kind2, tensor), same(f, kind2, parameter))
        with f.when(is_tensor):
            other = slot(f, second, "tensor_array")
            f.leave(f.compare("ne", f.field("ptr", other, TYPE), at(f, "ndarray"), "ptr"), slow)
            f.leave(f.compare("ne", f.field("ptr", other, DESCR), descr, "ptr"), slow)
            f.store("ptr", other, f.element("ptr", arrays, 1))
            _take_node(f, second, f.element("ptr", nodes, 1), able, 1, none)
        with f.unless(is_tensor):
            number = f.either(same(f, kind2, at(f, "float")), same(f, kind2, at(f, "int")))
            f.leave(f.no(f.both(number, f.compare("ne", f.field("i64", "%op", OP["scalars"]), 0))), slow)
            f.store("ptr", second, f.element("ptr", arrays, 1))
    # The mode word: 0 or 1, two of the interpreter's small integers.
    box = f.space("ptr", 1)
    status = f.call("i32", at(f, "get_context"), f"ptr {at(f, 'mode')}", "ptr null", f"ptr {box}")
    f.leave(f.compare("ne", status, 0, "i32"), slow)
    word = f.load("ptr", box)
    drop(f, word)
    records = same(f, word, at(f, "one"))
    f.leave(f.no(f.either(records, same(f, word, at(f, "zero")))), slow)

    front, kernel = (f.field("ptr", "%op", OP[name]) for name in ("front", "kernel"))
    result = f.call("ptr", front, f"ptr {kernel}", f"ptr {arrays}", f"i64 {arity}", "ptr null")
    with f.when(same(f, result, "null"), seldom=True):
        # What NumPy refuses, the Python wrapper explains.
        forgive(f, "explained")
        with f.unless(same(f, f.call("ptr", at(f, "error")), "null")):
            f.ret("ptr", "null")
        f.go(slow)
    with f.when(f.compare("ne", f.field("ptr", result, TYPE), at(f, "ndarray"), "ptr"), seldom=True):
        drop(f, result)
        f.go(slow)
    made = f.call("ptr", at(f, "alloc"), f"ptr {tensor}", "i64 0")
    with f.when(same(f, made, "null"), seldom=True):
        drop(f, result)
        f.ret("ptr", "null")
    give(f, result, made, "tensor_array")
    a, b = f.load("ptr", nodes), f.load("ptr", f.element("ptr", nodes, 1))
    wanted = f.no(f.both(same(f, a, none), same(f, b, none)))
    node_type = f.field("ptr", "%op", OP["node"])
    with f.when(f.both(f.both(records, wanted), f.compare("ne", node_type, "null", "ptr"))):
        node = _record(f, node_type, arrays, nodes, result, arity, none)
        with f.when(same(f, node, "null"), seldom=True):
            drop(f, made)
            f.ret("ptr", "null")
        give(f, node, made, "tensor_node")
        f.ret("ptr", made)
    give(f, hold(f, none), made, "tensor_node")
    f.ret("ptr", made)

    f.start(slow)
    f.ret(
        "ptr",
        f.call(
            "ptr",
            at(f, "vectorcall"),
            f"ptr {f.field('ptr', '%op', OP['fallback'])}",
            "ptr %args",
            "i64 %n",
            "ptr %names",
        ),
    )


def _take_node(f: Function, tensor: Value, to: Value, able: Value, i: int, none: Value) -> None:
    """Store the edge to a tensor: its node, itself if it is a leaf, None where no gradient can go."""
    node = slot(f, tensor, "tensor_node")
    edge = f.choose(same(f, node, at(f, "leaf")), tensor, node, "ptr")
    bit = f.compare("ne", f.v(f"and i64 {able}, {1 << i}"), 0)
    f.store("ptr", f.choose(bit, edge, none, "ptr"), to)


def _record(f: Function, kind: Value, arrays: Value, nodes: Value, result: Value, arity: Value, none: Value) -> Value:
    """Return a new node of the call, or null."""
    node = f.call("ptr", at(f, "alloc"), f"ptr {kind}", "i64 0")
    edges = f.call("ptr", at(f, "tuple"), f"i64 {arity}")
    count = f.field("i64", "%op", OP["keeps"])
    saved = f.call("ptr", at(f, "tuple"), f"i64 {count}")
    shape = f.call("ptr", "@shape_of", "ptr %world", f"ptr {result}")
    number = f.call("ptr", at(f, "iter_next"), f"ptr {at(f, 'counter')}")
    failed = same(f, node, "null")
    for x in (edges, saved, shape, number):
        failed = f.either(failed, same(f, x, "null"))
    # Out of memory: what was made is lost.
    with f.when(failed, seldom=True):
        f.ret("ptr", "null")
    wanted = f.cell("i64", 0)
    with f.loop(arity) as i:
        edge = f.load("ptr", f.element("ptr", nodes, i))
        f.store("ptr", hold(f, edge), item(f, edges, i))
        bit = f.v(f"shl i64 1, {i}")
        wanted.set(f.v(f"or i64 {wanted.get()}, {f.choose(same(f, edge, none), 0, bit)}"))
    plan = f.field("ptr", "%op", OP["plan"])
    with f.loop(count) as k:
        entry = f.at(plan, f.mul(k, 8 * len(KEEP)))
        what, users = f.field("i64", entry, KEEP["kind"]), f.field("i64", entry, KEEP["users"])
        value = f.cell("ptr", none)
        idle = f.both(f.compare("ne", users, 0), f.compare("eq", f.v(f"and i64 {users}, {wanted.get()}"), 0))
        with f.unless(idle):
            with f.when(f.compare("slt", what, OUT)):
                value.set(f.load("ptr", f.element("ptr", arrays, what)))
            with f.when(f.compare("eq", what, OUT)):
                value.set(result)
            with f.when(f.compare("eq", what, CONSTANT)):
                value.set(f.field("ptr", entry, KEEP["object"]))
            with f.when(f.compare("sge", what, ORDER)):
                array = f.load("ptr", f.element("ptr", arrays, f.sub(what, ORDER)))
                order = f.v(f"and i32 {f.field('i32', array, FLAGS)}, {C_CONTIGUOUS | F_CONTIGUOUS}")
                turned = f.compare("eq", order, F_CONTIGUOUS, "i32")
                straight, columns = (f.field("ptr", entry, KEEP[n]) for n in ("object", "other"))
                value.set(f.choose(turned, columns, straight, "ptr"))
        f.store("ptr", hold(f, value.get()), item(f, saved, k))
    give(f, edges, node, "node_edges")
    give(f, saved, node, "node_saved")
    give(f, shape, node, "node_shape")
    give(f, hold(f, f.field("ptr", result, DESCR)), node, "node_dtype")
    give(f, hold(f, none), node, "node_extra")
    give(f, number, node, "node_seq")
    f.call("void", "@note_line", "ptr %world", f"ptr {node}")
    return node


__all__ = ["CONSTANT", "KEEP", "OP", "ORDER", "OUT", "STUBS", "define", "define_stubs"]
