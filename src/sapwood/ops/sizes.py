"""Sizes and dimensions as users write them, in canonical form: tuples of ints, counted from the front."""

from __future__ import annotations

from operator import index
from typing import Any

from ..errors import ArgumentError, DimError, ValueRangeError
from ..tensor import Tensor, check_dim


def ints(op: str, name: str, value: Any) -> tuple[int, ...]:
    """Return one integer or a sequence of integers as a tuple of ints.

    Raises:
        ArgumentError: something else came.
    """
    try:
        if isinstance(value, Tensor):
            return tuple(map(index, value.tolist())) if value.ndim else (index(value),)
        if hasattr(value, "__iter__"):
            return tuple(map(index, value))
        return (index(value),)
    except TypeError:
        raise ArgumentError(f"{op}: {name} must be an int or a sequence of ints, got {value!r}") from None


def one_int(op: str, name: str, value: Any) -> int:
    """Return an integer of any kind (int, NumPy integer, 0-dim tensor) as an int.

    Raises:
        ArgumentError: something else came.
    """
    if type(value) is int:
        return value
    try:
        return index(value)
    except TypeError:
        raise ArgumentError(f"{op}: {name} must be an int, got {value!r}") from None


def one_dim(op: str, dim: Any, ndim: int) -> int:
    """Return a dimension counted from the front.

    Raises:
        DimError: it is out of range; a 0-dim tensor accepts 0 and -1.
        ArgumentError: it is no int.
    """
    if type(dim) is int and -ndim <= dim < ndim:
        return dim if dim >= 0 else dim + ndim
    return check_dim(op, one_int(op, "dim", dim), ndim)


def some_dims(op: str, dims: Any, ndim: int) -> tuple[int, ...]:
    """Return distinct dimensions counted from the front.

    Raises:
        DimError: one of them is out of range.
        ValueRangeError: one of them appears twice.
    """
    found = tuple(one_dim(op, d, ndim) for d in ints(op, "dims", dims))
    if len(set(found)) != len(found):
        raise ValueRangeError(f"{op}: a dimension may appear once, got {found} for a tensor of {ndim} dimensions")
    return found


def check_index(op: str, i: int, dim: int, size: int) -> int:
    """Return an index into a dimension counted from the front.

    Raises:
        DimError: it lies outside.
    """
    if -size <= i < size:
        return i if i >= 0 else i + size
    raise DimError(
        f"{op}: index {i} is out of bounds for dimension {dim} with size {size}; it must lie in [{-size}, {size - 1}]"
    )
