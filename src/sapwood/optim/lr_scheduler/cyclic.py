"""Schedules that rise and fall: cycles, one cycle, and cosines with restarts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...errors import ValueRangeError
from ..optimizer import Optimizer
from .scheduler import LRScheduler, check_optimizer, per_group, set_value, state_of

Rates = list[Any]


def _set_momentum(group: dict[str, Any], value: float, *, as_beta: bool) -> None:
    if as_beta:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _start_momentum(scheduler: Any, base: Any, top: Any, last_epoch: int) -> tuple[list[Any], list[Any]]:
    """Find out what the optimizer calls its momentum, and at a start set it to its highest value."""
    optimizer = scheduler.optimizer
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueRangeError(
            f"{type(scheduler).__name__}: {type(optimizer).__name__} has neither momentum nor betas to cycle; pass "
            "cycle_momentum=False"
        )
    scheduler.use_beta1 = "betas" in optimizer.defaults
    bases, tops = per_group("base_momentum", optimizer, base), per_group("max_momentum", optimizer, top)
    if last_epoch == -1:
        for high, low, group in zip(tops, bases, optimizer.param_groups):
            _set_momentum(group, high, as_beta=scheduler.use_beta1)
            group["max_momentum"] = high
            group["base_momentum"] = low
    return bases, tops


class CyclicLR(LRScheduler):
    """Let the rate rise from `base_lr` to `max_lr` and fall back, again and again, the momentum in the opposite way.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        base_lr, max_lr: the ends; numbers or lists with one per parameter group.
        step_size_up, step_size_down: lengths of rise and fall, in steps; None for the same length.
        mode: "triangular"; "triangular2" halves the height from cycle to cycle; "exp_range" multiplies it by gamma at
            every step.
        gamma: of "exp_range".
        scale_fn: the factor on the height, instead of one of the modes.
        scale_mode: whether scale_fn gets the number of the "cycle" (from 1) or of the step ("iterations").
        cycle_momentum, base_momentum, max_momentum: whether and between what the momentum (or β₁) moves.

    Raises:
        ValueRangeError: an unknown mode, or momentum to cycle in an optimizer without it.

    Reference: Smith, arXiv:1506.01186.
    """

    use_beta1: bool

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        bases = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(bases, optimizer.param_groups):
                set_value(group, "lr", rate)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueRangeError(
                f"CyclicLR: mode must be 'triangular', 'triangular2' or 'exp_range', got {mode!r}; or pass scale_fn"
            )
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._choose_scale_mode()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = _start_momentum(self, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = bases

    def _choose_scale_mode(self) -> None:
        if self._scale_fn_custom is None:
            self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"

    def scale_fn(self, x: float) -> float:
        """Return the factor on the height in cycle, or at step, x."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> Rates:
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)

        def part(low: Any, high: Any) -> Any:
            return (high - low) * height * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)

        if self.cycle_momentum:
            groups = self.optimizer.param_groups
            for low, high, group in zip(self.base_momentums, self.max_momentums, groups, strict=True):
                _set_momentum(group, high - part(low, high), as_beta=self.use_beta1)
        return [low + part(low, high) for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer and scale_fn; of a callable object, its attributes."""
        state = super().state_dict()
        function = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None if function is None else state_of(function)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; scale_fn stays, a callable object gets its attributes back."""
        saved = state_dict["_scale_fn_custom"]
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if saved is not None:
            self._scale_fn_custom.__dict__.update(saved)
        self._choose_scale_mode()


class CosineAnnealingWarmRestarts(LRScheduler):
    """Move the rate along half a cosine to `eta_min`, then start again, each run `T_mult` times as long.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        T_0: length of the first run, in epochs.
        T_mult: factor on the length from run to run.
        eta_min: the lower end.

    Raises:
        ValueRangeError: T_0 or T_mult not a positive int, eta_min not a number.

    Reference: Loshchilov and Hutter, arXiv:1608.03983.
    """

    T_cur: Any
    T_i: Any

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueRangeError(f"CosineAnnealingWarmRestarts: T_0 must be a positive int, got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueRangeError(f"CosineAnnealingWarmRestarts: T_mult must be an int from 1 on, got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueRangeError(
                f"CosineAnnealingWarmRestarts: eta_min must be a number, got {type(eta_min).__name__}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        self._warn_outside_step()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to `epoch`, which may lie between two.

        Raises:
            ValueRangeError: a negative epoch.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur = self.T_cur + 1
            if self.T_cur >= self.T_i:
                self.T_cur = self.T_cur % self.T_i
                self.T_i = self.T_i * self.T_mult
        else:
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._set(rates)

    def _go_to(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueRangeError(f"CosineAnnealingWarmRestarts: epoch must not be negative, got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            runs = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**runs - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**runs


class OneCycleLR(LRScheduler):
    """Let the rate rise to `max_lr` and then fall to almost nothing, the momentum in the opposite way.

    Args:
        optimizer, last_epoch: see `LRScheduler`.
        max_lr: the top; a number or a list with one per parameter group.
        total_steps: length of the whole, in steps; or epochs and steps_per_epoch.
        pct_start: the share that rises, a float.
        anneal_strategy: "cos" or "linear".
        cycle_momentum, base_momentum, max_momentum: whether and between what the momentum (or β₁) moves.
        div_factor: max_lr / first rate.
        final_div_factor: first rate / last rate.
        three_phase: fall back to the first rate in as many steps as the rise took, then to the last.

    Raises:
        ValueRangeError: no length, an option outside its range, momentum to cycle in an optimizer without it, or a step
            past the end.

    Reference: Smith and Topin, arXiv:1708.07120.
    """

    use_beta1: bool

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _length(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueRangeError(f"OneCycleLR: pct_start must be a float in [0, 1], got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueRangeError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        rise, end = float(pct_start * self.total_steps) - 1, self.total_steps - 1
        if three_phase:
            fall = float(2 * pct_start * self.total_steps) - 2
            self._schedule_phases = [
                _phase(rise, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                _phase(fall, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                _phase(end, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self._schedule_phases = [
                _phase(rise, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                _phase(end, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        self._anneal_func_type = anneal_strategy
        tops = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for top, group in zip(tops, optimizer.param_groups):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _start_momentum(self, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: Any, end: Any, share: float) -> Any:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> Rates:
        self._warn_outside_step()
        now = self.last_epoch
        if now > self.total_steps:
            raise ValueRangeError(
                f"OneCycleLR: step {now} lies past the end of the schedule, which was made for {self.total_steps} steps"
            )
        start = 0.0
        phase = self._schedule_phases[-1]
        for phase in self._schedule_phases:
            if now <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        share = (now - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                momentum = self._anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                _set_momentum(group, momentum, as_beta=self.use_beta1)
        return rates


def _phase(end: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str) -> dict[str, Any]:
    return {
        "end_step": end,
        "start_lr": start_lr,
        "end_lr": end_lr,
        "start_momentum": start_momentum,
        "end_momentum": end_momentum,
    }


def _length(total: int | None, epochs: int | None, per_epoch: int | None) -> int:
    if total is None and (epochs is None or per_epoch is None):
        raise ValueRangeError("OneCycleLR: pass total_steps, or epochs and steps_per_epoch")
    given = {"total_steps": total} if total is not None else {"epochs": epochs, "steps_per_epoch": per_epoch}
    for name, value in given.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueRangeError(f"OneCycleLR: {name} must be a positive int, got {value}")
    return math.prod(v for v in given.values() if v is not None)
