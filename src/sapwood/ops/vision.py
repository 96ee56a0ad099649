"""Rearranging and sampling images: pixel and channel shuffles, affine grids, sampling at given positions."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import ops
from ..errors import MissingError, ShapeError, ValueRangeError
from .declare import Movement, Plain, op


@op
class pixel_shuffle(Movement):
    """Turn groups of channels into finer pixels: (*, C·r², H, W) becomes (*, C, H·r, W·r).

    Reference: Shi et al., arXiv:1609.05158.
    """

    method = False
    samples = lambda rng: [(rng.standard_normal((1, 8, 2, 3)), 2), (rng.standard_normal((9, 1, 2)), 3)]

    def canon(input, upscale_factor):
        r = upscale_factor
        if input.ndim < 3 or r < 1 or input.shape[-3] % (r * r):
            raise ShapeError(
                f"pixel_shuffle: the channels (dimension -3) must be divisible by upscale_factor² = {r * r}, input is "
                f"{input.shape}"
            )
        return (r,)

    def forward(input, upscale_factor):
        r = upscale_factor
        *batch, c, h, w = input.shape
        x = input.reshape(math.prod(batch), c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
        return x.reshape(*batch, c // (r * r), h * r, w * r) if r > 1 else input.copy()

    vjp_input = lambda g, upscale_factor: ops.pixel_unshuffle(g, upscale_factor)


@op
class pixel_unshuffle(Movement):
    """Turn blocks of pixels into channels: (*, C, H·r, W·r) becomes (*, C·r², H, W)."""

    method = False
    samples = lambda rng: [(rng.standard_normal((1, 2, 4, 6)), 2)]

    def canon(input, downscale_factor):
        r = downscale_factor
        if input.ndim < 3 or r < 1 or input.shape[-1] % r or input.shape[-2] % r:
            raise ShapeError(
                f"pixel_unshuffle: height and width must be divisible by downscale_factor = {r}, input is {input.shape}"
            )
        return (r,)

    def forward(input, downscale_factor):
        r = downscale_factor
        *batch, c, h, w = input.shape
        x = input.reshape(math.prod(batch), c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
        return x.reshape(*batch, c * r * r, h // r, w // r) if r > 1 else input.copy()

    vjp_input = lambda g, downscale_factor: ops.pixel_shuffle(g, downscale_factor)


@op
class channel_shuffle(Movement):
    """Interleave `groups` of channels.

    Reference: Zhang et al., ShuffleNet, arXiv:1707.01083.
    """

    method = False
    samples = lambda rng: [(rng.standard_normal((1, 6, 2)), 2)]

    def canon(input, groups):
        if input.ndim < 3 or groups < 1 or input.shape[1] % groups:
            raise ShapeError(f"channel_shuffle: groups = {groups} must divide the channels of input {input.shape}")
        return (groups,)

    def forward(input, groups):
        n, c, *rest = input.shape
        x = input.reshape(n, groups, c // groups, *rest).swapaxes(1, 2).reshape(input.shape)
        return x.copy() if np.shares_memory(x, input) else x

    vjp_input = lambda g, input_shape, groups: ops.channel_shuffle(g, input_shape[1] // groups)


# -- affine grids ------------------------------------------------------------------------------------------------------


def _base_grid(size: tuple[int, ...], align: bool, dtype: Any) -> Any:
    """Return homogeneous coordinates in [-1, 1] of every output position: (positions, d + 1), x first."""
    axes = []
    for n in reversed(size):
        x = np.linspace(-1, 1, n, dtype=dtype) if n > 1 else np.zeros(n, dtype)
        axes.append(x if align else x * dtype.type((n - 1) / n))
    grids = np.meshgrid(*reversed(axes), indexing="ij")
    return np.stack([*(x.ravel() for x in reversed(grids)), np.ones(math.prod(size), dtype)], -1)


@op
class affine_grid_generator(Plain):
    """Return the positions (N, *size, d) that affine maps theta (N, d, d + 1) send the output grid to."""

    inputs = ("theta",)
    linear = True
    method = False
    samples = lambda rng: [
        (rng.standard_normal((2, 2, 3)), (2, 1, 3, 4), False),
        (rng.standard_normal((1, 3, 4)), (1, 1, 2, 3, 2), True),
    ]

    def canon(theta, size, align_corners):
        size = tuple(map(int, size))
        d = len(size) - 2
        if d not in (2, 3) or theta.shape != (size[0], d, d + 1):
            raise ShapeError(f"affine_grid: theta must be (N, {d}, {d + 1}) for size {size}, got {theta.shape}")
        return size, align_corners

    def forward(theta, size, align_corners):
        base = _base_grid(size[2:], align_corners, theta.dtype)
        return np.matmul(base, theta.swapaxes(1, 2)).reshape(size[0], *size[2:], len(size) - 2)

    vjp_theta = lambda g, size, align_corners: ops.affine_grid_back(g, size, align_corners)


@op
class affine_grid_back(Plain):
    """Return the gradient of the affine maps given that of their grid."""

    inputs = ("grad",)
    linear = True
    function = method = False
    samples = lambda rng: [(rng.standard_normal((2, 3, 4, 2)), (2, 1, 3, 4), False)]

    def forward(grad, size, align_corners):
        base = _base_grid(size[2:], align_corners, grad.dtype)
        return np.matmul(grad.reshape(size[0], -1, len(size) - 2).swapaxes(1, 2), base)

    vjp_grad = lambda g, size, align_corners: ops.affine_grid_generator(g, size, align_corners)


_DEFAULT = (
    "{}: corners are not aligned by default; pass align_corners=False to keep that and silence this warning, or "
    "align_corners=True if positions -1 and 1 are to be the centres of the corner pixels"
)


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """Return the sampling positions of affine maps, for `grid_sample`.

    Args:
        theta: (N, 2, 3) or (N, 3, 4), float.
        size: the output size (N, C, H, W) or (N, C, D, H, W).
        align_corners: whether -1 and 1 are the centres of the corner pixels, not their outer edges.

    Reference: Jaderberg et al., Spatial transformer networks, arXiv:1506.02025.
    """
    if align_corners is None:
        warnings.warn(_DEFAULT.format("affine_grid"), UserWarning, stacklevel=2)
    if min(size) <= 0:
        raise ValueRangeError(f"affine_grid: every number in size must be positive, got {tuple(size)}")
    return ops.affine_grid_generator(theta, size, bool(align_corners))


# -- sampling at positions ---------------------------------------------------------------------------------------------


def _unnormalised(x: Any, n: int, align: bool) -> Any:
    """Return positions in [-1, 1] as positions between elements 0 … n - 1."""
    return (x + 1) * ((n - 1) / 2) if align else ((x + 1) * n - 1) * 0.5


def _reflected(x: Any, low2: int, high2: int) -> Any:
    """Return positions mirrored into [low2 / 2, high2 / 2]."""
    if low2 == high2:
        return x * 0
    low, span = low2 / 2, (high2 - low2) / 2
    x = ops.abs(x - low)
    flips = ops.floor(x / span)
    rest = x - flips * span
    odd = flips - ops.floor(flips * 0.5) * 2
    return ops.where(odd == 0, rest + low, span - rest + low)


def _in_padding(x: Any, n: int, mode: str, align: bool) -> Any:
    if mode == "reflection":
        x = _reflected(x, 0, 2 * (n - 1)) if align else _reflected(x, -1, 2 * n - 1)
    if mode != "zeros":
        # Positions beyond the border stand still there: gradient zero.
        x = ops.where(x <= 0, 0 * x.detach(), ops.where(x >= n - 1, 0 * x.detach() + (n - 1), x))
    return x


def _fetch(flat: Any, index: list[Any], sizes: tuple[int, ...]) -> Any:
    """Return the elements at integer positions, zero where they lie outside; flat is (N, C, positions)."""
    n, c, _ = flat.shape
    inside, linear = None, 0
    for i, size in zip(index, sizes):
        fits = (i >= 0) & (i <= size - 1)
        inside = fits if inside is None else inside & fits
        linear = linear * size + ops.clamp(i, 0, size - 1)
    spots = ops.expand(ops.reshape(linear.long(), (n, 1, -1)), (n, c, -1))
    found = ops.gather(flat, 2, spots)
    return ops.where(ops.reshape(inside, (n, 1, -1)), found, 0)


def _cubic(t: Any) -> list[Any]:
    """Return the weights of the four neighbours of a position t beyond the second one."""
    a = -0.75

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Any:
    """Sample an image at the positions of `grid`.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W), float.
        grid: (N, H', W', 2) or (N, D', H', W', 3), positions (x, y[, z]) in [-1, 1].
        mode: "bilinear", "nearest" or, for images, "bicubic".
        padding_mode: what lies outside: "zeros", "border" or "reflection".
        align_corners: whether -1 and 1 are the centres of the corner pixels, not their outer edges.

    Returns:
        (N, C, H', W') or (N, C, D', H', W')
    """
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueRangeError(f"grid_sample: mode must be bilinear, nearest or bicubic, got {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueRangeError(f"grid_sample: padding_mode must be zeros, border or reflection, got {padding_mode!r}")
    if align_corners is None:
        warnings.warn(_DEFAULT.format("grid_sample"), UserWarning, stacklevel=2)
        align_corners = False
    d = input.dim() - 2
    if d not in (2, 3) or grid.dim() != d + 2 or grid.shape[-1] != d or grid.shape[0] != input.shape[0]:
        raise ShapeError(
            "grid_sample: expected input (N, C, H, W) with grid (N, H', W', 2), or (N, C, D, H, W) with "
            f"(N, D', H', W', 3), got {tuple(input.shape)} and {tuple(grid.shape)}"
        )
    if mode == "bicubic" and d == 3:
        raise MissingError("grid_sample: bicubic needs a 4-dimensional input")
    sizes = tuple(input.shape[2:])
    n, c = input.shape[:2]
    flat = ops.reshape(input, (n, c, -1))
    where = [_unnormalised(ops.select(grid, -1, d - 1 - k), sizes[k], align_corners) for k in range(d)]
    if mode != "bicubic":
        where = [_in_padding(x, s, padding_mode, align_corners) for x, s in zip(where, sizes)]
    if mode == "nearest":
        # The nearest element does not change with its position: the gradient of grid is zero, not absent.
        total = ops.tied(_fetch(flat, [ops.round(x).detach() for x in where], sizes), grid)
    else:
        total = _blend(flat, where, sizes, mode, padding_mode, align_corners)
    out = ops.reshape(total, (n, c, *grid.shape[1:-1]))
    return out if out.dtype is input.dtype else out.to(input.dtype)


def _blend(flat: Any, where: list[Any], sizes: tuple[int, ...], mode: str, padding: str, align: bool) -> Any:
    """Return the weighted sum over the neighbours of each position."""
    n = flat.shape[0]
    low = [ops.floor(x).detach() for x in where]
    if mode == "bicubic":
        offsets, weights = range(-1, 3), [_cubic(x - f) for x, f in zip(where, low)]
    else:
        offsets, weights = range(2), [[f + 1 - x, x - f] for x, f in zip(where, low)]
    total: Any = None
    for pick in np.ndindex(*(len(offsets),) * len(sizes)):
        index = [f + offsets[k] for f, k in zip(low, pick)]
        if mode == "bicubic":
            index = [_in_padding(i, s, padding, align) for i, s in zip(index, sizes)]
        weight = weights[0][pick[0]]
        for w, k in zip(weights[1:], pick[1:]):
            weight = weight * w[k]
        term = _fetch(flat, index, sizes) * ops.reshape(weight, (n, 1, -1))
        total = term if total is None else total + term
    return total


__all__ = [
    "affine_grid",
    "affine_grid_back",
    "affine_grid_generator",
    "channel_shuffle",
    "grid_sample",
    "pixel_shuffle",
    "pixel_unshuffle",
]
