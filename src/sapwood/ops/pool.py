"""Pooling over 1, 2 and 3 dimensions: `max_pool2d`, `avg_pool2d`, `lp_pool2d` and their kin."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from .. import ops
from ..errors import ShapeError, ValueRangeError
from ..kernels import pool as kernel
from ..state import GRAD, get_mode
from .conv import per_dim, widened
from .declare import Plain, composite, op, zero
from .warm import serve


@functools.cache
def native() -> Any:
    """Return the native functions, which are loaded when first used."""
    return importlib.import_module("sapwood.kernels.pool_native")


def serves(a: Any) -> bool:
    """Return whether native code pools such an array."""
    return a.dtype.kind in "fV" and serve(a.size)


def check_image(name: str, a: Any, dims: int) -> None:
    """Raise ShapeError unless `a` is (N, C, *spatial) or (C, *spatial), with nothing empty but the batch."""
    shape = tuple(a.shape)
    empty = 0 in shape[1:] if len(shape) == dims + 2 else 0 in shape
    if len(shape) not in (dims + 1, dims + 2) or empty:
        sizes = "D, H, W"[-3 * dims + 2 :]
        raise ShapeError(f"{name}: input must be (N, C, {sizes}) or (C, {sizes}), not empty, got shape {shape}")


def window(name: str, a: Any, kernel_size: Any, stride: Any, padding: Any, dims: int) -> tuple[tuple[int, ...], ...]:
    """Return kernel_size, stride and padding as tuples; a missing stride is the kernel's size."""
    size = per_dim(name, "kernel_size", kernel_size, dims)
    missing = stride is None or (isinstance(stride, list | tuple) and not stride)
    steps = size if missing else per_dim(name, "stride", stride, dims)
    around = per_dim(name, "padding", padding, dims, 0)
    if any(2 * p > k for p, k in zip(around, size)):
        raise ValueRangeError(f"{name}: padding must be at most half of kernel_size, got {around} and {size}")
    return size, steps, around


def _fit(name: str, a: Any, out: tuple[int, ...], size: Any) -> None:
    if min(out) < 1:
        raise ShapeError(f"{name}: no window of {size} fits into input {a.shape}; the output would have sizes {out}")


@op
class max_pool_with_indices(Plain):
    """Return the largest element of each window and its index in the flattened image."""

    inputs = ("input",)
    outs = ("result0", "result1")
    function = method = False
    half = False
    takes_out = False
    dtypes = "if"
    grad_fn = "MaxPool2DWithIndicesBackward0 if len(kernel_size) == 2 else MaxPool3DWithIndicesBackward0"

    def forward(input, kernel_size, stride, padding, dilation, ceil_mode):
        largest = native().largest if serves(input) else kernel.largest
        if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
            best, at = largest(input.astype(np.float32), kernel_size, stride, padding, dilation, ceil_mode)
            return best.astype(input.dtype), at
        return largest(input, kernel_size, stride, padding, dilation, ceil_mode)

    def vjp_input(g, input, result1, kernel_size, stride, dilation):
        apart = all(s >= d * (k - 1) + 1 for s, d, k in zip(stride, dilation, kernel_size))
        return ops.scatter_image(g, result1, input, tuple(input.shape[-len(kernel_size) :]), not apart)

    samples = lambda rng: [
        (rng.permutation(60).reshape(1, 3, 4, 5) * 0.1, (2, 2), (1, 2), (1, 0), (1, 2), True),
        (rng.permutation(96).reshape(4, 4, 3, 2) * 0.1, (2, 3, 2), (2, 1, 1), (0, 0, 0), (1, 1, 1), False),
    ]


@op
class max_of_windows(Plain):
    """Return the largest element of each window, where no gradient is wanted."""

    inputs = ("input",)
    function = method = False
    half = False
    takes_out = False
    dtypes = "if"

    def forward(input, kernel_size, stride, padding, dilation, ceil_mode):
        largest = native().largest_only if serves(input) else kernel.largest_only
        return widened(lambda x: largest(x, kernel_size, stride, padding, dilation, ceil_mode), input)

    samples = lambda rng: [(rng.standard_normal((3, 4, 5)), (2, 2), (1, 2), (1, 0), (1, 2), True)]


@op
class scatter_image(Plain):
    """Put elements at flat indices into images of zeros; those that meet add up, or the last one stays.

    `like` is the input of the pooling whose gradient this is: the gradient does not depend on it, but like PyTorch's
    it is recorded as if it did, so that it can be differentiated again.
    """

    inputs = ("input", "indices", "like")
    optional = ("like",)
    function = method = False
    half = False
    takes_out = False
    linear = True

    def forward(input, indices, like, size, add):
        scatter = native().scatter if serves(input) else kernel.scatter
        return widened(lambda g: scatter(g, indices, size, add), input)

    vjp_input = lambda g, indices, size: ops.gather_image(g, indices, len(size))
    vjp_like = zero
    samples = lambda rng: [(rng.standard_normal((2, 2, 2)), rng.integers(0, 6, (2, 2, 2)), None, (2, 3), True)]


@op
class gather_image(Plain):
    """Return the elements of images at flat indices."""

    inputs = ("input", "indices")
    function = method = False
    half = False
    takes_out = False
    linear = True
    forward = lambda input, indices, dims: kernel.gather(input, indices, dims)

    def vjp_input(g, indices, input_shape, dims):
        return ops.scatter_image(g, indices, None, tuple(input_shape[-dims:]), True)

    samples = lambda rng: [(rng.standard_normal((2, 2, 3)), rng.integers(0, 6, (2, 2, 2)), 2)]


@op
class avg_pool(Plain):
    """Return the mean of each window."""

    inputs = ("input",)
    function = method = False
    half = False
    linear = True
    dtypes = "if"
    grad_fn = "AvgPool2DBackward0 if len(kernel_size) == 2 else AvgPool3DBackward0"

    def forward(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        size = input.shape[-len(kernel_size) :]
        out = kernel.out_sizes(size, kernel_size, stride, padding, (1,) * len(size), ceil_mode)
        _fit("avg_pool", input, out, kernel_size)
        if serves(input):
            attrs = kernel_size, stride, padding, out, count_include_pad, divisor_override
            return widened(lambda x: native().means(x, *attrs), input)
        count = divisor_override or kernel.divisors(size, kernel_size, stride, padding, out, count_include_pad)

        def means(x):
            y = kernel.sums(x, kernel_size, stride, padding, out)
            if y.dtype.kind == "i":
                return (np.sign(y) * np.sign(count) * (np.abs(y) // np.abs(count))).astype(x.dtype)
            return np.divide(y, count, out=y)

        return widened(means, input)

    def vjp_input(g, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        return ops.avg_pool_gradient(
            g, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )

    samples = lambda rng: [
        (rng.standard_normal((1, 2, 4, 5)), (2, 3), (1, 2), (1, 1), True, False, None),
        (rng.standard_normal((2, 4, 3, 3)), (2, 2, 2), (1, 2, 1), (0, 1, 0), True, True, None),
        (rng.standard_normal((2, 4, 4)), (2, 2), (2, 2), (0, 0), False, True, 3),
    ]


@op
class avg_pool_gradient(Plain):
    """Spread each element evenly over its window of images of the input's shape: the adjoint of `avg_pool`."""

    inputs = ("grad", "input")
    function = method = False
    half = False
    takes_out = False
    linear = True

    def forward(grad, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        size = input.shape[-len(kernel_size) :]
        out = grad.shape[-len(size) :]
        if serves(grad):
            attrs = size, kernel_size, stride, padding, count_include_pad, divisor_override
            return widened(lambda g: native().means_adjoint(g, *attrs), grad)
        count = divisor_override or kernel.divisors(size, kernel_size, stride, padding, out, count_include_pad)
        spread = lambda g: kernel.spread((g / count).astype(g.dtype), size, kernel_size, stride, padding)
        return widened(spread, grad)

    def vjp_grad(g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        return ops.avg_pool(g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    vjp_input = zero
    samples = lambda rng: [
        (rng.standard_normal((2, 2, 3)), rng.standard_normal((2, 3, 6)), (2, 2), (2, 2), (1, 0), False, True, None)
    ]


# -- the public functions ---------------------------------------------------------------------------------------------


def _max_pool(
    dims: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, indices: bool
) -> Any:
    name = f"max_pool{dims}d"
    check_image(name, input, dims)
    size, steps, around = window(name, input, kernel_size, stride, padding, dims)
    apart = per_dim(name, "dilation", dilation, dims)
    out = kernel.out_sizes(tuple(input.shape[-dims:]), size, steps, around, apart, bool(ceil))
    _fit(name, input, out, size)
    x = input
    if dims == 1:
        x = ops.unsqueeze(input, -2)
        size, steps, around, apart = (1, *size), (1, *steps), (0, *around), (1, *apart)
    plain = not indices and (getattr(input, "_node", input) is None or not get_mode() & GRAD)
    # A tangent passes without a node.
    plain = plain and not hasattr(type(input), "__sapwood_op__")
    if plain:
        best = max_of_windows(x, size, steps, around, apart, bool(ceil))
        return ops.squeeze(best, -2) if dims == 1 else best
    best, at = max_pool_with_indices(x, size, steps, around, apart, bool(ceil))
    if dims == 1:
        best, at = ops.squeeze(best, -2), ops.squeeze(at, -2)
    return (best, at) if indices else best


@composite
def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window of sequences (N, C, L); see `max_pool2d`."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite
def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: int or (int, int), in elements.
        stride: distance of windows, kernel_size if not given.
        padding: elements around the image that never win, at most half of kernel_size.
        dilation: distance of a window's elements.
        ceil_mode: whether a last window may stick out.
        return_indices: whether to return (values, indices in the flattened image).
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite
def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window of volumes (N, C, D, H, W); see `max_pool2d`."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composite
def max_pool1d_with_indices(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    """Return the largest element of each window of sequences (N, C, L), and its index."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> Any:
    """Return the largest element of each window of images, and its index."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = True,
) -> Any:
    """Return the largest element of each window of volumes, and its index."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def _avg_pool(
    dims: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    count_pad: bool,
    divisor: Any,
    out: Any = None,
) -> Any:
    name = f"avg_pool{dims}d"
    check_image(name, input, dims)
    size, steps, around = window(name, input, kernel_size, stride, padding, dims)
    if divisor == 0:
        raise ValueRangeError(f"{name}: divisor_override must not be 0")
    if dims > 1:
        return avg_pool(input, size, steps, around, bool(ceil), bool(count_pad), divisor, out=out)
    x = ops.unsqueeze(input, -2)
    return ops.squeeze(avg_pool(x, (1, *size), (1, *steps), (0, *around), bool(ceil), bool(count_pad), None), -2)


@composite
def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """Return the mean of each window of sequences (N, C, L); see `avg_pool2d`."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Any = None,
) -> Any:
    """Return the mean of each window.

    Args:
        input: (N, C, H, W) or (C, H, W).
        count_include_pad: whether zeros of the padding count as elements.
        divisor_override: what to divide by, in place of the number of elements.
    """
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, out)


def avg_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Any = None,
) -> Any:
    """Return the mean of each window of volumes (N, C, D, H, W); see `avg_pool2d`."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, out)


def _lp_pool(dims: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil: bool) -> Any:
    size = per_dim(f"lp_pool{dims}d", "kernel_size", kernel_size, dims)
    area = 1
    for k in size:
        area *= k
    mean = _avg_pool(dims, ops.pow(input, norm_type), size, stride, 0, ceil, True, None)
    return ops.pow(ops.mul(ops.mul(ops.sign(mean), ops.relu(ops.abs(mean))), area), 1.0 / norm_type)


def lp_pool1d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """Return the p-norm of each window of sequences (N, C, L), p being `norm_type`."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """Return the p-norm of each window of images (N, C, H, W), p being `norm_type`."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """Return the p-norm of each window of volumes (N, C, D, H, W), p being `norm_type`."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
