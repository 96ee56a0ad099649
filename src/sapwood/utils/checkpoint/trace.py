"""What `debug=True` adds to a checkpoint error: the ops of both runs, and where they part."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ...autograd.observe import observing
from ...tensor import Tensor

_PACKAGE = str(Path(__file__).parents[2])


class Trace(observing):
    """Lists the ops that run inside, each with the shapes of its tensors and the user's source line."""

    def __init__(self) -> None:
        super().__init__(self._see)
        self.calls: list[tuple[str, str]] = []

    def __enter__(self) -> Trace:
        self.calls.clear()
        super().__enter__()
        return self

    def _see(self, op: Any, name: str, inputs: Any, attrs: Any, compute: Callable[[], Any]) -> Any:
        self.calls.append((f"{name}({', '.join(map(_described, inputs))})", _line()))
        return compute()


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype.name} {tuple(value.shape)}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_described, value)) + "]"
    return repr(value)


def _line() -> str:
    for frame in reversed(traceback.extract_stack(limit=40)):
        if not frame.filename.startswith((_PACKAGE, "<sapwood")):
            return f"{frame.filename}:{frame.lineno}"
    return "?"


def traced() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any], Callable[[], str]]:
    """Return the contexts of the first run and of the recomputation, and what tells their difference."""
    first, again = Trace(), Trace()
    return first, again, lambda: difference(first.calls, again.calls)


def difference(first: list[tuple[str, str]], again: list[tuple[str, str]]) -> str:
    """Return both lists of ops as text, side by side in order, with a mark at the first difference."""
    lines = ["the ops of both runs, in order:"]
    parted = False
    for i in range(max(len(first), len(again))):
        a, b = (calls[i] if i < len(calls) else ("(ended)", "") for calls in (first, again))
        if a[0] == b[0]:
            lines.append(f"    {a[0]}  {a[1]}")
            continue
        lines.append(f"{'  ' if parted else '->'}  first run:     {a[0]}  {a[1]}".rstrip())
        lines.append(f"    recomputation: {b[0]}  {b[1]}".rstrip())
        parted = True
    return "\n".join(lines)
