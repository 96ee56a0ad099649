"""Reading `x[key]`: ints, slices, None and Ellipsis make views; lists, integer tensors and masks gather a copy."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy import ndarray

from .. import dtypes, ops
from ..cuts import read
from ..errors import ArgumentError, DimError, ShapeError, ValueRangeError
from ..kernels import gather as kernels
from ..tensor import Tensor, wrap
from . import slow
from .declare import Op, composite, op
from .sizes import one_int
from .slicing import ALL, select, slice_
from .views import alias, unsqueeze
from .warm import serve

Indices = tuple[Any, ...]

# -- array level ------------------------------------------------------------------------------------------------------


def numpy_key(indices: Indices, dims: tuple[int, ...]) -> tuple[Any, ...]:
    """Return NumPy's key for index arrays that start at the given dimensions; a mask takes as many as it has."""
    key: list[Any] = []
    at = 0
    for i, dim in zip(indices, dims):
        key += [ALL] * (dim - at)
        key.append(i)
        at = dim + (i.ndim if i.dtype.kind == "b" else 1)
    return tuple(key)


def explained(name: str, input: ndarray, indices: Indices, dims: tuple[int, ...]) -> None:
    """Raise what is wrong with the indices, if anything is."""
    for i, dim in zip(indices, dims):
        if i.dtype.kind == "b":
            if i.shape != input.shape[dim : dim + i.ndim]:
                raise DimError(
                    f"{name}: a mask must have the sizes of what it masks; it is {i.shape} and starts at dimension "
                    f"{dim} of a tensor of shape {input.shape}"
                )
        elif dim < input.ndim and i.size:
            size = input.shape[dim]
            wrong = i[(i < -size) | (i >= size)]
            if wrong.size:
                raise DimError(
                    f"{name}: index {wrong.flat[0]} is out of bounds for dimension {dim} with size {size}; it must lie "
                    f"in [{-size}, {size - 1}]"
                )
    shapes = [i.shape if i.dtype.kind != "b" else (int(np.count_nonzero(i)),) for i in indices]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise DimError(f"{name}: index tensors do not broadcast to each other: {', '.join(map(str, shapes))}") from None


def _flat_rows(shape: tuple[int, ...], indices: Indices, dims: tuple[int, ...]) -> tuple[Any, ...]:
    """Return indices as row numbers of a matrix: (rows, indexed dims, whether the index comes first).

    Raises:
        IndexError: an index is out of range, or a mask has other sizes; `explained` says more.
    """
    arrays: list[ndarray] = []
    where: list[int] = []
    for i, dim in zip(indices, dims):
        if i.dtype.kind == "b":
            if i.shape != shape[dim : dim + i.ndim]:
                raise IndexError("mask")
            arrays += np.nonzero(i)
            where += range(dim, dim + i.ndim)
        else:
            arrays.append(i)
            where.append(dim)
    arrays = np.broadcast_arrays(*arrays) if len(arrays) > 1 else arrays
    rows = np.zeros(arrays[0].shape, np.int64)
    for i, dim in zip(arrays, where):
        i = np.where(i < 0, i + shape[dim], i)
        # As unsigned numbers, negative ones are too large.
        if i.size and np.maximum.reduce(i.view(f"u{i.itemsize}"), None) >= shape[dim]:
            raise IndexError("range")
        rows *= shape[dim]
        rows += i
    first = where != list(range(where[0], where[0] + len(where)))
    return rows, where, first


def add_at(out: ndarray, indices: Indices, dims: tuple[int, ...], values: ndarray) -> None:
    """Add `values` to out[indices]; where an index appears several times, all of its values are added.

    Values that go to the same place are brought together by a sort and summed in one sweep, an order of magnitude
    faster than NumPy's `add.at` for rows of more than a few elements.
    """
    rows, where, first = _flat_rows(out.shape, indices, dims)
    rest = [d for d in range(out.ndim) if d not in where]
    sizes = tuple(out.shape[d] for d in where)
    before = 0 if first else where[0]
    shape = tuple(out.shape[d] for d in rest)
    full = np.broadcast_to(values, shape[:before] + rows.shape + shape[before:])
    full = np.moveaxis(full, range(before, before + rows.ndim), range(rows.ndim)) if before else full
    count = rows.size
    if not count or not out.size:
        return
    flat = full.reshape(count, *shape)
    rows = rows.reshape(-1)
    if not first and kernels.combines(out.dtype) and out.flags.carray and serve(flat.size):
        outer, inner = math.prod(shape[:before]), math.prod(shape[before:])
        target = out.reshape(outer, math.prod(sizes), inner)
        # The values are (count, outer, inner) and the places (outer, rows, inner).
        given = flat.reshape(count, outer, inner).swapaxes(0, 1)
        kernels.combine("add", target, kernels.along(rows, outer, inner), given)
        return
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if len(starts) == count:
        places, sums = rows, flat
    elif out.dtype.kind == "b":
        places, sums = ordered[starts], np.logical_or.reduceat(flat[order], starts, axis=0)
    else:
        places, sums = ordered[starts], np.add.reduceat(flat[order], starts, axis=0)
    target = out.transpose(where + rest)
    target[np.unravel_index(places, sizes)] += sums.astype(out.dtype, copy=False)


# -- ops --------------------------------------------------------------------------------------------------------------


@op
class index(Op):
    """Gather elements: index tensors broadcast to each other and take the place of the dimensions they index."""

    inputs = ("input", "*indices")
    function = method = False
    takes_out = False
    half = False
    linear = True
    kind = "movement"
    dtypes = "bifc"
    vjp_input = lambda g, indices, input_shape, dims: ops.index_backward(g, indices, input_shape, dims)
    samples = lambda rng: [
        (rng.standard_normal((3, 4)), [np.array([0, 2, 2])], (0,)),
        (rng.standard_normal((3, 4)), [np.array([[0], [2]]), np.array([1, 1])], (0, 1)),
        (rng.standard_normal((3, 4)), [np.array([True, False, True])], (0,)),
        (rng.standard_normal((2, 3, 4)), [np.array([0, 1]), np.array([1, 1])], (0, 2)),
    ]

    def forward(input, indices, dims):
        if len(indices) == 1 and indices[0].dtype.kind != "b":
            return input.take(indices[0], dims[0])
        out = input[numpy_key(indices, dims)]
        return np.ascontiguousarray(out) if out.base is None else out.copy()

    def infer(input, indices, dims):
        explained("index", input, indices, dims)


@op
class index_backward(Op):
    """Return zeros of `size` with `input` added at the indices: the gradient of `index`."""

    inputs = ("input", "*indices")
    function = method = False
    takes_out = False
    half = False
    linear = True
    kind = "movement"
    dtypes = "fc"
    vjp_input = lambda g, indices, dims: ops.index(g, indices, dims)
    samples = lambda rng: [(rng.standard_normal((3, 4)), [np.array([0, 2, 2])], (3, 4), (0,))]

    def forward(input, indices, size, dims):
        out = np.zeros(size, input.dtype)
        if all(i.dtype.kind == "b" for i in indices):
            out[numpy_key(indices, dims)] = input
        else:
            add_at(out, indices, dims, input)
        return out

    def infer(input, indices, size, dims):
        explained("index_backward", np.broadcast_to(input.dtype.type(0), size), indices, dims)


# -- keys -------------------------------------------------------------------------------------------------------------


def sliced(input: Any, dim: int, key: slice, skip: bool) -> Any:
    """Return a slice along `dim`; the input itself where nothing is cut and `skip` allows it."""
    if not input.ndim:
        raise DimError("index: a 0-dim tensor cannot be sliced; use .item() for its value")
    step = 1 if key.step is None else one_int("index", "the step", key.step)
    if step < 1:
        raise ValueRangeError(f"index: the step of a slice must be at least 1, got {step}; use flip(...) to reverse")
    size = input.shape[dim]
    start, end, _ = slice(key.start, key.stop, 1).indices(size)
    if skip and start == 0 and end == size and step == 1:
        return input
    return slice_(input, dim, start, end, step)


def as_index(key: Any) -> Tensor:
    """Return a list, range or array as an index tensor: a mask if it holds bools, else int64."""
    if isinstance(key, str | bytes):
        raise ArgumentError(f"index: {key!r} cannot be an index; a tensor has no named fields")
    if not isinstance(key, ndarray) and not (hasattr(key, "__len__") and hasattr(key, "__getitem__")):
        raise DimError(
            "index: a key is made of ints, slices, ..., None, lists, and integer or bool tensors, got "
            f"{type(key).__name__}"
        )
    try:
        a = np.asarray(key) if len(key) or isinstance(key, ndarray) else np.empty(0, np.int64)
    except ValueError:
        raise ShapeError("index: a list of indices must have equal lengths at every level") from None
    except TypeError:
        a = np.asarray(key)
    if a.dtype.kind not in "biuf":
        raise ArgumentError(f"index: a list of indices must hold ints or bools, got {a.dtype}")
    return wrap(a if a.dtype.kind == "b" or a.dtype == np.uint8 else a.astype(np.int64))


def _is_int(key: Any) -> bool:
    return isinstance(key, int | np.integer) and not isinstance(key, bool)


def unpacked(key: Any) -> tuple[Any, ...]:
    """Return a key as a tuple; a list of slices, lists or tensors is one, with a warning."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, list) and len(key) < 32:
        for k in key:
            if k is None or k is Ellipsis or isinstance(k, slice | Tensor | list | tuple | ndarray | range):
                warnings.warn(
                    "index: a list that holds lists, slices or tensors is read as a tuple, x[[a, b]] as x[a, b]; write "
                    "the tuple, or x[sapwood.tensor([a, b])] for an index tensor",
                    UserWarning,
                    stacklevel=4,
                )
                return tuple(key)
    return (key,)


def _plain_key(k: Any) -> Any:
    """Return one part of a key with lists and arrays as tensors, masks as bools, 0-dim tensors as numbers."""
    if k is None or k is Ellipsis or isinstance(k, bool | slice) or _is_int(k):
        return k
    if isinstance(k, np.generic):
        raise DimError(f"index: {type(k).__name__} cannot be an index; use int(...) or a tensor")
    t = k if isinstance(k, Tensor) else as_index(k)
    kind = t.dtype
    if kind not in (dtypes.int64, dtypes.int32, dtypes.uint8, dtypes.bool_):
        if not t.ndim and kind.category == 1:
            return t.long() if hasattr(type(t), "__sapwood_op__") else int(t)
        raise DimError(f"index: index tensors must be int64, int32 or bool, got {kind.name}; convert with .long()")
    if not t.ndim:
        if hasattr(type(t), "__sapwood_op__"):
            # Its value is not at hand; an index of no dimensions does the same as a number.
            return t
        read("an index of no dimensions", t)
        return bool(t._array) if kind in (dtypes.bool_, dtypes.uint8) else int(t._array)
    if kind is dtypes.uint8:
        warnings.warn(
            "index: a uint8 tensor is read as a mask; use .bool() to say so, or .long() for indices",
            UserWarning,
            stacklevel=5,
        )
        return ops.ne(t, 0) if slow.watched(t) else wrap(t._array != 0)
    return t


def applied(input: Any, key: Any) -> tuple[Any, Indices, tuple[int, ...]]:
    """Apply the basic parts of a key as views; return the view, and the index tensors left with their dimensions."""
    keys = [_plain_key(k) for k in unpacked(key)]
    named = 0
    for k in keys:
        if isinstance(k, Tensor):
            named += k.ndim if k._array.dtype.kind == "b" else 1
        elif not (k is None or k is Ellipsis or isinstance(k, bool)):
            named += 1
    ndim = input.ndim
    if named > ndim:
        raise DimError(f"index: {named} indices are too many for a tensor of {ndim} dimensions")
    out, dim = input, 0
    tensors: list[Any] = []
    dims: list[int] = []
    for k in keys:
        if isinstance(k, bool):
            out = unsqueeze(out, dim)
            tensors.append(wrap(np.zeros(1 if k else 0, np.int64)))
            dims.append(dim)
            dim += 1
        elif isinstance(k, Tensor):
            tensors.append(k)
            dims.append(dim)
            dim += k.ndim if k._array.dtype.kind == "b" else 1
        elif isinstance(k, slice):
            out = sliced(out, dim, k, True)
            dim += 1
        elif k is None:
            out = unsqueeze(out, dim)
            dim += 1
        elif k is Ellipsis:
            dim += ndim - named
        else:
            out = select(out, dim, int(k))
    return out, tuple(tensors), tuple(dims)


def _ints_and_slices(self: Any, key: tuple[Any, ...]) -> Any:
    """Return the view that a key of ints and slices alone names, None for another key."""
    out, dim = self, 0
    for k in key:
        kind = type(k)
        if kind is int:
            out = select(out, dim, k)
        elif kind is slice:
            out = sliced(out, dim, k, True)
            dim += 1
        else:
            return None
    return alias(out) if out is self else out


@composite(name="__getitem__", method=True, function_name=False)
def getitem(self: Any, key: Any) -> Any:
    """Return a part of the tensor.

    Ints, slices (steps above 0), None and Ellipsis give a view; lists, integer tensors and masks gather a copy.
    """
    kind = type(key)
    if kind is int:
        return select(self, 0, key)
    if kind is slice:
        return sliced(self, 0, key, False)
    if key is None:
        return unsqueeze(self, 0)
    if key is Ellipsis:
        return alias(self)
    if kind is tuple and key and len(key) <= self.ndim:
        found = _ints_and_slices(self, key)
        if found is not None:
            return found
    out, tensors, dims = applied(self, key)
    if tensors:
        return index(out, tensors, dims)
    return alias(out) if out is self else out


__all__ = ["applied", "getitem", "index"]
