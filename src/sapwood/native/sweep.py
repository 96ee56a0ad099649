"""The engine's loop in native code: it takes nodes as long as nothing about them is unusual.

`sweep(waiting, heap, summed, freed, written)` works on the dictionaries and the heap of `autograd.engine.run`, and
returns the first node that it leaves to Python (its gradient still waits), or None when no node is left. What it does
not know: hooks, values written over since they were saved, complex numbers, several outputs, custom functions,
undefined gradients. A node whose formulas raise what only asks for another way is given back untouched; any other
exception leaves the loop at once, with the gradient of its node still waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..kernels.front import ndim, write_alike
from ..kernels.layout import DESCR, DIMS, TUPLE_SIZE, TYPE
from ..kernels.writer import Cell, Function, Module, Value
from .objects import at, drop, forgive, give, hold, item, place, same, slot

KINDS = 256
"""Entries of the table that knows types: a direct map by address."""
OWN, LEAF, OUTPUT, OTHER = 1, 2, 3, 4
"""What a type is: a node with formulas, a Tensor, one of several outputs, something else."""
ENTRY = 32
"""Bytes of an entry: the type, what it is, its formulas, whether it saves anything."""
GLOBALS = f"@kinds = internal global [{KINDS * ENTRY // 8} x i64] zeroinitializer\n"


def define(module: Module) -> None:
    """Define `sweep`, a C function of a builtin whose `self` holds the address of the world."""
    with module.function("ptr", "kind_of", "ptr %world", "ptr %thing", internal=True) as f:
        _kind_of(f)
    with module.function("ptr", "learn", "ptr %world", "ptr %thing", "ptr %row", apart=True) as f:
        _learn(f)
    with module.function("i1", "is_shape", "ptr %world", "ptr %array", "ptr %shape", internal=True) as f:
        _is_shape(f)
    with module.function("i1", "alike", "ptr %a", "ptr %b", internal=True) as f:
        write_alike(f)
    with module.function("i1", "push", "ptr %world", "ptr %heap", "ptr %node", "i64 %seq", apart=True) as f:
        _push(f)
    with module.function("ptr", "pop", "ptr %world", "ptr %heap", apart=True) as f:
        _pop(f)
    with module.function("i64", "number_of", "ptr %world", "ptr %node", "ptr %row", internal=True) as f:
        _number_of(f)
    with module.function("i1", "fits", "ptr %world", "ptr %grad", "ptr %edge", "ptr %row", internal=True) as f:
        _fits(f)
    with module.function(
        "i1", "send", "ptr %world", "ptr %args", "ptr %edge", "ptr %row", "ptr %grad", "ptr %ahead", apart=True
    ) as f:
        _send(f)
    with module.function("i1", "step", "ptr %world", "ptr %args", "ptr %node", "ptr %ahead", "i64 %written",
                         apart=True) as f:  # fmt: skip
        _step(f)
    with module.function("ptr", "sweep_in", "ptr %world", "ptr %args", internal=True) as f:
        _sweep(f)
    with module.function("ptr", "sweep", "ptr %self", "ptr %args", "i64 %n", "ptr %names") as f:
        world = f.field("ptr", "%self", bytes.__basicsize__ - 1)
        f.ret("ptr", f.call("ptr", "@sweep_in", f"ptr {world}", "ptr %args"))


def _argument(f: Function, i: int) -> Value:
    """Return an argument: waiting, heap, summed, freed, written."""
    return f.load("ptr", f.element("ptr", "%args", i))


def _kind_of(f: Function) -> None:
    """Return the entry of a thing's type."""
    kind = f.field("ptr", "%thing", TYPE)
    address = f.v(f"ptrtoint ptr {kind} to i64")
    mixed = f.v(f"xor i64 {f.v(f'lshr i64 {address}, 4')}, {f.v(f'lshr i64 {address}, 12')}")
    entry = f.at("@kinds", f.mul(f.v(f"and i64 {mixed}, {KINDS - 1}"), ENTRY))
    with f.when(same(f, f.load("ptr", entry), kind)):
        f.ret("ptr", entry)
    f.ret("ptr", f.call("ptr", "@learn", "ptr %world", "ptr %thing", f"ptr {entry}"))


def _learn(f: Function) -> None:
    """Fill an entry for a thing's type, which then lives as long as the entry."""
    kind = f.field("ptr", "%thing", TYPE)
    old = f.load("ptr", "%row")
    with f.unless(same(f, old, "null")):
        f.store("ptr", "null", "%row")
        drop(f, old)
        before = f.field("ptr", "%row", 16)
        with f.unless(same(f, before, "null")):
            f.put("ptr", "null", "%row", 16)
            drop(f, before)
    what, pull, saves = f.cell("i64", OTHER), f.cell("ptr", "null"), f.cell("i64", 0)
    is_leaf = f.call("i32", at(f, "is_instance"), "ptr %thing", f"ptr {at(f, 'tensor')}")
    with f.when(f.compare("sgt", is_leaf, 0, "i32")):
        what.set(LEAF)
    with f.unless(f.compare("sgt", is_leaf, 0, "i32")):
        found = f.call("ptr", at(f, "getattr"), "ptr %thing", f"ptr {at(f, 'word_pull')}")
        with f.when(same(f, found, "null")):
            f.call("void", at(f, "clear"))
        with f.unless(same(f, found, "null")):
            usual = f.no(same(f, found, at(f, "unusual")))
            with f.when(usual):
                pull.set(hold(f, found))
                what.set(OWN)
                answer = f.call("ptr", at(f, "getattr"), "ptr %thing", f"ptr {at(f, 'word_saves')}")
                with f.when(same(f, answer, "null")):
                    f.call("void", at(f, "clear"))
                with f.unless(same(f, answer, "null")):
                    saves.set(f.choose(same(f, answer, at(f, "true")), 1, 0))
                    drop(f, answer)
            drop(f, found)
        with f.when(same(f, kind, at(f, "output_type"))):
            what.set(OUTPUT)
    f.store("ptr", hold(f, kind), "%row")
    f.put("i64", what.get(), "%row", 8)
    f.put("ptr", pull.get(), "%row", 16)
    f.put("i64", saves.get(), "%row", 24)
    f.ret("ptr", "%row")


def _is_shape(f: Function) -> None:
    """Return whether an array has the shape of a tuple."""
    nd = ndim(f, "%array")
    with f.when(f.compare("ne", f.field("ptr", "%shape", TYPE), at(f, "tuple_type"), "ptr")):
        f.ret("i1", "false")
    with f.when(f.compare("ne", nd, f.field("i64", "%shape", TUPLE_SIZE))):
        f.ret("i1", "false")
    dims = f.field("ptr", "%array", DIMS)
    with f.loop(nd) as i:
        size = f.call("i64", at(f, "as_long"), f"ptr {f.load('ptr', item(f, '%shape', i))}")
        with f.when(f.compare("ne", size, f.load("i64", f.element("i64", dims, i)))):
            f.ret("i1", "false")
    f.ret("i1", "true")


def _number_of(f: Function) -> None:
    """Return the sequence number of a node or an output."""
    output = f.compare("eq", f.field("i64", "%row", 8), OUTPUT)
    where = f.choose(output, place(f, "output_seq"), place(f, "node_seq"))
    f.ret("i64", f.call("i64", at(f, "as_long"), f"ptr {f.load('ptr', f.at('%node', where))}"))


def _push(f: Function) -> None:
    """Put (-seq, node) into the heap."""
    pair = f.call("ptr", at(f, "tuple"), "i64 2")
    with f.when(same(f, pair, "null"), seldom=True):
        f.ret("i1", "false")
    f.store("ptr", f.call("ptr", at(f, "from_long"), f"i64 {f.sub(0, '%seq')}"), item(f, pair, 0))
    f.store("ptr", hold(f, "%node"), item(f, pair, 1))
    arguments = f.space("ptr", 2)
    f.store("ptr", "%heap", arguments)
    f.store("ptr", pair, f.element("ptr", arguments, 1))
    done = f.call("ptr", at(f, "vectorcall"), f"ptr {at(f, 'heappush')}", f"ptr {arguments}", "i64 2", "ptr null")
    drop(f, pair)
    with f.when(same(f, done, "null"), seldom=True):
        f.ret("i1", "false")
    drop(f, done)
    f.ret("i1", "true")


def _pop(f: Function) -> None:
    """Take the node with the highest number from the heap."""
    arguments = f.space("ptr", 1)
    f.store("ptr", "%heap", arguments)
    pair = f.call("ptr", at(f, "vectorcall"), f"ptr {at(f, 'heappop')}", f"ptr {arguments}", "i64 1", "ptr null")
    with f.when(same(f, pair, "null"), seldom=True):
        f.ret("ptr", "null")
    node = hold(f, f.load("ptr", item(f, pair, 1)))
    drop(f, pair)
    f.ret("ptr", node)


def _fits(f: Function) -> None:
    """Return whether a gradient has the shape and dtype of the place it goes to."""
    what = f.field("i64", "%row", 8)
    with f.when(f.compare("eq", what, LEAF)):
        array = slot(f, "%edge", "tensor_array")
        same_type = same(f, f.field("ptr", array, DESCR), f.field("ptr", "%grad", DESCR))
        f.ret("i1", f.both(same_type, f.call("i1", "@alike", "ptr %grad", f"ptr {array}")))
    output = f.compare("eq", what, OUTPUT)
    where = f.choose(output, place(f, "output_dtype"), place(f, "node_dtype"))
    descr = f.load("ptr", f.at("%edge", where))
    with f.when(f.compare("ne", descr, f.field("ptr", "%grad", DESCR), "ptr")):
        f.ret("i1", "false")
    where = f.choose(output, place(f, "output_shape"), place(f, "node_shape"))
    f.ret("i1", f.call("i1", "@is_shape", "ptr %world", "ptr %grad", f"ptr {f.load('ptr', f.at('%edge', where))}"))


def _send(f: Function) -> None:
    """Add a fitting gradient to what waits at an edge; answer false if there is an error set."""
    waiting, heap, summed = (_argument(f, i) for i in range(3))
    total = f.call("ptr", at(f, "dict_get"), f"ptr {waiting}", "ptr %edge")
    with f.when(same(f, total, "null")):
        status = f.call("i32", at(f, "dict_set"), f"ptr {waiting}", "ptr %edge", "ptr %grad")
        with f.when(f.compare("ne", status, 0, "i32"), seldom=True):
            f.ret("i1", "false")
        with f.when(f.compare("eq", f.field("i64", "%row", 8), LEAF)):
            f.ret("i1", "true")
        lone = f.load("ptr", "%ahead")
        empty = f.compare("eq", f.call("i64", at(f, "list_size"), f"ptr {heap}"), 0)
        with f.when(f.both(empty, same(f, lone, "null"))):
            f.store("ptr", hold(f, "%edge"), "%ahead")
            f.ret("i1", "true")
        number = f.call("i64", "@number_of", "ptr %world", "ptr %edge", "ptr %row")
        pushed = f.call("i1", "@push", "ptr %world", f"ptr {heap}", "ptr %edge", f"i64 {number}")
        with f.when(same(f, lone, "null")):
            f.ret("i1", pushed)
        f.store("ptr", "null", "%ahead")
        entry = f.call("ptr", "@kind_of", "ptr %world", f"ptr {lone}")
        number = f.call("i64", "@number_of", "ptr %world", f"ptr {lone}", f"ptr {entry}")
        again = f.call("i1", "@push", "ptr %world", f"ptr {heap}", f"ptr {lone}", f"i64 {number}")
        drop(f, lone)
        f.ret("i1", f.both(pushed, again))
    ours = f.call("ptr", at(f, "dict_get"), f"ptr {summed}", "ptr %edge")
    arguments = f.space("ptr", 3)
    f.store("ptr", total, arguments)
    f.store("ptr", "%grad", f.element("ptr", arguments, 1))
    f.store("ptr", total, f.element("ptr", arguments, 2))
    count = f.choose(same(f, ours, "null"), 2, 3)
    made = f.call("ptr", at(f, "front"), f"ptr {at(f, 'add_self')}", f"ptr {arguments}", f"i64 {count}", "ptr null")
    with f.when(same(f, made, "null"), seldom=True):
        f.ret("i1", "false")
    with f.when(same(f, ours, "null")):
        status = f.call("i32", at(f, "dict_set"), f"ptr {waiting}", "ptr %edge", f"ptr {made}")
        with f.when(f.compare("ne", status, 0, "i32"), seldom=True):
            drop(f, made)
            f.ret("i1", "false")
        # A 0-d sum may be a scalar, which cannot be added to in place.
        with f.when(same(f, f.field("ptr", made, TYPE), at(f, "ndarray"))):
            status = f.call("i32", at(f, "dict_set"), f"ptr {summed}", "ptr %edge", f"ptr {at(f, 'true')}")
            with f.when(f.compare("ne", status, 0, "i32"), seldom=True):
                drop(f, made)
                f.ret("i1", "false")
    drop(f, made)
    f.ret("i1", "true")


def _step(f: Function) -> None:
    """Run one node; answer false, with everything as it was, if it has to be left to Python."""
    no = "no"
    entry = f.call("ptr", "@kind_of", "ptr %world", "ptr %node")
    f.leave(f.compare("ne", f.field("i64", entry, 8), OWN), no)
    f.leave(f.no(same(f, slot(f, "%node", "node_extra"), at(f, "none"))), no)
    saved, dtype = slot(f, "%node", "node_saved"), slot(f, "%node", "node_dtype")
    tuple_type = at(f, "tuple_type")
    f.leave(f.no(same(f, f.field("ptr", saved, TYPE), tuple_type)), no)
    for unfit in (same(f, dtype, at(f, "c64")), same(f, dtype, at(f, "c128"))):
        f.leave(unfit, no)
    f.leave(same(f, f.field("ptr", dtype, TYPE), tuple_type), no)
    number = f.call("i64", "@number_of", "ptr %world", "ptr %node", f"ptr {entry}")
    f.leave(f.compare("slt", number, "%written"), no)
    waiting = _argument(f, 0)
    grad = f.call("ptr", at(f, "dict_get"), f"ptr {waiting}", "ptr %node")
    f.leave(same(f, grad, "null"), no)
    f.leave(same(f, grad, at(f, "none")), no)
    arguments = f.space("ptr", 3)
    edges = slot(f, "%node", "node_edges")
    for i, x in enumerate((grad, saved, edges)):
        f.store("ptr", x, f.element("ptr", arguments, i))
    for x in (grad, saved, edges):
        hold(f, x)
    # Read now: the types of the edges may need the same row of the table.
    pull, saves = f.field("ptr", entry, 16), f.field("i64", entry, 24)
    grads = f.call("ptr", at(f, "vectorcall"), f"ptr {pull}", f"ptr {arguments}", "i64 3", "ptr null")
    failed = f.cell("i1", "false")
    with f.when(same(f, grads, "null"), seldom=True):
        forgive(f, "redone")
        failed.set("true")
    with f.unless(same(f, grads, "null")):
        with _judged(f, grads, edges, failed):
            # The node is done: nothing it could still do needs what it saved, and its gradient has been used.
            freed = _argument(f, 3)
            with f.when(f.both(f.compare("ne", saves, 0), f.no(same(f, freed, at(f, "none"))))):
                give(f, hold(f, freed), "%node", "node_saved")
                drop(f, saved)
            f.call("i32", at(f, "dict_del"), f"ptr {waiting}", "ptr %node")
            _spread(f, grads, edges, failed)
        drop(f, grads)
    for x in (grad, saved, edges):
        drop(f, x)
    f.ret("i1", f.no(failed.get()))
    f.start(no)
    f.ret("i1", "false")


@contextmanager
def _judged(f: Function, grads: Value, edges: Value, failed: Cell) -> Iterator[None]:
    """Run the block if every gradient is an array that fits its edge, or is made to fit; else note a failure."""
    fine = f.cell("i1", "true")
    count = f.cell("i64", 0)
    is_tuple = same(f, f.field("ptr", grads, TYPE), at(f, "tuple_type"))
    with f.unless(is_tuple):
        fine.set("false")
    with f.when(is_tuple):
        count.set(f.field("i64", edges, TUPLE_SIZE))
        with f.when(f.compare("ne", count.get(), f.field("i64", grads, TUPLE_SIZE))):
            fine.set("false")
            count.set("0")
    with f.loop(count.get()) as i:
        edge, g = f.load("ptr", item(f, edges, i)), f.load("ptr", item(f, grads, i))
        none = at(f, "none")
        with f.unless(same(f, edge, none)):
            array = same(f, f.field("ptr", g, TYPE), at(f, "ndarray"))
            with f.unless(array):
                fine.set("false")
            with f.when(array):
                entry = f.call("ptr", "@kind_of", "ptr %world", f"ptr {edge}")
                fits = f.call("i1", "@fits", "ptr %world", f"ptr {g}", f"ptr {edge}", f"ptr {entry}")
                with f.unless(fits):
                    arguments = f.space("ptr", 3)
                    for k, x in enumerate((g, edge, "%node")):
                        f.store("ptr", x, f.element("ptr", arguments, k))
                    repaired = f.call(
                        "ptr", at(f, "vectorcall"), f"ptr {at(f, 'repair')}", f"ptr {arguments}", "i64 3", "ptr null"
                    )
                    with f.when(same(f, repaired, "null"), seldom=True):
                        forgive(f, "redone")
                        fine.set("false")
                    with f.unless(same(f, repaired, "null")):
                        with f.unless(same(f, f.field("ptr", repaired, TYPE), at(f, "ndarray"))):
                            fine.set("false")
                        # The tuple is fresh from the formulas and nobody else's: its item may be replaced.
                        f.store("ptr", repaired, item(f, grads, i))
                        drop(f, g)
    with f.when(fine.get()):
        yield
    with f.unless(fine.get()):
        failed.set("true")


def _spread(f: Function, grads: Value, edges: Value, failed: Cell) -> None:
    with f.loop(f.field("i64", edges, TUPLE_SIZE)) as i:
        edge, g = f.load("ptr", item(f, edges, i)), f.load("ptr", item(f, grads, i))
        none = at(f, "none")
        with f.unless(same(f, edge, none)):
            entry = f.call("ptr", "@kind_of", "ptr %world", f"ptr {edge}")
            done = f.call(
                "i1", "@send", "ptr %world", "ptr %args", f"ptr {edge}", f"ptr {entry}", f"ptr {g}", "ptr %ahead"
            )
            with f.unless(done):
                failed.set("true")


def _sweep(f: Function) -> None:
    ahead = f.space("ptr", 1)
    f.store("ptr", "null", ahead)
    heap = _argument(f, 1)
    written = f.call("i64", at(f, "as_long"), f"ptr {_argument(f, 4)}")
    again, end = f.label("again"), f.label("end")
    node = f.cell("ptr", "null")
    f.go(again)
    f.start(again)
    lone = f.load("ptr", ahead)
    node.set(lone)
    f.store("ptr", "null", ahead)
    with f.when(same(f, lone, "null")):
        empty = f.compare("eq", f.call("i64", at(f, "list_size"), f"ptr {heap}"), 0)
        f.leave(empty, end)
        node.set(f.call("ptr", "@pop", "ptr %world", f"ptr {heap}"))
        with f.when(same(f, node.get(), "null"), seldom=True):
            f.ret("ptr", "null")
    done = f.call("i1", "@step", "ptr %world", "ptr %args", f"ptr {node.get()}", f"ptr {ahead}", f"i64 {written}")
    with f.when(done):
        drop(f, node.get())
        f.go(again)
    with f.unless(same(f, f.call("ptr", at(f, "error")), "null")):
        drop(f, node.get())
        f.ret("ptr", "null")
    f.ret("ptr", node.get())
    f.start(end)
    f.ret("ptr", hold(f, at(f, "none")))


__all__ = ["GLOBALS", "define"]
