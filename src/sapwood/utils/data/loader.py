"""DataLoader: batches of a dataset, in order or shuffled, loaded here or in worker processes."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ...errors import ArgumentError, ValueRangeError
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .iterate import LoaderIterator, MultiProcess, SingleProcess
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

T = TypeVar("T", covariant=True)

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _Endless(Sampler[None]):
    """The indices of an iterable dataset, which has none."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T]):
    """Iterate over a dataset in batches. Every `iter()` starts a new epoch, shuffled anew if `shuffle` is set.

    The order is PyTorch's from the same seed. Every epoch takes one seed from the generator, shuffled or not.

    Args:
        dataset: has `__getitem__` and a length, or is an `IterableDataset`.
        batch_size: samples per batch; None gives single samples.
        shuffle: take the samples in random order.
        sampler: gives the indices instead.
        batch_sampler: gives lists of indices instead; excludes batch_size, shuffle, sampler and drop_last.
        num_workers: processes that load; 0 loads in this one. They are started afresh, not forked, so what they need
            must be picklable, and a script must start its work under `if __name__ == "__main__":`.
        collate_fn: makes a batch of a list of samples; None for `default_collate`, `default_convert` without batches.
        pin_memory: accepted; there is no accelerator to pin for.
        drop_last: leave out a last batch that is not full.
        timeout: seconds to wait for a batch of a worker, 0 for ever.
        worker_init_fn: called with the number of the worker in each, before it loads.
        multiprocessing_context: a context of `multiprocessing`, or "spawn" or "forkserver".
        generator: of the random order and the workers' seeds; None for the default one.
        prefetch_factor: batches each worker loads ahead, 2 if there are workers.
        persistent_workers: keep the workers between epochs.
        in_order: with False, give the batches of the workers as they come.

    Raises:
        ValueRangeError: options that exclude each other or are out of range.

    Example:
        >>> import sapwood
        >>> from sapwood.utils.data import DataLoader
        >>> list(DataLoader([1, 2, 3], batch_size=2))
        [tensor([1, 2]), tensor([3])]
    """

    _ready = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueRangeError("DataLoader: sampler and shuffle exclude each other; let the sampler shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueRangeError(
                    "DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last; it decides them all"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueRangeError("DataLoader: batch_size=None makes no batches, so drop_last has nothing to drop")
        if sampler is None:
            if self._iterable:
                sampler = _Endless()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        self.generator = generator
        self.collate_fn: Callable[[Any], Any] = collate_fn or (
            default_collate if self._auto_collation else default_convert
        )
        self.persistent_workers = persistent_workers
        self._promised: int | None = None
        self._iterator: MultiProcess | None = None
        self._ready = True
        self._warn_of_many_workers()

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and name in _FIXED:
            raise ValueRangeError(f"DataLoader: {name} is fixed once the loader is made; make another loader")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The context that starts the workers, None for the default."""
        return self._given_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers == 0:
                raise ValueRangeError("DataLoader: multiprocessing_context needs num_workers > 0")
            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                if context not in methods:
                    raise ValueRangeError(
                        f"DataLoader: multiprocessing_context must be one of {methods}, got {context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise ArgumentError(
                    "DataLoader: multiprocessing_context must be a context or the name of a start method, got "
                    f"{type(context).__name__}"
                )
        self._given_context = context

    def _context(self) -> Any:
        """Return the context that starts the workers; never one that forks, which copies locks that threads hold."""
        context = self._given_context
        if context is None or context.get_start_method() == "fork":
            methods = multiprocessing.get_all_start_methods()
            return multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        return context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> LoaderIterator:
        if self.pin_memory:
            warnings.warn(
                "DataLoader: pin_memory has no effect, since there is no accelerator", UserWarning, stacklevel=2
            )
        if self.num_workers == 0:
            return SingleProcess(self)
        if not self.persistent_workers:
            return MultiProcess(self)
        if self._iterator is None:
            self._iterator = MultiProcess(self)
        else:
            self._iterator.restart()
        return self._iterator

    def _forget(self, iterator: LoaderIterator) -> None:
        """Start new workers next time: those of `iterator` have ended."""
        if self._iterator is iterator:
            self._iterator = None

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        n: int = len(self.dataset)
        if self.batch_size is not None:
            n = n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        self._promised = n
        return n

    def _warn_of_many_workers(self) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if cores is not None and self.num_workers > cores:
            warnings.warn(
                f"DataLoader: {self.num_workers} workers are more than the {cores} processors this process may use; "
                "loading may become slower",
                UserWarning,
                stacklevel=3,
            )


def _check_workers(workers: int, timeout: float, prefetch: int | None, persistent: bool) -> None:
    if workers < 0:
        raise ValueRangeError(f"DataLoader: num_workers must not be negative, got {workers}; 0 loads in this process")
    if timeout < 0:
        raise ValueRangeError(f"DataLoader: timeout must not be negative, got {timeout}; 0 waits for ever")
    if workers == 0 and prefetch is not None:
        raise ValueRangeError("DataLoader: prefetch_factor needs num_workers > 0, since only workers load ahead")
    if prefetch is not None and prefetch <= 0:
        raise ValueRangeError(f"DataLoader: prefetch_factor must be positive, got {prefetch}")
    if persistent and workers == 0:
        raise ValueRangeError("DataLoader: persistent_workers needs num_workers > 0")


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    given = [
        name
        for name, is_given in (
            ("shuffle", shuffle not in (False, None)),
            ("sampler", sampler is not None),
            ("batch_sampler", batch_sampler is not None),
        )
        if is_given
    ]
    if given:
        raise ValueRangeError(
            f"DataLoader: an IterableDataset decides its own order, so {' and '.join(given)} cannot be given"
        )
