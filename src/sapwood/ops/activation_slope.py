"""Derivatives of activations that are straight in pieces.

They are ops of their own, as in PyTorch, so that a second derivative exists and is zero.
"""

from __future__ import annotations

import numpy as np

from .. import ops
from .declare import Fused, op, zero

_SIXTH = float(np.float32(1 / 6))
"""PyTorch holds the sixth in single precision for every type."""


class Slope(Fused):
    """The derivative of a function made of straight pieces, times `grad`; its own derivative by `input` is zero."""

    inputs = ("grad", "input")
    kind = "elementwise"
    promote = "given"
    function = method = False
    vjp_input = zero


@op
class threshold_backward(Slope):
    """Return `grad` where `input` exceeds `threshold`, zero elsewhere."""

    samples = lambda rng: [(*rng.standard_normal((2, 3, 4)), 0)]
    forward = lambda grad, input, threshold: np.where(input <= threshold, grad.dtype.type(0), grad)
    formula = lambda grad, input, threshold: ops.where(input <= threshold, 0, grad)
    vjp_grad = lambda g, input, threshold: ops.threshold_backward(g, input, threshold)


@op
class leaky_relu_backward(Slope):
    """Return `grad` where `input` is positive, `grad` times `slope` elsewhere."""

    samples = lambda rng: [(*rng.standard_normal((2, 3, 4)), 0.1)]
    forward = lambda grad, input, slope: np.where(input > 0, grad, grad * slope)
    formula = lambda grad, input, slope: ops.where(input > 0, grad, grad * slope)
    vjp_grad = lambda g, input, slope: ops.leaky_relu_backward(g, input, slope)


@op
class hardtanh_backward(Slope):
    """Return zero where `input` does not exceed `low` or reaches `high`, `grad` elsewhere."""

    samples = lambda rng: [(*rng.standard_normal((2, 3, 4)), -0.5, 1)]
    forward = lambda grad, input, low, high: np.where((input <= low) | (input >= high), grad.dtype.type(0), grad)
    formula = lambda grad, input, low, high: ops.where((input <= low) | (input >= high), 0, grad)
    vjp_grad = lambda g, input, low, high: ops.hardtanh_backward(g, input, low, high)


@op
class hardsigmoid_backward(Slope):
    """Return a sixth of `grad` where `input` lies between -3 and 3, zero elsewhere."""

    samples = lambda rng: [tuple(rng.standard_normal((2, 3, 4)) * 3)]
    forward = lambda grad, input: np.where((input > -3) & (input < 3), grad * _SIXTH, grad.dtype.type(0))
    formula = lambda grad, input: ops.where((input > -3) & (input < 3), grad * _SIXTH, 0)
    vjp_grad = lambda g, input: ops.hardsigmoid_backward(g, input)


@op
class shrink_backward(Slope):
    """Return zero where `input` lies within [-lambd, lambd], `grad` elsewhere."""

    samples = lambda rng: [(*rng.standard_normal((2, 3, 4)), 0.5)]
    forward = lambda grad, input, lambd: np.where((input >= -lambd) & (input <= lambd), grad.dtype.type(0), grad)
    formula = lambda grad, input, lambd: ops.where((input >= -lambd) & (input <= lambd), 0, grad)
    vjp_grad = lambda g, input, lambd: ops.shrink_backward(g, input, lambd)


@op
class choose_backward(Fused):
    """Return `grad` where `input` is positive, `grad` times `slope`, a tensor, elsewhere."""

    inputs = ("grad", "input", "slope")
    kind = "elementwise"
    promote = "given"
    function = method = False
    samples = lambda rng: [tuple(rng.standard_normal((3, 3, 4)))]
    forward = lambda grad, input, slope: np.where(input > 0, grad, grad * slope)
    formula = lambda grad, input, slope: ops.where(input > 0, grad, grad * slope)
    vjp_grad = lambda g, input, slope: ops.choose_backward(g, input, slope)
    vjp_input = zero
    vjp_slope = lambda g, grad, input: ops.where(input > 0, 0, g * grad)


__all__ = [
    "choose_backward",
    "hardsigmoid_backward",
    "hardtanh_backward",
    "leaky_relu_backward",
    "shrink_backward",
    "threshold_backward",
]
