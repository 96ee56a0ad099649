"""Adam and AdamW: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import add, divide, maximum, multiply, sqrt, subtract

from .elementwise import Array, Elementwise, State, counter, zeros_like
from .groups import Group
from .options import at_least_zero, check_betas, check_way, number
from .together import Scalars


class Adam(Elementwise):
    """Scale every element's step by the size of its recent gradients.

        g   = gradient + weight_decay · p                  (decoupled: p shrinks by 1 − lr · weight_decay instead)
        m   = m + (1 − β₁)(g − m)
        v   = β₂ · v + (1 − β₂) g²
        p  −= lr / (1 − β₁ᵗ) · m / (√(v / (1 − β₂ᵗ)) + eps)

    Args:
        params: see `Optimizer`.
        lr: learning rate, a number or a tensor of one element.
        betas: (β₁, β₂).
        eps: keeps the quotient finite.
        weight_decay: L2 penalty.
        amsgrad: use the largest v so far.
        maximize: step along the gradient.
        decoupled_weight_decay: shrink the parameter instead of adding to the gradient (AdamW).

    Raises:
        ValueRangeError: a negative lr, eps or weight_decay, or a beta outside [0, 1).

    Reference: Kingma and Ba, arXiv:1412.6980; Reddi, Kale and Kumar, ICLR 2018.
    """

    _scratch = 2

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        op = type(self).__name__
        at_least_zero(op, lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(op, betas)
        check_way(op, foreach=foreach, fused=fused, differentiable=differentiable)
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, options)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _begin(self, p: Array, group: Group) -> State:
        return {"step": counter(), **{slot: zeros_like(p) for slot in self._slots(group)}}

    def _decay(self, group: Group) -> tuple[float, float]:
        decay = number(group["weight_decay"])
        return (0.0, 1 - number(group["lr"]) * decay) if group["decoupled_weight_decay"] else (decay, 1.0)

    def _scalars(self, group: Group, t: float, fresh: bool) -> Scalars:
        beta1, beta2 = group["betas"]
        beta1, beta2 = number(beta1), number(beta2)
        step = -number(group["lr"]) / (1 - beta1**t)
        return step, 1 - beta1, beta2, 1 - beta2, (1 - beta2**t) ** 0.5, number(group["eps"])

    @staticmethod
    def _update(p: Array, g: Array, slots: Sequence[Array], c: tuple[Any, ...], scratch: Sequence[Array]) -> None:
        step, new1, beta2, new2, root, eps = c
        a, b = scratch
        m, v = slots[0], slots[1]
        add(m, multiply(subtract(g, m, out=a), new1, out=a), out=m)
        multiply(v, beta2, out=v)
        add(v, multiply(multiply(g, new2, out=a), g, out=a), out=v)
        if len(slots) == 3:
            v = maximum(slots[2], v, out=slots[2])
        add(divide(sqrt(v, out=a), root, out=a), eps, out=a)
        add(p, divide(multiply(m, step, out=b), a, out=b), out=p)


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters directly, apart from the gradient's scaling.

    An `Adam` with `decoupled_weight_decay=True` and `weight_decay=0.01`; see there.

    Reference: Loshchilov and Hutter, arXiv:1711.05101.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
