"""What a transformed function takes from around it: tensors that must not be written to while it is differentiated.

A write to such a tensor outlives the call, and would leave a piece of the call's graph in it. Looked at are the
function's closure, defaults and globals, those of the functions it takes from there, and containers that lie in them;
as they are when the transform starts, so what the function makes itself stays writable. Modules are not looked into.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from types import CellType, FunctionType, MethodType
from typing import Any

from .. import alias
from ..origin import is_own
from ..tensor import Tensor
from . import tree

DEPTH = 3
"""Containers inside containers to look into."""


@contextmanager
def kept_from_writes(func: Any, arguments: Any) -> Iterator[None]:
    """Refuse writes in the block to the memory of tensors that `func` captures and does not get as arguments."""
    owners: dict[int, Any] = {}
    _function(func, owners, set())
    if not owners:
        yield
        return
    for x in tree.flatten(arguments)[0]:
        if isinstance(x, Tensor):
            owners.pop(id(alias.owner(x._array)), None)
    token = alias.captured.set((*alias.captured.get(), owners))
    try:
        yield
    finally:
        alias.captured.reset(token)


def _function(func: Any, owners: dict[int, Any], seen: set[int]) -> None:
    if id(func) in seen:
        return
    seen.add(id(func))
    if isinstance(func, functools.partial):
        _function(func.func, owners, seen)
        _value((func.args, func.keywords), owners, seen, DEPTH, None)
    elif isinstance(func, MethodType):
        _function(func.__func__, owners, seen)
    elif isinstance(func, FunctionType):
        # A transform's own function holds the user's one, and arguments that are not captured.
        own = is_own(func.__code__.co_filename)
        for cell in func.__closure__ or ():
            held = _contents(cell)
            if not own or (callable(held) and not isinstance(held, Tensor)):
                _value(held, owners, seen, DEPTH, None)
        if own:
            return
        _value((func.__defaults__, func.__kwdefaults__), owners, seen, DEPTH, None)
        names = func.__globals__
        for name in func.__code__.co_names:
            if name in names:
                _value(names[name], owners, seen, DEPTH, names)


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that is not bound yet
        return None


def _value(value: Any, owners: dict[int, Any], seen: set[int], depth: int, module: Any) -> None:
    """Note a value; of functions among globals only those of `module`, the function's own, are followed."""
    if isinstance(value, Tensor):
        owner = alias.owner(value._array)
        owners[id(owner)] = owner
    elif isinstance(value, (list, tuple, dict)):
        if depth:
            for x in value.values() if isinstance(value, dict) else value:
                _value(x, owners, seen, depth - 1, module)
    elif isinstance(value, FunctionType):
        if module is None or value.__globals__ is module:
            _function(value, owners, seen)
    elif isinstance(value, (functools.partial, MethodType)):
        _function(value, owners, seen)
