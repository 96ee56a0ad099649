"""Adagrad: steps divided by the root of the sum of all squared gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import add, divide, multiply, sqrt

from ..tensor import wrap
from .elementwise import Array, Elementwise, State, counter
from .groups import Group
from .options import at_least_zero, check_way, number
from .together import Scalars


class Adagrad(Elementwise):
    """Divide the gradient by the root of the sum of its squares so far.

        g   = gradient + weight_decay · p
        s   = s + g²                       (s starts at initial_accumulator_value)
        p  −= lr / (1 + (t − 1) lr_decay) · g / (√s + eps)

    Args:
        params: see `Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        lr_decay, weight_decay, initial_accumulator_value, eps: as in the formula.
        maximize: step along the gradient.

    Raises:
        ValueRangeError: a negative option.

    Reference: Duchi, Hazan and Singer, JMLR 12 (2011).
    """

    _scratch = 2

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        at_least_zero(
            "Adagrad",
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        check_way("Adagrad", foreach=foreach, fused=fused, differentiable=differentiable)
        options = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, options)
        # The sums exist from the start, so that a state saved before the first step has them, as in PyTorch.
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self._begin(p._array, group)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("sum",)

    def _begin(self, p: Array, group: Group) -> State:
        start = group["initial_accumulator_value"]
        start = complex(start, start) if p.dtype.kind == "c" else start
        return {"step": counter(), "sum": wrap(np.full_like(p, start))}

    def _scalars(self, group: Group, t: float, fresh: bool) -> Scalars:
        return -number(group["lr"]) / (1 + (t - 1) * number(group["lr_decay"])), number(group["eps"])

    @staticmethod
    def _update(p: Array, g: Array, slots: Sequence[Array], c: tuple[Any, ...], scratch: Sequence[Array]) -> None:
        step, eps = c
        a, b = scratch
        (total,) = slots
        add(total, multiply(g, g, out=a), out=total)
        add(sqrt(total, out=a), eps, out=a)
        add(p, divide(multiply(g, step, out=b), a, out=b), out=p)
