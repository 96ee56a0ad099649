"""Pooling in native code against the same in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.kernels import builtin, pool, pool_native, threads

pytestmark = pytest.mark.skipif(not builtin.available(), reason=builtin.why_not() or "")

DTYPES = (np.float32, np.float64)


def geometry(rng, dims):
    """Return random sizes of a pooling: lead, size, kernel, stride, padding, dilation, ceil."""
    lead = tuple(map(int, rng.integers(1, 6, int(rng.integers(1, 3)))))
    kernel, stride, dilation = (tuple(map(int, rng.integers(1, top, dims))) for top in (5, 5, 4))
    padding = tuple([int(rng.integers(0, k // 2 + 1)) for k in kernel])
    extra = rng.integers(0, 40 if dims < 3 else 9, dims)
    size = [max(1, d * (k - 1) + 1 - 2 * p) + int(e) for d, k, p, e in zip(dilation, kernel, padding, extra)]
    return lead, tuple(size), kernel, stride, padding, dilation, bool(rng.integers(2))


def images(rng, shape, dtype, turn):
    """Return random images; in turn with equal elements, with NaN and infinities, or of the lowest number alone."""
    x = rng.standard_normal(shape).astype(dtype)
    if turn == 1:
        return np.round(x)
    if turn == 2:
        x[rng.random(shape) < 0.1] = np.nan
        x[rng.random(shape) < 0.3] = -np.inf
    if turn == 3:
        x[...] = -np.inf
    return x


def near(found, expected, dtype):
    assert found.dtype == dtype and found.shape == expected.shape
    # Sums of up to 64 numbers of size 1, in another order.
    np.testing.assert_allclose(found, expected, rtol=0, atol=64 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_largest(dims, dtype):
    rng = np.random.default_rng(dims)
    for turn in range(40 if dims < 3 else 16):
        lead, size, *attrs = geometry(rng, dims)
        x = images(rng, (*lead, *size), dtype, turn % 4)
        best, at = pool.largest(x, *attrs)
        found, places = pool_native.largest(x, *attrs)
        np.testing.assert_array_equal(found, best)
        np.testing.assert_array_equal(places, at)
        assert found.dtype == dtype and places.dtype == np.int64
        np.testing.assert_array_equal(pool_native.largest_only(x, *attrs), best)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_means(dims, dtype):
    rng = np.random.default_rng(dims)
    for turn in range(30 if dims < 3 else 12):
        lead, size, kernel, stride, padding, _, ceil = geometry(rng, dims)
        out = pool.out_sizes(size, kernel, stride, padding, (1,) * dims, ceil)
        pad, divisor = bool(turn % 2), (None, 3, -2)[turn % 3]
        count = divisor or pool.divisors(size, kernel, stride, padding, out, pad)
        x, g = (rng.random(s).astype(dtype) for s in ((*lead, *size), (*lead, *out)))
        expected = pool.sums(x, kernel, stride, padding, out) / count
        near(pool_native.means(x, kernel, stride, padding, out, pad, divisor), expected, dtype)
        expected = pool.spread((g / count).astype(dtype), size, kernel, stride, padding)
        near(pool_native.means_adjoint(g, size, kernel, stride, padding, pad, divisor), expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_adaptive(dims, dtype):
    rng = np.random.default_rng(dims)
    for turn in range(16):
        size = tuple(map(int, rng.integers(1, 40 if dims < 3 else 8, dims)))
        out = tuple([int(rng.integers(1, n + 3)) for n in size])
        shape = (3, 2, *size)
        x, g = rng.random(shape).astype(dtype), rng.random((3, 2, *out)).astype(dtype)
        near(pool_native.adaptive_means(x, out), pool.adaptive_means(x, out), dtype)
        near(pool_native.adaptive_spread(g, size), pool.adaptive_spread(g, size), dtype)
        x = images(rng, shape, dtype, turn % 4)
        for found, expected in zip(pool_native.adaptive_largest(x, out), pool.adaptive_largest(x, out)):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("add", [True, False])
def test_scatter(add, dtype):
    rng = np.random.default_rng(0)
    g = rng.random((2, 3, 20, 20)).astype(dtype)
    at = rng.integers(0, 35, g.shape)
    near(pool_native.scatter(g, at, (5, 7), add), pool.scatter(g, at, (5, 7), add), dtype)


def test_scatter_writes_nothing_outside():
    g, at = np.ones((2, 4)), np.array([[0, 1, -1, 6], [5, 1 << 40, -(1 << 62), 2]])
    np.testing.assert_array_equal(pool_native.scatter(g, at, (6,), True), [[1.0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1]])


def test_threads_do_not_show():
    x = np.random.default_rng(0).standard_normal((40, 6, 30, 31)).astype(np.float32)
    attrs = (3, 3), (2, 2), (1, 1)
    before = threads.get_num_threads()
    results = []
    for n in (1, 2):
        threads.set_num_threads(n)
        best, at = pool_native.largest(x, *attrs, (1, 1), False)
        results.append(
            [best, at, pool_native.means(x, *attrs, (15, 16), True, None), pool_native.adaptive_means(x, (7, 8)),
             pool_native.scatter(best, at, (30, 31), True)]
        )  # fmt: skip
    threads.set_num_threads(before)
    for one, two in zip(*results):
        np.testing.assert_array_equal(one, two)


def test_other_layouts_and_dtypes():
    x = np.random.default_rng(0).integers(-9, 9, (2, 3, 12, 12))
    attrs = (2, 2), (2, 2), (0, 0), (1, 1), False
    many = x.astype(np.float32).reshape(1, 1, 1, 1, 1, *x.shape)
    for a in (x, x.astype(np.float32)[:, :, ::-1], np.asfortranarray(x.astype(np.float64)), many):
        for found, expected in zip(pool_native.largest(a, *attrs), pool.largest(np.ascontiguousarray(a), *attrs)):
            np.testing.assert_array_equal(found, expected)


def test_means_of_more_dimensions_than_native_code_knows():
    x = np.random.default_rng(0).random((1,) * 6 + (3, 6, 6)).astype(np.float32)
    attrs = (2, 2), (2, 2), (0, 0)
    expected = pool.sums(x, *attrs, (3, 3)) / 4
    near(pool_native.means(x, *attrs, (3, 3), True, None), expected, np.float32)
    near(
        pool_native.means_adjoint(expected, (6, 6), *attrs, True, None), pool.spread(expected / 4, (6, 6), *attrs),
        np.float32,
    )  # fmt: skip
