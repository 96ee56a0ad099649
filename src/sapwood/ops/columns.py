"""Windows of images laid out as columns, and back: `unfold` and `fold`."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import ShapeError
from ..kernels import conv as kernel
from .conv import per_dim, widened
from .declare import Plain, op


class _Columns(Plain):
    function = method = False
    inputs = ("input",)
    linear = True
    half = False
    dtypes = "bifc"


@op
class im2col(_Columns):
    """Lay out the windows of images (N, C, H, W) as columns (N, C·kH·kW, windows)."""

    grad_fn = "Im2ColBackward0"

    def canon(a, *attrs):
        if a.ndim not in (3, 4):
            raise ShapeError(f"unfold: input must be (N, C, H, W) or (C, H, W), got shape {a.shape}")
        return _window("unfold", *attrs)

    def forward(input, kernel_size, dilation, padding, stride):
        x = input if input.ndim == 4 else input[None]
        out = kernel.out_sizes(x.shape[2:], kernel_size, stride, padding, dilation)
        if min(out) < 1:
            raise ShapeError(f"unfold: no window of {kernel_size} fits into input {input.shape} with padding {padding}")
        cols = kernel.columns(x, kernel_size, stride, padding, dilation)
        return cols if input.ndim == 4 else cols[0]

    def vjp_input(g, input_shape, kernel_size, dilation, padding, stride):
        return ops.col2im(g, tuple(input_shape[-2:]), kernel_size, dilation, padding, stride)

    samples = lambda rng: [(rng.standard_normal((2, 2, 4, 5)), (2, 3), (1, 1), (1, 0), (2, 1))]


@op
class col2im(_Columns):
    """Add up columns (N, C·kH·kW, windows) where their windows lie in images (N, C, H, W)."""

    grad_fn = "Col2ImBackward0"

    def canon(a, output_size, *attrs):
        output_size = per_dim("fold", "output_size", output_size, 2)
        kernel_size, dilation, padding, stride = _window("fold", *attrs)
        count = kernel.out_sizes(output_size, kernel_size, stride, padding, dilation)
        area = kernel_size[0] * kernel_size[1]
        if a.ndim not in (2, 3) or a.shape[-2] % area or a.shape[-1] != count[0] * count[1]:
            raise ShapeError(
                f"fold: input must be (N, C·{area}, {count[0] * count[1]}) or without N for output_size {output_size} "
                f"and kernel_size {kernel_size}, got {a.shape}"
            )
        return output_size, kernel_size, dilation, padding, stride

    def forward(input, output_size, kernel_size, dilation, padding, stride):
        cols = input if input.ndim == 3 else input[None]
        x = widened(lambda c: kernel.from_columns(c, output_size, kernel_size, stride, padding, dilation), cols)
        return x if input.ndim == 3 else x[0]

    def vjp_input(g, kernel_size, dilation, padding, stride):
        return ops.im2col(g, kernel_size, dilation, padding, stride)

    samples = lambda rng: [(rng.standard_normal((2, 12, 15)), (4, 5), (2, 3), (1, 1), (1, 1), (2, 1))]


def _window(name: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> tuple[tuple[int, ...], ...]:
    given = (("kernel_size", kernel_size, 1), ("dilation", dilation, 1), ("padding", padding, 0), ("stride", stride, 1))
    return tuple(per_dim(name, what, value, 2, least) for what, value, least in given)


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Lay out the windows of images as columns.

    Args:
        input: (N, C, H, W) or (C, H, W).

    Returns:
        (N, C·kH·kW, windows), the windows in row order.
    """
    return im2col(input, kernel_size, dilation, padding, stride)


def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Add up columns (N, C·kH·kW, windows) into images (N, C, *output_size): the adjoint of `unfold`."""
    return col2im(input, output_size, kernel_size, dilation, padding, stride)
