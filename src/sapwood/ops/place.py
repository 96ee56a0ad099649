"""Slices, and elements counted flat, at given places: `index_select`, `index_add`, `take`, `put` and their kin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import ndarray

from .. import ops
from ..errors import DimError, DtypeError, ShapeError
from ..kernels import gather as kernels
from ..tensor import Tensor, wrap
from . import slow
from .declare import Plain, composite, op
from .reduce import one_dim
from .scattering import Spot, _check_reduce, _number_as, check_index, combined, gather, reduce_back, reduced_into
from .warm import serve


def _vector(op: str, index: Any) -> Any:
    if index.ndim > 1:
        raise DimError(f"{op}: index must be a vector, got shape {index.shape}")
    return index if index.ndim else index.reshape(1)


def _slices(op: str, a: Any, dim: int, index: Any, source: Any, count_error: Any = ShapeError) -> tuple[Any, ...]:
    """Return (input, index, source) with a dimension each, after checking that source fits the slices.

    Raises:
        DimError: index is not a vector.
        DtypeError: input and source differ in type.
        ShapeError: source has other slices, or not one for each index.
    """
    index = _vector(op, index)
    if source.dtype != a.dtype:
        raise DtypeError(f"{op}: source must have the type of input, {a.dtype.name}, got {source.dtype.name}")
    a = a if a.ndim else a.reshape(1)
    source = source if source.ndim else source.reshape(1)
    if source.ndim != a.ndim or source.shape[dim] != index.size:
        raise count_error(
            f"{op}: source must hold {index.size} slices along dim {dim}, one per index, got shape {source.shape}"
        )
    if source.shape[:dim] != a.shape[:dim] or source.shape[dim + 1 :] != a.shape[dim + 1 :]:
        raise ShapeError(f"{op}: source of shape {source.shape} has other slices along dim {dim} than input {a.shape}")
    return a, index, source


def _spread(index: Any, dim: int, source: Any) -> Any:
    """Return the index of every element of `source`."""
    return np.broadcast_to(index.reshape((-1,) + (1,) * (source.ndim - dim - 1)), source.shape)


@op
class index_select(Plain):
    """Return the slices along `dim` that `index` names, in that order.

    Args:
        index: (n,), int64 or int32.

    Raises:
        ValueRangeError: an index is out of range.
    """

    inputs = ("input", "index")
    kind = "movement"
    linear = True
    half = False
    dtypes = "bifc"
    canon = lambda a, dim: (one_dim("index_select", a, dim),)
    vjp_input = lambda g, index, input_shape, dim: index_add(ops.zeros_of(g, input_shape), dim, index, g)
    samples = lambda rng: [
        (rng.standard_normal((3, 4)), 1, np.array([0, 2, 2])),
        (rng.standard_normal((3, 4)), 0, np.array(1)),
        (rng.standard_normal(()), 0, np.array([0])),
    ]
    reference = lambda input, dim, index: np.take(input, np.atleast_1d(index), dim) if input.ndim else input

    def forward(input, dim, index):
        index = _vector("index_select", index)
        if not input.ndim:
            if index.size != 1:
                raise ShapeError(f"index_select: a 0-dim input takes one index, got {index.size}")
            check_index("index_select", index, 1, 0)
            return input.copy()
        check_index("index_select", index, input.shape[dim], dim)
        shape = (*input.shape[:dim], index.size, *input.shape[dim + 1 :])
        if dim and kernels.moves(input.dtype) and input.flags.aligned and serve(math.prod(shape)):
            out = np.empty(shape, input.dtype)
            x, to = kernels.fold(input, dim), kernels.fold(out, dim)
            kernels.bring(x, kernels.along(kernels.wide(index), to.shape[0], to.shape[2]), to)
            return out
        return np.take(input, index, dim)


@op
class index_add(Plain):
    """Add `alpha` times the slices of `source` to a copy of `input` at the places `index` names; repeats add up.

    Args:
        index: (n,), int64 or int32.
        source: n slices along `dim`, of the input's type.
    """

    inputs = ("input", "index", "source")
    inplace = True
    linear = True
    dtypes = "bifc"
    canon = lambda a, dim, alpha: (one_dim("index_add", a, dim), alpha)
    vjp_input = lambda g: g
    vjp_source = lambda g, index, source_shape, dim, alpha: ops.reshape(
        index_select(g, dim, index) if alpha == 1 else index_select(g, dim, index) * alpha, source_shape
    )
    samples = lambda rng: [
        (rng.standard_normal((3, 4)), 1, np.array([0, 2, 2]), rng.standard_normal((3, 3))),
        (rng.standard_normal((3, 4)), 0, np.array([1]), rng.standard_normal((1, 4)), {"alpha": 2}),
    ]

    def forward(input, dim, index, source, *, alpha=1):
        a, index, source = _slices("index_add", input, dim, index, source)
        check_index("index_add", index, a.shape[dim], dim)
        if alpha != 1:
            source = source * _number_as(alpha, a.dtype, "index_add")
        if not source.size:
            return np.array(input)
        return combined(np.add, a, dim, _spread(index, dim, source), source).reshape(input.shape)


def _long(op: str, index: Any, error: Any = DtypeError) -> None:
    if index.dtype != np.int64:
        raise error(f"{op}: index must be int64, got {index.dtype.name}; use index.long()")


@op
class index_copy(Plain):
    """Write the slices of `source` into a copy of `input` at the places `index` names along `dim`.

    Args:
        index: (n,), int64.
        source: n slices along `dim`, of the input's type.
    """

    inputs = ("input", "index", "source")
    inplace = True
    half = False
    dtypes = "bifc"
    canon = lambda a, dim: (one_dim("index_copy", a, dim),)
    vjp_input = lambda g, index, dim: index_fill_value(g, dim, index, 0)
    vjp_source = lambda g, index, source_shape, dim: ops.reshape(index_select(g, dim, index), source_shape)
    samples = lambda rng: [(rng.standard_normal((3, 4)), 1, np.array([0, 2]), rng.standard_normal((3, 2)))]

    def forward(input, dim, index, source):
        _long("index_copy", index)
        a, index, source = _slices("index_copy", input, dim, index, source, DimError)
        check_index("index_copy", index, a.shape[dim], dim, DimError)
        out = np.array(a)
        out[(slice(None),) * dim + (index,)] = source
        return out.reshape(input.shape)


def _filled(input: Any, dim: int, index: Any, value: Any) -> Any:
    _long("index_fill", index, DimError)
    index = _vector("index_fill", index)
    a = input if input.ndim else input.reshape(1)
    check_index("index_fill", index, a.shape[dim], dim, DimError, -a.shape[dim])
    out = np.array(a)
    out[(slice(None),) * dim + (index,)] = value
    return out.reshape(input.shape)


@op
class index_fill_value(Plain):
    """Write a number into the slices of a copy of `input` that `index` names along `dim`."""

    inputs = ("input", "index")
    function = method = False
    half = False
    dtypes = "bifc"
    grad_fn = "IndexFillBackward0"
    canon = lambda a, dim, value: (one_dim("index_fill", a, dim), value)
    vjp_input = lambda g, index, dim: index_fill_value(g, dim, index, 0)
    samples = lambda rng: [(rng.standard_normal((3, 4)), 1, np.array([0, 2]), 1.5)]
    forward = lambda input, dim, index, value: _filled(input, dim, index, _number_as(value, input.dtype, "index_fill"))


@op
class index_fill_tensor(Plain):
    """Write a 0-dim tensor into the slices of a copy of `input` that `index` names along `dim`."""

    inputs = ("input", "index", "value")
    function = method = False
    half = False
    dtypes = "bifc"
    grad_fn = "IndexFillBackward1"
    canon = lambda a, dim: (one_dim("index_fill", a, dim),)
    vjp_input = lambda g, index, dim: index_fill_value(g, dim, index, 0)
    vjp_value = lambda g, index, dim: ops.sum(index_select(g, dim, index))
    samples = lambda rng: [(rng.standard_normal((3, 4)), 1, np.array([0, 2]), rng.standard_normal(()))]

    def forward(input, dim, index, value):
        if value.ndim:
            raise ShapeError(f"index_fill: value must be a number or a 0-dim tensor, got shape {value.shape}")
        return _filled(input, dim, index, value.astype(input.dtype))


@composite(method=True)
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Write `value` into the slices of a copy of `input` that `index` names along `dim`.

    Args:
        index: (n,), int64; negative ones count from the end.
        value: a number or a 0-dim tensor.
    """
    if isinstance(value, Tensor | ndarray):
        return index_fill_tensor(input, dim, index, value)
    return index_fill_value(input, dim, index, value)


@composite(name="index_fill_", method="index_fill_", function_name=False)
def index_fill_in_place(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Write `value` into the slices of this tensor that `index` names along `dim`."""
    from .inplace import in_place

    if isinstance(value, Tensor):
        return in_place(index_fill_tensor.op, input, (index, value), (dim,), "index_fill_")
    return in_place(index_fill_value.op, input, (index,), (dim, value), "index_fill_")


@op
class index_reduce(Plain):
    """Reduce the slices of `source` into a copy of `input` at the places `index` names along `dim`.

    Args:
        index: (n,), int64 or int32.
        reduce: "prod", "mean", "amax" or "amin".
        include_self: whether the input's own elements take part.
    """

    inputs = ("input", "index", "source")
    inplace = True
    dtypes = "if"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), 1, np.array([0, 0]), rng.standard_normal((2, 2)), mode, {"include_self": s})
        for mode in ("prod", "mean", "amax", "amin")
        for s in (True, False)
    ]

    def canon(a, dim, reduce, include_self):
        _check_reduce("index_reduce", reduce, ("prod", "mean", "amax", "amin"))
        return one_dim("index_reduce", a, dim), reduce, include_self

    def forward(input, dim, index, source, reduce, *, include_self=True):
        a, index, source = _slices("index_reduce", input, dim, index, source)
        check_index("index_reduce", index, a.shape[dim], dim, DimError)
        return reduced_into(a, dim, _spread(index, dim, source), source, reduce, include_self).reshape(input.shape)

    def vjp(g, needs, input, index, source, out, dim, reduce, include_self):
        def again(x: Any, s: Any) -> Any:
            return index_reduce(x, dim, index, s, reduce, include_self=include_self)

        at = Spot(dim, index, index_add, index_select, index_fill_value, lambda x, d, i, s: again(x, s))
        return reduce_back(g, needs, input, source, out, reduce, include_self, at)


def _flat_index(op: str, index: Any, size: int) -> Any:
    _long(op, index)
    check_index(op, index, size, 0, DimError, -size)
    return index.reshape(-1)


@op
class take(Plain):
    """Return elements of the flattened input, in the shape of `index`; negative indices count from the end.

    Args:
        index: int64, any shape.

    Raises:
        DimError: an index is out of range.
    """

    inputs = ("input", "index")
    kind = "movement"
    linear = True
    half = False
    dtypes = "bifc"
    vjp_input = lambda g, index, input_shape: put(ops.zeros_of(g, input_shape), index, g, True)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), np.array([[0, -1], [4, 4]])),
        (rng.standard_normal(3), np.array(1)),
    ]
    forward = lambda input, index: input.reshape(-1)[_flat_index("take", index, input.size)].reshape(index.shape)


@op
class put(Plain):
    """Write `source` into a copy of `input` at places counted in the flattened tensor.

    Args:
        index: int64, any shape; negative indices count from the end.
        source: as many elements as index, of the input's type.
        accumulate: add to what is there.
    """

    inputs = ("input", "index", "source")
    inplace = True
    takes_out = False
    half = False
    dtypes = "bifc"
    vjp_input = lambda g, index, accumulate: g if accumulate else put(g, index, ops.zeros_of(g, index.shape), False)
    vjp_source = lambda g, index, source_shape: ops.reshape(take(g, index), source_shape)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), np.array([0, -1]), rng.standard_normal(2)),
        (rng.standard_normal((2, 3)), np.array([0, 0]), rng.standard_normal(2), True),
    ]

    def forward(input, index, source, accumulate=False):
        if source.dtype != input.dtype:
            raise DtypeError(f"put: source must have the type of input, {input.dtype.name}, got {source.dtype.name}")
        if source.size != index.size:
            raise DimError(f"put: source must hold one element per index, got {source.size} for {index.size}")
        at = _flat_index("put", index, input.size)
        out = np.array(input, order="C")
        if accumulate:
            np.add.at(out.reshape(-1), at, source.reshape(-1))
        else:
            out.reshape(-1)[at] = source.reshape(-1)
        return out


@composite(method=True)
def take_along_dim(input: Any, indices: Any, dim: Any = None, *, out: Any = None) -> Any:
    """Take elements along `dim`; sizes elsewhere broadcast. Without `dim`, from the flattened tensor.

    Args:
        indices: int64, as many dimensions as input; with `dim` they count modulo its size.
    """
    if indices._array.dtype != np.int64:
        raise DtypeError(f"take_along_dim: indices must be int64, got {indices.dtype.name}")
    if dim is None:
        return gather(ops.reshape(input, (-1,)), 0, ops.reshape(indices, (-1,)), out=out)
    n = input.shape[one_dim("take_along_dim", input._array, dim)] if input.ndim else 1
    if n:
        plain = type(indices._array) is np.ndarray and not slow.watched(indices)
        indices = wrap(np.asarray(indices._array % n)) if plain else ops.remainder(indices, n)
    if input.ndim != indices.ndim:
        raise ShapeError(
            f"take_along_dim: indices must have as many dimensions as input, got {indices.ndim} and {input.ndim}"
        )
    d = one_dim("take_along_dim", input._array, dim)
    common = np.broadcast_shapes(
        tuple(1 if k == d else n for k, n in enumerate(input.shape)),
        tuple(1 if k == d else n for k, n in enumerate(indices.shape)),
    )

    def spread(t: Any) -> Any:
        shape = tuple(t.shape[d] if k == d else n for k, n in enumerate(common))
        return t if tuple(t.shape) == shape else ops.expand(t, shape)

    return gather(spread(input), d, spread(indices), out=out)
