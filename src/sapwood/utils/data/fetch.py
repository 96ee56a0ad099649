"""Fetching: from indices to a batch, in the main process and in workers alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .collate import default_collate
from .dataset import collated_rows


class MapFetcher:
    """Fetch samples by index.

    Args:
        dataset: has `__getitem__`.
        batched: whether an index is a list of indices.
        collate: makes a batch of the samples, or converts the single one.
    """

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any]) -> None:
        self.dataset = dataset
        self.batched = batched
        self.collate = collate

    def fetch(self, index: Any) -> Any:
        """Return the batch, or the sample."""
        dataset = self.dataset
        if not self.batched:
            return self.collate(dataset[index])
        if self.collate is default_collate:
            rows = collated_rows(dataset, index)
            if rows is not None:
                return rows
        if getattr(dataset, "__getitems__", None):
            return self.collate(dataset.__getitems__(index))
        return self.collate([dataset[i] for i in index])


class IterableFetcher:
    """Fetch the next samples of an iterable dataset; an index only says how many.

    Args:
        dataset: has `__iter__`.
        batched: whether an index is a list.
        collate: makes a batch of the samples, or converts the single one.
        drop_last: leave out a last batch that is not full.
    """

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool) -> None:
        self.samples = iter(dataset)
        self.batched = batched
        self.collate = collate
        self.drop_last = drop_last
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """Return the batch, or the sample.

        Raises:
            StopIteration: there are no more.
        """
        if self.ended:
            raise StopIteration
        if not self.batched:
            return self.collate(next(self.samples))
        batch = []
        for _ in index:
            try:
                batch.append(next(self.samples))
            except StopIteration:
                self.ended = True
                break
        if not batch or (self.drop_last and len(batch) < len(index)):
            raise StopIteration
        return self.collate(batch)


def fetcher(dataset: Any, *, iterable: bool, batched: bool, collate: Callable[[Any], Any], drop_last: bool) -> Any:
    """Return the fetcher for a dataset."""
    if iterable:
        return IterableFetcher(dataset, batched, collate, drop_last)
    return MapFetcher(dataset, batched, collate)
