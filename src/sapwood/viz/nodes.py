"""What the explorer says of a node: its module, shapes, formulas, and the lines that made it."""

from __future__ import annotations

import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["formulas_of", "outputs_of", "scope_of", "source_of"]

# Lines of code shown before and after the line that made a node.
AROUND = 2


def scope_of(node: Any, owners: dict[int, str]) -> list[str]:
    """Return the path of the module that made a node, as far as it was noted or its parameters tell it."""
    edges = getattr(node, "edges", ())
    text = (getattr(node, "extra", None) or {}).get("module")
    text = text or next((owners[id(e)] for e in edges if id(e) in owners), "")
    path = text.rpartition(" (")[0]
    return path.split(".") if path else []


def outputs_of(node: Any) -> tuple[str, str]:
    shapes, dtypes = [], []
    for meta in getattr(node, "_input_metadata", None) or ():
        shapes.append(str(tuple(meta.shape)))
        dtypes.append(str(meta.dtype).rpartition(".")[2])
    return ", ".join(shapes), ", ".join(dict.fromkeys(dtypes))


def formulas_of(node: Any) -> Iterator[str]:
    """Yield the source of the derivative's formulas, each once."""
    op = getattr(node, "op", None)
    found = [f for f in (getattr(op, "vjps", None) or ()) if callable(f)]
    if op is not None and callable(getattr(op, "vjp", None)):
        found = [op.vjp]
    if op is None and getattr(type(node), "own_pull", None) is not None:
        function = getattr(type(node), "_forward_cls", None) or getattr(node, "function", None)
        found = [f for f in (getattr(function, "backward", None),) if callable(f)]
    yield from dict.fromkeys(filter(None, map(source_text, found)))


_texts: dict[Any, str] = {}


def source_text(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", function)
    if code not in _texts:
        try:
            _texts[code] = textwrap.dedent(inspect.getsource(function)).strip()[:2000]
        except (OSError, TypeError):
            _texts[code] = ""
    return _texts[code]


def source_of(node: Any) -> dict[str, Any]:
    """Return the user's line that made a node, with the lines around it."""
    from sapwood.origin import origin_of, place

    found = place(origin_of(node))
    if found is None:
        return {}
    lines = linecache.getlines(found.file)
    first = max(found.line - 1 - AROUND, 0)
    code = [[first + i + 1, text.rstrip()[:200]] for i, text in enumerate(lines[first : found.line + AROUND])]
    return {"file": found.short, "line": found.line, "function": found.function, "code": code}
