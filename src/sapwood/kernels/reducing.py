"""Reductions of a block of contiguous elements to one, in an order that no compiler and no processor chooses.

Every block is added up in 32 lanes (16 of float64), the lanes as a tree. Sums of blocks are added as doubles, for float64
with the rounding errors of the additions added up beside them. So a sum is the same for any vector width and any number of
threads, and its error does not grow with its length.
"""

from __future__ import annotations

from .scalar import Scalar, convert, isnan, maximum, minimum, select
from .writer import Function, Module, Value

LANES = {"f32": 8, "f64": 4}
"""Lanes of one accumulator; there are four."""
REDUCTIONS = ("sum", "max", "min")
IDENTITY = {"sum": "0.0", "max": "0xFFF0000000000000", "min": "0x7FF0000000000000"}
_LLVM = {"f32": "float", "f64": "double"}


def define(module: Module, name: str, dtype: str) -> None:
    """Define `name.dtype(ptr elements, i64 n)`, which returns the reduction of a block as a double."""
    kind, lanes = _LLVM[dtype], LANES[dtype]
    vector = f"<{lanes} x {kind}>"
    step = 4 * lanes
    with module.function("double", f"{name}.{dtype}", "ptr %x", "i64 %n", apart=True) as f:
        identity = f"splat ({kind} {IDENTITY[name]})"
        cells = [f.cell(vector, identity) for _ in range(4)]
        rest = f.space(kind, step, align=64)
        whole = f.mul(f.udiv("%n", step), step)
        with f.loop(whole, step=step) as i:
            _add(f, name, vector, cells, f.element(kind, "%x", i), lanes, kind)
        with f.when(f.compare("slt", whole, "%n")):
            # The last lanes that have no element take the identity.
            for k in range(4):
                f.store(vector, identity, f.element(kind, rest, k * lanes))
            with f.loop("%n", whole) as i:
                value = f.load(kind, f.element(kind, "%x", i))
                f.store(kind, value, f.element(kind, rest, f.sub(i, whole)))
            _add(f, name, vector, cells, rest, lanes, kind)
        a, b, c, d = (cell.get() for cell in cells)
        left, right = (_combine(f, name, vector, p, q) for p, q in ((a, b), (c, d)))
        total = _combine(f, name, vector, left, right)
        while lanes > 1:
            lanes //= 2
            halves = []
            for start in (0, lanes):
                mask = ", ".join(f"i32 {start + i}" for i in range(lanes))
                halves.append(f.v(f"shufflevector {vector} {total}, {vector} poison, <{lanes} x i32> <{mask}>"))
            vector = f"<{lanes} x {kind}>"
            total = _combine(f, name, vector, *halves)
        result = f.v(f"extractelement {vector} {total}, i64 0")
        f.ret("double", f.v(f"fpext float {result} to double") if dtype == "f32" else result)


def _add(f: Function, name: str, vector: str, cells: list, base: Value, lanes: int, kind: str) -> None:  # type: ignore[type-arg]
    for k, cell in enumerate(cells):
        x = f.load(vector, f.element(kind, base, k * lanes), f", align {4 if kind == 'float' else 8}")
        cell.set(_combine(f, name, vector, cell.get(), x))


def _combine(f: Function, name: str, vector: str, a: Value, b: Value) -> Value:
    if name == "sum":
        return f.v(f"fadd {vector} {a}, {b}")
    flags = vector.split(" x ")[0] + " x i1>"
    better = f.v(f"fcmp {'ogt' if name == 'max' else 'olt'} {vector} {b}, {a}")
    broken = f.v(f"fcmp uno {vector} {b}, {b}")
    take = f.v(f"or {flags} {better}, {broken}")
    # A NaN that is already there is neither smaller nor larger, and stays.
    return f.v(f"select {flags} {take}, {vector} {b}, {vector} {a}")


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


__all__ = ["IDENTITY", "LANES", "REDUCTIONS", "accumulate", "define", "total"]
