"""Symbols: operands that write down what a formula does to whole arrays.

A formula written with operators, with ops, or with NumPy's functions runs on Symbols as it runs on arrays. What comes
out is a graph of three kinds of values: inputs, pointwise functions, and reductions. Every dimension longer than one is
an *axis*; broadcasting makes axes of two operands the same axis, so reshapes that only add or remove dimensions of size
1, transpositions and expansions leave no trace in the graph.

Whatever else a formula does raises `Unfusable`, and the caller runs it on arrays instead.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from . import scalar
from .scalar import Scalar

DTYPES = {"f": "f32", "d": "f64", "?": "i1"}
"""Dtypes a kernel takes, by NumPy's characters."""
NUMPY: dict[str, np.dtype[Any]] = {"f32": np.dtype("f4"), "f64": np.dtype("f8"), "i1": np.dtype("?")}


class Unfusable(Exception):
    """A formula does something that has no place in a kernel; the text says what."""


class Axis:
    """One dimension of the iteration space; dimensions that broadcasting has joined share their root."""

    __slots__ = ("joined", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.joined: Axis | None = None

    def root(self) -> Axis:
        """Return the axis that stands for all those joined with this one."""
        axis = self
        while axis.joined is not None:
            axis = axis.joined
        return axis

    def join(self, other: Axis) -> None:
        """Make two axes one."""
        a, b = self.root(), other.root()
        if a is not b:
            b.joined = a


Axes = tuple[Axis | None, ...]


class Symbol:
    """A value of the graph.

    Attributes:
        op: "input", "point", "reduce" or "number".
        args: the values it is computed from.
        what: of a point the function on Scalars, of a reduction its name, of an input its position, of a number itself.
        axes: one for each dimension; None for a dimension of size 1.
        kind: f32, f64 or i1.
    """

    __slots__ = ("args", "axes", "kind", "op", "what")
    __array_priority__ = 1000.0

    def __init__(self, op: str, args: tuple[Symbol, ...], what: Any, axes: Axes, kind: str) -> None:
        self.op, self.args, self.what, self.axes, self.kind = op, args, what, axes, kind

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(1 if a is None else a.size for a in self.axes)

    @property
    def ndim(self) -> int:
        return len(self.axes)

    @property
    def size(self) -> int:
        n = 1
        for axis in self.axes:
            n *= 1 if axis is None else axis.size
        return n

    @property
    def dtype(self) -> np.dtype[Any]:
        return NUMPY[self.kind]

    def roots(self) -> tuple[Axis, ...]:
        """Return the distinct axes it has, in the order of its dimensions."""
        return tuple(dict.fromkeys(a.root() for a in self.axes if a is not None))

    def __bool__(self) -> bool:
        raise Unfusable("the formula asks for the truth of a value")

    def __len__(self) -> int:
        return self.shape[0]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise Unfusable(f"the attribute {name}")

    def _refuse(self, *args: Any) -> Any:
        raise Unfusable("a selection, a product of matrices, or the value of an element")

    __getitem__ = __matmul__ = __rmatmul__ = __iter__ = __float__ = __int__ = __index__ = _refuse

    @classmethod
    def __sapwood_op__(cls, op: Any, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """Take an op's call over: a known function of elements or a reduction, else the op's own formula."""
        from .vocabulary import of_op

        return of_op(op, inputs, attrs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from .vocabulary import of_name

        if method != "__call__" or kwargs:
            raise Unfusable(f"np.{ufunc.__name__} with {method} {', '.join(kwargs)}")
        return of_name(ufunc.__name__, inputs)

    def __array_function__(self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from .vocabulary import of_function

        return of_function(function.__name__, args, kwargs)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Symbol:
        return reduce("sum", self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Symbol:
        return mean(self, axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Symbol:
        return reduce("max", self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Symbol:
        return reduce("min", self, axis, keepdims)

    def reshape(self, *shape: Any) -> Symbol:
        return reshape(self, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)


def source(position: int, array: np.ndarray[Any, Any]) -> Symbol:
    """Return the symbol of an input."""
    kind = DTYPES.get(array.dtype.char)
    if kind is None or not array.dtype.isnative:
        raise Unfusable(f"an input of dtype {array.dtype}")
    if not array.size:
        raise Unfusable("an empty input")
    return Symbol("input", (), position, tuple(None if n == 1 else Axis(n) for n in array.shape), kind)


def number(value: float, kind: str) -> Symbol:
    """Return a Python number as a value without dimensions; kernels read it at each call."""
    return Symbol("number", (), value, (), kind)


def broadcast(operands: Sequence[Symbol]) -> Axes:
    """Return the axes of a pointwise result, joining those of the operands."""
    ndim = max(x.ndim for x in operands)
    result: list[Axis | None] = [None] * ndim
    for x in operands:
        for d, axis in enumerate(x.axes, ndim - x.ndim):
            if axis is None:
                continue
            found = result[d]
            if found is None:
                result[d] = axis
            elif found.size != axis.size:
                raise Unfusable(f"sizes {found.size} and {axis.size} do not broadcast")
            else:
                found.join(axis)
    roots = [a.root() for a in result if a is not None]
    if len(set(map(id, roots))) != len(roots):
        raise Unfusable("an array combined with its own transpose")
    return tuple(result)


def point(function: Callable[..., Scalar], operands: Sequence[Symbol], kind: str) -> Symbol:
    """Return a function of the operands' elements."""
    return Symbol("point", tuple(operands), function, broadcast(operands), kind)


def dims_of(x: Symbol, dim: Any) -> tuple[int, ...]:
    """Return dimensions as a tuple of positions; None or () are all of them."""
    if dim is None or dim == ():
        return tuple(range(x.ndim))
    dims = (dim,) if isinstance(dim, int | np.integer) else tuple(dim)
    return tuple(int(d) % x.ndim if x.ndim else 0 for d in dims)


def reduce(name: str, x: Symbol, dim: Any = None, keepdim: bool = False) -> Symbol:
    """Return a reduction (sum, max or min) over dimensions."""
    if x.kind == "i1":
        raise Unfusable("a reduction of bools")
    dims = dims_of(x, dim)
    axes = tuple(None if d in dims else a for d, a in enumerate(x.axes))
    gone = tuple(a for d in dims if x.ndim and (a := x.axes[d]) is not None)
    kept = axes if keepdim else tuple(a for d, a in enumerate(axes) if d not in dims)
    if not gone:
        return Symbol("point", (x,), _same, kept, x.kind)
    return Symbol("reduce", (x,), (name, gone), kept, x.kind)


def _same(x: Scalar) -> Scalar:
    return x


def mean(x: Symbol, dim: Any = None, keepdim: bool = False) -> Symbol:
    """Return the mean over dimensions."""
    n = 1
    for d in dims_of(x, dim):
        n *= x.shape[d] if x.ndim else 1
    total = reduce("sum", x, dim, keepdim)
    return point(operator.truediv, (total, number(n, x.kind)), x.kind)


def moved(x: Symbol, axes: Iterable[Axis | None]) -> Symbol:
    """Return the same elements with other dimensions."""
    return Symbol("point", (x,), _same, tuple(axes), x.kind)


def reshape(x: Symbol, shape: Sequence[int]) -> Symbol:
    """Return a reshaped value, as long as only dimensions of size 1 come and go."""
    shape = [int(n) for n in shape]
    if -1 in shape:
        rest = 1
        for n in shape:
            rest *= n if n != -1 else 1
        shape[shape.index(-1)] = x.size // rest
    axes = [a for a in x.axes if a is not None]
    if [n for n in shape if n != 1] != [a.size for a in axes]:
        raise Unfusable(f"a reshape from {x.shape} to {tuple(shape)}")
    left = iter(axes)
    return moved(x, [None if n == 1 else next(left) for n in shape])


def expand(x: Symbol, shape: Sequence[int]) -> Symbol:
    """Return a value repeated along new dimensions and along those of size 1."""
    axes: list[Axis | None] = [*([None] * (len(shape) - x.ndim)), *x.axes]
    for d, n in enumerate(shape):
        if n not in (1, -1) and axes[d] is None:
            axes[d] = Axis(int(n))
    return moved(x, axes)


def convert(x: Symbol, kind: str) -> Symbol:
    """Return a value in another type."""
    return x if x.kind == kind else Symbol("point", (x,), _conversion(kind), x.axes, kind)


@functools.cache
def _conversion(kind: str) -> Callable[[Scalar], Scalar]:
    return lambda x: scalar.convert(x, kind)


__all__ = [
    "DTYPES",
    "NUMPY",
    "Axis",
    "Symbol",
    "Unfusable",
    "broadcast",
    "convert",
    "dims_of",
    "expand",
    "mean",
    "moved",
    "number",
    "point",
    "reduce",
    "reshape",
    "source",
]
