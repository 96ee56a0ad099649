"""Activation functions: elementwise non-linearities of neural networks, and the gates built from them.

Each op's kinks follow PyTorch: which side a boundary value and NaN fall on is decided by the comparison in the formula.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..errors import ShapeError, ValueRangeError
from ..tensor import check_dim
from .declare import Fused, Unary, op

_SQRT_HALF = math.sqrt(0.5)
_PDF = 1 / math.sqrt(2 * math.pi)
_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715
"""Hendrycks and Gimpel, arXiv:1606.08415: gelu(x) ~ x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""


def _points(rng: Any) -> list[tuple[Any, ...]]:
    return [(rng.standard_normal((3, 4)) * 3,), (np.array(0.7),), (rng.standard_normal((0, 2)),)]


class Activation(Unary):
    """An elementwise function of one floating-point tensor; public in nn.functional."""

    promote = "given"
    function = False
    method = False
    inplace = False
    samples = _points


@op
class relu(Activation):
    """Replace negative elements by zero.

    out = max(input, 0)
    """

    function = method = inplace = True
    dtypes = "if"
    forward = lambda input: np.maximum(input, 0)
    formula = lambda input: ops.where(input <= 0, 0, input)
    vjp_input = lambda g, out: ops.threshold_backward(g, out, 0)
    onnx = "Relu"


@op
class threshold(Activation):
    """Replace elements that do not exceed `threshold` by `value`."""

    function = True
    dtypes = "if"
    samples = lambda rng: [(rng.standard_normal((3, 4)), 0.1, 2.0)]
    forward = lambda input, threshold, value: np.where(input <= threshold, input.dtype.type(value), input)
    formula = lambda input, threshold, value: ops.where(input <= threshold, value, input)
    vjp_input = lambda g, input, threshold: ops.threshold_backward(g, input, threshold)


@op
class hardtanh(Activation):
    """Clamp each element to [min_val, max_val]; at the ends the gradient is zero."""

    dtypes = "if"
    forward = lambda input, min_val=-1.0, max_val=1.0: np.minimum(
        np.maximum(input, input.dtype.type(min_val)), input.dtype.type(max_val)
    )
    formula = lambda input, min_val=-1.0, max_val=1.0: ops.where(
        input < min_val, min_val, ops.where(input > max_val, max_val, input)
    )
    vjp_input = lambda g, input, min_val, max_val: ops.hardtanh_backward(g, input, min_val, max_val)
    onnx = "Clip"


@op
class leaky_relu(Activation):
    """Scale negative elements by `negative_slope`."""

    forward = lambda input, negative_slope=0.01: np.where(input > 0, input, input * negative_slope)
    formula = lambda input, negative_slope=0.01: ops.where(input > 0, input, input * negative_slope)
    vjp_input = lambda g, input, negative_slope: ops.leaky_relu_backward(g, input, negative_slope)
    onnx = "LeakyRelu"


@op
class elu(Activation):
    """Replace negative elements by an exponential that tends to -alpha.

        out = scale · (input if input > 0 else alpha · (exp(input · input_scale) - 1))

    Reference: Clevert et al., arXiv:1511.07289; with other scales selu, Klambauer et al., arXiv:1706.02515.
    """

    formula = lambda input, alpha=1.0, scale=1, input_scale=1: ops.where(
        input <= 0, ops.expm1(input * input_scale) * (alpha * scale), input * scale
    )
    vjp_input = lambda g, input, alpha, scale, input_scale: ops.where(
        input <= 0, g * (ops.exp(input * input_scale) * (input_scale * alpha * scale)), g * scale
    )
    onnx = "Elu"

    def forward(input, alpha=1.0, scale=1, input_scale=1):
        below = np.expm1(np.minimum(input, 0) * input_scale) * (alpha * scale)
        return np.where(input <= 0, below, input if scale == 1 else input * scale)


@op
class celu(Activation):
    """Replace negative elements by alpha · (exp(input / alpha) - 1), which joins smoothly for every alpha.

    Reference: Barron, arXiv:1704.07483.
    """

    function = True
    formula = lambda input, alpha=1.0: ops.where(input <= 0, ops.expm1(input * (1 / alpha)) * alpha, input)
    vjp_input = lambda g, input, alpha: ops.where(input <= 0, g * ops.exp(input * (1 / alpha)), g)
    onnx = "Celu"

    def canon(input, alpha):
        if alpha == 0:
            raise ValueRangeError("celu: alpha must not be 0")
        return (alpha,)


def _approximation(input: Any, approximate: str) -> tuple[str]:
    if approximate not in ("none", "tanh"):
        raise ValueRangeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return (approximate,)


@op
class gelu(Activation):
    """Weight each element by the normal distribution's probability of lying below it.

        out = input · Φ(input), or with approximate='tanh' a formula without erf

    Reference: Hendrycks and Gimpel, arXiv:1606.08415.
    """

    samples = lambda rng: [(rng.standard_normal((3, 4)),), (rng.standard_normal(5), {"approximate": "tanh"})]
    canon = _approximation
    onnx = "Gelu"

    def forward(input, *, approximate="none"):
        if approximate == "none":
            t = ops.erf(input * _SQRT_HALF)
        else:
            t = input * input
            t *= _TANH_CUBE
            t += 1
            t *= input
            t *= _TANH_SCALE
            t = np.tanh(t)
        t += 1
        t *= input
        t *= 0.5
        return t

    def formula(input, *, approximate="none"):
        if approximate == "none":
            return (ops.erf(input * _SQRT_HALF) + 1) * input * 0.5
        return (ops.tanh((input * input * _TANH_CUBE + 1) * input * _TANH_SCALE) + 1) * input * 0.5

    def vjp_input(g, input, approximate):
        square = input * input
        if approximate == "none":
            slope = (ops.erf(input * _SQRT_HALF) + 1) * 0.5 + input * ops.exp(square * -0.5) * _PDF
        else:
            t = ops.tanh((square * _TANH_CUBE + 1) * input * _TANH_SCALE)
            inner = (square * (3 * _TANH_CUBE) + 1) * _TANH_SCALE
            slope = (t + 1) * 0.5 + input * (1 - t * t) * inner * 0.5
        return g * slope


@op
class silu(Activation):
    """Weight each element by its own sigmoid.

    out = input · sigmoid(input)
    """

    dtypes = "fc"
    forward = lambda input: input / (1 + np.exp(-input))
    formula = lambda input: input / (ops.exp(-input) + 1)
    onnx = None

    def vjp_input(g, input):
        s = ops.sigmoid(input)
        return g * (s * (input * (1 - s) + 1))


@op
class mish(Activation):
    """Weight each element by tanh(softplus(input)).

    Reference: Misra, arXiv:1908.08681.
    """

    forward = lambda input: input * np.tanh(np.log1p(np.exp(input)))
    formula = lambda input: input * ops.tanh(ops.log1p(ops.exp(input)))
    onnx = "Mish"

    def vjp_input(g, input):
        t = ops.tanh(ops.log1p(ops.exp(input)))
        return g * (t + input * ops.sigmoid(input) * (1 - t * t))


@op
class logsigmoid(Activation):
    """Return the logarithm of the sigmoid, finite for every finite element.

    out = min(input, 0) - log(1 + exp(-|input|))
    """

    grad_fn = "LogSigmoidBackward0"
    forward = lambda input: np.minimum(input, 0) - np.log1p(np.exp(-np.abs(input)))
    formula = lambda input: ops.where(input > 0, 0, input) - ops.log1p(ops.exp(-ops.abs(input)))
    vjp_input = lambda g, input: g * ops.sigmoid(-input)


@op
class softplus(Activation):
    """Return a smooth form of relu; the identity where input · beta exceeds `threshold`.

    out = log(1 + exp(beta · input)) / beta
    """

    formula = lambda input, beta=1, threshold=20: ops.where(
        input * beta > threshold, input, ops.log1p(ops.exp(input * beta)) / beta
    )
    forward = lambda input, beta=1, threshold=20: np.where(
        input * beta > threshold, input, np.log1p(np.exp(input * beta)) / beta
    )
    vjp_input = lambda g, input, beta, threshold: ops.where(input * beta > threshold, g, g * ops.sigmoid(input * beta))
    onnx = "Softplus"


def _lambda(input: Any, lambd: float) -> tuple[float]:
    if not lambd >= 0:
        raise ValueRangeError(f"softshrink: lambd must be at least 0, got {lambd}")
    return (lambd,)


@op
class softshrink(Activation):
    """Move each element towards zero by `lambd`, stopping there."""

    canon = _lambda
    forward = lambda input, lambd=0.5: np.where(
        input > lambd, input - lambd, np.where(input < -lambd, input + lambd, input * 0)
    )
    formula = lambda input, lambd=0.5: ops.where(
        input > lambd, input - lambd, ops.where(input < -lambd, input + lambd, input * 0)
    )
    vjp_input = lambda g, input, lambd: ops.shrink_backward(g, input, lambd)


@op
class hardshrink(Activation):
    """Replace elements within [-lambd, lambd] by zero."""

    function = method = True
    forward = lambda input, lambd=0.5: np.where((input >= -lambd) & (input <= lambd), input.dtype.type(0), input)
    formula = lambda input, lambd=0.5: ops.where((input >= -lambd) & (input <= lambd), 0, input)
    vjp_input = lambda g, input, lambd: ops.shrink_backward(g, input, lambd)


@op
class hardsigmoid(Activation):
    """Approximate the sigmoid by straight lines.

    out = clamp(input + 3, 0, 6) / 6
    """

    forward = lambda input: np.minimum(np.maximum(input + 3, 0), 6) / 6
    formula = lambda input: ops.where(input <= -3, input * 0, ops.where(input >= 3, input * 0 + 1, (input + 3) / 6))
    vjp_input = lambda g, input: ops.hardsigmoid_backward(g, input)
    onnx = "HardSigmoid"


@op
class hardswish(Activation):
    """Weight each element by its hardsigmoid.

    Reference: Howard et al., arXiv:1905.02244.
    """

    forward = lambda input: input * np.minimum(np.maximum(input + 3, 0), 6) / 6
    formula = lambda input: input * ops.where(input <= -3, 0, ops.where(input >= 3, 6, input + 3)) / 6
    vjp_input = lambda g, input: ops.where(input <= -3, 0, ops.where(input >= 3, g, g * (input / 3 + 0.5)))
    onnx = "HardSwish"


@op
class rrelu_with_noise(Fused):
    """Scale elements that are not positive: by `noise` in training, else by the middle of [lower, upper]."""

    inputs = ("input", "noise")
    kind = "elementwise"
    promote = "given"
    function = method = False
    samples = lambda rng: [(rng.standard_normal((3, 4)), rng.uniform(0.1, 0.3, (3, 4)), 0.1, 0.3, False)]
    formula = lambda input, noise, lower, upper, training: ops.where(
        input > 0, input, input * (noise if training else (lower + upper) / 2)
    )
    vjp_input = lambda g, input, noise, lower, upper, training: (
        ops.choose_backward(g, input, noise) if training else ops.leaky_relu_backward(g, input, (lower + upper) / 2)
    )


@op
class prelu_kernel(Fused):
    """Scale negative elements by `weight`, which broadcasts."""

    inputs = ("input", "weight")
    kind = "elementwise"
    promote = "given"
    function = method = False
    samples = lambda rng: [(rng.standard_normal((3, 4)), rng.standard_normal((1, 4)))]
    forward = lambda input, weight: np.where(input > 0, input, weight * input)
    formula = lambda input, weight: ops.where(input > 0, input, weight * input)
    vjp_input = lambda g, input, weight: ops.choose_backward(g, input, weight)
    vjp_weight = lambda g, input: ops.where(input > 0, 0, g * input)


@op
class glu(Fused):
    """Gate the first half of `input` along `dim` by the sigmoid of the second half.

    Reference: Dauphin et al., arXiv:1612.08083.
    """

    promote = "given"
    function = method = False
    samples = lambda rng: [(rng.standard_normal((3, 4)),), (rng.standard_normal((2, 3, 2)), 0)]

    def canon(input, dim):
        if not input.ndim:
            raise ShapeError("glu: input has no dimension that could be halved")
        dim = check_dim("glu", dim, input.ndim)
        if input.shape[dim] % 2:
            raise ShapeError(f"glu: the size of dimension {dim} must be even, input is {input.shape}")
        return (dim,)

    def formula(input, dim=-1):
        n = input.shape[dim] // 2
        return ops.narrow(input, dim, 0, n) * ops.sigmoid(ops.narrow(input, dim, n, n))

    def vjp_input(g, input, dim):
        n = input.shape[dim] // 2
        s = ops.sigmoid(ops.narrow(input, dim, n, n))
        first = g * s
        return ops.cat((first, first * ops.narrow(input, dim, 0, n) * (1 - s)), dim)


__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu_kernel",
    "relu",
    "rrelu_with_noise",
    "silu",
    "softplus",
    "softshrink",
    "threshold",
]
