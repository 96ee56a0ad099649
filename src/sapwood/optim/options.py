"""Checks that several optimizers make of their hyper-parameters."""

from __future__ import annotations

from typing import Any

from ..errors import MissingError, ValueRangeError
from ..tensor import Tensor


def at_least_zero(op: str, **values: Any) -> None:
    """Raise ValueRangeError unless every value is at least 0; a tensor must hold one element."""
    for name, value in values.items():
        if isinstance(value, Tensor) and value.numel() != 1:
            raise ValueRangeError(f"{op}: {name} must be a number or a tensor of one element, got {value.numel()}")
        if not value >= 0:
            raise ValueRangeError(f"{op}: {name} must be at least 0, got {value}")


def check_betas(op: str, betas: Any) -> None:
    """Raise ValueRangeError unless both decay rates lie in [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0 <= beta < 1:
            raise ValueRangeError(f"{op}: betas[{i}] must lie in [0, 1), got {beta}")


def check_way(op: str, *, foreach: bool | None = None, fused: bool | None = None, differentiable: bool = False) -> None:
    """Raise for choices of implementation that exclude each other or that are not there.

    There is one implementation here, so `foreach`, `fused` and `capturable` choose nothing; they are accepted so that
    programs which pass them run.
    """
    if fused and differentiable:
        raise ValueRangeError(f"{op}: fused=True and differentiable=True exclude each other; leave one out")
    if fused and foreach:
        raise ValueRangeError(f"{op}: fused=True and foreach=True exclude each other; leave one out")
    if differentiable:
        raise MissingError(f"{op}: differentiable=True is not available; write the update with tensor operations")


def number(value: Any) -> float:
    """Return a hyper-parameter or a loss, which may be a tensor of one element, as a Python number."""
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    return float(value._array) if isinstance(value, Tensor) else float(value)
