"""Adadelta: steps in the units of the parameters, without a learning rate to choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import add, divide, multiply, sqrt

from ..errors import ValueRangeError
from .elementwise import Array, Elementwise, State, counter, zeros_like
from .groups import Group
from .options import at_least_zero, check_way, number
from .together import Scalars


class Adadelta(Elementwise):
    """Scale the gradient by the ratio of recent step sizes to recent gradient sizes.

        g   = gradient + weight_decay · p
        v   = rho · v + (1 − rho) g²
        d   = √(u + eps) / √(v + eps) · g
        u   = rho · u + (1 − rho) d²
        p  −= lr · d

    Args:
        params: see `Optimizer`.
        lr: factor on the step, a number or a tensor of one element.
        rho, eps, weight_decay: as in the formula.
        maximize: step along the gradient.

    Raises:
        ValueRangeError: a negative option, or rho above 1.

    Reference: Zeiler, arXiv:1212.5701.
    """

    _scratch = 2

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero("Adadelta", lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0 <= rho <= 1:
            raise ValueRangeError(f"Adadelta: rho must lie in [0, 1], got {rho}")
        check_way("Adadelta", differentiable=differentiable)
        options = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, options)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return "square_avg", "acc_delta"

    def _begin(self, p: Array, group: Group) -> State:
        return {"step": counter(), "square_avg": zeros_like(p), "acc_delta": zeros_like(p)}

    def _scalars(self, group: Group, t: float, fresh: bool) -> Scalars:
        rho = number(group["rho"])
        return -number(group["lr"]), rho, 1 - rho, number(group["eps"])

    @staticmethod
    def _update(p: Array, g: Array, slots: Sequence[Array], c: tuple[Any, ...], scratch: Sequence[Array]) -> None:
        step, rho, new, eps = c
        a, d = scratch
        v, u = slots
        multiply(v, rho, out=v)
        add(v, multiply(multiply(g, new, out=a), g, out=a), out=v)
        sqrt(add(v, eps, out=a), out=a)
        sqrt(add(u, eps, out=d), out=d)
        multiply(divide(d, a, out=d), g, out=d)
        multiply(u, rho, out=u)
        add(u, multiply(multiply(d, new, out=a), d, out=a), out=u)
        add(p, multiply(d, step, out=d), out=p)
