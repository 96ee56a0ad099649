"""Gathering and scattering along a dimension, against loops that say what they mean."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.kernels import builtin, gather, threads

pytestmark = pytest.mark.skipif(not builtin.available(), reason=builtin.why_not() or "")

# outer, rows, n, inner
SIZES = [
    (1, 5, 40, 1),
    (3, 7, 30, 1),
    (1, 9, 20, 130),
    (4, 3, 11, 17),
    (9, 2, 3, 70),
    (1, 4, 0, 3),
    (1, 20000, 9000, 1),
]
COMBINE = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "set": lambda x, y: y,
}


def expected(how, out, index, other):
    out = out.copy()
    for i in range(index.shape[1]):
        for o in range(index.shape[0]):
            j = np.arange(index.shape[2])
            out[o, index[o, i], j] = COMBINE[how](out[o, index[o, i], j], other[o, i])
    return out


def some(rng, shape, dtype):
    return (rng.standard_normal(shape) * 3).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("how", list(COMBINE))
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shared", [False, True])
def test_combine(size, how, dtype, shared):
    outer, rows, n, inner = size
    if n > 100 and how != "add":
        return
    rng = np.random.default_rng(0)
    out, other = some(rng, (outer, rows, inner), dtype), some(rng, (outer, n, inner), dtype)
    index = gather.along(rng.integers(0, rows, n), outer, inner) if shared else rng.integers(0, rows, (outer, n, inner))
    want = expected(how, out, index, other)
    for given in (other, np.asfortranarray(other)):
        got = out.copy()
        gather.combine(how, got, index, given)
        # The order of additions is that of the indices in both.
        assert np.array_equal(got, want)


def test_combine_takes_rows_by_a_second_index_and_weighs_them():
    rng = np.random.default_rng(0)
    for inner in (1, 33):
        table, factors = some(rng, (1, 6, inner), np.float32), some(rng, 20, np.float32)
        index, second = rng.integers(0, 4, 20), rng.integers(0, 6, 20)
        got, plain = np.zeros((1, 4, inner), np.float32), np.zeros((1, 4, inner), np.float32)
        gather.combine("add", got, gather.along(index, 1, inner), table, second, factors)
        gather.combine("add", plain, gather.along(index, 1, inner), table, second)
        want, bare = np.zeros((4, inner)), np.zeros((4, inner))
        for i in range(20):
            want[index[i]] += table[0, second[i]] * float(factors[i])
            bare[index[i]] += table[0, second[i]]
        np.testing.assert_allclose(got[0], want, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(plain[0], bare, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i2", "?", "c8"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shared", [False, True])
def test_bring(size, dtype, shared):
    outer, rows, n, inner = size
    rng = np.random.default_rng(0)
    x = some(rng, (outer, rows, inner), dtype)
    index = gather.along(rng.integers(0, rows, n), outer, inner) if shared else rng.integers(0, rows, (outer, n, inner))
    want = np.take_along_axis(x, np.array(index), 1)
    for given in (x, np.asfortranarray(x)):
        out = np.empty((outer, n, inner), x.dtype)
        gather.bring(given, index, out)
        assert np.array_equal(out, want)


def test_the_number_of_threads_changes_nothing():
    rng = np.random.default_rng(0)
    index, other = rng.integers(0, 50, (2, 3000, 200)), some(rng, (2, 3000, 200), np.float32)
    before = threads.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            out = np.zeros((2, 50, 200), np.float32)
            gather.combine("add", out, index, other)
            gather.combine("add", out, gather.along(index[0, :, 0], 2, 200), other)
            results.append(out.tobytes())
    finally:
        threads.set_num_threads(before)
    assert results[0] == results[1] == results[2]
