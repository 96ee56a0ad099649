"""Warnings, said at the user's line; some only once a process."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from .origin import is_own

said: set[str] = set()
"""The texts of those warnings that are said once, and were."""


class Always:
    """Whether warnings that are said once are said every time."""

    on = False


def warn(text: str, category: type[Warning] = UserWarning, *, once: bool = False) -> None:
    """Warn at the nearest line of the user's program; with `once` unless this text was said before."""
    if once and not Always.on:
        if text in said:
            return
        said.add(text)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
    assert frame is not None
    seen = frame.f_globals.setdefault("__warningregistry__", {})
    name = frame.f_globals.get("__name__", "sys")
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, name, seen, frame.f_globals)


def set_warn_always(b: bool, /) -> None:
    """Set whether warnings that are said once a process are said every time."""
    Always.on = bool(b)


def is_warn_always_enabled() -> bool:
    """Return whether warnings that are said once a process are said every time."""
    return Always.on
