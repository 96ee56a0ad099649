"""Scalar expressions become loops over contiguous memory.

A pointwise loop has the signature `void (i64 n, ptr pointers, ptr attrs)`: `pointers` holds the addresses of the
outputs, then of the inputs, `attrs` the attributes as doubles. An output may be an input's own memory, element for
element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .scalar import LLVM_TYPES, Scalar, guard, lower, make, var
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


class Source(NamedTuple):
    """Where a loop's variable comes from: an array's elements, or one element that is the same for all."""

    name: str
    dtype: str
    one: bool = False


def pointwise_loop(
    module: Module, name: str, roots: Sequence[Scalar], dtype: str, operands: int, attrs: int, mask: int = 0
) -> None:
    """Define one pointwise loop.

    Args:
        roots: results over the variables %x0 … (elements of operands) and %a0 … (attributes).
        dtype: of the operands.
        mask: bit k says that operand k is one element, the same for every result.
    """
    sources = [Source(f"%x{k}", dtype, bool(mask >> k & 1)) for k in range(operands)]
    params = [(f"%a{j}", dtype) for j in range(attrs)]
    condition = guard(roots)
    if condition is None:
        define_loop(module, name, sources, roots, params)
        return
    define_loop(module, f"{name}.full", sources, roots, params, internal=True)
    define_loop(module, f"{name}.fast", sources, roots, params, condition=condition, internal=True)
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


def define_loop(
    module: Module,
    name: str,
    sources: Sequence[Source],
    roots: Sequence[Scalar],
    params: Sequence[tuple[str, str]] = (),
    *,
    condition: Scalar | None = None,
    internal: bool = False,
) -> None:
    """Define a function with one loop: `(i64 n, ptr pointers, ptr attrs)`.

    Args:
        sources: variables that are loaded; their addresses follow those of the results in `pointers`.
        roots: results, one array each.
        params: names and dtypes of variables that are read from `attrs`, doubles.
        condition: take the fast branch of every rare choice, and return as i64 whether this ever held.
    """
    head = ("i64 %n", "ptr %pointers", "ptr %attrs")
    with module.function("void" if condition is None else "i64", name, *head, internal=internal) as f:
        pointers = [f.field("ptr", "%pointers", 8 * i) for i in range(len(roots) + len(sources))]
        for j, (variable, dtype) in enumerate(params):
            given = f.field("double", "%attrs", 8 * j)
            # Adding -0 is how a register gets another name.
            f.do(
                f"{variable} = "
                + (f"fptrunc double {given} to float" if dtype == "f32" else f"fadd double {given}, -0.0")
            )
        places = dict(zip(sources, pointers[len(roots) :]))
        for source in sources:
            if source.one:
                load_variable(f, source, places[source])
        group = module.metadata("distinct !{}")
        access = f", !llvm.access.group {group}"
        note = loop_note(module, module.metadata(f'!{{!"llvm.loop.parallel_accesses", {group}}}'))
        # An integer, because the vectoriser knows "or" of integers as a reduction.
        held = f.cell("i64", 0)
        with f.loop("%n", note=note) as i:
            for source in sources:
                if not source.one:
                    load_variable(f, source, f.element(STORED[source.dtype], places[source], i), access)
            wanted = [*roots] if condition is None else [*roots, condition]
            lines, names = lower(wanted, fast=condition is not None)
            for line in lines:
                f.do(line)
            if condition is not None:
                held.set(f.v(f"or i64 {held.get()}, {f.v(f'zext i1 {names[-1]} to i64')}"))
            for pointer, root, value in zip(pointers, roots, names):
                store_element(f, root.dtype, value, pointer, i, access)
        if condition is not None:
            f.ret("i64", held.get())


def load_variable(f: Function, source: Source, address: Value, tail: str = "") -> None:
    """Load a variable under its own name; a bool from a byte."""
    if source.dtype == "i1":
        byte = f.load("i8", address, tail)
        f.do(f"{source.name} = icmp ne i8 {byte}, 0")
    else:
        f.do(f"{source.name} = load {STORED[source.dtype]}, ptr {address}{tail}")


def load_element(f: Function, source: Source, address: Value) -> Value:
    """Load one element under a name of its own."""
    value = f.load(STORED[source.dtype], address)
    return f.v(f"icmp ne i8 {value}, 0") if source.dtype == "i1" else value


def inline(f: Function, roots: Sequence[Scalar], names: dict[str, Value]) -> list[Value]:
    """Compute expressions once, outside of any loop; `names` gives the values of their variables."""
    bound: dict[Scalar, Scalar] = {}
    for root in roots:
        substitute(root, names, bound)
    lines, values = lower([bound[r] for r in roots], prefix=f.label("e") + ".")
    for line in lines:
        f.do(line)
    return values


def substitute(root: Scalar, names: dict[str, Value], bound: dict[Scalar, Scalar]) -> None:
    """Put other variables into an expression; `bound` takes every part's counterpart."""
    stack = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in bound:
            continue
        if node.op == "var":
            bound[node] = var(names[str(node.value)], node.dtype)
        elif ready or not node.args:
            bound[node] = make(node.op, node.dtype, tuple(bound[a] for a in node.args), node.value)
        else:
            stack.append((node, True))
            stack.extend((a, False) for a in node.args)


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


__all__ = [
    "BLOCK",
    "SIZES",
    "STORED",
    "Source",
    "define_loop",
    "inline",
    "load_element",
    "loop_note",
    "pointwise_loop",
    "scalars_of",
    "trace",
    "work",
]
