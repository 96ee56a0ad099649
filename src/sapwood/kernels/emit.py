"""Scalar expressions become loops over contiguous memory.

A pointwise loop has the signature `void (i64 n, ptr pointers, ptr attrs)`: `pointers` holds the addresses of the
outputs, then of the inputs, `attrs` the attributes as doubles. An output may be an input's own memory, element for
element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .scalar import LLVM_TYPES, Scalar, guard, lower, var
from .writer import Function, Module, Value

STORED = LLVM_TYPES | {"i1": "i8"}
"""LLVM's types in memory: a bool takes a byte."""
SIZES = {"f32": 4, "f64": 8, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1}
BLOCK = 512
"""Elements computed before the rare case is looked at."""

_WEIGHTS = {"div": 6, "sqrt": 8, "rem": 12}
_FREE = ("var", "const", "bitcast")


def scalars_of(result: Any) -> tuple[Scalar, ...]:
    """Return what a body returned as a tuple."""
    return result if isinstance(result, tuple) else (result,)


def work(roots: Sequence[Scalar]) -> int:
    """Return a measure of an expression's instructions: about picoseconds per float32 element on one core."""
    seen: set[int] = set()
    total = 0
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.op not in _FREE:
            total += _WEIGHTS.get(node.op, 1) * (60 if node.dtype in ("f64", "i64") else 30)
        stack.extend(node.args[2:] if node.op == "rare" else node.args)
    return total


def trace(body: Callable[..., Any], dtype: str, operands: int, attrs: int) -> tuple[Scalar, ...]:
    """Run a body on variables named %x0 … and %a0 … and return its results."""
    xs = [var(f"%x{i}", dtype) for i in range(operands)]
    return scalars_of(body(*xs, *[var(f"%a{j}", dtype) for j in range(attrs)]))


def pointwise_loop(
    module: Module, name: str, roots: Sequence[Scalar], dtype: str, operands: int, attrs: int, mask: int = 0
) -> None:
    """Define one pointwise loop.

    Args:
        roots: results over the variables %x0 … (elements of operands) and %a0 … (attributes).
        dtype: of the operands.
        mask: bit k says that operand k is one element, the same for every result.
    """
    condition = guard(roots)
    loop = _Loop(dtype, operands, attrs, mask)
    if condition is None:
        loop.define(module, name, roots, len(roots), fast=False)
        return
    loop.define(module, f"{name}.full", roots, len(roots), fast=False, internal=True)
    loop.define(module, f"{name}.fast", [*roots, condition], len(roots), fast=True, internal=True)
    with module.function("void", name, "i64 %n", "ptr %pointers", "ptr %attrs") as f:
        _guarded(f, name, dtype, [SIZES[r.dtype] for r in roots], operands, mask)


def _guarded(f: Function, name: str, dtype: str, outs: Sequence[int], operands: int, mask: int) -> None:
    """Compute block by block without the rare case, and a block again in full if one of its elements needs it."""
    count = len(outs) + operands
    steps = [*outs, *(0 if mask >> k & 1 else SIZES[dtype] for k in range(operands))]
    bases = [f.field("ptr", "%pointers", 8 * i) for i in range(count)]
    moved = f.space("ptr", count)
    # A block whose inputs are written over cannot be computed twice.
    inplace: Value = "false"
    for out in bases[: len(outs)]:
        for given in bases[len(outs) :]:
            inplace = f.either(inplace, f.compare("eq", out, given, "ptr"))
    with f.loop("%n", step=BLOCK) as start:
        n = f.least(f.sub("%n", start), BLOCK)
        for i, (base, step) in enumerate(zip(bases, steps)):
            f.put("ptr", f.at(base, f.mul(start, step)), moved, 8 * i)
        again = f.cell("i64", 1)
        with f.unless(inplace):
            again.set(f.call("i64", f"@{name}.fast", f"i64 {n}", f"ptr {moved}", "ptr %attrs"))
        with f.when(f.compare("ne", again.get(), 0), seldom=True):
            f.call("void", f"@{name}.full", f"i64 {n}", f"ptr {moved}", "ptr %attrs")


class _Loop(NamedTuple):
    """What the loops of one kernel have in common."""

    dtype: str
    operands: int
    attrs: int
    mask: int

    def define(
        self, module: Module, name: str, roots: Sequence[Scalar], outs: int, *, fast: bool, internal: bool = False
    ) -> None:
        """Define a function with one loop; a root beyond the outputs is a condition, and returned if it ever held."""
        kind, stored = LLVM_TYPES[self.dtype], STORED[self.dtype]
        checked = len(roots) > outs
        params = ("i64 %n", "ptr %pointers", "ptr %attrs")
        with module.function("i64" if checked else "void", name, *params, internal=internal) as f:
            pointers = [f.field("ptr", "%pointers", 8 * i) for i in range(outs + self.operands)]
            for j in range(self.attrs):
                given = f.field("double", "%attrs", 8 * j)
                f.do(
                    f"%a{j} = "
                    + (f"fptrunc double {given} to float" if kind == "float" else f"fadd double {given}, -0.0")
                )
            varying = []
            for k in range(self.operands):
                if self.mask >> k & 1:
                    f.do(f"%x{k} = load {kind}, ptr {pointers[outs + k]}")
                else:
                    varying.append(k)
            group = module.metadata("distinct !{}")
            access = f", !llvm.access.group {group}"
            note = loop_note(module, module.metadata(f'!{{!"llvm.loop.parallel_accesses", {group}}}'))
            # An integer, because the vectoriser knows "or" of integers as a reduction.
            held = f.cell("i64", 0)
            with f.loop("%n", note=note) as i:
                for k in varying:
                    f.do(f"%x{k} = load {stored}, ptr {f.element(stored, pointers[outs + k], i)}{access}")
                lines, names = lower(roots, fast=fast)
                for line in lines:
                    f.do(line)
                if checked:
                    held.set(f.v(f"or i64 {held.get()}, {f.v(f'zext i1 {names[-1]} to i64')}"))
                for out, root, value in zip(pointers, roots[:outs], names):
                    store_element(f, root.dtype, value, out, i, access)
            if checked:
                f.ret("i64", held.get())


def store_element(f: Function, dtype: str, value: Value, pointer: Value, index: Value, tail: str = "") -> None:
    """Store element `index` of an array; a bool as a byte."""
    kind = STORED[dtype]
    if dtype == "i1":
        value = f.v(f"zext i1 {value} to i8")
    f.store(kind, value, f.element(kind, pointer, index), tail)


def loop_note(module: Module, *facts: str) -> str:
    """Return the metadata of one loop; it must be distinct from every other loop's."""
    own = module.metadata("")
    module.set_metadata(own, f"distinct !{{{', '.join([own, *facts])}}}")
    return own


__all__ = ["BLOCK", "SIZES", "STORED", "loop_note", "pointwise_loop", "scalars_of", "trace", "work"]
