"""Schedules that start at the base rate and change it by a factor from step to step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ...errors import ArgumentError, ValueRangeError
from ..optimizer import Optimizer
from .scheduler import LRScheduler, state_of

Rates = list[Any]
Function = Callable[[int], float]


class _ByFunction(LRScheduler):
    """What schedules share whose rates come from a function of the epoch."""

    lr_lambdas: list[Function]

    def __init__(self, optimizer: Optimizer, lr_lambda: Function | list[Function], last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        given = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(given) != count:
            raise ValueRangeError(
                f"{type(self).__name__}: expected one function for each of the {count} parameter groups, got "
                f"{len(given)}"
            )
        for function in given:
            if not callable(function):
                raise ArgumentError(
                    f"{type(self).__name__}: lr_lambda must be a function of the epoch, got {type(function).__name__}"
                )
        self.lr_lambdas = given
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer and the functions; of callable objects, their attributes."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [state_of(f) for f in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; the functions stay, callable objects get their attributes back."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if saved is not None:
                function.__dict__.update(saved)


class LambdaLR(_ByFunction):
    """Set the base rate times `lr_lambda(epoch)`.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        lr_lambda: a function of the epoch, or a list with one per parameter group.
    """

    def get_lr(self) -> Rates:
        self._warn_outside_step()
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_ByFunction):
    """Multiply the present rate by `lr_lambda(epoch)`.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        lr_lambda: a function of the epoch, or a list with one per parameter group.
    """

    def get_lr(self) -> Rates:
        self._warn_outside_step()
        if self._is_initial:
            return self._kept()
        groups = self.optimizer.param_groups
        return [group["lr"] * f(self.last_epoch) for f, group in zip(self.lr_lambdas, groups, strict=True)]


class StepLR(LRScheduler):
    """Multiply the rate by `gamma` every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._kept()
        return self._scaled(self.gamma)

    def _get_closed_form_lr(self) -> Rates:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiply the rate by `gamma` at each of the epochs `milestones`."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._kept()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> Rates:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Hold the rate at `factor` times the base rate for `total_iters` epochs, then at the base rate.

    Raises:
        ValueRangeError: factor outside [0, 1].
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueRangeError(f"ConstantLR: factor must lie in [0, 1], got {factor}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        if self.last_epoch != self.total_iters:
            return self._kept()
        return self._scaled(1.0 / self.factor)

    def _get_closed_form_lr(self) -> Rates:
        over = self.last_epoch >= self.total_iters
        return [base * (self.factor + over * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Move the rate linearly from `start_factor` to `end_factor` times the base rate, in `total_iters` epochs.

    Raises:
        ValueRangeError: start_factor outside (0, 1] or end_factor outside [0, 1].
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueRangeError(f"LinearLR: start_factor must lie in (0, 1], got {start_factor}")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueRangeError(f"LinearLR: end_factor must lie in [0, 1], got {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._kept()
        rise = self.end_factor - self.start_factor
        return self._scaled(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self) -> Rates:
        rise, passed = self.end_factor - self.start_factor, min(self.total_iters, self.last_epoch)
        return [base * (self.start_factor + rise * passed / self.total_iters) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiply the rate by `gamma` at every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        self._warn_outside_step()
        return self._kept() if self._is_initial else self._scaled(self.gamma)

    def _get_closed_form_lr(self) -> Rates:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Set the base rate times (1 − epoch / total_iters) ** power; 0 from `total_iters` on."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._kept()
        left, left_before = (1.0 - e / self.total_iters for e in (self.last_epoch, self.last_epoch - 1))
        return self._scaled((left / left_before) ** self.power)

    def _get_closed_form_lr(self) -> Rates:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Move the rate along half a cosine from the base rate to `eta_min` in `T_max` epochs; it rises again after that.

    Reference: Loshchilov and Hutter, arXiv:1608.03983, without the restarts.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        self._warn_outside_step()
        if self._is_initial:
            return self._kept()
        epoch, low = self.last_epoch, self.eta_min
        if self._step_count == 1 and epoch > 0:
            return [low + (base - low) * (1 + math.cos(epoch * math.pi / self.T_max)) / 2 for base in self.base_lrs]
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The factor below would be 0/0 right after the minimum.
            first = (1 - math.cos(math.pi / self.T_max)) / 2
            return [rate + (base - low) * first for base, rate in zip(self.base_lrs, rates, strict=True)]
        now, before = (1 + math.cos(math.pi * e / self.T_max) for e in (epoch, epoch - 1))
        return [now / before * (rate - low) + low for rate in rates]

    def _get_closed_form_lr(self) -> Rates:
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]
