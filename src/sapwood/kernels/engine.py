"""LLVM text to machine code: compiled once, kept on disk, loaded in under a millisecond.

This is the only file that imports llvmlite.

`load(text, names)` returns the addresses of functions defined in `text`. What is loaded stays loaded until the process
ends, because an address outlives nothing that could be asked whether it is still valid.

Every compiled object is kept in the user's cache folder under the hash of everything it depends on: the text, LLVM's
and llvmlite's versions, the processor's name and features, and Sapwood's version. An entry carries its own checksum and
is written under another name and moved into place, so a torn or foreign file is compiled again, never run.

Environment:
    SAPWOOD_JIT=0: compile nothing.
    SAPWOOD_CACHE: the cache folder; empty: keep nothing on disk.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from ..errors import MissingError
from .writer import PART

CACHE_LIMIT = 64 << 20
"""Bytes of objects kept on disk; the least recently used go first. A kernel is 4 to 40 kB."""
TRIM_EVERY = 32
"""Writes between two looks at the size of the cache folder."""
_MAGIC = b"sapwood object 3\n"
_DIGEST = hashlib.sha256().digest_size


class _State:
    """What is made at the first use and lives as long as the process."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.asked = False
        self.llvm: Any = None
        self.compiler: Any = None
        self.target: tuple[str, str, str] = ("", "", "")
        self.loaded: dict[bytes, tuple[Any, dict[str, int]]] = {}
        self.serial = count(1)
        self.writes = 0
        self.compiled = 0
        self.from_disk = 0


_state = _State()
# Ours, not llvmlite's own: a child forked while some thread is inside LLVM would wait for ever for a lock that nobody
# holds in the child, so fork waits until the compiler is idle.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def available() -> bool:
    """Return whether kernels can be compiled here; `why_not()` says what is missing."""
    return why_not() is None


def why_not() -> str | None:
    """Return one line that says why nothing can be compiled, or None if it can."""
    if os.environ.get("SAPWOOD_JIT", "") == "0":
        return "kernels are switched off by SAPWOOD_JIT=0"
    with _lock:
        if not _state.asked:
            _state.asked = True
            _state.reason = _start()
        return _state.reason


def _start() -> str | None:
    """Bring LLVM up; return what prevents it."""
    if sys.maxsize < 1 << 32:
        return "kernels need a 64-bit Python"
    try:
        import llvmlite.binding as llvm
    except ImportError as e:
        return f"kernels need llvmlite, which cannot be imported ({e}); pip install llvmlite"
    try:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    except RuntimeError as e:
        return f"kernels need a processor that LLVM knows ({e})"
    if not cpu:
        return "kernels need a processor that LLVM knows, this one has no name"
    if "+avx512f" in features.split(","):
        # LLVM keeps to 256 bits on the first processors with 512, for the sake of code that uses them now and then.
        # Kernels are nothing but such loops, and twice as fast with them.
        features += ",-prefer-256-bit"
    _state.llvm = llvm
    _state.target = (llvm.get_process_triple(), cpu, features)
    # The compiler owns the target machine it is given and frees it: each compilation makes one of its own.
    _state.compiler = _immortal(llvm.create_lljit_compiler(_machine(jit=True)))
    return None


def _immortal(thing: Any) -> Any:
    """Keep an object alive even through the end of the interpreter, when arrays may still be freed by native code."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return thing


def _machine(effort: int = 3, *, jit: bool = False) -> Any:
    triple, cpu, features = _state.target
    target = _state.llvm.Target.from_triple(triple)
    return target.create_target_machine(cpu=cpu, features=features, opt=effort, reloc="pic", jit=jit)


def load(text: str, names: Sequence[str], *, level: int = 3) -> dict[str, int]:
    """Compile LLVM text, or find it compiled, and return the address of each named function.

    Args:
        text: a module without target lines. Functions it calls but does not define are looked up in the process. It may
            consist of parts, each behind a line `; part NAME` (see `writer.Module`), where a function that one part
            defines is declared in the others.
        names: functions to find, defined in the text.
        level: how to compile what is no part or the part "plain". 3 finds vectors and unrolls; below, nothing is
            sought: the code is a little slower and compiled ten times faster, as is the part "control". The part
            "vector" is translated as well as can be, but not searched for vectors.

    Raises:
        MissingError: nothing can be compiled here; the text says why.
    """
    reason = why_not()
    if reason is not None:
        raise MissingError(f"kernels: {reason}")
    key = _key(text, level)
    with _lock:
        found = _state.loaded.get(key)
        if found is None or any(n not in found[1] for n in names):
            image = _read(key)
            if image is None:
                image = pack([_compile(part, how) for how, part in _parts(text, level)])
                _state.compiled += 1
                _write(key, image)
            else:
                _state.from_disk += 1
            found = _state.loaded[key] = _link(image, names)
        return {n: found[1][n] for n in names}


def _parts(text: str, level: int) -> list[tuple[str, str]]:
    """Return the parts of a module's text with the way each is compiled."""
    plain = "plain" if level >= 3 else "control"
    first, *rest = ("\n" + text).split("\n" + PART)
    found = [(plain, first)] if first.strip() else []
    for part in rest:
        how, _, body = part.partition("\n")
        found.append((plain if how == "plain" else how, body))
    return found


def pack(images: Sequence[bytes]) -> bytes:
    """Return several objects as one: before each its length."""
    return b"".join(len(i).to_bytes(8, "little") + i for i in images)


def unpack(image: bytes) -> list[bytes]:
    """Return the objects that `pack` has put together."""
    found = []
    while image:
        end = 8 + int.from_bytes(image[:8], "little")
        found.append(image[8:end])
        image = image[end:]
    return found


def _key(text: str, level: int) -> bytes:
    llvm = _state.llvm
    version: str = getattr(sys.modules.get("sapwood"), "__version__", "")
    number = ".".join(map(str, llvm.llvm_version_info))
    parts = (version, number, sys.modules["llvmlite"].__version__, *_state.target, str(level), text)
    return hashlib.sha256(_MAGIC + "\0".join(parts).encode()).digest()


_WAYS: dict[str, int] = {"plain": 3, "vector": 2, "control": 0}
"""How much LLVM's translation to machine code tries. At 0 it is five to ten times faster than at 1, and code that
branches more than it computes loses a tenth."""


def _compile(text: str, how: str) -> bytes:
    """Return the object code of a module."""
    llvm = _state.llvm
    with _machine(_WAYS[how]) as machine, llvm.parse_assembly(text) as module:
        module.triple = _state.target[0]
        module.data_layout = str(machine.target_data)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        # Vectorised loops are interleaved already; unrolling them too costs a third of the time and gains nothing.
        options.loop_unrolling = False
        options.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, options)
        if how == "plain":
            passes = builder.getModulePassManager()
        else:
            passes = llvm.create_new_module_pass_manager()
            passes.add_sroa_pass()
            passes.add_simplify_cfg_pass()
        # A pass manager runs once; a second run of the same one aborts the process.
        passes.run(module, builder)
        image: bytes = machine.emit_object(module)
        return image


def _link(image: bytes, names: Sequence[str]) -> tuple[Any, dict[str, int]]:
    builder = _state.llvm.JITLibraryBuilder().add_current_process()
    for part in unpack(image):
        builder.add_object_img(part)
    for name in names:
        builder.export_symbol(name)
    library = _immortal(builder.link(_state.compiler, f"sapwood{next(_state.serial)}"))
    return library, {n: library[n] for n in names}


def interleave() -> int:
    """Return how many vectors a loop should compute side by side, which hides the latency of long expressions.

    What fits the registers: on a processor with 32 exp of float32 takes 0.44 ns with four and 0.65 ns with one, on one
    with 16 more than two are spilled.
    """
    why_not()
    triple, _, features = _state.target
    wide = "+avx512f" in features.split(",") or triple.startswith(("aarch64", "arm64"))
    return 4 if wide else 2


def registers() -> tuple[int, int]:
    """Return the bytes of a vector register and how many of them there are, as far as kernels use them."""
    why_not()
    triple, _, features = _state.target
    words = features.split(",")
    if "+avx512f" in words:
        return 64, 32
    if "+avx2" in words:
        return 32, 16
    return 16, 32 if triple.startswith(("aarch64", "arm64")) else 16


def vector_bytes() -> int:
    """Return the size of the vectors that loops written with vectors should use."""
    return registers()[0]


def cache_folder() -> Path | None:
    """Return the folder of compiled objects, or None if nothing is kept on disk."""
    chosen = os.environ.get("SAPWOOD_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen else None
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return Path(base) / "sapwood" / "kernels"


def _trusted(folder: Path) -> bool:
    """Return whether only this user can have put something into the folder."""
    if not hasattr(os, "getuid"):
        return True
    found = folder.stat()
    return found.st_uid == os.getuid() and not found.st_mode & 0o022


def _read(key: bytes) -> bytes | None:
    """Return the object stored under the key, if it is whole."""
    folder = cache_folder()
    if folder is None:
        return None
    path = folder / key.hex()
    try:
        if not _trusted(folder):
            return None
        content = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + _DIGEST
    if not content.startswith(_MAGIC) or hashlib.sha256(key + content[start:]).digest() != content[len(_MAGIC) : start]:
        with suppress(OSError):
            path.unlink()
        return None
    with suppress(OSError):
        os.utime(path)
    return content[start:]


def _write(key: bytes, image: bytes) -> None:
    """Store an object; a folder that cannot be written to costs a compilation next time, nothing else."""
    folder = cache_folder()
    if folder is None:
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _trusted(folder):
            return
        number, name = tempfile.mkstemp(dir=folder, suffix=".tmp")
        try:
            with os.fdopen(number, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(key + image).digest() + image)
            os.replace(name, folder / key.hex())
        except BaseException:
            os.unlink(name)
            raise
        if _state.writes % TRIM_EVERY == 0:
            _trim(folder)
        _state.writes += 1
    except OSError:
        return


def _trim(folder: Path) -> None:
    """Remove the least recently used objects beyond the limit."""
    entries = []
    for entry in os.scandir(folder):
        with suppress(OSError):
            found = entry.stat()
            entries.append((found.st_mtime_ns, found.st_size, entry.path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= CACHE_LIMIT:
            break
        with suppress(OSError):
            os.unlink(path)
            total -= size


def counts() -> tuple[int, int]:
    """Return how many modules this process has compiled, and how many it has found on disk."""
    return _state.compiled, _state.from_disk


__all__ = ["available", "cache_folder", "counts", "interleave", "load", "registers", "vector_bytes", "why_not"]
