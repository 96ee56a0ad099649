"""Putting tensors together: `cat`, `stack`, the `*stack` family, `block_diag`, `meshgrid`, `cartesian_prod` …"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np

from .. import dtypes, ops
from ..errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from ..tensor import Tensor, wrap
from .declare import Movement, composite, op
from .expanding import expand
from .sizes import one_dim, one_int
from .views import shaped


def _empty(shape: tuple[int, ...]) -> bool:
    """Return whether `cat` passes over a tensor of this shape, as it does for historical reasons."""
    return shape == (0,)


def _joined(arrays, dim):
    out = np.concatenate(arrays, dim)
    # NumPy keeps the memory order of the parts, PyTorch joins into a contiguous tensor.
    return out if out.flags.c_contiguous else np.ascontiguousarray(out)


@op
class cat(Movement):
    """Join tensors along an existing dimension; all other sizes must agree.

    Example:
        >>> import sapwood
        >>> a = sapwood.tensor([[1, 2]])
        >>> sapwood.cat([a, a])
        tensor([[1, 2],
                [1, 2]])
    """

    inputs = ("*tensors",)
    promote = "same"
    aliases = ("concat", "concatenate")
    method = False
    numpy = (np.concatenate,)
    samples = lambda rng: [
        ([rng.standard_normal((2, 3)), rng.standard_normal((1, 3))],),
        ([rng.standard_normal((2, 3)), rng.standard_normal((2, 0)), rng.standard_normal(0)], -1),
    ]
    reference = lambda tensors, dim=0: np.concatenate([t for t in tensors if t.shape != (0,)], dim)

    def canon(tensors, dim):
        if not tensors:
            raise ValueRangeError("cat: at least one tensor is expected, got an empty list")
        full = next((t for t in tensors if not _empty(t.shape)), tensors[0])
        for i, t in enumerate(tensors):
            if not t.ndim:
                raise ShapeError(f"cat: tensors must have dimensions, tensors[{i}] is 0-dim; use stack(...)")
        return (one_dim("cat", dim, full.ndim),)

    def forward(tensors, dim=0):
        full = [t for t in tensors if not _empty(t.shape)]
        return _joined(full, dim) if full else tensors[0].copy()

    def infer(tensors, dim=0):
        shapes = [t.shape for t in tensors if not _empty(t.shape)]
        raise ShapeError(
            f"cat: sizes must agree in every dimension but {dim}, got {', '.join(map(str, shapes))}; for a new "
            "dimension use stack(...)"
        )

    def vjp(g, needs, tensors_shape, dim):
        at, grads = 0, []
        for shape, need in zip(tensors_shape, needs):
            if _empty(shape) and g.ndim != 1:
                grads.append(ops.zeros_of(g, shape) if need else None)
                continue
            grads.append(ops.slice(g, dim, at, at + shape[dim], 1) if need else None)
            at += shape[dim]
        return tuple(grads)


@op
class stack(Movement):
    """Join tensors of equal shape along a new dimension."""

    inputs = ("*tensors",)
    promote = "same"
    method = False
    numpy = (np.stack,)
    samples = lambda rng: [
        ([rng.standard_normal((2, 3)), rng.standard_normal((2, 3))], -1),
        ([rng.standard_normal(()), rng.standard_normal(())],),
    ]
    reference = lambda tensors, dim=0: np.stack(tensors, dim)

    def canon(tensors, dim):
        if not tensors:
            raise ShapeError("stack: at least one tensor is expected, got an empty list")
        return (one_dim("stack", dim, tensors[0].ndim + 1),)

    def forward(tensors, dim=0):
        shape = tensors[0].shape
        if any(t.shape != shape for t in tensors):
            raise ValueError
        at = (slice(None),) * dim + (None, Ellipsis)
        return _joined([t[at] for t in tensors], dim)

    def infer(tensors, dim=0):
        raise ShapeError(f"stack: all shapes must be equal, got {', '.join(str(t.shape) for t in tensors)}")

    def vjp(g, needs, tensors_shape, dim):
        return tuple(ops.select(g, dim, i) if need else None for i, need in enumerate(needs))


def _members(name: str, tensors: Any) -> tuple[Any, ...]:
    if isinstance(tensors, Tensor) or not hasattr(tensors, "__iter__"):
        raise ArgumentError(f"{name}: tensors must be a sequence of tensors, got {type(tensors).__name__}")
    members = tuple(tensors)
    if not members:
        raise ShapeError(f"{name}: at least one tensor is expected, got an empty list")
    for i, m in enumerate(members):
        if not isinstance(m, Tensor):
            raise ArgumentError(f"{name}: tensors[{i}] must be a tensor, got {type(m).__name__}")
    return members


@composite
def hstack(tensors: Any, *, out: Any = None) -> Any:
    """Join tensors along the second dimension, vectors along the first."""
    members = [ops.atleast_1d(t) for t in _members("hstack", tensors)]
    return cat(members, 0 if members[0].ndim == 1 else 1, out=out)


@composite(aliases=("row_stack",))
def vstack(tensors: Any, *, out: Any = None) -> Any:
    """Join tensors along the first dimension, vectors as rows."""
    return cat([ops.atleast_2d(t) for t in _members("vstack", tensors)], 0, out=out)


@composite
def dstack(tensors: Any, *, out: Any = None) -> Any:
    """Join tensors along the third dimension."""
    return cat([ops.atleast_3d(t) for t in _members("dstack", tensors)], 2, out=out)


@composite
def column_stack(tensors: Any, *, out: Any = None) -> Any:
    """Join tensors along the second dimension, vectors as columns."""
    members = [shaped(t, (int(np.prod(t.shape)), 1)) if t.ndim <= 1 else t for t in _members("column_stack", tensors)]
    return cat(members, 1, out=out)


@op
class block_diagonal(Movement):
    """Return a matrix with the given matrices along its diagonal and zeros elsewhere."""

    inputs = ("*tensors",)
    promote = "same"
    takes_out = False
    function = method = False
    grad_fn = "BlockDiagBackward0"
    samples = lambda rng: [([rng.standard_normal((2, 1)), rng.standard_normal((1, 3))],)]

    def forward(tensors):
        out = np.zeros([sum(t.shape[d] for t in tensors) for d in (0, 1)], tensors[0].dtype)
        row = column = 0
        for t in tensors:
            out[row : row + t.shape[0], column : column + t.shape[1]] = t
            row, column = row + t.shape[0], column + t.shape[1]
        return out

    def vjp(g, needs, tensors_shape):
        row = column = 0
        grads = []
        for (m, n), need in zip(tensors_shape, needs):
            part = ops.slice(ops.slice(g, 0, row, row + m, 1), 1, column, column + n, 1) if need else None
            grads.append(part)
            row, column = row + m, column + n
        return tuple(grads)


@composite
def block_diag(*tensors: Any) -> Any:
    """Return a matrix with the given tensors (numbers, row vectors, matrices) along its diagonal, zeros elsewhere."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    if not tensors:
        return wrap(np.zeros((1, 0), dtypes.get_default_dtype().numpy))
    members = []
    for i, x in enumerate(_members("block_diag", tensors)):
        if x.ndim > 2:
            raise ShapeError(f"block_diag: tensors of at most 2 dimensions are expected, tensors[{i}] has {x.ndim}")
        members.append(ops.atleast_2d(x))
    return block_diagonal(members)


@composite
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Any, ...]:
    """Expand vectors to the grid that they span.

    Args:
        indexing: "ij": the i-th vector varies along dimension i; "xy": the first two dimensions swapped.
    """
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    members = _members("meshgrid", tensors)
    if indexing is None:
        warnings.warn(
            'meshgrid: say indexing="ij" (matrix order, what is used now) or indexing="xy" (picture order)',
            UserWarning,
            stacklevel=2,
        )
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise ShapeError(f'meshgrid: indexing must be "ij" or "xy", got {indexing!r}')
    for i, t in enumerate(members):
        if t.ndim > 1:
            raise ShapeError(f"meshgrid: vectors are expected, tensors[{i}] has shape {tuple(t.shape)}")
        if t.dtype is not members[0].dtype:
            raise DtypeError(f"meshgrid: all tensors must be {members[0].dtype.name}, tensors[{i}] is {t.dtype.name}")
    swap = indexing == "xy" and len(members) >= 2
    if swap:
        members = (members[1], members[0], *members[2:])
    size = tuple(t.numel() for t in members)
    grids = [expand(ops.view(t, (1,) * i + (-1,) + (1,) * (len(size) - i - 1)), size) for i, t in enumerate(members)]
    if swap:
        grids[:2] = grids[1], grids[0]
    return tuple(grids)


@composite
def cartesian_prod(*tensors: Any) -> Any:
    """Return every way to take one element from each vector, one way per row."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    members = _members("cartesian_prod", tensors)
    for i, t in enumerate(members):
        if t.ndim != 1:
            raise ShapeError(f"cartesian_prod: vectors are expected, tensors[{i}] has shape {tuple(t.shape)}")
    if len(members) == 1:
        return members[0]
    return stack([ops.flatten(g) for g in meshgrid(*members, indexing="ij")], 1)


@composite
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """Return every choice of `r` elements of a vector, in order, one choice per row."""
    if input.ndim != 1:
        raise ShapeError(f"combinations: a vector is expected, got shape {tuple(input.shape)}")
    r = one_int("combinations", "r", r)
    if r < 0:
        raise ShapeError(f"combinations: r must not be negative, got {r}")
    if not r:
        return wrap(np.empty(0, input._array.dtype))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = list(choose(range(input.shape[0]), r))
    index = np.array(chosen, np.int64).reshape(len(chosen), r)
    return stack([ops.index(input, (wrap(column.copy()),), (0,)) for column in index.T], 1)


__all__ = ["block_diag", "cat", "meshgrid", "stack"]
