"""Reductions that add and multiply: `sum`, `mean`, `prod`, `trace`, and what all reductions share."""

from __future__ import annotations

import math
from operator import index
from typing import Any

import numpy as np
from numpy import ndarray

from .. import ops
from ..dtypes import F32, F64, as_dtype
from ..errors import ArgumentError, DtypeError, ShapeError
from ..tensor import Tensor, check_dim
from . import serving
from .declare import Reduction, View, composite, op

I64 = np.dtype("int64")
add_reduce = np.add.reduce


def dims_of(op: str, a: Any, dim: Any) -> Any:
    """Return `dim` as a tuple of dimensions counted from the front; None, which means all, stays None.

    Raises:
        DimError: out of range.
        ShapeError: named twice.
    """
    if dim is None:
        return None
    ndim = a.ndim
    if type(dim) is int:
        return (check_dim(op, dim, ndim),) if ndim else _scalar_dim(op, dim)
    try:
        dims = (
            tuple(index(d) for d in dim) if hasattr(dim, "__iter__") and not isinstance(dim, Tensor) else (index(dim),)
        )
    except TypeError:
        raise ArgumentError(f"{op}: dim must be an int or several, got {dim!r}") from None
    if not ndim:
        for d in dims:
            _scalar_dim(op, d)
        if len(dims) > 1:
            raise ShapeError(f"{op}: a dimension may appear once, got {dim} for a 0-dim tensor")
        return ()
    dims = tuple([check_dim(op, d, ndim) for d in dims])
    if len(set(dims)) < len(dims):
        raise ShapeError(f"{op}: each dimension may be named once, got dim={dim}")
    return dims or tuple(range(ndim))


def _scalar_dim(op: str, dim: int) -> tuple[()]:
    check_dim(op, dim, 0)
    return ()


def one_dim(op: str, a: Any, dim: Any) -> int:
    """Return a single dimension counted from the front.

    Raises:
        DimError: out of range.
        ArgumentError: not an int.
    """
    try:
        return check_dim(op, index(dim), a.ndim)
    except TypeError:
        raise ArgumentError(f"{op}: dim must be an int, got {type(dim).__name__}") from None


def count(shape: tuple[int, ...], dim: Any) -> int:
    """Return how many elements of a tensor of `shape` one element of its reduction stands for."""
    return math.prod(shape) if dim is None else math.prod([shape[d] for d in dim])


def is_narrow(dtype: Any) -> bool:
    """Return whether a NumPy type is a 16-bit float."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def refuse(op: str, a: Any, kinds: str, what: str) -> None:
    """Refuse an array whose kind of type is among `kinds`.

    Raises:
        DtypeError: saying what the op takes.
    """
    if a.dtype.kind in kinds and not is_narrow(a.dtype):
        raise DtypeError(f"{op}: input must be {what}, got {a.dtype.name}; convert it first")


def accumulate(ufunc: Any, a: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """Reduce with a ufunc in the type of the result: `dtype`, int64 for integers, float32 inside for 16-bit floats."""
    target = a.dtype if dtype is None else dtype.numpy
    if dtype is None and a.dtype.kind in "biu":
        target = I64
    inside = F32 if is_narrow(target) else target
    if a.dtype != inside:
        a = a.real.astype(inside) if a.dtype.kind == "c" and inside.kind != "c" else a.astype(inside)
    if inside.kind == "b":
        ufunc = np.logical_or if ufunc is np.add else np.logical_and
    out = ufunc.reduce(a, dim, inside, None, keepdim)
    return out if inside is target else np.asarray(out).astype(target)


def _reduced(name: str) -> Any:
    """Return a canon for (dim, keepdim, dtype)."""

    def canon(a: Any, dim: Any, keepdim: Any, dtype: Any) -> tuple[Any, ...]:
        if keepdim is not False and keepdim is not True:
            raise ArgumentError(f"{name}: keepdim must be a bool, got {keepdim!r}; several dims are given as a tuple")
        if dim is not None:
            dim = dims_of(name, a, dim)
        return dim, keepdim, dtype if dtype is None else as_dtype(dtype, name)

    return canon


@op
class restore_dims(View):
    """Spread a reduced tensor over the dimensions that the reduction removed, without copying: the reverse of `sum`."""

    function = method = False
    grad_fn = "ExpandBackward0"
    vjp_input = lambda g, dim, keepdim: ops.sum(g, dim, keepdim)
    samples = lambda rng: [
        (rng.standard_normal(3), (3, 4), (1,), False),
        (rng.standard_normal((1, 4)), (3, 4), (0,), True),
        (rng.standard_normal(()), (2, 3), None, False),
        (rng.standard_normal(()), (2, 0), None, False),
    ]

    def forward(input, shape, dim, keepdim):
        if type(input) is not ndarray:
            input = np.asarray(input)
        if dim is None:
            strides = (0,) * len(shape)
        elif keepdim:
            strides = tuple([0 if d in dim else s for d, s in enumerate(input.strides)])
        else:
            kept = iter(input.strides)
            strides = tuple([0 if d in dim else next(kept) for d in range(len(shape))])
        try:
            return ndarray(shape, input.dtype, input, 0, strides)
        except (ValueError, TypeError, BufferError):
            # The buffer protocol takes contiguous arrays of NumPy's own types only.
            return np.lib.stride_tricks.as_strided(input, shape, strides)


@op
class sum_(Reduction):
    """Add up the elements, of the whole tensor or along `dim`.

    Args:
        input: any dtype; booleans and integers add up in int64.
        dim: an int or several; None adds up everything.
        keepdim: keep the reduced dimensions with size 1.
        dtype: of the result; the input is converted before it is added up.

    Example:
        >>> import sapwood
        >>> sapwood.sum(sapwood.tensor([[1, 2], [3, 4]]), dim=0)
        tensor([4, 6])
    """

    half = False
    linear = True
    grad_fn = "SumBackward0 if dim is None else SumBackward1"
    canon = _reduced("sum")
    vjp_input = lambda g, input_shape, dim, keepdim: restore_dims(g, input_shape, dim, keepdim)
    numpy = (np.sum,)
    dtypes = "bifc"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)),),
        (rng.standard_normal((2, 3, 2)), (0, -1), True),
        (rng.standard_normal((2, 3)), 1),
        (rng.standard_normal(()), 0),
        (rng.standard_normal((0, 3)), 0),
    ]
    reference = lambda input, dim=None, keepdim=False: np.sum(input, axis=dim if input.ndim else None, keepdims=keepdim)

    def forward(input, dim=None, keepdim=False, *, dtype=None):
        if dtype is None and (input.dtype is F32 or input.dtype is F64):
            return add_reduce(input, dim, None, None, keepdim)
        return accumulate(np.add, input, dim, keepdim, dtype)


totals: dict[str, Any] = {}
"""`forward` is what adds up arrays now: the engine sums gradients with it."""
serving.place(sum_.op, totals)


def _mean_type(name: str, a: Any, dtype: Any) -> None:
    kind = a.dtype.kind if dtype is None else "bifc"[dtype.category]
    if kind in "biu":
        found = a.dtype.name if dtype is None else dtype.name
        raise DtypeError(
            f"{name}: the result must be floating-point or complex, and this would be {found}; pass dtype=float32, or "
            "convert the input with tensor.float()"
        )


@op
class mean(Reduction):
    """Average the elements, of the whole tensor or along `dim`.

    Args:
        input: floating-point or complex; other types need `dtype`.
        dim: an int or several; None averages everything.

    Raises:
        DtypeError: the result would be an integer.
    """

    half = False
    linear = True
    grad_fn = "MeanBackward0 if dim is None else MeanBackward1"
    canon = _reduced("mean")
    vjp_input = lambda g, input_shape, dim, keepdim: restore_dims(
        g / count(input_shape, dim), input_shape, dim, keepdim
    )
    numpy = (np.mean,)
    dtypes = "fc"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)),),
        (rng.standard_normal((2, 3, 2)), (0, -1), True),
        (rng.standard_normal((2, 3)), 1),
        (rng.standard_normal(()), -1),
    ]
    reference = lambda input, dim=None, keepdim=False: np.mean(
        input, axis=dim if input.ndim else None, keepdims=keepdim
    )

    def forward(input, dim=None, keepdim=False, *, dtype=None):
        if dtype is None and (input.dtype is F32 or input.dtype is F64):
            return add_reduce(input, dim, None, None, keepdim) / count(input.shape, dim)
        _mean_type("mean", input, dtype)
        target = input.dtype if dtype is None else dtype.numpy
        wide = input.astype(F32) if is_narrow(target) and target == input.dtype else input
        out = accumulate(np.add, wide, dim, keepdim, None if wide is not input else dtype)
        return np.asarray(out / count(input.shape, dim)).astype(target)


@op
class prod(Reduction):
    """Multiply the elements, of the whole tensor or along `dim`; booleans and integers multiply in int64."""

    half = False
    dtypes = "bifc"
    numpy = (np.prod,)
    grad_fn = "ProdBackward0 if dim is None else ProdBackward1"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)),),
        (rng.standard_normal((2, 3)), 1, True),
        (np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 1.0]]), 1),
        (rng.standard_normal(()), 0),
    ]
    reference = lambda input, dim=None, keepdim=False: np.prod(input, axis=dim, keepdims=keepdim)

    def canon(a, dim, keepdim, dtype):
        if dim is not None:
            one_dim("prod", a, dim)
            dim = dims_of("prod", a, dim)
        return dim, keepdim, dtype if dtype is None else as_dtype(dtype, "prod")

    def forward(input, dim=None, keepdim=False, *, dtype=None):
        return accumulate(np.multiply, input, dim, keepdim, dtype)

    def vjp_input(g, input, out, dim, keepdim):
        g = restore_dims(g, input.shape, dim, keepdim)
        if has_zero(input):
            return g * _others(input, dim)
        return g * restore_dims(out, input.shape, dim, keepdim) / input


def has_zero(x: Any) -> bool:
    """Return whether any element of an array or Tensor is zero."""
    a = x._array if isinstance(x, Tensor) else x
    return not np.asarray(a).all()


def _others(x: Any, dim: Any) -> Any:
    """Return, for each element, the product of all others along `dim`: of those before it and those behind it."""
    shape = x.shape
    if dim is None:
        x, d = ops.reshape(x, (-1,)), 0
    elif not dim:
        return ops.ones_like(x)
    else:
        d = dim[0]
    before = ops.cumprod(ops.shifted(x, d, 1, 1), d)
    behind = ops.flip(ops.cumprod(ops.flip(ops.shifted(x, d, -1, 1), (d,)), d), (d,))
    out = before * behind
    return ops.reshape(out, shape) if dim is None else out


@op
class nansum(Reduction):
    """Add up the elements that are not NaN."""

    half = False
    dtypes = "bif"
    canon = _reduced("nansum")
    vjp_input = lambda g, input, dim, keepdim: restore_dims(g, input.shape, dim, keepdim) * (input == input)
    numpy = (np.nansum,)
    samples = lambda rng: [
        (np.array([[1.0, np.nan], [2.0, 3.0]]), 0),
        (np.array([np.nan, np.nan]),),
        (rng.standard_normal((2, 3)), (0, 1), True),
    ]

    def forward(input, dim=None, keepdim=False, *, dtype=None):
        if input.dtype.kind in "biu":
            return accumulate(np.add, input, dim, keepdim, dtype)
        refuse("nansum", input, "c", "real")
        return accumulate(np.add, np.where(input == input, input, input.dtype.type(0)), dim, keepdim, dtype)


@composite(method=True)
def nanmean(
    input: Any,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Any = None,
    axis: Any = None,
    keepdims: Any = None,
) -> Any:
    """Average the elements that are not NaN; NaN where there are none.

    Raises:
        DtypeError: the input is not floating-point.
    """
    dim, keepdim = dim if axis is None else axis, keepdim if keepdims is None else keepdims
    if not (input.is_floating_point() or input.is_complex()):
        raise DtypeError(f"nanmean: input must be floating-point, got {input.dtype.name}; use mean(dtype=float32)")
    known = ops.sum(ops.logical_not(ops.isnan(input)), dim, keepdim)
    return into(ops.nansum(input, dim, keepdim, dtype=dtype) / known, out)


def into(result: Any, out: Any) -> Any:
    """Return `result`, or `out` after copying it there, for compositions that take `out=`."""
    if out is None:
        return result
    from .out import write_out

    write_out("out", out, result._array)
    return out


@op
class trace(Reduction):
    """Add up the main diagonal of a matrix; booleans and integers in int64.

    Raises:
        ShapeError: the input is not a matrix.
    """

    kind = "linear"
    linear = True
    half = False
    takes_out = False
    dtypes = "bifc"
    numpy = (np.trace,)
    vjp_input = lambda g, input_shape: trace_back(g, input_shape)
    samples = lambda rng: [(rng.standard_normal((2, 3)),), (rng.standard_normal((3, 2)),)]
    reference = lambda input: np.trace(input)

    def forward(input):
        if input.ndim != 2:
            raise ShapeError(f"trace: input must be a matrix, got {input.ndim} dimensions, shape {input.shape}")
        return accumulate(np.add, input.diagonal(), None, False, None)


@op
class trace_back(Reduction):
    """Return zeros of a matrix shape with `input` all along the diagonal: the reverse of `trace`."""

    kind = "linear"
    linear = True
    half = False
    function = method = False
    grad_fn = "IndexFillBackward0"
    vjp_input = lambda g: ops.trace(g)
    samples = lambda rng: [(rng.standard_normal(()), (2, 3))]

    def forward(input, shape):
        out = np.zeros(shape, input.dtype)
        np.fill_diagonal(out, input)
        return out
