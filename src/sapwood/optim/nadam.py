"""NAdam: Adam with Nesterov's look ahead along the momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import add, divide, multiply, sqrt, subtract

from .elementwise import Array, Elementwise, State, advance, counter, zeros_like
from .groups import Group
from .options import at_least_zero, check_betas, check_way, number
from .together import Scalars


class NAdam(Elementwise):
    """Combine the gradient with the momentum of the next step, both scaled as in Adam.

        g   = gradient + weight_decay · p          (decoupled: p shrinks by 1 − lr · weight_decay instead)
        μₜ  = β₁ (1 − 0.96^(t · momentum_decay) / 2),   Πₜ = μ₁ μ₂ … μₜ
        m   = m + (1 − β₁)(g − m),    v = β₂ · v + (1 − β₂) g²
        d   = √(v / (1 − β₂ᵗ)) + eps
        p  −= lr (1 − μₜ) / (1 − Πₜ) · g / d + lr · μₜ₊₁ / (1 − Πₜ₊₁) · m / d

    Args:
        params: see `Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        betas, eps, weight_decay, momentum_decay: as in the formula.
        decoupled_weight_decay: shrink the parameter instead of adding to the gradient.
        maximize: step along the gradient.

    Raises:
        ValueRangeError: a negative option, or a beta outside [0, 1).

    Reference: Dozat, *Incorporating Nesterov Momentum into Adam*, 2016.
    """

    _scratch = 2
    _counters = ("step", "mu_product")

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero("NAdam", lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        check_betas("NAdam", betas)
        check_way("NAdam", differentiable=differentiable)
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, options)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return "exp_avg", "exp_avg_sq"

    def _begin(self, p: Array, group: Group) -> State:
        product = counter()
        product._array[...] = 1
        return {"step": counter(), "mu_product": product, "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _decay(self, group: Group) -> tuple[float, float]:
        decay = number(group["weight_decay"])
        return (0.0, 1 - number(group["lr"]) * decay) if group["decoupled_weight_decay"] else (decay, 1.0)

    def _coefficients(self, group: Group, state: State, fresh: bool) -> Scalars:
        t = advance(state)
        beta1, beta2 = map(number, group["betas"])
        lr, decay = number(group["lr"]), number(group["momentum_decay"])
        mu = beta1 * (1 - 0.5 * 0.96 ** (t * decay))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((t + 1) * decay))
        product = state["mu_product"]._array
        np.multiply(product, mu, out=product)
        now = float(product)
        by_gradient, by_momentum = -lr * (1 - mu) / (1 - now), -lr * mu_next / (1 - now * mu_next)
        return by_gradient, by_momentum, 1 - beta1, beta2, 1 - beta2, 1 - beta2**t, number(group["eps"])

    @staticmethod
    def _update(p: Array, g: Array, slots: Sequence[Array], c: tuple[Any, ...], scratch: Sequence[Array]) -> None:
        by_gradient, by_momentum, new1, beta2, new2, correction, eps = c
        a, b = scratch
        m, v = slots
        add(m, multiply(subtract(g, m, out=a), new1, out=a), out=m)
        multiply(v, beta2, out=v)
        add(v, multiply(multiply(g, new2, out=a), g, out=a), out=v)
        add(sqrt(divide(v, correction, out=a), out=a), eps, out=a)
        add(p, divide(multiply(g, by_gradient, out=b), a, out=b), out=p)
        add(p, divide(multiply(m, by_momentum, out=b), a, out=b), out=p)
