"""Membership and places: `unique`, `searchsorted`, `bucketize`, `nonzero`, `argwhere`, `isin`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError, ValueRangeError
from ..tensor import Tensor, wrap
from . import slow
from .declare import Plain, composite, op, todo
from .extreme import check_ordered
from .reduce import one_dim


@op
class unique2(Plain):
    """Return (values in order, where each element went, how often each occurs)."""

    inputs = ("input",)
    function = method = False
    many = True
    half = False
    kind = "index"
    dtypes = "bif"
    grad_fn = "Unique2Backward0"
    vjp_input = todo
    samples = lambda rng: [(np.array([2, 1, 2]), None), (np.array([[1, 2], [1, 2]]), 0)]

    def forward(input, dim):
        check_ordered("unique", input)
        values, inverse, counts = np.unique(input, False, True, True, axis=dim, equal_nan=False)
        return values, inverse.reshape(input.shape if dim is None else -1), counts


@op
class runs(Plain):
    """Return (values, where each element went, how often each occurs) of runs of equal neighbours."""

    inputs = ("input",)
    function = method = False
    many = True
    half = False
    kind = "index"
    dtypes = "bif"
    grad_fn = "UniqueConsecutiveBackward0"
    vjp_input = todo
    samples = lambda rng: [(np.array([1, 1, 2, 1]), None), (np.array([[1, 2], [1, 2]]), 0)]

    def forward(input, dim):
        x = input.reshape(-1) if dim is None else input
        d = 0 if dim is None else dim
        n = x.shape[d]
        rows = np.moveaxis(x, d, 0).reshape(n, -1) if n else x.reshape(0, 1)
        new = np.ones(n, bool)
        new[1:] = (rows[1:] != rows[:-1]).any(1)
        starts = np.flatnonzero(new)
        inverse = np.cumsum(new) - 1
        counts = np.diff(starts, append=n)
        return np.take(x, starts, d), inverse.reshape(input.shape) if dim is None else inverse, counts


def _asked(parts: Any, return_inverse: bool, return_counts: bool) -> Any:
    found = (parts[0], *((parts[1],) if return_inverse else ()), *((parts[2],) if return_counts else ()))
    return found[0] if len(found) == 1 else found


@composite(method=True)
def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    """Return the distinct elements in order, or the distinct slices along `dim`.

    Args:
        sorted: accepted; the result is always in order.
        return_inverse: also return where each element went.
        return_counts: also return how often each occurs.
    """
    dim = dim if dim is None else one_dim("unique", input._array, dim)
    return _asked(unique2(input, dim), return_inverse, return_counts)


@composite(method=True)
def unique_consecutive(input: Any, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
    """Return the elements without repetitions of the one before, or the slices along `dim` so.

    Args:
        return_inverse: also return where each element went.
        return_counts: also return the length of each run.
    """
    dim = dim if dim is None else one_dim("unique_consecutive", input._array, dim)
    return _asked(runs(input, dim), return_inverse, return_counts)


def _insertion(name: str, edges: Any, x: Any, right: bool, side: Any, out_int32: bool, sorter: Any) -> Any:
    if side not in (None, "left", "right"):
        raise ValueRangeError(f'{name}: side must be "left" or "right", got {side!r}')
    if side == "left" and right:
        raise ValueRangeError(f"{name}: right=True contradicts side='left'; give one of them")
    check_ordered(name, edges)
    x = np.asarray(x)
    if edges.ndim == 0:
        raise ShapeError(f"{name}: the sorted sequence must have at least one dimension")
    if sorter is not None:
        if sorter.shape != edges.shape:
            raise ShapeError(f"{name}: sorter must have the shape {edges.shape} of the sequence, got {sorter.shape}")
        if sorter.dtype != np.int64:
            raise DtypeError(f"{name}: sorter must be int64, got {sorter.dtype.name}")
        edges = np.take_along_axis(edges, sorter, -1)
    how = "right" if right or side == "right" else "left"
    kind = np.int32 if out_int32 else np.int64
    if edges.ndim == 1:
        return np.asarray(np.searchsorted(edges, x, how)).astype(kind, copy=False)
    if x.ndim != edges.ndim or x.shape[:-1] != edges.shape[:-1]:
        raise ShapeError(
            f"{name}: a sequence of shape {edges.shape} needs values whose leading sizes are {edges.shape[:-1]}, got "
            f"shape {x.shape}"
        )
    out = np.empty(x.shape, kind)
    for at in np.ndindex(x.shape[:-1]):
        out[at] = np.searchsorted(edges[at], x[at], how)
    return out


@op
class searchsorted(Plain):
    """Return where values would be inserted into a sorted sequence to keep it in order.

    Args:
        sorted_sequence: (n,), or (…, n) to search row by row.
        input: the values, any shape, a number, or (…, m).
        out_int32: return int32 in place of int64.
        right, side: insert behind equal elements (right=True, side="right") or before them.
        sorter: the indices that sort `sorted_sequence`, if it is not in order.
    """

    inputs = ("sorted_sequence", "input", "sorter")
    optional = ("sorter",)
    method = False
    scalars = True
    kind = "index"
    half = False
    dtypes = "if"
    samples = lambda rng: [
        (np.array([1.0, 3.0, 5.0]), np.array([[3.0, 0.0], [6.0, 4.0]])),
        (np.array([[1, 3], [2, 4]]), np.array([[3], [3]]), {"right": True}),
    ]

    def forward(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
        return _insertion("searchsorted", sorted_sequence, input, right, side, out_int32, sorter)


@composite
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False, out: Any = None) -> Any:
    """Return which interval between sorted `boundaries` each value falls into.

    Args:
        input: a tensor or a number.
        boundaries: (n,), sorted.
        right: whether an interval includes its left end in place of its right.

    Raises:
        ShapeError: the boundaries are not a vector.
    """
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries must be a vector, got shape {tuple(boundaries.shape)}")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


@op
class nonzero_(Plain):
    """Return the indices of the nonzero elements, one row each."""

    inputs = ("input",)
    function = method = False
    kind = "index"
    half = False
    dtypes = "bifc"
    samples = lambda rng: [(rng.integers(0, 2, (2, 3)),), (np.array(5.0),)]

    def forward(input):
        if not input.ndim:
            return np.zeros((int(bool(input)), 0), np.int64)
        return np.stack(np.nonzero(input), 1).astype(np.int64, copy=False)


_rows = nonzero_


@composite(name="nonzero", method=True)
def nonzero_of(input: Any, *, as_tuple: bool = False, out: Any = None) -> Any:
    """Return the indices of the nonzero elements: (count, dimensions), in row-major order.

    Args:
        as_tuple: return one vector of indices per dimension instead, ready for indexing.
    """
    if not as_tuple:
        return _rows(input, out=out)
    if slow.watched(input):
        return ops.unbind(_rows(input if input.ndim else ops.reshape(input, (1,))), 1)
    a = input._array
    return tuple(wrap(np.ascontiguousarray(i)) for i in np.nonzero(a if a.ndim else a.reshape(1)))


@composite(method=True)
def argwhere(input: Any) -> Any:
    """Return the indices of the nonzero elements: (count, dimensions)."""
    return _rows(input)


@composite
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False, out: Any = None
) -> Any:
    """Return for each of `elements` whether it is among `test_elements`; either may be a number.

    Args:
        assume_unique: accepted; it changes nothing.
        invert: return whether it is not.
    """
    from .reduce import into

    if not isinstance(elements, Tensor):
        elements = ops.tensor(elements)
    if not isinstance(test_elements, Tensor):
        test_elements = ops.tensor(test_elements)
    a, b = elements._array, test_elements._array
    if slow.watched(elements, test_elements):
        found = ops.any(ops.eq(ops.unsqueeze(elements, -1), ops.reshape(test_elements, (-1,))), -1)
        return into(ops.logical_not(found) if invert else found, out)
    return into(wrap(np.asarray(np.isin(a, b.reshape(-1), invert=invert))), out)
