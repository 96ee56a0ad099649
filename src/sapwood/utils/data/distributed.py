"""DistributedSampler: each process of a group gets its own share of the samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...errors import ValueRangeError
from ...random import Generator
from ...random import arrays as streams
from .sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every num_replicas-th index, from `rank` on, of an order that all processes share.

    Call `set_epoch` before every epoch, or each has the same order.

    Args:
        dataset: has a length.
        num_replicas: the number of processes.
        rank: the number of this one, from 0.
        shuffle: whether the shared order is random.
        seed: the same in all processes.
        drop_last: leave samples out so that all shares are equal; otherwise the first ones come twice.

    Raises:
        ValueRangeError: num_replicas or rank is missing, or rank out of range.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise ValueRangeError("DistributedSampler: no process group is running; pass num_replicas and rank")
        if not 0 <= rank < num_replicas:
            raise ValueRangeError(f"DistributedSampler: rank must lie in [0, {num_replicas - 1}], got {rank}")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            indices = streams.randperm(n, generator=generator).tolist()
        else:
            indices = list(range(n))
        if not self.drop_last and n:
            indices = (indices * math.ceil(self.total_size / n))[: self.total_size]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Make the order that of another epoch."""
        self.epoch = epoch
