"""Products of matrices in native code of our own: both factors are packed, and small tiles stay in registers.

The first factor is packed in bands as high as a tile, the second in panels of two vectors' width, both a column or row
of one after the other along a stretch of `DEPTH`, so that each is read as one stream. A tile of a band and a panel is
summed up in registers along a stretch. An element is the same sum in the same order wherever the tile lies, so results
do not depend on how the work is divided.

The scheme is that of Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008.
"""

from __future__ import annotations

from . import engine
from .matrices import Tiles
from .writer import Function, Module

DEPTH = 384
"""Length of a stretch: a panel of it lies in the nearest caches."""


class Panels:
    """Writes the functions for one dtype into a module; their names end in nothing, so one dtype a module."""

    def __init__(self, module: Module, dtype: str) -> None:
        self.module = module
        self.base = Tiles(module, dtype)
        self.kind, self.size, self.lanes = self.base.kind, self.base.size, self.base.lanes
        self.columns = 2 * self.lanes
        self.heights = _heights()
        self.height = self.heights[0]
        self.pitch = -(-self.height // self.lanes) * self.lanes
        """Elements from one column of a band to the next."""

    def define(self) -> None:
        """Define `pack_left`, `pack_right` and `block`."""
        define = self.module.function
        head = ("ptr %from", "i64 %rows", "i64 %cols", "i64 %fs", "ptr %to", "i64 %ts", "i1 %pad")
        with define("void", "turn", *head, part="vector") as f:
            self.base.turn(f)
        tile = ("ptr %a", "ptr %b", "i64 %k", "ptr %c", "i64 %ci", "ptr %start", "i64 %si")
        for rows in self.heights:
            for vectors in (2, 1):
                with define("void", f"tile{rows}x{vectors}", *tile, part="vector") as f:
                    self._tile(f, rows, vectors)
        for vectors in (2, 1):
            with define("void", f"column{vectors}", *tile, "i64 %rows", part="vector") as f:
                self._column(f, vectors)
        with define("void", "pack_left", "ptr %from", "i64 %rows", "i64 %k", "i64 %lead", "i1 %turned", "ptr %to",
                    "i64 %step", "i64 %band", part="vector") as f:  # fmt: skip
            self._pack_left(f)
        with define("void", "pack_right", "ptr %from", "i64 %k", "i64 %valid", "i64 %lead", "i1 %turned", "ptr %to",
                    part="vector") as f:  # fmt: skip
            self._pack_right(f)
        with define("void", "edge", "ptr %from", "i64 %fs", "ptr %to", "i64 %ts", "i64 %rows", "i64 %bytes",
                    part="vector") as f:  # fmt: skip
            with f.loop("%rows") as r:
                to, source = f.at("%to", f.mul(r, "%ts")), f.at("%from", f.mul(r, "%fs"))
                f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 %bytes, i1 false)")
        with define("void", "block", "ptr %a", "ptr %b", "i64 %k", "i64 %rows", "i64 %valid", "ptr %c", "i64 %ci",
                    "ptr %bias", "i64 %fresh", "ptr %spare", part="vector") as f:  # fmt: skip
            self._block(f)

    def _tile(self, f: Function, rows: int, vectors: int) -> None:
        """Store in a tile of c the tile at start plus the product along %k."""
        base, width = self.base, self.lanes * self.size
        cells = [[f.cell(base.vector) for _ in range(vectors)] for _ in range(rows)]
        for r, line in enumerate(cells):
            start = f.at("%start", f.mul("%si", r))
            for v, cell in enumerate(line):
                cell.set(base.load(f, f.at(start, v * width)))
        with f.loop("%k") as k:
            a, b = f.at("%a", f.mul(k, self.pitch * self.size)), f.at("%b", f.mul(k, 2 * width))
            right = [base.load(f, f.at(b, v * width)) for v in range(vectors)]
            for r, line in enumerate(cells):
                left = base.splat(f, f.load(self.kind, f.at(a, r * self.size)))
                for v, cell in enumerate(line):
                    cell.set(base.multiply_add(f, left, right[v], cell.get()))
        for r, line in enumerate(cells):
            to = f.at("%c", f.mul("%ci", r))
            for v, cell in enumerate(line):
                base.store(f, cell.get(), f.at(to, v * width))

    def _column(self, f: Function, vectors: int) -> None:
        """Compute %rows rows of a panel's columns: whole bands, then what is left of one."""
        band = f.mul("%k", self.pitch * self.size)
        done = f.cell("i64", 0)
        for rows in self.heights:
            begin = done.get()
            whole = f.add(begin, f.mul(f.udiv(f.sub("%rows", begin), rows), rows))
            with f.loop(whole, begin, rows) as r:
                a = f.at("%a", f.mul(f.udiv(r, self.height), band))
                if rows < self.height:
                    a = f.at(a, f.mul(f.urem(r, self.height), self.size))
                c, start = f.at("%c", f.mul(r, "%ci")), f.at("%start", f.mul(r, "%si"))
                f.call("void", f"@tile{rows}x{vectors}", f"ptr {a}", "ptr %b", "i64 %k", f"ptr {c}", "i64 %ci",
                       f"ptr {start}", "i64 %si")  # fmt: skip
            done.set(whole)

    def _pack_left(self, f: Function) -> None:
        """Pack band number %band, of %rows rows; %step is what a column of all bands takes."""
        across = self.pitch * self.size
        whole = f.compare("eq", "%rows", self.height)
        with f.loop("%k", 0, DEPTH) as k:
            length = f.least(f.sub("%k", k), DEPTH)
            to = f.at(f.at("%to", f.mul(k, "%step")), f.mul(f.mul("%band", length), across))
            with f.when("%turned"):
                source = f.at("%from", f.mul(k, "%lead"))
                with f.when(whole), f.loop(length) as i:
                    size = self.height * self.size
                    here, there = f.at(source, f.mul(i, "%lead")), f.at(to, f.mul(i, across))
                    f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {there}, ptr {here}, i64 {size}, i1 false)")
                with f.unless(whole):
                    f.call("void", "@edge", f"ptr {source}", "i64 %lead", f"ptr {to}", f"i64 {across}", f"i64 {length}",
                           f"i64 {f.mul('%rows', self.size)}")  # fmt: skip
            with f.unless("%turned"):
                source = f.at("%from", f.mul(k, self.size))
                f.call("void", "@turn", f"ptr {source}", "i64 %rows", f"i64 {length}", "i64 %lead", f"ptr {to}",
                       f"i64 {across}", "i1 true")  # fmt: skip

    def _pack_right(self, f: Function) -> None:
        """Pack one panel of %k rows, of which %valid columns exist."""
        base, width = self.base, self.lanes * self.size
        whole = f.compare("eq", "%valid", self.columns)
        f.leave(f.no(f.both(whole, f.no("%turned"))), "rest")
        with f.loop("%k") as k:
            source, to = f.at("%from", f.mul(k, "%lead")), f.at("%to", f.mul(k, 2 * width))
            for v in range(2):
                base.store(f, base.load(f, f.at(source, v * width)), f.at(to, v * width))
        f.ret()
        f.start("rest")
        with f.when("%turned"):
            # Columns that do not exist repeat the last one, and come to nothing.
            f.call("void", "@turn", "ptr %from", "i64 %valid", "i64 %k", "i64 %lead", "ptr %to", f"i64 {2 * width}",
                   "i1 true")  # fmt: skip
            f.ret()
        with f.loop("%k") as k:
            for v in range(2):
                base.store(f, "zeroinitializer", f.at("%to", f.add(f.mul(k, 2 * width), v * width)))
        f.call("void", "@edge", "ptr %from", "i64 %lead", "ptr %to", f"i64 {2 * width}", "i64 %k",
               f"i64 {f.mul('%valid', self.size)}")  # fmt: skip

    def _block(self, f: Function) -> None:
        """Compute rows of one panel's columns along one stretch; a fresh block begins with the bias, or with zeros.

        `%spare` has room for all rows of a panel, and one row more, of which zeros are made.
        """
        base, width = self.base, self.lanes * self.size
        wide = 2 * width
        empty = f.at("%spare", f.mul("%rows", wide))
        for v in range(2):
            base.store(f, "zeroinitializer", f.at(empty, v * width))
        fresh = f.compare("ne", "%fresh", 0)
        biased = f.compare("ne", "%bias", "null", "ptr")
        whole = f.compare("eq", "%valid", self.columns)
        bytes_ = f.mul("%valid", self.size)
        start, step = f.cell("ptr", empty), f.cell("i64", 0)
        with f.when(f.both(fresh, biased)):
            start.set("%bias")
            with f.unless(whole):
                f.call("void", "@edge", "ptr %bias", "i64 0", f"ptr {empty}", "i64 0", "i64 1", f"i64 {bytes_}")
                start.set(empty)
        with f.unless(fresh):
            start.set("%c")
            step.set("%ci")
        with f.when(whole):
            f.call("void", "@column2", "ptr %a", "ptr %b", "i64 %k", "ptr %c", "i64 %ci", f"ptr {start.get()}",
                   f"i64 {step.get()}", "i64 %rows")  # fmt: skip
            f.ret()
        with f.unless(fresh):
            f.call("void", "@edge", "ptr %c", "i64 %ci", "ptr %spare", f"i64 {wide}", "i64 %rows", f"i64 {bytes_}")
            start.set("%spare")
            step.set(wide)
        narrow = f.compare("sle", "%valid", self.lanes)
        column = f.choose(narrow, "@column1", "@column2", "ptr")
        f.call("void", column, "ptr %a", "ptr %b", "i64 %k", "ptr %spare", f"i64 {wide}", f"ptr {start.get()}",
               f"i64 {step.get()}", "i64 %rows")  # fmt: skip
        f.call("void", "@edge", "ptr %spare", f"i64 {wide}", "ptr %c", "i64 %ci", "i64 %rows", f"i64 {bytes_}")


def _heights() -> tuple[int, ...]:
    """Return the heights of tiles, highest first: with two vectors beside each other the sums fill the registers."""
    return (12, 8, 4, 2, 1) if engine.registers()[1] >= 32 else (6, 4, 2, 1)


__all__ = ["DEPTH", "Panels"]
