"""Tensor's methods and operators, installed from the declarations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from .call import inplace_of, method_of, operator_of
from .declare import methods, registry

BINARY_OPERATORS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}
UNARY_OPERATORS = {"neg": "neg", "invert": "bitwise_not", "abs": "abs"}


def install() -> None:
    """Give Tensor every method, in-place method and operator that the declared ops define."""
    for op in registry.values():
        if op.method:
            for name in (op.name, *op.aliases):
                setattr(Tensor, name, method_of(op, name))
        if op.inplace:
            for name in (op.name, *op.aliases):
                setattr(Tensor, name + "_", inplace_of(op, name + "_"))
    for name, function in methods.items():
        setattr(Tensor, name, function)
    for symbol, name in BINARY_OPERATORS.items():
        _operator(f"__{symbol}__", name, False)
        # The flat path serves a Tensor and a number in this order; where order does not matter, 2 * x is x * 2.
        _operator(f"__r{symbol}__", name, reflected=name not in ("add", "mul"))
        _in_place_operator(f"__i{symbol}__", name)
    for symbol, name in COMPARISONS.items():
        _operator(f"__{symbol}__", name, False)
    for symbol, name in UNARY_OPERATORS.items():
        if name in registry:
            setattr(Tensor, f"__{symbol}__", registry[name].call)
    Tensor.__hash__ = object.__hash__  # type: ignore[method-assign] # __eq__ compares elements; identity hashes


def _operator(dunder: str, name: str, reflected: bool) -> None:
    if dunder in methods or name not in registry:
        return
    setattr(Tensor, dunder, operator_of(registry[name], dunder, reflected))


def _in_place_operator(dunder: str, name: str) -> None:
    if dunder in methods or name not in registry or not registry[name].inplace:
        return
    setattr(Tensor, dunder, operator_of(registry[name], dunder))


def place_holders(later: dict[str, str], load: Callable[[], None]) -> None:
    """Give Tensor the methods of families that are not loaded yet: the first call loads them and calls the real one."""
    for names in later.values():
        for name in names.split():
            if name not in Tensor.__dict__:
                setattr(Tensor, name, _place_holder(name, load))


def _place_holder(name: str, load: Callable[[], None]) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        load()
        return getattr(self, name)(*args, **kwargs)

    method.__name__ = name
    return method
