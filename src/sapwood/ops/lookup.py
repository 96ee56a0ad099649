"""Rows of a table by index: `embedding`, `embedding_bag`, `one_hot`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..cuts import read
from ..errors import ArgumentError, DimError, DtypeError, ValueRangeError
from ..kernels import gather as kernels
from ..state import GRAD, get_mode
from ..tensor import Tensor, wrap
from . import slow
from .declare import Plain, op
from .inplace import in_place
from .warm import serve

ROUNDS = 8
"""Occurrences of a row that are added for all rows at once."""


def check_indices(name: str, indices: Any, rows: int) -> None:
    """Raise unless `indices` are integers in [0, rows)."""
    if indices.dtype not in (np.int64, np.int32):
        raise DtypeError(f"{name}: indices must be int64 or int32, got {indices.dtype}; convert with .long()")
    # As unsigned numbers, negative ones are too large: one look serves both ends.
    if indices.size and np.maximum.reduce(indices.view(f"u{indices.itemsize}"), None) >= rows:
        worst = indices.min() if indices.min() < 0 else indices.max()
        raise DimError(f"{name}: index {worst} is out of range, the table has {rows} rows, 0 to {rows - 1}")


def add_rows(indices: Any, values: Any, rows: int) -> Any:
    """Return a table of `rows` rows in which values[i] was added to row indices[i]."""
    width = values.shape[1]
    wanted = values.dtype
    dt = np.dtype(np.float32) if wanted.itemsize == 2 and wanted.kind in "fV" else wanted
    out = np.zeros((rows, width), dt)
    if not indices.size or not width:
        return out.astype(wanted)
    if dt == wanted and kernels.combines(dt) and values.flags.aligned and serve(values.size):
        check_indices("embedding", indices, rows)
        kernels.combine("add", out[None], kernels.along(kernels.wide(indices), 1, width), values[None])
        return out
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(np.append(starts, ordered.size))
    often = np.argsort(-counts, kind="stable")
    starts, counts = starts[often], counts[often]
    values = values[order].astype(dt, copy=False)
    sums = values[starts]
    # First all second values, all third ones …, which is fast for rows met a few times; then row by row.
    for r in range(1, ROUNDS):
        more = int(np.searchsorted(-counts, -r))
        if not more:
            break
        sums[:more] += values[starts[:more] + r]
    for i in range(int(np.searchsorted(-counts, -ROUNDS))):
        sums[i] += np.add.reduce(values[starts[i] + ROUNDS : starts[i] + counts[i]])
    out[ordered[starts]] = sums
    return out.astype(wanted, copy=False)


@op
class embedding(Plain):
    """Look up rows of a table: the form torch.embedding; nn.functional.embedding takes the indices first.

    Args:
        weight: (rows, width).
        indices: any shape, int64 or int32.
        padding_idx: a row that gets no gradient, -1 for none.
        scale_grad_by_freq: whether a row's gradient is divided by how often it was looked up.

    Returns:
        (*indices.shape, width), dtype of weight.
    """

    inputs = ("weight", "indices")
    method = False
    half = False
    takes_out = False

    def forward(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
        check_indices("embedding", indices, weight.shape[0])
        return weight.take(indices, 0)

    def vjp_weight(g, indices, weight_shape, padding_idx, scale_grad_by_freq):
        return ops.embedding_gradient(g, indices, weight_shape[0], padding_idx, scale_grad_by_freq)

    samples = lambda rng: [
        (rng.standard_normal((4, 3)), rng.integers(0, 4, (2, 3))),
        (rng.standard_normal((4, 3)), np.array(2)),
    ]
    reference = lambda weight, indices, *rest: weight[indices]


@op
class embedding_gradient(Plain):
    """Return the gradient of a table: each row of `grad` added to the row it was looked up from."""

    inputs = ("grad", "indices")
    function = method = False
    half = False
    takes_out = False
    linear = True
    grad_fn = "EmbeddingDenseBackwardBackward0"

    def forward(grad, indices, rows, padding_idx, scale):
        return add_rows(*_kept(grad, indices, rows, padding_idx, scale), rows)

    def vjp_grad(g, indices, grad_shape, padding_idx, scale):
        rows = ops.embedding(g, indices)
        return rows * ops.row_factor(indices, g, padding_idx, scale) if scale or padding_idx >= 0 else rows

    samples = lambda rng: [(rng.standard_normal((2, 3, 2)), rng.integers(0, 4, (2, 3)), 4, 1, True)]


def _kept(grad: Any, indices: Any, rows: int, padding_idx: int, scale: bool) -> tuple[Any, Any]:
    flat = indices.reshape(-1)
    values = grad.reshape(flat.size, grad.shape[-1])
    if scale and flat.size:
        values = values / np.bincount(flat, minlength=rows)[flat][:, None].astype(values.dtype)
    if padding_idx >= 0:
        keep = flat != padding_idx
        flat, values = flat[keep], values[keep]
    return flat, values


@op
class row_factor(Plain):
    """Return what multiplies each looked-up row's gradient: 0 for padding, 1 / count when scaling by frequency."""

    inputs = ("indices", "like")
    function = method = False
    half = False
    takes_out = False

    def forward(indices, like, padding_idx, scale):
        factor = np.ones(indices.shape, like.dtype)
        if scale and indices.size:
            flat = indices.reshape(-1)
            factor = factor / np.bincount(flat)[flat].reshape(indices.shape).astype(like.dtype)
        if padding_idx >= 0:
            factor = factor * (indices != padding_idx)
        return factor[..., None].astype(like.dtype)

    samples = lambda rng: [(rng.integers(0, 4, (2, 3)), rng.standard_normal(2), 1, True)]


def padding_row(name: str, padding_idx: int | None, rows: int) -> int:
    """Return the padding row counted from the front, -1 for none."""
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        raise ValueRangeError(f"{name}: padding_idx {padding_idx} is out of range for a table of {rows} rows")
    return padding_idx % rows


@op
class embedding_renorm(Plain):
    """Scale down the rows that are looked up and whose norm exceeds `max_norm`."""

    inputs = ("input", "indices")
    function = method = False
    takes_out = False
    half = False
    samples = lambda rng: [(rng.standard_normal((4, 3)), np.array([0, 2, 2]), 0.5, 2.0)]

    def forward(input, indices, max_norm, norm_type):
        out = input.copy()
        _scale_rows(out, indices, max_norm, norm_type)
        return out


def _scale_rows(table: Any, indices: Any, max_norm: float, norm_type: float) -> bool:
    """Scale rows of a table in place; return whether there was any to scale."""
    used = np.unique(indices)
    rows = table[used]
    norms = np.linalg.norm(rows, norm_type, axis=1)
    large = norms > max_norm
    if not large.any():
        return False
    # PyTorch adds 1e-7 before dividing.
    table[used[large]] = (rows[large] * (max_norm / (norms[large] + 1e-7))[:, None]).astype(table.dtype)
    return True


def renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale down, in place, the looked-up rows whose norm exceeds `max_norm`."""
    from .. import alias

    table = weight._array
    if get_mode() & GRAD and weight._node is not None and not weight.is_leaf:
        raise ArgumentError(
            "embedding: max_norm changes weight in place, so weight must be a leaf; pass weight.detach()"
        )
    check_indices("embedding", indices._array, table.shape[0])
    if slow.watched(weight, indices):
        from ..autograd.mode import no_grad

        with no_grad():
            in_place(embedding_renorm.op, weight, (indices,), (max_norm, norm_type), "embedding_renorm_")
    elif _scale_rows(table, indices._array, max_norm, norm_type):
        alias.stamp(weight, "embedding_renorm_")


def lookup(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Look up rows of a table.

    Args:
        input: indices of any shape, int64 or int32.
        weight: (rows, width).
        padding_idx: a row that gets no gradient.
        max_norm: rows with a larger norm are scaled down to it, in weight itself.
        norm_type: the p of that norm.
        scale_grad_by_freq: whether a row's gradient is divided by how often it was looked up.

    Returns:
        (*input.shape, width), dtype of weight.

    Raises:
        DimError: an index outside [0, rows).
    """
    padding = padding_row("embedding", padding_idx, weight.shape[0])
    if max_norm is not None:
        renorm(weight, input, max_norm, norm_type)
    return ops.embedding(weight, input, padding, scale_grad_by_freq, sparse)


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Return an int64 tensor with a 1 at each class index and 0 elsewhere.

    Args:
        tensor: class indices of any shape, int64.
        num_classes: the size of the new last dimension, one more than the largest index if -1.

    Example:
        >>> import sapwood
        >>> sapwood.nn.functional.one_hot(sapwood.tensor([0, 2]))
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
    a = tensor._array
    if a.dtype != np.int64:
        raise DtypeError(f"one_hot: class indices must be int64, got {a.dtype}; convert with .long()")
    if hasattr(type(tensor), "__sapwood_op__") and num_classes > 0:
        # Under a transform the values cannot be looked at.
        return ops.eq(ops.unsqueeze(tensor, -1), ops.arange(num_classes)).to(tensor.dtype)
    if not a.size and num_classes <= 0:
        raise ValueRangeError("one_hot: an empty tensor says nothing about the classes; give num_classes")
    if a.size and a.min() < 0:
        raise ValueRangeError(f"one_hot: class indices must not be negative, got {a.min()}")
    if num_classes == -1:
        read("one_hot()", tensor)
        num_classes = int(a.max()) + 1
    if num_classes < 1 or (a.size and a.max() >= num_classes):
        raise ValueRangeError(
            f"one_hot: num_classes {num_classes} must exceed every class index, the largest is {a.max()}"
        )
    if slow.watched(tensor):
        return ops.eq(ops.unsqueeze(tensor, -1), ops.arange(num_classes)).to(tensor.dtype)
    return wrap((a[..., None] == np.arange(num_classes)).astype(np.int64))
