"""Reductions of a block of contiguous elements to one, in an order that no compiler and no processor chooses.

Every block is added up in 32 lanes (16 of float64), the lanes as a tree. Sums of blocks are added as doubles, for
float64 with the rounding errors of the additions added up beside them. So a sum is the same for any vector width and
any number of threads, and its error does not grow with its length.
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
    step, size = 4 * lanes, 4 if dtype == "f32" else 8
    with module.function("double", f"{name}.{dtype}", "ptr %x", "i64 %n", apart=True) as f:
        identity = f"splat ({kind} {IDENTITY[name]})"
        cells = [f.cell(vector, identity) for _ in range(4)]
        whole = f.v(f"and i64 %n, {-step}")
        with f.loop(whole, step=step) as i:
            for k, cell in enumerate(cells):
                x = f.load(vector, f.element(kind, f.element(kind, "%x", i), k * lanes), f", align {size}")
                cell.set(_combine(f, name, vector, cell.get(), x))
        with f.when(f.compare("slt", whole, "%n")):
            # Lanes that have no element take the identity.
            left = f.v(f"trunc i64 {f.sub('%n', whole)} to i32")
            one = f.v(f"insertelement <{lanes} x i32> poison, i32 {left}, i64 0")
            all_ = f.v(f"shufflevector <{lanes} x i32> {one}, <{lanes} x i32> poison, <{lanes} x i32> zeroinitializer")
            for k, cell in enumerate(cells):
                index = ", ".join(f"i32 {k * lanes + i}" for i in range(lanes))
                mask = f.v(f"icmp ult <{lanes} x i32> <{index}>, {all_}")
                place = f.element(kind, f.element(kind, "%x", whole), k * lanes)
                suffix = f"v{lanes}{dtype}.p0"
                x = f.v(
                    f"call {vector} @llvm.masked.load.{suffix}(ptr {place}, i32 {size}, <{lanes} x i1> {mask}, "
                    f"{vector} {identity})"
                )
                cell.set(_combine(f, name, vector, cell.get(), x))
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
