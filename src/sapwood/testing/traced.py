"""`Traced`: an operand that writes down every op called on it, to prove that formulas can be captured.

It is the smallest foreign operand: a class with `__sapwood_op__` receives each call instead of the eager function, as
graph capture and the kernels' symbols do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ops.declare import registry
from ..ops.install import BINARY_OPERATORS, COMPARISONS
from ..ops.slow import on_arrays


class Call(NamedTuple):
    """One recorded call; operands are Traced values, arrays or numbers."""

    op: str
    inputs: tuple[Any, ...]
    attrs: tuple[Any, ...]
    out: Any


class Traced:
    """A value that records the ops applied to it; it has the shape and dtype of the array it stands for."""

    __array_ufunc__ = None
    __slots__ = ("calls", "value")

    def __init__(self, value: Any, calls: list[Call]) -> None:
        self.value = value
        self.calls = calls

    shape = property(lambda self: self.value.shape)
    dtype = property(lambda self: self.value.dtype)
    ndim = property(lambda self: self.value.ndim)

    @classmethod
    def __sapwood_op__(cls, op: Any, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """Compute on the values and write the call down."""
        calls = next(x.calls for x in _flat(inputs) if isinstance(x, Traced))
        result = on_arrays(op, _map(lambda x: x.value if isinstance(x, Traced) else x, inputs), attrs)
        several = isinstance(result, tuple)
        out = tuple(cls(np.asarray(r), calls) for r in result) if several else cls(np.asarray(result), calls)
        calls.append(Call(op.name, inputs, attrs, out))
        return out


def _operator(name: str, reflected: bool = False) -> Callable[..., Any]:
    def method(self: Traced, *others: Any) -> Any:
        operands = (*others, self) if reflected else (self, *others)
        op = registry[name]
        attrs = tuple(d for n, d, _ in op.params if n in op.attrs)
        return Traced.__sapwood_op__(op, operands, attrs)

    return method


for _symbol, _name in (BINARY_OPERATORS | COMPARISONS).items():
    setattr(Traced, f"__{_symbol}__", _operator(_name))
    setattr(Traced, f"__r{_symbol}__", _operator(_name, reflected=True))
for _name in ("real", "imag"):
    setattr(Traced, _name, property(_operator(_name)))
Traced.mT = property(lambda self: registry["transpose"].call(self, -2, -1))  # type: ignore[attr-defined]
Traced.conj = _operator("conj")  # type: ignore[attr-defined]
for _symbol, _name in {"neg": "neg", "invert": "bitwise_not"}.items():
    setattr(Traced, f"__{_symbol}__", _operator(_name))
Traced.__hash__ = object.__hash__  # type: ignore[method-assign]


def _flat(values: Sequence[Any]) -> list[Any]:
    return [y for x in values for y in (_flat(x) if isinstance(x, tuple | list) else [x])]


def _map(change: Callable[[Any], Any], values: Any) -> Any:
    return tuple(_map(change, x) if isinstance(x, tuple | list) else change(x) for x in values)


def replay(calls: list[Call], values: dict[Traced, Any]) -> dict[Traced, Any]:
    """Run recorded calls again with other values for the Traced operands they began with; return every value."""

    def value(x: Any) -> Any:
        return values.get(x, x.value) if isinstance(x, Traced) else x

    for op, inputs, attrs, out in calls:
        operands = _map(value, inputs)
        result = on_arrays(registry[op], operands, attrs)
        if isinstance(out, tuple):
            values |= dict(zip(out, map(np.asarray, result)))
        else:
            values[out] = np.asarray(result)
    return values


__all__ = ["Call", "Traced", "replay"]
