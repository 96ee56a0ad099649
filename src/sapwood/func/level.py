"""Levels: which transforms are running, from the outermost to the innermost.

Every running `vmap` and every forward-mode block is a level. A tensor that takes part is wrapped, and its wrapper
remembers the level; an op on wrapped operands is handed to the newest level among them, which computes with what it
wraps, until plain tensors are left. Reverse mode needs no level: it is recorded on the plain tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

from ..tensor import Tensor

_number = count(1).__next__
_running: ContextVar[tuple[Level, ...]] = ContextVar("sapwood_levels", default=())


class Level:
    """One running transform.

    Args:
        size: of the batch, for a vmap; None for forward mode.
        randomness: what random functions do inside a vmap: "error", "same" or "different".
    """

    __slots__ = ("alive", "number", "randomness", "size")

    def __init__(self, size: int | None = None, randomness: str = "error") -> None:
        self.number = _number()
        self.size = size
        self.randomness = randomness
        self.alive = True

    def __repr__(self) -> str:
        return f"<{'forward mode' if self.size is None else f'vmap over {self.size}'}, level {self.number}>"


class Wrapper(Tensor):
    """A tensor that stands for something at a level; ops on it are handed to its class."""

    __slots__ = ()

    _level: Level

    @property
    def __sapwood_level__(self) -> int:
        return self._level.number


def running() -> tuple[Level, ...]:
    """Return the running levels, oldest first."""
    return _running.get()


def vmaps() -> tuple[Level, ...]:
    """Return the running vmaps, oldest first."""
    return tuple(level for level in _running.get() if level.size is not None)


def start(level: Level) -> None:
    """Make `level` the innermost running one."""
    _running.set((*_running.get(), level))


def stop(level: Level) -> None:
    """End `level`: what it wrapped no longer takes part in anything."""
    level.alive = False
    _running.set(tuple(other for other in _running.get() if other is not level))


@contextmanager
def level(size: int | None = None, randomness: str = "error") -> Iterator[Level]:
    """Run a transform's level until the end of the block."""
    made = Level(size, randomness)
    start(made)
    try:
        yield made
    finally:
        stop(made)


@contextmanager
def without(level: Level) -> Iterator[None]:
    """Leave a level for the time of the block, as a rule does that computes with what the level wraps."""
    token = _running.set(tuple(other for other in _running.get() if other is not level))
    try:
        yield
    finally:
        _running.reset(token)


def number_of(x: Any) -> int:
    """Return the number of a tensor's newest level, 0 for a plain tensor or anything else."""
    return x._level.number if isinstance(x, Wrapper) else 0


def newest(values: Any) -> Level | None:
    """Return the newest level among tensors."""
    found: Level | None = None
    for x in values:
        if isinstance(x, Wrapper) and (found is None or x._level.number > found.number):
            found = x._level
    return found
