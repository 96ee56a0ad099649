"""Entries at the class each target names, by native code: the negative log likelihood and its gradient.

Log-probabilities are seen as (outer, classes, inner), targets as (outer, inner), both without gaps. Sums are taken in
double precision, in order.
"""

from __future__ import annotations

import functools
import struct
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from . import direct, engine
from .direct import Job
from .writer import Function, Module, Value

Array = ndarray[Any, Any]

KINDS = {"f": "float", "d": "double"}
WORDS = ("outer", "classes", "inner", "ignore", "mean", "spread")
_WORDS = struct.Struct("9q")
_INT64 = np.dtype(np.int64)
COST = 2
"""Nanoseconds a target costs, about."""
WRITTEN = 8
"""Elements that are set to zero in a nanosecond, about."""
GRAIN = 4096
"""Elements that one thread sets at least."""


@functools.cache
def _functions(letter: str) -> tuple[Any, ...]:
    """Return the builtins for a type: entries at the targets, the sum of their weights, and their gradient."""
    module = Module()
    parts = {"entries": _entries, "divisor": _divisor, "spread": _spread}
    for name, body in parts.items():
        with module.function("void", name, "ptr %job", "i64 %begin", "i64 %end") as f:
            body(f, KINDS[letter])
    found = engine.load(module.text(), list(parts), level=2)
    return tuple(direct.make(name, found[name]) for name in parts)


class _Targets:
    """The walk over all targets: a loop body gets the class, its weight and its place."""

    def __init__(self, f: Function, job: Job, kind: str, target: Value, weight: Value) -> None:
        self.f, self.kind, self.target, self.weight = f, kind, target, weight
        self.outer, self.classes, self.inner = (job.word(n) for n in ("outer", "classes", "inner"))
        self.ignore = job.word("ignore")
        self.weighed = f.compare("ne", weight, "null", "ptr")
        self.factor = f.cell(kind)

    def factor_of(self, chosen: Value) -> Value:
        """Return the weight of a class, which must be one."""
        f, kind = self.f, self.kind
        self.factor.set("1.0")
        with f.when(self.weighed):
            self.factor.set(f.load(kind, f.element(kind, self.weight, chosen)))
        return self.factor.get()


def _entries(f: Function, kind: str) -> None:
    """Arrays: input, target, weight, terms or null, the result or null."""
    job = Job(f, WORDS)
    x, target, weight, terms, result = (job.array(i) for i in range(5))
    walk = _Targets(f, job, kind, target, weight)
    total, weights, term = f.cell("double", "0.0"), f.cell("double", "0.0"), f.cell(kind)
    single = f.compare("ne", terms, "null", "ptr")
    with f.loop(walk.outer) as o, f.loop(walk.inner) as j:
        place = f.add(f.mul(o, walk.inner), j)
        chosen = f.load("i64", f.element("i64", target, place))
        term.set("0.0")
        with f.when(f.compare("ne", chosen, walk.ignore)):
            with f.when(f.compare("uge", chosen, walk.classes), seldom=True):
                job.fail()
                f.ret()
            w = walk.factor_of(chosen)
            at = f.add(f.mul(f.add(f.mul(o, walk.classes), chosen), walk.inner), j)
            found = f.load(kind, f.element(kind, x, at))
            term.set(f.v(f"fmul {kind} {f.v(f'fneg {kind} {found}')}, {w}"))
            weights.set(f.v(f"fadd double {weights.get()}, {_wide(f, w, kind)}"))
        total.set(f.v(f"fadd double {total.get()}, {_wide(f, term.get(), kind)}"))
        with f.when(single):
            f.store(kind, term.get(), f.element(kind, terms, place))
    with f.when(f.compare("ne", result, "null", "ptr")):
        mean = f.compare("ne", job.word("mean"), 0)
        divisor = f.choose(mean, weights.get(), "1.0", "double")
        f.store(kind, _narrow(f, f.v(f"fdiv double {total.get()}, {divisor}"), kind), result)
    f.ret()


def _divisor(f: Function, kind: str) -> None:
    """Arrays: target, weight, result: the sum of the weights of all targets."""
    job = Job(f, WORDS)
    target, weight, result = (job.array(i) for i in range(3))
    walk = _Targets(f, job, kind, target, weight)
    weights = f.cell("double", "0.0")
    with f.loop(f.mul(walk.outer, walk.inner)) as place:
        chosen = f.load("i64", f.element("i64", target, place))
        with f.when(f.compare("ne", chosen, walk.ignore)):
            with f.when(f.compare("uge", chosen, walk.classes), seldom=True):
                job.fail()
                f.ret()
            weights.set(f.v(f"fadd double {weights.get()}, {_wide(f, walk.factor_of(chosen), kind)}"))
    f.store(kind, _narrow(f, weights.get(), kind), result)
    f.ret()


def _spread(f: Function, kind: str) -> None:
    """Arrays: gradient, target, weight, divisor or null, result; a unit is one of the outer rows."""
    job = Job(f, WORDS)
    g, target, weight, divisor, out = (job.array(i) for i in range(5))
    walk = _Targets(f, job, kind, target, weight)
    each = job.word("spread")
    size = 4 if kind == "float" else 8
    row = f.mul(f.mul(walk.classes, walk.inner), size)
    divided = f.compare("ne", divisor, "null", "ptr")
    by = f.cell(kind, "1.0")
    with f.when(divided):
        by.set(f.load(kind, divisor))
    with f.loop("%end", "%begin") as o:
        here = f.at(out, f.mul(o, row))
        f.do(f"call void @llvm.memset.p0.i64(ptr {here}, i8 0, i64 {row}, i1 false)")
        with f.loop(walk.inner) as j:
            place = f.add(f.mul(o, walk.inner), j)
            chosen = f.load("i64", f.element("i64", target, place))
            with f.when(f.compare("ne", chosen, walk.ignore)):
                with f.when(f.compare("uge", chosen, walk.classes), seldom=True):
                    job.fail()
                    f.ret()
                share = f.v(f"fdiv {kind} {walk.factor_of(chosen)}, {by.get()}")
                given = f.load(kind, f.element(kind, g, f.mul(place, each)))
                value = f.v(f"fmul {kind} {f.v(f'fneg {kind} {given}')}, {share}")
                f.store(kind, value, f.element(kind, here, f.add(f.mul(chosen, walk.inner), j)))
    f.ret()


def _wide(f: Function, value: Value, kind: str) -> Value:
    return value if kind == "double" else f.v(f"fpext float {value} to double")


def _narrow(f: Function, value: Value, kind: str) -> Value:
    return value if kind == "double" else f.v(f"fptrunc double {value} to float")


def _plain(a: Any, dtype: Any) -> bool:
    return type(a) is ndarray and a.dtype is dtype and a.flags.c_contiguous


def _fits(shape: tuple[int, ...], dtype: Any, target: Any, weight: Any) -> bool:
    """Return whether native code knows arrays of this kind."""
    if dtype.char not in KINDS or len(shape) < 2 or not _plain(target, _INT64):
        return False
    if target.shape != (shape[0], *shape[2:]):
        return False
    return weight is None or (_plain(weight, dtype) and weight.shape == shape[1:2])


def _words(shape: tuple[int, ...], ignore: int, mean: bool, spread: bool, rows: bool = False) -> bytes:
    """Return the words of a job, which is one unit or, by `rows`, as many as there are outer rows."""
    inner = prod(shape[2:])
    cost = COST * shape[0] * inner
    if rows:
        cost += shape[0] * shape[1] * inner // WRITTEN
        # A unit is so many rows that sharing them out costs little beside them.
        return _WORDS.pack(
            shape[0], max(1, GRAIN // max(1, shape[1] * inner)), cost, *shape[:2], inner, ignore, mean, spread
        )
    return _WORDS.pack(1, 1, cost, *shape[:2], inner, ignore, mean, spread)


def entries(x: Array, target: Array, weight: Array | None, reduction: str, ignore: int) -> Any:
    """Return minus the weighted entries, or their sum or mean; None where it is not known how, or a target is wrong."""
    if not x.flags.c_contiguous or not _fits(x.shape, x.dtype, target, weight):
        return None
    single = reduction == "none"
    out = np.empty(target.shape if single else (), x.dtype)
    terms, result = (out, None) if single else (None, out)
    words = _words(x.shape, ignore, reduction == "mean", False)
    failed = _functions(x.dtype.char)[0](words, x, target, weight, terms, result)
    return None if failed else out


def spread(
    g: Array, target: Array, weight: Array | None, shape: tuple[int, ...], reduction: str, ignore: int
) -> Array | None:
    """Return the gradient of `entries` with respect to x of the given shape; None as there."""
    single = reduction == "none"
    if not _fits(shape, g.dtype, target, weight) or not _plain(g, g.dtype):
        return None
    if g.shape != (target.shape if single else ()):
        return None
    _, divisor, filled = _functions(g.dtype.char)
    by = None
    if reduction == "mean":
        by = np.empty((), g.dtype)
        if divisor(_words(shape, ignore, True, single), target, weight, by):
            return None
    out = np.empty(shape, g.dtype)
    failed = filled(_words(shape, ignore, by is not None, single, True), g, target, weight, by, out)
    return None if failed else out


__all__ = ["entries", "spread"]
