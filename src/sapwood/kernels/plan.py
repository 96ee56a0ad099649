"""Running fused kernels: a builtin that allocates results and runs the kernels of one plan in order.

A plan is made for arrays of given shapes, strides and dtypes; whoever calls its builtin has made sure of these.
"""

from __future__ import annotations

from .layout import BYTES_DATA, DATA, ENV, TUPLE_ITEMS, fields
from .rows import JOB
from .writer import Function, Module

MAX_ARRAYS = 48

PLAN = fields("env", "inputs", "allocations", "results", "kernels", "made", "records", "single")
MADE = fields("descr", "ndim", "shape", "bytes")
"""An array that the plan makes: the results first, then those that only kernels see."""
RECORD = fields(
    "units", "grain", "run", "geometry", "params", "cost", "operands", "count", "partial_bytes", "finish"
)  # fmt: skip
"""A kernel and the positions of its operands among inputs and made arrays."""
MADE_BYTES, RECORD_BYTES = 8 * len(MADE), 8 * len(RECORD)


def define(module: Module) -> None:
    """Define the C function of plans, `run_plan`."""
    with module.function("ptr", "run_plan", "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
        _run_plan(f)


def _run_plan(f: Function) -> None:
    table = f.at("%self", BYTES_DATA)
    env = f.field("ptr", table, PLAN["env"])
    data, things = f.space("ptr", MAX_ARRAYS), f.space("ptr", MAX_ARRAYS)
    inputs = f.field("i64", table, PLAN["inputs"])
    with f.loop(inputs) as i:
        array = f.load("ptr", f.element("ptr", "%args", i))
        f.store("ptr", f.field("ptr", array, DATA), f.element("ptr", data, i))
    made = f.field("ptr", table, PLAN["made"])
    count = f.field("i64", table, PLAN["allocations"])
    with f.loop(count) as j:
        entry = f.at(made, f.mul(j, MADE_BYTES))
        descr, nd, shape, size = (f.field(k, entry, MADE[n]) for k, n in zip(("ptr", "i64", "ptr", "i64"), MADE))
        array = f.call(
            "ptr", "@new", f"ptr {env}", f"ptr {descr}", f"i64 {nd}", f"ptr {shape}", "ptr null", f"i64 {size}"
        )  # fmt: skip
        with f.when(f.compare("eq", array, "null", "ptr"), seldom=True):
            with f.loop(j) as k:
                _drop(f, env, f.load("ptr", f.element("ptr", things, k)))
            f.ret("ptr", "null")
        f.store("ptr", array, f.element("ptr", things, j))
        f.store("ptr", f.field("ptr", array, DATA), f.element("ptr", data, f.add(inputs, j)))
    records = f.field("ptr", table, PLAN["records"])
    job, pointers = f.space("i64", len(JOB)), f.space("ptr", MAX_ARRAYS)
    with f.loop(f.field("i64", table, PLAN["kernels"])) as number:
        record = f.at(records, f.mul(number, RECORD_BYTES))
        for name in ("units", "grain", "run", "geometry", "params", "cost"):
            f.put("i64", f.field("i64", record, RECORD[name]), job, JOB[name])
        operands = f.field("ptr", record, RECORD["operands"])
        with f.loop(f.field("i64", record, RECORD["count"])) as k:
            place = f.load("i64", f.element("i64", operands, k))
            f.store("ptr", f.load("ptr", f.element("ptr", data, place)), f.element("ptr", pointers, k))
        f.put("ptr", pointers, job, JOB["pointers"])
        f.put("ptr", env, job, JOB["env"])
        size = f.field("i64", record, RECORD["partial_bytes"])
        memory = f.call("ptr", f.field("ptr", env, ENV["malloc"]), f"i64 {size}")
        f.put("ptr", memory, job, JOB["partials"])
        f.call("void", "@launch", f"ptr {env}", f"ptr {job}")
        finish = f.field("ptr", record, RECORD["finish"])
        with f.unless(f.compare("eq", finish, "null", "ptr")):
            f.call("void", finish, f"ptr {job}")
        f.call("void", f.field("ptr", env, ENV["free"]), f"ptr {memory}")
    results = f.field("i64", table, PLAN["results"])
    with f.loop(count, results) as j:
        _drop(f, env, f.load("ptr", f.element("ptr", things, j)))
    with f.unless(f.compare("eq", f.field("i64", table, PLAN["single"]), 0)):
        f.ret("ptr", f.load("ptr", things))
    answer = f.call("ptr", f.field("ptr", env, ENV["tuple"]), f"i64 {results}")
    with f.loop(results) as j:
        f.store("ptr", f.load("ptr", f.element("ptr", things, j)), f.element("ptr", f.at(answer, TUPLE_ITEMS), j))
    f.ret("ptr", answer)


def _drop(f: Function, env: str, thing: str) -> None:
    f.call("void", f.field("ptr", env, ENV["decref"]), f"ptr {thing}")


__all__ = ["MADE", "MAX_ARRAYS", "PLAN", "RECORD", "define"]
