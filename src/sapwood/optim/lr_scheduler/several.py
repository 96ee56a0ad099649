"""Schedulers made of schedulers: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ...errors import ArgumentError, ValueRangeError
from ..optimizer import Optimizer
from .plateau import ReduceLROnPlateau
from .scheduler import LRScheduler, set_value, values_of


class _OfSchedulers(LRScheduler):
    """What the two share: their parts are saved with them."""

    _schedulers: Sequence[Any]

    def _check(self, schedulers: Sequence[Any], optimizer: Any) -> None:
        op = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise ArgumentError(f"{op}: part {i} has no optimizer, so it is not a scheduler: {scheduler!r}")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueRangeError(
                    f"{op}: part {i} is a ReduceLROnPlateau, whose step needs a metric; step it on its own"
                )
            if scheduler.optimizer is not optimizer:
                raise ValueRangeError(
                    f"{op}: all parts must change one optimizer, but part {i} ({type(scheduler).__name__}) has another"
                )

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer, the parts as their own state dicts."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(saved)


class SequentialLR(_OfSchedulers):
    """Use one scheduler after the other; each starts at its epoch 0 when its turn comes.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        schedulers: in order, all of this optimizer.
        milestones: the epochs at which the second, third … takes over.

    Raises:
        ValueRangeError: no schedulers, not one milestone less than schedulers, a part that belongs to another optimizer
            or needs a metric.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueRangeError("SequentialLR: expected at least one scheduler, got none")
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueRangeError(
                f"SequentialLR: {len(schedulers)} schedulers change over at {len(schedulers) - 1} milestones, got "
                f"{len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Every part has already made its initial step on the optimizer: put the rates back, and take those steps back.
        for group in optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take one step back in the count of every part, and of their parts."""
        whole = self if sched is None else sched
        if hasattr(whole, "_schedulers"):
            for part in whole._schedulers:
                self.recursive_undo(part)
        elif hasattr(whole, "last_epoch"):
            whole.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Go to the next epoch with the scheduler whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_OfSchedulers):
    """Step several schedulers together, each changing the rate that the one before it set.

    Args:
        schedulers: all of one optimizer.
        optimizer: that optimizer; None for the first scheduler's.

    Raises:
        ValueRangeError: no schedulers, or a part that belongs to another optimizer or needs a metric.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueRangeError("ChainedScheduler: expected at least one scheduler, got none")
        optimizer = optimizer or schedulers[0].optimizer
        self._check(schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = values_of(optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Step every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = values_of(self.optimizer, "lr")
