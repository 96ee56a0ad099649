"""Threads for native loops: the units of a job are shared out among the threads of libgomp.

libgomp forks and joins in about a microsecond, and comes with NumPy's neighbours on Linux. Where it is missing, and in
a forked child (whose copy of the pool has no threads), everything runs on the calling thread. No result depends on the
number of threads: a unit is computed the same way wherever it runs, and reductions have a fixed tree.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
from pathlib import Path
from typing import Any

from ..errors import ValueRangeError
from .layout import ENV, JOB
from .writer import Function, Module, Value

WORTH = 12_000
"""Nanoseconds of work that pay for one more thread."""
RELEASE = 20_000
"""Nanoseconds of work from which other Python threads may run meanwhile."""
PORTIONS = 8
"""Portions of a thread's share, about: one that is kept waiting delays the others by one of them at most."""
MOST = 64
"""Threads that share one job, at most."""
LINE = 64
"""Bytes from one thread's counter to the next."""

_count = ctypes.c_int64(0)
"""The number of threads; native code reads it at every call. 0: not asked for yet."""
_library: list[ctypes.CDLL | None] = []
_interop: list[int] = []


def available_cores() -> int:
    """Return the physical cores this process may run on (two hyper-threads of a core count once)."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    cores = set()
    for cpu in allowed:
        try:
            cores.add(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text())
        except OSError:
            return len(allowed)
    return len(cores) or 1


def get_num_threads() -> int:
    """Return how many threads native loops use: OMP_NUM_THREADS, else one for each core."""
    if _count.value == 0:
        first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
        _count.value = int(first) if first.isdigit() and int(first) > 0 else available_cores()
    return _count.value


def set_num_threads(n: int) -> None:
    """Let native loops and NumPy's matrix products use up to `n` threads.

    Raises:
        ValueRangeError: `n` is not a positive int.
    """
    _count.value = _positive("set_num_threads", n)
    for function in _blas():
        function(n)


def get_num_interop_threads() -> int:
    """Return how many ops may run at a time; here they run one after the other, so it is what was set."""
    return _interop[0] if _interop else available_cores()


def set_num_interop_threads(n: int) -> None:
    """Accept the number of ops that may run at a time, once.

    Raises:
        ValueRangeError: `n` is not a positive int, or the number was set before.
    """
    _positive("set_num_interop_threads", n)
    if _interop:
        raise ValueRangeError(f"set_num_interop_threads: it can be set once, and it was set to {_interop[0]}")
    _interop.append(n)


def _positive(op: str, n: Any) -> int:
    if type(n) is not int or n < 1:
        raise ValueRangeError(f"{op}: expected a positive int, got {n!r}")
    return n


def _blas() -> tuple[Any, ...]:
    """Return the functions that set the threads of the BLAS libraries NumPy and SciPy brought along."""
    found = []
    for folder in {Path(p) for p in sys.path if p.endswith("site-packages")}:
        for path in sorted(folder.glob("*.libs/*openblas*")):
            # Only what is loaded already: opening another library would start threads of its own.
            mode = getattr(os, "RTLD_NOLOAD", None)
            if mode is None:
                continue
            try:
                library = ctypes.CDLL(str(path), mode=mode | os.RTLD_NOW)
            except OSError:
                continue
            # A name that ends in "_" alone is Fortran's and takes an address.
            prefixes, suffixes = ("scipy_", ""), ("64_", "_64", "")
            names = [f"{p}openblas_set_num_threads{s}" for p in prefixes for s in suffixes]
            name = next((n for n in names if hasattr(library, n)), None)
            if name is not None:
                function = getattr(library, name)
                function.argtypes, function.restype = [ctypes.c_int], None
                found.append(function)
    return tuple(found)


def _after_fork() -> None:
    _count.value = 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def count_address() -> int:
    """Return where native code reads the number of threads."""
    get_num_threads()
    return ctypes.addressof(_count)


def library() -> ctypes.CDLL | None:
    """Return libgomp, or None if there is none."""
    if not _library:
        _library.append(_find())
    return _library[0]


def _find() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    names = ["libgomp.so.1"]
    # A copy that some package brought along does as well, and may already be loaded.
    for folder in {Path(p) for p in sys.path if p.endswith("site-packages")}:
        names += [str(p) for p in sorted(folder.glob("*.libs/libgomp*.so*"))]
    for name in names:
        try:
            found = ctypes.CDLL(name)
        except OSError:
            continue
        if all(hasattr(found, f) for f in ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")):
            return found
    return None


def addresses() -> dict[str, int]:
    """Return the addresses of libgomp's functions under their names in the environment; zeros if it is missing."""
    found = library()
    theirs = {
        "parallel": "GOMP_parallel",
        "thread_number": "omp_get_thread_num",
        "threads_running": "omp_get_num_threads",
    }
    if found is None:
        return dict.fromkeys(theirs, 0)
    return {ours: ctypes.cast(getattr(found, n), ctypes.c_void_p).value or 0 for ours, n in theirs.items()}


def define(module: Module) -> None:
    """Define `launch(env, job)`: run the job's units, on several threads and without the lock if that pays.

    The job's `run(job, begin, end)` computes units; `cost` is its whole work in nanoseconds.
    """
    with module.function("void", "share", "ptr %pair", internal=True) as f:
        _share(f, "%pair")
    with module.function("void", "launch", "ptr %env", "ptr %job") as f:
        _launch(f, "%env", "%job")


def _share(f: Function, pair: Value) -> None:
    """Compute one thread's share of the units in portions, then portions of what the others have not come to.

    The same thread begins with the same units at every call, whose memory its cache may still hold; a thread that is
    kept waiting by other programs leaves its work to the rest.
    """
    env = f.load("ptr", pair)
    job, taken = f.field("ptr", pair, 8), f.at(pair, 16)
    number = f.v(f"sext i32 {f.call('i32', f.field('ptr', env, ENV['thread_number']))} to i64")
    threads = f.v(f"sext i32 {f.call('i32', f.field('ptr', env, ENV['threads_running']))} to i64")
    units, grain = f.field("i64", job, JOB["units"]), f.field("i64", job, JOB["grain"])
    run = f.field("ptr", job, JOB["run"])
    # Whole grains, so that no two threads write to one cache line.
    grains = f.udiv(f.add(units, f.sub(grain, 1)), grain)
    with f.loop(threads) as turn:
        owner = f.urem(f.add(number, turn), threads)
        begin = f.udiv(f.mul(grains, owner), threads)
        end = f.udiv(f.mul(grains, f.add(owner, 1)), threads)
        portion = f.add(f.udiv(f.sub(end, begin), PORTIONS), 1)
        counter = f.at(taken, f.mul(owner, LINE))
        place, more = f.cell("i64"), f.label("more")
        done = f.label("done")
        f.go(more)
        f.start(more)
        place.set(f.add(begin, f.v(f"atomicrmw add ptr {counter}, i64 {portion} monotonic")))
        first = place.get()
        f.leave(f.compare("sge", first, end), done)
        last = f.least(f.add(first, portion), end)
        f.call("void", run, f"ptr {job}", f"i64 {f.mul(first, grain)}", f"i64 {f.least(f.mul(last, grain), units)}")
        f.go(more)
        f.start(done)


def _launch(f: Function, env: Value, job: Value) -> None:
    units, cost = f.field("i64", job, JOB["units"]), f.field("i64", job, JOB["cost"])
    token = f.cell("ptr", "null")
    with f.when(f.compare("sgt", cost, RELEASE)):
        token.set(f.call("ptr", f.field("ptr", env, ENV["save_thread"])))
    parallel = f.field("ptr", env, ENV["parallel"])
    wanted = f.load("i64", f.field("ptr", env, ENV["threads"]))
    grains = f.udiv(f.add(units, f.sub(f.field("i64", job, JOB["grain"]), 1)), f.field("i64", job, JOB["grain"]))
    threads = f.least(f.least(wanted, f.udiv(cost, WORTH)), f.least(grains, MOST))
    several = f.both(f.compare("sgt", threads, 1), f.compare("ne", parallel, "null", "ptr"))
    with f.when(several):
        pair = f.space("i64", (16 + MOST * LINE) // 8, align=64)
        with f.loop(threads) as i:
            f.put("i64", 0, pair, f.add(f.mul(i, LINE), 16))
        f.store("ptr", env, pair)
        f.put("ptr", job, pair, 8)
        f.call("void", parallel, "ptr @share", f"ptr {pair}", f"i32 {f.v(f'trunc i64 {threads} to i32')}", "i32 0")
    with f.unless(several):
        f.call("void", f.field("ptr", job, JOB["run"]), f"ptr {job}", "i64 0", f"i64 {units}")
    saved = token.get()
    with f.when(f.compare("ne", saved, "null", "ptr")):
        f.call("void", f.field("ptr", env, ENV["restore_thread"]), f"ptr {saved}")


__all__ = [
    "addresses",
    "available_cores",
    "count_address",
    "define",
    "get_num_interop_threads",
    "get_num_threads",
    "library",
    "set_num_interop_threads",
    "set_num_threads",
]
