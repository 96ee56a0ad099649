"""Muon: momentum made orthogonal before it is applied, for the matrices of hidden layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..alias import stamp
from ..autograd.mode import enable_grad
from ..errors import DtypeError, ValueRangeError
from .elementwise import Array, zeros_like
from .groups import Group
from .optimizer import Optimizer
from .options import at_least_zero, number


class Muon(Optimizer):
    """Replace the momentum of a matrix by the nearest semi-orthogonal matrix and step along it.

        b   = b + (1 − momentum)(g − b),     u = g + momentum (b − g) with nesterov, else b
        o   = orthogonalized u: ns_steps times X ← a X + (b X Xᵀ + c (X Xᵀ)²) X, from u / ‖u‖, in bfloat16
        p   = p (1 − lr · weight_decay) − lr · s · o

    Args:
        params: see `Optimizer`; matrices only.
        lr: learning rate, a number or a tensor of one element.
        weight_decay: decoupled decay.
        momentum, nesterov: as in the formula.
        ns_coefficients: (a, b, c) of the iteration.
        eps: smallest norm to divide by.
        ns_steps: number of iterations, below 100.
        adjust_lr_fn: the factor s for a matrix of A rows and B columns: None or "original" for √max(1, A/B),
            "match_rms_adamw" for 0.2 √max(A, B).

    Raises:
        ValueRangeError: an option outside its range, or a parameter that is not a matrix.
        DtypeError: a complex parameter, at the step.

    Reference: Jordan et al., *Muon: an optimizer for hidden layers in neural networks*, 2024; Liu et al.,
    arXiv:2502.16982.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        at_least_zero("Muon", lr=lr, momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueRangeError(
                f"Muon: adjust_lr_fn must be None, 'original' or 'match_rms_adamw', got {adjust_lr_fn!r}"
            )
        options = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, options)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueRangeError(
                        f"Muon: parameters must be matrices, got one of shape {tuple(p.shape)}; give biases and "
                        "embeddings to another optimizer, such as AdamW"
                    )

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
                        raise DtypeError("Muon: parameters must be real, got a complex one")
                    state = self.state[p]
                    if "momentum_buffer" not in state:
                        state["momentum_buffer"] = zeros_like(p._grad._array)
                    _change(p._array, p._grad._array, state["momentum_buffer"]._array, group)
                    stamp(p, "Muon")
        return loss


def _change(p: Array, g: Array, buffer: Array, group: Group) -> None:
    if p.dtype.itemsize == 2:  # compute in float32 and round once
        wide: tuple[Array, Array] = p.astype(np.float32), buffer.astype(np.float32)
        _change(wide[0], g.astype(np.float32), wide[1], group)
        p[...], buffer[...] = wide
        return
    lr, momentum = number(group["lr"]), group["momentum"]
    buffer += (g - buffer) * (1 - momentum)
    # Written from the nearer end, as a linear interpolation is where its weight is above one half.
    update = buffer - (buffer - g) * (1 - momentum) if group["nesterov"] else buffer
    update = orthogonalized(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
    rows, columns = p.shape
    if group["adjust_lr_fn"] == "match_rms_adamw":
        scale = 0.2 * math.sqrt(max(rows, columns))
    else:
        scale = math.sqrt(max(1, rows / columns))
    np.multiply(p, 1 - lr * group["weight_decay"], out=p)
    np.subtract(p, update * (lr * scale), out=p, casting="same_kind")


def orthogonalized(x: Array, coefficients: tuple[float, float, float], steps: int, eps: float) -> Array:
    """Return a matrix with the singular vectors of `x` and singular values near 1, by Newton and Schulz's iteration.

    The values between products are rounded to bfloat16, as PyTorch computes them; the result is float32.

    Raises:
        ValueRangeError: steps is 100 or more, or there are not three coefficients.
    """
    import ml_dtypes

    if steps >= 100:
        raise ValueRangeError(f"Muon: ns_steps must be below 100, got {steps}")
    if len(coefficients) != 3:
        raise ValueRangeError(f"Muon: ns_coefficients must be three numbers, got {len(coefficients)}")
    a, b, c = coefficients

    def rounded(y: Array) -> Array:
        return y.astype(ml_dtypes.bfloat16).astype(np.float32)

    y = rounded(x)
    tall = y.shape[0] > y.shape[1]
    if tall:
        y = y.T
    norm = float(rounded(np.array(max(float(np.sqrt(np.add.reduce(y * y, axis=None))), eps))))
    y = rounded(y / np.float32(norm))
    for _ in range(steps):
        gram = rounded(y @ y.T)
        gram = rounded(b * gram + c * (gram @ gram))
        y = rounded(a * y + gram @ y)
    return y.T if tall else y
