"""Sums, means and maxima of rows of a table, bag by bag: `embedding_bag`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import DtypeError, MissingError, ShapeError, ValueRangeError
from ..kernels import gather as kernels
from ..tensor import wrap
from .conv import widened
from .declare import Plain, composite, op
from .lookup import add_rows, check_indices, padding_row, renorm
from .warm import serve

MODES = {"sum": 0, "mean": 1, "max": 2}


def bags(offsets: Any, count: int, last: bool) -> Any:
    """Return the bag of each index; bags start at `offsets`, whose last entry is an end if `last`."""
    if offsets.size == 0 or (offsets[0] != 0 and offsets.size > last):
        first = "none" if offsets.size == 0 else offsets[0]
        raise ValueRangeError(f"embedding_bag: the first bag starts at 0, but offsets[0] is {first}")
    if offsets[-1] > count:
        raise ValueRangeError(f"embedding_bag: offsets end at {offsets[-1]}, beyond the {count} indices")
    ends = offsets[1:] if last else np.append(offsets[1:], count)
    return np.repeat(np.arange(len(ends)), ends - offsets[: len(ends)])


def _largest(rows: Any, bag: Any, indices: Any, count: int) -> tuple[Any, Any]:
    """Return the largest element of each bag and column, and the index of the row it comes from."""
    best = np.zeros((count, rows.shape[1]), rows.dtype)
    at = np.zeros(best.shape, np.int64)
    starts = np.flatnonzero(np.concatenate(([True], bag[1:] != bag[:-1]))) if bag.size else bag
    if starts.size:
        top = np.maximum.reduceat(rows, starts, axis=0)
        full = np.repeat(top, np.diff(np.append(starts, bag.size)), axis=0)
        place = np.where(rows == full, np.arange(bag.size)[:, None], bag.size - 1)
        best[bag[starts]] = top
        at[bag[starts]] = indices[np.minimum.reduceat(place, starts, axis=0)]
    return best, at


def _summed(weight: Any, used: Any, own: Any, factors: Any, count: int) -> Any:
    """Return the sum of each bag's rows of the table, `used`, each times its factor if there are factors."""
    width = weight.shape[1]
    if kernels.combines(weight.dtype) and weight.flags.aligned and serve(used.size * width):
        out = np.zeros((count, width), weight.dtype)
        factors = None if factors is None else np.ascontiguousarray(factors, weight.dtype)
        places = kernels.along(kernels.wide(own), 1, width)
        kernels.combine("add", out[None], places, weight[None], kernels.wide(used), factors)
        return out
    if factors is None:
        return widened(lambda r: add_rows(own, r, count), weight[used])
    return widened(lambda r, f: add_rows(own, r * f, count), weight[used], factors[:, None])


@op
class bag_reduction(Plain):
    """Reduce rows of a table, bag by bag; also return each index's bag, the bags' sizes, and where maxima came from."""

    inputs = ("weight", "indices", "offsets", "per_sample_weights")
    optional = ("per_sample_weights",)
    outs = ("result0", "result1", "result2", "result3")
    function = method = False
    half = False
    takes_out = False
    grad_fn = "EmbeddingBagBackward0"

    def forward(
        weight, indices, offsets, per_sample_weights, scale_grad_by_freq, mode, include_last_offset, padding_idx
    ):
        check_indices("embedding_bag", indices, weight.shape[0])
        bag = bags(offsets, indices.size, include_last_offset)
        count = offsets.size - include_last_offset
        used, own = indices[: bag.size], bag
        factors = None if per_sample_weights is None else per_sample_weights[: bag.size]
        if padding_idx >= 0:
            kept = used != padding_idx
            used, own = used[kept], own[kept]
            factors = None if factors is None else factors[kept]
        sizes = np.bincount(own, minlength=count)
        if mode == 2:
            best, at = _largest(weight[used], own, used, count)
            return best, bag, sizes, at
        out = _summed(weight, used, own, factors, count)
        if mode == 1:
            out = (out / np.maximum(sizes, 1)[:, None]).astype(out.dtype)
        return out, bag, sizes, sizes

    def vjp_weight(
        g, indices, per_sample_weights, weight_shape, result1, result2, result3, scale_grad_by_freq, mode, padding_idx
    ):
        if mode == 2:
            g = g * ops.unsqueeze(result2 > 0, -1)
            return ops.scatter_image(g.mT, result3.mT, None, (weight_shape[0],), True).mT
        if mode == 1:
            g = g / ops.unsqueeze(result2 + (result2 == 0), -1)
        rows = ops.embedding(g, result1)
        used = indices[: result1.shape[0]]
        if per_sample_weights is not None:
            rows = rows * ops.unsqueeze(per_sample_weights[: result1.shape[0]], -1)
        return ops.embedding_gradient(rows, used, weight_shape[0], padding_idx, scale_grad_by_freq)

    def vjp_per_sample_weights(g, weight, indices, result1, padding_idx):
        used = indices[: result1.shape[0]]
        shares = ops.sum(ops.embedding(g, result1) * ops.embedding(weight, used), -1)
        return shares * (used != padding_idx)

    samples = lambda rng: (
        [
            (rng.standard_normal((5, 3)), np.array([1, 2, 2, 4]), np.array([0, 3, 3]), None, False, mode, False, -1)
            for mode in (0, 1, 2)
        ]
        + [
            (
                rng.standard_normal((5, 3)),
                np.array([1, 2, 4]),
                np.array([0, 2]),
                rng.standard_normal(3),
                False,
                0,
                False,
                -1,
            )
        ]
    )


@composite(name="embedding_bag")
def embedding_bag_parts(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Reduce rows of a table, bag by bag; nn.functional.embedding_bag is the usual form.

    Returns:
        The reduced rows, each index's bag, the bags' sizes, and for maxima the rows they come from.
    """
    padding = padding_row("embedding_bag", padding_idx, weight.shape[0])
    parts = (bool(scale_grad_by_freq), int(mode), bool(include_last_offset), padding)
    return tuple(bag_reduction(weight, indices, offsets, per_sample_weights, *parts))


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Return the sum, mean or maximum of rows of a table, for every bag of indices.

    Args:
        input: (bags, size) indices; or all indices in one dimension, with offsets.
        weight: (rows, width).
        offsets: where each bag starts, for 1-D input.
        mode: "sum", "mean" or "max".
        per_sample_weights: of input's shape; what multiplies each row before summing.
        include_last_offset: whether the last offset is the end of the last bag.
        padding_idx: a row that bags leave out.

    Returns:
        (bags, width); zeros for an empty bag.
    """
    if mode not in MODES:
        raise ValueRangeError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', got {mode!r}")
    if per_sample_weights is not None and tuple(per_sample_weights.shape) != tuple(input.shape):
        raise ShapeError(
            f"embedding_bag: per_sample_weights must have the shape of input, {tuple(input.shape)}, got "
            f"{tuple(per_sample_weights.shape)}"
        )
    if weight.dtype.is_floating_point is False:
        raise DtypeError(f"embedding_bag: weight must be of a floating-point type, got {weight.dtype}")
    if len(input.shape) == 2:
        if offsets is not None:
            raise ValueRangeError("embedding_bag: the rows of 2-D input are the bags; leave out offsets")
        count, size = input.shape
        offsets = wrap(np.arange(count, dtype=np.int64) * size)
        input = ops.reshape(input, (count * size,))
        if per_sample_weights is not None:
            per_sample_weights = ops.reshape(per_sample_weights, (count * size,))
    elif len(input.shape) != 1:
        raise ValueRangeError(f"embedding_bag: input must have 1 or 2 dimensions, got shape {tuple(input.shape)}")
    elif offsets is None or len(offsets.shape) != 1:
        raise ValueRangeError("embedding_bag: 1-D input needs 1-D offsets, the place where each bag starts")
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise ValueRangeError("embedding_bag: maxima have neither scale_grad_by_freq nor sparse gradients")
    if per_sample_weights is not None and mode != "sum":
        raise MissingError(f"embedding_bag: per_sample_weights go with mode='sum' only, got mode={mode!r}")
    if max_norm is not None:
        renorm(weight, input, max_norm, norm_type)
    return embedding_bag_parts(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]
