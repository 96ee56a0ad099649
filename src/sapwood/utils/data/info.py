"""What a worker process knows about itself."""

from __future__ import annotations

from typing import Any

from ...errors import GradError


class WorkerInfo:
    """Describe a worker: `id` (from 0), `num_workers`, `seed`, and its copy of the `dataset`. Read-only."""

    __slots__ = ("dataset", "id", "num_workers", "seed")

    id: int
    num_workers: int
    seed: int
    dataset: Any

    def __init__(self, id: int, num_workers: int, seed: int, dataset: Any) -> None:
        for name, value in (("id", id), ("num_workers", num_workers), ("seed", seed), ("dataset", dataset)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise GradError(f"WorkerInfo: {name} cannot be set; change the dataset it refers to instead")

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed}, dataset={self.dataset})"


class _Own:
    info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return the description of this worker process, None in the main process."""
    return _Own.info


def set_worker_info(info: WorkerInfo) -> None:
    """Make this process a worker."""
    _Own.info = info
