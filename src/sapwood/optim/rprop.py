"""Rprop: a step size per element that grows while the gradient keeps its sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import add, greater, less, maximum, minimum, multiply, positive, sign

from ..errors import ValueRangeError
from ..tensor import wrap
from .elementwise import Array, Elementwise, State, counter, zeros_like
from .groups import Group
from .options import at_least_zero, check_way, number
from .together import Scalars


class Rprop(Elementwise):
    """Move each element by its own step size, in the direction of the gradient's sign only.

    Where gradient and last gradient have the same sign the step size grows by etas[1]; where the sign changed it
    shrinks by etas[0] and the element rests for one step. For gradients of the full data set.

    Args:
        params: see `Optimizer`.
        lr: the first step size, a number or a tensor of one element.
        etas: (shrink, grow), shrink in (0, 1), grow above 1.
        step_sizes: (smallest, largest).
        maximize: step along the gradient.

    Raises:
        ValueRangeError: a negative lr, or etas outside their ranges.

    Reference: Riedmiller and Braun, ICNN 1993.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        at_least_zero("Rprop", lr=lr)
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueRangeError(f"Rprop: etas must be (shrink, grow) with 0 < shrink < 1 < grow, got {etas}")
        check_way("Rprop", differentiable=differentiable)
        options = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, options)

    def _slots(self, group: Group) -> tuple[str, ...]:
        return "prev", "step_size"

    def _begin(self, p: Array, group: Group) -> State:
        lr = number(group["lr"])
        start = complex(lr, lr) if p.dtype.kind == "c" else lr
        return {"step": counter(), "prev": zeros_like(p), "step_size": wrap(np.full_like(p, start))}

    def _decay(self, group: Group) -> tuple[float, float]:
        return 0.0, 1.0

    def _scalars(self, group: Group, t: float, fresh: bool) -> Scalars:
        return tuple(map(number, (*group["etas"], *group["step_sizes"])))

    @staticmethod
    def _update(p: Array, g: Array, slots: Sequence[Array], c: tuple[Any, ...], scratch: Sequence[Array]) -> None:
        shrink, grow, smallest, largest = c
        (a,) = scratch
        prev, size = slots
        multiply(g, prev, out=a)
        turned = less(a, 0)
        multiply(size, grow, out=size, where=greater(a, 0))
        multiply(size, shrink, out=size, where=turned)
        minimum(maximum(size, smallest, out=size), largest, out=size)
        positive(g, out=prev)
        positive(0.0, out=prev, where=turned)
        multiply(sign(prev, out=a), size, out=a)
        add(p, multiply(a, -1, out=a), out=p)
