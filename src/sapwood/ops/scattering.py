"""Elements to and from given places along a dimension: `gather`, `scatter`, `scatter_add`, `scatter_reduce`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import ndarray

from .. import ops
from ..errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from ..kernels import gather as kernels
from ..tensor import Tensor
from .declare import Plain, composite, op, todo
from .extreme import places
from .reduce import one_dim
from .warm import serve

REDUCE = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum, "mean": np.add}


def check_index(op: str, index: Any, size: int, dim: int, error: Any = ValueRangeError, low: int = 0) -> None:
    """Refuse indices that are not whole numbers within [low, size).

    Raises:
        DtypeError: not int64 or int32.
        ValueRangeError, or `error`: out of range.
    """
    if index.dtype.kind != "i" or index.dtype.itemsize < 4:
        raise DtypeError(f"{op}: index must be int64 or int32, got {index.dtype.name}; use index.long()")
    if not index.size:
        return
    if low:
        wrong = np.minimum.reduce(index, None) < low or np.maximum.reduce(index, None) >= size
    else:
        # As unsigned numbers, negative ones are too large: one look serves both ends.
        wrong = np.maximum.reduce(index.view(f"u{index.dtype.itemsize}"), None) >= size
    if wrong:
        bad = index[(index < low) | (index >= size)].flat[0]
        raise error(f"{op}: index {bad} is out of range for dimension {dim} of size {size}")


def _fit(op: str, a: Any, dim: int, index: Any, src: Any = None) -> tuple[Any, Any, Any]:
    """Return input, index and src with at least one dimension, after checking that they fit.

    Raises:
        ShapeError: numbers of dimensions differ, or index reaches beyond input or src.
    """
    a = a if a.ndim else a.reshape(1)
    index = index if index.ndim else index.reshape(1)
    if not index.size:
        return a, index, src
    check_index(op, index, a.shape[dim], dim)
    if index.ndim != a.ndim:
        raise ShapeError(
            f"{op}: index must have as many dimensions as input, got shapes {index.shape} and {a.shape}; "
            "unsqueeze and expand the index"
        )
    too_large = any(d != dim and n > m for d, (n, m) in enumerate(zip(index.shape, a.shape)))
    if isinstance(src, ndarray):
        src = src if src.ndim else src.reshape(1)
        too_large |= src.ndim != index.ndim or any(n > m for n, m in zip(index.shape, src.shape))
        if src.dtype != a.dtype:
            raise DtypeError(f"{op}: src must have the type of input, {a.dtype.name}, got {src.dtype.name}")
    if too_large:
        other = "" if src is None else f" and src {np.shape(src)}"
        raise ShapeError(
            f"{op}: index of shape {index.shape} must not be larger than input {a.shape} outside dim {dim}{other}"
        )
    if isinstance(src, ndarray) and src.shape != index.shape:
        src = src[tuple(map(slice, index.shape))]
    return a, index, src


def flat_places(index: Any, dim: int, shape: tuple[int, ...]) -> Any:
    """Return the flat positions in a contiguous array of `shape` that `index` names along `dim`, as a vector."""
    step = 1
    flat: Any = 0
    for d in range(len(shape) - 1, -1, -1):
        if d == dim:
            flat = flat + index * step
        elif index.shape[d] > 1:
            flat = flat + (np.arange(index.shape[d]) * step).reshape((-1,) + (1,) * (index.ndim - d - 1))
        step *= shape[d]
    return flat.reshape(-1)


def _aside(shape: tuple[int, ...], other: tuple[int, ...], dim: int) -> bool:
    """Return whether two shapes agree outside `dim`."""
    return shape[:dim] == other[:dim] and shape[dim + 1 :] == other[dim + 1 :]


def _combined_natively(how: str, out: Any, dim: int, index: Any, src: Any) -> bool:
    """Combine `src` into places of the contiguous array `out` by a kernel; return whether there is one for this."""
    if not (kernels.combines(out.dtype) and _aside(index.shape, out.shape, dim) and serve(index.size)):
        return False
    if not src.flags.aligned:
        return False
    kernels.combine(how, kernels.fold(out, dim), kernels.fold(kernels.wide(index), dim), kernels.fold(src, dim))
    return True


@op
class gather(Plain):
    """Take elements along `dim`: out[i][j] = input[index[i][j]][j] for dim 0.

    Args:
        index: int64 or int32, as many dimensions as input, not larger outside `dim`; the shape of the result.

    Raises:
        ValueRangeError: an index is out of range.
        ShapeError: the shapes do not fit.
    """

    inputs = ("input", "index")
    kind = "movement"
    linear = True
    half = False
    dtypes = "bifc"
    canon = lambda a, dim, sparse_grad: (one_dim("gather", a, dim), sparse_grad)
    vjp_input = lambda g, index, input_shape, dim: ops.scatter_add(ops.zeros_of(g, input_shape), dim, index, g)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), 1, np.array([[0, 0], [2, 1]])),
        (rng.standard_normal((2, 3)), 0, np.array([[1, 0, 1]])),
        (rng.standard_normal(()), 0, np.array(0)),
    ]
    reference = lambda input, dim, index: np.take_along_axis(input, index, dim) if input.ndim else input

    def forward(input, dim, index, *, sparse_grad=False):
        a, where, _ = _fit("gather", input, dim, index)
        if not where.size:
            return np.empty(index.shape, input.dtype)
        if _aside(where.shape, a.shape, dim) and kernels.moves(a.dtype) and a.flags.aligned and serve(where.size):
            out = np.empty(where.shape, a.dtype)
            kernels.bring(kernels.fold(a, dim), kernels.fold(kernels.wide(where), dim), kernels.fold(out, dim))
            return out.reshape(index.shape)
        return a[places(where, dim, a.shape)].reshape(index.shape)


def _number_as(value: Any, dtype: Any, op: str) -> Any:
    """Return a Python number as a scalar of the array's type, cut off as a conversion does."""
    if isinstance(value, complex) and dtype.kind != "c":
        raise DtypeError(f"{op}: a complex value does not fit a tensor of {dtype.name}")
    return np.asarray(value).astype(dtype)


@op
class scatter_src(Plain):
    """Write `src` into a copy of `input` at the places that `index` names along `dim`."""

    inputs = ("input", "index", "src")
    function = method = False
    half = False
    dtypes = "bifc"
    grad_fn = "ScatterBackward0"
    canon = lambda a, dim: (one_dim("scatter", a, dim),)
    vjp_input = lambda g, index, dim: scatter_value(g, dim, index, 0)
    vjp_src = lambda g, index, dim: gather(g, dim, index)
    samples = lambda rng: [(rng.standard_normal((2, 3)), 1, np.array([[0, 2], [2, 1]]), rng.standard_normal((2, 2)))]

    def forward(input, dim, index, src):
        a, index, src = _fit("scatter", input, dim, index, src)
        out = np.array(a, order="C")
        if index.size and not _combined_natively("set", out, dim, index, src):
            out[places(index, dim, a.shape)] = src
        return out.reshape(input.shape)


@op
class scatter_value(Plain):
    """Write a number into a copy of `input` at the places that `index` names along `dim`."""

    inputs = ("input", "index")
    function = method = False
    half = False
    dtypes = "bifc"
    grad_fn = "ScatterBackward1"
    canon = lambda a, dim, value: (one_dim("scatter", a, dim), value)
    vjp_input = lambda g, index, dim: scatter_value(g, dim, index, 0)
    samples = lambda rng: [(rng.standard_normal((2, 3)), 1, np.array([[0, 2], [2, 1]]), 1.5)]

    def forward(input, dim, index, value):
        a, index, _ = _fit("scatter", input, dim, index)
        out = np.array(a, order="C")
        if index.size:
            number = _number_as(value, a.dtype, "scatter")
            if not _combined_natively("set", out, dim, index, np.broadcast_to(number, index.shape)):
                out[places(index, dim, a.shape)] = number
        return out.reshape(input.shape)


@op
class scatter_combine(Plain):
    """Add or multiply `src` into a copy of `input` at the places that `index` names; it has no derivative."""

    inputs = ("input", "index", "src")
    function = method = False
    dtypes = "bifc"
    grad_fn = "NotImplemented"
    vjp_input = vjp_src = todo
    canon = lambda a, dim, reduce: (one_dim("scatter", a, dim), reduce)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), 1, np.array([[0, 0]]), rng.standard_normal((2, 2)), "multiply"),
    ]

    def forward(input, dim, index, src, reduce):
        if reduce not in ("add", "multiply"):
            raise ValueRangeError(f'scatter: reduce must be "add" or "multiply", got {reduce!r}')
        if not src.ndim and index.ndim:
            src = np.broadcast_to(src.astype(input.dtype), index.shape)
        a, index, src = _fit("scatter", input, dim, index, src)
        return combined(np.add if reduce == "add" else np.multiply, a, dim, index, src).reshape(input.shape)


def combined(ufunc: Any, a: Any, dim: int, index: Any, src: Any) -> Any:
    out = np.array(a, order="C")
    if index.size and not _combined_natively(ufunc.__name__, out, dim, index, src):
        # ufunc.at is several times faster on vectors than on arrays of more dimensions.
        ufunc.at(out.reshape(-1), flat_places(index, dim, out.shape), np.ascontiguousarray(src).reshape(-1))
    return out


def _scatter(run: Any, input: Any, dim: Any, index: Any, src: Any, value: Any, reduce: Any) -> Any:
    """Choose the op for a call of scatter and hand it to `run(op, inputs after the first, attributes)`."""
    if src is None:
        src = value
    if src is None:
        raise ArgumentError("scatter: src (a tensor) or value (a number) is missing")
    tensor = isinstance(src, Tensor | ndarray)
    if reduce is not None:
        if not tensor:
            src = ops.full((), src, dtype=input.dtype)
        return run(scatter_combine, (index, src), (dim, reduce))
    return run(scatter_src, (index, src), (dim,)) if tensor else run(scatter_value, (index,), (dim, src))


@composite(method=True)
def scatter(
    input: Any, dim: int, index: Any, src: Any = None, value: Any = None, *, reduce: Any = None, out: Any = None
) -> Any:
    """Write a tensor or a number into a copy of `input`: out[index[i][j]][j] = src[i][j] for dim 0.

    Args:
        index: int64 or int32, as many dimensions as input, not larger outside `dim`.
        src: a tensor of the input's type, at least as large as index, or a number.
        reduce: "add" or "multiply" to combine with what is there; see `scatter_reduce`, which has a derivative.
    """

    def run(op: Any, others: Any, attrs: Any) -> Any:
        if op is scatter_src:
            return op(input, attrs[0], *others, out=out)
        return op(input, attrs[0], *others, *attrs[1:], out=out)

    return _scatter(run, input, dim, index, src, value, reduce)


@composite(name="scatter_", method="scatter_", function_name=False)
def scatter_in_place(
    input: Any, dim: int, index: Any, src: Any = None, value: Any = None, *, reduce: Any = None
) -> Any:
    """Write a tensor or a number into this tensor at the places that `index` names along `dim`."""
    from .inplace import in_place

    return _scatter(
        lambda op, others, attrs: in_place(op.op, input, others, attrs, "scatter_"),
        input,
        dim,
        index,
        src,
        value,
        reduce,
    )


@op
class scatter_add(Plain):
    """Add `src` to a copy of `input` at the places that `index` names along `dim`; repeated places add up.

    Args:
        index: int64 or int32, as many dimensions as input, not larger than src.
    """

    inputs = ("input", "index", "src")
    inplace = True
    linear = True
    dtypes = "bifc"
    canon = lambda a, dim: (one_dim("scatter_add", a, dim),)
    vjp_input = lambda g: g
    vjp_src = lambda g, index, dim: gather(g, dim, index)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), 1, np.array([[0, 0], [2, 1]]), rng.standard_normal((2, 2))),
        (rng.standard_normal(3), 0, np.array([0, 0, 0, 2]), rng.standard_normal(4)),
    ]

    def forward(input, dim, index, src):
        a, index, src = _fit("scatter_add", input, dim, index, src)
        return combined(np.add, a, dim, index, src).reshape(input.shape)


def reduced_into(a: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> Any:
    """Return a copy of `a` with `src` reduced into its places along `dim`; index and src have one shape."""
    out = np.array(a, order="C")
    to = out.reshape(-1)
    flat = None
    if not include_self:
        first = np.broadcast_to(np.asarray(_identity(reduce, a.dtype), a.dtype), index.shape)
        if not _combined_natively("set", out, dim, index, first):
            flat = flat_places(index, dim, a.shape)
            to[flat] = first.reshape(-1)
    if not _combined_natively(REDUCE[reduce].__name__, out, dim, index, src):
        flat = flat_places(index, dim, a.shape) if flat is None else flat
        REDUCE[reduce].at(to, flat, np.ascontiguousarray(src).reshape(-1))
    if reduce == "mean":
        n = np.zeros(a.shape, np.int64)
        if not _combined_natively("add", n, dim, index, np.broadcast_to(np.int64(1), index.shape)):
            flat = flat_places(index, dim, a.shape) if flat is None else flat
            n = np.bincount(flat, minlength=to.size).reshape(a.shape)
        n = np.maximum(n + (1 if include_self else 0), 1).astype(a.real.dtype)
        out = out // n if a.dtype.kind in "iu" else np.asarray(out / n, out.dtype)
    return out


def _identity(reduce: str, dtype: Any) -> Any:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.kind == "f":
        return -math.inf if reduce == "amax" else math.inf
    if dtype.kind == "b":
        return reduce == "amin"
    return np.iinfo(dtype).min if reduce == "amax" else np.iinfo(dtype).max


class Spot:
    """The three moves of a reduction into places, for its gradient: from places, to places, and clearing places."""

    def __init__(self, dim: int, index: Any, add: Any, take: Any, clear: Any, again: Any) -> None:
        self.take = lambda x: take(x, dim, index)
        self.add = lambda x, src: add(x, dim, index, src)
        self.clear = lambda x, value: clear(x, dim, index, value)
        self.again = lambda x, src: again(x, dim, index, src)


def reduce_back(g: Any, needs: Any, input: Any, src: Any, out: Any, reduce: str, include_self: bool, at: Spot) -> Any:
    """Return the gradients of input and src for a reduction into places."""
    if reduce == "sum":
        to_input, to_src = g, at.take(g)
    elif reduce == "mean":
        ones = ops.ones_like(input) if include_self else ops.zeros_like(input)
        n = at.add(ones, ops.ones_like(src))
        g = g / ops.masked_fill(n, n == 0, 1)
        to_input, to_src = g, at.take(g)
    elif reduce == "prod":
        safe = ops.masked_fill(input, input == 0, 1)
        to_input = g * at.again(safe, src) / safe
        zero = src == 0
        zeros = at.take(at.add(ops.zeros_like(input), zero * ops.ones_like(src)))
        only = zero & (zeros == 1)
        # Where src is its place's only zero, its gradient is the product of all others.
        others = at.take(g * at.again(input, ops.masked_fill(src, only, 1)))
        plain = at.take(g * out) / ops.masked_fill(src, zero, 1)
        to_src = others * only + plain * (only == 0)
    else:
        mine = (input == out) * ops.ones_like(input)
        theirs = (src == at.take(out)) * ops.ones_like(src)
        if not include_self:
            mine = at.clear(mine, 0)
        n = at.add(mine, theirs)
        shared = g / ops.masked_fill(n, n == 0, 1)
        to_input, to_src = mine * shared if include_self else g, theirs * at.take(shared)
    if not include_self:
        to_input = at.clear(to_input, 0)
    return to_input if needs[0] else None, None, to_src if needs[2] else None


def _check_reduce(op: str, reduce: str, allowed: tuple[str, ...]) -> None:
    if reduce not in allowed:
        raise ValueRangeError(f"{op}: reduce must be one of {', '.join(allowed)}, got {reduce!r}")


@op
class scatter_reduce(Plain):
    """Reduce `src` into a copy of `input` at the places that `index` names along `dim`.

    Args:
        index: int64 or int32, as many dimensions as input, not larger than src.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether the input's own elements take part.
    """

    inputs = ("input", "index", "src")
    inplace = True
    dtypes = "bif"
    samples = lambda rng: [
        (
            rng.standard_normal((2, 3)),
            1,
            np.array([[0, 0], [2, 1]]),
            rng.standard_normal((2, 2)),
            mode,
            {"include_self": s},
        )
        for mode in REDUCE
        for s in (True, False)
    ]

    def canon(a, dim, reduce, include_self):
        _check_reduce("scatter_reduce", reduce, ("sum", "prod", "mean", "amax", "amin"))
        return one_dim("scatter_reduce", a, dim), reduce, include_self

    def forward(input, dim, index, src, reduce, *, include_self=True):
        a, index, src = _fit("scatter_reduce", input, dim, index, src)
        if not index.size:
            return np.array(input)
        return reduced_into(a, dim, index, src, reduce, include_self).reshape(input.shape)

    def vjp(g, needs, input, index, src, out, dim, reduce, include_self):
        def again(x: Any, s: Any) -> Any:
            return scatter_reduce(x, dim, index, s, reduce, include_self=include_self)

        at = Spot(dim, index, scatter_add, gather, scatter_value, lambda x, d, i, s: again(x, s))
        return reduce_back(g, needs, input, src, out, reduce, include_self, at)
