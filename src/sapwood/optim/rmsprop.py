"""RMSprop: steps divided by the root of a running average of squared gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import add, divide, multiply, sqrt, subtract

from .elementwise import Array, Elementwise, State, counter, zeros_like
from .groups import Group
from .options import at_least_zero, check_way, number
from .together import Scalars


class RMSprop(Elementwise):
    """Divide the gradient by the root of a running average of its square.

        g   = gradient + weight_decay · p
        v   = alpha · v + (1 − alpha) g²
        u   = g / (√v + eps)               (centered: v − a² for v, a the running average of g)
        p  −= lr · u                       (momentum: b = momentum · b + u, and b for u)

    Args:
        params: see `Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        alpha, eps, weight_decay, momentum, centered: as in the formula.
        maximize: step along the gradient.

    Raises:
        ValueRangeError: a negative option.

    Reference: Hinton, lecture 6 of *Neural Networks for Machine Learning*, 2012; centered: Graves, arXiv:1308.0850.
    """

    _scratch = 2

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero("RMSprop", lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        check_way("RMSprop", differentiable=differentiable)
        options = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, options)

    def _slots(self, group: Group) -> tuple[str, ...]:
        slots: tuple[str, ...] = ("square_avg",)
        if group["momentum"] > 0:
            slots += ("momentum_buffer",)
        return (*slots, "grad_avg") if group["centered"] else slots

    def _begin(self, p: Array, group: Group) -> State:
        return {"step": counter(), **{slot: zeros_like(p) for slot in self._slots(group)}}

    def _scalars(self, group: Group, t: float, fresh: bool) -> Scalars:
        alpha, momentum = number(group["alpha"]), number(group["momentum"])
        eps, centered = number(group["eps"]), True if group["centered"] else None
        return -number(group["lr"]), alpha, 1 - alpha, eps, momentum if momentum > 0 else None, centered

    @staticmethod
    def _update(p: Array, g: Array, slots: Sequence[Array], c: tuple[Any, ...], scratch: Sequence[Array]) -> None:
        step, alpha, new, eps, momentum, centered = c
        a, b = scratch
        v = slots[0]
        multiply(v, alpha, out=v)
        add(v, multiply(multiply(g, new, out=a), g, out=a), out=v)
        if centered:
            mean = slots[-1]
            add(mean, multiply(subtract(g, mean, out=a), new, out=a), out=mean)
            sqrt(subtract(v, multiply(mean, mean, out=a), out=a), out=a)
        else:
            sqrt(v, out=a)
        add(a, eps, out=a)
        if momentum is not None:
            buffer = slots[1]
            multiply(buffer, momentum, out=buffer)
            add(buffer, divide(g, a, out=a), out=buffer)
            add(p, multiply(buffer, step, out=a), out=p)
        else:
            add(p, divide(multiply(g, step, out=b), a, out=b), out=p)
