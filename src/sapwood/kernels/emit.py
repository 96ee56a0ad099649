"""Scalar expressions become loops over contiguous memory.

A pointwise loop has the signature `void (i64 n, ptr pointers, ptr attrs)`: `pointers` holds the addresses of the
outputs, then of the inputs, `attrs` the attributes as doubles. An output may be an input's own memory, element for
element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from . import engine
from .scalar import FLOATS, LLVM_TYPES, Scalar, guard, lower, make, parts, type_of, var
from .writer import Cell, Function, Module, Value

STORED = LLVM_TYPES | {"i1": "i8"}
"""LLVM's types in memory: a bool takes a byte."""
SIZES = {"f32": 4, "f64": 8, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1}
BLOCK = 512
"""Elements computed before the rare case is looked at."""

LIGHT = 400
"""Picoseconds per float32 element up to which an expression is short."""
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


def wide(roots: Sequence[Scalar]) -> bool:
    """Return whether any part of the expressions takes eight bytes."""
    return any(node.dtype in ("f64", "i64") for node in parts(roots))


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
    with module.function("void", name, "i64 %n", "ptr %pointers", "ptr %attrs", part="vector") as f:
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

    The loop computes several vectors at a time, and then one after the other, the last perhaps in part.

    Args:
        sources: variables that are loaded; their addresses follow those of the results in `pointers`.
        roots: results, one array each.
        params: names and dtypes of variables that are read from `attrs`, doubles.
        condition: take the fast branch of every rare choice, and return as i64 whether this ever held.
    """
    head = ("i64 %n", "ptr %pointers", "ptr %attrs")
    word = word_of([*(s.dtype for s in sources), *(r.dtype for r in roots)])
    lanes = engine.vector_bytes() // (8 if word == "i64" else 4)
    together = lanes * engine.interleave()
    fast = condition is not None
    rarely = not fast and guard(roots) is not None
    if rarely and wide(roots):
        # Vectors that take two registers of the wider type are what translation spends half of its time on.
        lanes = engine.vector_bytes() // 8
    with module.function("i64" if fast else "void", name, *head, internal=internal, part="vector") as f:
        pointers = [f.field("ptr", "%pointers", 8 * i) for i in range(len(roots) + len(sources))]
        outs, places = pointers[: len(roots)], dict(zip(sources, pointers[len(roots) :]))
        fixed: list[tuple[str, str, Value]] = []
        for j, (variable, dtype) in enumerate(params):
            given = f.field("double", "%attrs", 8 * j)
            fixed.append((variable, dtype, f.v(f"fptrunc double {given} to float") if dtype == "f32" else given))
        fixed += [(s.name, s.dtype, load_element(f, s, p)) for s, p in places.items() if s.one]
        held: list[Cell] = []

        def define(stop: Value, start: Value, lanes: int, *, whole: bool) -> None:
            names = {name: splat(f, dtype, value, lanes) for name, dtype, value in fixed}
            held.append(f.cell(f"<{lanes} x {word}>", "zeroinitializer"))

            def take(values: list[Value], mask: Value) -> None:
                for flag in values:
                    wide = f.v(f"sext <{lanes} x i1> {flag} to {held[-1].kind}")
                    held[-1].set(f.v(f"or {held[-1].kind} {held[-1].get()}, {wide}"))

            wanted = [*roots, condition] if condition is not None else roots
            vector_loop(f, stop, start, lanes, places, wanted, outs, names, take, word=word, whole=whole, fast=fast)

        done: Value = "0"
        if not rarely:
            # What is rare and costs much is not worth the code of several vectors.
            done = f.v(f"and i64 %n, {-together}")
            define(done, "0", together, whole=True)
        define("%n", done, lanes, whole=False)
        if fast:
            f.ret("i64", f.v(f"zext i1 {f.either(*(_any(f, cell) for cell in held))} to i64"))


def word_of(dtypes: Iterable[str]) -> str:
    """Return the integer type as large as the largest of the types, one of four bytes at least."""
    return "i64" if any(d in ("f64", "i64") for d in dtypes) else "i32"


def splat(f: Function, dtype: str, value: Value, lanes: int) -> Value:
    """Return a vector of equal elements."""
    kind = type_of(dtype, lanes)
    one = f.v(f"insertelement {kind} poison, {LLVM_TYPES[dtype]} {value}, i64 0")
    return f.v(f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer")


def _any(f: Function, cell: Cell) -> Value:
    """Return whether any element of a vector of integers is not zero."""
    lanes = cell.kind[1:].split(" ")[0]
    flags = f.v(f"icmp ne {cell.kind} {cell.get()}, zeroinitializer")
    return f.compare("ne", f.v(f"bitcast <{lanes} x i1> {flags} to i{lanes}"), 0, f"i{lanes}")


def vector_loop(
    f: Function,
    stop: Value,
    start: Value,
    lanes: int,
    places: Mapping[Source, Value],
    roots: Sequence[Scalar],
    outs: Sequence[Value],
    names: Mapping[str, Value],
    take: Callable[[list[Value], Value], None],
    *,
    word: str,
    whole: bool,
    fast: bool = False,
) -> None:
    """Write a loop over vectors of `lanes` elements.

    Args:
        places: where variables come from. Those of which there is one only are in `names`.
        roots: results that are stored in `outs`, then others.
        names: vectors that are variables.
        take: gets the other results, and which elements there are: "" for all.
        word: integer type of the same size as the largest elements.
        whole: there are no parts of vectors.
        fast: see `lower`.
    """
    number = f.label("x")
    with f.loop(stop, start, lanes) as i:
        mask = "" if whole else _mask(f, f.sub(stop, i), lanes, word)
        known = dict(names)
        for source, place in places.items():
            if not source.one:
                known[source.name] = _load(f, source.dtype, place, i, lanes, mask)
        lines, values = lower(roots, prefix=number + ".", fast=fast, lanes=lanes, names=known)
        for line in lines:
            f.do(line)
        for root, pointer, value in zip(roots, outs, values):
            _store(f, root.dtype, value, pointer, i, lanes, mask)
        take(values[len(outs) :], mask)


def _mask(f: Function, left: Value, lanes: int, word: str) -> Value:
    """Return which lanes have one of the `left` elements."""
    kind = f"<{lanes} x {word}>"
    few = f.least(left, lanes)
    all_ = splat(f, word, few if word == "i64" else f.v(f"trunc i64 {few} to i32"), lanes)
    index = ", ".join(f"{word} {i}" for i in range(lanes))
    return f.v(f"icmp slt {kind} <{index}>, {all_}")


def _load(f: Function, dtype: str, place: Value, i: Value, lanes: int, mask: Value) -> Value:
    element, size = STORED[dtype], SIZES[dtype]
    kind, address = f"<{lanes} x {element}>", f.element(element, place, i)
    if mask:
        what = f"ptr {address}, i32 {size}, <{lanes} x i1> {mask}, {kind} zeroinitializer"
        found = f.call(kind, f"@llvm.masked.load.{_suffix(dtype, lanes)}.p0", what)
    else:
        found = f.load(kind, address, f", align {size}")
    return f.v(f"icmp ne {kind} {found}, zeroinitializer") if dtype == "i1" else found


def _store(f: Function, dtype: str, value: Value, pointer: Value, i: Value, lanes: int, mask: Value) -> None:
    element, size = STORED[dtype], SIZES[dtype]
    kind, address = f"<{lanes} x {element}>", f.element(element, pointer, i)
    if dtype == "i1":
        value = f.v(f"zext <{lanes} x i1> {value} to {kind}")
    if mask:
        what = f"{kind} {value}, ptr {address}, i32 {size}, <{lanes} x i1> {mask}"
        f.call("void", f"@llvm.masked.store.{_suffix(dtype, lanes)}.p0", what)
    else:
        f.store(kind, value, address, f", align {size}")


def _suffix(dtype: str, lanes: int) -> str:
    """Return how the names of LLVM's functions for arrays in memory end."""
    return f"v{lanes}{dtype if dtype in FLOATS else f'i{8 * SIZES[dtype]}'}"


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
    "LIGHT",
    "SIZES",
    "STORED",
    "Source",
    "define_loop",
    "inline",
    "load_element",
    "loop_note",
    "pointwise_loop",
    "scalars_of",
    "splat",
    "trace",
    "vector_loop",
    "word_of",
    "work",
]
