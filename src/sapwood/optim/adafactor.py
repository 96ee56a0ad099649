"""Adafactor: second moments of a matrix kept as one row and one column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..alias import stamp
from ..autograd.mode import enable_grad
from ..errors import DtypeError, ValueRangeError
from ..random.draws import finfo
from ..tensor import wrap
from .elementwise import Array, State, advance, counter
from .groups import Group
from .optimizer import Optimizer
from .options import at_least_zero, number


class Adafactor(Optimizer):
    """Scale steps by second moments whose memory is sublinear in the size of a matrix.

        β   = t^beta2_decay,    ρ = min(lr, 1/√t),    α = max(eps[1], rms(p)) · ρ
        p   = p (1 − lr · weight_decay)
        matrices:  r += β (mean over columns of g² − r),  c += β (mean over rows of g² − c)
                   V  = r c / max(mean r, eps[0])
        vectors:   V += β (g² − V)
        u   = g / max(√V, eps[0])
        p  −= α · u / max(1, rms(u) / d)

    Args:
        params: see `Optimizer`; parameters of several dimensions are stacks of matrices.
        lr: largest relative step, a number or a tensor of one element.
        beta2_decay: exponent of the averaging weight, at most 0.
        eps: (smallest second moment, None for the resolution of the dtype; smallest size of a parameter).
        d: steps are clipped to this root mean square, at least 1.
        weight_decay: decoupled decay.
        maximize: step along the gradient.

    Raises:
        ValueRangeError: an option outside its range.
        DtypeError: a complex parameter, at the step.

    Reference: Shazeer and Stern, arXiv:1804.04235.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        at_least_zero("Adafactor", lr=lr, weight_decay=weight_decay, epsilon2=eps[1])
        if eps[0] is not None:
            at_least_zero("Adafactor", epsilon1=eps[0])
        if not beta2_decay <= 0:
            raise ValueRangeError(f"Adafactor: beta2_decay must be at most 0, got {beta2_decay}")
        if not d >= 1:
            raise ValueRangeError(f"Adafactor: the clipping threshold d must be at least 1, got {d}")
        options = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, options)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient; see `Optimizer.step`."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with np.errstate(all="ignore"):
            for group in self.param_groups:
                for p in group["params"]:
                    if p._grad is None:
                        continue
                    if p._array.dtype.kind == "c":
                        raise DtypeError("Adafactor: parameters must be real, got a complex one")
                    state = self.state[p]
                    if not state:
                        state.update(_begin(p._grad._array))
                    _change(p._array, p._grad._array, state, group)
                    stamp(p, "Adafactor")
        return loss


def _begin(g: Array) -> State:
    state: State = {"step": counter()}
    if g.ndim > 1:
        state["row_var"] = wrap(np.zeros((*g.shape[:-1], 1), g.dtype))
        state["col_var"] = wrap(np.zeros((*g.shape[:-2], 1, g.shape[-1]), g.dtype))
    else:
        state["variance"] = wrap(np.zeros_like(g))
    return state


def _mean_square(a: Array, dim: int) -> Array:
    return np.add.reduce(a * a, axis=dim, keepdims=True) / a.shape[dim]


def _rms(a: Array) -> float:
    flat = a.reshape(-1)
    return float(np.sqrt(np.add.reduce(flat * flat))) / max(a.size, 1) ** 0.5


def _change(p: Array, g: Array, state: State, group: Group) -> None:
    eps1, eps2 = group["eps"]
    if eps1 is None:
        eps1 = 2.0 ** (1 - finfo(p.dtype)[1])
    if p.dtype.itemsize == 2:  # compute in float32 and round once
        wide: Array = p.astype(np.float32)
        kept = {k: wrap(v._array.astype(np.float32)) for k, v in state.items()}
        _change(wide, g.astype(np.float32), kept, {**group, "eps": (eps1, eps2)})
        p[...] = wide
        for key, value in kept.items():
            state[key]._array[...] = value._array
        return
    if group["maximize"]:
        g = -g
    lr, t = number(group["lr"]), advance(state)
    new = t ** group["beta2_decay"]
    alpha = max(eps2, _rms(p)) * min(lr, 1 / t**0.5)
    if group["weight_decay"] != 0:
        np.multiply(p, 1 - lr * group["weight_decay"], out=p)
    if g.ndim > 1:
        row, col = state["row_var"]._array, state["col_var"]._array
        row += (_mean_square(g, -1) - row) * new
        col += (_mean_square(g, -2) - col) * new
        v = row * col
        v /= np.maximum(np.add.reduce(row, axis=-2, keepdims=True) / row.shape[-2], eps1)
    else:
        kept = state["variance"]._array
        kept += (g * g - kept) * new
        v = kept.copy()
    np.maximum(v, eps1 * eps1, out=v)
    update = np.divide(g, np.sqrt(v, out=v), out=np.empty_like(v))
    np.multiply(update, -alpha / max(1.0, _rms(update) / group["d"]), out=update)
    np.add(p, update, out=p)
