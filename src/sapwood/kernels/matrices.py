"""Small matrices in cache: products by register tiles, and transposition, as native functions.

All strides are in bytes. Vectors lie along the rows of `b` and `c`; elements of `a` are repeated over a vector, so `a`
may have any strides and is never packed.
"""

from __future__ import annotations

from . import engine
from .emit import SIZES
from .scalar import LLVM_TYPES
from .writer import Function, Module, Value


class Tiles:
    """Writes the functions for one dtype into a module; their names end in nothing, so one dtype a module."""

    def __init__(self, module: Module, dtype: str) -> None:
        self.module, self.dtype = module, dtype
        self.kind, self.size = LLVM_TYPES[dtype], SIZES[dtype]
        self.lanes = engine.vector_bytes() // self.size
        self.vector = f"<{self.lanes} x {self.kind}>"
        self.intrinsic = f"v{self.lanes}{dtype}"
        # Sixteen sums hide the latency of two multiply-add units; eight are what sixteen registers have room for.
        self.rows = 4 if engine.vector_bytes() == 32 else 8

    # Vectors.

    def load(self, f: Function, pointer: Value) -> Value:
        return f.load(self.vector, pointer, f", align {self.size}")

    def store(self, f: Function, value: Value, pointer: Value) -> None:
        f.store(self.vector, value, pointer, f", align {self.size}")

    def splat(self, f: Function, x: Value) -> Value:
        """Return a vector whose elements are all `x`."""
        one = f.v(f"insertelement {self.vector} poison, {self.kind} {x}, i32 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return f.v(f"shufflevector {self.vector} {one}, {self.vector} poison, {zeros}")

    def op(self, f: Function, name: str, a: Value, b: Value) -> Value:
        return f.v(f"{name} {self.vector} {a}, {b}")

    def multiply_add(self, f: Function, a: Value, b: Value, c: Value) -> Value:
        """Return a·b + c, rounded once."""
        t = self.vector
        return f.call(t, f"@llvm.fma.{self.intrinsic}", f"{t} {a}", f"{t} {b}", f"{t} {c}")

    # Functions.

    def define(self) -> None:
        """Define `gemm` and `turn`."""
        for rows in {self.rows, 1}:
            for vectors in (2, 1):
                head = ("ptr %a", "i64 %ai", "i64 %ak", "ptr %b", "i64 %bk", "ptr %c", "i64 %ci", "i64 %k", "i1 %add")
                with self.module.function("void", f"tile{rows}x{vectors}", *head, apart=True) as f:
                    self._tile(f, rows, vectors)
        with self.module.function("void", "gemm", "i64 %m", "i64 %n", "i64 %k", "ptr %a", "i64 %ai", "i64 %ak",
                                  "ptr %b", "i64 %bk", "ptr %c", "i64 %ci", "i1 %add", apart=True) as f:  # fmt: skip
            self._gemm(f)
        with self.module.function("void", "turn", "ptr %from", "i64 %rows", "i64 %cols", "i64 %fs", "ptr %to",
                                  "i64 %ts", "i1 %pad", apart=True) as f:  # fmt: skip
            self.turn(f)

    def _tile(self, f: Function, rows: int, vectors: int) -> None:
        width = self.lanes * self.size
        cells = [[f.cell(self.vector) for _ in range(vectors)] for _ in range(rows)]
        starts = [f.mul("%ci", r) for r in range(rows)]
        for r in range(rows):
            for cell in cells[r]:
                cell.set("zeroinitializer")
        with f.when("%add"):
            for r in range(rows):
                for v, cell in enumerate(cells[r]):
                    cell.set(self.load(f, f.at(f.at("%c", starts[r]), v * width)))
        offsets = [f.mul("%ai", r) for r in range(rows)]
        with f.loop("%k") as k:
            a, b = f.at("%a", f.mul(k, "%ak")), f.at("%b", f.mul(k, "%bk"))
            right = [self.load(f, f.at(b, v * width)) for v in range(vectors)]
            for r in range(rows):
                left = self.splat(f, f.load(self.kind, f.at(a, offsets[r])))
                for v, cell in enumerate(cells[r]):
                    cell.set(self.multiply_add(f, left, right[v], cell.get()))
        for r in range(rows):
            for v, cell in enumerate(cells[r]):
                self.store(f, cell.get(), f.at(f.at("%c", starts[r]), v * width))

    def _gemm(self, f: Function) -> None:
        """c (m, n) = a (m, k) · b (k, n), or that added to c; n is a multiple of the lanes."""
        width = self.lanes * self.size
        whole = f.mul(f.udiv("%m", self.rows), self.rows)
        pairs = f.mul(f.udiv("%n", 2 * self.lanes), 2 * self.lanes)

        def strip(j: Value, vectors: int) -> None:
            b, c = f.at("%b", f.mul(j, self.size)), f.at("%c", f.mul(j, self.size))
            for rows, first, last in ((self.rows, "0", whole), (1, whole, "%m")):
                with f.loop(last, first, rows) as i:
                    f.call("void", f"@tile{rows}x{vectors}", f"ptr {f.at('%a', f.mul(i, '%ai'))}", "i64 %ai", "i64 %ak",
                           f"ptr {b}", "i64 %bk", f"ptr {f.at(c, f.mul(i, '%ci'))}", "i64 %ci", "i64 %k",
                           "i1 %add")  # fmt: skip

        assert width
        with f.loop(pairs, 0, 2 * self.lanes) as j:
            strip(j, 2)
        with f.loop("%n", pairs, self.lanes) as j:
            strip(j, 1)

    def turn(self, f: Function) -> None:
        """to[c][r] = from[r][c]. With `pad` the last row is repeated until rows are a multiple of the lanes."""
        n = self.lanes
        extra = f.choose("%pad", n - 1, 0)
        tiles = f.mul(f.udiv(f.add("%rows", extra), n), n)
        whole = f.mul(f.udiv("%cols", n), n)
        last = f.sub("%rows", 1)
        with f.loop(tiles, 0, n) as r:
            places = [f.at("%from", f.mul(f.least(f.add(r, i), last), "%fs")) for i in range(n)]
            target = f.at("%to", f.mul(r, self.size))
            with f.loop(whole, 0, n) as c:
                skip = f.mul(c, self.size)
                rows = [self.load(f, f.at(p, skip)) for p in places]
                for i, row in enumerate(self._transposed(f, rows)):
                    self.store(f, row, f.at(target, f.mul(f.add(c, i), "%ts")))
            with f.loop("%cols", whole) as c:
                skip = f.mul(c, self.size)
                row = "poison"
                for i, p in enumerate(places):
                    x = f.load(self.kind, f.at(p, skip))
                    row = f.v(f"insertelement {self.vector} {row}, {self.kind} {x}, i32 {i}")
                self.store(f, row, f.at(target, f.mul(c, "%ts")))
        with f.loop("%rows", tiles) as r:
            source, target = f.at("%from", f.mul(r, "%fs")), f.at("%to", f.mul(r, self.size))
            with f.loop("%cols") as c:
                x = f.load(self.kind, f.at(source, f.mul(c, self.size)))
                f.store(self.kind, x, f.at(target, f.mul(c, "%ts")))

    def _transposed(self, f: Function, rows: list[Value]) -> list[Value]:
        n, t = self.lanes, self.vector
        step = 1
        while step < n:
            after = list(rows)
            for i in range(n):
                if i & step:
                    continue
                a, b = rows[i], rows[i + step]
                low = [p if not p & step else n + p - step for p in range(n)]
                high = [p + step if not p & step else n + p for p in range(n)]
                for k, mask in ((i, low), (i + step, high)):
                    text = ", ".join(f"i32 {m}" for m in mask)
                    after[k] = f.v(f"shufflevector {t} {a}, {t} {b}, <{n} x i32> <{text}>")
            rows = after
            step *= 2
        return rows


__all__ = ["Tiles"]
