"""Normalisation, dropout and resampling as `nn.functional` has them."""

from __future__ import annotations

import math
import warnings
from typing import Any

from .. import ops
from ..errors import ShapeError, ValueRangeError
from ..ops.attention import scaled_dot_product_attention
from ..ops.normalization import local_response_norm, normalize
from ..ops.pad import pad
from ..ops.upsample import interpolate
from ..ops.vision import affine_grid, channel_shuffle, grid_sample, pixel_shuffle, pixel_unshuffle
from ..tensor import Tensor


def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each example over its last dimensions, then scale and shift."""
    return ops.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise each example over groups of its channels, then scale and shift each channel."""
    if input.dim() < 2:
        raise ShapeError(f"group_norm: input must be (N, C, *), got {tuple(input.shape)}")
    _more_than_one("group_norm", (input.shape[0] * input.shape[1] // max(num_groups, 1), num_groups, *input.shape[2:]))
    return ops.group_norm(input, num_groups, weight, bias, eps)


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Divide by the root mean square over the last dimensions, then scale."""
    return ops.rms_norm(input, normalized_shape, weight, eps)


def _more_than_one(name: str, shape: Any) -> None:
    if shape[0] * math.prod(shape[2:]) == 1:
        raise ValueRangeError(
            f"{name}: one value per channel has no variance to normalise by; train with a larger batch than shape "
            f"{tuple(shape)}, or evaluate with running statistics"
        )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel over the batch, or by the running statistics; then scale and shift it.

    In training the running statistics move towards the batch's by the fraction `momentum`.
    """
    if training:
        _more_than_one("batch_norm", input.shape)
    return ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each example, then scale and shift it."""
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueRangeError(
            f"instance_norm: one value per channel has no variance to normalise by, input is {tuple(input.shape)}"
        )
    return ops.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)


# -- dropout -----------------------------------------------------------------------------------------------------------


def _probability(name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueRangeError(f"{name}: p is a probability and must lie in [0, 1], got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to zero with probability p and scale the others by 1 / (1 - p); only in training."""
    return (ops.dropout_ if inplace else ops.dropout)(input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Drop elements to selu's floor, keeping mean and variance; only in training."""
    return (ops.alpha_dropout_ if inplace else ops.alpha_dropout)(input, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Drop whole channels to selu's floor, keeping mean and variance; only in training."""
    return (ops.feature_alpha_dropout_ if inplace else ops.feature_alpha_dropout)(input, p, training)


def _features(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    return (ops.feature_dropout_ if inplace else ops.feature_dropout)(input, p, training)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop whole channels of (N, C, L) or (C, L) inputs."""
    _probability("dropout1d", p)
    if input.dim() not in (2, 3):
        raise ShapeError(f"dropout1d: input must be (N, C, L) or (C, L), got {tuple(input.shape)}")
    return _single(input, 3, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop whole channels of (N, C, H, W) inputs; (N, C, L) is taken the same way."""
    _probability("dropout2d", p)
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: a 3-dimensional input is taken as (N, C, L) and channels are dropped per example; use "
            "dropout1d for it, or add a batch dimension to (C, H, W)",
            UserWarning,
            stacklevel=2,
        )
    elif input.dim() != 4:
        _unexpected("dropout2d", "(N, C, H, W)", input)
    return _features(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop whole channels of (N, C, D, H, W) or (C, D, H, W) inputs."""
    _probability("dropout3d", p)
    if input.dim() not in (4, 5):
        _unexpected("dropout3d", "(N, C, D, H, W)", input)
    return _single(input, 5, p, training, inplace)


def _unexpected(name: str, wanted: str, input: Tensor) -> None:
    warnings.warn(f"{name}: input should be {wanted}, got {tuple(input.shape)}", UserWarning, stacklevel=3)


def _single(input: Tensor, batched: int, p: float, training: bool, inplace: bool) -> Tensor:
    """Drop channels of an input whose batch dimension may be missing."""
    if input.dim() == batched:
        return _features(input, p, training, inplace)
    if inplace:
        return ops.squeeze(_features(ops.unsqueeze(input, 0), p, training, True), 0)
    return ops.squeeze(_features(ops.unsqueeze(input, 0), p, training, False), 0)


# -- resampling --------------------------------------------------------------------------------------------------------


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """Resample the spatial dimensions; `interpolate` under its old name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Resample by the nearest element."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Resample linearly with aligned corners."""
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


__all__ = [
    "affine_grid",
    "alpha_dropout",
    "batch_norm",
    "channel_shuffle",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "grid_sample",
    "group_norm",
    "instance_norm",
    "interpolate",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "rms_norm",
    "scaled_dot_product_attention",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]
