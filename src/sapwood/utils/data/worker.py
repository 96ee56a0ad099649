"""The worker process: receives indices, fetches batches, sends them back.

Three threads, so that nobody waits for a full pipe: one receives tasks, the main one fetches, one sends. The main
process never has more than `prefetch_factor` tasks with a worker, which bounds what can pile up.

Messages to a worker: (TASK, index), (RESUME, None); the pipe's end means stop. A worker answers every message with one:
(RESULT, data), (END, None) when an iterable dataset has no more, (FAILED, failure), (RESUMED, None).
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import random as python_random
import threading
import traceback
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

TASK, RESUME = "task", "resume"
RESULT, END, FAILED, RESUMED = "result", "end", "failed", "resumed"


class Job(NamedTuple):
    """What a worker has to know, fixed for its life."""

    dataset: Any
    iterable: bool
    batched: bool
    collate: Callable[[Any], Any]
    drop_last: bool
    init: Callable[[int], Any] | None
    base_seed: int
    id: int
    num_workers: int


class Failure(NamedTuple):
    """An exception on its way to the main process."""

    kind: Any
    text: str


def failure(problem: BaseException) -> Failure:
    """Describe an exception; its class goes along where it can be pickled."""
    kind: Any = type(problem)
    try:
        pickle.dumps(kind)
    except Exception:
        kind = RuntimeError
    return Failure(kind, "".join(traceback.format_exception(problem)))


def seed_everything(base_seed: int, worker: int) -> int:
    """Seed Python's, NumPy's and our generator for a worker and return its seed.

    NumPy gets words mixed from (worker, base_seed), as in PyTorch, since close seeds would make its streams alike.
    """
    import numpy as np

    from ... import random

    seed = base_seed + worker
    python_random.seed(seed)
    random.manual_seed(seed)
    words = [worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(words).generate_state(4))
    return seed


def run(conn: Any, job: Job) -> None:
    """Work until the main process closes the pipe."""
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(conn, tasks), daemon=True).start()
    sender = threading.Thread(target=_send, args=(conn, answers), daemon=True)
    sender.start()
    with contextlib.suppress(KeyboardInterrupt):
        _work(job, tasks, answers)
    answers.put(None)
    sender.join(timeout=5)
    conn.close()


def _receive(conn: Any, tasks: queue.SimpleQueue[Any]) -> None:
    try:
        while True:
            tasks.put(conn.recv())
    except (EOFError, OSError):
        tasks.put(None)


def _send(conn: Any, answers: queue.SimpleQueue[Any]) -> None:
    try:
        while (message := answers.get()) is not None:
            conn.send_bytes(message)
    except OSError:
        return  # the main process is gone or has stopped listening


def _packed(what: str, content: Any) -> Any:
    try:
        return ForkingPickler.dumps((what, content))
    except Exception as problem:
        return ForkingPickler.dumps((FAILED, failure(problem)))


def _work(job: Job, tasks: queue.SimpleQueue[Any], answers: queue.SimpleQueue[Any]) -> None:
    from .fetch import fetcher
    from .info import WorkerInfo, set_worker_info

    def start() -> Any:
        return fetcher(
            job.dataset, iterable=job.iterable, batched=job.batched, collate=job.collate, drop_last=job.drop_last
        )

    broken: Failure | None = None
    source: Any = None
    try:
        seed = seed_everything(job.base_seed, job.id)
        set_worker_info(WorkerInfo(job.id, job.num_workers, seed, job.dataset))
        if job.init is not None:
            job.init(job.id)
        source = start()
    except Exception as problem:
        broken = failure(problem)
    while (message := tasks.get()) is not None:
        what, index = message
        if what == RESUME:
            if job.iterable and broken is None:
                try:
                    source = start()
                except Exception as problem:
                    broken = failure(problem)
            answers.put(_packed(RESUMED, None))
        elif broken is not None:
            answers.put(_packed(FAILED, broken))
        else:
            answers.put(_answer(source, index, iterable=job.iterable))


def _answer(source: Any, index: Any, *, iterable: bool) -> Any:
    try:
        data = source.fetch(index)
    except StopIteration as stop:
        return _packed(END, None) if iterable else _packed(FAILED, failure(stop))
    except Exception as problem:
        return _packed(FAILED, failure(problem))
    return _packed(RESULT, data)
