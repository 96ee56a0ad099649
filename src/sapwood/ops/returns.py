"""Named tuples for ops with several outputs; they print as PyTorch's `torch.return_types`."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

_made: dict[tuple[str, tuple[str, ...]], type[Any]] = {}


def return_type(op: Any) -> type[Any]:
    """Return the named tuple class of an op's outputs."""
    return named(op.name, op.outs)


def named(name: str, fields: tuple[str, ...]) -> type[Any]:
    """Return the tuple class `torch.return_types.<name>` with these fields."""
    found = _made.get((name, fields))
    if found is None:
        members: dict[str, Any] = {f: property(itemgetter(i)) for i, f in enumerate(fields)}
        members |= {"__slots__": (), "_fields": fields, "__repr__": _text, "__module__": "torch.return_types"}
        members["__reduce__"] = _reduce
        found = _made[name, fields] = type(name.split(".")[-1], (tuple,), members)
    return found


def _text(self: Any) -> str:
    inside = ",\n".join(f"{f}={v!r}" for f, v in zip(self._fields, self))
    return f"torch.return_types.{type(self).__name__}(\n{inside})"


def _reduce(self: Any) -> tuple[Any, ...]:
    return _rebuild, (type(self).__name__, self._fields, tuple(self))


def _rebuild(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return named(name, fields)(values)
