"""Reductions of a block of elements to one, in an order that no compiler and no processor chooses.

Every block is added up in 32 lanes (16 of float64), the lanes as a tree. Sums of blocks are added as doubles, for
float64 with the rounding errors of the additions added up beside them. So a sum is the same for any vector width and
any number of threads, and its error does not grow with its length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .emit import Source, vector_loop
from .scalar import LLVM_TYPES, Scalar, convert, isnan, maximum, minimum, select, type_of
from .writer import Function, Value

LANES = {"i32": 32, "i64": 16}
"""Lanes, by the integer type of the size of the largest elements."""
LINE = 64
"""Bytes that come into the cache together."""
REDUCTIONS = ("sum", "max", "min")
IDENTITY = {"sum": "0.0", "max": "0xFFF0000000000000", "min": "0x7FF0000000000000"}


class Lanes:
    """The running reduction of a block in lanes."""

    def __init__(self, f: Function, name: str, dtype: str, lanes: int) -> None:
        self.f, self.name, self.lanes = f, name, lanes
        self.element, self.kind = LLVM_TYPES[dtype], type_of(dtype, lanes)
        self.identity = f"splat ({self.element} {IDENTITY[name]})"
        self.cell = f.cell(self.kind, self.identity)
        # A comparison drops NaN, so that they are kept beside it.
        self.broken = None if name == "sum" else f.cell(self.kind, self.identity)

    def take(self, x: Value, mask: Value) -> None:
        """Take a vector in; `mask` says which of its elements there are, "" that all are."""
        f, flags = self.f, f"<{self.lanes} x i1>"
        if mask:
            x = f.v(f"select {flags} {mask}, {self.kind} {x}, {self.kind} {self.identity}")
        self.cell.set(_combine(f, self.name, self.kind, self.cell.get(), x))
        if self.broken is not None:
            lost = f.v(f"fcmp uno {self.kind} {x}, {x}")
            self.broken.set(f.v(f"select {flags} {lost}, {self.kind} {x}, {self.kind} {self.broken.get()}"))

    def total(self) -> Value:
        """Return the result of the block as a double."""
        f, lanes, kind, total = self.f, self.lanes, self.kind, self.cell.get()
        while lanes > 1:
            lanes //= 2
            halves = []
            for start in (0, lanes):
                mask = ", ".join(f"i32 {start + i}" for i in range(lanes))
                halves.append(f.v(f"shufflevector {kind} {total}, {kind} poison, <{lanes} x i32> <{mask}>"))
            kind = f"<{lanes} x {self.element}>"
            total = _combine(f, self.name, kind, *halves)
        result = f.v(f"extractelement {kind} {total}, i64 0")
        if self.element == "float":
            result = f.v(f"fpext float {result} to double")
        if self.broken is None:
            return result
        flags = f.v(f"fcmp uno {self.kind} {self.broken.get()}, zeroinitializer")
        lost = f.compare("ne", f.v(f"bitcast <{self.lanes} x i1> {flags} to i{self.lanes}"), 0, f"i{self.lanes}")
        return f.choose(lost, "0x7FF8000000000000", result, "double")


def block_loop(
    f: Function,
    n: Value,
    lanes: int,
    places: Mapping[Source, Value],
    roots: Sequence[Scalar],
    outs: Sequence[Value],
    names: Mapping[str, Value],
    reduced: Sequence[Lanes],
    coming: Sequence[tuple[Value, int]] = (),
    *,
    word: str,
) -> None:
    """Write the loops over the elements of a block: whole vectors, then the last one in part.

    Args:
        n: how many elements there are.
        roots: results that are stored in `outs`, then those that `reduced` takes in.
        places, names, word: as for `vector_loop`.
        coming: where elements lie that are wanted soon, and their sizes: they are fetched, one line for each line read.
    """
    ahead = [(f.cell("ptr", place), lanes * size // LINE) for place, size in coming]

    def take(values: list[Value], mask: Value) -> None:
        for cell, lines in ahead if not mask else ():
            for _ in range(lines):
                f.do(f"call void @llvm.prefetch.p0(ptr {cell.get()}, i32 0, i32 3, i32 1)")
                cell.set(f.at(cell.get(), LINE))
        for running, value in zip(reduced, values):
            running.take(value, mask)

    whole = f.v(f"and i64 {n}, {-lanes}")
    for stop, begin in ((whole, "0"), (n, whole)):
        vector_loop(f, stop, begin, lanes, places, roots, outs, names, take, word=word, whole=stop is whole)


def _combine(f: Function, name: str, vector: str, a: Value, b: Value) -> Value:
    if name == "sum":
        return f.v(f"fadd {vector} {a}, {b}")
    better = f.v(f"fcmp {'ogt' if name == 'max' else 'olt'} {vector} {b}, {a}")
    return f.v(f"select {vector.split(' x ')[0]} x i1> {better}, {vector} {b}, {vector} {a}")


def accumulate(name: str, high: Scalar, low: Scalar, x: Scalar) -> tuple[Scalar, Scalar]:
    """Return the running result (a double and what rounding has lost of it) with one more value."""
    if name != "sum":
        return (maximum if name == "max" else minimum)(high, x), low
    total = high + x
    part = total - high
    # Knuth's two-sum: exact for finite numbers in any order of size.
    return total, low + ((high - (total - part)) + (x - part))


def total(name: str, high: Scalar, low: Scalar, dtype: str) -> Scalar:
    """Return the result of a reduction in its dtype."""
    # Beyond the range of numbers the error is NaN, and the sum alone is right.
    whole = high if name != "sum" else select(isnan(low), high, high + low)
    return convert(whole, dtype)


__all__ = ["IDENTITY", "LANES", "REDUCTIONS", "Lanes", "accumulate", "block_loop", "total"]
