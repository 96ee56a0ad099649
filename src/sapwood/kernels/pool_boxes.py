"""Pooling over boxes in native code: windows of any sizes, given by where they begin and end in each dimension.

The means and maxima of adaptive pooling, the adjoint of means of any kind, and putting elements back at flat indices.
One plane is computed by one thread from its first element to its last, so results do not depend on threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from . import workspace
from .layout import DATA, fields
from .pool_windows import MAX_NDIM, PLANS
from .tiles import Kind, Sizes, word
from .workspace import JOB, OPERANDS
from .writer import Function, Module, Value

Plan = np.ndarray[Any, Any]
SPACE = 3
_LISTS = ("size", "count", "low", "high", "divisor")
HEAD = fields("planes", "slot_bytes", "ndim", "bytes", "image", "windows", "cost", "add")
HEAD |= {"shape": 8 * len(HEAD)}
HEAD |= {name: HEAD["shape"] + 8 * (MAX_NDIM + SPACE * i) for i, name in enumerate(_LISTS)}
HEAD_WORDS = (HEAD["divisor"] // 8) + SPACE
"""image and windows: elements of a plane on either side. Per dimension: size of the image, number of windows; low, high
and divisor: the words where tables of one number per window begin."""

Range = tuple[int, int]


@lru_cache(maxsize=PLANS)
def plan(
    shape: Sizes, lead: int, size: Sizes, out: Sizes, ranges: tuple[tuple[Range, ...], ...],
    divisors: tuple[Sizes, ...] | None, item: int,
) -> Plan:  # fmt: skip
    """Return the plan of a pooling over boxes, or of its adjoint.

    Args:
        shape: of the result; lead: number of its dimensions that are not pooled.
        size, out: of the image, and number of windows, per pooled dimension.
        ranges: per dimension and window, its first element and the one behind its last.
        divisors: per dimension and window, the factors of what divides; the lengths if not given.
    """
    planes = prod(shape[:lead])
    extra = SPACE - len(size)
    full_ranges: Sequence[Sequence[Range]] = [((0, 1),)] * extra + list(ranges)
    lows = [[a for a, _ in r] for r in full_ranges]
    highs = [[b for _, b in r] for r in full_ranges]
    if divisors is None:
        by = [[b - a for a, b in r] for r in full_ranges]
    else:
        by = [[1]] * extra + [list(d) for d in divisors]
    tables: list[int] = []
    places: list[int] = []
    for group in (lows, highs, by):
        for values in group:
            places.append(HEAD_WORDS + len(tables))
            tables += values
    met = prod(sum(b - a for a, b in r) for r in full_ranges)
    ones = (1,) * extra
    head = [
        planes, -(-size[-1] * item // 64) * 64 + 64, len(shape), prod(shape) * item, prod(size), prod(out),
        planes * (met + prod(size)), 0,
    ]  # fmt: skip
    lists = [*shape, *[0] * (MAX_NDIM - len(shape)), *ones, *size, *ones, *out, *places]
    return np.array([*head, *lists, *tables], np.int64)


@lru_cache(maxsize=PLANS)
def scatter_plan(shape: Sizes, lead: int, windows: int, add: bool, item: int) -> Plan:
    """Return the plan of putting `windows` elements per plane back into images of the shape."""
    planes, image = prod(shape[:lead]), prod(shape[lead:])
    head = [planes, 64, len(shape), prod(shape) * item, image, windows, planes * (windows + image // 8), int(add)]
    lists = [*shape, *[0] * (MAX_NDIM - len(shape) + SPACE * len(_LISTS))]
    return np.array([*head, *lists], np.int64)


X, Y, AT = range(3)
NAMES = ("box_means", "box_places", "box_spread", "scatter")


def define(module: Module, kind: Kind) -> None:
    """Define the C functions of `NAMES`: builtins of (plan, images), `scatter` of (plan, elements, indices)."""
    for name, write in zip(NAMES, (_means, _places, _spread, _scatter)):
        with module.function("void", f"{name}_units", "ptr %job", "i64 %begin", "i64 %end", apart=True) as f:
            plan = f.field("ptr", "%job", JOB["plan"])
            x, y, at = (workspace.operand(f, "%job", i) for i in (X, Y, AT))
            image, windows = word(f, plan, HEAD["image"]), word(f, plan, HEAD["windows"])
            scratch = workspace.slot(f, "%job") if name == "box_means" else "null"
            forward = name in ("box_means", "box_places")
            with f.loop("%end", "%begin") as u:
                ours, theirs = (image, windows) if forward else (windows, image)
                source = f.element(kind.name, x, f.mul(u, ours))
                to = f.element(kind.name, y, f.mul(u, theirs))
                write(f, kind, plan, source, to, f.element("i64", at, f.mul(u, windows)), scratch)
        with module.function("ptr", name, "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
            _call(f, name)


class _Boxes:
    """The tables of a plan, loaded once."""

    def __init__(self, f: Function, plan: Value) -> None:
        self.f = f
        self.size, self.count = ([word(f, plan, HEAD[n], i) for i in range(SPACE)] for n in ("size", "count"))
        self.tables = {
            n: [f.element("i64", plan, word(f, plan, HEAD[n], i)) for i in range(SPACE)]
            for n in ("low", "high", "divisor")
        }

    def entry(self, name: str, dim: int, i: Value) -> Value:
        return self.f.load("i64", self.f.element("i64", self.tables[name][dim], i))

    def row(self, dim_values: tuple[Value, Value]) -> Value:
        """Return the index of the first element of a row of the image."""
        f = self.f
        return f.mul(f.add(f.mul(dim_values[0], self.size[1]), dim_values[1]), self.size[2])


def _means(f: Function, kind: Kind, plan: Value, x: Value, y: Value, at: Value, scratch: Value) -> None:
    """Add the rows that a row of windows meets, then the elements of each window."""
    boxes = _Boxes(f, plan)
    width = boxes.size[2]
    v = kind.vector
    whole = f.v(f"and i64 {width}, {-kind.lanes}")
    with f.loop(boxes.count[0]) as a:
        with f.loop(boxes.count[1]) as b:
            f.call("void", "@fill_run", f"ptr {scratch}", f"i64 {width}", f"{kind.name} 0.0")
            with f.loop(boxes.entry("high", 0, a), boxes.entry("low", 0, a)) as i:
                with f.loop(boxes.entry("high", 1, b), boxes.entry("low", 1, b)) as j:
                    row = f.element(kind.name, x, boxes.row((i, j)))
                    with f.loop(whole, 0, kind.lanes) as k:
                        spot = f.element(kind.name, scratch, k)
                        more = kind.load(f, f.element(kind.name, row, k))
                        kind.store(f, f.v(f"fadd {v} {kind.load(f, spot)}, {more}"), spot)
                    with f.loop(width, whole) as k:
                        spot = f.element(kind.name, scratch, k)
                        more = f.load(kind.name, f.element(kind.name, row, k))
                        f.store(kind.name, f.v(f"fadd {kind.name} {f.load(kind.name, spot)}, {more}"), spot)
            lines = f.mul(boxes.entry("divisor", 0, a), boxes.entry("divisor", 1, b))
            to = f.mul(f.add(f.mul(a, boxes.count[1]), b), boxes.count[2])
            with f.loop(boxes.count[2]) as c:
                total = f.cell(kind.name)
                total.set("0.0")
                with f.loop(boxes.entry("high", 2, c), boxes.entry("low", 2, c)) as k:
                    more = f.load(kind.name, f.element(kind.name, scratch, k))
                    total.set(f.v(f"fadd {kind.name} {total.get()}, {more}"))
                n = f.v(f"sitofp i64 {f.mul(lines, boxes.entry('divisor', 2, c))} to {kind.name}")
                mean = f.v(f"fdiv {kind.name} {total.get()}, {n}")
                f.store(kind.name, mean, f.element(kind.name, y, f.add(to, c)))


def _places(f: Function, kind: Kind, plan: Value, x: Value, y: Value, at: Value, scratch: Value) -> None:
    """Find the largest element of each window; the first of equals, but the last NaN."""
    boxes = _Boxes(f, plan)
    with f.loop(boxes.count[0]) as a:
        with f.loop(boxes.count[1]) as b:
            to = f.mul(f.add(f.mul(a, boxes.count[1]), b), boxes.count[2])
            with f.loop(boxes.count[2]) as c:
                corner = f.add(
                    boxes.row((boxes.entry("low", 0, a), boxes.entry("low", 1, b))), boxes.entry("low", 2, c)
                )
                best, where = f.cell(kind.name), f.cell("i64")
                best.set(f.load(kind.name, f.element(kind.name, x, corner)))
                where.set(corner)
                with f.loop(boxes.entry("high", 0, a), boxes.entry("low", 0, a)) as i:
                    with f.loop(boxes.entry("high", 1, b), boxes.entry("low", 1, b)) as j:
                        row = boxes.row((i, j))
                        with f.loop(boxes.entry("high", 2, c), boxes.entry("low", 2, c)) as k:
                            index = f.add(row, k)
                            value, now = f.load(kind.name, f.element(kind.name, x, index)), best.get()
                            above = f.v(f"fcmp ogt {kind.name} {value}, {now}")
                            wins = f.either(above, f.v(f"fcmp uno {kind.name} {value}, {value}"))
                            best.set(f.choose(wins, value, now, kind.name))
                            where.set(f.choose(wins, index, where.get()))
                f.store(kind.name, best.get(), f.element(kind.name, y, f.add(to, c)))
                f.store("i64", where.get(), f.element("i64", at, f.add(to, c)))


def _spread(f: Function, kind: Kind, plan: Value, g: Value, y: Value, at: Value, scratch: Value) -> None:
    """Add each element, divided, to all elements of its window."""
    boxes = _Boxes(f, plan)
    f.call("void", "@fill_run", f"ptr {y}", f"i64 {word(f, plan, HEAD['image'])}", f"{kind.name} 0.0")
    with f.loop(boxes.count[0]) as a:
        with f.loop(boxes.count[1]) as b:
            lines = f.mul(boxes.entry("divisor", 0, a), boxes.entry("divisor", 1, b))
            source = f.mul(f.add(f.mul(a, boxes.count[1]), b), boxes.count[2])
            with f.loop(boxes.count[2]) as c:
                n = f.v(f"sitofp i64 {f.mul(lines, boxes.entry('divisor', 2, c))} to {kind.name}")
                given = f.load(kind.name, f.element(kind.name, g, f.add(source, c)))
                share = f.v(f"fdiv {kind.name} {given}, {n}")
                low, high = boxes.entry("low", 2, c), boxes.entry("high", 2, c)
                with f.loop(boxes.entry("high", 0, a), boxes.entry("low", 0, a)) as i:
                    with f.loop(boxes.entry("high", 1, b), boxes.entry("low", 1, b)) as j:
                        row = f.element(kind.name, y, boxes.row((i, j)))
                        with f.loop(high, low) as k:
                            spot = f.element(kind.name, row, k)
                            f.store(kind.name, f.v(f"fadd {kind.name} {f.load(kind.name, spot)}, {share}"), spot)


def _scatter(f: Function, kind: Kind, plan: Value, g: Value, y: Value, at: Value, scratch: Value) -> None:
    """Put elements at flat indices: those that meet add up, or the last one stays."""
    image = word(f, plan, HEAD["image"])
    f.call("void", "@fill_run", f"ptr {y}", f"i64 {image}", f"{kind.name} 0.0")
    add = f.compare("ne", word(f, plan, HEAD["add"]), 0)
    windows = word(f, plan, HEAD["windows"])
    for wanted in (add, f.no(add)):
        with f.when(wanted):
            with f.loop(windows) as i:
                index = f.load("i64", f.element("i64", at, i))
                # Indices that are not of this image cannot come from a pooling; they must not write elsewhere.
                with f.when(f.compare("ult", index, image)):
                    spot = f.element(kind.name, y, index)
                    value = f.load(kind.name, f.element(kind.name, g, i))
                    if wanted == add:
                        value = f.v(f"fadd {kind.name} {f.load(kind.name, spot)}, {value}")
                    f.store(kind.name, value, spot)


def _call(f: Function, name: str) -> None:
    table, plan = workspace.begin(f)
    ndim, shape, size = word(f, plan, HEAD["ndim"]), f.at(plan, HEAD["shape"]), word(f, plan, HEAD["bytes"])
    outs = [workspace.new(f, table, "descr", ndim, shape, size)]
    if name == "box_places":
        outs.append(workspace.new(f, table, "indices", ndim, shape, f.mul(size, 2), *outs))
    at = workspace.argument(f, 2) if name == "scatter" else outs[-1]
    units, slot_bytes = word(f, plan, HEAD["planes"]), word(f, plan, HEAD["slot_bytes"])
    threads = workspace.threads(f, table, units)
    memory = workspace.scratch(f, table, f.mul(threads, slot_bytes), *outs)
    job = workspace.space(f)
    for i, array in enumerate((workspace.argument(f, 1), outs[0], at)):
        f.put("ptr", f.field("ptr", array, DATA), job, OPERANDS + 8 * i)
    cost = word(f, plan, HEAD["cost"])
    workspace.run(f, table, job, plan, units, f"@{name}_units", cost, threads, memory, slot_bytes)
    f.call("void", "@give", f"ptr {table}", f"ptr {memory}")
    workspace.answer(f, table, outs)


__all__ = ["NAMES", "define", "plan", "scatter_plan"]
