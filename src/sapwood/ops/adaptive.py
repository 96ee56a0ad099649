"""Pooling to a given size: adaptive means and maxima, fractional maxima, and the inverse of maxima, `max_unpool2d`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import ArgumentError, ShapeError, ValueRangeError
from ..kernels import pool as kernel
from .conv import per_dim, widened
from .declare import Plain, composite, op, zero
from .pool import check_image, native, serves


class _Pool(Plain):
    inputs = ("input",)
    function = method = False
    half = False
    takes_out = False


@op
class adaptive_avg_pool(_Pool):
    """Return the means of windows that cover each image evenly."""

    linear = True
    grad_fn = "AdaptiveAvgPool2DBackward0 if len(output_size) == 2 else AdaptiveAvgPool3DBackward0"

    def forward(input, output_size):
        means = native().adaptive_means if serves(input) else kernel.adaptive_means
        return widened(lambda x: means(x, output_size), input)

    vjp_input = lambda g, input, output_size: ops.adaptive_avg_pool_gradient(g, input, output_size)

    samples = lambda rng: [
        (rng.standard_normal((1, 2, 5, 4)), (3, 2)),
        (rng.standard_normal((2, 3, 2, 5)), (2, 2, 3)),
    ]


@op
class adaptive_avg_pool_gradient(_Pool):
    """Spread each element evenly over its window of images of the input's shape: the adjoint of `adaptive_avg_pool`."""

    inputs = ("grad", "input")
    linear = True

    def forward(grad, input, output_size):
        spread = native().adaptive_spread if serves(input) else kernel.adaptive_spread
        return widened(lambda g: spread(g, input.shape[-len(output_size) :]), grad)

    vjp_grad = lambda g, output_size: ops.adaptive_avg_pool(g, output_size)
    vjp_input = zero
    samples = lambda rng: [(rng.standard_normal((1, 3, 2)), rng.standard_normal((1, 5, 4)), (3, 2))]


def _pair(function: Any, input: Any) -> tuple[Any, Any]:
    """Return (values, indices), found in float32 where the input is of a 16-bit type."""
    if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
        best, at = function(input.astype(np.float32))
        return best.astype(input.dtype), at
    best, at = function(input)
    return best, at


@op
class adaptive_max_pool(_Pool):
    """Return the largest elements of windows that cover each image evenly, and their flat indices."""

    outs = ("result0", "result1")
    grad_fn = "AdaptiveMaxPool2DBackward0 if len(output_size) == 2 else AdaptiveMaxPool3DBackward0"

    def forward(input, output_size):
        largest = native().adaptive_largest if serves(input) else kernel.adaptive_largest
        return _pair(lambda x: largest(x, output_size), input)

    def vjp_input(g, input, result1, output_size):
        return ops.scatter_image(g, result1, input, tuple(input.shape[-len(output_size) :]), True)

    samples = lambda rng: [(rng.permutation(40).reshape(1, 2, 5, 4) * 0.1, (3, 2))]


@op
class fractional_max_pool(_Pool):
    """Return the largest elements of windows at pseudo-random places, and their flat indices."""

    inputs = ("input", "samples")
    outs = ("result0", "result1")
    grad_fn = "FractionalMaxPool2DBackward0 if len(output_size) == 2 else FractionalMaxPool3DBackward0"

    def forward(input, samples, kernel_size, output_size):
        wide = samples.astype(np.float32) if samples.dtype.itemsize == 2 else samples
        return _pair(lambda x: kernel.fractional_largest(x, kernel_size, output_size, wide), input)

    def vjp_input(g, input, result1, output_size):
        return ops.scatter_image(g, result1, input, tuple(input.shape[-len(output_size) :]), True)

    samples = lambda rng: [(rng.permutation(50).reshape(1, 2, 5, 5) * 0.1, rng.random((1, 2, 2)), (2, 2), (3, 3))]


@op
class max_unpool(_Pool):
    """Put each element back where a pooling found it; all others are zero."""

    inputs = ("input", "indices")
    grad_fn = "MaxUnpool2DBackward0 if len(output_size) == 2 else MaxUnpool3DBackward0"
    linear = True

    def forward(input, indices, output_size):
        area = int(np.prod(output_size))
        if indices.size and (indices.min() < 0 or indices.max() >= area):
            raise ValueRangeError(
                f"max_unpool: indices must lie in [0, {area}), the elements of output_size {output_size}"
            )
        scatter = native().scatter if serves(input) else kernel.scatter
        return widened(lambda x: scatter(x, indices, output_size, False), input)

    vjp_input = lambda g, indices, output_size: ops.gather_image(g, indices, len(output_size))
    samples = lambda rng: [(rng.standard_normal((1, 2, 2)), np.array([[[0, 3], [5, 8]]]), (3, 3))]


# -- the public functions ---------------------------------------------------------------------------------------------


def _sizes(name: str, output_size: Any, input: Any, dims: int) -> tuple[int, ...]:
    """Return the output's sizes; None keeps the input's."""
    if not isinstance(output_size, list | tuple):
        output_size = (output_size,) * dims
    if len(output_size) == 1 and dims > 1:
        output_size = tuple(output_size) * dims
    if len(output_size) != dims:
        raise ValueRangeError(f"{name}: output_size must be one int or {dims} ints, got {tuple(output_size)}")
    shape = input.shape[-dims:]
    return per_dim(name, "output_size", [n if m is None else m for m, n in zip(output_size, shape)], dims, 0)


def _adaptive_avg(dims: int, input: Any, output_size: Any) -> Any:
    name = f"adaptive_avg_pool{dims}d"
    check_image(name, input, dims)
    out = _sizes(name, output_size, input, dims)
    x = ops.unsqueeze(input, -2) if dims == 1 else input
    out = (1, *out) if dims == 1 else out
    if max(out) == 1 == min(out):
        y = ops.mean(x, tuple(range(-len(out), 0)), keepdim=True)
    else:
        y = adaptive_avg_pool(x, out)
    return ops.squeeze(y, -2) if dims == 1 else y


@composite
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """Return the means of `output_size` windows that cover each sequence of (N, C, L) evenly."""
    return _adaptive_avg(1, input, output_size)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Return the means of windows that cover each image evenly.

    Args:
        input: (N, C, H, W) or (C, H, W).
        output_size: int or (int, int); None keeps a size.
    """
    return _adaptive_avg(2, input, output_size)


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Return the means of windows that cover each volume of (N, C, D, H, W) evenly."""
    return _adaptive_avg(3, input, output_size)


def _adaptive_max(dims: int, input: Any, output_size: Any, indices: bool) -> Any:
    name = f"adaptive_max_pool{dims}d"
    check_image(name, input, dims)
    out = _sizes(name, output_size, input, dims)
    if dims > 1:
        best, at = adaptive_max_pool(input, out)
    else:
        best, at = (ops.squeeze(t, -2) for t in adaptive_max_pool(ops.unsqueeze(input, -2), (1, *out)))
    return (best, at) if indices else best


def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Return the largest elements of windows that cover each sequence of (N, C, L) evenly."""
    return _adaptive_max(1, input, output_size, return_indices)


@composite(name="adaptive_max_pool1d")
def adaptive_max_pool1d_with_indices(input: Any, output_size: Any, return_indices: bool = True) -> Any:
    """Return the largest elements of windows that cover each sequence of (N, C, L) evenly, and their indices."""
    return _adaptive_max(1, input, output_size, True)


def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Return the largest elements of windows that cover each image of (N, C, H, W) evenly."""
    return _adaptive_max(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Return the largest elements of windows that cover each volume of (N, C, D, H, W) evenly."""
    return _adaptive_max(3, input, output_size, return_indices)


def _max_unpool(
    dims: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Any:
    name = f"max_unpool{dims}d"
    check_image(name, input, dims)
    size = per_dim(name, "kernel_size", kernel_size, dims)
    steps = size if stride is None else per_dim(name, "stride", stride, dims)
    around = per_dim(name, "padding", padding, dims, 0)
    default = tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(input.shape[-dims:], steps, around, size))
    out = default
    if output_size is not None:
        out = tuple(int(n) for n in output_size)[-dims:] if len(output_size) in (dims, dims + 1, dims + 2) else ()
        if len(out) != dims or any(abs(m - n) >= s for m, n, s in zip(out, default, steps)):
            raise ValueRangeError(
                f"{name}: output_size must be {dims} sizes less than stride {steps} away from {default}, "
                f"got {output_size}"
            )
    if tuple(indices.shape) != tuple(input.shape):
        raise ShapeError(
            f"{name}: indices must have the input's shape {tuple(input.shape)}, got {tuple(indices.shape)}"
        )
    if dims > 1:
        return max_unpool(input, indices, out)
    y = max_unpool(ops.unsqueeze(input, -1), ops.unsqueeze(indices, -1), (*out, 1))
    return ops.squeeze(y, -1)


def max_unpool1d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Undo `max_pool1d` as far as it goes: maxima return to their places, the rest is zero."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Undo `max_pool2d` as far as it goes: maxima return to their places, the rest is zero."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Any:
    """Undo `max_pool3d` as far as it goes: maxima return to their places, the rest is zero."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


def _fractional(dims: int, input: Any, kernel_size: Any, output_size: Any, ratio: Any, samples: Any) -> Any:
    name = f"fractional_max_pool{dims}d"
    if (output_size is None) == (ratio is None):
        raise ArgumentError(f"{name}: give either output_size or output_ratio")
    check_image(name, input, dims)
    shape = tuple(input.shape[-dims:])
    if output_size is None:
        ratios = ratio if isinstance(ratio, list | tuple) else (ratio,) * dims
        if not all(0 < r < 1 for r in ratios):
            raise ValueRangeError(f"{name}: output_ratio must lie between 0 and 1, got {ratio}")
        output_size = [int(n * r) for n, r in zip(shape, ratios)]
    out = per_dim(name, "output_size", output_size, dims)
    size = per_dim(name, "kernel_size", kernel_size, dims)
    if any(m + k - 1 > n for m, k, n in zip(out, size, shape)):
        raise ShapeError(
            f"{name}: output_size {out} with kernel_size {size} does not fit into input {tuple(input.shape)}"
        )
    single = len(input.shape) == dims + 1
    x = ops.unsqueeze(input, 0) if single else input
    if samples is None:
        samples = ops.rand((x.shape[0], x.shape[1], dims), dtype=x.dtype)
    elif len(samples.shape) != 3 or samples.shape[0] < x.shape[0] or tuple(samples.shape[1:]) != (x.shape[1], dims):
        raise ShapeError(
            f"{name}: _random_samples must be (at least {x.shape[0]}, {x.shape[1]}, {dims}), got {tuple(samples.shape)}"
        )
    samples = samples[: x.shape[0]]
    # In two dimensions the first number places the columns; in three each dimension has its own.
    samples = ops.flip(samples, (2,)) if dims == 2 else samples
    best, at = fractional_max_pool(x, samples, size, out)
    return (ops.squeeze(best, 0), ops.squeeze(at, 0)) if single else (best, at)


def fractional_max_pool2d_with_indices(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """Return maxima of pseudo-random windows of images, and their indices; see `fractional_max_pool2d`."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """Return maxima of pseudo-random windows of volumes, and their indices; see `fractional_max_pool2d`."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """Return the maxima of windows whose distances are drawn so that the image shrinks by a fraction.

    Args:
        input: (N, C, H, W) or (C, H, W).
        output_size: int or (int, int); or give output_ratio, its share of the input's size.

    Reference: Graham, arXiv:1412.6071.
    """
    found = _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


def fractional_max_pool3d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """Return the maxima of pseudo-random windows of volumes (N, C, D, H, W); see `fractional_max_pool2d`."""
    found = _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]
