"""Gradients of a recurrent layer's weights and biases: sums over the rows of all steps, in one native call.

An element is one sum in the order of the rows, whatever thread computes it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from . import cells_product
from .cells_product import KINDS
from .layout import fields
from .rows import JOB
from .writer import Function, Module

CHUNK = 64
"""Gates that one unit computes the gradients of."""
DEPTH = 64
"""Rows that are packed together: with the columns of a panel, a third of a first-level cache."""

SUMS = fields("rows", "row", "width", "double", "products")
"""How many rows d has, their bytes, the gates of a plane; then come the products."""
SUM = fields(
    "units", "d", "d_start", "d_plane", "c", "c_start", "columns", "first", "first_rows", "second", "second_rows"
)
"""Transposed parts of d times the rows of `first` and then those of `second`, into c; no `first` (-1): times ones."""


def define(module: Module) -> None:
    """Define `sum_units`, which computes units of a job; `product_t_<dtype>` and `pack_<dtype>` are in the module."""
    for dtype in KINDS:
        head = ("ptr %plan", "ptr %sum", "ptr %data", "i64 %unit")
        with module.function("void", f"weights_{dtype}", *head, apart=True) as f:
            _weights(f, dtype)
    with module.function("void", "sum_units", "ptr %job", "i64 %begin", "i64 %end", apart=True) as f:
        plan, data = f.field("ptr", "%job", JOB["geometry"]), f.field("ptr", "%job", JOB["pointers"])
        products, double = f.field("i64", plan, SUMS["products"]), f.field("i64", plan, SUMS["double"])
        with f.loop("%end", "%begin") as unit:
            passed = f.cell("i64", 0)
            with f.loop(products) as k:
                entry = f.at(f.at(plan, 8 * len(SUMS)), f.mul(k, 8 * len(SUM)))
                own, before = f.field("i64", entry, SUM["units"]), passed.get()
                here = f.both(f.compare("sge", unit, before), f.compare("slt", unit, f.add(before, own)))
                for dtype in KINDS:
                    kind = f.compare("eq", double, int(dtype == "f64"))
                    with f.when(f.both(here, kind)):
                        given = (f"ptr {plan}", f"ptr {entry}", f"ptr {data}", f"i64 {f.sub(unit, before)}")
                        f.call("void", f"@weights_{dtype}", *given)
                passed.set(f.add(before, own))


def _weights(f: Function, dtype: str) -> None:
    """Compute the gradients of one chunk of one plane's gates."""
    kind, item = KINDS[dtype]
    word = {name: f.field("i64", "%sum", offset) for name, offset in SUM.items()}
    width, row = f.field("i64", "%plan", SUMS["width"]), f.field("i64", "%plan", SUMS["row"])
    chunks = f.udiv(f.add(width, CHUNK - 1), CHUNK)
    part, first = f.udiv("%unit", chunks), f.mul(f.urem("%unit", chunks), CHUNK)
    count = f.least(f.sub(width, first), CHUNK)
    start = f.add(f.add(word["d_start"], f.mul(part, word["d_plane"])), f.mul(first, item))
    d = f.at(f.load("ptr", f.element("ptr", "%data", word["d"])), start)
    gate = f.mul(f.add(f.mul(part, width), first), f.mul(word["columns"], item))
    c = f.at(f.load("ptr", f.element("ptr", "%data", word["c"])), f.add(word["c_start"], gate))
    plain = f.compare("slt", word["first"], 0)
    with f.when(plain):
        whole = f.compare("eq", count, CHUNK)
        lanes = cells_product.lanes(dtype)
        vector, tail = f"<{lanes} x {kind}>", f", align {item}"
        with f.when(whole):
            starts = range(0, CHUNK * item, lanes * item)
            sums = [f.cell(vector, "zeroinitializer") for _ in starts]
            with f.loop(f.field("i64", "%plan", SUMS["rows"])) as k:
                line = f.at(d, f.mul(k, row))
                for total, place in zip(sums, starts):
                    total.set(f.v(f"fadd {vector} {total.get()}, {f.load(vector, f.at(line, place), tail)}"))
            for total, place in zip(sums, starts):
                f.store(vector, total.get(), f.at(c, place), tail)
        with f.unless(whole), f.loop(count) as j:
            total = f.cell(kind, "0.0")
            with f.loop(f.field("i64", "%plan", SUMS["rows"])) as k:
                one = f.load(kind, f.element(kind, f.at(d, f.mul(k, row)), j))
                total.set(f.v(f"fadd {kind} {total.get()}, {one}"))
            f.store(kind, total.get(), f.element(kind, c, j))
    with f.unless(plain):
        wide = cells_product.columns(dtype)
        panel, zeros = f.space(kind, DEPTH * wide, 64), f.space(kind, wide, 64)
        with f.loop(wide) as j:
            f.store(kind, "0.0", f.element(kind, zeros, j))
        c_row = f.mul(word["columns"], item)
        with f.loop(word["columns"], step=wide) as column:
            valid = f.least(f.sub(word["columns"], column), wide)
            corner, done = f.at(c, f.mul(column, item)), f.cell("i64", 0)
            for name in ("first", "second"):
                rows = word[f"{name}_rows"]
                index = f.choose(f.compare("eq", rows, 0), 0, word[name])
                x = f.at(f.load("ptr", f.element("ptr", "%data", index)), f.mul(column, item))
                with f.loop(rows, step=DEPTH) as k:
                    depth = f.least(f.sub(rows, k), DEPTH)
                    pieces = (f"ptr {panel}", f"ptr {f.at(x, f.mul(k, c_row))}", f"i64 {c_row}", f"i64 {item}")
                    f.call("void", f"@pack_{dtype}", *pieces, f"i64 {depth}", f"i64 {valid}")
                    fresh = f.compare("eq", done.get(), 0)
                    begin, begin_row = f.choose(fresh, zeros, corner, "ptr"), f.choose(fresh, 0, c_row)
                    line = f.at(d, f.mul(done.get(), row))
                    places = (f"ptr {corner}", f"i64 {c_row}", f"ptr {begin}", f"i64 {begin_row}", f"ptr {line}")
                    sizes = (f"i64 {row}", f"ptr {panel}", f"i64 {depth}", f"i64 {valid}", f"i64 {count}")
                    f.call("void", f"@product_t_{dtype}", *places, *sizes)
                    done.set(f.add(done.get(), depth))


@functools.lru_cache(512)
def planned(
    dtype: str,
    width: int,
    rows: int,
    features: int,
    batch: int,
    order: str,
    parts: tuple[tuple[str, int, int, int], ...],
) -> tuple[Any, int, int]:
    """Return the plan as an array, its units, and its cost in nanoseconds.

    Args:
        features: of the input.
        batch: rows of the initial state; the states before the steps are those of "first" and then of "second".
        order: "forward" where the initial state comes first, "reverse" where it comes last.
        parts: (what, first plane, planes, first part of the gradient) for w_ih, w_hh, b_ih, b_hh.
    """
    item = KINDS[dtype][1]
    row = width * item
    place = {"d": 0, "input": 1, "w_ih": 4, "w_hh": 5, "b_ih": 6, "b_hh": 7}
    words: list[int] = []
    units = work = 0
    for what, first, count, start in parts:
        columns = {"w_ih": features, "w_hh": width}.get(what, 1)
        past = [(2, batch), (3, rows - batch)]
        if order == "reverse":
            past = [(3, rows - batch), (2, batch)]
        sources = {"w_ih": [(1, rows), (0, 0)], "w_hh": past}.get(what, [(-1, rows), (0, 0)])
        own = count * -(-width // CHUNK)
        entry = dict.fromkeys(SUM, 0) | {
            "units": own, "d": place["d"], "d_start": first * rows * row, "d_plane": rows * row, "c": place[what],
            "c_start": start * width * columns * item, "columns": columns,
            "first": sources[0][0], "first_rows": sources[0][1], "second": sources[1][0], "second_rows": sources[1][1],
        }  # fmt: skip
        words += entry.values()
        units += own
        work += count * width * columns * rows // 30
    head = {"rows": rows, "row": row, "width": width, "double": int(dtype == "f64"), "products": len(parts)}
    return np.array([*head.values(), *words], np.int64), units, work


__all__ = ["define", "planned"]
