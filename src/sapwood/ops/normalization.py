"""Normalisation within each example: layer, group and RMS norm, local response norm, and unit vectors.

The fused ops return, besides their result, the means and reciprocal standard deviations they used; backward
reads those instead of computing them again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..dtypes import float32
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from . import serving
from .declare import Fused, composite, op
from .pool import avg_pool2d, avg_pool3d


def centred(input: Any, axes: Any, n: int) -> tuple[Any, Any, Any]:
    """Return mean, deviation and sum of squared deviations over `axes`, which stay as size 1."""
    mean = np.add.reduce(input, axis=axes, keepdims=True) / n
    d = input - mean
    return mean, d, np.add.reduce(d * d, axis=axes, keepdims=True)


def through_norm(g: Any, x: Any, mean: Any, rstd: Any, dims: Any, n: int, g_mean: Any, g_rstd: Any) -> Any:
    """Return the gradient of x given those of (x - mean) · rstd, of the mean and of rstd, each None if unused."""
    unit = (x - mean) * rstd
    total = 0
    if g is not None:
        along = ops.sum(g * unit, dims, True)
        total = rstd * (g - ops.sum(g, dims, True) / n - unit * (along / n))
    if g_mean is not None:
        total = total + g_mean / n
    if g_rstd is not None:
        total = total - g_rstd * (rstd * rstd) * unit / n
    return total


# -- layer norm --------------------------------------------------------------------------------------------------------


def _layer_samples(rng: Any) -> list[tuple[Any, ...]]:
    x, w, b = rng.standard_normal((2, 3, 4)), rng.standard_normal(4), rng.standard_normal(4)
    return [(x, (4,), w, b, 1e-5), (x, (3, 4), None, None, 1e-5)]


@op
class native_layer_norm(Fused):
    """Normalise over the last dimensions; return the result, the mean and the reciprocal standard deviation."""

    inputs = ("input", "weight", "bias")
    optional = ("weight", "bias")
    outs = ("out", "mean", "rstd")
    promote = "given"
    method = False
    takes_none = True
    samples = _layer_samples

    def canon(input, normalized_shape, eps):
        if isinstance(normalized_shape, int):
            raise ArgumentError("layer_norm: normalized_shape must be a tuple of ints, got an int; write (size,)")
        shape = tuple(normalized_shape)
        if not shape or input.shape[-len(shape) :] != shape:
            raise ShapeError(
                f"layer_norm: normalized_shape {shape} must be the last sizes of the input, which is {input.shape}"
            )
        return shape, eps

    def forward(input, normalized_shape, weight, bias, eps):
        for name, p in (("weight", weight), ("bias", bias)):
            if p is not None and p.shape != normalized_shape:
                raise ShapeError(f"layer_norm: {name} must have normalized_shape {normalized_shape}, got {p.shape}")
        n = math.prod(normalized_shape)
        mean, x, squares = centred(input, tuple(range(input.ndim - len(normalized_shape), input.ndim)), n)
        rstd = 1 / np.sqrt(squares / n + eps)
        x *= rstd
        if weight is not None:
            x *= weight
        if bias is not None:
            x += bias
        return x, mean, rstd

    def formula(input, normalized_shape, weight, bias, eps):
        dims = tuple(range(-len(normalized_shape), 0))
        mean = ops.mean(input, dims, True)
        d = input - mean
        rstd = ops.rsqrt(ops.mean(d * d, dims, True) + eps)
        out = d * rstd
        out = out if weight is None else out * weight
        return out if bias is None else out + bias, mean, rstd

    def vjp(g, needs, input, weight, mean, rstd, normalized_shape):
        g_out, g_mean, g_rstd = g
        dims = tuple(range(-len(normalized_shape), 0))
        g_x = None
        if needs[0]:
            inner = g_out if weight is None or g_out is None else g_out * weight
            g_x = through_norm(inner, input, mean, rstd, dims, math.prod(normalized_shape), g_mean, g_rstd)
        rest = tuple(range(input.ndim - len(normalized_shape)))
        g_weight = None if g_out is None or not needs[1] else g_out * ((input - mean) * rstd)
        if rest and g_weight is not None:
            g_weight = ops.sum(g_weight, rest)
        if not needs[2] or g_out is None:
            return g_x, g_weight, None
        return g_x, g_weight, ops.tied(ops.sum(g_out, rest) if rest else g_out, input)


def _native_layer_back(kernel: Any, least: int) -> Any:
    """Return the gradients of layer_norm by native code, and by `kernel` what that does not know."""
    from ..kernels import layer_norm

    def vjp(g, needs, input, weight, normalized_shape, eps):
        if type(input) is type(g) is np.ndarray and input.size >= least:
            width = math.prod(normalized_shape)
            found = layer_norm.back(g, input, weight, width, eps, needs)
            if found is not None:
                g_x, *rest = found
                return g_x, *[r if r is None else r.reshape(normalized_shape) for r in rest]
        return kernel(g, needs, input, weight, normalized_shape, eps)

    return vjp


@op
class layer_norm_of(Fused):
    """Normalise over the last dimensions, then scale and shift.

    Backward computes mean and deviation again from the input instead of keeping them as further outputs.
    """

    inputs = ("input", "weight", "bias")
    optional = ("weight", "bias")
    promote = "given"
    function = method = False
    grad_fn = "NativeLayerNormBackward0"
    samples = _layer_samples
    canon = native_layer_norm.op.canon
    native_vjp = _native_layer_back
    onnx = "LayerNormalization"

    def forward(input, normalized_shape, weight, bias, eps):
        return native_layer_norm.op.forward(input, normalized_shape, weight, bias, eps)[0]

    def formula(input, normalized_shape, weight, bias, eps):
        return native_layer_norm.op.formula(input, normalized_shape, weight, bias, eps)[0]

    def vjp(g, needs, input, weight, normalized_shape, eps):
        dims = tuple(range(-len(normalized_shape), 0))
        rest = tuple(range(input.ndim - len(normalized_shape)))
        g_x = g_weight = g_bias = None
        if needs[0] or needs[1]:
            d = input - ops.mean(input, dims, True)
            rstd = ops.rsqrt(ops.mean(d * d, dims, True) + eps)
            unit = d * rstd
            if needs[0]:
                inner = g if weight is None else g * weight
                g_x = rstd * (inner - ops.mean(inner, dims, True) - unit * ops.mean(inner * unit, dims, True))
            g_weight = (ops.sum(g * unit, rest) if rest else g * unit) if needs[1] else None
        if needs[2]:
            g_bias = ops.tied(ops.sum(g, rest) if rest else g, input)
        return g_x, g_weight, g_bias


@composite
def layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    """Normalise each example over its last dimensions, then scale and shift.

        out = (input - mean) / sqrt(var + eps) · weight + bias

    Args:
        input: (*, *normalized_shape), float.
        normalized_shape: the sizes of the dimensions that are normalised together.
        weight, bias: normalized_shape.

    Raises:
        ShapeError: the input does not end in normalized_shape, or a parameter has another shape.

    Reference: Ba, Kiros and Hinton, arXiv:1607.06450.
    """
    return ops.layer_norm_of(input, normalized_shape, weight, bias, eps)


# -- group norm --------------------------------------------------------------------------------------------------------


def per_channel(p: Any, ndim: int) -> Any:
    """Return a (C,) parameter so that it broadcasts over dimension 1."""
    return ops.reshape(p, (-1,) + (1,) * (ndim - 2))


def _group_samples(rng: Any) -> list[tuple[Any, ...]]:
    x, w, b = rng.standard_normal((2, 4, 3)), rng.standard_normal(4), rng.standard_normal(4)
    return [(x, w, b, 2, 4, 3, 2, 1e-5), (x, None, None, 2, 4, 3, 4, 1e-5)]


def _grouped(input: Any, per_channel: Any, N: int, C: int, HxW: int, group: int) -> tuple[Any, Any]:
    """Return an input as (N, group, channels of a group, HxW), and a (C,) parameter so that it broadcasts over it."""
    per = None if per_channel is None else ops.reshape(per_channel, (1, group, C // group, 1))
    return None if input is None else ops.reshape(input, (N, group, C // group, HxW)), per


@serving.shared
def _by_group(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """Normalise each group of (N, group, channels, HxW)."""
    mean = ops.mean(x, (2, 3), True)
    d = x - mean
    rstd = ops.rsqrt(ops.mean(d * d, (2, 3), True) + eps)
    out = d * rstd
    out = out if weight is None else out * weight
    return out if bias is None else out + bias, mean, rstd


@serving.shared
def _through_group(x: Any, g: Any, weight: Any, mean: Any, rstd: Any, g_mean: Any, g_rstd: Any, n: int) -> Any:
    """Return the gradient of the input of `_by_group`."""
    inner = g if weight is None or g is None else g * weight
    return through_norm(inner, x, mean, rstd, (2, 3), n, g_mean, g_rstd)


@serving.shared
def _group_weight(x: Any, g: Any, mean: Any, rstd: Any) -> Any:
    """Return the gradient of the weight of `_by_group`, as (group, channels)."""
    return ops.sum(g * ((x - mean) * rstd), (0, 3))


@op
class native_group_norm(Fused):
    """Normalise over groups of channels; return the result, means and reciprocal standard deviations (N, group)."""

    inputs = ("input", "weight", "bias")
    optional = ("weight", "bias")
    outs = ("out", "mean", "rstd")
    promote = "given"
    method = False
    takes_none = True
    samples = _group_samples

    def forward(input, weight, bias, N, C, HxW, group, eps):
        return native_group_norm.op.formula(input, weight, bias, N, C, HxW, group, eps)

    def formula(input, weight, bias, N, C, HxW, group, eps):
        x, w = _grouped(input, weight, N, C, HxW, group)
        _, b = _grouped(None, bias, N, C, HxW, group)
        out, mean, rstd = _by_group(x, w, b, eps)
        return ops.reshape(out, input.shape), ops.reshape(mean, (N, group)), ops.reshape(rstd, (N, group))

    def vjp(g, needs, input, weight, mean, rstd, N, C, HxW, group):
        g_out, g_mean, g_rstd = g
        x, w = _grouped(input, weight, N, C, HxW, group)
        g4, _ = _grouped(g_out, None, N, C, HxW, group)
        mean, rstd, g_mean, g_rstd = (
            s if s is None else ops.reshape(s, (N, group, 1, 1)) for s in (mean, rstd, g_mean, g_rstd)
        )
        g_x = g_weight = g_bias = None
        if needs[0]:
            g_x = ops.reshape(_through_group(x, g4, w, mean, rstd, g_mean, g_rstd, (C // group) * HxW), input.shape)
        if g_out is not None:
            if needs[1]:
                g_weight = ops.reshape(_group_weight(x, g4, mean, rstd), (C,))
            if needs[2]:
                g_bias = ops.tied(ops.sum(g_out, (0, *range(2, input.ndim))), input)
        return g_x, g_weight, g_bias


@composite
def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enabled: bool = True
) -> Any:
    """Normalise each example over groups of its channels, then scale and shift each channel.

    Args:
        input: (N, C, *), float.
        num_groups: a divisor of C.
        weight, bias: (C,).

    Reference: Wu and He, arXiv:1803.08494.
    """
    shape = input.shape
    if len(shape) < 2 or num_groups <= 0 or shape[1] % num_groups:
        raise ShapeError(
            f"group_norm: num_groups {num_groups} must divide the number of channels of input {tuple(shape)}"
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and tuple(p.shape) != (shape[1],):
            raise ShapeError(f"group_norm: {name} must be ({shape[1]},), one number per channel, got {tuple(p.shape)}")
    rest = math.prod(shape[2:])
    return ops.native_group_norm(input, weight, bias, shape[0], shape[1], rest, num_groups, eps)[0]


def _machine_epsilon(dtype: Any) -> float:
    """Return the distance from 1 to the next number of a real or complex NumPy type; NumPy does not know bfloat16's."""
    return 2.0**-7 if dtype.kind == "V" or dtype.name == "bfloat16" else float(np.finfo(dtype).eps)


# -- compositions ------------------------------------------------------------------------------------------------------


@composite
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Divide by the root mean square over the last dimensions, then scale.

    out = input / sqrt(mean(input²) + eps) · weight;  eps: the dtype's machine epsilon unless given

    Reference: Zhang and Sennrich, arXiv:1910.07467.
    """
    if isinstance(normalized_shape, int):
        raise ArgumentError("rms_norm: normalized_shape must be a tuple of ints, got an int; write (size,)")
    shape = tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape) :]) != shape:
        raise ShapeError(
            f"rms_norm: normalized_shape {shape} must be the last sizes of the input, {tuple(input.shape)}"
        )
    if weight is not None and tuple(weight.shape) != shape:
        raise ShapeError(f"rms_norm: weight must have normalized_shape {shape}, got {tuple(weight.shape)}")
    eps = _machine_epsilon(input._array.dtype) if eps is None else eps
    if input._array.dtype.itemsize == 2:
        # Squares overflow in 16 bits.
        wide = rms_norm(input.to(float32), shape, weight, eps)
        return wide.to(input.dtype)
    squares = ops.mean(ops.pow(input, 2), tuple(range(-len(shape), 0)), True)
    out = input * ops.rsqrt(ops.add_number(squares, eps))
    return out if weight is None else out * weight


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Tensor:
    """Divide by the p-norm along `dim`, which is taken to be at least `eps`."""
    length = ops.clamp_min_number(ops.norm(input, p, dim, True), eps)
    return ops.div(input, ops.expand(length, tuple(input.shape)), out=out)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide each element by a power of the mean square of its neighbours across `size` channels.

        out = input / (k + alpha · mean(input² over the window))^beta

    Reference: Krizhevsky et al., ImageNet classification with deep convolutional neural networks, 2012.
    """
    if input.dim() < 3:
        raise ShapeError(f"local_response_norm: input must have at least 3 dimensions, got {input.dim()}")
    if not input.numel():
        return input
    # The window slides over channels as if they were an image's rows: batch, 1, channels, the other dimensions.
    pad = (0, 0, size // 2, (size - 1) // 2)
    squares = input * input
    if input.dim() == 3:
        mean = ops.squeeze(avg_pool2d(ops.constant_pad_nd(ops.unsqueeze(squares, 1), pad), (size, 1), 1), 1)
    else:
        n, c, first, *rest = input.shape
        layers = ops.reshape(squares, (n, 1, c, first, math.prod(rest)))
        mean = avg_pool3d(ops.constant_pad_nd(layers, (0, 0, *pad)), (size, 1, 1), 1)
        mean = ops.reshape(ops.squeeze(mean, 1), tuple(input.shape))
    return input / ops.pow(mean * alpha + k, beta)


__all__ = [
    "centred",
    "group_norm",
    "layer_norm",
    "layer_norm_of",
    "local_response_norm",
    "native_group_norm",
    "native_layer_norm",
    "normalize",
    "per_channel",
    "rms_norm",
    "through_norm",
]
