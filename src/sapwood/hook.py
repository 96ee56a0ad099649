"""Handles of hooks: a dictionary of functions in the order they were registered, and the handle that removes one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

_next_id = count().__next__


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook away; as a context manager it does so at the end."""

    __slots__ = ("_hooks", "id")

    def __init__(self, hooks: dict[int, Any], key: int) -> None:
        self._hooks = hooks
        self.id = key

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def add_hook(hooks: dict[int, Any], fn: Callable[..., Any], *, first: bool = False) -> RemovableHandle:
    """Add `fn` to `hooks` (at the front if `first`) and return its handle."""
    key = _next_id()
    if first:
        rest = dict(hooks)
        hooks.clear()
        hooks[key] = fn
        hooks.update(rest)
    else:
        hooks[key] = fn
    return RemovableHandle(hooks, key)
