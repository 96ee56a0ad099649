"""Pointwise builtins: the same values, shapes, layouts and errors as the NumPy function they stand in for."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sapwood.errors import ArgumentError, MissingError
from sapwood.kernels import builtin, threads
from sapwood.kernels.scalar import fma, maximum, rare, select, sqrt

pytestmark = pytest.mark.skipif(not builtin.available(), reason=builtin.why_not() or "")

DTYPES = (np.float32, np.float64)


class Fallback:
    """A NumPy function that counts how often it was needed."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


@pytest.fixture(scope="module")
def multiply():
    return builtin.pointwise("multiply", lambda x, y: x * y, 2, np.multiply)


@pytest.fixture(scope="module")
def root():
    return builtin.pointwise("root", sqrt, 1, np.sqrt)


def layouts(rng, shape, dtype):
    """Return arrays of every layout that broadcasts to a shape, some of them larger arrays' parts."""
    normal = lambda *s: rng.standard_normal(s).astype(dtype)
    yield normal(*shape)
    yield np.asfortranarray(normal(*shape))
    yield normal(*[2 * s for s in shape])[tuple(slice(None, None, 2) for _ in shape)]
    yield normal(*shape)[tuple(slice(None, None, -1) for _ in shape)]
    yield normal(1)
    yield normal().reshape(())
    if len(shape) > 1:
        yield normal(*shape[::-1]).T
        yield normal(*shape[:-1], 1)
        yield normal(1, *shape[1:])
        yield normal(*shape[1:])
        yield np.broadcast_to(normal(*shape[1:]), shape)
        yield np.moveaxis(normal(*shape[1:], shape[0]), -1, 0)


def same(result, expected, what=""):
    expected = np.asarray(expected)
    assert type(result) is np.ndarray, what
    assert result.dtype == expected.dtype, what
    np.testing.assert_array_equal(result, expected, err_msg=what)
    long = [i for i, n in enumerate(expected.shape) if n > 1]
    if expected.size:
        assert [result.strides[i] for i in long] == [expected.strides[i] for i in long], what


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (5, 1, 3), (0, 3), (12, 1500), (3, 2, 5, 4)], ids=str)
def test_every_layout(multiply, shape, dtype):
    rng = np.random.default_rng(0)
    native = builtin.pointwise("multiply", lambda x, y: x * y, 2, refuse)
    for x, y in itertools.product(layouts(rng, shape, dtype), repeat=2):
        same(native(x, y), x * y, f"{x.shape} {x.strides} and {y.shape} {y.strides}")


def refuse(*args):
    raise AssertionError("the fallback is not needed here")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 31, 32, 33, 100, 1000, 1025, 70_001])
def test_every_length(multiply, root, n, dtype):
    x = np.random.default_rng(n).random(n).astype(dtype)
    same(multiply(x, x), x * x)
    same(root(x), np.sqrt(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_python_numbers(multiply, dtype):
    x = np.array([[1.5, -2.0], [0.0, 7.0]], dtype)
    for number in (3, 2.5, -0.0, float("inf"), float("nan"), 2**40):
        with np.errstate(all="ignore"):
            same(multiply(x, number), x * number)


def test_numbers_float32_cannot_hold_are_the_fallbacks():
    fallback = Fallback(lambda x, y: x)
    native = builtin.pointwise("multiply", lambda x, y: x * y, 2, fallback)
    x = np.ones(2, np.float32)
    native(x, 1e300)
    native(x, 10**400)
    native(x, 2**53 + 1)
    assert fallback.calls == 3
    native(x.astype(float), 1e300)
    assert fallback.calls == 3


def test_zero_dimensions_stay_arrays(multiply, root):
    x = np.array(3.0)
    for result in (multiply(x, x), multiply(x, 2), root(x)):
        assert type(result) is np.ndarray
        assert result.shape == ()


@pytest.mark.parametrize(
    "operands",
    [
        (np.arange(3), np.arange(3)),
        (np.ones(3), np.ones(3, np.float32)),
        (np.ones(3, np.float32), np.float32(2)),
        (np.ones(3, ">f4"), np.ones(3, ">f4")),
        (np.ones(3, np.complex64), 2),
        (np.ones(3, np.float16), 2),
        (np.ones(3, np.float32), True),
        (np.ones(3), [1.0, 2.0, 3.0]),
        (np.ma.masked_array([1.0, 2.0]), 2),
        (np.frombuffer(b"\0" * 13, np.uint8)[1:].view(np.float32), 2),
        (2.0, np.ones(3)),
        (np.ones((1,) * 13), 2),
        (np.ones((1,) * 20), np.ones((1,) * 20)),
    ],
    ids=lambda o: " ".join(type(x).__name__ + getattr(x, "dtype", np.dtype("O")).str for x in o),
)
def test_everything_else_is_the_fallbacks(multiply, operands):
    expected = np.multiply(*operands)
    result = multiply(*operands)
    assert type(result) in (type(expected), np.ndarray)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_errors_are_the_fallbacks(multiply):
    with pytest.raises(ValueError, match="broadcast"):
        multiply(np.ones(3), np.ones(4))
    with pytest.raises(TypeError):
        multiply(np.ones(3))
    with pytest.raises(TypeError):
        multiply()
    with pytest.raises(TypeError):
        multiply(np.ones(3), np.ones(3), np.ones(3), np.ones(3), np.ones(3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_out(multiply, dtype):
    x, y = np.arange(6, dtype=dtype).reshape(2, 3), np.full((2, 3), 2, dtype)
    out = np.empty((2, 3), dtype)
    assert multiply(x, y, out) is out
    same(out, x * y)
    same(multiply(x, 3, x), np.arange(6, dtype=dtype).reshape(2, 3) * 3)


def test_out_that_needs_care_is_the_fallbacks():
    fallback = Fallback(np.multiply)
    native = builtin.pointwise("multiply", lambda x, y: x * y, 2, fallback)
    whole = np.arange(10.0)
    expected = whole[:9] * 2
    same(native(whole[:9], 2, whole[1:]), expected)
    assert fallback.calls == 1, "an output that overlaps its input, shifted"
    out = np.zeros(6)[::2]
    assert native(np.arange(3.0), 2, out) is out
    assert out.tolist() == [0, 2, 4]
    assert fallback.calls == 2, "strided"
    with pytest.raises(TypeError):
        native(np.arange(3.0), 2, np.zeros(3, np.int64))
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError):
        native(np.arange(3.0), 2, frozen)
    one = np.array([5.0])
    same(native(np.arange(3.0), whole[1:2], whole[:3]), np.array([0.0, 0.0, 0.0]) + [0, 0, 0])
    assert fallback.calls == 5, "a one-element operand inside the output"
    assert native(one, one, one)[0] == 25


def scaled(x, y, alpha=1.0, beta=0.0, *, mode="linear"):
    return (x + y * x.dtype.type(alpha) + x.dtype.type(beta)).astype(x.dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_attributes(dtype):
    fallback = Fallback(lambda *a, **k: "fallback")
    native = builtin.pointwise(
        "scaled",
        lambda x, y, alpha, beta: x + y * alpha + beta,
        2,
        fallback,
        attrs={"alpha": 1.0, "beta": 0.0, "mode": "linear"},
        inputs=("x", "y"),
    )
    x, y = np.arange(5, dtype=dtype), np.full(5, 3, dtype)
    same(native(x, y), scaled(x, y))
    same(native(x, y, 2), scaled(x, y, 2))
    same(native(x, y, 2, 0.5), scaled(x, y, 2, 0.5))
    same(native(x, y, 2, beta=0.5), scaled(x, y, 2, 0.5))
    same(native(x, y=y, alpha=2, beta=0.5, mode="linear"), scaled(x, y, 2, 0.5))
    same(native(x, y, 2, 0.5, "linear"), scaled(x, y, 2, 0.5))
    out = np.empty_like(x)
    assert native(x, y, 2, 0.5, "linear", out) is out
    assert fallback.calls == 0
    assert native(x, y, 2, 0.5, "cubic") == "fallback"
    assert native(x, y, beta=2) == "fallback"
    assert native(x, y, 2, "linear") == "fallback"
    assert native(x, y, gamma=1) == "fallback"


def test_required_attributes():
    native = builtin.pointwise(
        "clamp", lambda x, low: maximum(x, low), 1, lambda *a: "fallback", attrs={"low": 0.0}, required=1
    )
    assert native(np.zeros(2)) == "fallback"
    same(native(np.array([-3.0, 3.0]), -1), [-1.0, 3.0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_of_bool(dtype):
    native = builtin.pointwise("less", lambda x, y: x < y, 2, refuse)
    rng = np.random.default_rng(0)
    for x, y in itertools.product(layouts(rng, (3, 70), dtype), repeat=2):
        same(native(x, y), x < y)


def test_three_and_five_operands():
    x, y, z = np.random.default_rng(0).standard_normal((3, 4, 5))
    native = builtin.pointwise("where", lambda a, b, c: select(a > 0.0, b, c), 3, refuse)
    same(native(x, y, z), np.where(x > 0, y, z))
    same(native(x, y, 0), np.where(x > 0, y, 0))
    same(native(x, 1.0, 2), np.where(x > 0, 1.0, 2.0))
    same(native(x, y[:, :1], z[0]), np.where(x > 0, y[:, :1], z[0]))
    five = builtin.pointwise("sum", lambda a, b, c, d, e: a + b + c + d + e, 5, refuse)
    same(five(x, y, z, 1, x[0]), x + y + z + 1 + x[0])


def test_heavy_bodies_get_one_loop_and_buffers():
    def body(x, y):
        for _ in range(20):
            x = fma(x, y, x)
        return x

    def reference(x, y):
        for _ in range(20):
            x = np.float32(np.float64(x) * np.float64(y) + np.float64(x))
        return x

    native = builtin.pointwise("heavy", body, 2, refuse)
    rng = np.random.default_rng(0)
    for shape in ((3, 5), (4, 3000)):
        x = rng.uniform(0.1, 0.5, shape).astype(np.float32)
        for y in (np.float32([[0.25]]), x[:, :1], x[:1], x):
            np.testing.assert_allclose(native(x, y), reference(x, y), rtol=3e-6)
    np.testing.assert_allclose(native(x, 0.25), reference(x, 0.25), rtol=3e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rare_elements_are_computed_in_full(dtype):
    native = builtin.pointwise("rare", lambda x: rare(x > 2.0, sqrt(x) * 100.0, x + 1.0), 1, refuse)
    x = np.zeros(5000, dtype)
    same(native(x), x + 1)
    x[[3, 700, 4999]] = 4
    expected = np.where(x > 2, dtype(200), x + 1)
    same(native(x), expected)
    same(native(x[::2]), expected[::2].copy())
    same(native(x, x), expected)


def test_threads_do_not_change_results(multiply):
    before = threads.get_num_threads()
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 300, 1111))
    try:
        for n in (1, 2, 3, 7):
            threads.set_num_threads(n)
            same(multiply(x, y), x * y)
            same(multiply(x, y[0]), x * y[0])
            same(multiply(x.T, y.T), (x * y).T)
            same(multiply(x[:, ::2], y[:, ::2]), x[:, ::2] * y[:, ::2])
    finally:
        threads.set_num_threads(before)


def test_several_python_threads(multiply):
    x = np.random.default_rng(0).standard_normal(400_000)
    wrong = []

    def work():
        for _ in range(10):
            if not (multiply(x, 3) == x * 3).all():
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_references_are_balanced(multiply):
    x, y = np.ones(4), np.ones((3, 4))
    out = np.empty(4)
    kept = (x, y, x.dtype, 2.5, out, np.ndarray)
    before = [sys.getrefcount(k) for k in kept]
    for _ in range(1000):
        multiply(x, x)
        multiply(x, y)
        multiply(x, 2.5)
        multiply(x, x, out)
    after = [sys.getrefcount(k) for k in kept]
    assert all(abs(a - b) < 100 for a, b in zip(after, before)), (before, after)


def test_arrays_that_die_last_do_no_harm():
    code = (
        "import numpy as np, sys\n"
        "from sapwood.kernels import builtin\n"
        "f = builtin.pointwise('multiply', lambda x, y: x * y, 2, np.multiply)\n"
        "sys.kept = [f(np.ones(200_000), 2.0) for _ in range(3)]\n"
        "np.kept = f\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_computes(multiply):
    x = np.ones(3_000_000)
    multiply(x, 2)
    child = os.fork()
    if child == 0:
        right = bool((multiply(x, 2) == 2).all()) and threads.get_num_threads() == 1
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_bodies_that_do_not_fit_are_refused():
    with pytest.raises(ArgumentError, match="1 to 5"):
        builtin.pointwise("six", lambda *xs: xs[0], 6, refuse)
    with pytest.raises(ArgumentError, match="must return one f32 or i1"):
        builtin.pointwise("two", lambda x: (x, x), 1, refuse)
    with pytest.raises(ArgumentError, match="before"):
        builtin.pointwise("order", lambda x, a: x * a, 1, refuse, attrs={"mode": "x", "a": 1.0})


def test_another_layout_of_objects_switches_builtins_off(monkeypatch):
    from sapwood.kernels import layout

    assert layout.probe() is None
    monkeypatch.setattr(layout, "DESCR", layout.DESCR + 8)
    assert "unknown way" in layout.probe()
    monkeypatch.undo()
    monkeypatch.setattr(layout.sysconfig, "get_config_var", lambda name: 1)
    assert "global lock" in layout.probe()


def test_without_builtins_the_reason_is_given(monkeypatch):
    monkeypatch.setattr(builtin, "_misfit", lambda: "some reason")
    assert not builtin.available()
    builtin.environment.cache_clear()
    builtin.runtime.cache_clear()
    with pytest.raises(MissingError, match="some reason"):
        builtin.pointwise("multiply", lambda x, y: x * y, 2, np.multiply)


def test_objects_that_live_for_ever_keep_their_count():
    """A count of such an object (Python 3.12 and later) is a mark, which an addition would destroy."""
    import ctypes

    from sapwood.kernels import engine, front
    from sapwood.kernels.writer import Module

    module = Module()
    with module.function("void", "take", "ptr %thing") as f:
        front.incref(f, "%thing")
    take = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.load(module.text(), ["take"])["take"])
    for before, after in ((5, 6), (0xFFFFFFFF, 0xFFFFFFFF), (0xC0000000, 0xC0000000), (0x7FFFFFFE, 0x7FFFFFFF)):
        word = ctypes.c_uint64(before)
        take(ctypes.addressof(word))
        assert word.value == after


def test_builtins_die_with_their_last_reference():
    import weakref

    native = builtin.pointwise("short", lambda x: x + x, 1, refuse)
    definition = weakref.ref(native.__self__.kept[-1])
    assert native(np.ones(2)).tolist() == [2, 2]
    assert native.__name__ == "short"
    del native
    assert definition() is None


def test_a_type_is_compiled_at_its_first_use():
    from sapwood.kernels import engine

    def made():
        return sum(engine.counts())

    native = builtin.pointwise("late", lambda x, y: x * y + x, 2, refuse, inputs=("input", "other"))
    before = made()
    assert native(input=np.ones(3), other=np.ones(3)).tolist() == [2, 2, 2]
    assert made() == before + 1
    out = np.zeros(2, np.float32)
    assert native(np.ones(2, np.float32), 3.0, out) is out
    assert out.tolist() == [4, 4]
    assert made() == before + 2
    assert native(np.ones((2, 2)), np.ones(2)).tolist() == [[2, 2], [2, 2]]
    assert made() == before + 2


def test_threads_may_meet_at_the_first_use():
    x = np.full(300, 3.0)
    for _ in range(5):
        native = builtin.pointwise("met", lambda x, y: x * y - y, 2, refuse)
        with ThreadPoolExecutor(4) as pool:
            found = [r.result().sum() for r in [pool.submit(native, x, x) for _ in range(4)]]
        assert found == [1800.0] * 4
