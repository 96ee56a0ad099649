"""Repetition without memory: `expand`, `broadcast_to`, `broadcast_tensors`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ..errors import ArgumentError, ShapeError
from ..tensor import Size, Tensor
from .declare import View, composite, op
from .sizes import ints


@op
class expand(View):
    """Repeat dimensions of size 1 to `size` without using memory; -1 keeps a size, new dimensions come in front."""

    function = False
    method = "(input, *size, implicit=False)"
    # The engine sums a gradient over what was repeated.
    vjp_input = lambda g: g
    samples = lambda rng: [
        (rng.standard_normal((3, 1)), (3, 4)),
        (rng.standard_normal((3, 1)), (2, -1, 4)),
        (rng.standard_normal(()), (2,)),
    ]
    reference = lambda input, size: np.broadcast_to(
        input,
        size[: len(size) - input.ndim] + tuple(m if n < 0 else n for n, m in zip(size[-input.ndim :], input.shape)),
    )

    def canon(a, size, implicit):
        size = ints("expand", "size", size)
        shape = a.shape
        new = len(size) - len(shape)
        if new < 0:
            raise ShapeError(f"expand: at least the {len(shape)} sizes of the tensor {shape} must be given, got {size}")
        if new and min(size[:new]) < 0:
            raise ShapeError(f"expand: a new dimension in front needs a size, got {size} for a tensor of shape {shape}")
        full = size[:new] + tuple([m if n == -1 else n for n, m in zip(size[new:], shape)])
        if any(n != m and (m != 1 or n < 0) for n, m in zip(full[new:], shape)):
            raise ShapeError(
                f"expand: sizes {size} do not fit a tensor of shape {shape}; only a dimension of size 1 can be repeated"
            )
        return full, bool(implicit)

    def forward(input, size, implicit=False):
        if input.size and input.flags.c_contiguous:
            new = len(size) - input.ndim
            strides = (0,) * new + tuple(
                [0 if n != m else s for n, m, s in zip(size[new:], input.shape, input.strides)]
            )
            return ndarray(size, input.dtype, input, 0, strides)
        out = np.broadcast_to(input, size)
        # Where nothing is repeated, or of a part of it, writing is well defined; the in-place checks refuse the rest.
        out.flags.writeable = input.flags.writeable
        return out


@composite(method=True, function_name=False)
def expand_as(input: Any, other: Tensor) -> Any:
    """Repeat dimensions of size 1 to the shape of `other`."""
    return expand(input, tuple(other.shape))


@composite
def broadcast_to(input: Any, size: Any) -> Any:
    """Repeat dimensions of size 1 to `size` without using memory."""
    return expand(input, size)


@composite(name="broadcast_to", method=True, function_name=False)
def _broadcast_to(input: Any, *size: Any) -> Any:
    """Repeat dimensions of size 1 to `size`, given as one sequence or as numbers, without using memory."""
    return expand(input, size[0] if len(size) == 1 and not isinstance(size[0], int) else size)


@composite
def broadcast_shapes(*shapes: Any) -> Any:
    """Return the shape that tensors of these shapes broadcast to."""
    sizes = [ints("broadcast_shapes", "shapes", s) for s in shapes]
    if any(n < 0 for s in sizes for n in s):
        raise ShapeError(f"broadcast_shapes: sizes must not be negative, got {', '.join(map(str, sizes))}")
    try:
        return Size(np.broadcast_shapes(*sizes))
    except ValueError:
        raise ShapeError(
            f"broadcast_shapes: {', '.join(map(str, sizes))} do not fit; from the last dimension on, sizes must be "
            "equal or 1"
        ) from None


@composite
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Expand all tensors to their common shape."""
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise ArgumentError(f"broadcast_tensors: argument {i} must be a tensor, got {type(t).__name__}")
    shape = tuple(broadcast_shapes(*(t.shape for t in tensors)))
    return tuple(t if tuple(t.shape) == shape else expand(t, shape) for t in tensors)


__all__ = ["broadcast_shapes", "expand"]
