"""Adamax: Adam with the largest recent gradient in place of the root mean square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import absolute, add, divide, maximum, multiply, subtract

from .elementwise import Array, Elementwise, State, counter, zeros_like
from .groups import Group
from .options import at_least_zero, check_betas, check_way, number
from .together import Scalars


class Adamax(Elementwise):
    """Divide a running average of the gradient by its decaying maximum.

        g   = gradient + weight_decay · p
        m   = m + (1 − β₁)(g − m)
        u   = max(β₂ · u, |g| + eps)
        p  −= lr / (1 − β₁ᵗ) · m / u

    Args:
        params: see `Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        betas, eps, weight_decay: as in the formula.
        maximize: step along the gradient.

    Raises:
        ValueRangeError: a negative lr, eps or weight_decay, or a beta outside [0, 1).

    Reference: Kingma and Ba, arXiv:1412.6980, section 7.1.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        at_least_zero("Adamax", lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas("Adamax", betas)
        check_way("Adamax", differentiable=differentiable)
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, options)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return "exp_avg", "exp_inf"

    def _begin(self, p: Array, group: Group) -> State:
        return {"step": counter(), "exp_avg": zeros_like(p), "exp_inf": zeros_like(p)}

    def _scalars(self, group: Group, t: float, fresh: bool) -> Scalars:
        beta1, beta2 = map(number, group["betas"])
        step = -number(group["lr"]) / (1 - beta1**t)
        return step, 1 - beta1, beta2, number(group["eps"])

    @staticmethod
    def _update(p: Array, g: Array, slots: Sequence[Array], c: tuple[Any, ...], scratch: Sequence[Array]) -> None:
        step, new, beta2, eps = c
        (a,) = scratch
        m, u = slots
        add(m, multiply(subtract(g, m, out=a), new, out=a), out=m)
        multiply(u, beta2, out=u)
        maximum(u, add(absolute(g, out=a), eps, out=a), out=u)
        add(p, divide(multiply(m, step, out=a), u, out=a), out=p)
