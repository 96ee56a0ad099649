"""Products of matrices in native code: layouts, sizes of tiles, batches, bias, threads, and what it hands on."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.kernels import builtin, gemm, panels, threads

if not builtin.available():
    pytest.skip(f"no native code here: {builtin.why_not()}", allow_module_level=True)

TOLERANCE = {"float32": 2e-6, "float64": 4e-15}
"""Of a sum of products, per unit of the sum of their magnitudes: about sixteen roundings that all go one way."""


def refuse(*args):
    raise AssertionError(f"handed on: {[x.shape for x in args]}, {[x.strides for x in args]}")


def layouts(x):
    """Return the same matrix laid out in every way that is read in place."""
    wide = np.zeros((x.shape[0], x.shape[1] + 3), x.dtype)
    tall = np.zeros((x.shape[0] + 2, x.shape[1]), x.dtype, order="F")
    wide[:, :-3], tall[:-2] = x, x
    return [x, np.asfortranarray(x), wide[:, :-3], tall[:-2]]


def check(result, a, b, bias=None):
    wide = [t.astype(np.longdouble) for t in (a, b)]
    expected, scale = wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1])
    if bias is not None:
        expected, scale = expected + bias, scale + np.abs(bias)
    assert result.dtype == a.dtype
    assert result.shape == expected.shape
    assert (np.abs(result - expected) <= TOLERANCE[a.dtype.name] * scale).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", [False, True])
def test_sizes_and_layouts(dtype, bias):
    rng = np.random.default_rng(0)
    multiply = gemm.builtin_of(refuse)
    sizes = [4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 31, 32, 33, 63, 100]
    for i in range(120):
        m, n = rng.choice(sizes, 2)
        k = int(rng.choice([1, 2, 3, *sizes]))
        a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        extra = [rng.standard_normal(n).astype(dtype)] if bias else []
        check(multiply(layouts(a)[i % 4], layouts(b)[i // 4 % 4], *extra), a, b, *extra)


@pytest.mark.parametrize("shape", [(200, 900, 130), (65, 385, 300), (400, 384, 37), (13, 1000, 129)])
def test_several_stretches_and_blocks(shape):
    rng = np.random.default_rng(1)
    m, k, n = shape
    assert k >= panels.DEPTH
    a, b, bias = (rng.standard_normal(s).astype("f") for s in ((m, k), (k, n), (n,)))
    for left, right in zip(layouts(a), layouts(b)[::-1]):
        check(gemm.builtin_of(refuse)(left, right, bias), a, b, bias)


@pytest.mark.parametrize("shape", [(3, 5, 7, 9), (40, 16, 32, 16), (2, 130, 200, 140), (1, 20, 20, 20)])
def test_batches(shape):
    rng = np.random.default_rng(2)
    count, m, k, n = shape
    a, b = rng.standard_normal((count, m, k)).astype("f"), rng.standard_normal((count, k, n)).astype("f")
    turned = np.ascontiguousarray(b.transpose(2, 1, 0)).transpose(2, 1, 0)
    result = gemm.builtin_of(refuse)(a, b)
    check(result, a, b)
    assert np.array_equal(gemm.builtin_of(refuse)(a, gemm.dense(turned)), result)
    flipped = np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1)
    assert np.array_equal(gemm.builtin_of(refuse)(a, flipped), result)


@pytest.mark.parametrize("shape", [(), (6,)])
def test_the_number_of_threads_does_not_show(shape):
    rng = np.random.default_rng(3)
    before = threads.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            rng = np.random.default_rng(3)
            a, b = rng.standard_normal((*shape, 150, 500)).astype("f"), rng.standard_normal((*shape, 500, 170))
            found.append(gemm.builtin_of(refuse)(a, b.astype("f")))
    finally:
        threads.set_num_threads(before)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_no_number_of_the_neighbours_is_read_or_written():
    # The operands lie at the end of a block whose rest would show: NaN beside them must not come into a product.
    rng = np.random.default_rng(4)
    for m, k, n in [(5, 7, 9), (13, 33, 17), (24, 400, 33)]:
        room = np.full(m * k + k * n + 64, np.nan, "f")
        a = room[: m * k].reshape(m, k)
        b = room[m * k + 32 : m * k + 32 + k * n].reshape(k, n)
        a[:], b[:] = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        before = room.copy()
        check(gemm.builtin_of(refuse)(a, b), a, b)
        assert np.array_equal(room, before, equal_nan=True)


@pytest.mark.parametrize(
    "what", ["few rows", "few columns", "strided", "broadcast", "sizes", "types", "empty", "vector"]
)
def test_what_is_handed_on(what):
    a, b = np.ones((8, 6), "f"), np.ones((6, 8), "f")
    given = {
        "few rows": (a[:3], b), "few columns": (a, b[:, :2]), "strided": (np.ones((8, 12), "f")[:, ::2], b),
        "broadcast": (np.broadcast_to(a[:, :1], (8, 6)), b), "sizes": (a, b[:5]), "types": (a, b.astype("d")),
        "empty": (a[:, :0], b[:0]), "vector": (a, b[:, 0]),
    }[what]  # fmt: skip
    handed = []
    gemm.builtin_of(lambda *args: handed.append(args))(*given)
    assert len(handed) == 1
    assert all(x is y for x, y in zip(handed[0], given))
