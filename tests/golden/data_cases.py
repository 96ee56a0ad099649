"""The loaders whose batches `make_data.py` stores and `tests/data` repeats; neither side of them imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def loaders(m: Any, data: Any) -> Iterator[Any]:
    """Yield loaders over small datasets, built from the modules given."""
    numbers = list(range(11))
    yield data.DataLoader(data.TensorDataset(m.arange(23.0).reshape(23, 1), m.arange(23)), batch_size=4, shuffle=True)
    generator = m.Generator().manual_seed(3)
    yield data.DataLoader(
        data.TensorDataset(m.arange(23)), batch_size=4, shuffle=True, drop_last=True, generator=generator
    )
    yield data.DataLoader(numbers, batch_size=3)
    yield data.DataLoader(numbers, batch_size=None, shuffle=True)
    yield data.DataLoader(numbers, batch_size=8, sampler=data.RandomSampler(numbers, replacement=True, num_samples=70))
    yield data.DataLoader(numbers, batch_size=8, sampler=data.RandomSampler(numbers, num_samples=30))
    weights = [0.1, 0.2, 3, 4, 0.5]
    yield data.DataLoader(numbers, batch_size=8, sampler=data.WeightedRandomSampler(weights, 20))
    yield data.DataLoader(numbers, batch_size=8, sampler=data.WeightedRandomSampler(weights, 4, replacement=False))
    yield data.DataLoader(numbers, batch_size=2, sampler=data.SubsetRandomSampler(range(3, 9)))
    for rank in range(3):
        yield data.DataLoader(numbers, batch_size=2, sampler=data.DistributedSampler(numbers, 3, rank, seed=5))
        yield data.DataLoader(numbers, sampler=data.DistributedSampler(numbers, 3, rank, shuffle=False, drop_last=True))
    first, second = data.random_split(data.TensorDataset(m.arange(23.0)), [0.3, 0.7])
    yield data.DataLoader(first + second, batch_size=4, shuffle=True)
    stacked = data.StackDataset(a=numbers, b=data.TensorDataset(m.arange(11.0)))
    yield data.DataLoader(stacked, batch_size=4, shuffle=True)


def plain(x: Any) -> Any:
    """Return a batch as lists, dicts and numbers, with the dtype of every tensor."""
    if hasattr(x, "dtype"):
        return [str(x.dtype), x.tolist()]
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    return [plain(v) for v in x] if isinstance(x, (list, tuple)) else x


def epochs(m: Any, loader: Any) -> list[Any]:
    """Return two epochs, and what the default generator gives after each."""
    m.manual_seed(7)
    return [[[plain(batch) for batch in loader], m.rand(2).tolist()] for _ in range(2)]
