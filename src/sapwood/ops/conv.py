"""Convolutions over 1, 2 and 3 spatial dimensions, and their transposes."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from math import prod
from operator import index
from typing import Any

import numpy as np

from .. import ops
from ..dtypes import F32
from ..errors import ArgumentError, ShapeError, ValueRangeError
from ..kernels import conv as kernel
from .declare import Plain, composite, op
from .matrix import check_dtypes
from .warm import serve


def per_dim(name: str, what: str, value: Any, dims: int, least: int = 1) -> tuple[int, ...]:
    """Return one int per spatial dimension; a single int, or a sequence of one, stands for all.

    Raises:
        ArgumentError: not ints.
        ValueRangeError: not one or `dims` ints, or one is smaller than `least`.
    """
    if type(value) is int:
        found = (value,) * dims
    else:
        try:
            found = tuple(map(index, value)) if hasattr(value, "__iter__") else (index(value),)
        except TypeError:
            raise ArgumentError(f"{name}: {what} must be an int or {dims} ints, got {value!r}") from None
        if len(found) == 1:
            found *= dims
    if len(found) != dims:
        raise ValueRangeError(f"{name}: {what} must be one int or {dims} ints, got {found}")
    if dims and min(found) < least:
        raise ValueRangeError(f"{name}: {what} must be at least {least}, got {found}")
    return found


def widened(function: Callable[..., Any], *arrays: Any) -> Any:
    """Return function(*arrays), computed in float32 and rounded once where the arrays are 16-bit floats."""
    dt = arrays[0].dtype
    if dt.itemsize != 2 or dt.kind not in "fV":
        return function(*arrays)
    return function(*[a if a is None else a.astype(F32) for a in arrays]).astype(dt)


@op
class convolution(Plain):
    """Convolve images with filters (cross-correlation), or the transpose of that; what `conv2d` and its kin call.

    Args:
        input: (N, C, *spatial).
        weight: (O, C / groups, *kernel); transposed: (C, O / groups, *kernel).
        bias: (O,) or None.
        stride, padding, dilation, output_padding: one int or one per spatial dimension, in elements.
        transposed: whether to apply the adjoint, which spreads each element of input over a window of the output.
    """

    inputs = ("input", "weight", "bias")
    optional = ("bias",)
    method = False
    half = False
    takes_out = False
    dtypes = "ifc"

    def canon(a, stride, padding, dilation, transposed, output_padding, groups):
        dims = a.ndim - 2
        stride = per_dim("convolution", "stride", stride, dims)
        padding = per_dim("convolution", "padding", padding, dims, 0)
        dilation = per_dim("convolution", "dilation", dilation, dims)
        output_padding = per_dim("convolution", "output_padding", output_padding, dims, 0)
        if groups < 1:
            raise ValueRangeError(f"convolution: groups must be at least 1, got {groups}")
        return stride, padding, dilation, bool(transposed), output_padding, groups

    def forward(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
        _check(input, weight, bias, stride, padding, dilation, transposed, groups)
        if transposed:
            sizes = tuple(
                [
                    (n - 1) * s - 2 * p + d * (k - 1) + e + 1
                    for n, s, p, d, k, e in zip(
                        input.shape[2:], stride, padding, dilation, weight.shape[2:], output_padding
                    )
                ]
            )
            if min(sizes) < 0:
                raise ShapeError(f"conv_transpose: the output would have sizes {sizes}; lower padding {padding}")
            attrs = sizes, stride, padding, dilation, groups
            image, plain, fast = input.shape, kernel.convolve_transposed, "convolve_transposed"
        else:
            attrs = stride, padding, dilation, groups
            out = kernel.out_sizes(input.shape[2:], weight.shape[2:], stride, padding, dilation)
            image, plain, fast = (input.shape[0], weight.shape[0], *out), kernel.convolve, "convolve"
        if input.dtype.kind in "fV" and serve(_work(image, weight.shape)):
            function = getattr(native(), fast)
            if input.dtype.itemsize > 2:
                return function(input, weight, bias, *attrs)
            y = widened(lambda x, w: function(x, w, None, *attrs), input, weight)
        else:
            y = widened(lambda x, w: plain(x, w, *attrs), input, weight)
        if bias is not None:
            np.add(y, bias.reshape(-1, *(1,) * len(stride)), out=y)
        return y

    def vjp_input(g, weight, input_shape, stride, padding, dilation, transposed, groups):
        none = (0,) * len(stride)
        if not transposed:
            rest = tuple(
                n - ((m - 1) * s - 2 * p + d * (k - 1) + 1)
                for n, m, s, p, d, k in zip(input_shape[2:], g.shape[2:], stride, padding, dilation, weight.shape[2:])
            )
            return ops.convolution(g, weight, None, stride, padding, dilation, True, rest, groups)
        r = ops.convolution(g, weight, None, stride, padding, dilation, False, none, groups)
        # An output_padding larger than the stride adds windows that no element of input made.
        return r if r.shape == input_shape else r[tuple(slice(0, n) for n in input_shape)]

    def vjp_weight(g, input, weight_shape, stride, padding, dilation, transposed, groups):
        image, small = (g, input) if transposed else (input, g)
        return ops.filter_gradient(image, small, tuple(weight_shape[2:]), stride, padding, dilation, groups)

    vjp_bias = lambda g, weight: ops.bias_gradient(g, weight)

    samples = lambda rng: [
        (*(rng.standard_normal(s) for s in ((2, 2, 5), (3, 2, 3), 3)), 1, 1, 1, False, 0, 1),
        (*(rng.standard_normal(s) for s in ((2, 4, 5, 4), (4, 2, 3, 2), 4)), (2, 1), (1, 0), (1, 2), False, 0, 2),
        (*(rng.standard_normal(s) for s in ((2, 4, 3, 3), (4, 1, 3, 2), 2)), (2, 1), 1, 1, True, (1, 0), 2),
        (rng.standard_normal((1, 2, 3, 4, 3)), rng.standard_normal((2, 2, 2, 2, 2)), None, 1, 0, 1, False, 0, 1),
    ]


@functools.cache
def native() -> Any:
    """Return the native functions, which are loaded when first used."""
    return importlib.import_module("sapwood.kernels.conv_native")


def _work(image: tuple[int, ...], weight: tuple[int, ...]) -> int:
    """Return the work of a convolution as a number of elements that kernels count in; one is 16 multiplications.

    Args:
        image: the shape of the side with one channel per filter: the result, or the input if transposed.
    """
    return prod(image) * prod(weight[1:]) // 16


def _check(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: Any, groups: Any
) -> None:
    """Raise what is wrong with the sizes or types of a convolution."""
    name = "conv_transpose" if transposed else "conv"
    dims = input.ndim - 2
    if weight.ndim != input.ndim:
        raise ShapeError(
            f"{name}: input {input.shape} has {dims} spatial dimensions, and weight {weight.shape} {weight.ndim - 2}"
        )
    if (
        weight.dtype is not input.dtype
        or (bias is not None and bias.dtype is not input.dtype)
        or input.dtype.kind == "b"
    ):
        check_dtypes(name, *(a for a in (input, weight, bias) if a is not None))
    if weight.shape[0] % groups or not weight.shape[0]:
        raise ShapeError(
            f"{name}: weight.shape[0] must be divisible by groups, weight is {weight.shape}, groups {groups}"
        )
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    if input.shape[1] != channels:
        of = "weight.shape[0]" if transposed else "weight.shape[1] * groups"
        raise ShapeError(
            f"{name}: input {input.shape} has {input.shape[1]} channels, weight {weight.shape} with groups={groups} "
            f"takes {channels}; input.shape[1] must equal {of}"
        )
    filters = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and bias.shape != (filters,):
        raise ShapeError(f"{name}: bias must have shape ({filters},), one per output channel, got {bias.shape}")
    if transposed:
        return
    for n, k, p, d in zip(input.shape[2:], weight.shape[2:], padding, dilation):
        if n + 2 * p < d * (k - 1) + 1:
            raise ShapeError(
                f"{name}: the kernel is larger than the padded image: input {input.shape}, kernel {weight.shape[2:]}, "
                f"padding {padding}, dilation {dilation}; raise padding or use a smaller kernel"
            )


@op
class filter_gradient(Plain):
    """Return the gradient of a convolution's filters from its input and the gradient of its output."""

    inputs = ("input", "grad")
    function = method = False
    grad_fn = "ConvolutionBackwardBackward0"
    half = False
    takes_out = False

    def forward(input, grad, kernel_size, stride, padding, dilation, groups):
        work = _work(grad.shape, (1, input.shape[1] // groups, *kernel_size))
        able = input.dtype.kind in "fV" and serve(work)
        function = native().filter_gradient if able else kernel.filter_gradient
        return widened(lambda x, g: function(x, g, kernel_size, stride, padding, dilation, groups), input, grad)

    def vjp_input(g, grad, input_shape, stride, padding, dilation, groups):
        rest = tuple(
            n - ((m - 1) * s - 2 * p + d * (k - 1) + 1)
            for n, m, s, p, d, k in zip(input_shape[2:], grad.shape[2:], stride, padding, dilation, g.shape[2:])
        )
        return ops.convolution(grad, g, None, stride, padding, dilation, True, rest, groups)

    def vjp_grad(g, input, grad_shape, stride, padding, dilation, groups):
        r = ops.convolution(input, g, None, stride, padding, dilation, False, (0,) * len(stride), groups)
        return r if r.shape == grad_shape else r[tuple(slice(0, n) for n in grad_shape)]

    samples = lambda rng: [
        (rng.standard_normal((2, 4, 5, 4)), rng.standard_normal((2, 4, 2, 2)), (3, 2), (2, 1), (0, 0), (1, 2), 2)
    ]


@op
class bias_gradient(Plain):
    """Return the gradient of a convolution's bias.

    It does not depend on the filters; like PyTorch's it is recorded as if it did, so that all gradients of a
    convolution can be differentiated together.
    """

    inputs = ("grad", "weight")
    function = method = False
    grad_fn = "ConvolutionBackwardBackward0"
    half = False
    takes_out = False

    def forward(grad, weight):
        if grad.dtype.kind in "fV" and serve(grad.size // 16):
            return widened(native().bias_gradient, grad)
        return widened(lambda g: g.sum((0, *range(2, g.ndim)), dtype=g.dtype), grad)

    vjp_grad = lambda g, grad_shape: ops.expand(ops.reshape(g, (1, -1, *(1,) * (len(grad_shape) - 2))), grad_shape)
    vjp_weight = lambda g, weight: ops.zeros_of(g, weight.shape)
    samples = lambda rng: [(rng.standard_normal((2, 3, 4)), rng.standard_normal((3, 2, 2)))]


# -- the public functions ---------------------------------------------------------------------------------------------


def _batched(name: str, x: Any, dims: int) -> tuple[Any, bool]:
    """Return the input with a batch dimension, and whether that was added."""
    ndim = len(x.shape)
    if ndim not in (dims + 1, dims + 2):
        sizes = "D, H, W"[-3 * dims + 2 :]
        raise ShapeError(
            f"{name}: input must be (N, C, {sizes}) or (C, {sizes}), got {ndim} dimensions, shape {tuple(x.shape)}"
        )
    return (ops.unsqueeze(x, 0), True) if ndim == dims + 1 else (x, False)


def _same(x: Any, weight: Any, stride: Any, dilation: Any, dims: int, name: str) -> tuple[Any, tuple[int, ...]]:
    """Return the input and padding that keep the spatial sizes; what cannot be halved is added to the end."""
    if max(per_dim(name, "stride", stride, dims)) > 1:
        raise ValueRangeError(f"{name}: padding='same' needs stride 1, got stride={stride}")
    total = [d * (k - 1) for d, k in zip(per_dim(name, "dilation", dilation, dims), weight.shape[2:])]
    if any(t % 2 for t in total):
        x = ops.constant_pad_nd(x, [p for t in reversed(total) for p in (0, t % 2)], 0)
    return x, tuple(t // 2 for t in total)


def _conv(dims: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    name = f"conv{dims}d"
    x, added = _batched(name, input, dims)
    if isinstance(padding, str):
        if padding == "same":
            x, padding = _same(x, weight, stride, dilation, dims, name)
        elif padding == "valid":
            padding = 0
        else:
            raise ValueRangeError(f"{name}: padding must be ints, 'same' or 'valid', got {padding!r}")
    y = convolution(x, weight, bias, stride, padding, dilation, False, 0, groups)
    return ops.squeeze(y, 0) if added else y


def _conv_transpose(
    dims: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, extra: Any, groups: int, dilation: Any
) -> Any:
    name = f"conv_transpose{dims}d"
    x, added = _batched(name, input, dims)
    given = [
        per_dim(name, w, v, dims, 0) for w, v in (("output_padding", extra), ("stride", stride), ("dilation", dilation))
    ]
    if any(e >= max(s, d) for e, s, d in zip(*given)):
        raise ValueRangeError(
            f"{name}: output_padding must be smaller than stride or dilation, got output_padding={extra}, "
            f"stride={stride}, dilation={dilation}"
        )
    y = convolution(x, weight, bias, stride, padding, dilation, True, extra, groups)
    return ops.squeeze(y, 0) if added else y


@composite
def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Convolve sequences (N, C, L) with filters (O, C / groups, k); see `conv2d`."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@composite
def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Convolve a batch of images with a bank of filters (cross-correlation).

        out[n, o] = bias[o] + sum_c  input[n, c] ⋆ weight[o, c]

    Args:
        input: (N, C, H, W) or (C, H, W).
        weight: (O, C / groups, kH, kW), dtype of input.
        bias: (O,) or None.
        stride: int or (int, int), at least 1, in elements.
        padding: zeros added on every side, int or (int, int); "valid" for none, "same" for as many as keep the size.
        dilation: distance between the elements of a window, int or (int, int).
        groups: number of blocks that the channels are split into; each meets its own filters only.

    Returns:
        (N, O, H', W') with H' = (H + 2·padding − dilation·(kH − 1) − 1) // stride + 1; dtype of input.

    Raises:
        ShapeError: C does not equal weight.shape[1] × groups, or a window does not fit.

    Reference: Dumoulin and Visin, arXiv:1603.07285.
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


@composite
def conv3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Convolve volumes (N, C, D, H, W) with filters (O, C / groups, kD, kH, kW); see `conv2d`."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


@composite
def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Apply the transpose of `conv1d` to sequences (N, C, L); weight is (C, O / groups, k)."""
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite
def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Apply the transpose of `conv2d`: every element of input adds a multiple of a filter to a window of the output.

    Args:
        input: (N, C, H, W) or (C, H, W).
        weight: (C, O / groups, kH, kW), dtype of input.
        output_padding: rows and columns added to one side of the output, smaller than stride or dilation.

    Returns:
        (N, O, H', W') with H' = (H − 1)·stride − 2·padding + dilation·(kH − 1) + output_padding + 1.
    """
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composite
def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Apply the transpose of `conv3d` to volumes (N, C, D, H, W); weight is (C, O / groups, kD, kH, kW)."""
    return _conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
