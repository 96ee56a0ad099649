"""Activations that are compositions of ops, and the in-place forms that are functions of the package."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError, ValueRangeError
from ..random import default_generator
from ..tensor import wrap
from . import slow
from .declare import composite
from .inplace import in_place

SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805
"""The fixed point of Klambauer et al., arXiv:1706.02515: activations keep mean 0 and variance 1."""


def over(function: Any, input: Any, *attrs: Any) -> Any:
    """Write an op's result over `input`; attributes in the order of the declaration."""
    name = function.op.name.removesuffix("_over") + "_"
    return in_place(function.op, input, (), attrs, name)


@composite(name="relu_")
def relu_(input: Any) -> Any:
    """Replace negative elements by zero, in place."""
    return over(ops.relu, input)


@composite(name="threshold_")
def threshold_(input: Any, threshold: float, value: float) -> Any:
    """Replace elements that do not exceed `threshold` by `value`, in place."""
    return over(ops.threshold_over, input, threshold, value)


@composite
def selu(input: Any) -> Any:
    """Apply elu with the scales that keep mean 0 and variance 1 from layer to layer.

    Reference: Klambauer et al., arXiv:1706.02515.
    """
    return ops.elu(input, SELU_ALPHA, SELU_SCALE, 1)


@composite(name="selu_")
def selu_(input: Any) -> Any:
    """Apply selu in place."""
    return over(ops.elu_over, input, SELU_ALPHA, SELU_SCALE, 1)


@composite(name="celu_")
def celu_(input: Any, alpha: float = 1.0) -> Any:
    """Apply celu in place."""
    return over(ops.celu_over, input, alpha)


@composite(method=True)
def prelu(input: Any, weight: Any) -> Any:
    """Scale negative elements by a learned `weight`: one number, or one per channel (dimension 1).

    Reference: He et al., arXiv:1502.01852.
    """
    if input.dtype is not weight.dtype:
        raise DtypeError(f"prelu: weight must have the input's type {input.dtype.name}, got {weight.dtype.name}")
    count, ndim = weight.numel(), input.dim()
    if weight.dim() > 1:
        raise ShapeError(f"prelu: weight must have at most one dimension, got shape {tuple(weight.shape)}")
    if count == 1:
        return ops.prelu_kernel(input, ops.reshape(weight, (1,) * ndim))
    channels = input.shape[1] if ndim > 1 else 1
    if count != channels:
        raise ShapeError(f"prelu: weight must hold one number, or {channels}, one per channel, got {count}")
    return ops.prelu_kernel(input, ops.reshape(weight, (1, channels) + (1,) * (ndim - 2)))


def _noise(input: Any, lower: float, upper: float, training: bool, generator: Any) -> Any:
    """Return a slope for each element that is not positive, drawn in training, and 1 for the others."""
    if lower > upper:
        raise ValueRangeError(f"rrelu: lower must not exceed upper, got {lower} and {upper}")
    if training and slow.watched(input):
        from .drawing import drawn

        return drawn("rrelu_noise", (input,), lower, upper, generator)
    noise = np.ones_like(input._array) if training else np.zeros_like(input._array)
    if training:
        below = input._array <= 0
        draws = (generator or default_generator).uniform53(int(np.count_nonzero(below)))
        noise[below] = draws * (upper - lower) + lower
    return wrap(noise)


@composite
def rrelu(input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None) -> Any:
    """Scale negative elements by slopes drawn from [lower, upper] in training, by its middle otherwise.

    Reference: Xu et al., arXiv:1505.00853.
    """
    return ops.rrelu_with_noise(input, _noise(input, lower, upper, training, generator), lower, upper, training)


@composite(name="rrelu_")
def rrelu_(
    input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Any:
    """Apply rrelu in place."""
    noise = _noise(input, lower, upper, training, generator)
    declared = ops.rrelu_over.op
    return in_place(declared, input, (noise,), (lower, upper, training), "rrelu_")


__all__ = ["celu_", "over", "prelu", "relu_", "rrelu", "rrelu_", "selu", "selu_", "threshold_"]
