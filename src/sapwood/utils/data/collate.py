"""Turning a list of samples into a batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ... import ops
from ...dtypes import float64, of_numpy
from ...errors import ArgumentError, ShapeError
from ...state import GRAD, get_mode
from ...tensor import Tensor, wrap

NO_NUMBERS = "SaUO"
"""Kinds of NumPy arrays that are not numbers: bytes, text, objects."""


def as_tensor(value: Any) -> Tensor:
    """Return a NumPy array or scalar as a tensor of the same dtype; an array shares its memory."""
    array = np.asarray(value)
    of_numpy(array.dtype)  # raises for a dtype that tensors do not have
    if any(s < 0 for s in array.strides):
        raise ShapeError("default_collate: an array with negative strides cannot share its memory; pass array.copy()")
    return wrap(array)


def default_convert(data: Any) -> Any:
    """Return `data` with every NumPy array or scalar in it as a tensor; text and other objects stay as they are."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)) and not isinstance(data, (np.str_, np.bytes_)):
        if isinstance(data, np.ndarray) and data.dtype.kind in NO_NUMBERS:
            return data
        return as_tensor(data)
    if isinstance(data, Mapping):
        return _mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _sequence(data, [default_convert(d) for d in data])
    return data


def default_collate(batch: list[Any]) -> Any:
    """Return a list of samples as one batch.

    Tensors and NumPy arrays are stacked along a new first dimension; floats become a float64 tensor, ints an int64
    one; text stays a list; mappings and sequences are collated entry by entry and keep their type, but for tuples,
    which become lists.

    Raises:
        ShapeError: tensors of different shapes, or sequences of different lengths.
        ArgumentError: samples of a type that has no batch.

    Example:
        >>> default_collate([{"a": 1}, {"a": 2}])
        {'a': tensor([1, 2])}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: list[Any], *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """Return a list of samples as one batch, by functions chosen by the type of the first sample.

    Args:
        batch: not empty.
        collate_fn_map: type, or tuple of types, -> function(batch, collate_fn_map=…).
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for types, function in collate_fn_map.items():
            if isinstance(first, types):
                return function(batch, collate_fn_map=collate_fn_map)

    def below(samples: Any) -> Any:
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _mapping(first, {key: below([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*(below(samples) for samples in zip(*batch)))
    if isinstance(first, Sequence):
        lengths = {len(sample) for sample in batch}
        if len(lengths) > 1:
            raise ShapeError(
                f"default_collate: samples must have equally many entries, got {sorted(lengths)}; pad them, or pass a "
                "collate_fn"
            )
        entries = [below(samples) for samples in zip(*batch)]
        return entries if isinstance(first, tuple) else _sequence(first, entries)
    raise ArgumentError(
        f"default_collate: samples must be tensors, arrays, numbers, text, dicts or lists of them, got "
        f"{kind.__name__}; pass a collate_fn"
    )


def _mapping(like: Any, content: dict[Any, Any]) -> Any:
    """Return the content in a mapping like another one, or as a dict where its type cannot be built."""
    try:
        if isinstance(like, MutableMapping):
            clone = copy.copy(like)
            clone.update(content)
            return clone
        return type(like)(content)
    except TypeError:
        return content


def _sequence(like: Any, content: list[Any]) -> Any:
    """Return the content in a sequence like another one, or as a list where its type cannot be built."""
    try:
        if isinstance(like, MutableSequence):
            clone = copy.copy(like)
            for i, entry in enumerate(content):
                clone[i] = entry
            return clone
        return type(like)(content)
    except TypeError:
        return content


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Stack tensors."""
    first = batch[0]._array
    shape, dtype = first.shape, first.dtype
    recording = get_mode() & GRAD
    for t in batch:
        if t._array.shape != shape or t._array.dtype != dtype or (recording and t._node is not None):
            stacked: Tensor = ops.stack(list(batch), 0)
            return stacked
    return wrap(np.array([t._array for t in batch], dtype))


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Stack NumPy arrays into a tensor."""
    if batch[0].dtype.kind in NO_NUMBERS:
        raise ArgumentError(f"default_collate: arrays must hold numbers, got dtype {batch[0].dtype}; pass a collate_fn")
    return collate([as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Make NumPy scalars one tensor."""
    return as_tensor(np.array(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Make floats one float64 tensor."""
    made: Tensor = ops.tensor(list(batch), dtype=float64)
    return made


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Make ints one int64 tensor, bools one of bools."""
    made: Tensor = ops.tensor(list(batch))
    return made


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Leave text as it is."""
    return batch


default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
