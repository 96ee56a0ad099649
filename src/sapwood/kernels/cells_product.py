"""Products of a few rows with a packed matrix, for the steps of a recurrence.

The matrix lies in panels: `NR` columns side by side, one row of the panel after the other, zeros where columns end. A
tile of some rows and one panel stays in registers while the depth is walked through, so an element is the same sum in
the same order whatever rows are computed together.
"""

from __future__ import annotations

from . import engine
from .writer import Function, Module, Operand, Value

KINDS = {"f32": ("float", 4), "f64": ("double", 8)}
_VECTORS = 2
"""Vectors in a row of a panel."""


def lanes(dtype: str) -> int:
    """Return the elements of one vector; sixteen registers hold 256 bits, thirty-two 512."""
    return (64 if engine.interleave() == 4 else 32) // KINDS[dtype][1]


def columns(dtype: str) -> int:
    """Return the columns of one panel."""
    return _VECTORS * lanes(dtype)


def _rows() -> list[int]:
    """Return the heights of tiles, highest first: as many sums as hide the latency of one, and fit the registers."""
    return [8, 4, 2, 1] if engine.interleave() == 4 else [4, 2, 1]


def define(module: Module, dtype: str) -> None:
    """Define `pack_<dtype>`, `product_<dtype>`, and `product_t_<dtype>`, whose first factor is transposed."""
    given = ("ptr %c", "i64 %c.row", "ptr %begin", "i64 %begin.row", "ptr %a", "i64 %a.row", "ptr %b", "i64 %depth")
    for kind in ("", "_t"):
        for rows in _rows():
            with module.function("void", f"tile{rows}{kind}_{dtype}", *given, apart=True, part="vector") as f:
                _tile(f, dtype, rows, kind)
        with module.function("void", f"product{kind}_{dtype}", *given, "i64 %columns", "i64 %rows",
                             apart=True, part="vector") as f:  # fmt: skip
            _product(f, dtype, kind)
    head = ("ptr %b", "ptr %w", "i64 %step", "i64 %across", "i64 %depth", "i64 %columns")
    with module.function("void", f"pack_{dtype}", *head, apart=True) as f:
        _pack(f, dtype)


def _tile(f: Function, dtype: str, rows: int, across: str) -> None:
    """Store in a tile of c a tile of begin plus the product of `rows` rows of a, `depth` long, and a panel."""
    kind, item = KINDS[dtype]
    width = lanes(dtype)
    vector, name = f"<{width} x {kind}>", f"@llvm.fma.v{width}{dtype}"
    tail = f", align {item}"
    sums = []
    for r in range(rows):
        row = f.at("%begin", f.mul("%begin.row", r))
        for v in range(_VECTORS):
            sums.append((f.cell(vector, f.load(vector, f.at(row, v * width * item), tail)), r, v))
    starts = [f.at("%a", r * item if across else f.mul("%a.row", r)) for r in range(rows)]
    with f.loop("%depth") as k:
        panel = f.at("%b", f.mul(k, _VECTORS * width * item))
        weights = [f.load(vector, f.at(panel, v * width * item), tail) for v in range(_VECTORS)]
        spread = []
        for start in starts:
            one = f.load(kind, f.at(start, f.mul(k, "%a.row" if across else item)))
            first = f.v(f"insertelement {vector} poison, {kind} {one}, i64 0")
            spread.append(f.v(f"shufflevector {vector} {first}, {vector} poison, <{width} x i32> zeroinitializer"))
        for total, r, v in sums:
            operands = ", ".join(f"{vector} {x}" for x in (spread[r], weights[v], total.get()))
            total.set(f.v(f"call {vector} {name}({operands})"))
    for total, r, v in sums:
        f.store(vector, total.get(), f.at(f.at("%c", f.mul("%c.row", r)), v * width * item), tail)


def _product(f: Function, dtype: str, across: str) -> None:
    """Store begin + a · b in `rows` rows of c; b is packed, begin may be c. Across, a is transposed."""
    kind, item = KINDS[dtype]
    wide = columns(dtype)
    tallest = _rows()[0]
    spare = f.space(kind, wide * tallest, 64)
    panels = f.udiv(f.add("%columns", wide - 1), wide)
    with f.loop(panels) as p:
        panel = f.at("%b", f.mul(f.mul(p, "%depth"), wide * item))
        first = f.mul(p, wide)
        valid = f.least(f.sub("%columns", first), wide)
        corner, origin = f.at("%c", f.mul(first, item)), f.at("%begin", f.mul(first, item))
        whole = f.compare("eq", valid, wide)
        at = f.cell("i64", 0)
        for rows in _rows():
            head, body, done = f.label("rows"), f.label("tile"), f.label("rows_done")
            f.go(head)
            f.start(head)
            r = at.get()
            f.split(f.compare("sle", f.add(r, rows), "%rows"), body, done)
            f.start(body)
            c, a = f.at(corner, f.mul(r, "%c.row")), f.at("%a", f.mul(r, item if across else "%a.row"))
            begin = f.at(origin, f.mul(r, "%begin.row"))
            tile = f"@tile{rows}{across}_{dtype}"
            tail = (f"ptr {a}", "i64 %a.row", f"ptr {panel}", "i64 %depth")
            with f.when(whole):
                f.call("void", tile, f"ptr {c}", "i64 %c.row", f"ptr {begin}", "i64 %begin.row", *tail)
            with f.unless(whole):
                row = wide * item
                _moved(f, dtype, rows, (begin, "%begin.row"), (spare, row), valid)
                f.call("void", tile, *[f"ptr {spare}", f"i64 {row}"] * 2, *tail)
                _moved(f, dtype, rows, (spare, row), (c, "%c.row"), valid)
            at.set(f.add(r, rows))
            f.go(head)
            f.start(done)


def _moved(
    f: Function, dtype: str, rows: int, source: tuple[Value, Operand], target: tuple[Value, Operand], valid: Value
) -> None:
    """Copy the valid columns of a tile from one (place, bytes of a row) to another."""
    kind, _ = KINDS[dtype]
    for r in range(rows):
        theirs, ours = (f.at(place, f.mul(row, r)) for place, row in (source, target))
        with f.loop(valid) as j:
            f.store(kind, f.load(kind, f.element(kind, theirs, j)), f.element(kind, ours, j))


def _pack(f: Function, dtype: str) -> None:
    """Write panels of a matrix: element (k, j) lies k · step + j · across bytes behind w."""
    kind, item = KINDS[dtype]
    wide = columns(dtype)
    with f.loop(f.udiv(f.add("%columns", wide - 1), wide)) as p:
        first = f.mul(p, wide)
        valid = f.least(f.sub("%columns", first), wide)
        whole = f.both(f.compare("eq", valid, wide), f.compare("eq", "%across", item))
        with f.when(whole), f.loop("%depth") as k:
            row = f.at("%b", f.mul(f.add(f.mul(p, "%depth"), k), wide * item))
            source = f.at(f.at("%w", f.mul(first, item)), f.mul(k, "%step"))
            vector, tail = f"<{lanes(dtype)} x {kind}>", f", align {item}"
            for v in range(0, wide * item, lanes(dtype) * item):
                f.store(vector, f.load(vector, f.at(source, v), tail), f.at(row, v), tail)
        with f.unless(whole), f.loop("%depth") as k:
            row = f.at("%b", f.mul(f.add(f.mul(p, "%depth"), k), wide * item))
            source = f.at(f.at("%w", f.mul(first, "%across")), f.mul(k, "%step"))
            with f.loop(valid) as j:
                f.store(kind, f.load(kind, f.at(source, f.mul(j, "%across"))), f.element(kind, row, j))
            with f.loop(wide, valid) as j:
                f.store(kind, "0.0", f.element(kind, row, j))


__all__ = ["KINDS", "columns", "define", "lanes"]
