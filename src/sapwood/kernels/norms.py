"""Sums of squares of many arrays in one native call, in double precision and in a fixed order."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import builtin, engine
from .front import incref
from .layout import BYTES_DATA, DATA, ENV, LIST_ITEMS, fields
from .multi import CHUNK
from .rows import JOB
from .writer import Function, Module

TABLE = fields("env", "launch")
_LANES, _SUMS = 8, 4
"""Elements of one vector, and vectors side by side."""


def _chunk(f: Function, kind: str, item: int) -> None:
    """Return the sum of squares of n elements."""
    lanes = f"<{_LANES} x {kind}>"
    wide = f"<{_LANES} x double>"
    sums = [f.cell(wide, "zeroinitializer") for _ in range(_SUMS)]
    step = _LANES * _SUMS
    whole = f.mul(f.udiv("%n", step), step)
    with f.loop(whole, step=step) as i:
        for k, total in enumerate(sums):
            x = f.load(lanes, f.at("%x", f.mul(f.add(i, k * _LANES), item)), f", align {item}")
            x = f.v(f"fpext {lanes} {x} to {wide}") if kind == "float" else x
            total.set(f.v(f"call {wide} @llvm.fma.v{_LANES}f64({wide} {x}, {wide} {x}, {wide} {total.get()})"))
    pairs = [f.v(f"fadd {wide} {sums[k].get()}, {sums[k + 1].get()}") for k in (0, 2)]
    together = f.v(f"fadd {wide} {pairs[0]}, {pairs[1]}")
    total = f.cell("double", "0.0")
    for k in range(_LANES):
        total.set(f.v(f"fadd double {total.get()}, {f.v(f'extractelement {wide} {together}, i64 {k}')}"))
    with f.loop("%n", whole) as i:
        x = f.load(kind, f.element(kind, "%x", i))
        x = f.v(f"fpext float {x} to double") if kind == "float" else x
        total.set(f.v(f"call double @llvm.fma.f64(double {x}, double {x}, double {total.get()})"))
    f.ret("double", total.get())


def _units(f: Function) -> None:
    """Compute units begin … end, each the sum of one chunk; chunks of one array follow each other."""
    sizes, items = f.field("ptr", "%job", JOB["geometry"]), f.field("ptr", "%job", JOB["pointers"])
    partials, double = f.field("ptr", "%job", JOB["partials"]), f.field("i64", "%job", JOB["env"])
    count = f.field("i64", "%job", JOB["params"])
    passed = f.cell("i64", 0)
    with f.loop(count) as k:
        n, first = f.load("i64", f.element("i64", sizes, k)), passed.get()
        last = f.add(first, f.udiv(f.add(n, CHUNK - 1), CHUNK))
        x = f.field("ptr", f.load("ptr", f.element("ptr", items, k)), DATA)
        with f.loop(f.least("%end", last), f.greatest("%begin", first)) as unit:
            start = f.mul(f.sub(unit, first), CHUNK)
            length = f.least(f.sub(n, start), CHUNK)
            for kind, item in (("float", 4), ("double", 8)):
                with f.when(f.compare("eq", double, int(kind == "double"))):
                    given = (f"i64 {length}", f"ptr {f.at(x, f.mul(start, item))}")
                    f.store("double", f.call("double", f"@chunk_{kind}", *given), f.element("double", partials, unit))
        passed.set(last)


def _run(f: Function) -> None:
    """Compute the sums: sizes, a list of arrays, whether they are of doubles and how many units there are, results."""
    table = f.at("%self", BYTES_DATA)
    env = f.field("ptr", table, TABLE["env"])
    sizes, head, out = (f.field("ptr", f.load("ptr", f.element("ptr", "%args", i)), DATA) for i in (0, 2, 3))
    items = f.field("ptr", f.field("ptr", "%args", 8), LIST_ITEMS)
    count, double, units = (f.field("i64", head, 8 * i) for i in range(3))
    memory = f.call("ptr", f.field("ptr", env, ENV["malloc"]), f"i64 {f.add(f.mul(units, 8), 8)}")
    no = f.label("no")
    f.leave(f.compare("eq", memory, "null", "ptr"), no)
    job = f.space("i64", len(JOB))
    values = {
        "units": ("i64", units), "grain": ("i64", "8"), "run": ("ptr", "@units"), "geometry": ("ptr", sizes),
        "pointers": ("ptr", items), "partials": ("ptr", memory), "params": ("i64", count), "env": ("i64", double),
        "cost": ("i64", f.mul(units, CHUNK // 4)),
    }  # fmt: skip
    for name, (kind, value) in values.items():
        f.put(kind, value, job, JOB[name])
    f.call("void", f.field("ptr", table, TABLE["launch"]), f"ptr {env}", f"ptr {job}")
    unit = f.cell("i64", 0)
    with f.loop(count) as k:
        total = f.cell("double", "0.0")
        total.set("0.0")
        own = f.udiv(f.add(f.load("i64", f.element("i64", sizes, k)), CHUNK - 1), CHUNK)
        with f.loop(own) as j:
            part = f.load("double", f.element("double", memory, f.add(unit.get(), j)))
            total.set(f.v(f"fadd double {total.get()}, {part}"))
        f.store("double", total.get(), f.element("double", out, k))
        unit.set(f.add(unit.get(), own))
    f.call("void", f.field("ptr", env, ENV["free"]), f"ptr {memory}")
    for end, name in ((None, "true"), (no, "false")):
        if end is not None:
            f.start(end)
        answer = f.field("ptr", env, ENV[name])
        incref(f, answer)
        f.ret("ptr", answer)


@functools.cache
def _builtin() -> Callable[..., bool]:
    module = Module()
    for kind, item in (("float", 4), ("double", 8)):
        with module.function("double", f"chunk_{kind}", "i64 %n", "ptr %x", apart=True) as f:
            _chunk(f, kind, item)
    with module.function("void", "units", "ptr %job", "i64 %begin", "i64 %end", apart=True) as f:
        _units(f)
    with module.function("ptr", "run_squares", "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
        _run(f)
    address = engine.load(module.text(), ["run_squares"])["run_squares"]
    values = {"env": ctypes.addressof(builtin.environment()), "launch": builtin.runtime()["launch"]}
    table = builtin.table(8 * len(TABLE), values, TABLE)
    made: Callable[..., bool] = builtin.make("squares", address, table, "Sum the squares of many arrays.")
    return made


def squares(arrays: list[Any]) -> Any:
    """Return the sum of squares of each array as an array of doubles.

    Args:
        arrays: C-contiguous, all float32 or all float64; at least one.

    Raises:
        MissingError: there are no kernels here; the text says why.
        MemoryError: no room for the partial sums.
    """
    sizes = np.array([a.size for a in arrays], np.int64)
    units = int(((sizes + (CHUNK - 1)) // CHUNK).sum())
    head = np.array([len(arrays), arrays[0].dtype.itemsize == 8, units], np.int64)
    out = np.empty(len(arrays))
    if not _builtin()(sizes, arrays, head, out):
        raise MemoryError("squares: no memory for the partial sums")
    return out


__all__ = ["squares"]
