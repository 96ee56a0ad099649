"""Views of a part: `select`, slices, `narrow`, `diagonal`, `unfold`, and the ops that write such a part."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import DimError, ShapeError, ValueRangeError
from ..tensor import Tensor
from .declare import Movement, View, composite, op
from .sizes import check_index, one_dim, one_int

ALL = slice(None)


@op
class select(View):
    """Return the slice at `index` along `dim`, without that dimension."""

    vjp_input = lambda g, input_shape, dim, index: ops.select_backward(g, input_shape, dim, index)
    samples = lambda rng: [(rng.standard_normal((2, 3, 4)), 1, 2), (rng.standard_normal(3), -1, -1)]
    reference = lambda input, dim, index: np.take(input, index, dim)

    def canon(a, dim, index):
        if not a.ndim:
            raise DimError("select: a 0-dim tensor has no dimension to select from")
        dim = one_dim("select", dim, a.ndim)
        return dim, check_index("select", one_int("select", "index", index), dim, a.shape[dim])

    def forward(input, dim, index):
        return input[(ALL,) * dim + (index, Ellipsis)]


@op
class select_backward(Movement):
    """Return zeros of `size` with `input` at `index` along `dim`: the gradient of `select`."""

    function = method = False
    takes_out = False
    vjp_input = lambda g, dim, index: ops.select(g, dim, index)
    samples = lambda rng: [(rng.standard_normal((2, 4)), (2, 3, 4), 1, 2)]

    def forward(input, size, dim, index):
        out = np.zeros(size, input.dtype)
        out[(ALL,) * dim + (index,)] = input
        return out


@op
class slice_(View):
    """Return every `step`-th slice from `start` up to `end` along `dim`."""

    function = method = False
    grad_fn = "SliceBackward0"
    vjp_input = lambda g, input_shape, dim, start, end, step: ops.slice_backward(g, input_shape, dim, start, end, step)
    samples = lambda rng: [
        (rng.standard_normal((2, 7)), 1, 1, 6, 2),
        (rng.standard_normal((2, 7)), 0, None, None, 1),
        (rng.standard_normal(4), 0, 3, 1, 1),
    ]

    def canon(a, dim, start, end, step):
        if type(start) is type(end) is int and 0 <= dim < a.ndim and 0 <= start <= end <= a.shape[dim] and step > 0:
            return dim, start, end, step
        dim = one_dim("slice", dim, a.ndim)
        if step < 1:
            raise ValueRangeError(f"slice: the step must be at least 1, got {step}; use flip(...) to reverse")
        return dim, *slice(start, end, step).indices(a.shape[dim])

    def forward(input, dim, start, end, step):
        return input[(ALL,) * dim + (slice(start, end, step),)]


@op
class slice_backward(Movement):
    """Return zeros of `size` with `input` in a slice along `dim`: the gradient of a slice."""

    function = method = False
    takes_out = False
    vjp_input = lambda g, dim, start, end, step: ops.slice(g, dim, start, end, step)
    samples = lambda rng: [(rng.standard_normal((2, 3)), (2, 7), 1, 1, 6, 2)]

    def forward(input, size, dim, start, end, step):
        out = np.zeros(size, input.dtype)
        out[(ALL,) * dim + (slice(start, end, step),)] = input
        return out


@composite(method=True)
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """Return `length` slices from `start` on along `dim`."""
    if not input.ndim:
        raise ShapeError("narrow: a 0-dim tensor has no dimension to narrow")
    d = one_dim("narrow", dim, input.ndim)
    size = input.shape[d]
    length = one_int("narrow", "length", length)
    if isinstance(start, Tensor) and (start.ndim or start.dtype.category != 1):
        raise ShapeError(f"narrow: start must be an int or a 0-dim integer tensor, got {start.dtype} {start.shape}")
    start = one_int("narrow", "start", start)
    if length < 0:
        raise ShapeError(f"narrow: length must not be negative, got {length}")
    if not -size <= start <= size:
        raise DimError(f"narrow: start must lie in [{-size}, {size}] for dimension {d} of size {size}, got {start}")
    start += size if start < 0 else 0
    if start + length > size:
        raise ShapeError(f"narrow: {start} + {length} is beyond the size {size} of dimension {d}")
    return slice_(input, d, start, start + length, 1)


@op
class diagonal(View):
    """Return the diagonal of two dimensions as a new last one; `offset` > 0 is above the main diagonal."""

    vjp_input = lambda g, input_shape, offset, dim1, dim2: ops.diagonal_backward(g, input_shape, offset, dim1, dim2)
    samples = lambda rng: [
        (rng.standard_normal((3, 4)),),
        (rng.standard_normal((3, 4)), -1),
        (rng.standard_normal((2, 3, 4)), 1, 0, 2),
        (rng.standard_normal((3, 4)), 5),
    ]
    reference = lambda input, offset=0, dim1=0, dim2=1: np.diagonal(input, offset, dim1, dim2)

    def canon(a, offset, dim1, dim2):
        first, second = one_dim("diagonal", dim1, a.ndim), one_dim("diagonal", dim2, a.ndim)
        if first == second:
            raise ShapeError(f"diagonal: dim1 and dim2 must differ, both are dimension {first}")
        return one_int("diagonal", "offset", offset), first, second

    def forward(input, offset=0, dim1=0, dim2=1):
        out = input.diagonal(offset, dim1, dim2)
        # NumPy returns a read-only array; the memory is the input's.
        out.flags.writeable = input.flags.writeable
        return out


@op
class diagonal_backward(Movement):
    """Return zeros of `size` with `input` on a diagonal: the gradient of `diagonal`."""

    function = method = False
    takes_out = False
    vjp_input = lambda g, offset, dim1, dim2: ops.diagonal(g, offset, dim1, dim2)
    samples = lambda rng: [(rng.standard_normal(3), (3, 4), 0, 0, 1)]

    def forward(input, size, offset, dim1, dim2):
        out = np.zeros(size, input.dtype)
        on = out.diagonal(offset, dim1, dim2)
        on.flags.writeable = True
        on[...] = input
        return out


@op
class unfold(View):
    """Return windows of `size` slices, `step` apart, along `dimension`; the window is a new last dimension."""

    function = False
    vjp_input = lambda g, input_shape, dimension, size, step: ops.unfold_backward(g, input_shape, dimension, size, step)
    samples = lambda rng: [
        (rng.standard_normal(7), 0, 3, 2),
        (rng.standard_normal((2, 5)), 1, 2, 1),
        (rng.standard_normal((4, 2)), -2, 2, 3),
    ]
    reference = lambda input, dimension, size, step: np.lib.stride_tricks.sliding_window_view(input, size, dimension)[
        (slice(None),) * (dimension % input.ndim) + (slice(None, None, step),)
    ]

    def canon(a, dimension, size, step):
        dim = one_dim("unfold", dimension, a.ndim)
        size, step = one_int("unfold", "size", size), one_int("unfold", "step", step)
        if step < 1 or size < 0:
            raise ShapeError(f"unfold: size must not be negative and step at least 1, got {size} and {step}")
        extent = a.shape[dim] if a.ndim else 1
        if size > extent:
            raise ShapeError(f"unfold: the window of {size} is larger than dimension {dim}, which has {extent}")
        return dim, size, step

    def forward(input, dimension, size, step):
        if not input.ndim:
            return input.reshape(1)[:size]
        count = (input.shape[dimension] - size) // step + 1
        shape = (*input.shape[:dimension], count, *input.shape[dimension + 1 :], size)
        along = input.strides[dimension]
        strides = (*input.strides[:dimension], along * step, *input.strides[dimension + 1 :], along)
        return np.lib.stride_tricks.as_strided(input, shape, strides)


@op
class unfold_backward(Movement):
    """Add windows back to where they came from: the gradient of `unfold`."""

    function = method = False
    takes_out = False
    vjp_input = lambda g, dimension, size, step: ops.unfold(g, dimension, size, step)
    samples = lambda rng: [(rng.standard_normal((3, 3)), (7,), 0, 3, 2)]

    def forward(input, input_size, dimension, size, step):
        out = np.zeros(input_size, input.dtype)
        if not out.ndim:
            return input.sum(dtype=input.dtype).reshape(()) if size else out
        windows = np.moveaxis(input, -1, 0)
        span = step * input.shape[dimension]
        # One pass per place within the window: places of one pass never meet, so plain slices add them up.
        for k in range(size):
            out[(ALL,) * dimension + (slice(k, k + span - step + 1, step),)] += windows[k]
        return out


# -- writing a part ---------------------------------------------------------------------------------------------------


def _scatter(name, input, src, part):
    """Return a copy of `input` whose `part` (a function from array to view) holds `src`."""
    out = input.copy()
    target = part(out)
    if src.shape != target.shape:
        raise ShapeError(f"{name}: src must have the shape of the part it replaces, {target.shape}, got {src.shape}")
    target[...] = src
    return out


class Scatter(Movement):
    """A copy of `input` with a part replaced by `src`."""

    inputs = ("input", "src")


@op
class select_scatter(Scatter):
    """Return a copy of `input` whose slice at `index` along `dim` is `src`."""

    vjp_input = lambda g, dim, index: ops.select_scatter(g, ops.zeros_like(ops.select(g, dim, index)), dim, index)
    vjp_src = lambda g, dim, index: ops.select(g, dim, index)
    canon = lambda a, dim, index: select.op.canon(a, dim, index)
    forward = lambda input, src, dim, index: _scatter(
        "select_scatter", input, src, lambda a: select.op.forward(a, dim, index)
    )
    samples = lambda rng: [(rng.standard_normal((2, 3)), rng.standard_normal(2), 1, -1)]


@op
class slice_scatter(Scatter):
    """Return a copy of `input` with `src` in the slice start:end:step along `dim`."""

    vjp_input = lambda g, dim, start, end, step: ops.slice_scatter(
        g, ops.zeros_like(ops.slice(g, dim, start, end, step)), dim, start, end, step
    )
    vjp_src = lambda g, dim, start, end, step: ops.slice(g, dim, start, end, step)
    canon = lambda a, dim, start, end, step: slice_.op.canon(a, dim, start, end, step)
    forward = lambda input, src, dim=0, start=None, end=None, step=1: _scatter(
        "slice_scatter", input, src, lambda a: slice_.op.forward(a, dim, start, end, step)
    )
    samples = lambda rng: [(rng.standard_normal((2, 5)), rng.standard_normal((2, 2)), 1, 1, 4, 2)]


@op
class diagonal_scatter(Scatter):
    """Return a copy of `input` with `src` on a diagonal."""

    vjp_input = lambda g, offset, dim1, dim2: ops.diagonal_scatter(
        g, ops.zeros_like(ops.diagonal(g, offset, dim1, dim2)), offset, dim1, dim2
    )
    vjp_src = lambda g, offset, dim1, dim2: ops.diagonal(g, offset, dim1, dim2)
    canon = lambda a, offset, dim1, dim2: diagonal.op.canon(a, offset, dim1, dim2)
    forward = lambda input, src, offset=0, dim1=0, dim2=1: _scatter(
        "diagonal_scatter", input, src, lambda a: diagonal.op.forward(a, offset, dim1, dim2)
    )
    samples = lambda rng: [(rng.standard_normal((3, 4)), rng.standard_normal(3), 1)]


__all__ = ["diagonal", "narrow", "select", "slice_", "unfold"]
