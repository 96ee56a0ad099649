"""random_split: a dataset cut into parts at random."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ...errors import ValueRangeError
from ...random import arrays as streams
from .dataset import Subset


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset[Any]]:
    """Cut a dataset into parts without overlap.

    Args:
        dataset: anything with a length and indices.
        lengths: how many samples each part gets; or shares that sum to 1, each rounded down and the samples left over
            dealt out one by one from the first part on.
        generator: where the random order comes from; None for the default one.

    Raises:
        ValueRangeError: a share outside [0, 1], or counts that do not sum to the length.
    """
    total = sum(lengths)
    if math.isclose(total, 1) and total <= 1:
        counts = _counts(len(dataset), lengths)
    else:
        counts = list(lengths)  # type: ignore[arg-type]
    if sum(counts) != len(dataset):
        raise ValueRangeError(
            f"random_split: lengths sum to {sum(counts)}, but the dataset has {len(dataset)} samples; shares must sum "
            "to 1"
        )
    order = streams.randperm(sum(counts), generator=generator).tolist()
    return [Subset(dataset, order[end - count : end]) for end, count in zip(accumulate(counts), counts)]


def _counts(n: int, shares: Sequence[float]) -> list[int]:
    for i, share in enumerate(shares):
        if not 0 <= share <= 1:
            raise ValueRangeError(f"random_split: shares must lie in [0, 1], got {share} at position {i}")
    counts = [math.floor(n * share) for share in shares]
    for i in range(n - sum(counts)):
        counts[i % len(counts)] += 1
    for i, count in enumerate(counts):
        if count == 0:
            warnings.warn(f"random_split: part {i} is empty", UserWarning, stacklevel=3)
    return counts
