"""Datasets for worker processes, which import them by name."""

from __future__ import annotations

import os

from sapwood.utils.data import Dataset, IterableDataset, get_worker_info


class Numbers(Dataset):
    def __init__(self, bad: int | None = None, dies: int | None = None) -> None:
        self.bad, self.dies = bad, dies

    def __len__(self) -> int:
        return 11

    def __getitem__(self, i: int) -> tuple[int, int]:
        if i == self.bad:
            raise KeyError(f"no sample {i}")
        if i == self.dies:
            os._exit(7)
        info = get_worker_info()
        return i, -1 if info is None else info.seed


class Shares(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(100 * info.id, 100 * info.id + 3 + info.id))
