"""Activations and softmax as `nn.functional` has them: with `inplace`, and `dim` that may be left out."""

from __future__ import annotations

import warnings
from typing import Any

from .. import ops
from ..errors import ValueRangeError
from ..ops.activation import gelu, hardshrink, logsigmoid, softplus, softshrink
from ..ops.activation_more import celu_, over, prelu, relu_, rrelu_, selu_, threshold_
from ..tensor import Tensor


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Replace negative elements by zero."""
    return over(ops.relu, input) if inplace else ops.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Clamp each element to [0, 6]."""
    return over(ops.hardtanh, input, 0.0, 6.0) if inplace else ops.hardtanh(input, 0.0, 6.0)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Clamp each element to [min_val, max_val].

    Raises:
        ValueRangeError: min_val exceeds max_val.
    """
    if min_val > max_val:
        raise ValueRangeError(f"hardtanh: min_val must not exceed max_val, got {min_val} and {max_val}")
    return over(ops.hardtanh, input, min_val, max_val) if inplace else ops.hardtanh(input, min_val, max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Clamp each element to [min_val, max_val], in place."""
    return over(ops.hardtanh, input, min_val, max_val)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Replace elements that do not exceed `threshold` by `value`."""
    return over(ops.threshold_over, input, threshold, value) if inplace else ops.threshold(input, threshold, value)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Scale negative elements by `negative_slope`."""
    return over(ops.leaky_relu_over, input, negative_slope) if inplace else ops.leaky_relu(input, negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Scale negative elements by `negative_slope`, in place."""
    return over(ops.leaky_relu_over, input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Replace negative elements by alpha · (exp(input) - 1)."""
    return over(ops.elu_over, input, alpha, 1, 1) if inplace else ops.elu(input, alpha)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Replace negative elements by alpha · (exp(input) - 1), in place."""
    return over(ops.elu_over, input, alpha, 1, 1)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Replace negative elements by alpha · (exp(input / alpha) - 1)."""
    return over(ops.celu_over, input, alpha) if inplace else ops.celu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply elu with the scales that keep mean 0 and variance 1 from layer to layer."""
    return selu_(input) if inplace else ops.selu(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Weight each element by its own sigmoid."""
    return over(ops.silu, input) if inplace else ops.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Weight each element by tanh(softplus(input))."""
    return over(ops.mish, input) if inplace else ops.mish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Approximate the sigmoid by straight lines."""
    return over(ops.hardsigmoid, input) if inplace else ops.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Weight each element by its hardsigmoid."""
    return over(ops.hardswish, input) if inplace else ops.hardswish(input)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Scale negative elements by random slopes in training, by the middle of [lower, upper] otherwise."""
    return (rrelu_ if inplace else ops.rrelu)(input, lower, upper, training)


def tanhshrink(input: Tensor) -> Tensor:
    """Subtract each element's hyperbolic tangent from it."""
    return input - ops.tanh(input)


def softsign(input: Tensor) -> Tensor:
    """Divide each element by one more than its absolute value."""
    return input / (ops.abs(input) + 1)


def sigmoid(input: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-input))."""
    return ops.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent of each element."""
    return ops.tanh(input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Gate the first half of `input` along `dim` by the sigmoid of the second half."""
    return ops.glu(input, dim)


# -- softmax -----------------------------------------------------------------------------------------------------------


def _implicit(name: str, ndim: int, dim: int | None, level: int) -> int:
    if dim is not None:
        return dim
    warnings.warn(
        f"{name}: dim was left out, and which one that means depends on the input's number of dimensions; pass dim",
        UserWarning,
        stacklevel=level,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Rescale the elements along `dim` to positive numbers that sum to one."""
    return ops.softmax(input, _implicit("softmax", input.dim(), dim, _stacklevel), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return the logarithm of softmax along `dim`, computed without overflow."""
    return ops.log_softmax(input, _implicit("log_softmax", input.dim(), dim, _stacklevel), dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return softmax of -input along `dim`."""
    return ops.softmax(-input, _implicit("softmin", input.dim(), dim, _stacklevel), dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Draw from a categorical distribution so that gradients reach its logits.

    Args:
        tau: temperature; small values give nearly one-hot samples.
        hard: return one-hot vectors, with the gradient of the soft ones.

    Reference: Jang et al., arXiv:1611.01144.
    """
    gumbels = -ops.log(ops.empty_like(logits).exponential_())
    soft = ops.softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    largest = ops.argmax(soft.detach(), dim, keepdim=True)
    one_hot = ops.zeros_like(soft.detach()).scatter_(dim, largest, 1.0)
    return one_hot - soft.detach() + soft


__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]
