"""Compiling, the cache on disk, and what is known to go wrong around LLVM."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import threading

import pytest

from sapwood.errors import MissingError
from sapwood.kernels import engine

pytestmark = pytest.mark.skipif(not engine.available(), reason=engine.why_not() or "")


def text_of(number: int) -> str:
    return f"define i64 @f(i64 %x) {{\n  %y = add i64 %x, {number}\n  ret i64 %y\n}}\n"


def call(number: int, x: int) -> int:
    address = engine.load(text_of(number), ["f"])["f"]
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(x)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache folder, and nothing loaded."""
    place = tmp_path / "cache"
    monkeypatch.setenv("SAPWOOD_CACHE", str(place))
    monkeypatch.setattr(engine._state, "loaded", {})
    return place


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **env},
    )


def compiled(action) -> tuple[int, int]:
    """Return how many modules an action compiles, and how many it finds on disk."""
    before = engine.counts()
    action()
    after = engine.counts()
    return after[0] - before[0], after[1] - before[1]


def test_text_becomes_a_function(folder):
    assert call(40, 2) == 42


def test_a_module_is_compiled_once(folder):
    assert compiled(lambda: call(1, 2)) == (1, 0)
    assert compiled(lambda: call(1, 2)) == (0, 0)
    assert compiled(lambda: call(2, 2)) == (1, 0)


def test_the_next_process_finds_it_on_disk(folder):
    call(3, 0)
    engine._state.loaded.clear()
    assert compiled(lambda: call(3, 0)) == (0, 1)
    assert call(3, 4) == 7


def test_nothing_is_written_without_a_folder(folder, monkeypatch):
    monkeypatch.setenv("SAPWOOD_CACHE", "")
    assert compiled(lambda: call(4, 0)) == (1, 0)
    assert engine.cache_folder() is None
    assert not folder.exists()


@pytest.mark.parametrize(
    "harm",
    [
        lambda b: b[: len(b) // 2],
        lambda b: b[:-1] + bytes([b[-1] ^ 1]),
        lambda b: b"",
        lambda b: b"\x7fELF" + b[4:],
        lambda b: b + b"\0",
    ],
    ids=["torn", "one bit", "empty", "foreign", "longer"],
)
def test_a_damaged_entry_is_compiled_again(folder, harm):
    call(5, 0)
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(harm(whole))
    engine._state.loaded.clear()
    assert compiled(lambda: call(5, 0)) == (1, 0)
    assert call(5, 1) == 6
    assert entry.read_bytes() == whole


def test_an_entry_under_anothers_name_is_not_run(folder):
    call(6, 0)
    (entry,) = folder.iterdir()
    call(7, 0)
    (other,) = [p for p in folder.iterdir() if p != entry]
    other.write_bytes(entry.read_bytes())
    engine._state.loaded.clear()
    assert call(7, 0) == 7


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owner here")
def test_a_folder_that_others_may_write_to_is_not_trusted(folder):
    call(8, 0)
    folder.chmod(0o777)
    engine._state.loaded.clear()
    assert compiled(lambda: call(8, 0)) == (1, 0)


def test_a_folder_that_cannot_be_written_to_does_no_harm(folder):
    folder.write_text("a file in the way")
    assert call(9, 1) == 10


def test_the_key_names_the_processor_and_the_versions(folder, monkeypatch):
    key = engine._key("text", 3)
    assert key != engine._key("text", 1)
    triple, cpu, features = engine._state.target
    for other in ((triple, "other", features), (triple, cpu, "-avx"), ("other", cpu, features)):
        monkeypatch.setattr(engine._state, "target", other)
        assert engine._key("text", 3) != key


def test_the_folder_stays_within_its_limit(folder, monkeypatch):
    monkeypatch.setattr(engine, "CACHE_LIMIT", 2500)
    monkeypatch.setattr(engine, "TRIM_EVERY", 1)
    for i in range(8):
        call(100 + i, 0)
    assert sum(p.stat().st_size for p in folder.iterdir()) <= 2500
    engine._state.loaded.clear()
    assert compiled(lambda: call(107, 0)) == (0, 1), "the newest entry must be among those kept"


def test_text_that_is_wrong_is_an_error(folder):
    with pytest.raises(RuntimeError):
        engine.load("define i64 @f() { ret i32 0 }", ["f"])


def test_addresses_stay_valid_when_nothing_refers_to_the_library(folder):
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(engine.load(text_of(11), ["f"])["f"])
    engine._state.loaded.clear()
    gc.collect()
    for i in range(5):
        call(200 + i, 0)
    gc.collect()
    assert function(1) == 12


def test_threads_compile_one_after_the_other(folder):
    results = []
    threads = [threading.Thread(target=lambda i=i: results.append(call(300 + i, i))) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results) == [300 + 2 * i for i in range(6)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_waits_for_the_compiler():
    """A child forked while LLVM works in another thread would wait for LLVM's lock for ever."""
    done = run(
        """
        import os, threading, warnings
        warnings.simplefilter("ignore")
        from sapwood.kernels import engine
        text = lambda n: f"define i64 @f(i64 %x) {{ %y = add i64 %x, {n} ret i64 %y }}"
        engine.load(text(0), ["f"])
        stop = threading.Event()
        def compile_on():
            n = 1
            while not stop.is_set():
                engine.load(text(n), ["f"]); n += 1
        worker = threading.Thread(target=compile_on); worker.start()
        for i in range(5):
            child = os.fork()
            if child == 0:
                engine.load(text(10_000 + i), ["f"])
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set(); worker.join()
        print("done")
        """,
        SAPWOOD_CACHE="",
    )
    assert done.stdout.strip() == "done", done.stderr


def test_switched_off():
    done = run("from sapwood.kernels import engine; print(engine.available(), engine.why_not())", SAPWOOD_JIT="0")
    assert done.stdout.strip() == "False kernels are switched off by SAPWOOD_JIT=0"


def test_loading_where_nothing_can_be_compiled_says_why(monkeypatch):
    monkeypatch.setenv("SAPWOOD_JIT", "0")
    with pytest.raises(MissingError, match="SAPWOOD_JIT=0"):
        engine.load(text_of(0), ["f"])


def test_without_llvmlite():
    done = run(
        """
        import sys
        sys.modules["llvmlite.binding"] = None
        sys.modules["llvmlite"] = None
        from sapwood.kernels import engine
        print(engine.why_not())
        """
    )
    assert done.stdout.startswith("kernels need llvmlite, which cannot be imported")
