"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import add, multiply

from ..errors import ValueRangeError
from .elementwise import Array, Elementwise, State, zeros_like
from .groups import Group
from .options import at_least_zero, check_way, number
from .together import Scalars


class SGD(Elementwise):
    """Step against the gradient, with momentum if asked for.

        g   = gradient + weight_decay · p
        b   = momentum · b + (1 − dampening) · g        (the first b is g itself)
        p  −= lr · (b, or with nesterov g + momentum · b)

    Args:
        params: see `Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        momentum, dampening, weight_decay: as in the formula.
        nesterov: look ahead along the momentum; needs momentum and no dampening.
        maximize: step along the gradient.

    Raises:
        ValueRangeError: a negative lr, momentum or weight_decay; nesterov without momentum or with dampening.

    Reference: Sutskever, Martens, Dahl and Hinton, ICML 2013.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        at_least_zero("SGD", lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueRangeError(
                f"SGD: nesterov needs momentum > 0 and dampening 0, got momentum={momentum}, dampening={dampening}"
            )
        check_way("SGD", foreach=foreach, fused=fused, differentiable=differentiable)
        options = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, options)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def _begin(self, p: Array, group: Group) -> State:
        return {"momentum_buffer": zeros_like(p)}

    def _scalars(self, group: Group, t: float, fresh: bool) -> Scalars:
        share = 1.0 if fresh else 1 - number(group["dampening"])
        momentum = number(group["momentum"]) or None
        return -number(group["lr"]), momentum, None if share == 1 else share, True if group["nesterov"] else None

    @staticmethod
    def _update(p: Array, g: Array, slots: Sequence[Array], c: tuple[Any, ...], scratch: Sequence[Array]) -> None:
        step, momentum, share, nesterov = c
        (a,) = scratch
        if momentum is not None:
            (b,) = slots
            multiply(b, momentum, out=b)
            add(b, g if share is None else multiply(g, share, out=a), out=b)
            g = add(multiply(b, momentum, out=a), g, out=a) if nesterov else b
        add(p, multiply(g, step, out=a), out=p)
