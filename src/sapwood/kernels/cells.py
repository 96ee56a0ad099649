"""Recurrent layers: all steps of a layer in one native call.

The rows of a batch do not know of each other, so threads share them out once and every thread walks through time by
itself. A step of some rows is a product with the recurrent weights and one loop over the gates; backward it is the loop
and then the product.

Arrays that hold something for every step are (S, H) or planes (P, S, H), with the rows of one step after those of the
other; S is the sum of the steps' batch sizes, which never grow. Those that hold the state are (N, H).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from . import builtin, cells_product, engine, formulas
from .cells_product import KINDS
from .emit import Source, define_loop
from .front import incref
from .layout import BYTES_DATA, DATA, ENV, fields
from .rows import JOB
from .scalar import Scalar, const, select, var
from .writer import Function, Module, Value

UNIT = 4
"""Rows that one thread computes at least."""
MAX_ARRAYS = 16
MAX_OPERANDS = 20

TABLE = fields("env", "launch", "arrays")
PLAN = fields(
    "steps", "rows", "width", "backwards", "before", "loop_first", "double", "cost", "operands",
    "a", "a_row", "a_state", "a_part", "a_start", "c", "c_row", "c_state", "c_part", "c_start",
    "parts", "depth", "columns", "w_part", "w_step", "w_across", "loop",
)  # fmt: skip
"""A sweep over all steps: sizes, the product (parts of a times parts of w added to parts of c), and then for every
operand of the loop an OPERAND, and the steps' offsets and numbers of rows."""
OPERAND = fields("array", "kind", "start", "initial")
STEP, STATE, BEFORE = 0, 1, 2
"""Kinds of operands: of this step, of the state, of the step before it in the recurrence or else the initial state."""


class Sweep(NamedTuple):
    """The loop of one step. Operands are arrays by name: "gates2" a plane, "h*" a state, "cells-" the step before."""

    arrays: tuple[str, ...]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    formula: Callable[..., tuple[Scalar, ...]]


def _lstm(i: Scalar, f: Scalar, g: Scalar, o: Scalar, c: Scalar) -> tuple[Scalar, ...]:
    i, f, g, o = formulas.sigmoid(i), formulas.sigmoid(f), formulas.tanh(g), formulas.sigmoid(o)
    c = f * c + i * g
    h = o * formulas.tanh(c)
    return i, f, g, o, c, c, h, h


def _lstm_back(
    grad: Scalar, dh: Scalar, dc: Scalar, i: Scalar, f: Scalar, g: Scalar, o: Scalar, c: Scalar, before: Scalar
) -> tuple[Scalar, ...]:
    t, dh = formulas.tanh(c), dh + grad
    dc = dc + dh * o * (1.0 - t * t)
    gates = dc * g * i * (1.0 - i), dc * before * f * (1.0 - f), dc * i * (1.0 - g * g), dh * t * o * (1.0 - o)
    return *gates, dc * f, const(0.0, c.dtype)


def _gru(n: Scalar, r: Scalar, z: Scalar, hidden: Scalar, h: Scalar) -> tuple[Scalar, ...]:
    r, z = formulas.sigmoid(r), formulas.sigmoid(z)
    n = formulas.tanh(n + r * hidden)
    h = n + z * (h - n)
    return n, r, z, h, h


def _gru_back(
    grad: Scalar, dh: Scalar, n: Scalar, r: Scalar, z: Scalar, hidden: Scalar, before: Scalar
) -> tuple[Scalar, ...]:
    dh = dh + grad
    dn = dh * (1.0 - z) * (1.0 - n * n)
    return dn, dn * hidden * r * (1.0 - r), dh * (before - n) * z * (1.0 - z), dn * r, dh * z


def _tanh(x: Scalar) -> tuple[Scalar, ...]:
    h = formulas.tanh(x)
    return h, h


def _tanh_back(grad: Scalar, dh: Scalar, h: Scalar) -> tuple[Scalar, ...]:
    return (dh + grad) * (1.0 - h * h), const(0.0, h.dtype)


def _relu(x: Scalar) -> tuple[Scalar, ...]:
    h = formulas.relu(x)
    return h, h


def _relu_back(grad: Scalar, dh: Scalar, h: Scalar) -> tuple[Scalar, ...]:
    return select(h > 0.0, dh + grad, 0.0), const(0.0, h.dtype)


_PLANES = ("gates0", "gates1", "gates2", "gates3")
_FORWARD = ("gates", "out", "h")
_BACK = ("into", "gates", "grad", "out", "h", "h0")
FORWARD = {
    "LSTM": Sweep((*_FORWARD, "c", "cells"), (*_PLANES, "cells", "c*", "out", "h*"), (*_PLANES, "c*"), _lstm),
    "GRU": Sweep(_FORWARD, (*_PLANES[:3], "out", "h*"), (*_PLANES, "h*"), _gru),
    "RNN_TANH": Sweep(_FORWARD, ("out", "h*"), ("gates0",), _tanh),
    "RNN_RELU": Sweep(_FORWARD, ("out", "h*"), ("gates0",), _relu),
}
_INTO = ("into0", "into1", "into2", "into3")
BACK = {
    "LSTM": Sweep(
        (*_BACK, "c", "cells", "c0"),
        (*_INTO, "c*", "h*"),
        ("grad", "h*", "c*", *_PLANES, "cells", "cells-"),
        _lstm_back,
    ),
    "GRU": Sweep(_BACK, (*_INTO, "h*"), ("grad", "h*", *_PLANES, "out-"), _gru_back),
    "RNN_TANH": Sweep(_BACK, ("into0", "h*"), ("grad", "h*", "out"), _tanh_back),
    "RNN_RELU": Sweep(_BACK, ("into0", "h*"), ("grad", "h*", "out"), _relu_back),
}
PARTS = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
"""Gates that the recurrent weights have a part in; in a GRU's planes they follow the new gate's share of the input."""
FIRST = {"GRU": 1}


def _planned(sweep: Sweep, mode: str, dtype: str, width: int, lengths: tuple[int, ...], reverse: bool) -> Any:
    """Return the plan of a sweep as an array, without the address of its loop."""
    back, item, total = sweep is BACK[mode], KINDS[dtype][1], sum(lengths)
    row, plane, parts = width * item, total * width * item, PARTS[mode]
    place = {name: i for i, name in enumerate((*sweep.arrays, "w"))}
    first = FIRST.get(mode, 0) * plane
    values = dict.fromkeys(PLAN, 0)
    names = (*sweep.outputs, *sweep.inputs)
    picoseconds = 40 * parts * width + 3000 * len(names) // 10
    values |= {
        "steps": len(lengths), "rows": lengths[0], "width": width, "backwards": int(reverse != back),
        "before": 1 if reverse else -1, "loop_first": int(back), "double": int(dtype == "f64"),
        "cost": picoseconds * total * width // 1000, "operands": len(names),
        "a": place["into" if back else "h"], "a_row": row, "a_state": int(not back),
        "a_part": plane if back else 0, "a_start": first if back else 0,
        "c": place["h" if back else "gates"], "c_row": row, "c_state": int(back),
        "c_part": 0 if back else plane, "c_start": 0 if back else first,
        "parts": parts, "depth": width, "columns": width, "w_part": width * row,
        "w_step": row if back else item, "w_across": item if back else row,
    }  # fmt: skip
    words = list(values.values())
    for name in names:
        bare = name.rstrip("*-0123456789")
        kind = STATE if name.endswith("*") else BEFORE if name.endswith("-") else STEP
        start = plane * int(name[len(bare) :]) if name[-1].isdigit() else 0
        words += [place[bare], kind, start, place[{"cells": "c0", "out": "h0"}[bare]] if kind == BEFORE else 0]
    return np.array([*words, *accumulate(lengths[:-1], initial=0), *lengths], np.int64)


def _address(f: Function, base: Value, row: Value, state: Value, offset: Value, first: Value) -> Value:
    """Return where row `first` of a state or of the step at `offset` lies."""
    begin = f.choose(state, first, f.add(offset, first))
    return f.at(base, f.mul(begin, row))


def _rows(f: Function) -> None:
    """Walk through all steps with rows begin · UNIT … end · UNIT."""
    plan, data = f.field("ptr", "%job", JOB["geometry"]), f.field("ptr", "%job", JOB["pointers"])
    panels, loop = f.field("ptr", "%job", JOB["partials"]), f.field("ptr", "%job", JOB["params"])
    word = {name: f.field("i64", plan, offset) for name, offset in PLAN.items()}
    operands = f.at(plan, 8 * len(PLAN))
    offsets = f.at(operands, f.mul(word["operands"], 8 * len(OPERAND)))
    lengths = f.element("i64", offsets, word["steps"])
    first, last = f.mul("%begin", UNIT), f.least(f.mul("%end", UNIT), word["rows"])
    moving = f.compare("ne", word["loop_first"], 0)
    with f.loop(word["steps"]) as s:
        t = f.choose(f.compare("ne", word["backwards"], 0), f.sub(f.sub(word["steps"], 1), s), s)
        offset = f.load("i64", f.element("i64", offsets, t))
        stop = f.least(last, f.load("i64", f.element("i64", lengths, t)))
        with f.when(f.compare("slt", first, stop)):
            before = f.add(t, word["before"])
            inside = f.both(f.compare("sge", before, 0), f.compare("slt", before, word["steps"]))
            near = f.choose(inside, before, t)
            had = f.choose(inside, f.load("i64", f.element("i64", lengths, near)), 0)
            past = f.load("i64", f.element("i64", offsets, near))
            given = (plan, data, panels, offset, first, stop)
            with f.unless(moving):
                f.call("void", "@multiply", *_typed(given))
            # Rows that have a step before this one, and those that begin here.
            middle = f.greatest(first, f.least(had, stop))
            arguments = (plan, data, loop, operands, offset, past)
            _each(f, arguments, first, middle, "0")
            _each(f, arguments, middle, stop, "1")
            with f.when(moving):
                f.call("void", "@multiply", *_typed(given))


def _typed(values: Sequence[Value]) -> list[str]:
    return [f"{'ptr' if i < 3 else 'i64'} {v}" for i, v in enumerate(values)]


def _each(f: Function, arguments: Sequence[Value], first: Value, stop: Value, fresh: Value) -> None:
    with f.when(f.compare("slt", first, stop)):
        plan, data, loop, operands, offset, past = arguments
        pointers = (f"ptr {x}" for x in (plan, data, loop, operands))
        f.call("void", "@gates", *pointers, *(f"i64 {x}" for x in (offset, past, first, stop, fresh)))


def _gates(f: Function) -> None:
    """Run the loop over rows first … stop of one step."""
    width = f.field("i64", "%plan", PLAN["width"])
    row = f.field("i64", "%plan", PLAN["c_row"])
    pointers = f.space("ptr", MAX_OPERANDS)
    with f.loop(f.field("i64", "%plan", PLAN["operands"])) as k:
        entry = f.at("%operands", f.mul(k, 8 * len(OPERAND)))
        array, kind, start, initial = (f.field("i64", entry, o) for o in OPERAND.values())
        initially = f.both(f.compare("eq", kind, BEFORE), f.compare("ne", "%fresh", 0))
        state = f.either(f.compare("eq", kind, STATE), initially)
        base = f.load("ptr", f.element("ptr", "%data", f.choose(initially, initial, array)))
        offset = f.choose(f.compare("eq", kind, BEFORE), "%past", "%offset")
        address = f.at(_address(f, base, row, state, offset, "%first"), start)
        f.store("ptr", address, f.element("ptr", pointers, k))
    n = f.mul(f.sub("%stop", "%first"), width)
    f.call("void", "%loop", f"i64 {n}", f"ptr {pointers}", "ptr null")


def _multiply(f: Function) -> None:
    """Add the products of one step's rows with the recurrent weights."""
    word = {name: f.field("i64", "%plan", offset) for name, offset in PLAN.items()}
    ends = []
    for x in "ac":
        base = f.load("ptr", f.element("ptr", "%data", word[x]))
        state = f.compare("ne", word[f"{x}_state"], 0)
        start = _address(f, base, word[f"{x}_row"], state, "%offset", "%first")
        ends.append(f.at(start, word[f"{x}_start"]))
    rows = f.sub("%stop", "%first")
    double = f.compare("ne", word["double"], 0)
    for dtype, (_, item) in KINDS.items():
        with f.when(double if dtype == "f64" else f.no(double)):
            wide = cells_product.columns(dtype)
            part = f.mul(f.udiv(f.add(word["columns"], wide - 1), wide), f.mul(word["depth"], wide * item))
            with f.loop(word["parts"]) as p:
                a, c = f.at(ends[0], f.mul(p, word["a_part"])), f.at(ends[1], f.mul(p, word["c_part"]))
                b = f.at("%panels", f.mul(p, part))
                sizes = (f"i64 {word['depth']}", f"i64 {word['columns']}", f"i64 {rows}")
                given = (f"ptr {c}", f"i64 {word['c_row']}", f"ptr {a}", f"i64 {word['a_row']}", f"ptr {b}", *sizes)
                f.call("void", f"@product_{dtype}", *given)


def _run(f: Function) -> None:
    """Run a sweep: a plan, its arrays, and the recurrent weights."""
    table = f.at("%self", BYTES_DATA)
    env = f.field("ptr", table, TABLE["env"])
    arrays = f.field("i64", table, TABLE["arrays"])
    data = f.space("ptr", MAX_ARRAYS)
    with f.loop(arrays) as i:
        array = f.load("ptr", f.element("ptr", "%args", f.add(i, 1)))
        f.store("ptr", f.field("ptr", array, DATA), f.element("ptr", data, i))
    plan = f.field("ptr", f.load("ptr", "%args"), DATA)
    word = {n: f.field("i64", plan, PLAN[n]) for n in ("columns", "depth", "parts", "double", "rows", "cost", "loop")}
    weights = f.load("ptr", f.element("ptr", data, f.sub(arrays, 1)))
    double = f.compare("ne", word["double"], 0)
    item = f.choose(double, 8, 4)
    wide = f.choose(double, cells_product.columns("f64"), cells_product.columns("f32"))
    panels = f.udiv(f.sub(f.add(word["columns"], wide), 1), wide)
    part = f.mul(f.mul(f.mul(panels, wide), word["depth"]), item)
    memory = f.call("ptr", f.field("ptr", env, ENV["malloc"]), f"i64 {f.add(f.mul(part, word['parts']), 64)}")
    no = f.label("no")
    f.leave(f.compare("eq", memory, "null", "ptr"), no)
    packed = f.v(f"call ptr @llvm.ptrmask.p0.i64(ptr {f.at(memory, 63)}, i64 -64)")
    for dtype in KINDS:
        with f.when(double if dtype == "f64" else f.no(double)), f.loop(word["parts"]) as p:
            source = f.at(weights, f.mul(p, f.field("i64", plan, PLAN["w_part"])))
            target = f.at(packed, f.mul(p, part))
            steps = (f"i64 {f.field('i64', plan, PLAN[n])}" for n in ("w_step", "w_across", "depth", "columns"))
            f.call("void", f"@pack_{dtype}", f"ptr {target}", f"ptr {source}", *steps)
    job = f.space("i64", len(JOB))
    units = f.udiv(f.add(word["rows"], UNIT - 1), UNIT)
    values = {
        "units": ("i64", units), "grain": ("i64", "1"), "run": ("ptr", "@rows"), "geometry": ("ptr", plan),
        "params": ("i64", word["loop"]), "pointers": ("ptr", data), "partials": ("ptr", packed), "env": ("ptr", env),
        "cost": ("i64", word["cost"]),
    }  # fmt: skip
    for name, (kind, value) in values.items():
        f.put(kind, value, job, JOB[name])
    f.call("void", f.field("ptr", table, TABLE["launch"]), f"ptr {env}", f"ptr {job}")
    f.call("void", f.field("ptr", env, ENV["free"]), f"ptr {memory}")
    for end, name in ((None, "true"), (no, "false")):
        if end is not None:
            f.start(end)
        answer = f.field("ptr", env, ENV[name])
        incref(f, answer)
        f.ret("ptr", answer)


@functools.cache
def _runtime() -> int:
    """Compile what all sweeps share, and return the address of their C function."""
    module = Module()
    for dtype in KINDS:
        cells_product.define(module, dtype)
    steps = ("i64 %offset", "i64 %first", "i64 %stop")
    with module.function("void", "multiply", "ptr %plan", "ptr %data", "ptr %panels", *steps, apart=True) as f:
        _multiply(f)
    head = ("ptr %plan", "ptr %data", "ptr %loop", "ptr %operands", "i64 %offset", "i64 %past", "i64 %first")
    with module.function("void", "gates", *head, "i64 %stop", "i64 %fresh", apart=True) as f:
        _gates(f)
    with module.function("void", "rows", "ptr %job", "i64 %begin", "i64 %end", apart=True) as f:
        _rows(f)
    with module.function("ptr", "run_sweep", "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
        _run(f)
    return engine.load(module.text(), ["run_sweep"])["run_sweep"]


@functools.cache
def _loops(mode: str, dtype: str) -> dict[str, int]:
    """Compile the loops of one kind of cell, and return their addresses."""
    module = Module()
    for name, sweep in (("forward", FORWARD[mode]), ("back", BACK[mode])):
        variables = [f"%x{k}" for k in range(len(sweep.inputs))]
        roots = sweep.formula(*[var(v, dtype) for v in variables])
        define_loop(module, name, [Source(v, dtype) for v in variables], roots)
    return engine.load(module.text(), ["forward", "back"])


@functools.cache
def _builtin(arrays: int) -> Callable[..., bool]:
    values = {
        "env": ctypes.addressof(builtin.environment()),
        "launch": builtin.runtime()["launch"],
        "arrays": arrays,
    }
    table = builtin.table(8 * len(TABLE), values, TABLE)
    made: Callable[..., bool] = builtin.make("sweep", _runtime(), table, "Walk through the steps of a layer.")
    return made


@functools.lru_cache(512)
def _prepared(mode: str, back: bool, dtype: str, width: int, lengths: tuple[int, ...], reverse: bool) -> Any:
    sweep = (BACK if back else FORWARD)[mode]
    plan = _planned(sweep, mode, dtype, width, lengths, reverse)
    plan[PLAN["loop"] // 8] = _loops(mode, dtype)["back" if back else "forward"]
    return plan, _builtin(len(sweep.arrays) + 1), sweep.arrays


def sweep(
    mode: str, w_hh: Any, lengths: tuple[int, ...], reverse: bool, *, back: bool = False, **arrays: Any
) -> None:
    """Walk through all steps of a layer, forward or back, writing into the arrays.

    Args:
        mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        w_hh: (gates · H, H), float32 or float64.
        lengths: rows of every step, not growing, positive.
        reverse: whether the recurrence runs from the last step to the first.
        back: whether gradients are computed.
        arrays: by the names of `FORWARD` or `BACK`, C-contiguous, of the dtype of w_hh. Forward: gates (P, S, H), what
            the inputs say, becomes the gates; out and cells (S, H) are written; h and c (N, H) begin as the initial and
            end as the final state. Back: into (P, S, H) is written; grad (S, H); h and c (N, H) begin as the gradient
            of the final and end as that of the initial state.

    Raises:
        MissingError: there are no kernels here; the text says why.
        MemoryError: no room for a copy of the weights.
    """
    width = w_hh.shape[1]
    dtype = "f64" if w_hh.dtype.itemsize == 8 else "f32"
    plan, run, names = _prepared(mode, back, dtype, width, lengths, reverse)
    given = [arrays[n] for n in names]
    for a in (*given, w_hh):
        if type(a) is not np.ndarray or a.dtype is not w_hh.dtype or not a.flags.c_contiguous:
            raise ValueError("sweep: arrays must be C-contiguous and of one dtype")
    if not run(plan, *given, w_hh):
        raise MemoryError


__all__ = ["BACK", "FIRST", "FORWARD", "PARTS", "sweep"]
