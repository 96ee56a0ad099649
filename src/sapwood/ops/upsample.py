"""Resampling of the spatial dimensions: nearest, linear and cubic interpolation, separable over dimensions.

Every output position reads a few taps: indices and weights along one dimension. The gradient sends each output's
cotangent back through the same taps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..errors import MissingError, ShapeError, ValueRangeError
from .adaptive import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .declare import Movement, op

_CUBIC = -0.75
"""The slope parameter of PyTorch's bicubic kernel; its antialiased one uses -0.5, as PIL does."""
_CUBIC_ANTIALIAS = -0.5


def _cubic_kernel(x: Any, a: float) -> Any:
    """Return Keys' cubic convolution kernel at distances x >= 0."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _source_positions(n: int, out: int, align: bool, scale: float | None, cubic: bool, real: Any) -> Any:
    """Return where each output position lies between the input's elements."""
    i = np.arange(out, dtype=real)
    if align:
        return i * real((n - 1) / (out - 1) if out > 1 else 0)
    x = real(n / out if scale is None else 1 / scale) * (i + real(0.5)) - real(0.5)
    return x if cubic else np.maximum(x, 0)


def _antialiased(n: int, out: int, align: bool, scale: float | None, cubic: bool, real: Any) -> tuple[Any, Any]:
    """Return the taps of a kernel that is widened when the image shrinks."""
    if align:
        step = (n - 1) / (out - 1) if out > 1 else 0.0
    else:
        step = n / out if scale is None else 1 / scale
    widen = max(step, 1.0)
    support = (2.0 if cubic else 1.0) * widen
    centre = step * (np.arange(out) + 0.5)
    first = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    count = np.minimum((centre + support + 0.5).astype(np.int64), n) - first
    j = np.arange(max(int(count.max(initial=0)), 1))
    x = np.abs((j + first[:, None] - centre[:, None] + 0.5) / widen)
    weight = _cubic_kernel(x, _CUBIC_ANTIALIAS) if cubic else np.maximum(1 - x, 0)
    weight = np.where(j < count[:, None], weight, 0)
    weight = weight / weight.sum(1, keepdims=True)
    return (first[:, None] + j).clip(0, n - 1), weight.astype(real)


def taps(kind: str, n: int, out: int, align: bool, scale: float | None, real: Any) -> tuple[Any, Any]:
    """Return indices (out, K) into a dimension of size n, and their weights or None for a single tap of weight one."""
    if kind.startswith("nearest"):
        # PyTorch computes these positions in single precision whatever the element type.
        step = np.float32(n / out if scale is None else 1 / scale)
        i = np.arange(out, dtype=np.float32) + np.float32(0.5 if kind.startswith("nearest-exact") else 0)
        return np.minimum(np.floor(i * step).astype(np.int64), n - 1)[:, None], None
    cubic = kind.startswith("bicubic")
    if kind.endswith("_aa"):
        return _antialiased(n, out, align, scale, cubic, real)
    x = _source_positions(n, out, align, scale, cubic, real)
    low = np.floor(x).astype(np.int64)
    if not cubic:
        low = np.minimum(low, n - 1)
    t = (x - low)[:, None]
    if cubic:
        distance = np.abs(t - np.arange(-1, 3))
        return (low[:, None] + np.arange(-1, 3)).clip(0, n - 1), _cubic_kernel(distance, _CUBIC).astype(real)
    return np.minimum(low[:, None] + np.arange(2), n - 1), np.concatenate((1 - t, t), 1).astype(real)


def _along(a: Any, dim: int, ndim: int) -> Any:
    return a.reshape((-1,) + (1,) * (ndim - 1 - dim))


def _real(dtype: Any) -> Any:
    return np.float64 if dtype == np.float64 else np.float32


_NAMES = (
    "{'nearest1': UpsampleNearest1DBackward0, 'nearest2': UpsampleNearest2DBackward0, "
    "'nearest3': UpsampleNearest3DBackward0, 'nearest-exact1': UpsampleNearestExact1DBackward0, "
    "'nearest-exact2': UpsampleNearestExact2DBackward0, 'nearest-exact3': UpsampleNearestExact3DBackward0, "
    "'linear1': UpsampleLinear1DBackward0, 'bilinear2': UpsampleBilinear2DBackward0, "
    "'bicubic2': UpsampleBicubic2DBackward0, 'trilinear3': UpsampleTrilinear3DBackward0, "
    "'bilinear2_aa': UpsampleBilinear2DAaBackward0, 'bicubic2_aa': UpsampleBicubic2DAaBackward0}[kind]"
)


def _as_input(out: Any, input: Any) -> Any:
    """Return a new array of the input's type; integers are rounded, and kept in range where cubics overshoot."""
    if input.dtype.kind == "u" and out.dtype.kind == "f":
        out = np.floor(out + 0.5).clip(0, np.iinfo(input.dtype).max)
    return out.astype(input.dtype, copy=False)


@op
class resample(Movement):
    """Interpolate the dimensions after the first two to `size`.

    Args:
        kind: the mode and the number of dimensions, with "_aa" for antialiasing.
        scales: per dimension the factor that positions are computed with, None to derive it from the sizes.
    """

    half = True
    dtypes = "f"
    function = method = False
    grad_fn = _NAMES
    samples = lambda rng: [
        (rng.standard_normal((1, 2, 3)), "nearest1", (5,), False, (None,)),
        (rng.standard_normal((1, 2, 3)), "linear1", (5,), False, (None,)),
        (rng.standard_normal((1, 1, 3, 4)), "bilinear2", (5, 2), True, (None, None)),
        (rng.standard_normal((1, 1, 3, 4)), "bicubic2", (4, 6), False, (1.5, 1.5)),
        (rng.standard_normal((1, 1, 5, 4)), "bilinear2_aa", (2, 3), False, (None, None)),
    ]
    vjp_input = lambda g, input_shape, kind, align, scales: ops.resample_back(g, kind, input_shape[2:], align, scales)

    def forward(input, kind, size, align, scales):
        out = input
        for dim in reversed(range(2, input.ndim)):
            index, weight = taps(kind, input.shape[dim], size[dim - 2], align, scales[dim - 2], _real(input.dtype))
            if weight is None:
                out = out.take(index[:, 0], axis=dim)
                continue
            terms = [
                out.take(index[:, k], axis=dim) * _along(weight[:, k], dim, out.ndim) for k in range(index.shape[1])
            ]
            out = _as_input(sum(terms[1:], terms[0]), input)
        return out if out is not input else input.copy()


@op
class resample_back(Movement):
    """Send cotangents of `resample` back to an input of spatial `size`."""

    half = True
    dtypes = "f"
    function = method = False
    grad_fn = "ResampleBackwardBackward0"
    samples = lambda rng: [(rng.standard_normal((1, 2, 5)), "linear1", (3,), False, (None,))]
    vjp_input = lambda g, input_shape, kind, align, scales: ops.resample(g, kind, input_shape[2:], align, scales)

    def forward(input, kind, size, align, scales):
        out = input
        for dim in range(2, input.ndim):
            index, weight = taps(kind, size[dim - 2], input.shape[dim], align, scales[dim - 2], _real(input.dtype))
            new = np.zeros((*out.shape[:dim], size[dim - 2], *out.shape[dim + 1 :]), out.dtype)
            for k in range(index.shape[1]):
                part = out if weight is None else out * _along(weight[:, k], dim, out.ndim)
                # A tap's indices never decrease, so equal ones are neighbours.
                reached, starts = np.unique(index[:, k], return_index=True)
                new[(slice(None),) * dim + (reached,)] += np.add.reduceat(part, starts, axis=dim)
            out = new
        return out.astype(input.dtype, copy=out is input)


_DIMS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Resample the spatial dimensions to `size`, or by `scale_factor`.

    Args:
        input: (N, C, *), float, with one to three spatial dimensions.
        size: int or one per spatial dimension; excludes scale_factor.
        scale_factor: float or one per spatial dimension.
        mode: "nearest", "nearest-exact", "linear" (3-D input), "bilinear", "bicubic" (4-D), "trilinear" (5-D), "area".
        align_corners: for the linear and cubic modes: whether corner elements, not corner edges, coincide.
        recompute_scale_factor: compute positions with the ratio of the final sizes.
        antialias: widen the kernel when shrinking; bilinear and bicubic only.
    """
    spatial = input.dim() - 2
    modes = ("nearest", "nearest-exact", "area", *_DIMS)
    if mode not in modes or spatial not in (1, 2, 3):
        raise MissingError(
            f"interpolate: input must have 3, 4 or 5 dimensions and mode be one of {', '.join(modes)}; got "
            f"{input.dim()} dimensions and {mode!r}"
        )
    smooth = mode in _DIMS
    if align_corners is not None and not smooth:
        raise ValueRangeError(f"interpolate: align_corners has a meaning for {', '.join(_DIMS)} only, mode is {mode!r}")
    size, scales = _size_and_scales(tuple(input.shape[2:]), size, scale_factor, recompute_scale_factor)
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueRangeError(f"interpolate: antialias works with bilinear and bicubic, mode is {mode!r}")
    if mode == "area":
        pool = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[spatial - 1]
        return pool(input, size)
    if smooth and _DIMS[mode] != spatial:
        raise MissingError(f"interpolate: mode {mode!r} needs {_DIMS[mode] + 2} dimensions, input has {input.dim()}")
    if min(size) < 1 or min(input.shape[1:]) < 1:
        raise ShapeError(f"interpolate: sizes must be at least 1, input is {tuple(input.shape)} and size {size}")
    kind = f"{mode}{spatial}" + ("_aa" if antialias else "")
    return ops.resample(input, kind, size, bool(align_corners), scales)


def _size_and_scales(shape: Any, size: Any, factor: Any, recompute: bool | None) -> tuple[Any, Any]:
    """Return the output size, and the factors that positions are computed with."""
    spatial = len(shape)
    if (size is None) == (factor is None):
        raise ValueRangeError("interpolate: give either size or scale_factor, and not both")
    given = size if factor is None else factor
    if isinstance(given, list | tuple):
        if len(given) != spatial:
            raise ShapeError(f"interpolate: input has {spatial} spatial dimensions, got {len(given)} numbers {given}")
        given = tuple(given)
    else:
        given = (given,) * spatial
    if factor is None:
        if recompute:
            raise ValueRangeError("interpolate: recompute_scale_factor has a meaning with scale_factor only")
        return tuple(int(n) for n in given), (None,) * spatial
    factors = tuple(float(f) for f in given)
    found = tuple(math.floor(n * f) for n, f in zip(shape, factors))
    return found, (None,) * spatial if recompute else factors


__all__ = ["interpolate", "resample", "resample_back", "taps"]
