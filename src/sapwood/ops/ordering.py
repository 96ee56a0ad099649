"""Order: `sort`, `argsort`, `msort`, `topk`, `kthvalue`, `median`, `mode`, quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import ShapeError
from .declare import Plain, composite, op
from .extreme import check_ordered, place, places
from .reduce import one_dim
from .selection import resolve, top

_FEW = 2048
"""Elements from which packing keys pays for its many calls."""


def order(a: Any, dim: int, descending: bool) -> Any:
    """Return the indices that sort `a` along `dim`: equals stay in order, NaN counts as the largest."""
    if a.dtype.kind == "V" or a.dtype.name == "bfloat16":
        a = a.astype(np.float32)
    key = _key(a, descending) if a.size > _FEW else None
    n = a.shape[dim]
    if key is None:
        if not descending:
            return a.argsort(dim, "stable")
        turned = np.flip(np.argsort(np.flip(a, dim), dim, kind="stable"), dim)
        return n - 1 - turned
    # Values of 32 bits sort several times faster as whole numbers that carry their position in the low half.
    position = np.arange(n, dtype=np.uint64).reshape((-1,) + (1,) * (a.ndim - dim - 1))
    packed = np.sort((key.astype(np.uint64) << np.uint64(32)) | position, dim)
    return (packed & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _key(a: Any, descending: bool) -> Any:
    """Return uint32 keys whose order is that of the values, None for wider types."""
    kind, size = a.dtype.kind, a.dtype.itemsize
    if kind == "f" and size <= 4:
        x = a.astype(np.float32) + np.float32(0)
        bits = x.view(np.uint32)
        negative = bits >> np.uint32(31) != 0
        key = np.where(negative, ~bits, bits | np.uint32(0x80000000))
        key = np.where(x != x, np.uint32(0xFFFFFFFF), key)
    elif kind in "bu" and size <= 4:
        key = a.astype(np.uint32)
    elif kind == "i" and size <= 4:
        key = (a.astype(np.int64) + 2**31).astype(np.uint32)
    else:
        return None
    return ~key if descending else key


def sorted_pair(name: str, a: Any, dim: int, descending: bool) -> tuple[Any, Any]:
    """Return (values, indices) in order along `dim`."""
    check_ordered(name, a)
    if not a.ndim:
        return a.copy(), np.zeros((), np.int64)
    indices = order(a, dim, descending)
    return a[places(indices, dim, a.shape)], indices


@op
class sort(Plain):
    """Return the values in order along `dim` and the indices where they were; equals stay in order, NaN is largest.

    Example:
        >>> import sapwood
        >>> sapwood.sort(sapwood.tensor([3, 1, 2])).indices
        tensor([1, 2, 0])
    """

    inputs = ("input",)
    outs = ("values", "indices")
    kind = "sort"
    half = False
    dtypes = "bif"
    grad_fn = "SortBackward0 if stable is None else SortBackward1"
    canon = lambda a, dim, descending, stable: (one_dim("sort", a, dim), descending, stable)
    vjp_input = lambda g, indices, input_shape, dim: place(g, indices, input_shape, dim, True)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)),),
        (rng.standard_normal((2, 3)), 0, True),
        (rng.standard_normal(()), 0),
    ]
    forward = lambda input, dim=-1, descending=False, *, stable=None: sorted_pair("sort", input, dim, descending)


@op
class argsort(Plain):
    """Return the indices that put the values in order along `dim`; equals stay in order, NaN is largest."""

    inputs = ("input",)
    kind = "index"
    half = False
    takes_out = False
    dtypes = "bif"
    canon = lambda a, dim, descending, stable: (one_dim("argsort", a, dim), descending, stable)
    samples = lambda rng: [(rng.standard_normal((2, 3)),), (rng.integers(0, 3, (2, 5)), 1, True)]

    def forward(input, dim=-1, descending=False, stable=False):
        check_ordered("argsort", input)
        return order(input, dim, descending) if input.ndim else np.zeros((), np.int64)


@composite(method=True)
def msort(input: Any, *, out: Any = None) -> Any:
    """Sort along the first dimension."""
    from .reduce import into

    return into(ops.sort(input, 0)[0], out)


@op
class topk(Plain):
    """Return the `k` largest (or smallest) values along `dim`, in order, and their indices; NaN is largest.

    Args:
        k: at most the size of `dim`.
        largest: whether to take the largest.
        sorted: accepted; the result is always in order.

    Raises:
        ShapeError: `k` is out of range.
    """

    inputs = ("input",)
    outs = ("values", "indices")
    kind = "sort"
    half = False
    dtypes = "if"
    vjp_input = lambda g, indices, input_shape, dim: place(g, indices, input_shape, dim, True)
    samples = lambda rng: [
        (rng.standard_normal((2, 5)), 2),
        (rng.standard_normal((4, 3)), 3, 0, False),
        (rng.standard_normal(()), 1),
    ]

    def canon(a, k, dim, largest, sorted):
        dim = one_dim("topk", a, dim)
        if not 0 <= k <= (a.shape[dim] if a.ndim else 1):
            raise ShapeError(f"topk: k must lie between 0 and the size of dim {dim}, got {k} for shape {a.shape}")
        return k, dim, largest, sorted

    def forward(input, k, dim=-1, largest=True, sorted=True):
        check_ordered("topk", input)
        if not input.ndim:
            return (input.copy(), np.zeros((), np.int64)) if k else (np.empty(0, input.dtype), np.empty(0, np.int64))
        indices = _top(input, k, dim, largest, sorted)
        return input[places(indices, dim, input.shape)], indices


def _top(a: Any, k: int, dim: int, largest: bool, ordered: bool) -> Any:
    rows = np.moveaxis(a, dim, -1)
    n = rows.shape[-1]
    if rows.dtype.kind == "V" or rows.dtype.name == "bfloat16":
        rows = rows.astype(np.float32)
    key = _key(rows, largest)
    if key is not None and 4 * k < n:
        # Only the chosen few are put in order: the packed keys are all different, so a partition is enough.
        packed = (key.astype(np.uint64) << np.uint64(32)) | np.arange(n, dtype=np.uint64)
        packed = np.sort(np.partition(packed, k, -1)[..., :k], -1)
        found = (packed & np.uint64(0xFFFFFFFF)).astype(np.int64)
    else:
        found = order(rows, rows.ndim - 1, largest)[..., :k]
    if k:
        _settle(rows, found, k, largest, ordered)
    return np.ascontiguousarray(np.moveaxis(found, -1, dim))


def _settle(rows: Any, found: Any, k: int, largest: bool, ordered: bool) -> None:
    """Name those of equal elements that PyTorch names."""
    n = rows.shape[-1]
    flat, at = rows.reshape(-1, n), found.reshape(-1, k)
    chosen = np.take_along_axis(flat, at, 1)
    tied = (chosen[:, 1:] == chosen[:, :-1]).any(1)
    # Only the last chosen value can have equals that were not chosen.
    last = chosen[:, -1:]
    tied |= np.add.reduce(flat == last, 1) > np.add.reduce(chosen == last, 1)
    if tied.any():
        ranks = np.unique(flat, return_inverse=True)[1].reshape(flat.shape)
        resolve(at, tied, -ranks if largest else ranks, lambda key, places: top(key, places, k, ordered))
        if not np.shares_memory(at, found):
            found[...] = at.reshape(found.shape)
