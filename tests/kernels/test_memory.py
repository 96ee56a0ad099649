"""The allocation handler: kept blocks, and every way NumPy can use it."""

from __future__ import annotations

import contextvars
import ctypes
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sapwood.kernels import builtin, memory

pytestmark = pytest.mark.skipif(not builtin.available(), reason=builtin.why_not() or "")

LARGE = memory.LARGE // 8


@pytest.fixture(scope="module")
def double():
    return builtin.pointwise("double", lambda x: x + x, 1, lambda x: x + x)


@pytest.fixture
def installed():
    """Run a function in a context where the handler is NumPy's own."""
    builtin.environment()
    if not memory._state:
        pytest.skip("no blocks are kept here")
    context = contextvars.copy_context()
    context.run(memory.install)
    return context.run


def address(x):
    return x.__array_interface__["data"][0]


def test_a_freed_block_is_handed_out_again(double):
    memory.release()
    x = np.ones(LARGE)
    first = double(x)
    at = address(first)
    assert at % 64 == 0
    del first
    assert memory.kept() >= memory.LARGE
    second = double(x)
    assert address(second) == at
    assert memory.kept() == 0


def test_small_results_are_numpys_own(double):
    # A new thread begins with NumPy's own handler, whatever was installed here.
    with ThreadPoolExecutor(1) as other:
        small, large = other.submit(lambda: (double(np.ones(10)), double(np.ones(LARGE)))).result()
    assert np._core.multiarray.get_handler_name(small) == "default_allocator"
    assert np._core.multiarray.get_handler_name(large) == "sapwood"


def test_the_limit_holds(double, monkeypatch):
    memory.release()
    words = memory._state["pool"]
    place = memory.POOL["limit"] // 8
    before = words[place]
    words[place] = 5 * memory.LARGE
    try:
        x = np.ones(LARGE)
        held = [double(x) for _ in range(10)]
        assert memory.kept() == 0
        del held
        assert 0 < memory.kept() <= 5 * memory.LARGE
        huge = double(np.ones(8 * LARGE))
        del huge
        assert memory.kept() <= 5 * memory.LARGE
    finally:
        words[place] = before
        memory.release()
    assert memory.kept() == 0


def test_more_blocks_than_slots(double):
    memory.release()
    held = [double(np.ones(LARGE)) for _ in range(memory.SLOTS + 9)]
    del held
    again = [double(np.full(LARGE, i)) for i in range(memory.SLOTS + 9)]
    assert [a[0] for a in again] == [2 * i for i in range(memory.SLOTS + 9)]
    assert len({address(a) for a in again}) == len(again)


def test_similar_sizes_share_blocks(double):
    # Made before, since NumPy's own arrays may come from the blocks as well.
    first, second = np.ones(LARGE + 1000), np.ones(LARGE + 2000)
    memory.release()
    at = address(double(first))
    assert address(double(second)) == at


@pytest.mark.parametrize("n", [0, 1, 100, LARGE - 8, LARGE, LARGE + 1, 700_000])
def test_numpys_own_arrays(installed, n):
    def work():
        np.full(n, 7.0)
        zeros = np.zeros(n)
        assert not zeros.any()
        full = np.arange(n, dtype=float)
        assert (full == np.arange(float(n))).all()
        return np._core.multiarray.get_handler_name(full)

    assert installed(work) == "sapwood"


@pytest.mark.parametrize("old", [1, 100, LARGE - 3, LARGE, 3 * LARGE])
@pytest.mark.parametrize("new", [1, 50, 200, LARGE - 1, LARGE + 5, 2 * LARGE, 9 * LARGE])
def test_resizing(installed, old, new):
    def work():
        x = np.arange(old, dtype=float)
        x.resize(new, refcheck=False)
        n = min(old, new)
        assert (x[:n] == np.arange(n)).all()
        assert not x[n:].any()

    for _ in range(3):
        installed(work)


def test_matmul_and_copies(installed):
    def work():
        a = np.arange(300 * 400, dtype=float).reshape(300, 400)
        for _ in range(3):
            b = a @ a.T
            c = b.copy()
            assert (c == b).all()
        return float(b[1, 1])

    plain = np.arange(300 * 400, dtype=float).reshape(300, 400)
    assert installed(work) == pytest.approx((plain @ plain.T)[1, 1])


def test_arrays_outlive_the_context(installed):
    before = np._core.multiarray.get_handler_name()
    x = installed(lambda: np.arange(LARGE, dtype=float))
    y = np.ones(5)
    assert np._core.multiarray.get_handler_name(y) == before
    assert x.sum() == pytest.approx(LARGE * (LARGE - 1) / 2)
    x.resize(10, refcheck=False)
    assert x.tolist() == list(range(10))


def test_switched_off():
    code = (
        "import numpy as np\n"
        "from sapwood.kernels import builtin, memory\n"
        "f = builtin.pointwise('double', lambda x: x + x, 1, np.abs)\n"
        "x = f(np.ones(100_000))\n"
        "print(np._core.multiarray.get_handler_name(x), memory.kept(), x.sum())\n"
    )
    env = {**os.environ, "SAPWOOD_REUSE": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=env)
    assert done.stdout.split() == ["default_allocator", "0", "200000.0"], done.stderr


def test_the_limit_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("SAPWOOD_REUSE", "7")
    assert memory.limit() == 7 << 20
    monkeypatch.delenv("SAPWOOD_REUSE")
    assert 0 < memory.limit() <= 1 << 30


def test_memory_that_runs_out_is_an_error(double):
    with pytest.raises(MemoryError):
        double(np.lib.stride_tricks.as_strided(np.ones(1), (1 << 45,), (0,)))


def test_handler_record_has_numpys_layout():
    assert 128 + 5 * ctypes.sizeof(ctypes.c_void_p) == memory._HANDLER_BYTES
