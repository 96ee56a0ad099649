"""Tools around training; `data` loads at first use."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("data", "hooks"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'sapwood.utils' has no attribute {name!r}")
