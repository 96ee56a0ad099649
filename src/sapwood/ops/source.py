"""Printed Python code: compiled once, and shown by tracebacks and debuggers as a file's would be."""

from __future__ import annotations

import linecache
from itertools import count
from typing import Any

_serial = count(1).__next__


def run(text: str, what: str, scope: dict[str, Any]) -> dict[str, Any]:
    """Run printed code in a scope and return the names that it defines; `what` tells readers where it comes from."""
    file = f"<sapwood {what} {_serial()}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    made: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope, made)
    return made


__all__ = ["run"]
