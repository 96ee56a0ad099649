"""RAdam: Adam that starts as plain momentum until its variance estimate can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import add, divide, multiply, sqrt, subtract

from .elementwise import Array, Elementwise, State, counter, zeros_like
from .groups import Group
from .options import at_least_zero, check_betas, check_way, number
from .together import Scalars


class RAdam(Elementwise):
    """Scale Adam's step by how reliable the average of squared gradients is.

        g   = gradient + weight_decay · p          (decoupled: p shrinks by 1 − lr · weight_decay instead)
        m   = m + (1 − β₁)(g − m),    v = β₂ · v + (1 − β₂) g²
        ρ∞  = 2 / (1 − β₂) − 1,       ρₜ = ρ∞ − 2 t β₂ᵗ / (1 − β₂ᵗ)
        r   = √( (ρₜ − 4)(ρₜ − 2) ρ∞ / ((ρ∞ − 4)(ρ∞ − 2) ρₜ) )
        p  −= lr · m / (1 − β₁ᵗ) · (r √(1 − β₂ᵗ) / (√v + eps) if ρₜ > 5 else 1)

    Args:
        params: see `Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        betas, eps, weight_decay: as in the formula.
        decoupled_weight_decay: shrink the parameter instead of adding to the gradient.
        maximize: step along the gradient.

    Raises:
        ValueRangeError: a negative lr, eps or weight_decay, or a beta outside [0, 1).

    Reference: Liu et al., arXiv:1908.03265.
    """

    _scratch = 2

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero("RAdam", lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas("RAdam", betas)
        check_way("RAdam", differentiable=differentiable)
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, options)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return "exp_avg", "exp_avg_sq"

    def _begin(self, p: Array, group: Group) -> State:
        return {"step": counter(), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _decay(self, group: Group) -> tuple[float, float]:
        decay = number(group["weight_decay"])
        return (0.0, 1 - number(group["lr"]) * decay) if group["decoupled_weight_decay"] else (decay, 1.0)

    def _scalars(self, group: Group, t: float, fresh: bool) -> Scalars:
        beta1, beta2 = map(number, group["betas"])
        correction2 = 1 - beta2**t
        limit = 2 / (1 - beta2) - 1
        rho = limit - 2 * t * beta2**t / correction2
        root = rect = None
        if rho > 5:
            rect = ((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)) ** 0.5
            root = correction2**0.5
        return number(group["lr"]), 1 - beta1**t, root, rect, 1 - beta1, beta2, 1 - beta2, number(group["eps"])

    @staticmethod
    def _update(p: Array, g: Array, slots: Sequence[Array], c: tuple[Any, ...], scratch: Sequence[Array]) -> None:
        lr, correction1, root, rect, new1, beta2, new2, eps = c
        a, b = scratch
        m, v = slots
        add(m, multiply(subtract(g, m, out=a), new1, out=a), out=m)
        multiply(v, beta2, out=v)
        add(v, multiply(multiply(g, new2, out=a), g, out=a), out=v)
        multiply(divide(m, correction1, out=b), lr, out=b)
        if root is not None:
            add(sqrt(v, out=a), eps, out=a)
            multiply(multiply(b, divide(root, a, out=a), out=b), rect, out=b)
        subtract(p, b, out=p)
