"""Datasets: what a loader takes samples from."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np

from ...errors import DimError, MissingError, ShapeError, ValueRangeError
from ...state import GRAD, get_mode
from ...tensor import Tensor, wrap

T = TypeVar("T", covariant=True)


class _ContentError(ShapeError, AssertionError):
    """Parts that do not fit together: PyTorch asserts here."""


class Dataset(Generic[T]):
    """Samples that can be had by index: a subclass writes `__getitem__`, and `__len__` for most samplers.

    A method `__getitems__(indices)`, where there is one, is asked for all samples of a batch at once.
    """

    def __getitem__(self, index: Any) -> T:
        raise MissingError(f"{type(self).__name__}: a subclass of Dataset writes its own __getitem__()")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T], Iterable[T]):
    """Samples that come one after the other: a subclass writes `__iter__`.

    With several workers each iterates over its own copy; `get_worker_info` tells a copy which part is its own.
    """

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample i is the tuple of row i of every tensor.

    Args:
        tensors: with equal sizes of the first dimension.

    Raises:
        ShapeError: the first sizes differ.
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        sizes = {t.size(0) for t in tensors}
        if len(sizes) > 1:
            raise _ContentError(
                f"TensorDataset: all tensors need the same first size, got {[t.size(0) for t in tensors]}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        items: list[Any] = list(self.tensors)
        return tuple(t[index] for t in items)

    def __len__(self) -> int:
        length: int = self.tensors[0].size(0)
        return length


class StackDataset(Dataset[Any]):
    """Sample i is the tuple, or with keyword arguments the dict, of sample i of every dataset.

    Raises:
        ValueRangeError: no datasets, positional and keyword ones together, or different lengths.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueRangeError(
                "StackDataset: pass datasets by position (for tuples) or by name (for dicts), not both"
            )
        if not (args or kwargs):
            raise ValueRangeError("StackDataset: expected at least one dataset, got none")
        lengths = [len(d) for d in (args or kwargs.values())]
        if len(set(lengths)) > 1:
            raise ValueRangeError(f"StackDataset: all datasets need the same length, got {lengths}")
        self._length = lengths[0]
        self.datasets: Any = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {key: dataset[index] for key, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        named = isinstance(self.datasets, dict)
        columns = [_samples(d, indices) for d in (self.datasets.values() if named else self.datasets)]
        if named:
            return [dict(zip(self.datasets, sample)) for sample in zip(*columns)]
        return list(zip(*columns))

    def __len__(self) -> int:
        return self._length


def _samples(dataset: Any, indices: Sequence[Any]) -> list[Any]:
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[i] for i in indices]
    samples: list[Any] = dataset.__getitems__(indices)
    if len(samples) != len(indices):
        raise ValueRangeError(
            f"{type(dataset).__name__}.__getitems__: expected {len(indices)} samples, got {len(samples)}"
        )
    return samples


class ConcatDataset(Dataset[T]):
    """The samples of several datasets, one after the other.

    Raises:
        ShapeError: no datasets, or one without indices (AssertionError).
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise _ContentError("ConcatDataset: expected at least one dataset, got none")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise _ContentError("ConcatDataset: an IterableDataset has no indices; use ChainDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return the index after the last sample of each dataset."""
        return list(accumulate(len(d) for d in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T:
        if idx < 0:
            if -idx > len(self):
                raise ValueRangeError(f"ConcatDataset: index {idx} is out of range for {len(self)} samples")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        if which == len(self.datasets):
            raise DimError(f"ConcatDataset: index {idx} is out of range for {len(self)} samples")
        item: T = self.datasets[which][idx - (self.cumulative_sizes[which - 1] if which else 0)]
        return item


class ChainDataset(IterableDataset[T]):
    """The samples of several iterable datasets, one after the other.

    Raises:
        ShapeError: a dataset that is not iterable (AssertionError), when its turn comes.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise _ContentError(f"ChainDataset: expected an IterableDataset, got {type(d).__name__}")
            yield d

    def __iter__(self) -> Iterator[T]:
        for d in self._checked():
            yield from d

    def __len__(self) -> int:
        return sum(len(d) for d in self._checked())


class Subset(Dataset[T]):
    """The samples of a dataset at given indices.

    Raises:
        MissingError: a subclass changes `__getitem__` alone; batches would not go through it.
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        cls = type(self)
        if cls.__getitem__ is not Subset.__getitem__ and cls.__getitems__ is Subset.__getitems__:
            raise MissingError(
                f"{cls.__name__}: overrides __getitem__ but not __getitems__, which loaders call for batches; add "
                "def __getitems__(self, indices): return [self[i] for i in indices]"
            )

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[T]:
        wanted = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            samples: list[T] = self.dataset.__getitems__(wanted)
            return samples
        return [self.dataset[i] for i in wanted]

    def __len__(self) -> int:
        return len(self.indices)


def collated_rows(dataset: Any, indices: list[Any]) -> list[Tensor] | None:
    """Return what `default_collate` makes of these samples, with one indexing per tensor; None where that is not sure.

    It is sure for a `TensorDataset`, or a `Subset` of one, whose way to a sample nobody has changed.
    """
    while type(dataset) is Subset:
        inner = dataset.indices
        try:
            indices = [inner[i] for i in indices]
        except (TypeError, IndexError):
            return None
        dataset = dataset.dataset
    if not isinstance(dataset, TensorDataset) or type(dataset).__getitem__ is not TensorDataset.__getitem__:
        return None
    if hasattr(dataset, "__getitems__") or not all(type(t) is Tensor for t in dataset.tensors):
        return None
    if not all(type(i) is int for i in indices):
        return None
    if get_mode() & GRAD and any(t._node is not None for t in dataset.tensors):
        return None  # indexing is part of a graph
    rows = np.array(indices, np.intp)
    try:
        return [wrap(t._array.take(rows, 0)) for t in dataset.tensors]
    except IndexError:
        return None  # the slow way raises the error that names the sample
