"""Structures: how tensors lie in arguments and results, in tuples, lists, dicts, named tuples and dataclasses."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Callable
from functools import partial
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    """Something in a structure that is no tensor."""

    value: Any


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Opaque:
    """In the place of an object that text cannot hold: how it printed."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclasses.dataclass(eq=False, slots=True, repr=False)
class Record:
    """A named tuple or a dataclass: its kind, the name of its class, its parts by name, and how it is made of them."""

    kind: str
    name: str
    parts: dict[str, Any]
    make: Callable[[list[Any]], Any] | None = None

    def __repr__(self) -> str:
        return f"{self.kind}.{self.name}({', '.join(f'{n}={p!r}' for n, p in self.parts.items())})"

    def build(self, values: list[Any]) -> Any:
        """Return the object; after reading a graph from text, one of a class that looks like it."""
        if self.make is None:
            if self.kind == "namedtuple":
                self.make = partial(tuple.__new__, namedtuple(self.name, list(self.parts)))
            else:
                made = dataclasses.make_dataclass(self.name, list(self.parts))
                self.make = lambda given: made(*given)
        return self.make(values)


def _record(thing: Any) -> Record | None:
    """Return a named tuple or dataclass with its parts as they are, None for something else."""
    kind = type(thing)
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        make = getattr(kind, "_make", kind)
        return Record("namedtuple", kind.__name__, dict(zip(thing._fields, thing)), make)
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        names = [f.name for f in dataclasses.fields(thing)]

        def rebuilt(values: list[Any]) -> Any:
            made = object.__new__(kind)
            for name, value in zip(names, values):
                object.__setattr__(made, name, value)
            return made

        return Record("dataclass", kind.__name__, {n: getattr(thing, n) for n in names}, rebuilt)
    return None


def flatten(thing: Any, leaves: list[Any], is_leaf: Any) -> Any:
    """Collect the leaves of nested structures; return the structure with their positions."""
    if is_leaf(thing):
        leaves.append(thing)
        return len(leaves) - 1
    record = _record(thing)
    if record is not None:
        record.parts = {n: flatten(x, leaves, is_leaf) for n, x in record.parts.items()}
        return record
    if isinstance(thing, tuple):
        return tuple(flatten(x, leaves, is_leaf) for x in thing)
    if isinstance(thing, list):
        return [flatten(x, leaves, is_leaf) for x in thing]
    if isinstance(thing, dict):
        return {k: flatten(x, leaves, is_leaf) for k, x in thing.items()}
    return Fixed(thing)


def unflatten(structure: Any, leaves: Any) -> Any:
    """Return a structure with its leaves in their places."""
    if isinstance(structure, Fixed):
        return structure.value
    if isinstance(structure, Record):
        return structure.build([unflatten(x, leaves) for x in structure.parts.values()])
    if isinstance(structure, dict):
        return {k: unflatten(x, leaves) for k, x in structure.items()}
    if isinstance(structure, tuple | list):
        return type(structure)(unflatten(x, leaves) for x in structure)
    return leaves[structure]


__all__ = ["Fixed", "Opaque", "Record", "flatten", "unflatten"]
