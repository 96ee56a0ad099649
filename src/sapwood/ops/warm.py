"""When native code takes over: not at import, but when a program has done enough to gain from it.

Bringing up the compiler costs 0.2 to 0.3 s, and about 1 s the first time on a machine, when nothing is compiled yet; a
short program should not pay that. Until then every op's forward function is wrapped in a counter, which costs 0.15 µs a
call; afterwards the functions stand for themselves. The ops that are switched over give the same results to the last
bit, so the moment does not matter.

Kernels whose results differ from NumPy's in the last bits have another rule: `serve` answers by the size of the work
alone, from the first call on. So a result depends on the op and its arguments and on nothing that ran before.

Environment:
    SAPWOOD_JIT=0: never. SAPWOOD_JIT=1: with the first op.
"""

from __future__ import annotations

import importlib
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

from numpy import ndarray

ENOUGH = 2000
"""Calls after which native code starts; an array counts for as many calls as its elements cost, 4096 for one."""


LEAST = 256
"""Elements from which kernels do the work of ops whose results are not NumPy's to the last bit."""


class _State:
    able: bool | None = None
    """Whether there are kernels; None: not asked for yet."""
    done = False
    calls = 0
    spaces: list[tuple[dict[str, Any], Callable[..., Any]]] = []


_lock = threading.Lock()


def never() -> bool:
    """Return whether the environment rules native code out."""
    return os.environ.get("SAPWOOD_JIT", "") == "0"


def counted(namespace: dict[str, Any], forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward`, or what counts its calls and starts native code; `namespace` is where it will be replaced."""
    if _State.done:
        return forward
    if never():
        return forward
    if os.environ.get("SAPWOOD_JIT", "") == "1":
        # Not now: while the package is imported there is nothing yet to switch over.
        _State.calls = ENOUGH
    _State.spaces.append((namespace, forward))

    def counting(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else None
        _State.calls += 1 + (first.size >> 12 if type(first) is ndarray else 0)
        if _State.calls > ENOUGH and not _State.done:
            start()
        return forward(*args, **kwargs)

    return counting


def serve(elements: int) -> bool:
    """Return whether kernels do work on so many elements; the first time this brings up the compiler."""
    if elements < LEAST:
        return False
    return _able() if _State.able is None else _State.able


def _able() -> bool:
    """Ask once whether there are kernels; say why where that is a surprise."""
    with _lock:
        if _State.able is None:
            reason: str | None = importlib.import_module("sapwood.kernels.builtin").why_not()
            _State.able = reason is None
            if reason is None:
                importlib.import_module("sapwood.kernels.builtin").environment()
                importlib.import_module("sapwood.kernels.memory").install()
            else:
                _explain(reason, 5)
    return _State.able


def _explain(reason: str, level: int) -> None:
    if "SAPWOOD_JIT" not in reason:
        warnings.warn(f"sapwood runs on NumPy alone: {reason}", RuntimeWarning, stacklevel=level)


def start() -> bool:
    """Switch native code on now; return whether there is any.

    Where there is none everything runs on NumPy, and a warning says why unless it was switched off.
    """
    with _lock:
        if _State.done:
            return importlib.import_module("sapwood.native.switch").why_not() is None
        _State.done = True
        for namespace, forward in _State.spaces:
            namespace["forward"] = forward
        _State.spaces.clear()
    switch = importlib.import_module("sapwood.native.switch")
    reason = switch.why_not()
    if reason is not None:
        if _State.able is None:
            _explain(reason, 4)
        return False
    switch.start()
    return True


__all__ = ["ENOUGH", "LEAST", "counted", "never", "serve", "start"]
