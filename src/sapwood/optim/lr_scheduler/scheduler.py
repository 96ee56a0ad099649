"""The base of the schedulers."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...alias import stamp
from ...errors import ArgumentError, ValueRangeError
from ...tensor import Tensor, wrap
from ..optimizer import Optimizer


class _MissingKeyError(ValueRangeError, KeyError):
    """A parameter group without an entry that resuming needs: PyTorch raises KeyError."""

    def __str__(self) -> str:
        return str(self.args[0])


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """Return `key` of every parameter group; a tensor is copied, since setting a rate writes into it."""
    return [copied(group[key]) for group in optimizer.param_groups]


def copied(value: Any) -> Any:
    """Return a copy of a tensor, anything else itself."""
    return wrap(value._array.copy()) if isinstance(value, Tensor) else value


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a parameter group; a tensor keeps its identity and gets the value."""
    held = group[key]
    if isinstance(held, Tensor):
        held._array[...] = value._array if isinstance(value, Tensor) else value
        stamp(held, "lr_scheduler")
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """Return one value per parameter group, from a list or from a value for all.

    Raises:
        ValueRangeError: a list of another length.
    """
    count = len(optimizer.param_groups)
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise ValueRangeError(
                f"lr_scheduler: {name} must hold one value for each of the {count} parameter groups, got {len(value)}"
            )
        return [copied(v) for v in value]
    return [copied(value) for _ in range(count)]


def check_optimizer(optimizer: Any) -> None:
    """Raise ArgumentError unless it is an Optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise ArgumentError(f"lr_scheduler: expected an Optimizer, got {type(optimizer).__name__}")


def state_of(function: Any) -> Any:
    """Return what of a function is saved: nothing of a plain function, the attributes of a callable object."""
    return None if isinstance(function, types.FunctionType) else function.__dict__.copy()


class LRScheduler:
    """Set the learning rates of an optimizer once per `step`. The constructor makes the first, initial step.

    A subclass writes `get_lr`, which returns the rates of epoch `self.last_epoch`.

    Args:
        optimizer: whose parameter groups are changed. The rates it has now become the base rates.
        last_epoch: the last epoch done, when resuming; −1 for a start.

    Raises:
        ArgumentError: not an optimizer.
        KeyError: resuming, and a parameter group has no "initial_lr".
    """

    optimizer: Optimizer
    base_lrs: list[Any]
    last_epoch: int

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise _MissingKeyError(
                    f"lr_scheduler: last_epoch={last_epoch} resumes, but parameter group {i} has no 'initial_lr'; load "
                    "the optimizer's state first, or start with last_epoch=-1"
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """Return the rates that the last step set, one per parameter group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Return the rates of epoch `last_epoch`, one per parameter group."""
        raise NotImplementedError(f"{type(self).__name__}: a subclass of LRScheduler writes its own get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch and set its rates. Call it after the optimizer's step.

        Args:
            epoch: go to this epoch instead (deprecated).
        """
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(
                "lr_scheduler.step: called before the first optimizer.step(), so the first rate of the schedule is "
                "never used; call optimizer.step() first",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warn_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed: Callable[[], list[Any]] = getattr(self, "_get_closed_form_lr", self.get_lr)
                rates = closed()
        finally:
            self._get_lr_called_within_step = False
        self._set(rates)

    def _set(self, rates: Sequence[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_value(group, "lr", rate)
        self._last_lr: list[Any] = values_of(self.optimizer, "lr")

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "get_lr: computes the rates of a step that is being made; get_last_lr() returns those in force",
                UserWarning,
                stacklevel=3,
            )

    def _scaled(self, factor: Any) -> list[Any]:
        """Return the present rates times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _kept(self) -> list[Any]:
        """Return the present rates."""
        return values_of(self.optimizer, "lr")


def warn_epoch() -> None:
    """Warn that a scheduler was told the epoch."""
    warnings.warn(
        "lr_scheduler.step: the argument epoch is deprecated; call step() without it, once per epoch",
        UserWarning,
        stacklevel=3,
    )


def as_number(value: Any) -> float:
    """Return a metric or rate as a Python number."""
    return float(value.item() if isinstance(value, (Tensor, np.generic)) else value)
