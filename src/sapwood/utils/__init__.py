"""Tools around training; `data` loads at first use."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "data":
        return importlib.import_module(".data", __name__)
    raise AttributeError(f"module 'sapwood.utils' has no attribute {name!r}")
