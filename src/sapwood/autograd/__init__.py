"""Differentiation: the engine, grad modes, custom functions, checks."""

from __future__ import annotations

import importlib
from typing import Any

from ..origin import is_origin_tracking, set_origin_tracking
from ..tensor import Tensor as Variable
from .anomaly import detect_anomaly, set_detect_anomaly
from .mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .run import backward, grad

_LAZY = {
    "Function": "function",
    "gradcheck": "check",
    "gradgradcheck": "check",
    "explain": "reasons",
    "live_graphs": "live",
    "nan_guard": "guard",
    "safe_where": "branches",
    "saved_report": "held",
    "steps": "stepping",
}
_MODULES = {"anomaly", "check", "engine", "function", "graph", "mode", "forward_ad", "functional"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module("." + _LAZY[name], __name__), name)
    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'sapwood.autograd' has no attribute {name!r}")
