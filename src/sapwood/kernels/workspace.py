"""One native call with scratch memory: the pieces that convolution and pooling share.

A builtin reads its plan (an int64 array), takes scratch memory from the pool, one slot per thread, launches its job
and gives the memory back. The number of threads is read once, so that no thread is without a slot when it changes
meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import builtin, engine, front, memory
from .layout import BYTES_DATA, DATA, ENV, TUPLE_ITEMS, fields
from .layout import JOB as OUTER
from .writer import Function, Module, Value

SELF = fields("env", "launch", "pool", "take", "give", "none", "no_memory", "descr", "indices", "height")
"""What the table of such a builtin holds."""
JOB = fields("units", "grain", "run", "plan", "slots", "slot_bytes", "env", "shared", "cost")
"""A job as `launch` reads it, and what its threads need; operands follow, see `OPERANDS`."""
OPERANDS = 8 * len(JOB)
MAX_OPERANDS = 6
assert all(JOB[name] == OUTER[name] for name in ("units", "grain", "run", "cost"))


def define(module: Module) -> None:
    """Define `take`, `give` and `start`, and what makes arrays."""
    front.define_drop(module)
    front.define_new(module)
    with module.function("void", "keep", "ptr %object", internal=True) as f:
        front.incref(f, "%object")
    with module.function("ptr", "take", "ptr %table", "i64 %n", apart=True) as f:
        pool = f.field("ptr", "%table", SELF["pool"])
        with f.when(f.compare("ne", pool, "null", "ptr")):
            f.ret("ptr", f.call("ptr", f.field("ptr", "%table", SELF["take"]), f"ptr {pool}", "i64 %n"))
        env = f.field("ptr", "%table", SELF["env"])
        f.ret("ptr", f.call("ptr", f.field("ptr", env, ENV["malloc"]), "i64 %n"))
    with module.function("void", "give", "ptr %table", "ptr %memory", apart=True) as f:
        pool = f.field("ptr", "%table", SELF["pool"])
        with f.when(f.compare("ne", pool, "null", "ptr")):
            f.call("void", f.field("ptr", "%table", SELF["give"]), f"ptr {pool}", "ptr %memory", "i64 0")
            f.ret()
        env = f.field("ptr", "%table", SELF["env"])
        f.call("void", f.field("ptr", env, ENV["free"]), "ptr %memory")
    with module.function("void", "start", "ptr %table", "ptr %job", "i64 %threads", apart=True) as f:
        env = f.field("ptr", "%table", SELF["env"])
        ours, count = f.space("i64", len(ENV)), f.space("i64", 1)
        with f.loop(len(ENV)) as i:
            f.store("i64", f.load("i64", f.element("i64", env, i)), f.element("i64", ours, i))
        f.store("i64", "%threads", count)
        f.put("ptr", count, ours, ENV["threads"])
        f.put("ptr", ours, "%job", JOB["env"])
        f.call("void", f.field("ptr", "%table", SELF["launch"]), f"ptr {ours}", "ptr %job")


def threads(f: Function, table: Value, units: Value) -> Value:
    """Return how many threads to make slots for."""
    env = f.field("ptr", table, SELF["env"])
    wanted = f.load("i64", f.field("ptr", env, ENV["threads"]))
    return f.greatest(f.least(wanted, units), 1)


def slot(f: Function, job: Value) -> Value:
    """Return the running thread's scratch memory."""
    env = f.field("ptr", job, JOB["env"])
    ask = f.field("ptr", env, ENV["thread_number"])
    number = f.cell("i64", 0)
    with f.when(f.compare("ne", ask, "null", "ptr")):
        number.set(f.v(f"sext i32 {f.call('i32', ask)} to i64"))
    return f.at(f.field("ptr", job, JOB["slots"]), f.mul(number.get(), f.field("i64", job, JOB["slot_bytes"])))


def operand(f: Function, job: Value, index: int) -> Value:
    """Load the address of an operand of the job."""
    return f.field("ptr", job, OPERANDS + 8 * index)


def space(f: Function) -> Value:
    """Make room for a job."""
    return f.space("i64", OPERANDS // 8 + MAX_OPERANDS)


def run(
    f: Function, table: Value, job: Value, plan: Value, units: Value, function: str, cost: Value, count: Value,
    slots: Value, slot_bytes: Value,
) -> None:  # fmt: skip
    """Run a job's units on up to `count` threads; its operands are written already."""
    words = {"plan": f"ptr {plan}", "slots": f"ptr {slots}", "slot_bytes": f"i64 {slot_bytes}", "grain": "i64 1"}
    words |= {"units": f"i64 {units}", "run": f"ptr {function}", "cost": f"i64 {cost}"}
    for name, value in words.items():
        kind, _, text = value.partition(" ")
        f.put(kind, text, job, JOB[name])
    f.call("void", "@start", f"ptr {table}", f"ptr {job}", f"i64 {count}")


def new(f: Function, table: Value, descr: str, ndim: Value, shape: Value, size: Value, *others: Value) -> Value:
    """Make an array; leave with the error that is set if there is no memory, and give up what was made before."""
    env = f.field("ptr", table, SELF["env"])
    out = f.call("ptr", "@new", f"ptr {env}", f"ptr {f.field('ptr', table, SELF[descr])}", f"i64 {ndim}",
                 f"ptr {shape}", "ptr null", f"i64 {size}")  # fmt: skip
    with f.when(f.compare("eq", out, "null", "ptr"), seldom=True):
        drop(f, table, others)
        f.ret("ptr", "null")
    return out


def scratch(f: Function, table: Value, size: Value, *outs: Value) -> Value:
    """Take memory; leave with MemoryError if there is none, and give up what was made before."""
    memory = f.call("ptr", "@take", f"ptr {table}", f"i64 {size}")
    with f.when(f.compare("eq", memory, "null", "ptr"), seldom=True):
        drop(f, table, outs)
        f.ret("ptr", f.call("ptr", f.field("ptr", table, SELF["no_memory"])))
    return memory


def drop(f: Function, table: Value, things: Sequence[Value]) -> None:
    """Give up references."""
    env = f.field("ptr", table, SELF["env"])
    for thing in things:
        f.call("void", f.field("ptr", env, ENV["decref"]), f"ptr {thing}")


def answer(f: Function, table: Value, outs: Sequence[Value]) -> None:
    """Return one array, or a tuple of several."""
    if len(outs) == 1:
        f.ret("ptr", outs[0])
        return
    env = f.field("ptr", table, SELF["env"])
    together = f.call("ptr", f.field("ptr", env, ENV["tuple"]), f"i64 {len(outs)}")
    with f.when(f.compare("eq", together, "null", "ptr"), seldom=True):
        drop(f, table, outs)
        f.ret("ptr", "null")
    for i, out in enumerate(outs):
        f.store("ptr", out, f.element("ptr", f.at(together, TUPLE_ITEMS), i))
    f.ret("ptr", together)


def begin(f: Function) -> tuple[Value, Value]:
    """Return the table and the plan of a builtin's call, whose first argument is the plan."""
    return f.at("%self", BYTES_DATA), f.field("ptr", f.load("ptr", "%args"), DATA)


def argument(f: Function, index: int) -> Value:
    """Load the address of an argument, an array."""
    return f.load("ptr", f.element("ptr", "%args", index))


@functools.cache
def addresses() -> dict[str, int]:
    """Return the words of `SELF` that all builtins share."""
    env, found = builtin.environment(), builtin.runtime()
    return {
        "env": ctypes.addressof(env),
        "launch": found["launch"],
        "pool": memory.pool_address(),
        "take": found["pool_malloc"],
        "give": found["pool_free"],
        "none": id(None),
        "no_memory": builtin.address_of("PyErr_NoMemory"),
        "indices": id(np.dtype(np.int64)),
    }


def load(module: Module, names: Sequence[str], dtype: str, height: int = 1) -> dict[str, Any]:
    """Compile a module and return its functions as builtins that make arrays of the dtype."""
    env = builtin.environment()
    found = engine.load(module.text(), names)
    values = addresses() | {"descr": env[ENV[dtype] // 8], "height": height}
    made = {}
    for name in names:
        table = builtin.table(8 * len(SELF), values, SELF, env)
        made[name] = builtin.make(name, found[name], table, "Run a plan.")
    return made


__all__ = ["JOB", "OPERANDS", "SELF", "addresses", "answer", "argument", "begin", "define", "drop", "load", "new",
           "operand", "run", "scratch", "slot", "space", "threads"]  # fmt: skip
