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

from ..errors import ArgumentError
from . import builtin, cells_product, cells_weights, engine
from .cells_gates import BACK, FORWARD, GATES, INPUT
from .cells_product import KINDS
from .emit import Source, define_loop
from .front import incref
from .layout import BYTES_DATA, DATA, ENV, fields
from .rows import JOB
from .scalar import var
from .writer import Function, Module, Value

UNIT = 4
"""Rows that one thread computes at least."""
MAX_ARRAYS = 16
MAX_OPERANDS = 20

TABLE = fields("env", "launch", "arrays")
PLAN = fields(
    "steps", "rows", "width", "row", "backwards", "before", "double", "cost", "operands", "products", "packed", "loop"
)
"""A sweep over all steps; then come its products, the operands of its loop, and the steps' offsets and rows."""
PRODUCT = fields(
    "a", "a_row", "a_state", "a_plane", "a_start", "c", "c_row", "c_state", "c_plane", "c_start",
    "parts", "depth", "columns", "w", "w_start", "w_part", "w_step", "w_across", "begin", "begin_start", "after", "at",
)  # fmt: skip
"""Add parts of a times parts of w to parts of c, or to the row `begin` if that is an array and not -1."""
OPERAND = fields("array", "kind", "start", "initial")
STEP, STATE, BEFORE = 0, 1, 2
"""Kinds of operands: of this step, of the state, of the step before it in the recurrence or else the initial state."""


class Shape(NamedTuple):
    """What a plan depends on; `features` is 0 for a sweep back that leaves the input's gradient out."""

    mode: str
    back: bool
    dtype: str
    width: int
    features: int
    lengths: tuple[int, ...]
    reverse: bool


def _products(shape: Shape, place: dict[str, int]) -> list[dict[str, int]]:
    """Return the products of one step."""
    width, features = shape.width, shape.features
    item = KINDS[shape.dtype][1]
    row, plane = width * item, sum(shape.lengths) * width * item
    gates = GATES[shape.mode]
    found, begun = [], set()
    for side, depth in (("input", features), ("state", width)):
        for part in (gates.by_input if side == "input" else gates.by_state) if depth else ():
            near = {"row": row, "state": 0, "plane": plane, "start": part.first * plane}
            weight = "w_ih" if side == "input" else "w_hh"
            if shape.back:
                name = "h" if side == "state" else "g_input"
                far = {"row": depth * item, "state": int(side == "state"), "plane": 0, "start": 0}
                ends = ("into", near), (name, far)
                sizes = {"depth": width, "columns": depth, "w_step": depth * item, "w_across": item}
                begin = place["zero"] if side == "input" else -1
            else:
                name = "h" if side == "state" else "input"
                far = {"row": depth * item, "state": int(side == "state"), "plane": 0, "start": 0}
                ends = (name, far), ("gates", near)
                sizes = {"depth": depth, "columns": width, "w_step": item, "w_across": depth * item}
                begin = -1 if part.first in begun else place["bias"]
                begun |= set(range(part.first, part.first + part.planes))
            values = dict.fromkeys(PRODUCT, 0)
            for letter, (name, end) in zip("ac", ends):
                values |= {letter: place[name]} | {f"{letter}_{k}": v for k, v in end.items()}
            values |= sizes | {
                "parts": part.planes, "w": place[weight], "w_start": part.row * width * depth * item,
                "w_part": width * depth * item, "begin": begin, "begin_start": 0 if shape.back else part.first * row,
                "after": int(shape.back),
            }  # fmt: skip
            found.append(values)
    return found


@functools.lru_cache(512)
def _planned(shape: Shape) -> tuple[Any, Callable[..., bool], tuple[str, ...]]:
    """Return the plan of a sweep as an array, what runs it, and the names of its arrays."""
    sweep = (BACK if shape.back else FORWARD)[shape.mode]
    arrays = sweep.arrays + (INPUT if shape.back and shape.features else ())
    item, lengths = KINDS[shape.dtype][1], shape.lengths
    width, total = shape.width, sum(lengths)
    place = {name: i for i, name in enumerate(arrays)}
    products = _products(shape, place)
    wide, packed = cells_product.columns(shape.dtype), 0
    for p in products:
        p["at"] = packed
        packed += p["parts"] * -(-p["columns"] // wide) * wide * p["depth"] * item
    names = (*sweep.outputs, *sweep.inputs)
    multiplied = sum(p["parts"] * p["depth"] * p["columns"] for p in products)
    values = dict.fromkeys(PLAN, 0) | {
        "steps": len(lengths), "rows": lengths[0], "width": width, "row": width * item,
        "backwards": int(shape.reverse != shape.back), "before": 1 if shape.reverse else -1,
        "double": int(shape.dtype == "f64"), "cost": total * (multiplied // 25 + len(names) * width // 5),
        "operands": len(names), "products": len(products), "packed": packed,
        "loop": _loops(shape.mode, shape.dtype)["back" if shape.back else "forward"],
    }  # fmt: skip
    words = [*values.values(), *(v for p in products for v in p.values())]
    for name in names:
        bare = name.rstrip("*-0123456789")
        kind = STATE if name.endswith("*") else BEFORE if name.endswith("-") else STEP
        start = total * width * item * int(name[len(bare) :]) if name[-1].isdigit() else 0
        words += [place[bare], kind, start, place[{"cells": "c0", "out": "h0"}[bare]] if kind == BEFORE else 0]
    plan = np.array([*words, *accumulate(lengths[:-1], initial=0), *lengths], np.int64)
    return plan, _builtin(len(arrays)), arrays


def _address(f: Function, base: Value, row: Value, state: Value, offset: Value, first: Value) -> Value:
    """Return where row `first` of a state or of the step at `offset` lies."""
    begin = f.choose(state, first, f.add(offset, first))
    return f.at(base, f.mul(begin, row))


def _rows(f: Function) -> None:
    """Walk through all steps with rows begin · UNIT … end · UNIT."""
    plan, data = f.field("ptr", "%job", JOB["geometry"]), f.field("ptr", "%job", JOB["pointers"])
    panels = f.field("ptr", "%job", JOB["partials"])
    word = {name: f.field("i64", plan, offset) for name, offset in PLAN.items()}
    loop = f.field("ptr", plan, PLAN["loop"])
    products = f.at(plan, 8 * len(PLAN))
    operands = f.at(products, f.mul(word["products"], 8 * len(PRODUCT)))
    offsets = f.at(operands, f.mul(word["operands"], 8 * len(OPERAND)))
    lengths = f.element("i64", offsets, word["steps"])
    first, last = f.mul("%begin", UNIT), f.least(f.mul("%end", UNIT), word["rows"])
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
            # Rows that have a step before this one, and those that begin here.
            middle = f.greatest(first, f.least(had, stop))
            for after in (0, 1):
                with f.loop(word["products"]) as k:
                    product = f.at(products, f.mul(k, 8 * len(PRODUCT)))
                    with f.when(f.compare("eq", f.field("i64", product, PRODUCT["after"]), after)):
                        given = (f"i64 {x}" for x in (word["double"], offset, first, stop))
                        f.call("void", "@multiply", f"ptr {product}", f"ptr {data}", f"ptr {panels}", *given)
                if not after:
                    arguments = (plan, data, loop, operands, offset, past)
                    _each(f, arguments, first, middle, "0")
                    _each(f, arguments, middle, stop, "1")


def _each(f: Function, arguments: Sequence[Value], first: Value, stop: Value, fresh: Value) -> None:
    with f.when(f.compare("slt", first, stop)):
        plan, data, loop, operands, offset, past = arguments
        pointers = (f"ptr {x}" for x in (plan, data, loop, operands))
        f.call("void", "@gates", *pointers, *(f"i64 {x}" for x in (offset, past, first, stop, fresh)))


def _gates(f: Function) -> None:
    """Run the loop over rows first … stop of one step."""
    width = f.field("i64", "%plan", PLAN["width"])
    row = f.field("i64", "%plan", PLAN["row"])
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
    """Compute a product for rows first … stop of one step."""
    word = {name: f.field("i64", "%product", offset) for name, offset in PRODUCT.items()}
    ends = []
    for x in "ac":
        base = f.load("ptr", f.element("ptr", "%data", word[x]))
        state = f.compare("ne", word[f"{x}_state"], 0)
        start = _address(f, base, word[f"{x}_row"], state, "%offset", "%first")
        ends.append(f.at(start, word[f"{x}_start"]))
    fresh = f.compare("sge", word["begin"], 0)
    given = f.load("ptr", f.element("ptr", "%data", f.choose(fresh, word["begin"], 0)))
    given = f.at(given, word["begin_start"])
    rows = f.sub("%stop", "%first")
    double = f.compare("ne", "%double", 0)
    for dtype, (_, item) in KINDS.items():
        with f.when(double if dtype == "f64" else f.no(double)):
            wide = cells_product.columns(dtype)
            part = f.mul(f.udiv(f.add(word["columns"], wide - 1), wide), f.mul(word["depth"], wide * item))
            with f.loop(word["parts"]) as p:
                a, c = f.at(ends[0], f.mul(p, word["a_plane"])), f.at(ends[1], f.mul(p, word["c_plane"]))
                b = f.at(f.at("%panels", word["at"]), f.mul(p, part))
                # Parts that add up in one place begin anew once.
                anew = f.either(f.compare("ne", word["c_plane"], 0), f.compare("eq", p, 0))
                anew = f.both(fresh, anew)
                begin = f.choose(anew, f.at(given, f.mul(p, f.mul(word["columns"], item))), c, "ptr")
                begin_row = f.choose(anew, 0, word["c_row"])
                places = (f"ptr {c}", f"i64 {word['c_row']}", f"ptr {begin}", f"i64 {begin_row}", f"ptr {a}")
                sizes = (f"i64 {word['depth']}", f"i64 {word['columns']}", f"i64 {rows}")
                f.call("void", f"@product_{dtype}", *places, f"i64 {word['a_row']}", f"ptr {b}", *sizes)


def _run(f: Function) -> None:
    """Run a sweep: a plan and its arrays."""
    table = f.at("%self", BYTES_DATA)
    env = f.field("ptr", table, TABLE["env"])
    data = f.space("ptr", MAX_ARRAYS)
    with f.loop(f.field("i64", table, TABLE["arrays"])) as i:
        array = f.load("ptr", f.element("ptr", "%args", f.add(i, 1)))
        f.store("ptr", f.field("ptr", array, DATA), f.element("ptr", data, i))
    plan = f.field("ptr", f.load("ptr", "%args"), DATA)
    word = {n: f.field("i64", plan, PLAN[n]) for n in ("double", "rows", "cost", "products", "packed")}
    memory = f.call("ptr", f.field("ptr", env, ENV["malloc"]), f"i64 {f.add(word['packed'], 64)}")
    no = f.label("no")
    f.leave(f.compare("eq", memory, "null", "ptr"), no)
    packed = f.v(f"call ptr @llvm.ptrmask.p0.i64(ptr {f.at(memory, 63)}, i64 -64)")
    with f.loop(word["products"]) as k:
        product = f.at(f.at(plan, 8 * len(PLAN)), f.mul(k, 8 * len(PRODUCT)))
        f.call("void", "@pack", f"ptr {product}", f"ptr {data}", f"ptr {packed}", f"i64 {word['double']}")
    job = f.space("i64", len(JOB))
    units = f.udiv(f.add(word["rows"], UNIT - 1), UNIT)
    values = {
        "units": ("i64", units), "grain": ("i64", "1"), "run": ("ptr", "@rows"), "geometry": ("ptr", plan),
        "pointers": ("ptr", data), "partials": ("ptr", packed), "env": ("ptr", env), "cost": ("i64", word["cost"]),
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


def _sum(f: Function) -> None:
    """Run the sums of the weights' gradients: a plan, [units, cost] and the arrays."""
    table = f.at("%self", BYTES_DATA)
    env = f.field("ptr", table, TABLE["env"])
    data = f.space("ptr", MAX_ARRAYS)
    with f.loop(f.field("i64", table, TABLE["arrays"])) as i:
        array = f.load("ptr", f.element("ptr", "%args", f.add(i, 2)))
        f.store("ptr", f.field("ptr", array, DATA), f.element("ptr", data, i))
    plan, sizes = (f.field("ptr", f.load("ptr", f.element("ptr", "%args", i)), DATA) for i in range(2))
    job = f.space("i64", len(JOB))
    values = {
        "units": ("i64", f.load("i64", sizes)), "grain": ("i64", "1"), "run": ("ptr", "@sum_units"),
        "geometry": ("ptr", plan), "pointers": ("ptr", data), "env": ("ptr", env),
        "cost": ("i64", f.field("i64", sizes, 8)),
    }  # fmt: skip
    for name, (kind, value) in values.items():
        f.put(kind, value, job, JOB[name])
    f.call("void", f.field("ptr", table, TABLE["launch"]), f"ptr {env}", f"ptr {job}")
    answer = f.field("ptr", env, ENV["true"])
    incref(f, answer)
    f.ret("ptr", answer)


def _pack(f: Function) -> None:
    """Pack the weights of one product."""
    word = {name: f.field("i64", "%product", offset) for name, offset in PRODUCT.items()}
    weights = f.at(f.load("ptr", f.element("ptr", "%data", word["w"])), word["w_start"])
    double = f.compare("ne", "%double", 0)
    for dtype, (_, item) in KINDS.items():
        with f.when(double if dtype == "f64" else f.no(double)):
            wide = cells_product.columns(dtype)
            part = f.mul(f.udiv(f.add(word["columns"], wide - 1), wide), f.mul(word["depth"], wide * item))
            with f.loop(word["parts"]) as p:
                source = f.at(weights, f.mul(p, word["w_part"]))
                target = f.at(f.at("%packed", word["at"]), f.mul(p, part))
                steps = (f"i64 {word[n]}" for n in ("w_step", "w_across", "depth", "columns"))
                f.call("void", f"@pack_{dtype}", f"ptr {target}", f"ptr {source}", *steps)


@functools.cache
def _runtime() -> dict[str, int]:
    """Compile what all sweeps share, and return the addresses of their C functions."""
    module = Module()
    for dtype in KINDS:
        cells_product.define(module, dtype)
    steps = ("i64 %double", "i64 %offset", "i64 %first", "i64 %stop")
    with module.function("void", "multiply", "ptr %product", "ptr %data", "ptr %panels", *steps, apart=True) as f:
        _multiply(f)
    with module.function("void", "pack", "ptr %product", "ptr %data", "ptr %packed", "i64 %double", apart=True) as f:
        _pack(f)
    head = ("ptr %plan", "ptr %data", "ptr %loop", "ptr %operands", "i64 %offset", "i64 %past", "i64 %first")
    with module.function("void", "gates", *head, "i64 %stop", "i64 %fresh", apart=True) as f:
        _gates(f)
    with module.function("void", "rows", "ptr %job", "i64 %begin", "i64 %end", apart=True) as f:
        _rows(f)
    with module.function("ptr", "run_sweep", "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
        _run(f)
    cells_weights.define(module)
    with module.function("ptr", "run_sums", "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
        _sum(f)
    return engine.load(module.text(), ["run_sweep", "run_sums"])


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
def _builtin(arrays: int, name: str = "sweep") -> Callable[..., Any]:
    values = {
        "env": ctypes.addressof(builtin.environment()),
        "launch": builtin.runtime()["launch"],
        "arrays": arrays,
    }
    table = builtin.table(8 * len(TABLE), values, TABLE)
    made: Callable[..., Any] = builtin.make(name, _runtime()[f"run_{name}"], table, "Compute a recurrent layer.")
    return made


def sweep(mode: str, lengths: tuple[int, ...], reverse: bool, *, back: bool = False, **arrays: Any) -> None:
    """Walk through all steps of a layer, forward or back, writing into the arrays.

    Args:
        mode: "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
        lengths: rows of every step, not growing, positive.
        reverse: whether the recurrence runs from the last step to the first.
        back: whether gradients are computed.
        arrays: C-contiguous, all float32 or all float64, by the names of `FORWARD` or `BACK`.
            Forward: input (S, I), bias (P, H), w_ih (…, I), w_hh (…, H); gates (P, S, H), out and cells (S, H) are
            written; h and c (N, H) begin as the initial and end as the final state.
            Back: gates, out, cells as forward left them, grad (S, H), h0 and c0 (N, H), w_hh; into (P, S, H), the
            gradient of the planes before the gates, is written; h and c (N, H) begin as the gradient of the final and
            end as that of the initial state. With g_input (S, I), which is written, w_ih and zero (I,), zeros.

    Raises:
        ArgumentError: an array is of another kind.
        MissingError: there are no kernels here; the text says why.
        MemoryError: no room for a copy of the weights.
    """
    gates, w_hh = arrays["into" if back else "gates"], arrays["w_hh"]
    wide = arrays.get("g_input" if back else "input")
    kind = gates.dtype
    features = 0 if wide is None else wide.shape[1]
    dtype = "f64" if kind.itemsize == 8 else "f32"
    plan, run, names = _planned(Shape(mode, back, dtype, w_hh.shape[1], features, lengths, reverse))
    given = [arrays[n] for n in names]
    for n, a in zip(names, given):
        if type(a) is not np.ndarray or a.dtype is not kind or not a.flags.c_contiguous:
            raise ArgumentError(f"sweep: {n} must be a C-contiguous array of {kind.name}")
    if not run(plan, *given):
        raise MemoryError("sweep: no memory for a copy of the weights")


def weights(mode: str, d: Any, input: Any, h0: Any, out: Any, reverse: bool, wanted: Sequence[bool]) -> list[Any]:
    """Return the gradients of w_ih, w_hh, b_ih and b_hh that are wanted, None for the others.

    Args:
        mode: as in `sweep`.
        d: (P, S, H), the gradient of the planes before the gates.
        input: (S, I).
        h0: (N, H), the states before the first step of each row.
        out: (S, H), the states after each step; all steps have N rows. Or (0, H), and h0 holds all S states before.

    All arrays are C-contiguous and of one dtype, float32 or float64.
    """
    _, rows, width = d.shape
    gates, features = GATES[mode], input.shape[1]
    count = sum(p.planes for p in gates.by_input)
    parts, made = [], []
    for name, want in zip(("w_ih", "w_hh", "b_ih", "b_hh"), wanted):
        columns = {"w_ih": (features,), "w_hh": (width,)}.get(name, ())
        made.append(np.empty((count * width, *columns), d.dtype) if want else None)
        side = gates.by_input if name.endswith("ih") else gates.by_state
        # Two biases that are added up have one gradient.
        if want and not (name == "b_hh" and made[2] is not None and gates.by_input == gates.by_state):
            parts += [(name, p.first, p.planes, p.row) for p in side]
    dtype = "f64" if d.dtype.itemsize == 8 else "f32"
    order = "reverse" if reverse else "forward"
    plan, sizes = _summed(dtype, width, rows, features, h0.shape[0], order, tuple(parts))
    given = (d, input, h0, out[h0.shape[0] :] if reverse else out)
    for a in given:
        if type(a) is not np.ndarray or a.dtype is not d.dtype or not a.flags.c_contiguous:
            raise ArgumentError(f"weights: expected C-contiguous arrays of {d.dtype.name}")
    _builtin(8, "sums")(plan, sizes, *given, *[d if m is None else m for m in made])
    if made[2] is not None and made[3] is not None and gates.by_input == gates.by_state:
        made[3][...] = made[2]
    return made


@functools.lru_cache(512)
def _summed(*given: Any) -> tuple[Any, Any]:
    plan, units, cost = cells_weights.planned(*given)
    return plan, np.array([units, cost], np.int64)


__all__ = ["BACK", "FORWARD", "GATES", "sweep", "weights"]
