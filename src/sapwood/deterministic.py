"""Determinism: the switches of PyTorch. Every operation here gives the same result each time, so they are only kept."""

from __future__ import annotations

from .errors import ArgumentError, ValueRangeError

_MODES = ("default", "warn", "error")


class Switch:
    """What was asked for: an index into the modes "default", "warn" and "error"."""

    mode = 0


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for operations that give the same result each time; all of them do anyway.

    Args:
        mode: whether to refuse others.
        warn_only: warn in place of refusing.
    """
    if not isinstance(mode, bool) or not isinstance(warn_only, bool):
        raise ArgumentError("use_deterministic_algorithms: mode and warn_only must be True or False")
    Switch.mode = 0 if not mode else 1 if warn_only else 2


def are_deterministic_algorithms_enabled() -> bool:
    """Return whether deterministic operations were asked for."""
    return Switch.mode > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether a warning was asked for in place of an error."""
    return Switch.mode == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Ask for the same by a name or a number: "default" or 0, "warn" or 1, "error" or 2."""
    if not isinstance(debug_mode, int | str):
        raise ArgumentError(f"set_deterministic_debug_mode: a name or a number is expected, got {debug_mode!r}")
    number = _MODES.index(debug_mode) if debug_mode in _MODES else debug_mode
    if number not in (0, 1, 2):
        raise ValueRangeError(
            f"set_deterministic_debug_mode: one of {', '.join(_MODES)} or 0 to 2 is expected, got {debug_mode!r}"
        )
    Switch.mode = int(number)


def get_deterministic_debug_mode() -> int:
    """Return what was asked for: 0 nothing, 1 a warning, 2 an error."""
    return Switch.mode
