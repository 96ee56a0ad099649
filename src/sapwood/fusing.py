"""`fuse`: a function of tensors becomes one native kernel, and its gradient another.

The function runs once on stand-ins that write its ops down; the kernels compute everything between its inputs and its
results in one pass over memory. Backward computes intermediate values again instead of keeping them, so that a fused
function saves its inputs and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import ops
from .autograd.function import Function
from .autograd.mode import enable_grad, no_grad
from .autograd.run import grad
from .kernels import symbols, vocabulary
from .kernels.fuse import Fused
from .kernels.symbols import Symbol, Unfusable
from .ops.declare import differentiable, input_names, todo, zero
from .state import GRAD, OBSERVE, get_mode
from .tensor import Tensor, wrap


class _Shape:
    """What stands in for a stand-in's memory: it has a shape and a dtype, and no elements that could be read."""

    __slots__ = ("dtype", "shape")
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(np.prod(self.shape)))

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

    def __getattr__(self, name: str) -> Any:
        raise Unfusable(f"the function reads the elements of a tensor ({name})")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Unfusable("the function reads the elements of a tensor")

    def __bool__(self) -> bool:
        raise Unfusable("the function asks for the truth of a tensor")

    def __len__(self) -> int:
        return self.shape[0]


class StandIn(Tensor):
    """A tensor of a fused function while it is written down."""

    __slots__ = ("_symbol", "_tape")

    _symbol: Symbol
    _tape: list[tuple[Any, tuple[Any, ...], tuple[Any, ...], Any]]

    @classmethod
    def __sapwood_op__(cls, op: Any, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """Note the call; an op without a derivative of its own is noted as what its formula does."""
        tape = next(x._tape for x in inputs if isinstance(x, StandIn))
        if op.canon is not None and op.attrs:
            attrs = op.canon(*[_symbol(x) for x in inputs[:1]], *attrs)
        if not differentiable(op) and op.formula is not None and not vocabulary.is_primitive(op):
            given = dict(zip(input_names(op), inputs)) | dict(zip(op.attrs, attrs))
            order = [(n, keyword) for n, _, keyword in op.params]
            return op.formula(*[given[n] for n, k in order if not k], **{n: given[n] for n, k in order if k})
        result = vocabulary.of_op(op, tuple(map(_symbol, inputs)), attrs)
        if not isinstance(result, Symbol):
            raise Unfusable(f"the op {op.name}, which has several results")
        out = _stand_in(result, tape)
        tape.append((op, inputs, attrs, out))
        return out


def _stand_in(symbol: Symbol, tape: list[Any]) -> StandIn:
    made = object.__new__(StandIn)
    made._array = _Shape(symbol.shape, symbol.dtype)  # type: ignore[assignment]
    made._node = None
    made._symbol, made._tape = symbol, tape
    return made


def _symbol(x: Any) -> Any:
    if isinstance(x, StandIn):
        return x._symbol
    if isinstance(x, Tensor):
        raise Unfusable("a tensor that the function does not take as an argument")
    return x


def _written(function: Callable[..., Any], args: Sequence[Any]) -> tuple[list[Any], Any, list[Any]]:
    """Run a function on stand-ins for the Symbols among its arguments; return these, the answer, and the tape."""
    tape: list[Any] = []
    given = [_stand_in(x, tape) if isinstance(x, Symbol) else x for x in args]
    return given, function(*given), tape


def _pull(tape: list[Any], outs: Sequence[Any], cotangents: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Return the gradients of the stand-ins in `given`, as Symbols; None where there is none."""
    found: dict[int, Any] = {}
    for out, g in zip(outs, cotangents):
        if isinstance(out, StandIn) and g is not None:
            found[id(out)] = g if id(out) not in found else found[id(out)] + g
    for op, inputs, attrs, out in reversed(tape):
        g = found.get(id(out))
        if g is None:
            continue
        names = input_names(op)
        known = dict(zip(names, map(_symbol, inputs))) | dict(zip(op.attrs, attrs)) | {"out": out._symbol}
        for n, x in zip(names, inputs):
            if isinstance(x, StandIn):
                known |= {f"{n}_shape": x._symbol.shape, f"{n}_dtype": x._symbol.dtype, f"{n}_order": "C"}
        for x, d in zip(inputs, _derivatives(op, g, inputs, known)):
            if d is None or not isinstance(x, StandIn):
                continue
            d = _shrunk(symbols.convert(d, x._symbol.kind), x._symbol.shape)
            found[id(x)] = d if id(x) not in found else found[id(x)] + d
    return [found.get(id(x)) for x in given]


def _derivatives(op: Any, g: Any, inputs: Sequence[Any], known: dict[str, Any]) -> Sequence[Any]:
    if todo in (op.vjp, *op.vjps):
        raise Unfusable(f"the derivative of {op.name}")
    if op.vjp is not None:
        needs = tuple(isinstance(x, StandIn) for x in inputs)
        answer: Sequence[Any] = op.vjp(g, needs, *(known[w] for w in op.wants[0]))
        return answer
    return [
        f(g, *(known[w] for w in wanted)) if f not in (None, zero) and isinstance(x, StandIn) else None
        for x, f, wanted in zip(inputs, op.vjps, op.wants)
    ]


def _shrunk(g: Symbol, shape: tuple[int, ...]) -> Symbol:
    """Sum a gradient over the dimensions that broadcasting added or stretched."""
    extra = g.ndim - len(shape)
    stretched = [d for d, n in enumerate(g.shape) if d < extra or (n != 1 and shape[d - extra] == 1)]
    if stretched:
        g = symbols.reduce("sum", g, stretched, True)
    return symbols.reshape(g, shape) if g.shape != shape else g


class FusedFunction:
    """A function of tensors with native kernels for what it computes and for its gradient."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._forward = Fused(self._on_symbols, self._on_arrays)
        self._backward = Fused(self._gradient_on_symbols, self._gradient_on_arrays)
        self._arrays = Fused(function)

    def __repr__(self) -> str:
        return f"<fused {getattr(self.function, '__qualname__', self.function)}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(a, Tensor) for a in args):
            return self._arrays(*args, **kwargs)
        if get_mode() & OBSERVE:
            # Those who observe calls see the ones it is made of.
            return self.function(*args, **kwargs)
        if kwargs:
            # A setting by name becomes part of the function, as a tensor cannot.
            if any(isinstance(v, Tensor) for v in kwargs.values()):
                return self.function(*args, **kwargs)
            return self._named(tuple(sorted(kwargs.items())))(*args)
        if any(isinstance(a, Tensor) and type(a) is not Tensor and hasattr(type(a), "__sapwood_op__") for a in args):
            return self.function(*args)
        if get_mode() & GRAD and any(isinstance(a, Tensor) and a._node is not None for a in args):
            return _Fused.apply(self, *args)
        return self._evaluated(args)

    @functools.cached_property
    def _named(self) -> Callable[[tuple[Any, ...]], FusedFunction]:
        return functools.lru_cache(64)(
            lambda items: FusedFunction(functools.partial(self.function, **dict(items)))
        )  # fmt: skip

    def _evaluated(self, args: Sequence[Any]) -> Any:
        answer = self._forward(*[a._array if isinstance(a, Tensor) else a for a in args])
        return tuple(map(_wrapped, answer)) if isinstance(answer, tuple) else _wrapped(answer)

    def _on_symbols(self, *args: Any) -> Any:
        _, answer, _ = _written(self.function, args)
        return tuple(map(_symbol, answer)) if isinstance(answer, tuple | list) else _symbol(answer)

    def _on_arrays(self, *args: Any) -> Any:
        with no_grad():
            answer = self.function(*[wrap(a) if isinstance(a, np.ndarray) else a for a in args])
        return tuple(map(_unwrapped, answer)) if isinstance(answer, tuple | list) else _unwrapped(answer)

    def _gradient_on_symbols(self, count: int, needs: tuple[bool, ...], *values: Any) -> Any:
        cotangents, args = values[:count], values[count:]
        given, answer, tape = _written(self.function, args)
        outs = answer if isinstance(answer, tuple | list) else (answer,)
        found = _pull(tape, outs, cotangents, given)
        return tuple(
            (g if g is not None else x._symbol * 0.0) if wanted else None for x, g, wanted in zip(given, found, needs)
        )

    def _gradient_on_arrays(self, count: int, needs: tuple[bool, ...], *values: Any) -> Any:
        tensors = [wrap(a) if isinstance(a, np.ndarray) else a for a in values]
        return tuple(None if g is None else g._array for g in self.pulled(tensors[:count], needs, tensors[count:]))

    def pulled(
        self, cotangents: Sequence[Any], needs: Sequence[bool], args: Sequence[Any], create: bool = False
    ) -> Any:
        """Return gradients by recording the function's own ops."""
        with enable_grad():
            given = [
                (a if create else a.detach().requires_grad_()) if wanted else a for a, wanted in zip(args, needs)
            ]  # fmt: skip
            answer = self.function(*given)
            outs = answer if isinstance(answer, tuple | list) else (answer,)
            pairs = [(o, g) for o, g in zip(outs, cotangents) if o.requires_grad and g is not None]
            asked = [a for a, wanted in zip(given, needs) if wanted]
            found = iter(
                grad([o for o, _ in pairs], asked, [g for _, g in pairs], create_graph=create, allow_unused=True)
            )
        return [
            (ops.zeros_of(a, a.shape) if (g := next(found)) is None else g) if wanted else None
            for a, wanted in zip(args, needs)
        ]


class _Fused(Function):
    """The node of a fused function: it keeps the arguments."""

    @staticmethod
    def forward(ctx: Any, fused: FusedFunction, *args: Any) -> Any:
        ctx.fused = fused
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.rest = [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        return fused._evaluated(args)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        args = list(ctx.rest)
        for i, t in zip(ctx.places, ctx.saved_tensors):
            args[i] = t
        needs = ctx.needs_input_grad[1:]
        if get_mode() & GRAD:
            return None, *ctx.fused.pulled(cotangents, needs, args, create=True)
        arrays = [a._array if isinstance(a, Tensor) else a for a in (*cotangents, *args)]
        found = ctx.fused._backward(len(cotangents), needs, *arrays)
        return None, *[None if g is None else wrap(g) for g in found]


def _wrapped(x: Any) -> Any:
    return wrap(np.asarray(x)) if isinstance(x, np.ndarray | np.generic) else x


def _unwrapped(x: Any) -> Any:
    return x._array if isinstance(x, Tensor) else x


def fuse(function: Callable[..., Any]) -> FusedFunction:
    """Make native kernels of a function of tensors or arrays, at its first call with each kind of arguments.

    Everything the function computes element by element or by reduction is done in one pass over memory, forward and
    backward. What it does besides (products of matrices, selections, decisions by value) is not fused: the function
    then runs op by op, with the same result.

    Args:
        function: computes with operators, elementwise functions, sum, mean, amax and amin, where, softmax and their
            like, on tensors (with sapwood's functions and methods) or on arrays (with NumPy's). It returns a tensor or
            a tuple of them, and has no other effect. Arguments that are no tensors are settings: hashable, and each
            value of them makes kernels of its own.

    Returns:
        A callable with the function's arguments. It saves its arguments for backward and nothing else, and is
        differentiable to any order, under vmap and in forward mode; there its ops are recorded one by one.

    Example:
        >>> import sapwood
        >>> @sapwood.fuse
        ... def swish(x, slope):
        ...     return x * sapwood.sigmoid(x * slope)
        >>> x = sapwood.tensor([0.0, 2.0], requires_grad=True)
        >>> swish(x, 1.0).sum().backward()
        >>> x.grad
        tensor([0.5000, 1.0908])
    """
    return FusedFunction(function)


__all__ = ["FusedFunction", "fuse"]
