"""One native call for many arrays: updates of parameters, element by element, as optimizers make them.

`updater` makes a builtin from a function of Scalars:

    >>> import numpy as np
    >>> from sapwood.kernels import multi
    >>> step = multi.updater("sgd", lambda p, g, lr: (p - lr * g,), arrays=2, writes=(0,), coefficients=1)
    >>> p = [np.ones(3), np.ones((2, 2))]
    >>> step((0.5,), p, [np.ones(3), np.zeros((2, 2))])
    True
    >>> p[0]
    array([0.5, 0.5, 0.5])

The arrays of all lists are looked at in every call, some nanoseconds each, so lists may be new ones each time.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError
from . import builtin, emit, engine
from .emit import Source, define_loop
from .front import incref
from .layout import (
    ALIGNED,
    BYTES_DATA,
    C_CONTIGUOUS,
    DATA,
    DESCR,
    ENV,
    FLAGS,
    LIST_ITEMS,
    TUPLE_ITEMS,
    TUPLE_SIZE,
    TYPE,
    WRITEABLE,
    fields,
)
from .rows import JOB
from .scalar import Scalar
from .writer import Function, Module, Value

CHUNK = 8192
"""Elements of one unit of work."""
MAX_ARRAYS = 8
MAX_COEFFICIENTS = 12

UPDATE = fields("env", "arrays", "coefficients", "writes", "loops32", "loops64", "cost", "late")
ENTRY = 8 * (2 + MAX_ARRAYS)
"""Bytes of a table entry: number of elements, first unit, addresses."""


def define(module: Module) -> None:
    """Define the C function of updaters, `run_update`, and what it calls."""
    with module.function("void", "update_units", "ptr %job", "i64 %begin", "i64 %end", apart=True) as f:
        _units(f)
    with module.function("i1", "update_entry", "ptr %table", "ptr %args", "i64 %index", "ptr %descr", "ptr %slot",
                         apart=True) as f:  # fmt: skip
        _entry(f)
    with module.function("ptr", "run_update", "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
        _update(f)
    with module.function("ptr", "run_count", "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
        _count(f)


def _count(f: Function) -> None:
    """Add 1 to every array of a list, if they are single numbers of one type and value."""
    env = f.field("ptr", f.at("%self", BYTES_DATA), 0)
    no = f.label("no")
    f.leave(f.compare("ne", "%given", 1), no)
    f.leave(f.compare("ne", "%names", "null", "ptr"), no)
    sequence = f.load("ptr", "%args")
    f.leave(f.compare("ne", f.field("ptr", sequence, TYPE), f.field("ptr", env, ENV["list"]), "ptr"), no)
    count = f.field("i64", sequence, TUPLE_SIZE)
    f.leave(f.compare("slt", count, 1), no)
    first = f.load("ptr", f.field("ptr", sequence, LIST_ITEMS))
    f.leave(f.compare("ne", f.field("ptr", first, TYPE), f.field("ptr", env, ENV["ndarray"]), "ptr"), no)
    descr = f.field("ptr", first, DESCR)
    double = f.compare("eq", descr, f.field("ptr", env, ENV["f64"]), "ptr")
    f.leave(f.no(f.either(double, f.compare("eq", descr, f.field("ptr", env, ENV["f32"]), "ptr"))), no)
    wanted = C_CONTIGUOUS | ALIGNED | WRITEABLE
    for kind, item in (("double", "i64"), ("float", "i32")):
        with f.when(double if kind == "double" else f.no(double)):
            before = f.cell(item)
            with f.loop(count) as i:
                array = _item(f, env, sequence, i)
                alike = f.compare("eq", f.field("ptr", array, TYPE), f.field("ptr", env, ENV["ndarray"]), "ptr")
                with f.unless(alike):
                    f.go(no)
                flags = f.v(f"and i32 {f.field('i32', array, FLAGS)}, {wanted}")
                fits = f.both(
                    f.compare("eq", flags, wanted, "i32"), f.compare("eq", f.field("ptr", array, DESCR), descr, "ptr")
                )
                fits = f.both(fits, f.compare("eq", f.call("i64", "@elements", f"ptr {array}"), 1))
                with f.unless(fits):
                    f.go(no)
                bits = f.load(item, f.field("ptr", array, DATA))
                with f.unless(f.either(f.compare("eq", i, 0), f.compare("eq", bits, before.get(), item))):
                    f.go(no)
                before.set(bits)
            following = f.v(f"fadd {kind} {f.v(f'bitcast {item} {before.get()} to {kind}')}, 1.0")
            with f.loop(count) as i:
                f.store(kind, following, f.field("ptr", _item(f, env, sequence, i), DATA))
    _answer(f, f.field("ptr", env, ENV["true"]))
    f.start(no)
    _answer(f, f.field("ptr", env, ENV["false"]))


@functools.cache
def counter() -> Callable[..., bool]:
    """Return a builtin that adds 1 to every array of a list; False, with nothing done, unless all hold one same number.

    Raises:
        MissingError: there are no builtins here; the text says why.
    """
    table = builtin.table(8, {"env": ctypes.addressof(builtin.environment())}, {"env": 0})
    made: Callable[..., bool] = builtin.make("count", builtin.runtime()["run_count"], table, "Add 1 to every array.")
    return made


def _item(f: Function, env: Value, sequence: Value, index: Value) -> Value:
    """Return item `index` of a list or tuple."""
    is_list = f.compare("eq", f.field("ptr", sequence, TYPE), f.field("ptr", env, ENV["list"]), "ptr")
    items = f.choose(is_list, f.field("ptr", sequence, LIST_ITEMS), f.at(sequence, TUPLE_ITEMS), "ptr")
    return f.load("ptr", f.element("ptr", items, index))


def _entry(f: Function) -> None:
    """Check array `index` of every list and write its table entry; answer false if something is unusual."""
    env = f.field("ptr", "%table", UPDATE["env"])
    ndarray = f.field("ptr", env, ENV["ndarray"])
    writes = f.field("i64", "%table", UPDATE["writes"])
    with f.loop(f.field("i64", "%table", UPDATE["arrays"])) as k:
        array = _item(f, env, f.load("ptr", f.element("ptr", "%args", f.add(k, 1))), "%index")
        with f.when(f.compare("ne", f.field("ptr", array, TYPE), ndarray, "ptr")):
            f.ret("i1", "false")
        written = f.v(f"trunc i64 {f.v(f'lshr i64 {writes}, {k}')} to i1")
        wanted = f.choose(written, C_CONTIGUOUS | ALIGNED | WRITEABLE, C_CONTIGUOUS | ALIGNED, "i32")
        flags = f.v(f"and i32 {f.field('i32', array, FLAGS)}, {wanted}")
        n = f.call("i64", "@elements", f"ptr {array}")
        fits = f.both(
            f.compare("eq", flags, wanted, "i32"), f.compare("eq", f.field("ptr", array, DESCR), "%descr", "ptr")
        )
        fits = f.both(fits, f.either(f.compare("eq", k, 0), f.compare("eq", n, f.load("i64", "%slot"))))
        with f.unless(fits):
            f.ret("i1", "false")
        f.store("i64", n, "%slot")
        f.store("ptr", f.field("ptr", array, DATA), f.element("ptr", f.at("%slot", 16), k))
    f.ret("i1", "true")


def _units(f: Function) -> None:
    """Run units begin … end, chunks of the arrays in the job's table."""
    table, count = f.field("ptr", "%job", JOB["geometry"]), f.field("i64", "%job", JOB["partials"])
    arrays = f.field("i64", "%job", JOB["env"])
    loop, params = f.field("ptr", "%job", JOB["pointers"]), f.field("ptr", "%job", JOB["params"])
    update = f.field("ptr", "%job", _KERNEL)
    writes = f.field("i64", update, UPDATE["writes"])
    size = f.field("i64", "%job", _ITEM)
    pointers = f.space("ptr", 2 * MAX_ARRAYS)
    with f.loop(count) as t:
        entry = f.at(table, f.mul(t, ENTRY))
        n, first = f.load("i64", entry), f.field("i64", entry, 8)
        last = f.add(first, f.v(f"lshr i64 {f.add(n, CHUNK - 1)}, {CHUNK.bit_length() - 1}"))
        start = f.sub(f.greatest("%begin", first), first)
        stop = f.sub(f.least("%end", last), first)
        with f.when(f.compare("slt", start, stop)):
            begin = f.mul(start, CHUNK)
            length = f.sub(f.least(f.mul(stop, CHUNK), n), begin)
            at = f.cell("i64", 0)
            for wanted in (True, False):
                with f.loop(arrays) as k:
                    address = f.at(f.load("ptr", f.element("ptr", f.at(entry, 16), k)), f.mul(begin, size))
                    written = f.v(f"trunc i64 {f.v(f'lshr i64 {writes}, {k}')} to i1")
                    with f.when(written if wanted else f.compare("eq", 0, 0)):
                        f.store("ptr", address, f.element("ptr", pointers, at.get()))
                        at.set(f.add(at.get(), 1))
            f.call("void", loop, f"i64 {length}", f"ptr {pointers}", f"ptr {params}")


_KERNEL, _ITEM = 8 * len(JOB), 8 * len(JOB) + 8


def _update(f: Function) -> None:
    table = f.at("%self", BYTES_DATA)
    env = f.field("ptr", table, UPDATE["env"])
    arrays = f.field("i64", table, UPDATE["arrays"])
    no = f.label("no")
    f.leave(f.compare("ne", "%given", f.add(arrays, 1)), no)
    f.leave(f.compare("ne", "%names", "null", "ptr"), no)
    numbers, params = f.load("ptr", "%args"), f.space("double", MAX_COEFFICIENTS)
    f.leave(f.compare("ne", f.field("ptr", numbers, TYPE), f.field("ptr", env, ENV["tuple_type"]), "ptr"), no)
    wanted = f.field("i64", table, UPDATE["coefficients"])
    f.leave(f.compare("ne", f.field("i64", numbers, TUPLE_SIZE), wanted), no)
    with f.loop(wanted) as i:
        thing = f.load("ptr", f.element("ptr", f.at(numbers, TUPLE_ITEMS), i))
        f.leave(
            f.no(f.call("i1", "@number", f"ptr {env}", f"ptr {thing}", f"ptr {f.element('double', params, i)}")), no
        )
    count = f.cell("i64", -1)
    with f.loop(f.add(arrays, 1), 1) as k:
        sequence = f.load("ptr", f.element("ptr", "%args", k))
        kind = f.field("ptr", sequence, TYPE)
        known = [f.compare("eq", kind, f.field("ptr", env, ENV[n]), "ptr") for n in ("list", "tuple_type")]
        f.leave(f.no(f.either(*known)), no)
        n = f.field("i64", sequence, TUPLE_SIZE)
        f.leave(f.both(f.compare("ne", k, 1), f.compare("ne", n, count.get())), no)
        count.set(n)
    yes = f.field("ptr", env, ENV["true"])
    with f.when(f.compare("eq", count.get(), 0)):
        _answer(f, yes)
    first = _item(f, env, f.field("ptr", "%args", 8), "0")
    f.leave(f.compare("ne", f.field("ptr", first, TYPE), f.field("ptr", env, ENV["ndarray"]), "ptr"), no)
    descr = f.field("ptr", first, DESCR)
    double = f.compare("eq", descr, f.field("ptr", env, ENV["f64"]), "ptr")
    f.leave(f.no(f.either(double, f.compare("eq", descr, f.field("ptr", env, ENV["f32"]), "ptr"))), no)
    place = f.load("ptr", f.at(table, f.choose(double, UPDATE["loops64"], UPDATE["loops32"])))
    loop = f.load("ptr", place)
    with f.when(f.compare("eq", loop, "null", "ptr")):
        late, call = f.field("ptr", table, UPDATE["late"]), f.field("ptr", env, ENV["vectorcall"])
        f.ret("ptr", f.call("ptr", call, f"ptr {late}", "ptr %args", "i64 %given", "ptr null"))
    memory = f.call("ptr", f.field("ptr", env, ENV["malloc"]), f"i64 {f.mul(count.get(), ENTRY)}")
    f.leave(f.compare("eq", memory, "null", "ptr"), no)
    units, total = f.cell("i64", 0), f.cell("i64", 0)
    release = f.field("ptr", env, ENV["free"])
    with f.loop(count.get()) as t:
        entry = f.at(memory, f.mul(t, ENTRY))
        good = f.call("i1", "@update_entry", f"ptr {table}", "ptr %args", f"i64 {t}", f"ptr {descr}", f"ptr {entry}")
        with f.unless(good):
            f.call("void", release, f"ptr {memory}")
            f.go(no)
        n = f.load("i64", entry)
        f.put("i64", units.get(), entry, 8)
        units.set(f.add(units.get(), f.v(f"lshr i64 {f.add(n, CHUNK - 1)}, {CHUNK.bit_length() - 1}")))
        total.set(f.add(total.get(), n))
    job = f.space("i64", len(JOB) + 2)
    cost = f.mul(total.get(), f.field("i64", table, UPDATE["cost"]))
    fields_ = {
        "units": ("i64", units.get()),
        "grain": ("i64", "1"),
        "run": ("ptr", "@update_units"),
        "geometry": ("ptr", memory),
        "params": ("ptr", params),
        "pointers": ("ptr", loop),
        "partials": ("i64", count.get()),
        "env": ("i64", arrays),
        "cost": ("i64", f.v(f"lshr i64 {cost}, 10")),
    }
    for name, (kind, value) in fields_.items():
        f.put(kind, value, job, JOB[name])
    f.put("ptr", table, job, _KERNEL)
    f.put("i64", f.choose(double, 8, 4), job, _ITEM)
    f.call("void", "@launch", f"ptr {env}", f"ptr {job}")
    f.call("void", release, f"ptr {memory}")
    _answer(f, yes)
    f.start(no)
    _answer(f, f.field("ptr", env, ENV["false"]))


def _answer(f: Function, value: Value) -> None:
    incref(f, value)
    f.ret("ptr", value)


def updater(
    name: str, body: Callable[..., Any], *, arrays: int, writes: Sequence[int], coefficients: int = 0
) -> Callable[..., bool]:
    """Return a builtin that updates many arrays in place.

    Args:
        body: a function of Scalars, one of each list and then the coefficients, which returns the new values of the
            lists in `writes`.
        arrays: number of lists.
        writes: positions of the lists whose arrays are written.
        coefficients: how many numbers there are, the same for all elements.

    Returns:
        A callable of a tuple of numbers and the lists (or tuples) of arrays. It answers False, and has done nothing,
        if the arrays are not all C-contiguous, of one dtype (float32 or float64), and of equal sizes in all lists.

    Raises:
        MissingError: there are no builtins here; the text says why.
    """
    if not (0 < arrays <= MAX_ARRAYS and coefficients <= MAX_COEFFICIENTS and all(0 <= w < arrays for w in writes)):
        raise ArgumentError(
            f"updater: {name} has {arrays} lists, writes {tuple(writes)} and {coefficients} coefficients; up to "
            f"{MAX_ARRAYS} lists, positions among them and up to {MAX_COEFFICIENTS} coefficients are possible"
        )
    if list(writes) != sorted(set(writes)):
        raise ArgumentError(f"updater: {name} must list what it writes in order and once each, got {tuple(writes)}")
    env = builtin.environment()
    traced: dict[str, tuple[Scalar, ...]] = {}
    for dtype in ("f32", "f64"):
        roots = traced[dtype] = emit.trace(body, dtype, arrays, coefficients)
        if len(roots) != len(writes) or any(r.dtype != dtype for r in roots):
            raise ArgumentError(f"updater: {name} must return {len(writes)} values of {dtype}")
    loops = {dtype: ctypes.c_int64() for dtype in traced}
    own: list[Any] = []

    def late(*args: Any) -> bool:
        """Compile the loop of one type at its first use."""
        dtype = "f64" if args[1][0].dtype == np.float64 else "f32"
        module = Module()
        sources = [Source(f"%x{k}", dtype) for k in range(arrays)]
        define_loop(module, "update", sources, traced[dtype], [(f"%a{j}", dtype) for j in range(coefficients)])
        loops[dtype].value = engine.load(module.text(), ["update"])["update"]
        return bool(own[0]()(*args))

    values = {
        "env": ctypes.addressof(env),
        "arrays": arrays,
        "coefficients": coefficients,
        "writes": sum(1 << w for w in writes),
        "loops32": ctypes.addressof(loops["f32"]),
        "loops64": ctypes.addressof(loops["f64"]),
        "cost": (emit.work(traced["f32"]) + 80 * (arrays + len(writes))) * 1024 // 1000,
        "late": id(late),
    }
    table = builtin.table(8 * len(UPDATE), values, UPDATE, loops, late)
    made: Callable[..., bool] = builtin.make(name, builtin.runtime()["run_update"], table, "Update arrays in place.")
    # Weakly, so that a builtin dies with its last reference.
    own.append(weakref.ref(made))
    return made


__all__ = ["CHUNK", "counter", "define", "updater"]
