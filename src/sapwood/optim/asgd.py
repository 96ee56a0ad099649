"""ASGD: stochastic gradient descent that also keeps the average of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import add, multiply, positive, subtract

from ..dtypes import get_default_dtype
from .elementwise import Array, Elementwise, State, advance, counter, zeros_like
from .groups import Group
from .options import at_least_zero, check_way, number
from .together import Scalars


class ASGD(Elementwise):
    """Step with a decaying rate and average the parameters from step t0 on, in state["ax"].

        g   = gradient + weight_decay · p
        p   = (1 − lambd · η) p − η · g
        a   = a + μ (p − a)
        η   = lr / (1 + lambd · lr · t)^alpha,    μ = 1 / max(1, t − t0)       (for the next step)

    Args:
        params: see `Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        lambd, alpha, t0, weight_decay: as in the formula.
        maximize: step along the gradient.

    Raises:
        ValueRangeError: a negative lr or weight_decay.

    Reference: Polyak and Juditsky, SIAM J. Control Optim. 30 (1992).
    """

    _counters = ("step", "eta", "mu")

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        at_least_zero("ASGD", lr=lr, weight_decay=weight_decay)
        check_way("ASGD", differentiable=differentiable)
        options = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, options)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("ax",)

    def _begin(self, p: Array, group: Group) -> State:
        eta, mu = counter(), counter()
        eta._array[...] = number(group["lr"])
        mu._array[...] = 1
        return {"step": counter(), "eta": eta, "mu": mu, "ax": zeros_like(p)}

    def _coefficients(self, group: Group, state: State, fresh: bool) -> Scalars:
        t, lr, lambd = advance(state), number(group["lr"]), number(group["lambd"])
        eta, mu = state["eta"]._array, state["mu"]._array
        c = -float(eta), None if mu == 1 else float(mu), 1 - lambd * float(eta)
        # Rounded to the default dtype first: after loading, eta and mu have the dtype of the parameter.
        default = get_default_dtype().numpy
        eta[...] = np.array(lr / (1 + lambd * lr * t) ** group["alpha"], default)
        mu[...] = np.array(1 / max(1, t - group["t0"]), default)
        return c

    @staticmethod
    def _update(p: Array, g: Array, slots: Sequence[Array], c: tuple[Any, ...], scratch: Sequence[Array]) -> None:
        step, mu, shrink = c
        (a,) = scratch
        (average,) = slots
        multiply(g, step, out=a)
        multiply(p, shrink, out=p)
        add(p, a, out=p)
        if mu is None:
            positive(p, out=average)
        else:
            add(average, multiply(subtract(p, average, out=a), mu, out=a), out=average)
