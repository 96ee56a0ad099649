"""Large arrays in memory that is already there: freed blocks are kept and handed out again.

A fresh block costs a page fault for every 4 kB at its first write, which is most of the time of a large elementwise
operation. So results of kernels come from an allocation handler (NumPy's `PyDataMem_Handler`) whose native functions
keep freed blocks of 256 kB and more, up to a limit, oldest out first. `install()` makes it NumPy's own handler in the
current context as well, so that `np.matmul` and everything else NumPy allocates there takes part.

Environment:
    SAPWOOD_REUSE=0: keep nothing. Any other number: keep that many MiB.

Everything here runs while Python's lock is held, as NumPy asks of every use of a handler.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from .layout import fields
from .writer import Function, Module, Operand, Value

LARGE = 1 << 18
"""Bytes from which a block is kept."""
HUGE = 1 << 22
"""Bytes from which a block is aligned to, and asks for, pages of 2 MiB."""
HEADER = 2048 + 64
"""Bytes in front of a large array: room for its block's size, and half a page. Arrays of the system's allocator begin
16 bytes behind a page; a result a little further on makes each load wait for a store that only looks alike (its address
agrees in the last 12 bits), which costs a loop up to half of its speed."""
SMALL_HEADER = 16
SLOTS = 64
"""Blocks kept at most."""

POOL = fields("kept", "limit", "count", "malloc", "calloc", "realloc", "free", "align", "advise")
POOL |= {"slots": 128}
_HANDLER_BYTES = 168

_state: dict[str, Any] = {}


def limit() -> int:
    """Return the most bytes of freed blocks to keep: 1 GiB or an eighth of the memory, unless told otherwise."""
    chosen = os.environ.get("SAPWOOD_REUSE", "")
    if chosen.isdigit():
        return int(chosen) << 20
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        total = 8 << 30
    return min(1 << 30, total // 8)


def kept() -> int:
    """Return how many bytes of freed blocks wait to be used again."""
    return int(_state["pool"][POOL["kept"] // 8]) if _state else 0


def release() -> None:
    """Give every block that waits back to the system."""
    if _state:
        _state["release"](ctypes.addressof(_state["pool"]))


def install() -> None:
    """Make the handler NumPy's own in the current context, if there is one.

    A context is a thread's or an async task's: new threads begin with NumPy's default.
    """
    if _state:
        _state["set_handler"](_state["capsule"])


def pool_address() -> int:
    """Return the address of what the handler's functions take as the pool, 0 where blocks are not kept."""
    return ctypes.addressof(_state["pool"]) if _state else 0


def define(module: Module) -> None:
    """Define the handler's functions: pool_malloc, pool_calloc, pool_realloc, pool_free, and pool_release."""
    with module.function("void", "evict", "ptr %pool", apart=True) as f:
        _evict(f, "%pool")
    with module.function("ptr", "take", "ptr %pool", "i64 %size", apart=True) as f:
        _take(f, "%pool", "%size")
    with module.function("ptr", "pool_malloc", "ptr %pool", "i64 %n") as f:
        _malloc(f, "%pool", "%n")
    with module.function("void", "pool_free", "ptr %pool", "ptr %data", "i64 %n") as f:
        _free(f, "%pool", "%data")
    with module.function("ptr", "pool_calloc", "ptr %pool", "i64 %n", "i64 %size") as f:
        _calloc(f, "%pool", f.mul("%n", "%size"))
    with module.function("ptr", "pool_realloc", "ptr %pool", "ptr %data", "i64 %n") as f:
        _realloc(f, "%pool")
    with module.function("void", "pool_release", "ptr %pool") as f:
        with f.loop(f.field("i64", "%pool", POOL["count"])):
            f.call("void", "@evict", "ptr %pool")


def _slot(f: Function, pool: Value, i: str) -> Value:
    return f.at(f.at(pool, POOL["slots"]), f.mul(i, 16))


def _evict(f: Function, pool: Value) -> None:
    """Free the oldest block and move the others up."""
    first = _slot(f, pool, "0")
    size, block = f.load("i64", first), f.field("ptr", first, 8)
    last = f.sub(f.field("i64", pool, POOL["count"]), 1)
    _close(f, pool, "0", last)
    f.put("i64", f.sub(f.field("i64", pool, POOL["kept"]), size), pool, POOL["kept"])
    f.call("void", f.field("ptr", pool, POOL["free"]), f"ptr {block}")


def _close(f: Function, pool: Value, gap: str, last: Value) -> None:
    """Move the slots behind `gap` up by one, and count one less."""
    with f.loop(last, gap) as i:
        here, there = _slot(f, pool, i), _slot(f, pool, f.add(i, 1))
        f.store("i64", f.load("i64", there), here)
        f.put("ptr", f.field("ptr", there, 8), here, 8)
    f.put("i64", last, pool, POOL["count"])


def _malloc(f: Function, pool: Value, n: Value) -> None:
    with f.when(f.compare("ult", n, LARGE)):
        block = f.call("ptr", f.field("ptr", pool, POOL["malloc"]), f"i64 {f.add(n, SMALL_HEADER)}")
        with f.when(f.compare("eq", block, "null", "ptr"), seldom=True):
            f.ret("ptr", "null")
        data = f.at(block, SMALL_HEADER)
        f.put("i64", 0, data, -8)
        f.ret("ptr", data)
    size = _rounded(f, n)
    block = f.call("ptr", "@take", f"ptr {pool}", f"i64 {size}")
    with f.unless(f.compare("eq", block, "null", "ptr")):
        f.ret("ptr", f.at(block, HEADER))
    huge = f.compare("uge", size, HUGE)
    place = f.space("ptr", 1)
    alignment = f.choose(huge, 1 << 21, 64)
    status = f.call(
        "i32", f.field("ptr", pool, POOL["align"]), f"ptr {place}", f"i64 {alignment}", f"i64 {size}"
    )  # fmt: skip
    with f.when(f.compare("ne", status, 0, "i32"), seldom=True):
        f.ret("ptr", "null")
    fresh = f.load("ptr", place)
    advise = f.field("ptr", pool, POOL["advise"])
    with f.when(f.both(huge, f.compare("ne", advise, "null", "ptr"))):
        f.call("i32", advise, f"ptr {fresh}", f"i64 {size}", "i32 14")  # MADV_HUGEPAGE
    f.put("i64", size, fresh, HEADER - 8)
    f.ret("ptr", f.at(fresh, HEADER))


def _calloc(f: Function, pool: Value, n: Value) -> None:
    with f.when(f.compare("ult", n, LARGE)):
        small = f.call("ptr", f.field("ptr", pool, POOL["calloc"]), f"i64 {f.add(n, SMALL_HEADER)}", "i64 1")
        with f.when(f.compare("eq", small, "null", "ptr"), seldom=True):
            f.ret("ptr", "null")
        f.ret("ptr", f.at(small, SMALL_HEADER))
    size = _rounded(f, n)
    block = f.call("ptr", "@take", f"ptr {pool}", f"i64 {size}")
    with f.unless(f.compare("eq", block, "null", "ptr")):
        data = f.at(block, HEADER)
        f.do(f"call void @llvm.memset.p0.i64(ptr {data}, i8 0, i64 {n}, i1 false)")
        f.ret("ptr", data)
    # The system's fresh zeros cost nothing until they are written to.
    fresh = f.call("ptr", f.field("ptr", pool, POOL["calloc"]), f"i64 {size}", "i64 1")
    with f.when(f.compare("eq", fresh, "null", "ptr"), seldom=True):
        f.ret("ptr", "null")
    f.put("i64", size, fresh, HEADER - 8)
    f.ret("ptr", f.at(fresh, HEADER))


def _rounded(f: Function, n: Value) -> Value:
    """Return the size of the block for n bytes: steps of an eighth of a power of two, so that similar arrays share."""
    zeros = f.v(f"call i64 @llvm.ctlz.i64(i64 {n}, i1 true)")
    mask = f.sub(f.v(f"shl i64 1, {f.sub(60, zeros)}"), 1)
    return f.v(f"and i64 {f.add(f.add(n, HEADER), mask)}, {f.v(f'xor i64 {mask}, -1')}")


def _take(f: Function, pool: Value, size: Value) -> None:
    """Return a kept block of exactly this size, or null; the newest first, for it may still be in the cache."""
    count = f.field("i64", pool, POOL["count"])
    with f.loop(count) as back:
        i = f.sub(f.sub(count, 1), back)
        slot = _slot(f, pool, i)
        with f.when(f.compare("eq", f.load("i64", slot), size)):
            block = f.field("ptr", slot, 8)
            _close(f, pool, i, f.sub(count, 1))
            f.put("i64", f.sub(f.field("i64", pool, POOL["kept"]), size), pool, POOL["kept"])
            f.ret("ptr", block)
    f.ret("ptr", "null")


def _free(f: Function, pool: Value, data: Value) -> None:
    with f.when(f.compare("eq", data, "null", "ptr"), seldom=True):
        f.ret()
    size = f.field("i64", data, -8)
    with f.when(f.compare("eq", size, 0)):
        f.call("void", f.field("ptr", pool, POOL["free"]), f"ptr {f.at(data, -SMALL_HEADER)}")
        f.ret()
    block = f.at(data, -HEADER)
    bound = f.field("i64", pool, POOL["limit"])
    with f.when(f.compare("sgt", size, bound), seldom=True):
        f.call("void", f.field("ptr", pool, POOL["free"]), f"ptr {block}")
        f.ret()
    # At most every slot is evicted: then nothing is kept and the block fits.
    with f.loop(SLOTS):
        full = f.compare("sge", f.field("i64", pool, POOL["count"]), SLOTS)
        over = f.compare("sgt", f.add(f.field("i64", pool, POOL["kept"]), size), bound)
        with f.when(f.either(full, over)):
            f.call("void", "@evict", f"ptr {pool}")
    count = f.field("i64", pool, POOL["count"])
    slot = _slot(f, pool, count)
    f.store("i64", size, slot)
    f.put("ptr", block, slot, 8)
    f.put("i64", f.add(count, 1), pool, POOL["count"])
    f.put("i64", f.add(f.field("i64", pool, POOL["kept"]), size), pool, POOL["kept"])


def _realloc(f: Function, pool: Value) -> None:
    """Move small blocks by the system's realloc, everything else by hand."""
    with f.when(f.compare("eq", "%data", "null", "ptr"), seldom=True):
        f.ret("ptr", f.call("ptr", "@pool_malloc", f"ptr {pool}", "i64 %n"))
    size = f.field("i64", "%data", -8)
    both_small = f.both(f.compare("eq", size, 0), f.compare("ult", "%n", LARGE))
    old = f.at("%data", -SMALL_HEADER)
    with f.when(both_small):
        grown = f.call(
            "ptr", f.field("ptr", pool, POOL["realloc"]), f"ptr {old}", f"i64 {f.add('%n', SMALL_HEADER)}"
        )  # fmt: skip
        with f.when(f.compare("eq", grown, "null", "ptr"), seldom=True):
            f.ret("ptr", "null")
        f.ret("ptr", f.at(grown, SMALL_HEADER))
    with f.when(f.compare("ule", f.add("%n", HEADER), size)):
        f.ret("ptr", "%data")
    data = f.call("ptr", "@pool_malloc", f"ptr {pool}", "i64 %n")
    with f.when(f.compare("eq", data, "null", "ptr"), seldom=True):
        f.ret("ptr", "null")
    # A small block does not know its size; LARGE bytes of it are more than it has, so the system's realloc stretches
    # it first.
    with f.when(f.compare("eq", size, 0)):
        stretched = f.call(
            "ptr", f.field("ptr", pool, POOL["realloc"]), f"ptr {old}", f"i64 {LARGE + SMALL_HEADER}"
        )  # fmt: skip
        with f.when(f.compare("eq", stretched, "null", "ptr"), seldom=True):
            f.call("void", "@pool_free", f"ptr {pool}", f"ptr {data}", "i64 0")
            f.ret("ptr", "null")
        f.do(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {data}, ptr {f.at(stretched, SMALL_HEADER)}, i64 {LARGE}, i1 false)"
        )
        f.call("void", f.field("ptr", pool, POOL["free"]), f"ptr {stretched}")
        f.ret("ptr", data)
    _copy(f, data, "%data", f.sub(size, HEADER))
    f.call("void", "@pool_free", f"ptr {pool}", "ptr %data", "i64 0")
    f.ret("ptr", data)


def _copy(f: Function, to: Value, source: Value, n: Operand) -> None:
    f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {n}, i1 false)")


NAMES = ("pool_malloc", "pool_calloc", "pool_realloc", "pool_free", "pool_release")


def handler(found: dict[str, int], set_handler: int) -> Any:
    """Return NumPy's capsule of the handler made of the compiled functions, or None where blocks are not kept.

    Args:
        found: addresses of the functions of `NAMES`.
        set_handler: the address of NumPy's PyDataMem_SetHandler.
    """
    bound = limit()
    if bound == 0 or sys.platform == "win32":
        return None
    system = ctypes.CDLL(None)
    pool = (ctypes.c_int64 * (POOL["slots"] // 8 + 2 * SLOTS))()
    pool[POOL["limit"] // 8] = bound
    names = {n: n for n in ("malloc", "calloc", "realloc", "free")} | {"align": "posix_memalign"}
    if sys.platform.startswith("linux"):
        names["advise"] = "madvise"
    for ours, theirs in names.items():
        pool[POOL[ours] // 8] = ctypes.cast(getattr(system, theirs), ctypes.c_void_p).value or 0
    record = ctypes.create_string_buffer(_HANDLER_BYTES)
    record.raw = b"sapwood".ljust(127, b"\0") + b"\1" + bytes(_HANDLER_BYTES - 128)
    words = (ctypes.c_int64 * 5).from_buffer(record, 128)
    words[:] = [ctypes.addressof(pool), *(found[n] for n in NAMES[:4])]
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = ctypes.create_string_buffer(b"mem_handler")
    capsule = make(ctypes.addressof(record), ctypes.cast(name, ctypes.c_char_p), None)
    setter = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(set_handler)
    release_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    _state.update(pool=pool, record=record, words=words, name=name, capsule=capsule)
    _state.update(release=release_type(found["pool_release"]), set_handler=setter)
    # Arrays may be freed after this module is gone: what their memory belongs to stays to the very end.
    for kept_alive in (pool, record, name, capsule):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept_alive))
    return capsule


__all__ = ["LARGE", "define", "handler", "install", "kept", "limit", "pool_address", "release"]
