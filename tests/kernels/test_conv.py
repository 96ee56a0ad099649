"""Convolution in native code against the same in NumPy."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from sapwood.kernels import builtin, conv, conv_native, threads

pytestmark = pytest.mark.skipif(not builtin.available(), reason=builtin.why_not() or "")

DTYPES = (np.float32, np.float64)


@pytest.fixture(params=["usual", "narrow"])
def registers(request, monkeypatch):
    """Use the registers of this machine, or few and short ones as other machines have."""
    if request.param == "narrow":
        made = functools.cache(lambda name: conv_native.Kernels(name, 16, 16))
        monkeypatch.setattr(conv_native, "kernels", made)
    return request.param


@pytest.fixture
def two_threads():
    before = threads.get_num_threads()
    yield lambda f: [_with(n, f) for n in (1, 2)]
    threads.set_num_threads(before)


def _with(n, f):
    threads.set_num_threads(n)
    return f()


def geometry(rng, dims):
    """Return random sizes of a convolution: images, filters, stride, padding, dilation, groups."""
    groups, channels, filters = int(rng.choice([1, 1, 2, 3])), int(rng.integers(1, 7)), int(rng.integers(1, 19))
    if rng.random() < 0.2:
        channels, groups = 1, int(rng.integers(2, 9))
    kernel, stride, padding, dilation = (
        tuple(map(int, rng.integers(low, high, dims))) for low, high in ((1, 5), (1, 4), (0, 4), (1, 4))
    )
    extra = rng.integers(0, 40 if dims < 3 else 9, dims)
    size = [max(1, d * (k - 1) + 1 - 2 * p) + int(e) for d, k, p, e in zip(dilation, kernel, padding, extra)]
    images = (int(rng.integers(1, 4)), channels * groups, *size)
    return images, (filters * groups, channels, *kernel), stride, padding, dilation, groups


def near(found, expected, magnitude, dtype):
    """Assert that sums agree up to roundings: some of each term's last bit, `magnitude` being the sum of the terms."""
    assert found.dtype == dtype and found.shape == expected.shape
    assert found.flags.c_contiguous
    bound = 8 * np.finfo(dtype).eps * magnitude + np.finfo(dtype).tiny
    assert (np.abs(found - expected) <= bound).all()


def check(x, w, b, stride, padding, dilation, groups, rng):
    """Compare all four functions with NumPy's in double precision."""
    dtype, dims = x.dtype, x.ndim - 2
    size, kernel = x.shape[2:], w.shape[2:]
    attrs = stride, padding, dilation, groups
    x8, w8, b8 = (a.astype(np.float64) for a in (x, w, b))
    bias = b8.reshape(-1, *(1,) * dims)
    y = conv.convolve(x8, w8, *attrs)
    near(conv_native.convolve(x, w, b, *attrs), y + bias, conv.convolve(abs(x8), abs(w8), *attrs) + abs(bias), dtype)
    g = rng.standard_normal(y.shape).astype(dtype)
    g8 = g.astype(np.float64)
    back, most = (conv.convolve_transposed(a, c, size, *attrs) for a, c in ((g8, w8), (abs(g8), abs(w8))))
    near(conv_native.convolve_transposed(g, w, None, size, *attrs), back, most, dtype)
    grad, most = (conv.filter_gradient(a, c, kernel, *attrs[:3], groups) for a, c in ((x8, g8), (abs(x8), abs(g8))))
    near(conv_native.filter_gradient(x, g, kernel, *attrs[:3], groups), grad, most, dtype)
    over = (0, *range(2, g.ndim))
    near(conv_native.bias_gradient(g), g8.sum(over), abs(g8).sum(over), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_any_geometry(registers, dims, dtype):
    rng = np.random.default_rng(dims)
    for _ in range(40 if dims < 3 else 15):
        images, filters, *attrs = geometry(rng, dims)
        x, w, b = (rng.standard_normal(s).astype(dtype) for s in (images, filters, filters[:1]))
        check(x, w, b, *attrs, rng)


@pytest.mark.parametrize(
    ("images", "filters", "stride", "padding", "groups"),
    [
        ((1, 70, 9, 8), (45, 70, 3, 3), 1, 1, 1),  # more taps than are summed at a time, filters in several ranges
        ((20, 40, 3, 3), (70, 40, 3, 3), 1, 1, 1),  # images joined
        ((2, 30, 70, 70), (9, 30, 3, 3), 1, 1, 1),  # a tile is part of an image
        ((2, 20, 90, 90), (7, 20, 5, 5), 2, 2, 1),
        ((3, 130, 15, 17), (24, 130, 1, 1), 1, 0, 1),
        ((1, 8, 9000), (8, 8, 1), 1, 0, 1),  # one long row
        ((2, 60, 9, 9), (60, 1, 3, 3), 1, 1, 60),
        ((2, 12, 9, 9), (36, 1, 3, 3), 2, 1, 12),
        ((1, 3, 6, 6), (4, 3, 2, 2), 3, 0, 1),  # elements that no window meets
    ],
)
def test_shapes(images, filters, stride, padding, groups):
    rng = np.random.default_rng(0)
    dims = len(images) - 2
    x, w, b = (rng.standard_normal(s).astype(np.float32) for s in (images, filters, filters[:1]))
    check(x, w, b, (stride,) * dims, (padding,) * dims, (1,) * dims, groups, rng)


@pytest.mark.parametrize("shape", [(5, 16, 20, 21), (1, 64, 6, 6), (33, 3, 8, 8)])
def test_threads_do_not_show(two_threads, shape):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32)
    w = rng.standard_normal((32, shape[1], 3, 3)).astype(np.float32)
    attrs = (1, 1), (1, 1), (1, 1), 1
    g = conv_native.convolve(x, w, None, *attrs)
    for f in (
        lambda: conv_native.convolve(x, w, None, *attrs),
        lambda: conv_native.convolve_transposed(g, w, None, shape[2:], *attrs),
        lambda: conv_native.filter_gradient(x, g, (3, 3), *attrs),
        lambda: conv_native.bias_gradient(g),
    ):
        one, two = two_threads(f)
        np.testing.assert_array_equal(one, two)


def test_infinities_reach_only_what_they_meet():
    # In the tile the last window of a row is followed by gaps, where taps meet the next row.
    x = np.ones((1, 1, 9, 20), np.float32)
    x[0, 0, 4, 0] = np.inf
    w = np.ones((2, 1, 3, 3), np.float32)
    attrs = (1, 1), (0, 0), (1, 1), 1
    y = conv_native.convolve(x, w, None, *attrs)
    assert np.isinf(y[:, :, 2:5, 0]).all() and np.isfinite(y).sum() == y.size - 6
    found = conv_native.filter_gradient(x, np.ones_like(y), (3, 3), *attrs)
    np.testing.assert_array_equal(np.isinf(found[0, 0]), [[True, False, False]] * 3)
    np.testing.assert_array_equal(found[0, 0, :, 1:], y.size / 2)


def test_nan_stays():
    x = np.full((1, 2, 9, 9), np.nan, np.float32)
    g = np.ones((1, 3, 7, 7), np.float32)
    assert np.isnan(conv_native.filter_gradient(x, g, (3, 3), (1, 1), (0, 0), (1, 1), 1)).all()


@pytest.mark.parametrize("change", [lambda a: a[:, :, ::2], np.asfortranarray, lambda a: a.astype(np.int64)])
def test_other_layouts_and_dtypes(change):
    rng = np.random.default_rng(0)
    x = change(np.round(rng.standard_normal((2, 4, 12, 10)) * 9))
    w = np.round(rng.standard_normal((5, 4, 3, 3)) * 9).astype(x.dtype)
    attrs = (1, 1), (1, 1), (1, 1), 1
    expected = conv.convolve(np.ascontiguousarray(x), w, *attrs)
    np.testing.assert_array_equal(conv_native.convolve(x, w, None, *attrs), expected)
    np.testing.assert_array_equal(
        conv_native.filter_gradient(x, expected, (3, 3), *attrs), conv.filter_gradient(x, expected, (3, 3), *attrs)
    )


@pytest.mark.parametrize("shape", [(0, 3, 8, 8), (2, 0, 8, 8)])
def test_nothing(shape):
    x, w, b = np.ones(shape, np.float32), np.ones((4, shape[1], 3, 3), np.float32), np.ones(4, np.float32)
    attrs = (1, 1), (1, 1), (1, 1), 1
    y = conv_native.convolve(x, w, b, *attrs)
    assert y.shape == (shape[0], 4, 8, 8) and (y == 1).all()
    assert conv_native.filter_gradient(x, y, (3, 3), *attrs).shape == w.shape
