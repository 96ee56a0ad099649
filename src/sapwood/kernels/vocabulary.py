"""What formulas may say: the pointwise functions, reductions and changes of shape that Symbols understand, by name.

The names are those of the ops and of NumPy's functions. An op that is not listed is understood through its own formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from . import scalar, symbols
from .scalar import Scalar
from .symbols import Symbol, Unfusable

Function = Callable[..., Scalar]


def _formula(name: str) -> Function:
    """Return a function of `formulas`, which is imported when a kernel first asks for it."""

    def function(*operands: Any) -> Scalar:
        from . import formulas

        found: Scalar = getattr(formulas, name)(*operands)
        return found

    return function


def _sign(x: Scalar) -> Scalar:
    return scalar.select(x > 0.0, 1.0 + x * 0.0, scalar.select(x < 0.0, x * 0.0 - 1.0, x))


ARITHMETIC: dict[str, Function] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "rsub": lambda x, y: y - x,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": scalar.maximum,
    "minimum": scalar.minimum,
    "fmax": scalar.fmax,
    "fmin": scalar.fmin,
    "neg": lambda x: -x,
    "abs": scalar.fabs,
    "sqrt": scalar.sqrt,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1.0 / x,
    "floor": scalar.floor,
    "ceil": scalar.ceil,
    "trunc": scalar.trunc,
    "round": scalar.rint,
    "sign": _sign,
    "copysign": scalar.copysign,
    "relu": lambda x: scalar.maximum(x, 0.0),
}
"""Functions whose result is of the operands' dtype."""
ARITHMETIC |= {
    name: _formula(name)
    for name in (
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "tanh",
        "sigmoid",
        "erf",
        "erfc",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "asin",
        "acos",
        "atan",
        "atan2",
        "asinh",
        "acosh",
        "atanh",
        "rsqrt",
        "silu",
        "mish",
        "hardswish",
        "logsigmoid",
    )
}

COMPARISONS: dict[str, Function] = {
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "isnan": scalar.isnan,
    "isinf": lambda x: scalar.fabs(x) == float("inf"),
    "isfinite": lambda x: scalar.fabs(x) < float("inf"),
}
LOGICAL: dict[str, Function] = {
    "logical_and": lambda x, y: x & y,
    "logical_or": lambda x, y: x | y,
    "logical_xor": lambda x, y: x ^ y,
    "logical_not": lambda x: ~x,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "bitwise_not": lambda x: ~x,
}

NUMPY_NAMES = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "negative": "neg", "absolute": "abs",
    "fabs": "abs", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq",
    "not_equal": "ne", "power": "pow", "rint": "round", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "invert": "bitwise_not",
}  # fmt: skip
"""NumPy's names where they differ from the ops'."""


def _operands(name: str, values: Sequence[Any]) -> list[Symbol]:
    """Return the operands of a function as Symbols of one float dtype, or all of bool."""
    kinds = {x.kind for x in values if isinstance(x, Symbol)}
    floats = kinds - {"i1"}
    if len(floats) > 1:
        raise Unfusable(f"{name} of float32 and float64")
    has_float = any(type(x) in (float, int) for x in values)
    if not floats and has_float:
        raise Unfusable(f"{name} of a bool and a number")
    kind = floats.pop() if floats else "i1"
    return [_operand(name, x, kind) for x in values]


def _operand(name: str, x: Any, kind: str) -> Symbol:
    if isinstance(x, Symbol):
        return symbols.convert(x, kind)
    if kind != "i1" and type(x) in (float, int, bool):
        return symbols.number(x, kind)
    if isinstance(x, np.generic) and x.dtype == symbols.NUMPY[kind]:
        return symbols.number(x.item(), kind)
    raise Unfusable(f"{name} of a Symbol and {type(x).__name__}")


def of_name(name: str, inputs: Sequence[Any]) -> Symbol:
    """Return the pointwise function of that name applied to Symbols and numbers."""
    name = NUMPY_NAMES.get(name, name)
    if name == "pow":
        return power(*inputs)
    if name == "where":
        return where(*inputs)
    if name in ARITHMETIC:
        operands = _operands(name, inputs)
        if operands[0].kind == "i1":
            raise Unfusable(f"{name} of bools")
        return symbols.point(ARITHMETIC[name], operands, operands[0].kind)
    if name in COMPARISONS:
        return symbols.point(COMPARISONS[name], _operands(name, inputs), "i1")
    if name in LOGICAL:
        operands = _operands(name, inputs)
        if operands[0].kind != "i1":
            raise Unfusable(f"{name} of floats")
        return symbols.point(LOGICAL[name], operands, "i1")
    raise Unfusable(f"the function {name}")


def where(condition: Any, a: Any, b: Any) -> Symbol:
    """Return a where the condition holds, else b."""
    if not isinstance(condition, Symbol) or condition.kind != "i1":
        raise Unfusable("where with a condition that is no array of bools")
    if not isinstance(a, Symbol) and not isinstance(b, Symbol):
        raise Unfusable("where between two numbers")
    x, y = _operands("where", (a, b))
    return symbols.point(scalar.select, (condition, x, y), x.kind)


def power(x: Any, y: Any) -> Symbol:
    """Return x to the power y; small whole and half powers are multiplications and roots, as in NumPy."""
    if type(y) in (int, float) and y in _POWERS:
        (operand,) = _operands("pow", (x,))
        if operand.kind == "i1":
            raise Unfusable("a power of bools")
        return symbols.point(_POWERS[y], (operand,), operand.kind)
    operands = _operands("pow", (x, y))
    return symbols.point(_formula("pow"), operands, operands[0].kind)


_POWERS: dict[float, Function] = {
    1: lambda x: x,
    2: lambda x: x * x,
    3: lambda x: x * x * x,
    -1: lambda x: 1.0 / x,
    0.5: scalar.sqrt,
}

_REDUCTIONS = {"sum": "sum", "amax": "max", "amin": "min", "max": "max", "min": "min"}


def of_function(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Symbol:
    """Return what one of NumPy's functions that are no ufuncs makes of Symbols."""
    if name == "where":
        return where(*args, **kwargs)
    if name in _REDUCTIONS or name == "mean":
        x, axis, keepdims = _reduction_arguments(*args, **kwargs)
        return (
            symbols.mean(x, axis, keepdims) if name == "mean" else symbols.reduce(_REDUCTIONS[name], x, axis, keepdims)
        )
    if name == "broadcast_to":
        return symbols.expand(*args, **kwargs)
    if name == "reshape":
        return symbols.reshape(*args, **kwargs)
    if name == "expand_dims":
        x, dims = args[0], symbols.dims_of
        return _unsqueezed(x, dims(Symbol("input", (), 0, (None,) * (x.ndim + 1), x.kind), args[1]))
    raise Unfusable(f"np.{name}")


def _reduction_arguments(x: Symbol, axis: Any = None, keepdims: bool = False) -> tuple[Symbol, Any, bool]:
    return x, axis, keepdims


def _unsqueezed(x: Symbol, dims: tuple[int, ...]) -> Symbol:
    axes = list(x.axes)
    for d in sorted(dims):
        axes.insert(d, None)
    return symbols.moved(x, axes)


def _op_reduction(name: str, x: Symbol, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Symbol:
    if dtype is not None:
        kind = symbols.DTYPES.get(getattr(getattr(dtype, "numpy", dtype), "char", ""), "")
        if kind not in ("f32", "f64"):
            raise Unfusable(f"{name} with the dtype {dtype}")
        x = symbols.convert(x, kind)
    return symbols.mean(x, dim, keepdim) if name == "mean" else symbols.reduce(_REDUCTIONS[name], x, dim, keepdim)


def _transposed(x: Symbol, dim0: int, dim1: int) -> Symbol:
    axes = list(x.axes)
    axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return symbols.moved(x, axes)


def _squeezed(x: Symbol, dim: Any) -> Symbol:
    dims = symbols.dims_of(x, dim)
    return symbols.moved(x, [a for d, a in enumerate(x.axes) if d not in dims or a is not None])


def _clamped(x: Symbol, low: Any, high: Any) -> Symbol:
    x = x if low is None else of_name("maximum", (x, low))
    return x if high is None else of_name("minimum", (x, high))


def _restored(x: Symbol, shape: Sequence[int], dim: Any, keepdim: bool) -> Symbol:
    """Spread a reduced value over the dimensions a reduction removed."""
    dims = tuple(range(len(shape))) if dim is None else tuple(d % len(shape) for d in dim)
    return symbols.expand(x if keepdim else _unsqueezed(x, dims), shape)


OPS: dict[str, Callable[..., Symbol]] = {
    "sum": partial(_op_reduction, "sum"),
    "mean": partial(_op_reduction, "mean"),
    "amax": partial(_op_reduction, "amax"),
    "amin": partial(_op_reduction, "amin"),
    "max_all": lambda x: symbols.reduce("max", x),
    "min_all": lambda x: symbols.reduce("min", x),
    "transpose": _transposed,
    "permute": lambda x, dims: symbols.moved(x, [x.axes[d] for d in dims]),
    "unsqueeze": lambda x, dim: _unsqueezed(x, (dim % (x.ndim + 1),)),
    "reshape": symbols.reshape,
    "view": symbols.reshape,
    "expand": symbols.expand,
    "restore_dims": _restored,
    "squeeze": lambda x, dim=None: _squeezed(x, dim),
    "tied": lambda grad, other: symbols.moved(grad, grad.axes),
    "clamp": lambda x, low, high: _clamped(x, low, high),
}
"""Ops that are no pointwise functions."""


def knows(op: Any) -> bool:
    """Return whether there is any way that an op's call on Symbols may be understood."""
    return op.formula is not None or is_primitive(op)


def is_primitive(op: Any) -> bool:
    """Return whether an op is understood by itself, without its formula."""
    name = op.name.rstrip("_")
    return any(name in d for d in (OPS, ARITHMETIC, COMPARISONS, LOGICAL, ("pow", "where")))


def of_op(op: Any, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """Return what an op makes of Symbols; `op` is a declaration with name, canon, attrs, params, usual and formula."""
    if op.canon is not None and op.attrs:
        attrs = op.canon(*inputs[:1], *attrs)
    given = dict(zip(op.attrs, attrs))
    name = op.name.rstrip("_")
    plain = all(given.get(n) == v for n, v in op.usual.items())
    if name in OPS:
        return OPS[name](*inputs, *attrs)
    if plain and len(given) == len(op.usual) and (name in ARITHMETIC or name in COMPARISONS or name in LOGICAL):
        return of_name(name, inputs)
    if plain and len(given) == len(op.usual) and name in ("pow", "where"):
        return of_name(name, inputs)
    if op.formula is None:
        raise Unfusable(f"the op {op.name}")
    given |= dict(zip([n.lstrip("*") for n in op.inputs], inputs))
    positional = [given[n] for n, _, keyword in op.params if not keyword]
    return op.formula(*positional, **{n: given[n] for n, _, keyword in op.params if keyword})


def _gelu(x: Symbol, approximate: str = "none") -> Symbol:
    return symbols.point(_formula("gelu" if approximate == "none" else "gelu_tanh"), (x,), x.kind)


OPS["gelu"] = _gelu
OPS["sgn"] = lambda x: of_name("sign", (x,))
OPS["zeros_like"] = lambda x, **_: symbols.point(lambda a: scalar.const(0.0, a.dtype), (x,), x.kind)


def _operator(name: str, *, reflected: bool = False) -> Callable[..., Symbol]:
    def method(self: Symbol, *others: Any) -> Symbol:
        return of_name(name, (*others, self) if reflected else (self, *others))

    return method


for _symbol, _name in {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "pow": "pow",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}.items():
    setattr(Symbol, f"__{_symbol}__", _operator(_name))
    setattr(Symbol, f"__r{_symbol}__", _operator(_name, reflected=True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Symbol, f"__{_name}__", _operator(_name))
for _symbol, _name in {"neg": "neg", "invert": "bitwise_not", "abs": "abs"}.items():
    setattr(Symbol, f"__{_symbol}__", _operator(_name))
Symbol.__hash__ = object.__hash__  # type: ignore[method-assign]

__all__ = [
    "ARITHMETIC",
    "COMPARISONS",
    "LOGICAL",
    "OPS",
    "is_primitive",
    "knows",
    "of_function",
    "of_name",
    "of_op",
    "power",
    "where",
]
