"""The native text of gathering and scattering along one dimension.

Arrays are seen as (outer, n, inner): n is the dimension the indices run along. A unit is one outer index and a chunk of
the inner columns (scatter), so that everything that goes to one place is done by one unit, in order; or a chunk of n
(gather), which writes every place once.
"""

from __future__ import annotations

from collections.abc import Callable

from .direct import Job
from .emit import SIZES, loop_note
from .scalar import FLOATS, LLVM_TYPES, Scalar, lower, maximum, minimum, var
from .writer import Function, Module, Value

WORDS = ("n", "inner", "chunk", "chunks", "fo", "fr", "io", "ii", "ij", "so", "si", "sj", "to", "tr")
"""Sizes, then strides in bytes: of the array that indices point into (outer, row), of the indices and of the other
array (outer, n, inner); `to` and `tr` are those of a second index, for rows of the other array."""

COMBINE: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "maximum": maximum,
    "minimum": minimum,
    "set": lambda x, y: y,
}


def scatter(how: str, dtype: str) -> str:
    """Return the text of `rows` and `elements`, which combine an array into places of another.

    Arrays: places' array (its inner dimension without gaps), index, other array, second index or null, factors of rows
    or null. The last two are for `rows` only, whose index is the same for all inner columns.
    """
    module = Module()
    for name, body in (("rows", _scatter_rows), ("elements", _scatter_elements)):
        with module.function("void", name, "ptr %job", "i64 %begin", "i64 %end") as f:
            body(f, how, dtype)
    return module.text()


def gather(dtype: str) -> str:
    """Return the text of `rows` and `elements`, which bring elements of an array, of any type of this size."""
    module = Module()
    for name, body in (("rows", _gather_rows), ("elements", _gather_elements)):
        with module.function("void", name, "ptr %job", "i64 %begin", "i64 %end") as f:
            body(f, dtype)
    return module.text()


def _combined(f: Function, how: str, dtype: str, old: Value, new: Value) -> Value:
    """Write the combination of two values, whose names must be %x and %y."""
    lines, (value,) = lower([COMBINE[how](var(old, dtype), var(new, dtype))], prefix=f.label("c") + ".")
    for line in lines:
        f.do(line)
    return value


def _unit(f: Function, job: Job, unit: Value, total: Value) -> tuple[Value, Value, Value]:
    """Return a unit's outer index and its part of `total`: start and stop."""
    chunks, chunk = job.word("chunks"), job.word("chunk")
    start = f.mul(f.urem(unit, chunks), chunk)
    return f.udiv(unit, chunks), start, f.least(f.add(start, chunk), total)


def _note(f: Function) -> tuple[str, str]:
    """Return the metadata of a loop whose iterations are independent, and of its accesses."""
    group = f.module.metadata("distinct !{}")
    note = loop_note(f.module, f.module.metadata(f'!{{!"llvm.loop.parallel_accesses", {group}}}'))
    return note, f", !llvm.access.group {group}"


def _strides(job: Job, *names: str) -> list[Value]:
    return [job.word(n) for n in names]


def _scatter_rows(f: Function, how: str, dtype: str) -> None:
    kind, size = LLVM_TYPES[dtype], SIZES[dtype]
    job = Job(f, WORDS)
    n, inner = job.word("n"), job.word("inner")
    fo, fr, io, ii, so, si, to, tr = _strides(job, "fo", "fr", "io", "ii", "so", "si", "to", "tr")
    target, index, other, second, factors = (job.array(i) for i in range(5))
    note, tail = _note(f)
    weighed = f.compare("ne", factors, "null", "ptr")
    mapped = f.compare("ne", second, "null", "ptr")
    factor, row = f.cell(kind), f.cell("i64")
    with f.loop("%end", "%begin") as unit:
        outer, start, stop = _unit(f, job, unit, inner)
        skip = f.mul(start, size)
        places = f.at(f.at(target, f.mul(outer, fo)), skip)
        given = f.at(f.at(other, f.mul(outer, so)), skip)
        where, which = f.at(index, f.mul(outer, io)), f.at(second, f.mul(outer, to))
        width = f.sub(stop, start)
        with f.loop(n) as i:
            row.set(i)
            with f.when(mapped):
                row.set(f.field("i64", which, f.mul(i, tr)))
            place = f.at(places, f.mul(f.field("i64", where, f.mul(i, ii)), fr))
            here = f.at(given, f.mul(row.get(), si))
            with f.when(weighed):
                factor.set(f.load(kind, f.element(kind, factors, i)))
                a = factor.get()
                with f.loop(width, note=note) as j:
                    x = f.load(kind, f.element(kind, place, j), tail)
                    y = f.load(kind, f.element(kind, here, j), tail)
                    y = f.v(f"{'fmul' if dtype in FLOATS else 'mul'} {kind} {a}, {y}")
                    f.store(kind, _combined(f, how, dtype, x, y), f.element(kind, place, j), tail)
            with f.unless(weighed):
                with f.loop(width, note=note) as j:
                    x = f.load(kind, f.element(kind, place, j), tail)
                    y = f.load(kind, f.element(kind, here, j), tail)
                    f.store(kind, _combined(f, how, dtype, x, y), f.element(kind, place, j), tail)


def _scatter_elements(f: Function, how: str, dtype: str) -> None:
    kind, size = LLVM_TYPES[dtype], SIZES[dtype]
    job = Job(f, WORDS)
    n, inner = job.word("n"), job.word("inner")
    fo, fr, io, ii, ij, so, si, sj = _strides(job, "fo", "fr", "io", "ii", "ij", "so", "si", "sj")
    target, index, other = (job.array(i) for i in range(3))
    with f.loop("%end", "%begin") as unit:
        outer, start, stop = _unit(f, job, unit, inner)
        places = f.at(target, f.mul(outer, fo))
        given, where = f.at(other, f.mul(outer, so)), f.at(index, f.mul(outer, io))
        # One column without gaps, the usual case, needs no strides.
        flat = f.all_of([f.compare("eq", x, y) for x, y in ((inner, 1), (fr, size), (ii, 8), (si, size))])
        with f.when(flat), f.loop(n) as i:
            place = f.element(kind, places, f.load("i64", f.element("i64", where, i)))
            y = f.load(kind, f.element(kind, given, i))
            f.store(kind, _combined(f, how, dtype, f.load(kind, place), y), place)
        with f.unless(flat), f.loop(n) as i:
            here, spot = f.at(given, f.mul(i, si)), f.at(where, f.mul(i, ii))
            with f.loop(stop, start) as j:
                row = f.field("i64", spot, f.mul(j, ij))
                place = f.at(f.at(places, f.mul(row, fr)), f.mul(j, size))
                y = f.load(kind, f.at(here, f.mul(j, sj)))
                f.store(kind, _combined(f, how, dtype, f.load(kind, place), y), place)


def _gather_rows(f: Function, dtype: str) -> None:
    kind = LLVM_TYPES[dtype]
    job = Job(f, WORDS)
    n, inner = job.word("n"), job.word("inner")
    fo, fr, io, ii, so, si = _strides(job, "fo", "fr", "io", "ii", "so", "si")
    source, index, out = (job.array(i) for i in range(3))
    note, tail = _note(f)
    with f.loop("%end", "%begin") as unit:
        outer, start, stop = _unit(f, job, unit, n)
        given, to, where = f.at(source, f.mul(outer, fo)), f.at(out, f.mul(outer, so)), f.at(index, f.mul(outer, io))
        with f.loop(stop, start) as i:
            here = f.at(given, f.mul(f.field("i64", where, f.mul(i, ii)), fr))
            place = f.at(to, f.mul(i, si))
            with f.loop(inner, note=note) as j:
                f.store(kind, f.load(kind, f.element(kind, here, j), tail), f.element(kind, place, j), tail)


def _gather_elements(f: Function, dtype: str) -> None:
    kind, size = LLVM_TYPES[dtype], SIZES[dtype]
    job = Job(f, WORDS)
    n, inner = job.word("n"), job.word("inner")
    fo, fr, io, ii, ij, so, si, sj = _strides(job, "fo", "fr", "io", "ii", "ij", "so", "si", "sj")
    # The columns of the array that indices point into are `tr` apart.
    column = job.word("tr")
    source, index, out = (job.array(i) for i in range(3))
    with f.loop("%end", "%begin") as unit:
        outer, start, stop = _unit(f, job, unit, n)
        given, to, where = f.at(source, f.mul(outer, fo)), f.at(out, f.mul(outer, so)), f.at(index, f.mul(outer, io))
        # One column without gaps, the usual case, needs no strides.
        flat = f.all_of([f.compare("eq", x, y) for x, y in ((inner, 1), (fr, size), (ii, 8), (si, size))])
        with f.when(flat), f.loop(stop, start) as i:
            row = f.load("i64", f.element("i64", where, i))
            f.store(kind, f.load(kind, f.element(kind, given, row)), f.element(kind, to, i))
        with f.unless(flat), f.loop(stop, start) as i:
            spot, place = f.at(where, f.mul(i, ii)), f.at(to, f.mul(i, si))
            with f.loop(inner) as j:
                row = f.field("i64", spot, f.mul(j, ij))
                here = f.at(f.at(given, f.mul(row, fr)), f.mul(j, column))
                f.store(kind, f.load(kind, here), f.at(place, f.mul(j, sj)))


__all__ = ["WORDS", "gather", "scatter"]
