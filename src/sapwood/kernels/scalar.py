"""Expressions over one element, as a graph that becomes LLVM text.

A `Scalar` is a value of one element: a variable, a constant, or an operation on other Scalars. Python's operators build
them, so a formula written for numbers runs on them unchanged:

    >>> from sapwood.kernels.scalar import fma, lower, var
    >>> x = var("%x", "f32")
    >>> lines, names = lower([fma(x, x, 1.0)])
    >>> print(lines[0], names)
    %t0 = call float @llvm.fma.f32(float %x, float %x, float 0x3FF0000000000000) ['%t0']

Equal expressions are the same object, so shared parts are computed once. Nothing is simplified and no fast-math flag is
ever written: what a formula says is what is computed, to the last bit, and LLVM's optimiser does the rest.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias
from weakref import WeakValueDictionary

from ..errors import ArgumentError, DtypeError

__all__ = [
    "FLOATS", "LLVM_TYPES", "Number", "Scalar", "as_scalar", "bitcast", "ceil", "const", "convert", "copysign",
    "fabs", "floor", "fma", "fmax", "fmin", "guard", "isnan", "lower", "lshr", "maximum", "minimum", "parts",
    "rare", "rint", "select", "sqrt", "trunc", "type_of", "var",
]  # fmt: skip

LLVM_TYPES = {
    "f32": "float",
    "f64": "double",
    "i1": "i1",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "u8": "i8",
}
BITS = {"f32": 32, "f64": 64, "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8}
FLOATS = ("f32", "f64")
COMPARISONS = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne"}
INTRINSICS = {"fma", "sqrt", "rint", "floor", "ceil", "trunc", "fabs", "copysign"}


class Scalar:
    """One element's value: `op` applied to `args`, of type `dtype`. Made by the functions of this module only."""

    __slots__ = ("__weakref__", "args", "dtype", "op", "value")

    op: str
    dtype: str
    args: tuple[Scalar, ...]
    value: str | None
    """The LLVM name of a variable, the LLVM literal of a constant; else None."""

    def __repr__(self) -> str:
        inner = self.value if self.value is not None else ", ".join(a.value or a.op for a in self.args)
        return f"Scalar({self.op}: {inner}; {self.dtype})"

    def __bool__(self) -> bool:
        raise ArgumentError("Scalar: a comparison has no truth value before it is computed; use select(c, a, b)")

    __hash__ = object.__hash__

    def __add__(self, other: Number) -> Scalar:
        return _arithmetic("add", self, other)

    def __radd__(self, other: Number) -> Scalar:
        return _arithmetic("add", other, self)

    def __sub__(self, other: Number) -> Scalar:
        return _arithmetic("sub", self, other)

    def __rsub__(self, other: Number) -> Scalar:
        return _arithmetic("sub", other, self)

    def __mul__(self, other: Number) -> Scalar:
        return _arithmetic("mul", self, other)

    def __rmul__(self, other: Number) -> Scalar:
        return _arithmetic("mul", other, self)

    def __truediv__(self, other: Number) -> Scalar:
        return _arithmetic("div", self, other)

    def __rtruediv__(self, other: Number) -> Scalar:
        return _arithmetic("div", other, self)

    def __neg__(self) -> Scalar:
        return make("neg", _wants("neg", self, numeric=True).dtype, (self,))

    def __abs__(self) -> Scalar:
        return fabs(self) if self.dtype in FLOATS else select(self < 0, -self, self)

    def __lt__(self, other: Number) -> Scalar:
        return _compare("lt", self, other)

    def __le__(self, other: Number) -> Scalar:
        return _compare("le", self, other)

    def __gt__(self, other: Number) -> Scalar:
        return _compare("gt", self, other)

    def __ge__(self, other: Number) -> Scalar:
        return _compare("ge", self, other)

    def __eq__(self, other: Number) -> Scalar:  # type: ignore[override]
        return _compare("eq", self, other)

    def __ne__(self, other: Number) -> Scalar:  # type: ignore[override]
        return _compare("ne", self, other)

    def __and__(self, other: Number) -> Scalar:
        return _bits("and", self, other)

    def __rand__(self, other: Number) -> Scalar:
        return _bits("and", other, self)

    def __or__(self, other: Number) -> Scalar:
        return _bits("or", self, other)

    def __ror__(self, other: Number) -> Scalar:
        return _bits("or", other, self)

    def __xor__(self, other: Number) -> Scalar:
        return _bits("xor", self, other)

    def __rxor__(self, other: Number) -> Scalar:
        return _bits("xor", other, self)

    def __invert__(self) -> Scalar:
        return _bits("xor", self, True if self.dtype == "i1" else -1)

    def __lshift__(self, other: Number) -> Scalar:
        return _bits("shl", self, other)

    def __rshift__(self, other: Number) -> Scalar:
        return _bits("shr", self, other)


Number: TypeAlias = "Scalar | float"

_known: WeakValueDictionary[tuple[str, str, tuple[int, ...], str | None], Scalar] = WeakValueDictionary()


def make(op: str, dtype: str, args: tuple[Scalar, ...] = (), value: str | None = None) -> Scalar:
    """Return the one Scalar with these parts."""
    # Ids, not the arguments themselves: `==` on Scalars builds a comparison. A node keeps its arguments alive.
    key = (op, dtype, tuple(map(id, args)), value)
    found = _known.get(key)
    if found is None:
        found = object.__new__(Scalar)
        found.op, found.dtype, found.args, found.value = op, dtype, args, value
        _known[key] = found
    return found


def var(name: str, dtype: str) -> Scalar:
    """Return the variable of LLVM name `name` (with its %)."""
    if dtype not in LLVM_TYPES:
        raise DtypeError(f"var: dtype must be one of {', '.join(LLVM_TYPES)}, got {dtype!r}")
    return make("var", dtype, value=name)


def const(x: float, dtype: str) -> Scalar:
    """Return a constant; `x` is rounded to a float type, and must fit an integer type."""
    if dtype in FLOATS:
        # LLVM writes both float types as the bits of a double.
        rounded = ctypes.c_float(x).value if dtype == "f32" else float(x)
        literal = (
            "0x7FF8000000000000"
            if rounded != rounded
            else f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
        )
        return make("const", dtype, value=literal)
    if x != int(x):
        raise DtypeError(
            f"const: {x!r} is no integer and does not fit {dtype}; convert the other operand to f32 or f64"
        )
    number, bits = int(x), BITS[dtype]
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise DtypeError(f"const: {number} does not fit {dtype}")
    if dtype == "i1":
        return make("const", dtype, value="true" if number else "false")
    # Signed and unsigned spellings of the same bits are one constant.
    number &= (1 << bits) - 1
    return make("const", dtype, value=str(number - (1 << bits) if number >> (bits - 1) else number))


def as_scalar(x: Number, like: Scalar) -> Scalar:
    """Return `x` itself, or the constant `x` of the type of `like`."""
    return x if isinstance(x, Scalar) else const(x, like.dtype)


def _same(op: str, *operands: Number) -> list[Scalar]:
    """Return the operands as Scalars of one dtype; Python numbers take the dtype of the first Scalar."""
    like = next((x for x in operands if isinstance(x, Scalar)), None)
    if like is None:
        raise ArgumentError(f"{op}: at least one operand must be a Scalar, got {operands!r}; use const(x, dtype)")
    scalars = [as_scalar(x, like) for x in operands]
    for x in scalars:
        if x.dtype != like.dtype:
            raise DtypeError(f"{op}: operands are {like.dtype} and {x.dtype}; use convert(x, dtype)")
    return scalars


def _wants(op: str, x: Scalar, *, numeric: bool = False) -> Scalar:
    """Return `x` if it is a float (or with `numeric` an integer of more than one bit)."""
    if x.dtype not in FLOATS and (not numeric or x.dtype == "i1"):
        raise DtypeError(
            f"{op}: expected {'a number' if numeric else 'f32 or f64'}, got {x.dtype}; use convert(x, dtype)"
        )
    return x


def _arithmetic(op: str, x: Number, y: Number) -> Scalar:
    a, b = _same(op, x, y)
    _wants(op, a, numeric=op != "div")
    return make(op, a.dtype, (a, b))


def _compare(op: str, x: Number, y: Number) -> Scalar:
    a, b = _same(op, x, y)
    return make(op, "i1", (a, b))


def _bits(op: str, x: Number, y: Number) -> Scalar:
    a, b = _same(op, x, y)
    if a.dtype in FLOATS:
        raise DtypeError(f"{op}: expected integers or i1, got {a.dtype}; use bitcast(x, 'i{BITS[a.dtype]}')")
    return make(op, a.dtype, (a, b))


def _intrinsic(op: str, *operands: Number) -> Scalar:
    scalars = _same(op, *operands)
    return make(op, _wants(op, scalars[0]).dtype, tuple(scalars))


def fma(x: Number, y: Number, z: Number) -> Scalar:
    """Return x·y + z, rounded once."""
    return _intrinsic("fma", x, y, z)


def sqrt(x: Scalar) -> Scalar:
    """Return the correctly rounded square root; NaN below zero."""
    return _intrinsic("sqrt", x)


def rint(x: Scalar) -> Scalar:
    """Round to the nearest integer, ties to even."""
    return _intrinsic("rint", x)


def floor(x: Scalar) -> Scalar:
    """Round down to an integer."""
    return _intrinsic("floor", x)


def ceil(x: Scalar) -> Scalar:
    """Round up to an integer."""
    return _intrinsic("ceil", x)


def trunc(x: Scalar) -> Scalar:
    """Round towards zero to an integer."""
    return _intrinsic("trunc", x)


def fabs(x: Scalar) -> Scalar:
    """Clear the sign."""
    return _intrinsic("fabs", x)


def copysign(x: Number, y: Number) -> Scalar:
    """Return |x| with the sign of y."""
    return _intrinsic("copysign", x, y)


def isnan(x: Scalar) -> Scalar:
    """Return whether x is NaN."""
    return make("ne", "i1", (_wants("isnan", x), x))


def lshr(x: Scalar, n: Number) -> Scalar:
    """Shift right and fill with zeros, also for signed types; `>>` repeats the sign."""
    return _bits("lshr", x, n)


# The four extrema are comparisons and selections: what x86 does in one to three instructions. LLVM's own intrinsics
# order the two zeros as well, which nobody asks for and costs four more.


def minimum(x: Number, y: Number) -> Scalar:
    """Return the smaller operand, NaN if either is NaN."""
    a, b = _same("minimum", x, y)
    smaller = select(a < b, a, b)
    return select(isnan(a), a, smaller) if a.dtype in FLOATS else smaller


def maximum(x: Number, y: Number) -> Scalar:
    """Return the larger operand, NaN if either is NaN."""
    a, b = _same("maximum", x, y)
    larger = select(a > b, a, b)
    return select(isnan(a), a, larger) if a.dtype in FLOATS else larger


def fmin(x: Number, y: Number) -> Scalar:
    """Return the smaller operand, the other one if one is NaN."""
    a, b = _same("fmin", x, y)
    smaller = select(a < b, a, b)
    return select(isnan(b), a, smaller) if a.dtype in FLOATS else smaller


def fmax(x: Number, y: Number) -> Scalar:
    """Return the larger operand, the other one if one is NaN."""
    a, b = _same("fmax", x, y)
    larger = select(a > b, a, b)
    return select(isnan(b), a, larger) if a.dtype in FLOATS else larger


def select(c: Scalar, a: Number, b: Number) -> Scalar:
    """Return a where c holds, else b."""
    return _choose("select", c, a, b)


def rare(c: Scalar, a: Number, b: Number) -> Scalar:
    """Return a where c holds, else b, and say that c seldom holds and that a is costly.

    `lower` treats it as `select`; a loop may compute a block with `lower(roots, fast=True)`, where a is left out, and
    repeat it in full only if `guard(roots)` held for one of its elements.
    """
    return _choose("rare", c, a, b)


def _choose(op: str, c: Scalar, a: Number, b: Number) -> Scalar:
    if c.dtype != "i1":
        raise DtypeError(f"{op}: the condition must be i1, got {c.dtype}; compare it with something")
    x, y = _same(op, a, b)
    return x if x is y else make(op, x.dtype, (c, x, y))


def bitcast(x: Scalar, dtype: str) -> Scalar:
    """Return the same bits as another type of the same size."""
    if BITS[x.dtype] != BITS[dtype]:
        raise DtypeError(f"bitcast: {x.dtype} and {dtype} differ in size")
    return x if x.dtype == dtype else make("bitcast", dtype, (x,))


def convert(x: Scalar, dtype: str) -> Scalar:
    """Return the same number as another type: floats are rounded, integers wrap, i1 is "not zero".

    A float outside an integer type's range gives an undefined value; select something else there.
    """
    if x.dtype == dtype:
        return x
    return x != 0 if dtype == "i1" else make("convert", dtype, (x,))


def guard(roots: Sequence[Scalar]) -> Scalar | None:
    """Return whether any `rare` condition among the roots' parts holds, or None if there is none."""
    found: Scalar | None = None
    for node in parts(roots, fast=True):
        if node.op == "rare":
            found = node.args[0] if found is None else found | node.args[0]
    return found


def lower(
    roots: Sequence[Scalar],
    *,
    prefix: str = "t",
    fast: bool = False,
    lanes: int = 0,
    names: Mapping[str, str] | None = None,
) -> tuple[list[str], list[str]]:
    """Write the expressions as LLVM instructions.

    Args:
        roots: the wanted values.
        prefix: start of the names given to intermediate values, %t0, %t1 …
        fast: take the second choice of every `rare` without asking.
        lanes: compute on vectors of so many elements, which the variables must be; 0: on single elements.
        names: other names of variables, by their own.

    Returns:
        the instructions in order, without indentation, each shared part once; and the operand text of each root.
        Intrinsics need no declaration: LLVM declares them from their names.
    """
    known: dict[Scalar, str] = {}
    lines: list[str] = []
    for node in parts(roots, fast=fast):
        if node.op == "var":
            known[node] = str(node.value) if names is None else names[str(node.value)]
        elif node.value is not None:
            known[node] = f"splat ({LLVM_TYPES[node.dtype]} {node.value})" if lanes else node.value
        elif node.op == "rare" and fast:
            known[node] = known[node.args[2]]
        else:
            known[node] = f"%{prefix}{len(lines)}"
            lines.append(f"{known[node]} = {_instruction(node, [known[a] for a in node.args], lanes)}")
    return lines, [known[r] for r in roots]


def type_of(dtype: str, lanes: int) -> str:
    """Return LLVM's name of a vector type, of the plain type for 0 lanes."""
    return f"<{lanes} x {LLVM_TYPES[dtype]}>" if lanes else LLVM_TYPES[dtype]


def parts(roots: Iterable[Scalar], *, fast: bool = False) -> list[Scalar]:
    """Return every part of the roots, operands before their users; with `fast`, without the first choice of a `rare`.

    Its condition stays only in as far as `guard` needs it: as a part of a root.
    """
    done: set[Scalar] = set()
    order: list[Scalar] = []
    stack = [(r, False) for r in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node not in done:
            done.add(node)
            stack.append((node, True))
            args = node.args[2:] if fast and node.op == "rare" else node.args
            stack.extend((a, False) for a in reversed(args))
    return order


_FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


def _instruction(node: Scalar, a: list[str], lanes: int) -> str:
    """Return the right-hand side of one node, with its operands' texts `a`."""
    op = node.op
    dtype = node.args[0].dtype
    kind, result = type_of(dtype, lanes), type_of(node.dtype, lanes)
    is_float = dtype in FLOATS
    if op in INTRINSICS:
        return f"call {kind} @llvm.{op}.{f'v{lanes}' if lanes else ''}{dtype}({', '.join(f'{kind} {x}' for x in a)})"
    if op in ("select", "rare"):
        return f"select {kind} {a[0]}, {result} {a[1]}, {result} {a[2]}"
    if op in COMPARISONS:
        # NaN compares unequal to everything: "une", and ordered comparisons else.
        if is_float:
            return f"fcmp {'u' if op == 'ne' else 'o'}{op} {kind} {a[0]}, {a[1]}"
        sign = "" if op in ("eq", "ne") else "u" if dtype in ("u8", "i1") else "s"
        return f"icmp {sign}{op} {kind} {a[0]}, {a[1]}"
    if op == "neg":
        return f"fneg {kind} {a[0]}" if is_float else f"sub {kind} {'zeroinitializer' if lanes else 0}, {a[0]}"
    if op == "bitcast":
        return f"bitcast {kind} {a[0]} to {result}"
    if op == "convert":
        return f"{_conversion(dtype, node.dtype)} {kind} {a[0]} to {result}"
    if op == "shr":
        op = "lshr" if dtype in ("u8", "i1") else "ashr"
    return f"{_FLOAT_OPS[op] if is_float else op} {kind} {a[0]}, {a[1]}"


def _conversion(source: str, target: str) -> str:
    """Return the LLVM conversion between two different types."""
    unsigned = source in ("u8", "i1")
    if source in FLOATS:
        if target in FLOATS:
            return "fpext" if target == "f64" else "fptrunc"
        return "fptoui" if target == "u8" else "fptosi"
    if target in FLOATS:
        return "uitofp" if unsigned else "sitofp"
    if BITS[source] == BITS[target]:
        return "bitcast"
    if BITS[source] > BITS[target]:
        return "trunc"
    return "zext" if unsigned else "sext"
