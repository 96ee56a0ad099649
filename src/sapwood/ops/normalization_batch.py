"""Normalisation by the statistics of a batch, and the running averages that replace them in evaluation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..errors import ShapeError, ValueRangeError
from ..tensor import Tensor, wrap
from .declare import Fused, composite, op
from .inplace import in_place
from .normalization import per_channel


def _dims(ndim: int) -> tuple[int, ...]:
    """Return the dimensions that a channel's values lie along: all but the second."""
    return (0, *range(2, ndim))


@op
class channel_mean(Fused):
    """Return the mean of each channel, as a constant for the graph."""

    promote = "given"
    function = method = False
    samples = lambda rng: [(rng.standard_normal((4, 3, 2)),)]
    formula = lambda input: ops.mean(input, _dims(input.ndim))

    def forward(input):
        return np.add.reduce(input, axis=_dims(input.ndim)) / (input.size // max(input.shape[1], 1))


@op
class channel_variance(Fused):
    """Return the mean squared distance of each channel from `mean`, as a constant for the graph."""

    inputs = ("input", "mean")
    promote = "given"
    function = method = False
    samples = lambda rng: [(rng.standard_normal((4, 3, 2)), rng.standard_normal(3))]

    def forward(input, mean):
        d = input - mean.reshape((-1,) + (1,) * (input.ndim - 2))
        d *= d
        return np.add.reduce(d, axis=_dims(input.ndim)) / (input.size // max(input.shape[1], 1))

    def formula(input, mean):
        d = input - per_channel(mean, input.ndim)
        return ops.mean(d * d, _dims(input.ndim))


def _batch_samples(rng: Any) -> list[tuple[Any, ...]]:
    x, w, b = rng.standard_normal((4, 3, 2)), rng.standard_normal(3), rng.standard_normal(3)
    mean, var = rng.standard_normal(3), rng.uniform(0.5, 1.5, 3)
    return [
        (x, w, b, x.mean((0, 2)), x.var((0, 2)), True, 1e-5),
        (x, w, b, mean, var, False, 1e-5),
        (x[..., 0], None, None, x[..., 0].mean(0), x[..., 0].var(0), True, 0.1),
    ]


@op
class batch_norm_of(Fused):
    """Normalise each channel by `mean` and `var`, then scale and shift it.

    With `training` these are the batch's own, and gradients pass through them too.
    """

    inputs = ("input", "weight", "bias", "mean", "var")
    optional = ("weight", "bias")
    promote = "given"
    function = method = False
    grad_fn = "NativeBatchNormBackward0"
    samples = _batch_samples
    exempt = {
        "pullback": "with training the gradient is that of input and statistics together, which a sample holds fixed"
    }
    onnx = "BatchNormalization"

    def forward(input, weight, bias, mean, var, training, eps):
        per = (-1,) + (1,) * (input.ndim - 2)
        scale = 1 / np.sqrt(var + eps)
        if weight is not None:
            scale = scale * weight
        shift = -mean * scale if bias is None else bias - mean * scale
        out = input * scale.reshape(per)
        out += shift.reshape(per)
        return out if out.dtype == input.dtype else out.astype(input.dtype)

    def formula(input, weight, bias, mean, var, training, eps):
        scale = ops.rsqrt(var + eps)
        scale = scale if weight is None else scale * weight
        shift = -mean * scale if bias is None else bias - mean * scale
        return input * per_channel(scale, input.ndim) + per_channel(shift, input.ndim)

    def vjp(g, needs, input, weight, mean, var, training, eps):
        ndim, dims = input.ndim, _dims(input.ndim)
        d = input - per_channel(mean, ndim)
        if training and isinstance(input, Tensor):
            # A second derivative has to see that the statistics depend on the input.
            d = input - ops.mean(input, dims, True)
            var = ops.mean(d * d, dims)
        rstd = per_channel(ops.rsqrt(var + eps), ndim)
        unit = d * rstd
        total = ops.sum(g, dims, True)
        along = ops.sum(g * unit, dims, True) if (needs[0] and training) or needs[1] else None
        g_x = None
        if needs[0]:
            scale = rstd if weight is None else rstd * per_channel(weight, ndim)
            if training:
                n = math.prod(input.shape) // input.shape[1]
                g_x = scale * (g - total / n - unit * (along / n))
            else:
                g_x = ops.tied(g * scale, input)
        g_weight = ops.reshape(along, (-1,)) if needs[1] else None
        return g_x, g_weight, ops.tied(ops.reshape(total, (-1,)), input) if needs[2] else None, None, None


@op
class moving_average(Fused):
    """Move `input` towards `value` · `factor` by the fraction `momentum`: how running statistics are kept."""

    inputs = ("input", "value")
    promote = None
    function = method = False
    samples = lambda rng: [(rng.standard_normal(3), rng.standard_normal(3), 0.1, 2.0)]
    formula = lambda input, value, momentum, factor: (value * factor) * momentum + input * (1 - momentum)
    vjp_input = lambda g, momentum: g * (1 - momentum)
    vjp_value = lambda g, momentum, factor: g * (momentum * factor)


def _keep(running: Any, value: Any, momentum: float, factor: float = 1.0) -> None:
    if running is not None:
        in_place(moving_average.op, running, (value,), (momentum, factor), "batch_norm")


def _normalised(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, Any, Any]:
    """Return the normalised input, and the means and variances it was normalised by."""
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise ShapeError(f"batch_norm: input must be (N, C, *), got {shape}")
    given = (("weight", weight), ("bias", bias), ("running_mean", running_mean), ("running_var", running_var))
    for name, p in given:
        if p is not None and p.numel() != shape[1]:
            raise ShapeError(f"batch_norm: {name} must hold {shape[1]} numbers, one per channel, got {p.numel()}")
    if training:
        mean = channel_mean(input)
        var = channel_variance(input, mean)
        n = input.numel() // shape[1]
        _keep(running_mean, mean, momentum)
        _keep(running_var, var, momentum, n / (n - 1) if n > 1 else math.inf)
        if hasattr(type(input), "__sapwood_op__"):
            # Under transforms the statistics carry tangents too, so they are part of the computation.
            dims = _dims(len(shape))
            d = input - ops.mean(input, dims, True)
            out = d * ops.rsqrt(ops.mean(d * d, dims, True) + eps)
            out = out if weight is None else out * per_channel(weight, len(shape))
            return (out if bias is None else out + per_channel(bias, len(shape))), mean, var
    elif running_mean is None or running_var is None:
        raise ValueRangeError("batch_norm: evaluation needs running_mean and running_var; pass training=True")
    else:
        mean, var = running_mean, running_var
    return batch_norm_of(input, weight, bias, mean, var, bool(training), eps), mean, var


@composite
def native_batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Any, Any, Any]:
    """Normalise each channel; return the result, the batch's means and reciprocal standard deviations.

    In training the running statistics move towards the batch's by the fraction `momentum`.
    """
    out, mean, var = _normalised(input, weight, bias, running_mean, running_var, training, momentum, eps)
    if not training:
        none = wrap(np.empty(0, input._array.dtype))
        return out, none, none
    return out, mean, ops.rsqrt(var + eps)


@composite
def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """Normalise each channel over the batch, then scale and shift it.

    Reference: Ioffe and Szegedy, arXiv:1502.03167.
    """
    if not input.numel():
        # Nothing to normalise; the parameters still take part, and get gradients of zero.
        out = input.clone()
        out = out if weight is None else out * weight[0]
        return out if bias is None else out + bias[0]
    return _normalised(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@composite
def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """Normalise each channel of each example, then scale and shift it.

    Reference: Ulyanov et al., arXiv:1607.08022.
    """
    n, c, *rest = input.shape
    weight, bias, mean, var = (
        None if p is None else ops.repeat(p, (n,)) for p in (weight, bias, running_mean, running_var)
    )
    flat = ops.reshape(input, (1, n * c, *rest))
    out = batch_norm(flat, weight, bias, mean, var, use_input_stats, momentum, eps)
    if use_input_stats:
        for running, moved in ((running_mean, mean), (running_var, var)):
            if running is not None:
                _keep(running, channel_mean(ops.reshape(moved, (n, c))), 1.0)
    return ops.reshape(out, tuple(input.shape))


__all__ = [
    "batch_norm",
    "batch_norm_of",
    "channel_mean",
    "channel_variance",
    "instance_norm",
    "moving_average",
    "native_batch_norm",
]
