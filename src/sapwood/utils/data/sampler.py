"""Samplers: the order in which a loader asks for samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from ... import ops
from ...dtypes import float64
from ...errors import ArgumentError, ValueRangeError
from ...random import Generator
from ...random import arrays as streams
from ...tensor import Tensor, wrap

T = TypeVar("T", covariant=True)


def draw_seed(generator: Any = None) -> int:
    """Draw a seed of 63 bits."""
    return int(streams.random_(np.empty((), np.int64), generator=generator))


def _whole(op: str, name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueRangeError(f"{op}: {name} must be a positive int, got {value!r}")


class Sampler(Generic[T]):
    """Indices in the order in which samples are wanted: a subclass writes `__iter__`, and `__len__` if it can."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__}: a subclass of Sampler writes its own __iter__()")


class SequentialSampler(Sampler[int]):
    """Every index in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order, a new one each time; the same as PyTorch's from the same seed.

    Args:
        data_source: has a length.
        replacement: draw each index independently.
        num_samples: how many; None for the length of data_source. Without replacement, more than that starts over.
        generator: None takes one seed from the default generator each time.

    Raises:
        ArgumentError: replacement is not a bool.
        ValueRangeError: num_samples is not a positive int.
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise ArgumentError(f"RandomSampler: replacement must be a bool, got {replacement!r}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueRangeError(
                f"RandomSampler: num_samples must be a positive int, got {self.num_samples!r}; is the dataset empty?"
            )

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, count = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(draw_seed())
        if self.replacement:
            # In portions of 32, as PyTorch draws them: what a shared generator gives to others depends on it.
            for _ in range(count // 32):
                yield from streams.randint(0, n, (32,), generator=generator).tolist()
            yield from streams.randint(0, n, (count % 32,), generator=generator).tolist()
        else:
            for _ in range(count // n):
                yield from streams.randperm(n, generator=generator).tolist()
            yield from streams.randperm(n, generator=generator).tolist()[: count % n]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in streams.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices 0 … len(weights) − 1, drawn with probabilities proportional to the weights.

    Args:
        weights: not negative; they need not sum to 1.
        num_samples: how many to draw.
        replacement: whether an index can come again.
        generator: None for the default one.

    Raises:
        ValueRangeError: num_samples is not a positive int, replacement not a bool, or weights not one-dimensional.
    """

    weights: Tensor

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True, generator: Any = None) -> None:
        _whole("WeightedRandomSampler", "num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueRangeError(f"WeightedRandomSampler: replacement must be a bool, got {replacement!r}")
        if isinstance(weights, Tensor):
            self.weights = wrap(weights._array.astype(np.float64, copy=False))
        else:
            self.weights = ops.tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            raise ValueRangeError(
                f"WeightedRandomSampler: weights must have one dimension, got shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = streams.multinomial(self.weights._array, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler.

    Args:
        sampler: any iterable of indices.
        batch_size: positive.
        drop_last: leave out a last batch that is not full.

    Raises:
        ValueRangeError: batch_size is not a positive int, or drop_last not a bool.
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        _whole("BatchSampler", "batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueRangeError(f"BatchSampler: drop_last must be a bool, got {drop_last!r}")
        self.sampler: Any = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
