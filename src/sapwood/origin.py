"""Source lines: where in the user's program a call was made.

An *origin* is a pair of a code object and an instruction offset, which costs next to nothing to take. The file, the
line and the text are looked up when somebody asks. Frames of the package itself are passed over: the line of interest
is the user's.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from collections.abc import Callable
from itertools import islice
from types import CodeType, FrameType
from typing import Any, NamedTuple

Origin = tuple[CodeType, int]

OWN = (os.path.dirname(os.path.abspath(__file__)) + os.sep, "<sapwood ", "<frozen ", contextlib.__file__)
"""How the names of files begin that are not the user's: the package, printed code, what runs modules and contexts."""

user_files: set[str] = set()
"""Names of files known to be the user's; the tracking wrappers look here first."""
_own_files: set[str] = set()


def is_own(file: str) -> bool:
    """Return whether a file is part of the package, or of the machinery that runs modules and contexts."""
    return file.startswith(OWN)


def of_frame(frame: FrameType | None) -> Origin | None:
    """Return the place of the nearest user frame, from `frame` outwards; None if there is none."""
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if file in user_files:
            return code, frame.f_lasti
        if file not in _own_files:
            if not is_own(file):
                user_files.add(file)
                return code, frame.f_lasti
            _own_files.add(file)
        frame = frame.f_back
    return None


def here() -> Origin | None:
    """Return the place in the user's program that is running now."""
    return of_frame(sys._getframe(1))


class Place(NamedTuple):
    """A resolved origin."""

    file: str
    line: int
    function: str
    text: str
    """The source line, stripped; empty if the source cannot be read."""

    def __str__(self) -> str:
        return f"{self.short}:{self.line}" + (f" `{self.text}`" if self.text else "")

    @property
    def short(self) -> str:
        """The file relative to the working directory, where it lies below it."""
        near = os.path.relpath(self.file) if os.path.isabs(self.file) else self.file
        return self.file if near.startswith("..") else near


def place(origin: Origin | None) -> Place | None:
    """Return file, line, function and text of an origin."""
    if origin is None:
        return None
    code, offset = origin
    position = next(islice(code.co_positions(), offset // 2, None), None)
    line = (position[0] if position else None) or code.co_firstlineno
    text = linecache.getline(code.co_filename, line).strip()
    return Place(code.co_filename, line, code.co_qualname, text)


def origin_of(node: Any) -> Origin | None:
    """Return the origin of a node or a write; None where nothing was noted."""
    return getattr(node, "origin", None)


def at(thing: Any, before: str = " at ") -> str:
    """Return " at file:line `text`" for a node or a write, an empty string where nothing was noted."""
    found = place(origin_of(thing))
    return f"{before}{found}" if found else ""


class Tracking:
    """Whether the flat wrappers note calls that no_grad keeps out of the graph; they are told when it changes."""

    on = False
    listeners: list[Callable[[bool], None]] = []


class set_origin_tracking:
    """Note the lines of calls that no_grad keeps out of the graph too, or stop: at once, or as a context until its end.

    The line of every recorded call is noted always. Those that leave no node are not, because a model's evaluation is
    made of nothing else; `autograd.explain` needs them to say at which line no_grad cut a gradient off. It holds for
    all threads.

    Example:
        >>> import sapwood
        >>> with sapwood.autograd.set_origin_tracking(True):
        ...     with sapwood.no_grad():
        ...         y = sapwood.ones(1, requires_grad=True) * 2
    """

    def __init__(self, on: bool) -> None:
        self._before = Tracking.on
        _switch(bool(on))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        _switch(self._before)


def is_origin_tracking() -> bool:
    """Return whether calls under no_grad are noted."""
    return Tracking.on


def _switch(on: bool) -> None:
    if on is not Tracking.on:
        Tracking.on = on
        for listener in Tracking.listeners:
            listener(on)
