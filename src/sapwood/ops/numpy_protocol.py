"""NumPy's functions on Tensors: `np.sin(t)`, `array * t`, `np.concatenate([t, t])` stay in the graph.

A NumPy function maps to the op that declares it (`numpy = (np.sin,)`, or a ufunc as `forward`), or to the public
function of the same name. What has no counterpart works on tensors outside the graph, and refuses those that would
lose a gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ArgumentError, GradError
from ..tensor import Tensor, wrap
from .declare import public, registry

_ufuncs: dict[Any, Any] = {}
_names = {
    "concatenate": "cat",
    "transpose": "permute",
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
    "amax": "amax",
    "conjugate": "conj",
    "mod": "remainder",
}


def _counterpart(function: Any) -> Any:
    """Return the public function that stands for a NumPy function, None if there is none."""
    if not _ufuncs:
        for op in registry.values():
            for known in op.numpy:
                _ufuncs[known] = op.call
            if isinstance(op.forward, np.ufunc) and op.function:
                _ufuncs.setdefault(op.forward, op.call)
    try:
        found = _ufuncs.get(function)
    except TypeError:
        found = None
    name = function.__name__
    return found or public.get(_names.get(name, name))


def ufunc_call(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer a ufunc called on a Tensor."""
    counterpart = _counterpart(ufunc) if method == "__call__" else None
    if counterpart is not None and not kwargs:
        return counterpart(*(_as_operand(x) for x in inputs))
    return _outside(lambda *a: getattr(ufunc, method)(*a, **_plain(kwargs)), ufunc.__name__, inputs, kwargs)


def function_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer another NumPy function called on a Tensor."""
    counterpart = _counterpart(function)
    if counterpart is not None:
        renamed = {{"axis": "dim", "keepdims": "keepdim"}.get(k, k): v for k, v in kwargs.items()}
        try:
            return counterpart(*args, **renamed)
        except (ArgumentError, TypeError):
            pass
    plain = _plain(kwargs)
    return _outside(lambda *a: function(*a, **plain), function.__name__, args, kwargs)


def _as_operand(x: Any) -> Any:
    if isinstance(x, np.generic):
        return x.item()
    return wrap(x) if isinstance(x, np.ndarray) else x


def _outside(call: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensors = [x for x in (*_leaves(args), *_leaves(tuple(kwargs.values()))) if isinstance(x, Tensor)]
    if any(t._node is not None for t in tensors):
        raise GradError(
            f"np.{name}: it has no counterpart here, and an argument requires grad, which would be lost; use "
            "tensor.detach() if that is meant"
        )
    result = call(*_plain(args))
    return tuple(map(_wrapped, result)) if isinstance(result, tuple) else _wrapped(result)


def _wrapped(x: Any) -> Any:
    return wrap(np.asarray(x)) if isinstance(x, np.ndarray | np.generic) else x


def _leaves(x: Any) -> list[Any]:
    return [y for e in x for y in _leaves(e)] if isinstance(x, list | tuple) else [x]


def _plain(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x._array
    if isinstance(x, list | tuple):
        return type(x)(map(_plain, x))
    return {k: _plain(v) for k, v in x.items()} if isinstance(x, dict) else x
