"""NumPy's functions on Tensors: `np.sin(t)`, `array * t`, `np.concatenate([t, t])`.

A ufunc, and a function that NumPy hands to methods of its argument (`np.sum`, `np.reshape`), gives a Tensor; it maps to
the op that declares it (`numpy = (np.sin,)`, or a ufunc as `forward`) or is named below, and stays in the graph. Any
other function gives arrays, as it does for PyTorch's tensors, unless a gradient would be lost: then its counterpart
here answers, and where there is none, an error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import alias, dtypes
from .. import ops as _package
from ..cuts import read
from ..errors import ArgumentError, DtypeError, GradError
from ..tensor import Tensor, wrap
from .declare import public, registry
from .out import write_out

ops: Any = _package
_ufuncs: dict[Any, Any] = {}
_UFUNC_NAMES = {
    "absolute": "abs",
    "divide": "div",
    "power": "pow",
    "negative": "neg",
    "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "conjugate": "conj",
    "arctan2": "atan2",
    "rint": "round",
    "remainder": "remainder",
    "mod": "remainder",
    "fabs": "abs",
} | {f"arc{f}": f"a{f}" for f in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}


# -- ufuncs -----------------------------------------------------------------------------------------------------------


def _of_ufunc(ufunc: Any) -> Any:
    """Return the public function that stands for a ufunc, None if there is none."""
    if not _ufuncs:
        sys.modules["sapwood.ops"].complete()
        for op in registry.values():
            for known in op.numpy:
                _ufuncs[known] = op.call
            if isinstance(op.forward, np.ufunc) and op.function:
                _ufuncs.setdefault(op.forward, op.call)
    name = ufunc.__name__
    return _ufuncs.get(ufunc) or public.get(_UFUNC_NAMES.get(name, name))


def ufunc_call(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a ufunc called on a Tensor, or with one as `out`."""
    counterpart = _of_ufunc(ufunc) if method == "__call__" else None
    if counterpart is not None and not kwargs:
        try:
            return counterpart(*(_as_operand(x) for x in inputs))
        except (ArgumentError, DtypeError):
            # NumPy converts what the op does not: numbers where tensors are due, operands of different types.
            try:
                return counterpart(*_alike(inputs))
            except (ArgumentError, DtypeError):
                if any(t._node is not None for t in _tensors(inputs)):
                    raise
    outs = kwargs.pop("out", None)
    result = _outside(getattr(ufunc, method), f"np.{ufunc.__name__}", inputs, kwargs)
    if outs is None:
        return _wrapped(result)
    results = result if isinstance(result, tuple) else (result,)
    for target, r in zip(outs, results):
        _store(ufunc, target, np.asarray(r))
    return outs[0] if len(outs) == 1 else outs


def _store(ufunc: Any, target: Any, result: Any) -> None:
    """Write a result into the array or tensor given as `out`, as `array += tensor` does."""
    if target is None:
        return
    if isinstance(target, Tensor):
        write_out(f"np.{ufunc.__name__}", target, result)
        return
    np.copyto(target, result, casting="same_kind")
    owner = alias.stamp_of(target)
    if owner is not None:
        alias.stamp(wrap(target), f"np.{ufunc.__name__}")


def _alike(inputs: tuple[Any, ...]) -> list[Tensor]:
    """Return all operands as tensors of the type they promote to."""
    operands = [_as_operand(x) for x in inputs]
    dims = [x.dtype for x in operands if isinstance(x, Tensor) and x._array.ndim]
    zeros = [x.dtype for x in operands if isinstance(x, Tensor) and not x._array.ndim]
    common = dtypes.result_dtype(dims, zeros, [x for x in operands if isinstance(x, bool | int | float | complex)])
    return [x.to(common) if isinstance(x, Tensor) else wrap(np.asarray(x, common.numpy)) for x in operands]


def _as_operand(x: Any) -> Any:
    if isinstance(x, np.generic):
        return x.item()
    return wrap(x) if isinstance(x, np.ndarray) else x


# -- other functions --------------------------------------------------------------------------------------------------


def _axis(name: str) -> Callable[..., Any]:
    """Return the public function `name` called with NumPy's words for its parameters."""
    words = {"axis": "dim", "keepdims": "keepdim"}

    def call(*args: Any, **kwargs: Any) -> Any:
        return public[name](*args, **{words.get(k, k): v for k, v in kwargs.items() if v is not None})

    return call


def _spread(name: str) -> Callable[..., Any]:
    """Return np.var or np.std over the public function: NumPy divides by n, PyTorch by n - 1."""

    def call(a: Any, axis: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Any:
        return public[name](a, axis, correction=ddof, keepdim=keepdims)

    return call


def _transpose(a: Any, axes: Any = None) -> Any:
    return ops.permute(a, tuple(range(a._array.ndim))[::-1] if axes is None else tuple(axes))


def _expand_dims(a: Any, axis: Any) -> Any:
    for dim in sorted((axis,) if isinstance(axis, int) else axis):
        a = ops.unsqueeze(a, dim)
    return a


def _concatenate(arrays: Any, axis: Any = 0) -> Any:
    members = [_as_operand(x) for x in arrays]
    return ops.cat([ops.flatten(m) for m in members], 0) if axis is None else ops.cat(members, axis)


_TENSORS: dict[str, Any] = {
    name: _axis(name)
    for name in ("sum", "mean", "prod", "any", "all", "argmax", "argmin", "cumsum", "cumprod", "squeeze")
} | {
    "amax": _axis("amax"),
    "max": _axis("amax"),
    "amin": _axis("amin"),
    "min": _axis("amin"),
    "std": _spread("std"),
    "var": _spread("var"),
    "transpose": _transpose,
    "reshape": lambda a, shape: ops.reshape(a, (shape,) if isinstance(shape, int) else shape),
    "round": lambda a, decimals=0: ops.round(a, decimals=decimals),
    "around": lambda a, decimals=0: ops.round(a, decimals=decimals),
    "clip": lambda a, a_min=None, a_max=None: ops.clamp(a, a_min, a_max),
    "repeat": lambda a, repeats, axis=None: ops.repeat_interleave(a, repeats, dim=axis),
    "argsort": lambda a, axis=-1: ops.argsort(a, axis),
    "swapaxes": lambda a, axis1, axis2: ops.transpose(a, axis1, axis2),
    "copy": lambda a: ops.clone(a),
}
"""Functions that give Tensors."""

_ARRAYS: dict[str, Any] = {
    "concatenate": _concatenate,
    "stack": lambda arrays, axis=0: ops.stack([_as_operand(x) for x in arrays], axis),
    "vstack": lambda tup: ops.vstack([_as_operand(x) for x in tup]),
    "hstack": lambda tup: ops.hstack([_as_operand(x) for x in tup]),
    "dstack": lambda tup: ops.dstack([_as_operand(x) for x in tup]),
    "where": lambda condition, x, y: ops.where(*map(_as_operand, (condition, x, y))),
    "dot": lambda a, b: ops.matmul(_as_operand(a), _as_operand(b)),
    "ravel": lambda a: ops.flatten(a),
    "outer": lambda a, b: ops.outer(_as_operand(a), _as_operand(b)),
    "expand_dims": _expand_dims,
    "sort": lambda a, axis=-1: ops.sort(a, axis)[0],
    "moveaxis": lambda a, source, destination: ops.movedim(a, source, destination),
    "flip": lambda m, axis=None: ops.flip(m, tuple(range(m._array.ndim)) if axis is None else axis),
    "roll": lambda a, shift, axis=None: ops.roll(a, shift, axis),
    "tile": lambda A, reps: ops.tile(A, (reps,) if isinstance(reps, int) else reps),
    "tril": lambda m, k=0: ops.tril(m, k),
    "triu": lambda m, k=0: ops.triu(m, k),
    "diag": lambda v, k=0: ops.diag(v, k),
    "broadcast_to": lambda array, shape: ops.broadcast_to(array, shape),
    "real": lambda val: ops.real(val),
    "imag": lambda val: ops.imag(val),
    "atleast_1d": lambda ary: ops.atleast_1d(ary),
    "atleast_2d": lambda ary: ops.atleast_2d(ary),
}
"""Functions that give arrays, unless that would lose a gradient."""

_QUESTIONS = {"shape", "ndim", "size", "iscomplexobj", "isrealobj", "result_type", "can_cast", "may_share_memory",
              "shares_memory", "array_repr", "array_str", "array2string", "zeros_like", "ones_like", "empty_like",
              "full_like"}  # fmt: skip
"""Functions whose results do not depend on the values, so that no gradient is at stake."""


def function_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer another NumPy function called on a Tensor."""
    name = function.__name__
    if name in _QUESTIONS:
        return function(*_plain(args), **_plain(kwargs))
    lossy = any(t._node is not None for t in _tensors((args, tuple(kwargs.values()))))
    if getattr(np, name, None) is function:
        counterpart = _TENSORS.get(name) or (_ARRAYS.get(name) if lossy else None)
        if counterpart is not None:
            try:
                return counterpart(*args, **kwargs)
            except (ArgumentError, TypeError):
                if lossy:
                    raise
    result = _outside(function, f"np.{name}", args, kwargs)
    return _wrapped(result) if name in _TENSORS else result


def _outside(call: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what NumPy makes of the arrays under the tensors."""
    if any(t._node is not None for t in _tensors((args, tuple(kwargs.values())))):
        raise GradError(
            f"{name}: it has no counterpart here, and an argument requires grad, which would be lost; use "
            "tensor.detach() if that is meant"
        )
    for t in _tensors((args, tuple(kwargs.values()))):
        read(name, t)
    with np.errstate(all="ignore"):
        return call(*_plain(args), **_plain(kwargs))


def _wrapped(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(_wrapped, x))
    return wrap(np.asarray(x)) if isinstance(x, np.ndarray | np.generic) else x


def _tensors(x: Any) -> list[Tensor]:
    """Return the tensors in nested lists and tuples."""
    if isinstance(x, list | tuple):
        return [t for e in x for t in _tensors(e)]
    return [x] if isinstance(x, Tensor) else []


def _plain(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x._array
    if isinstance(x, list | tuple):
        return type(x)(map(_plain, x))
    return {k: _plain(v) for k, v in x.items()} if isinstance(x, dict) else x
