"""`fuse`: a function of arrays becomes native kernels that pass over memory once.

    >>> import numpy as np
    >>> from sapwood.kernels.fuse import fuse
    >>> @fuse
    ... def softmax(x):
    ...     e = np.exp(x - np.max(x, -1, keepdims=True))
    ...     return e / np.sum(e, -1, keepdims=True)
    >>> softmax(np.zeros((1, 4)))
    array([[0.25, 0.25, 0.25, 0.25]])

The function is run on symbols once for each combination of shapes, strides, dtypes and other arguments; numbers it uses
do not cost a compilation. What cannot be fused runs on the arrays themselves, with the same result.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import (
    builtin,
    engine,
    geometry,
    vocabulary,  # noqa: F401 - gives Symbols their operators
)
from .emit import SIZES
from .layout import ENV
from .loops import Kernel, kernel_of
from .partition import leaves_of, partition, topological
from .plan import MADE, MAX_ARRAYS, PLAN, RECORD
from .rows import Writer, define_common
from .scalar import Scalar, const
from .symbols import Axis, Symbol, Unfusable, moved, source
from .writer import Module

Array = np.ndarray[Any, Any]
PLANS = 1024
"""Kinds of arguments that a function remembers, some 2 kB each; then it begins anew."""


_SETTINGS = frozenset((int, float, bool, str, tuple, type(None)))
"""Types of the arguments that are no arrays; a call with anything else is not fused."""


class Fused:
    """A function with a native form for each kind of arguments it has met.

    Args:
        function: what is run on Symbols.
        plain: what does the work where there is no native form; the function itself unless given.
        least: calls whose largest array has fewer elements go to `plain`.
    """

    def __init__(self, function: Callable[..., Any], plain: Callable[..., Any] | None = None, least: int = 0) -> None:
        functools.update_wrapper(self, function if plain is None else plain)
        self.function = function
        self.plain = function if plain is None else plain
        self.least = least
        self._plans: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            return self._with(kwargs)(*args)
        key: list[Any] = []
        arrays = []
        most = 0
        for a in args:
            if type(a) is np.ndarray:
                key += (a.dtype, a.shape, a.strides)
                if a.dtype.char not in "fd?":
                    return self.plain(*args)
                arrays.append(a)
                if (n := a.size) > most:
                    most = n
            elif type(a) in _SETTINGS:
                key += (type(a), a or str(a))  # 0.0 and -0.0 are equal, and not the same
            else:
                return self.plain(*args)
        if most < self.least:
            return self.plain(*args)
        try:
            plan = self._plans.get(tuple(key))
        except TypeError:
            return self.plain(*args)
        if plan is None:
            if len(self._plans) >= PLANS:
                self._plans.clear()
            plan = self._plans[tuple(key)] = self._plan(args)
        return plan(*arrays)

    @functools.cached_property
    def _named(self) -> dict[Any, Fused]:
        return {}

    def _with(self, kwargs: dict[str, Any]) -> Callable[..., Any]:
        """Return the function with keyword arguments filled in; arrays come by position only."""
        if any(type(v) not in _SETTINGS for v in kwargs.values()):
            return functools.partial(self.plain, **kwargs)
        key = tuple((n, type(v), v) for n, v in sorted(kwargs.items()))
        found = self._named.get(key)
        if found is None:
            function, plain = (functools.partial(f, **kwargs) for f in (self.function, self.plain))
            found = self._named[key] = Fused(function, plain, self.least)
        return found

    def _plan(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        """Return what computes the result from the arrays among the arguments."""
        if self.plain is not self.function:
            # Arguments that it refuses are refused here, in its words; which ones does not depend on the values.
            with np.errstate(all="ignore"):
                self.plain(*args)
        try:
            return build(self.function, args)
        except Unfusable:
            return self._plain(args)

    def _plain(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        fixed = [None if type(a) is np.ndarray else a for a in args]
        places = [i for i, a in enumerate(args) if type(a) is np.ndarray]

        def plain(*arrays: Array) -> Any:
            given = list(fixed)
            for i, a in zip(places, arrays):
                given[i] = a
            return self.plain(*given)

        return plain


def fuse(function: Callable[..., Any]) -> Fused:
    """Make native kernels of a function of arrays, one for each kind of arguments, at its first call with them.

    Args:
        function: computes on arrays with operators, NumPy's elementwise functions, sum, mean, max and min, where, and
            changes of shape that add or remove dimensions of size 1. It returns an array or a tuple of arrays, and has
            no other effect.

    Returns:
        A callable with the function's arguments. Arguments that are no arrays must be hashable.
    """
    return Fused(function)


def build(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return a callable of the arrays among `args`, for arrays of the same shapes, strides and dtypes.

    Raises:
        Unfusable: the function does something that kernels cannot, or there are no kernels here.
    """
    reason = builtin.why_not()
    if reason is not None:
        raise Unfusable(reason)
    arrays = [a for a in args if type(a) is np.ndarray]
    inputs = [source(i, a) for i, a in enumerate(arrays)]
    left = iter(inputs)
    answer = _run(function, [next(left) if type(a) is np.ndarray else a for a in args])
    several = isinstance(answer, tuple | list)
    shape = [answer] if not several else list(answer)
    outputs = [_output(x) for x in shape if x is not None]
    if not outputs or len(set(map(id, outputs))) != len(outputs):
        raise Unfusable("no result, or the same one twice")
    plan = _Plan(inputs, [a.strides for a in arrays], outputs)
    return _answering(plan.builtin(), plan.copied, shape, several)


def _run(function: Callable[..., Any], args: list[Any]) -> Any:
    """Run a function on Symbols; whatever it cannot do with them, the arrays themselves will be judged by."""
    try:
        return function(*args)
    except Unfusable:
        raise
    except Exception as problem:
        raise Unfusable(f"{type(problem).__name__}: {problem}") from problem


def elementwise(function: Callable[..., Any], arity: int) -> Callable[..., Any]:
    """Return a formula on arrays as one on Scalars, for `builtin.pointwise`.

    Args:
        function: computes element by element on arrays of one shape and, after them, on numbers.
        arity: number of arrays; what follows are numbers.

    Returns:
        A function of Scalars. It raises Unfusable where the function does something else.
    """

    def body(*scalars: Scalar) -> Any:
        axis = Axis(2)
        symbols = [
            Symbol("input", (), i, (axis,) if i < arity else (), x.dtype) for i, x in enumerate(scalars)
        ]  # fmt: skip
        answer = _run(function, symbols)
        several = isinstance(answer, tuple | list)
        outputs = [_output(x) for x in (answer if several else [answer])]
        values: dict[Symbol, Scalar] = {}
        for node in topological(outputs):
            if node.op == "reduce":
                raise Unfusable("a reduction")
            if node.op == "input":
                values[node] = scalars[node.what]
            elif node.op == "number":
                values[node] = const(node.what, node.kind)
            else:
                values[node] = node.what(*[values[a] for a in node.args])
        found = tuple(values[x] for x in outputs)
        return found if several else found[0]

    return body


def _output(x: Any) -> Symbol:
    if not isinstance(x, Symbol):
        raise Unfusable(f"a result that is {type(x).__name__}")
    return moved(x, x.axes) if x.op == "input" else x


def _answering(native: Any, copied: Sequence[int], shape: list[Any], several: bool) -> Callable[..., Any]:
    """Return a callable around a plan's builtin: copies before it where layouts need them, Nones put back after."""
    if not copied and (not several or (len(shape) > 1 and all(x is not None for x in shape))):
        found: Callable[..., Any] = native
        return found

    def call(*arrays: Array) -> Any:
        given = list(arrays)
        for i in copied:
            given[i] = np.ascontiguousarray(given[i])
        answer = native(*given)
        if not several:
            return answer
        left = iter(answer if isinstance(answer, tuple) else (answer,))
        return tuple(None if x is None else next(left) for x in shape)

    return call


_texts: dict[tuple[Any, ...], tuple[list[Kernel], dict[str, int]]] = {}
"""Addresses of compiled kernels by structure, with kernels of that structure, which keep its parts alive."""


def _compiled(kernels: list[Kernel]) -> dict[str, int]:
    """Return the addresses of the kernels' functions, k0.run, k0.finish, k1.run …"""
    key = tuple([k.structure for k in kernels])
    known = _texts.get(key)
    if known is None:
        module = Module()
        define_common(module)
        names = []
        for i, kernel in enumerate(kernels):
            Writer(kernel, f"k{i}", module).define()
            names += [f"k{i}.run"] + ([f"k{i}.finish"] if kernel.partial else [])
        known = _texts[key] = kernels, engine.load(module.text(), names)
    return known[1]


class _Plan:
    """The kernels of one function for given layouts, compiled."""

    def __init__(self, inputs: list[Symbol], strides: list[tuple[int, ...]], outputs: list[Symbol]) -> None:
        self.inputs, self.outputs = inputs, outputs
        self.copied: list[int] = []
        self.strides: dict[Symbol, dict[Axis, int]] = {}
        for i, x in enumerate(inputs):
            if len(x.roots()) != sum(a is not None for a in x.axes):
                raise Unfusable("an array combined with its own transpose")
            self.strides[x] = geometry.strides_of(x, strides[i])
        groups = partition(outputs)
        self.made = list(outputs)
        for group in groups:
            for r in group.results:
                self.strides[r] = geometry.dense(r)
                if not any(r is m for m in self.made):
                    self.made.append(r)
        if len(inputs) + len(self.made) > MAX_ARRAYS:
            raise Unfusable("too many arrays")
        copied = -1
        while copied < len(self.copied):
            # A copy that one kernel asks for is what every kernel reads.
            copied = len(self.copied)
            self.kernels = [self._kernel(group, leaves_of(groups, i)) for i, group in enumerate(groups)]

    def _kernel(self, group: Any, known: set[int]) -> tuple[Kernel, geometry.Geometry]:

        def is_leaf(x: Symbol) -> bool:
            return x.op == "input" or id(x) in known

        leaves = [x for x in topological(group.results, is_leaf) if is_leaf(x)]
        order = geometry.axis_order(group, leaves, self.strides)
        inner = order[-1] if order else None
        for x in (*leaves, *group.results):
            step = self.strides[x].get(inner) if inner is not None else None
            if step is not None and step != SIZES[x.kind]:
                self._copy(x, inner)
        kernel = kernel_of(group, known, inner)
        return kernel, geometry.measure(kernel, order, self.strides)

    def _copy(self, x: Symbol, inner: Axis | None) -> None:
        """Let an input be copied before each call, so that the innermost axis is contiguous."""
        if x.op == "input" and x.what not in self.copied:
            self.copied.append(x.what)
            self.strides[x] = geometry.dense(x)
        if inner is not None and self.strides[x][inner] != SIZES[x.kind]:
            raise Unfusable("arrays whose innermost dimensions differ")

    def builtin(self) -> Any:
        """Return the plan's builtin."""
        found = _compiled([k for k, _ in self.kernels])
        env = builtin.environment()
        kept: list[Any] = []

        def address(values: Sequence[int] | Sequence[float], kind: Any = ctypes.c_int64) -> int:
            kept.append((kind * max(1, len(values)))(*values))
            return ctypes.addressof(kept[-1])

        made: list[int] = []
        for x in self.made:
            entry = dict.fromkeys(MADE, 0)
            descr = env[ENV["bool" if x.kind == "i1" else x.kind] // 8]
            entry |= {"descr": descr, "ndim": x.ndim, "shape": address(x.shape), "bytes": x.size * SIZES[x.kind]}
            made += entry.values()
        everything = [*self.inputs, *self.made]
        place = {id(x): i for i, x in enumerate(everything)}
        records: list[int] = []
        for i, (kernel, size) in enumerate(self.kernels):
            operands = [place[id(x)] for x in (*kernel.operands, *kernel.outputs)]
            reductions = len(kernel.sweeps[0].reductions)
            columns = 1 if kernel.row else size.words[4]
            entry = dict.fromkeys(RECORD, 0)
            entry |= {
                "units": size.units,
                "grain": 1,
                "run": found[f"k{i}.run"],
                "geometry": address(size.words),
                "params": address(kernel.numbers, ctypes.c_double),
                "cost": kernel.cost * size.elements // 1000,
                "operands": address(operands),
                "count": len(operands),
                "partial_bytes": 8 * columns * size.units * reductions if kernel.partial else 0,
                "finish": found[f"k{i}.finish"] if kernel.partial else 0,
            }
            records += entry.values()
        values = {
            "env": ctypes.addressof(env),
            "inputs": len(self.inputs),
            "allocations": len(self.made),
            "results": len(self.outputs),
            "kernels": len(self.kernels),
            "made": address(made),
            "records": address(records),
            "single": int(len(self.outputs) == 1),
        }
        table = builtin.table(8 * len(PLAN), values, PLAN, kept)
        return builtin.make("fused", builtin.runtime()["run_plan"], table, "Run fused kernels.")


__all__ = ["Fused", "build", "elementwise", "fuse"]
