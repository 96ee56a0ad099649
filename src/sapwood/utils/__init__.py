"""Data loading, checkpointing, DLPack: what PyTorch keeps in torch.utils. Parts load at first use."""

from __future__ import annotations

import importlib
from typing import Any

_PARTS = {"checkpoint", "data", "dlpack", "hooks"}


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'sapwood.utils' has no attribute {name!r}")
