"""Largest and smallest: `max`, `amax`, `aminmax`, `argmax` and kin, and how a chosen element's gradient returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import DimError, DtypeError, ShapeError
from ..tensor import Tensor
from .declare import Plain, Reduction, composite, op
from .reduce import dims_of, one_dim, restore_dims
from .returns import named


def check_nonempty(op: str, a: Any, dim: Any) -> None:
    """Refuse to choose among no elements.

    Raises:
        ShapeError: the tensor is empty and `dim` is None.
        DimError: a reduced dimension has size 0.
    """
    if a.size:
        return
    if dim is None:
        raise ShapeError(
            f"{op}: an empty tensor has no such element; its shape is {a.shape}, name a dim of nonzero size"
        )
    for d in (dim,) if type(dim) is int else dim:
        if a.ndim and not a.shape[d]:
            raise DimError(f"{op}: dimension {d} must have nonzero size; the shape is {a.shape}")


def check_ordered(op: str, a: Any) -> None:
    """Refuse complex numbers, which have no order.

    Raises:
        DtypeError: the array is complex.
    """
    if a.dtype.kind == "c":
        raise DtypeError(f"{op}: complex numbers have no order; compare input.abs() or input.real")


def places(index: Any, dim: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return an indexing tuple: `index` along `dim`, each position itself along the others."""
    n = index.ndim
    return tuple(index if d == dim else np.arange(index.shape[d]).reshape((-1,) + (1,) * (n - d - 1)) for d in range(n))


def with_dim(a: Any, dim: int, keepdim: bool) -> Any:
    """Return `a` with the reduced dimension in place, of size 1."""
    return a if keepdim else np.expand_dims(a, dim)


@op
class select_reduced(Plain):
    """Take from `input` the element that `indices` names along `dim`; the forward of max, median and their kin."""

    inputs = ("input", "indices")
    function = method = False
    linear = True
    half = False
    grad_fn = "GatherBackward0"
    vjp_input = lambda g, indices, input_shape, dim, keepdim: place_reduced(g, indices, input_shape, dim, keepdim)
    samples = lambda rng: [(rng.standard_normal((2, 3)), np.array([2, 0]), 1, False)]

    def forward(input, indices, dim, keepdim):
        if not input.ndim:
            return input.copy()
        chosen = input[places(with_dim(indices, dim, keepdim), dim, input.shape)]
        return chosen if keepdim else chosen.squeeze(dim)


@op
class place_reduced(Plain):
    """Return zeros of `shape` with `input` at the places that `indices` names along `dim`: select_reduced reversed."""

    inputs = ("input", "indices")
    function = method = False
    linear = True
    half = False
    grad_fn = "ScatterBackward0"
    vjp_input = lambda g, indices, dim, keepdim: select_reduced(g, indices, dim, keepdim)
    samples = lambda rng: [(rng.standard_normal(2), np.array([2, 0]), (2, 3), 1, False)]

    def forward(input, indices, shape, dim, keepdim):
        if not shape:
            return np.array(input)
        out = np.zeros(shape, input.dtype)
        out[places(with_dim(indices, dim, keepdim), dim, shape)] = with_dim(input, dim, keepdim)
        return out


def share(g: Any, mask: Any, dim: Any, keepdim: bool) -> Any:
    """Divide the gradient of a reduction equally among the elements that `mask` marks."""
    shape = mask.shape
    chosen = ops.sum(mask, dim, True, dtype=g.dtype)
    return restore_dims(g, shape, dim, keepdim) * mask / chosen


def _hits(input: Any, out: Any) -> Any:
    """Return where `input` equals the chosen value, which may be NaN."""
    value = out._array if isinstance(out, Tensor) else out
    return input == out if value == value else input != input


def _extreme(op: str, ufunc: Any, a: Any, dim: Any, keepdim: bool) -> Any:
    try:
        if a.dtype.kind != "c":
            return ufunc.reduce(a, dim, None, None, keepdim)
    except ValueError:
        check_nonempty(op, a, dim)
        raise
    return check_ordered(op, a)


class Extreme(Reduction):
    """The largest or smallest element; ties share the gradient."""

    dtypes = "bif"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)),),
        (rng.standard_normal((2, 3, 2)), (0, 2), True),
        (rng.standard_normal((2, 3)), -1),
        (rng.standard_normal(()), 0),
    ]

    def vjp_input(g, input, out, dim, keepdim):
        return share(g, input == restore_dims(out, input.shape, dim, keepdim), dim, keepdim)


@op
class amax(Extreme):
    """Return the largest element, of the whole tensor or along `dim`; ties share the gradient, NaN wins."""

    vjp_input = Extreme.vjp_input
    numpy = (np.max, np.amax)
    reference = lambda input, dim=None, keepdim=False: np.max(input, axis=dim, keepdims=keepdim)
    forward = lambda input, dim=(), keepdim=False: _extreme("amax", np.maximum, input, dim, keepdim)
    canon = lambda a, dim, keepdim: (dims_of("amax", a, None if dim == () else dim), keepdim)


@op
class amin(Extreme):
    """Return the smallest element, of the whole tensor or along `dim`; ties share the gradient, NaN wins."""

    vjp_input = Extreme.vjp_input
    numpy = (np.min, np.amin)
    reference = lambda input, dim=None, keepdim=False: np.min(input, axis=dim, keepdims=keepdim)
    forward = lambda input, dim=(), keepdim=False: _extreme("amin", np.minimum, input, dim, keepdim)
    canon = lambda a, dim, keepdim: (dims_of("amin", a, None if dim == () else dim), keepdim)


@op
class max_all(Reduction):
    """Return the largest element of the tensor; ties share the gradient."""

    function = method = False
    dtypes = "bif"
    grad_fn = "MaxBackward1"
    vjp_input = lambda g, input, out: share(g, _hits(input, out), None, False)
    samples = lambda rng: [(rng.standard_normal((2, 3)),), (rng.standard_normal(()),)]
    reference = lambda input: np.max(input)
    forward = lambda input: _extreme("max", np.maximum, input, None, False)


@op
class min_all(Reduction):
    """Return the smallest element of the tensor; ties share the gradient."""

    function = method = False
    dtypes = "bif"
    grad_fn = "MinBackward1"
    vjp_input = lambda g, input, out: share(g, _hits(input, out), None, False)
    samples = lambda rng: [(rng.standard_normal((2, 3)),), (rng.standard_normal(()),)]
    reference = lambda input: np.min(input)
    forward = lambda input: _extreme("min", np.minimum, input, None, False)


def _arg(op: str, function: Any, a: Any, dim: Any, keepdim: bool) -> Any:
    """Return the index of the first extreme element along `dim` (None: in the flattened array)."""
    check_ordered(op, a)
    check_nonempty(op, a, dim)
    if dim is not None and not a.ndim:
        return np.zeros((), np.int64)
    if a.dtype.kind == "V" or a.dtype.name == "bfloat16":
        a = a.astype(np.float32)
    return (a.argmax if function is np.argmax else a.argmin)(dim, keepdims=keepdim)


def chosen(op: str, function: Any, input: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """Return (values, indices) of the first extreme elements along `dim`."""
    indices = _arg(op, function, input, dim, keepdim)
    if not input.ndim:
        return input.copy(), indices
    return (np.maximum if function is np.argmax else np.minimum).reduce(input, dim, None, None, keepdim), indices


class Chosen(Reduction):
    """(values, indices) along one dimension; the gradient goes to the chosen element."""

    outs = ("values", "indices")
    function = method = False
    half = False
    dtypes = "bif"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), 1),
        (rng.standard_normal((2, 3)), 0, True),
        (rng.standard_normal(()), 0),
    ]


def place(g: Any, indices: Any, input_shape: Any, dim: Any, keepdim: Any) -> Any:
    """Return the gradient of an op that chose one element along `dim`."""
    return place_reduced(g, indices, input_shape, dim, keepdim)


@op
class max_(Chosen):
    """Return the largest elements along `dim` and their indices, the first of equals."""

    grad_fn = "MaxBackward0"
    vjp_input = lambda g, indices, input_shape, dim, keepdim: place(g, indices, input_shape, dim, keepdim)
    forward = lambda input, dim, keepdim=False: chosen("max", np.argmax, input, dim, keepdim)
    canon = lambda a, dim, keepdim: (one_dim("max", a, dim), keepdim)


@op
class min_(Chosen):
    """Return the smallest elements along `dim` and their indices, the first of equals."""

    grad_fn = "MinBackward0"
    vjp_input = lambda g, indices, input_shape, dim, keepdim: place(g, indices, input_shape, dim, keepdim)
    forward = lambda input, dim, keepdim=False: chosen("min", np.argmin, input, dim, keepdim)
    canon = lambda a, dim, keepdim: (one_dim("min", a, dim), keepdim)


_max_dim, _min_dim = max_, min_


def _either(
    name: str, whole: Any, along: Any, pairwise: str, input: Any, dim: Any, keepdim: Any, other: Any, out: Any
) -> Any:
    if isinstance(dim, Tensor):
        other, dim = dim, None
    if other is not None:
        return getattr(ops, pairwise)(input, other, out=out)
    if dim is None:
        return whole(input, out=out)
    found = along(input, dim, keepdim, out=out)
    return found if out is None else named(f"{name}_out", ("values", "indices"))(found)


@composite(name="max", method=True)
def max_of(
    input: Any,
    dim: Any = None,
    keepdim: bool = False,
    *,
    other: Any = None,
    out: Any = None,
    axis: Any = None,
    keepdims: Any = None,
) -> Any:
    """Return the largest element; with `dim`, (values, indices) along it; with a tensor, the larger of each pair.

    Args:
        input: real.
        dim: the dimension to reduce, or the other tensor.
    """
    if axis is not None or keepdims is not None:
        dim, keepdim = dim if axis is None else axis, keepdim if keepdims is None else keepdims
    if dim is None and other is None and out is None:
        return max_all(input)
    return _either("max", max_all, _max_dim, "maximum", input, dim, keepdim, other, out)


@composite(name="min", method=True)
def min_of(
    input: Any,
    dim: Any = None,
    keepdim: bool = False,
    *,
    other: Any = None,
    out: Any = None,
    axis: Any = None,
    keepdims: Any = None,
) -> Any:
    """Return the smallest element; with `dim`, (values, indices) along it; with a tensor, the smaller of each pair.

    Args:
        input: real.
        dim: the dimension to reduce, or the other tensor.
    """
    if axis is not None or keepdims is not None:
        dim, keepdim = dim if axis is None else axis, keepdim if keepdims is None else keepdims
    if dim is None and other is None and out is None:
        return min_all(input)
    return _either("min", min_all, _min_dim, "minimum", input, dim, keepdim, other, out)


@op
class aminmax(Reduction):
    """Return the smallest and the largest element, of the whole tensor or along `dim`; ties share the gradient."""

    outs = ("min", "max")
    dtypes = "bif"
    takes_none = True
    samples = lambda rng: [
        (rng.standard_normal((2, 3)),),
        (rng.standard_normal((2, 3)), {"dim": 1, "keepdim": True}),
        (rng.standard_normal(()), {"dim": 0}),
    ]

    def canon(a, dim, keepdim):
        return dim if dim is None else (one_dim("aminmax", a, dim),) if a.ndim else dims_of("aminmax", a, dim), keepdim

    def forward(input, *, dim=None, keepdim=False):
        return (
            _extreme("aminmax", np.minimum, input, dim, keepdim),
            _extreme("aminmax", np.maximum, input, dim, keepdim),
        )

    def vjp_input(g, input, min, max, dim, keepdim):
        total = None
        for part, value in zip(g, (min, max)):
            if part is not None:
                mask = input == restore_dims(value, input.shape, dim, keepdim)
                shared = share(part, mask, dim, keepdim)
                total = shared if total is None else total + shared
        return total


class Position(Reduction):
    """An index; no gradient."""

    kind = "index"
    half = False
    dtypes = "if"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)),),
        (rng.standard_normal((2, 3)), 1, True),
        (np.array([1.0, 3.0, 3.0]), 0),
    ]


def _arg_canon(name: str) -> Any:
    def canon(a: Any, dim: Any, keepdim: Any) -> tuple[Any, ...]:
        if a.dtype.kind == "b":
            raise DtypeError(f"{name}: input must be a number type, got bool; use input.int()")
        if dim is None and not a.size:
            raise DimError(f"{name}: an empty tensor has no such element; name a dim of nonzero size")
        return dim if dim is None else one_dim(name, a, dim), keepdim

    return canon


@op
class argmax(Position):
    """Return the index of the largest element (the first of equals), in the flattened tensor or along `dim`."""

    numpy = (np.argmax,)
    canon = _arg_canon("argmax")
    reference = lambda input, dim=None, keepdim=False: np.argmax(input, axis=dim, keepdims=keepdim)
    forward = lambda input, dim=None, keepdim=False: _arg("argmax", np.argmax, input, dim, keepdim)


@op
class argmin(Position):
    """Return the index of the smallest element (the first of equals), in the flattened tensor or along `dim`."""

    numpy = (np.argmin,)
    canon = _arg_canon("argmin")
    reference = lambda input, dim=None, keepdim=False: np.argmin(input, axis=dim, keepdims=keepdim)
    forward = lambda input, dim=None, keepdim=False: _arg("argmin", np.argmin, input, dim, keepdim)
