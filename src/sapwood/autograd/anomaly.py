"""Anomaly mode: nodes remember where they were made, and a NaN in a gradient stops the backward pass."""

from __future__ import annotations

import warnings
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..errors import ArgumentError, GradError
from ..state import ANOMALY, GUARD, get_mode, mode
from . import engine

_check_nan: ContextVar[bool] = ContextVar("sapwood_anomaly_nan", default=True)


class set_detect_anomaly:
    """Switch anomaly mode on or off: at once as a statement, until its end as a context.

    Args:
        mode: whether it is on.
        check_nan: raise at the first backward formula that returns a NaN.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = get_mode(), _check_nan.get()
        _set(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        mode.set(self._before[0])
        _check_nan.set(self._before[1])


class detect_anomaly(set_detect_anomaly):
    """Turn anomaly mode on inside: slower, for finding where a NaN or an error in backward comes from."""

    def __init__(self, check_nan: bool = True) -> None:
        warnings.warn("detect_anomaly: every op is slower inside; for debugging only", UserWarning, stacklevel=2)
        self._before = get_mode(), _check_nan.get()
        self._check_nan = check_nan

    def __enter__(self) -> None:
        self._before = get_mode(), _check_nan.get()
        _set(True, self._check_nan)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off; `check_nan` says whether it looks for NaN."""
    _set(enabled, check_nan)


def _set(on: bool, check_nan: bool) -> None:
    if not isinstance(on, bool):
        raise ArgumentError(f"set_anomaly_enabled: True or False is expected, got {type(on).__name__}")
    word = get_mode()
    mode.set(word | ANOMALY if on else word & ~ANOMALY)
    _check_nan.set(check_nan)


def is_anomaly_enabled() -> bool:
    """Return whether anomaly mode is on here and now."""
    return bool(get_mode() & ANOMALY)


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly mode looks for NaN."""
    return _check_nan.get()


def examine(node: Any, g: Any, grads: Any) -> None:
    """Raise if a formula of `node` made a NaN of the incoming `g`; called by the engine where somebody looks.

    Raises:
        GradError: naming the node, the gradient, and the forward call that made the node.
        NonFiniteError: in place of it, where a `nan_guard` looks.
    """
    from . import guard as guards

    word = get_mode()
    guard = guards.current.get() if word & GUARD else None
    if guard is not None:
        guard.examine(node, g, grads)
    if not (word & ANOMALY and _check_nan.get()):
        return
    for i, x in enumerate(grads):
        a = getattr(x, "_array", x)
        if a is not None and np.asarray(a).dtype.kind in "fc" and np.isnan(a).any():
            hint = guards.masked_hint(g, np.asarray(a), np.isnan(a))
            raise GradError(f"backward: {node.name()} returned NaN in its gradient {i}. {hint}{where(node)}")


def where(node: Any) -> str:
    """Return the forward lines that made the node, as text, if it remembers them."""
    stack = (node.extra or {}).get("traceback")
    import traceback

    return "" if stack is None else "\nIt was made here:\n" + "".join(traceback.format_list(stack))


engine.examine = examine
