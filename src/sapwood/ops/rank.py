"""Elements by rank: `kthvalue`, `median`, `nanmedian`, `mode`, `quantile`, `nanquantile`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..errors import DimError, DtypeError, ShapeError, ValueRangeError
from ..tensor import Tensor
from .declare import Reduction, composite, op
from .extreme import _hits, check_nonempty, check_ordered, place, places, share
from .ordering import order
from .reduce import into, one_dim
from .selection import introsort, quickselect, resolve


class Ranked(Reduction):
    """(values, indices) of one element along `dim`; the gradient goes to it."""

    outs = ("values", "indices")
    half = False
    dtypes = "if"
    samples = lambda rng: [
        (rng.standard_normal((3, 5)), 1),
        (rng.standard_normal((4, 3)), 0, True),
        (rng.standard_normal(()), 0),
    ]


def _picked(a: Any, dim: int, index: Any, keepdim: bool) -> tuple[Any, Any]:
    """Return (values, indices) for an index array that keeps `dim` with size 1."""
    values = a[places(index, dim, a.shape)]
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _number(name: str, a: Any) -> None:
    check_ordered(name, a)
    if a.dtype.kind == "b":
        raise DtypeError(f"{name}: input must be a number type, got bool; use input.int()")


@op
class kthvalue(Ranked):
    """Return the k-th smallest element along `dim`, counted from 1, and its index; NaN is largest.

    Raises:
        ShapeError: `k` is out of range.
    """

    samples = lambda rng: [(rng.standard_normal((3, 5)), 2), (rng.standard_normal((3, 5)), 3, 0, True)]
    vjp_input = lambda g, indices, input_shape, dim, keepdim: place(g, indices, input_shape, dim, keepdim)

    def canon(a, k, dim, keepdim):
        dim = one_dim("kthvalue", a, dim)
        if a.ndim and not a.shape[dim]:
            raise DimError(f"kthvalue: dim {dim} holds no elements to choose from; the tensor has shape {a.shape}")
        if not 1 <= k <= (a.shape[dim] if a.ndim else 1):
            raise ShapeError(f"kthvalue: k must lie between 1 and the size of dim {dim}, got {k} for shape {a.shape}")
        return k, dim, keepdim

    def forward(input, k, dim=-1, keepdim=False):
        _number("kthvalue", input)
        if not input.ndim:
            return input.copy(), np.zeros((), np.int64)
        index = np.take(order(input, dim, False), [k - 1], dim)

        def select(key: list[int], at: list[int]) -> int:
            quickselect(key, at, k - 1)
            return at[k - 1]

        return _picked(input, dim, settled(input, dim, index, select), keepdim)


def settled(a: Any, dim: int, index: Any, select: Any) -> Any:
    """Return `index` with those of equal elements that PyTorch names; NaN is left alone."""
    chosen = a[places(index, dim, a.shape)]
    tied = np.moveaxis(np.add.reduce(a == chosen, dim, np.int64, None, True) > 1, dim, -1).reshape(-1)
    if tied.any():
        moved = np.moveaxis(index, dim, -1)
        found = moved.reshape(-1, 1).copy()
        rows = np.moveaxis(a, dim, -1).reshape(-1, a.shape[dim])
        # Ranks with NaN last, which equal values share.
        resolve(found, tied, np.unique(rows, return_inverse=True)[1].reshape(rows.shape), select)
        index = np.moveaxis(found.reshape(moved.shape), -1, dim)
    return index


def _middle(name: str, a: Any, dim: int, keepdim: bool, skip_nan: bool) -> tuple[Any, Any]:
    """Return (values, indices) of the lower middle element; NaN wins, or is left out with `skip_nan`."""
    _number(name, a)
    check_nonempty(name, a, dim)
    if not a.ndim:
        return a.copy(), np.zeros((), np.int64)
    ranks = order(a, dim, False)
    n = a.shape[dim]
    bad = np.add.reduce(a != a, dim, np.int64, None, True)
    if skip_nan:
        at = np.maximum(n - bad - 1, 0) // 2
        index = ranks[places(at, dim, a.shape)]
    else:
        first = np.argmax(a != a, dim, keepdims=True)
        index = np.where(bad > 0, first, np.take(ranks, [(n - 1) // 2], dim))
    return _picked(a, dim, index, keepdim)


@op
class median_(Ranked):
    """Return the lower middle element along `dim` and its index; NaN wins."""

    function = method = False
    grad_fn = "MedianBackward1"
    canon = lambda a, dim, keepdim: (one_dim("median", a, dim), keepdim)
    vjp_input = lambda g, indices, input_shape, dim, keepdim: place(g, indices, input_shape, dim, keepdim)
    forward = lambda input, dim, keepdim=False: _middle("median", input, dim, keepdim, False)


@op
class nanmedian_(Ranked):
    """Return the lower middle element that is not NaN along `dim`, and its index."""

    function = method = False
    grad_fn = "NanmedianBackward1"
    canon = lambda a, dim, keepdim: (one_dim("nanmedian", a, dim), keepdim)
    vjp_input = lambda g, indices, input_shape, dim, keepdim: place(g, indices, input_shape, dim, keepdim)
    forward = lambda input, dim, keepdim=False: _middle("nanmedian", input, dim, keepdim, True)


def _middle_of_all(name: str, a: Any, skip_nan: bool) -> Any:
    _number(name, a)
    if not a.size:
        if a.dtype.kind in "iu":
            return a.dtype.type(np.iinfo(a.dtype).min)
        return a.dtype.type(math.nan)
    x = a.reshape(-1)
    bad = x != x
    if bad.any():
        if not skip_nan or bad.all():
            return a.dtype.type(math.nan)
        x = x[~bad]
    k = (x.size - 1) // 2
    return np.partition(x, k)[k]


@op
class median_all(Reduction):
    """Return the lower middle element of the tensor; ties share the gradient, NaN wins."""

    function = method = False
    dtypes = "if"
    grad_fn = "MedianBackward0"
    vjp_input = lambda g, input, out: share(g, _hits(input, out), None, False)
    samples = lambda rng: [(rng.standard_normal((2, 3)),), (rng.standard_normal(5),)]
    forward = lambda input: _middle_of_all("median", input, False)


@op
class nanmedian_all(Reduction):
    """Return the lower middle element of those that are not NaN; ties share the gradient."""

    function = method = False
    dtypes = "if"
    grad_fn = "NanmedianBackward0"
    vjp_input = lambda g, input, out: share(g, _hits(input, out), None, False)
    samples = lambda rng: [(rng.standard_normal((2, 3)),), (np.array([1.0, np.nan, 2.0]),)]
    forward = lambda input: _middle_of_all("nanmedian", input, True)


_median_dim, _nanmedian_dim = median_, nanmedian_


@composite(name="median", method=True)
def median_of(
    input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None, axis: Any = None, keepdims: Any = None
) -> Any:
    """Return the median, the lower of two middle elements; with `dim`, (values, indices) along it."""
    dim, keepdim = dim if axis is None else axis, keepdim if keepdims is None else keepdims
    if dim is None:
        return median_all(input, out=out)
    return _median_dim(input, dim, keepdim, out=out)


@composite(name="nanmedian", method=True)
def nanmedian_of(
    input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None, axis: Any = None, keepdims: Any = None
) -> Any:
    """Return the median of the elements that are not NaN; with `dim`, (values, indices) along it."""
    dim, keepdim = dim if axis is None else axis, keepdim if keepdims is None else keepdims
    if dim is None:
        return nanmedian_all(input, out=out)
    return _nanmedian_dim(input, dim, keepdim, out=out)


@op
class mode(Ranked):
    """Return the most frequent element along `dim`, the smallest of several, and the last index where it occurs."""

    dtypes = "bif"
    canon = lambda a, dim, keepdim: (one_dim("mode", a, dim), keepdim)
    vjp_input = lambda g, indices, input_shape, dim, keepdim: place(g, indices, input_shape, dim, keepdim)

    def forward(input, dim=-1, keepdim=False):
        check_ordered("mode", input)
        check_nonempty("mode", input, dim if input.ndim else ())
        if not input.ndim:
            return input.copy(), np.zeros((), np.int64)
        rows = np.moveaxis(input, dim, -1)
        n = rows.shape[-1]
        ranks = order(rows, rows.ndim - 1, False)
        values = np.take_along_axis(rows, ranks, -1)
        new = np.ones(rows.shape, bool)
        new[..., 1:] = values[..., 1:] != values[..., :-1]
        # The length of the run that ends at each place; the first longest run holds the smallest frequent value.
        start = np.maximum.accumulate(np.where(new, np.arange(n), 0), -1)
        length = np.arange(n) - start
        at = np.argmax(length, -1, keepdims=True)
        found = np.take_along_axis(ranks, at, -1)
        if n > 16:
            # PyTorch takes the last of the run in an order that is not stable beyond 16 elements.
            flat = rows.reshape(-1, n)
            codes = np.unique(flat, return_inverse=True)[1].reshape(flat.shape)
            places_flat = at.reshape(-1)

            def select(key: list[int], order: list[int], wanted: Any) -> int:
                introsort(key, order, 0, n)
                return order[wanted]

            picked = found.reshape(-1, 1).copy()
            resolve(picked, np.max(length, -1).reshape(-1) > 0, codes, select, places_flat)
            found = picked.reshape(found.shape)
        index = np.moveaxis(found, -1, dim)
        return _picked(input, dim, index, keepdim)


_MODES = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(name: str, x: Any, q: Any, dim: Any, keepdim: bool, how: str, skip_nan: bool) -> Any:
    kind = x._array.dtype.kind
    if kind != "f" or x._array.dtype.itemsize < 4:
        raise DtypeError(f"{name}: input must be float32 or float64, got {x.dtype.name}; use input.float()")
    if not x.numel():
        raise ShapeError(f"{name}: an empty tensor has no quantiles; its shape is {tuple(x.shape)}")
    if how not in _MODES:
        raise ValueRangeError(f"{name}: interpolation must be one of {', '.join(_MODES)}, got {how!r}")
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise ValueRangeError(f"{name}: q must lie in [0, 1], got {q}")
        q = ops.full((), q, dtype=x.dtype)
    if q.ndim > 1:
        raise ShapeError(f"{name}: q must be a number or a vector, got shape {tuple(q.shape)}")
    if q.dtype is not x.dtype:
        raise DtypeError(f"{name}: q must have the type of the input, {x.dtype.name}, got {q.dtype.name}")
    if q.numel() and not ((q._array >= 0) & (q._array <= 1)).all():
        raise ValueRangeError(f"{name}: every q must lie in [0, 1]")
    shape = x.shape
    if dim is None:
        rows, after = ops.reshape(x, (-1,)), (1,) * len(shape)
    else:
        dim = one_dim(name, x._array, dim)
        rows = ops.movedim(ops.unsqueeze(x, -1) if not x.ndim else x, dim, -1)
        after = tuple(1 if d == dim else n for d, n in enumerate(shape))
    values = ops.sort(rows)[0]
    n = rows.shape[-1]
    bad = ops.sum(ops.isnan(rows), -1, True)
    vector = ops.reshape(q, (-1,))
    if skip_nan:
        ranks = vector * ops.clamp(float(n - 1) - bad.to(x.dtype), min=0)
    else:
        ranks = ops.expand(vector * float(n - 1), (*rows.shape[:-1], q.numel()))
        ranks = ops.masked_fill(ranks, bad > 0, n - 1)
    out = _interpolated(values, ranks, how)
    # out: the input without dim, then q; PyTorch puts q in front.
    out = ops.movedim(out, -1, 0)
    out = ops.reshape(out, (q.numel(), *after)) if keepdim else out
    return out if q.ndim else ops.squeeze(out, 0)


def _interpolated(values: Any, ranks: Any, how: str) -> Any:
    if how == "lower":
        ranks = ops.floor(ranks)
    elif how == "higher":
        ranks = ops.ceil(ranks)
    elif how == "nearest":
        ranks = ops.round(ranks)
    below = ranks.to(ops.tensor([0]).dtype)
    low = ops.gather(values, -1, below)
    if how not in ("linear", "midpoint"):
        return low
    weight = ops.full((), 0.5, dtype=values.dtype) if how == "midpoint" else ranks - below
    high = ops.gather(values, -1, ops.ceil(ranks).to(below.dtype))
    return ops.lerp(low, high, weight)


@composite(method=True)
def quantile(
    input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear", out: Any = None
) -> Any:
    """Return the quantiles `q`, of the whole tensor or along `dim`; NaN wins.

    Args:
        input: float32 or float64, not empty.
        q: a number or a vector in [0, 1] of the input's type; its dimension comes first in the result.
        interpolation: "linear", "lower", "higher", "midpoint" or "nearest", between two neighbours.

    Raises:
        DtypeError: the type of the input or of `q`.
        ValueRangeError: `q` outside [0, 1], another interpolation.
    """
    return into(_quantile("quantile", input, q, dim, keepdim, interpolation, False), out)


@composite(method=True)
def nanquantile(
    input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear", out: Any = None
) -> Any:
    """Return the quantiles `q` of the elements that are not NaN, of the whole tensor or along `dim`.

    Args:
        input, q, dim, keepdim, interpolation: as of `quantile`.
    """
    return into(_quantile("nanquantile", input, q, dim, keepdim, interpolation, True), out)
