"""Running sums, products and extremes: bit for bit what NumPy's accumulation gives."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.kernels import builtin, scan, threads

pytestmark = pytest.mark.skipif(not builtin.available(), reason=builtin.why_not() or "")

SHAPES = [(1,), (1000,), (7, 50), (50, 7), (3, 20, 9), (2, 30, 300), (1, 5, 1), (5, 1, 400)]


def expected(how, x, dim):
    ufunc = getattr(np, how)
    if how in ("maximum", "minimum"):
        values = ufunc.accumulate(x, dim)
        place = np.arange(x.shape[dim]).reshape((-1,) + (1,) * (x.ndim - dim - 1))
        return values, np.maximum.accumulate(np.where((x == values) | (x != x), place, 0), dim)
    wide = x.astype(np.float64) if x.dtype == np.float32 else x
    return ufunc.accumulate(wide, dim).astype(x.dtype), None


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("how", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scans_are_numpys(shape, how, dtype):
    rng = np.random.default_rng(0)
    for special in (False, True):
        x = (rng.standard_normal(shape) * 2).astype(dtype)
        if special and dtype is not np.int64:
            x.reshape(-1)[::17] = np.nan
            x.reshape(-1)[5::13] = -0.0
            x.reshape(-1)[3::19] = np.inf
        for given in (x, np.asfortranarray(x)):
            for dim in range(x.ndim):
                for reverse in (False, True):
                    got = scan.run(how, given, dim, reverse=reverse)
                    want = expected(how, np.flip(x, dim) if reverse else x, dim)
                    for a, b in zip(got, want):
                        assert (a is None) == (b is None)
                        if a is not None:
                            b = np.flip(b, dim) if reverse else b
                            assert np.array_equal(a, b, equal_nan=dtype is not np.int64)
                            assert np.array_equal(np.signbit(a), np.signbit(b)) or special


def test_the_number_of_threads_changes_nothing():
    x = np.random.default_rng(0).standard_normal((40, 2000)).astype(np.float32)
    before = threads.get_num_threads()
    try:
        results = []
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            results.append([scan.run("add", x, dim)[0].tobytes() for dim in (0, 1)])
    finally:
        threads.set_num_threads(before)
    assert results[0] == results[1] == results[2]
