"""Differentiation: the engine, grad modes, custom functions, checks."""

from __future__ import annotations

import importlib
from typing import Any

from ..origin import is_origin_tracking, set_origin_tracking
from .anomaly import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
    set_detect_anomaly,
)
from .mode import (
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    is_multithreading_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .mode import unsafe_preserve_version_counter as _unsafe_preserve_version_counter
from .mode import unsafe_set_version_counter as _unsafe_set_version_counter
from .run import backward, grad

_LAZY = {
    "Function": "function",
    "NestedIOFunction": "once",
    "gradcheck": "check",
    "gradgradcheck": "check",
    "Variable": "variable",
    "cut": "truncate",
    "explain": "reasons",
    "live_graphs": "live",
    "nan_guard": "guard",
    "safe_where": "branches",
    "saved": "held",
    "saved_report": "held",
    "steps": "stepping",
    "strict": "broadcasting",
}
_MODULES = {"anomaly", "check", "engine", "function", "graph", "mode", "forward_ad", "functional", "variable"}
_RENAMED = {"anomaly_mode": "anomaly", "grad_mode": "mode"}
"""PyTorch's names of modules that are called otherwise here."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module("." + _LAZY[name], __name__), name)
    name = _RENAMED.get(name, name)
    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'sapwood.autograd' has no attribute {name!r}")
