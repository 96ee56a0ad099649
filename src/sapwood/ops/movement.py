"""Moving and repeating elements: `clone`, `repeat`, `tile`, `flip`, `roll`, `rot90`, `tril`, `diag`, padding …"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from .. import dtypes, ops
from ..alias import overlaps_itself
from ..cuts import read
from ..errors import DimError, DtypeError, ShapeError
from ..tensor import Tensor, wrap
from .declare import Movement, composite, op
from .out import write_out
from .sizes import ints, one_dim, one_int, some_dims
from .views import ORDERS, in_order


@op
class clone(Movement):
    """Return a copy that passes gradients on to the original."""

    takes_out = False
    vjp_input = lambda g: g
    samples = lambda rng: [(rng.standard_normal((2, 3)),), (rng.standard_normal((2, 3)).T,)]
    reference = lambda input, *, memory_format=None: input.copy()

    def forward(input, *, memory_format=None):
        if memory_format in (None, "torch.preserve_format"):
            return _dense(input) if overlaps_itself(input) else input.copy("K")
        if memory_format not in ORDERS:
            return input.copy()
        order = ORDERS[memory_format]
        return np.ascontiguousarray(in_order(memory_format, input)).transpose(np.argsort(order))


def _dense(a):
    """Return a copy of an expanded array without gaps, the order of its dimensions in memory kept.

    A repeated dimension has no place in that order, so it stays next to its neighbours.
    """
    order = list(range(a.ndim - 1, -1, -1))
    for last in range(1, a.ndim):
        at = last
        for before in range(last - 1, -1, -1):
            inner, outer = a.strides[order[before]], a.strides[order[at]]
            if not (inner and outer):
                continue
            if inner < outer:
                break
            order[before], order[at] = order[at], order[before]
            at = before
    order = order[::-1]
    return np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order))


@op
class repeat(Movement):
    """Repeat the tensor `repeats` times along each dimension; more numbers than dimensions add new ones in front."""

    function = False
    method = "(input, *repeats)"
    takes_out = False
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), (2, 1, 3)),
        (rng.standard_normal(()), (2,)),
        (rng.standard_normal(2), (0,)),
    ]
    reference = lambda input, repeats: np.tile(input, repeats)

    def canon(a, repeats):
        repeats = ints("repeat", "repeats", repeats)
        if len(repeats) < a.ndim:
            raise ShapeError(f"repeat: a number for each of the {a.ndim} dimensions is expected, got {repeats}")
        if repeats and min(repeats) < 0:
            raise ShapeError(f"repeat: numbers must not be negative, got {repeats}")
        return (repeats,)

    def forward(input, repeats):
        shape = (1,) * (len(repeats) - input.ndim) + input.shape
        out = np.empty([n for pair in zip(repeats, shape) for n in pair], input.dtype)
        out[...] = input.reshape([n for size in shape for n in (1, size)])
        return out.reshape([r * n for r, n in zip(repeats, shape)])

    def vjp_input(g, repeats, input_shape):
        if 0 in repeats:
            return ops.zeros_of(g, input_shape)
        shape = (1,) * (len(repeats) - len(input_shape)) + tuple(input_shape)
        apart = ops.reshape(g, tuple(n for pair in zip(repeats, shape) for n in pair))
        return ops.reshape(ops.sum(apart, tuple(range(0, 2 * len(repeats), 2))), input_shape) if repeats else g


@composite
def tile(input: Any, dims: Any) -> Any:
    """Repeat the tensor along each dimension, `repeat` with missing numbers in front taken as 1."""
    dims = ints("tile", "dims", dims)
    return ops.repeat(input, (1,) * (input.ndim - len(dims)) + dims)


@composite(name="tile", method=True, function_name=False)
def _tile_method(self: Any, *dims: Any) -> Any:
    """Repeat the tensor along each dimension."""
    return tile(self, dims[0] if len(dims) == 1 else dims)


@composite(method=True)
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Repeat each element, or each slice along `dim`, so many times in a row.

    Args:
        repeats: an int, or a tensor with a number per slice. Called with one tensor alone, that tensor is `repeats`
            and the result holds each index so often.
    """
    if repeats is None:
        counts = _counts(input)
        return wrap(np.repeat(np.arange(len(counts)), counts).astype(input._array.dtype))
    if dim is None:
        input, dim = ops.flatten(input), 0
    if not input.ndim:
        input = ops.reshape(input, (1,))
    d = one_dim("repeat_interleave", dim, input.ndim)
    size = input.shape[d]
    if not isinstance(repeats, Tensor):
        count = one_int("repeat_interleave", "repeats", repeats)
        if count < 0:
            raise ShapeError(f"repeat_interleave: repeats must not be negative, got {count}")
        shape = tuple(input.shape)
        expanded = ops.expand(ops.unsqueeze(input, d + 1), (*shape[: d + 1], count, *shape[d + 1 :]))
        return ops.flatten(ops.clone(expanded, memory_format="torch.contiguous_format"), d, d + 1)
    counts = _counts(repeats)
    if len(counts) not in (1, size):
        raise ShapeError(f"repeat_interleave: {len(counts)} repeats are given for {size} slices along dimension {d}")
    index = np.repeat(np.arange(size), counts if len(counts) == size else counts[0])
    if output_size is not None and output_size != len(index):
        raise ShapeError(f"repeat_interleave: output_size is {output_size}, the repeats add up to {len(index)}")
    return ops.index_select(input, d, wrap(index))


def _counts(repeats: Tensor) -> ndarray:
    read("repeat_interleave()", repeats)
    a = repeats._array
    if a.dtype not in (np.int32, np.int64):
        raise DtypeError(f"repeat_interleave: repeats must be int32 or int64, got {repeats.dtype.name}")
    if a.ndim > 1:
        raise ShapeError(f"repeat_interleave: repeats must have at most one dimension, got {a.shape}")
    if a.size and a.min() < 0:
        raise ShapeError(f"repeat_interleave: repeats must not be negative, got {a.tolist()}")
    return a.reshape(-1)


@op
class flip(Movement):
    """Reverse the order of elements along the given dimensions."""

    takes_out = False
    method = "(input, *dims)"
    canon = lambda a, dims: (some_dims("flip", dims, a.ndim),)
    forward = lambda input, dims: (np.flip(input, dims) if dims and input.ndim else input).copy("K")
    vjp_input = lambda g, dims: ops.flip(g, dims)
    samples = lambda rng: [(rng.standard_normal((2, 3)), (0, -1)), (rng.standard_normal((2, 3)), (1,))]
    reference = lambda input, dims: np.flip(input, dims)


@composite(method=True)
def fliplr(input: Any) -> Any:
    """Reverse the second dimension."""
    if input.ndim < 2:
        raise ShapeError(f"fliplr: at least 2 dimensions are expected, got shape {tuple(input.shape)}")
    return flip(input, (1,))


@composite(method=True)
def flipud(input: Any) -> Any:
    """Reverse the first dimension."""
    if input.ndim < 1:
        raise ShapeError("flipud: at least 1 dimension is expected, got a 0-dim tensor")
    return flip(input, (0,))


@op
class roll(Movement):
    """Shift elements by `shifts` along `dims`, those that fall off at one end coming back at the other."""

    takes_out = False
    samples = lambda rng: [
        (rng.standard_normal((3, 4)), 2, 1),
        (rng.standard_normal((3, 4)), (1, -1), (0, 1)),
        (rng.standard_normal((3, 4)), 5),
    ]
    reference = lambda input, shifts, dims=None: np.roll(input, shifts, dims or None)
    vjp_input = lambda g, shifts, dims: ops.roll(g, tuple(-s for s in shifts), dims)

    def canon(a, shifts, dims):
        shifts, dims = ints("roll", "shifts", shifts), ints("roll", "dims", () if dims is None else dims)
        if not shifts:
            raise ShapeError("roll: shifts must hold at least one number")
        if (dims or len(shifts) != 1) and len(dims) != len(shifts):
            raise ShapeError(f"roll: shifts and dims must have the same length, got {shifts} and {dims}")
        if dims and not a.ndim:
            raise DimError(f"roll: a 0-dim tensor has no dimensions to roll along, got {dims}")
        return shifts, tuple(one_dim("roll", d, a.ndim) for d in dims)

    def forward(input, shifts, dims=()):
        if not input.ndim or not input.size:
            return input.copy()
        return np.roll(input, shifts, dims) if dims else np.roll(input, shifts[0])


@op
class rot90(Movement):
    """Rotate by 90 degrees `k` times in the plane of two dimensions, from the first towards the second."""

    takes_out = False
    vjp_input = lambda g, k, dims: ops.rot90(g, -k, dims)
    samples = lambda rng: [(rng.standard_normal((2, 3)), k) for k in (-1, 0, 1, 2)]
    reference = lambda input, k=1, dims=(0, 1): np.rot90(input, k, dims)

    def canon(a, k, dims):
        given = ints("rot90", "dims", dims)
        if len(given) != 2 or a.ndim < 2:
            raise ShapeError(f"rot90: two dimensions of a tensor that has them are expected, got {dims} for {a.shape}")
        found = tuple(one_dim("rot90", d, a.ndim) for d in given)
        if found[0] == found[1]:
            raise ShapeError(f"rot90: the two dimensions must differ, got {dims}")
        return one_int("rot90", "k", k), found

    forward = lambda input, k=1, dims=(0, 1): np.rot90(input, k, dims).copy("K")


# -- triangles and diagonals ------------------------------------------------------------------------------------------


class Triangle(Movement):
    """A part of each matrix kept, the rest zero."""

    inplace = True
    samples = lambda rng: [
        (rng.standard_normal((3, 4)),),
        (rng.standard_normal((2, 3, 3)), 1),
        (rng.standard_normal((3, 2)), -1),
    ]

    def infer(input, diagonal=0):
        raise ShapeError(f"tril, triu: a matrix or a batch of matrices is expected, got shape {input.shape}")


def _inside(input, diagonal, lower):
    """Return the mask of the lower (upper) triangle of matrices of the input's shape."""
    if input.ndim < 2:
        raise ValueError
    rows, columns = input.shape[-2:]
    difference = np.arange(columns) - np.arange(rows)[:, None]
    return difference <= diagonal if lower else difference >= diagonal


@op
class tril(Triangle):
    """Keep what is on and below a diagonal of each matrix, and set the rest to zero."""

    forward = lambda input, diagonal=0: np.where(_inside(input, diagonal, True), input, input.dtype.type(0))
    vjp_input = lambda g, diagonal: ops.tril(g, diagonal)
    reference = lambda input, diagonal=0: np.tril(input, diagonal)


@op
class triu(Triangle):
    """Keep what is on and above a diagonal of each matrix, and set the rest to zero."""

    forward = lambda input, diagonal=0: np.where(_inside(input, diagonal, False), input, input.dtype.type(0))
    vjp_input = lambda g, diagonal: ops.triu(g, diagonal)
    reference = lambda input, diagonal=0: np.triu(input, diagonal)


@op
class diagonal_copy(Movement):
    """Return a copy of a diagonal: what `diag` of a matrix gives."""

    takes_out = False
    function = method = False
    grad_fn = "DiagonalBackward0_copy"
    vjp_input = lambda g, input_shape, offset: ops.diagonal_backward(g, input_shape, offset, 0, 1)
    forward = lambda input, offset: input.diagonal(offset).copy()
    samples = lambda rng: [(rng.standard_normal((3, 4)), 1)]


@composite(method=True)
def diag(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """Return the matrix with a vector on its diagonal, or a copy of a matrix's diagonal."""
    if input.ndim not in (1, 2):
        raise ShapeError(f"diag: a vector or a matrix is expected, got shape {tuple(input.shape)}")
    found = diag_embed(input, diagonal) if input.ndim == 1 else diagonal_copy(input, diagonal)
    if out is None:
        return found
    write_out("diag", out, found._array)
    return out


@composite(method=True)
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Return zeros with the last dimension of `input` on the diagonal of two new dimensions `dim1` and `dim2`."""
    first, second = one_dim("diag_embed", dim1, input.ndim + 1), one_dim("diag_embed", dim2, input.ndim + 1)
    if first == second:
        raise ShapeError(f"diag_embed: dim1 and dim2 must differ, both are dimension {first}")
    if not input.ndim:
        raise ShapeError("diag_embed: at least one dimension is expected, got a 0-dim tensor")
    side = input.shape[-1] + abs(offset)
    size = list(input.shape[:-1])
    for d in sorted((first, second)):
        size.insert(d, side)
    return ops.embedded(input, tuple(size), one_int("diag_embed", "offset", offset), first, second)


@op
class embedded(Movement):
    """Return zeros of `size` with `input` on a diagonal."""

    takes_out = False
    function = method = False
    grad_fn = "DiagEmbedBackward0"
    vjp_input = lambda g, offset, dim1, dim2: ops.diagonal(g, offset, dim1, dim2)
    forward = lambda input, size, offset, dim1, dim2: ops.diagonal_backward(input, size, offset, dim1, dim2)
    samples = lambda rng: [(rng.standard_normal(3), (4, 4), 1, 0, 1)]


@composite(method=True)
def diagflat(input: Any, offset: int = 0) -> Any:
    """Return the matrix with all elements of `input` on its diagonal."""
    return diag_embed(ops.reshape(input, (-1,)), offset)


def _triangle(name: str, row: int, col: int, offset: int, dtype: Any, device: Any, lower: bool) -> Tensor:
    kind = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype, name)
    if row < 0 or col < 0:
        raise ShapeError(f"{name}: row and col must not be negative, got {row} and {col}")
    if kind not in (dtypes.int64, dtypes.int32):
        raise DtypeError(f"{name}: dtype must be int64 or int32, got {kind.name}")
    return wrap(np.stack(np.nonzero(_inside(np.empty((row, col), bool), offset, lower))).astype(kind.numpy))


@composite
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return the places of the lower triangle of a (row, col) matrix: row numbers, then column numbers, (2, n)."""
    return _triangle("tril_indices", row, col, offset, dtype, device, True)


@composite
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return the places of the upper triangle of a (row, col) matrix: row numbers, then column numbers, (2, n)."""
    return _triangle("triu_indices", row, col, offset, dtype, device, False)


__all__ = ["clone", "flip", "repeat", "roll", "rot90", "tril", "triu"]
