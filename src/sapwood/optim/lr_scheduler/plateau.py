"""ReduceLROnPlateau: smaller steps once a metric stops improving."""

from __future__ import annotations

import math
from typing import Any

from ...errors import ValueRangeError
from ..optimizer import Optimizer
from .scheduler import LRScheduler, as_number, check_optimizer, set_value, values_of, warn_epoch


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by `factor` when a metric has not improved for more than `patience` epochs.

    Args:
        optimizer: see `LRScheduler`.
        mode: "min" when less is better, "max" when more is.
        factor: below 1.
        patience: epochs without improvement that are tolerated.
        threshold: how much better counts as better, as a share of the best ("rel") or as a difference ("abs").
        threshold_mode: "rel" or "abs".
        cooldown: epochs after a reduction during which nothing is counted.
        min_lr: rates are not reduced below this; a number or a list with one per parameter group.
        eps: smaller reductions are not made.

    Raises:
        ValueRangeError: factor not below 1, an unknown mode, or a list of min_lr of the wrong length.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueRangeError(f"ReduceLROnPlateau: factor must be below 1, got {factor}")
        self.factor = factor
        check_optimizer(optimizer)
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != count:
                raise ValueRangeError(
                    f"ReduceLROnPlateau: min_lr must hold one value for each of the {count} parameter groups, got "
                    f"{len(min_lr)}"
                )
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * count
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = values_of(optimizer, "lr")
        self._compare_by(mode, threshold, threshold_mode)
        self._reset()

    def _compare_by(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueRangeError(f"ReduceLROnPlateau: mode must be 'min' or 'max', got {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueRangeError(f"ReduceLROnPlateau: threshold_mode must be 'rel' or 'abs', got {threshold_mode!r}")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def _reset(self) -> None:
        """Forget the best metric and all counts."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take note of this epoch's metric, and reduce the rates if it is time.

        Args:
            metrics: a number or a tensor of one element.
            epoch: the number of the epoch (deprecated).
        """
        current = as_number(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warn_epoch()
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = values_of(self.optimizer, "lr")

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs are not counted now."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        down = self.mode == "min"
        if self.threshold_mode == "rel":
            return a < best * (1.0 - self.threshold) if down else a > best * (self.threshold + 1.0)
        return a < best - self.threshold if down else a > best + self.threshold

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise ValueRangeError(
                    f"ReduceLROnPlateau: the optimizer has {len(groups)} parameter groups now, but min_lr was given "
                    f"for {len(self.min_lrs)}; extend scheduler.min_lrs when adding a group"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_value(group, "lr", new)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.__dict__.update(state_dict)
        self._compare_by(self.mode, self.threshold, self.threshold_mode)
