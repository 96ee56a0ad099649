"""Native functions that are called with arrays and a row of numbers, and share their units out among threads.

    builtin(words, *arrays) -> bool

`words` is bytes: eight-byte integers and doubles, the first three being units, grain and cost in nanoseconds. The
function behind it has the signature `void run(ptr job, i64 begin, i64 end)` and reads what it needs from the job:
addresses of the arrays (null for None) at `pointers`, the numbers at `words`. It may set `status`, which the builtin
returns as a bool. Whoever calls has checked dtypes and layouts; a thing that is not an array counts as None.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from . import builtin, engine
from .layout import BYTES_DATA, DATA, ENV, TYPE, fields
from .writer import Function, Module, Value

JOB = fields("units", "grain", "run", "pointers", "words", "env", "status", "spare", "cost")
"""`units`, `grain`, `run` and `cost` lie where `threads.launch` looks for them."""
TABLE = fields("env", "launch", "run")
HEAD = 3
"""Words in front of a function's own: units, grain, cost."""
MAX_ARRAYS = 12


@functools.cache
def _entry() -> int:
    """Compile what all direct builtins share."""
    module = Module()
    with module.function("ptr", "direct", "ptr %self", "ptr %args", "i64 %given", "ptr %names") as f:
        _direct(f)
    return engine.load(module.text(), ["direct"], level=1)["direct"]


def _direct(f: Function) -> None:
    table = f.at("%self", BYTES_DATA)
    env = f.field("ptr", table, TABLE["env"])
    words = f.at(f.load("ptr", "%args"), BYTES_DATA)
    job, pointers = f.space("i64", len(JOB), align=16), f.space("ptr", MAX_ARRAYS)
    ndarray = f.field("ptr", env, ENV["ndarray"])
    with f.loop(f.sub("%given", 1)) as i:
        thing = f.load("ptr", f.element("ptr", "%args", f.add(i, 1)))
        is_array = f.compare("eq", f.field("ptr", thing, TYPE), ndarray, "ptr")
        f.store("ptr", "null", f.element("ptr", pointers, i))
        with f.when(is_array):
            f.store("ptr", f.field("ptr", thing, DATA), f.element("ptr", pointers, i))
    for name, offset in (("units", 0), ("grain", 8), ("cost", 16)):
        f.put("i64", f.field("i64", words, offset), job, JOB[name])
    f.put("ptr", f.field("ptr", table, TABLE["run"]), job, JOB["run"])
    f.put("ptr", pointers, job, JOB["pointers"])
    f.put("ptr", words, job, JOB["words"])
    f.put("ptr", env, job, JOB["env"])
    f.put("i64", 0, job, JOB["status"])
    with f.when(f.compare("sgt", f.field("i64", words, 0), 0)):
        f.call("void", f.field("ptr", table, TABLE["launch"]), f"ptr {env}", f"ptr {job}")
    set_ = f.compare("ne", f.field("i64", job, JOB["status"]), 0)
    answer = f.choose(set_, f.field("ptr", env, ENV["true"]), f.field("ptr", env, ENV["false"]), "ptr")
    _incref(f, answer)
    f.ret("ptr", answer)


def _incref(f: Function, thing: Value) -> None:
    from .front import incref

    incref(f, thing)


def make(name: str, run: int, doc: str = "") -> Callable[..., bool]:
    """Return a builtin for the native function at address `run`."""
    env = builtin.environment()
    values = {"env": ctypes.addressof(env), "launch": builtin.runtime()["launch"], "run": run}
    table = builtin.table(8 * len(TABLE), values, TABLE)
    made: Callable[..., bool] = builtin.make(name, _entry(), table, doc)
    return made


class Job:
    """What a native function reads from its job, while it is written."""

    def __init__(self, f: Function, names: tuple[str, ...]) -> None:
        self.f, self.names = f, names
        self._words = f.field("ptr", "%job", JOB["words"])
        self._pointers = f.field("ptr", "%job", JOB["pointers"])
        self.env = f.field("ptr", "%job", JOB["env"])

    def word(self, name: str, kind: str = "i64") -> Value:
        """Load the number called `name`."""
        return self.f.field(kind, self._words, 8 * (HEAD + self.names.index(name)))

    def array(self, i: int) -> Value:
        """Return the address of array `i`."""
        return self.f.field("ptr", self._pointers, 8 * i)

    def fail(self) -> None:
        """Set the job's status."""
        self.f.put("i64", 1, "%job", JOB["status"])

    def scratch(self, size: Any) -> tuple[Value, Value]:
        """Allocate bytes; return the block to free, and its first address that is a multiple of 64."""
        f = self.f
        block = f.call("ptr", f.field("ptr", self.env, ENV["malloc"]), f"i64 {f.add(size, 64)}")
        number = f.v(f"ptrtoint ptr {block} to i64")
        return block, f.v(f"inttoptr i64 {f.v(f'and i64 {f.add(number, 63)}, -64')} to ptr")

    def free(self, block: Value) -> None:
        self.f.call("void", self.f.field("ptr", self.env, ENV["free"]), f"ptr {block}")


__all__ = ["HEAD", "JOB", "Job", "make"]
