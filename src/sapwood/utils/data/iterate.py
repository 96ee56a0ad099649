"""The iterators of a loader: in this process, or over worker processes."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import wait
from typing import Any

from ...errors import ArgumentError, GradError, MissingError
from .fetch import fetcher
from .sampler import draw_seed
from .worker import END, FAILED, RESULT, RESUME, RESUMED, TASK, Failure, Job, run


class LoaderIterator:
    """What both ways of loading share: the order of the indices, the base seed, the count."""

    def __init__(self, loader: Any) -> None:
        # A copy, since a loader with persistent workers holds its iterator: a cycle would outlive its last user.
        self._loader = copy.copy(loader)
        self._loader._iterator = None
        self._origin = weakref.ref(loader)
        self._begin()
        # After the sampler's iterator was made and before it draws: the order in which PyTorch uses the generator.
        self._base_seed = draw_seed(loader.generator)

    def _begin(self) -> None:
        self._indices: Iterator[Any] = iter(self._loader._index_sampler)
        self._yielded = 0

    def _take(self) -> Any:
        raise NotImplementedError

    def __iter__(self) -> LoaderIterator:
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def __next__(self) -> Any:
        data = self._take()
        self._yielded += 1
        promised = self._loader._promised
        if promised is not None and self._yielded > promised:
            warnings.warn(
                f"DataLoader: len() of the iterable dataset promised {promised} batches, this is number "
                f"{self._yielded}; with workers, does every copy of the dataset give its own share only?",
                UserWarning,
                stacklevel=2,
            )
        return data

    def __getstate__(self) -> Any:
        raise MissingError("DataLoader: an iterator cannot be pickled; pickle the loader")


def _fetcher(loader: Any) -> Any:
    return fetcher(
        loader.dataset,
        iterable=loader._iterable,
        batched=loader._auto_collation,
        collate=loader.collate_fn,
        drop_last=loader.drop_last,
    )


class SingleProcess(LoaderIterator):
    """Load in this process."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._fetcher = _fetcher(loader)

    def _take(self) -> Any:
        return self._fetcher.fetch(next(self._indices))


class Worker:
    """One worker process as the main process sees it: its pipe, and how many answers it owes."""

    def __init__(self, context: Any, job: Job) -> None:
        self.id = job.id
        self.conn, theirs = context.Pipe(duplex=True)
        self.process = context.Process(target=run, args=(theirs, job), daemon=True, name=f"DataLoader-{job.id}")
        try:
            self.process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as problem:
            self.conn.close()
            raise ArgumentError(
                f"DataLoader: the dataset and functions must be sent to the worker processes, and cannot be pickled "
                f"({problem}); define their classes and functions at the top of a module, or use num_workers=0"
            ) from problem
        finally:
            theirs.close()
        self.active = True
        self.owes = 0

    def ask(self, what: str, content: Any) -> None:
        """Send a message."""
        try:
            self.conn.send((what, content))
        except OSError:
            self.died()
        self.owes += 1

    def answer(self, timeout: float) -> tuple[str, Any]:
        """Wait for the next answer.

        Raises:
            GradError: none came in time (0: wait for ever), or the process ended.
        """
        ready = wait([self.conn, self.process.sentinel], timeout or None)
        if not ready:
            raise _WorkerError(f"DataLoader: worker {self.id} sent no batch within {timeout} seconds; raise timeout")
        try:
            message: tuple[str, Any] = self.conn.recv()
        except (EOFError, OSError):
            self.died()
        self.owes -= 1
        return message

    def died(self) -> None:
        """Raise the error for a process that ended."""
        self.process.join(timeout=1)
        raise _WorkerError(
            f"DataLoader: worker {self.id} (pid {self.process.pid}) ended unexpectedly, exit code "
            f"{self.process.exitcode}. A worker imports the program anew: a script that loads data must do so under "
            "`if __name__ == '__main__':`. Or the system ran out of memory and ended it"
        )


class _WorkerError(GradError):
    """A worker process that does not answer."""


def stop(workers: list[Worker]) -> None:
    """Close the pipes, which ends the workers; those that do not end in time are ended by force."""
    for worker in workers:
        worker.conn.close()
    for worker in workers:
        worker.process.join(timeout=5)
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join(timeout=5)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()


class MultiProcess(LoaderIterator):
    """Load in worker processes, which take the batches in turn; the batches come in order."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._workers: list[Worker] = []
        # Ends the workers when this iterator is gone, or the program ends, whatever happened before.
        self._stop = weakref.finalize(self, stop, self._workers)
        try:
            for i in range(loader.num_workers):
                self._workers.append(Worker(loader._context(), self._job(loader, i)))
            self._fill()
        except BaseException:
            self._stop()
            raise

    def _job(self, loader: Any, i: int) -> Job:
        return Job(
            dataset=loader.dataset,
            iterable=loader._iterable,
            batched=loader._auto_collation,
            collate=loader.collate_fn,
            drop_last=loader.drop_last,
            init=loader.worker_init_fn,
            base_seed=self._base_seed,
            id=i,
            num_workers=loader.num_workers,
        )

    def _fill(self) -> None:
        self._order: deque[Worker] = deque()
        self._turns = itertools.cycle(self._workers)
        for _ in range(self._loader.prefetch_factor * len(self._workers)):
            self._assign()

    def restart(self) -> None:
        """Begin another epoch with the same workers."""
        for worker in self._workers:
            worker.ask(RESUME, None)
        for worker in self._workers:
            while worker.answer(self._loader.timeout)[0] != RESUMED:
                pass  # batches of an epoch that was left early
            worker.active, worker.owes = True, 0
        self._begin()
        self._fill()

    def _assign(self) -> None:
        """Give the next index to the next worker that still has samples."""
        for worker in itertools.islice(self._turns, len(self._workers)):
            if not worker.active:
                continue
            index = next(self._indices, self)
            if index is not self:
                worker.ask(TASK, index)
                self._order.append(worker)
            return

    def _next_worker(self) -> Worker:
        """Return whose answer is due: in order, or, if the order does not matter, that of any worker that has one."""
        if self._loader.in_order:
            return self._order.popleft()
        waiting = {w.conn: w for w in self._workers if w.owes}
        ready = wait([*waiting, *(w.process.sentinel for w in waiting.values())], self._loader.timeout or None)
        worker = next((waiting[r] for r in ready if r in waiting), self._order[0])
        self._order.remove(worker)
        return worker

    def _take(self) -> Any:
        while self._order:
            worker = self._next_worker()
            try:
                what, content = worker.answer(self._loader.timeout)
            except _WorkerError:
                self._end()
                raise
            if what == END:
                worker.active = False
            self._assign()
            if what == RESULT:
                return content
            if what == FAILED:
                raise_again(content, worker.id)
        if not self._loader.persistent_workers:
            self._end()
        raise StopIteration

    def _end(self) -> None:
        self._order.clear()
        self._stop()
        origin = self._origin()
        if origin is not None:
            origin._forget(self)


def raise_again(problem: Failure, worker: int) -> None:
    """Raise an exception of a worker here, with the same class where that can be built from a text."""
    text = f"DataLoader: worker {worker} raised an exception; its traceback was\n{problem.text}"
    kind = problem.kind
    if issubclass(kind, KeyError):
        raise _WorkerKeyError(text)
    if issubclass(kind, StopIteration):
        kind = RuntimeError  # it would only end the loop
    try:
        error = kind(text)
    except Exception:
        error = RuntimeError(text)
    raise error


class _WorkerKeyError(KeyError):
    """A KeyError whose text keeps its line breaks."""

    def __str__(self) -> str:
        return str(self.args[0])
