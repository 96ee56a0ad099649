"""Normalisation by the statistics of a batch, and the running averages that replace them in evaluation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..errors import ShapeError, ValueRangeError
from ..tensor import wrap
from .declare import Fused, composite, op
from .inplace import in_place
from .norm import centred, per_channel, through_norm


def _batch_samples(rng: Any) -> list[tuple[Any, ...]]:
    x, w, b = rng.standard_normal((4, 3, 2)), rng.standard_normal(3), rng.standard_normal(3)
    mean, var = rng.standard_normal(3), rng.uniform(0.5, 1.5, 3)
    return [
        (x, w, b, None, None, True, 1e-5),
        (x, w, b, mean, var, False, 1e-5),
        (x[..., 0], None, None, None, None, True, 0.1),
    ]


@op
class batch_norm_of(Fused):
    """Normalise each channel, by the batch's statistics in training, else by the running ones.

    Return the result, and in training mean, reciprocal standard deviation and unbiased variance per channel.
    """

    inputs = ("input", "weight", "bias", "running_mean", "running_var")
    optional = ("weight", "bias", "running_mean", "running_var")
    outs = ("out", "mean", "invstd", "var")
    promote = "given"
    function = method = False
    takes_none = True
    grad_fn = "NativeBatchNormBackward0"
    samples = _batch_samples

    def forward(input, weight, bias, running_mean, running_var, training, eps):  # type: ignore[no-untyped-def]
        per = (-1,) + (1,) * (input.ndim - 2)
        if training:
            n = input.size // max(input.shape[1], 1)
            mean, _, squares = centred(input, (0, *range(2, input.ndim)), n)
            mean, squares = mean.reshape(-1), squares.reshape(-1)
            var = squares / (n - 1) if n > 1 else squares / 0.0
            invstd = 1 / np.sqrt(squares / n + eps)
        else:
            mean, invstd = running_mean, 1 / np.sqrt(running_var + eps)
        scale = invstd if weight is None else invstd * weight
        shift = -mean * scale if bias is None else bias - mean * scale
        out = input * scale.reshape(per)
        out += shift.reshape(per)
        if out.dtype != input.dtype:
            out = out.astype(input.dtype)
        none = np.empty(0, mean.dtype)
        return (out, mean, invstd, var) if training else (out, none, none, none)

    def formula(input, weight, bias, running_mean, running_var, training, eps):  # type: ignore[no-untyped-def]
        dims, ndim = (0, *range(2, input.ndim)), input.ndim
        n = math.prod(input.shape) // max(input.shape[1], 1)
        mean, var = running_mean, running_var
        if training:
            mean = ops.mean(input, dims)
            d = input - per_channel(mean, ndim)
            var = ops.mean(d * d, dims)
        invstd = ops.rsqrt(var + eps)
        scale = invstd if weight is None else invstd * weight
        shift = -mean * scale if bias is None else bias - mean * scale
        out = input * per_channel(scale, ndim) + per_channel(shift, ndim)
        none = ops.narrow(mean, 0, 0, 0)
        return (out, mean, invstd, var * (n / (n - 1))) if training else (out, none, none, none)

    def vjp(g, needs, input, weight, running_mean, running_var, mean, invstd, training, eps):  # type: ignore[no-untyped-def]
        g, g_mean, g_invstd, _ = g
        ndim, dims = input.ndim, (0, *range(2, input.ndim))
        if not training:
            mean, invstd = running_mean, ops.rsqrt(running_var + eps)
        mean, invstd = per_channel(mean, ndim), per_channel(invstd, ndim)
        g_x = g_weight = None
        if needs[0]:
            inner = g if weight is None or g is None else g * per_channel(weight, ndim)
            if training:
                n = math.prod(input.shape) // input.shape[1]
                g_mean, g_invstd = (s if s is None else per_channel(s, ndim) for s in (g_mean, g_invstd))
                g_x = through_norm(inner, input, mean, invstd, dims, n, g_mean, g_invstd)
            else:
                g_x = ops.tied(inner * invstd, input)
        if needs[1] and g is not None:
            g_weight = ops.sum(g * ((input - mean) * invstd), dims)
        g_bias = ops.tied(ops.sum(g, dims), input) if needs[2] and g is not None else None
        return g_x, g_weight, g_bias, None, None


@op
class moving_average(Fused):
    """Move `input` towards `value` by the fraction `momentum`: how running statistics are kept."""

    inputs = ("input", "value")
    promote = None
    function = method = False
    samples = lambda rng: [(rng.standard_normal(3), rng.standard_normal(3), 0.1)]
    formula = lambda input, value, momentum: momentum * value + (1 - momentum) * input
    vjp_input = lambda g, momentum: g * (1 - momentum)
    vjp_value = lambda g, momentum: g * momentum


def _keep(running: Any, value: Any, momentum: float) -> None:
    if running is not None:
        in_place(moving_average.op, running, (value.detach(),), (momentum,), "batch_norm")  # type: ignore[attr-defined]


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
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise ShapeError(f"batch_norm: input must be (N, C, *), got {shape}")
    given = (("weight", weight), ("bias", bias), ("running_mean", running_mean), ("running_var", running_var))
    for name, p in given:
        if p is not None and p.numel() != shape[1]:
            raise ShapeError(f"batch_norm: {name} must hold {shape[1]} numbers, one per channel, got {p.numel()}")
    if not training:
        if running_mean is None or running_var is None:
            raise ValueRangeError("batch_norm: evaluation needs running_mean and running_var; pass training=True")
        return tuple(ops.batch_norm_of(input, weight, bias, running_mean, running_var, False, eps)[:3])
    out, mean, invstd, var = ops.batch_norm_of(input, weight, bias, None, None, True, eps)
    _keep(running_mean, mean, momentum)
    _keep(running_var, var, momentum)
    return out, mean, invstd


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
    return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


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
                _keep(running, wrap(moved._array.reshape(n, c).mean(0, dtype=moved._array.dtype)), 1.0)
    return ops.reshape(out, tuple(input.shape))


__all__ = ["batch_norm", "batch_norm_of", "instance_norm", "moving_average", "native_batch_norm"]
