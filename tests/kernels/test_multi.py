"""Updates of many arrays in one call."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sapwood.errors import ArgumentError
from sapwood.kernels import builtin, multi, threads
from sapwood.kernels.scalar import sqrt

pytestmark = pytest.mark.skipif(not builtin.available(), reason=builtin.why_not() or "")

DTYPES = (np.float32, np.float64)
SHAPES = [(3,), (), (0,), (1, 5), (20000,), (100, 333), (8192,), (2, 2, 2), (8193,), (1,)]


def adam_body(p, g, m, v, step, new1, beta2, new2, root, eps):
    m = m + (g - m) * new1
    v = v * beta2 + g * new2 * g
    return p + m * step / (sqrt(v) / root + eps), m, v


def adam_arrays(p, g, m, v, step, new1, beta2, new2, root, eps):
    m += (g - m) * p.dtype.type(new1)
    v *= p.dtype.type(beta2)
    v += g * p.dtype.type(new2) * g
    p += m * p.dtype.type(step) / (np.sqrt(v) / p.dtype.type(root) + p.dtype.type(eps))


COEFFICIENTS = (-0.001, 0.1, 0.999, 0.001, 0.03, 1e-8)


@pytest.fixture(scope="module")
def adam():
    return multi.updater("adam", adam_body, arrays=4, writes=(0, 2, 3), coefficients=6)


def lists(dtype, shapes=SHAPES):
    rng = np.random.default_rng(0)
    return [[np.asarray(rng.random(s), dtype) for s in shapes] for _ in range(4)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", [list, tuple])
def test_adam(adam, dtype, kind):
    ours, theirs = lists(dtype), lists(dtype)
    grads = [g.copy() for g in ours[1]]
    for _ in range(3):
        assert adam(COEFFICIENTS, *map(kind, ours)) is True
        for arrays in zip(*theirs):
            adam_arrays(*arrays, *COEFFICIENTS)
    for mine, other in zip(ours, theirs):
        for a, b in zip(mine, other):
            np.testing.assert_array_equal(a, b)
    for g, before in zip(ours[1], grads):
        np.testing.assert_array_equal(g, before)


def test_threads_do_not_change_results(adam):
    before = threads.get_num_threads()
    found = []
    try:
        for n in (1, 2, 3):
            threads.set_num_threads(n)
            arrays = lists(np.float32, [(70_001,), (5,), (3, 50_000)] * 3)
            assert adam(COEFFICIENTS, *arrays)
            found.append([a.tobytes() for group in arrays for a in group])
        assert found[0] == found[1] == found[2]
    finally:
        threads.set_num_threads(before)


def test_no_arrays(adam):
    assert adam(COEFFICIENTS, [], [], [], []) is True


def unusual():
    def with_(position, index, array):
        arrays = lists(np.float64)
        arrays[position][index] = array
        return arrays

    frozen = np.ones((1, 5))
    frozen.flags.writeable = False
    yield "another dtype", with_(1, 0, np.ones(3, np.float32))
    yield "another size", with_(2, 3, np.ones(6))
    yield "strided", with_(1, 3, np.ones((1, 10))[:, ::2])
    yield "Fortran order", with_(3, 5, np.ones((333, 100)).T)
    yield "read-only", with_(0, 3, frozen)
    yield "a subclass", with_(1, 0, np.ones(3).view(np.ma.MaskedArray))
    yield "no array", with_(1, 0, None)
    yield "half precision", [[a.astype(np.float16) for a in group] for group in lists(np.float64)]
    yield "a longer list", [[*group, np.ones(1)] if i == 2 else group for i, group in enumerate(lists(np.float64))]
    yield "no list", [iter(group) for group in lists(np.float64)]


@pytest.mark.parametrize(("what", "arrays"), list(unusual()), ids=lambda v: v if isinstance(v, str) else "")
def test_what_is_unusual_is_refused_before_anything_is_written(adam, what, arrays):
    before = [[np.copy(a) for a in group] if isinstance(group, list) else None for group in arrays]
    assert adam(COEFFICIENTS, *arrays) is False, what
    for group, copies in zip(arrays, before):
        if copies is not None:
            for a, b in zip(group, copies):
                np.testing.assert_array_equal(a, b)


def test_wrong_calls_are_refused(adam):
    arrays = lists(np.float64)
    assert adam(COEFFICIENTS[:5], *arrays) is False
    assert adam(list(COEFFICIENTS), *arrays) is False
    assert adam((*COEFFICIENTS[:5], None), *arrays) is False
    assert adam(COEFFICIENTS, *arrays[:3]) is False
    assert adam() is False


def test_read_only_gradients_are_read(adam):
    arrays = lists(np.float64)
    for g in arrays[1]:
        g.flags.writeable = False
    assert adam(COEFFICIENTS, *arrays) is True


def test_references_are_balanced(adam):
    arrays = lists(np.float32)
    before = [sys.getrefcount(x) for x in (arrays[0], arrays[0][0], COEFFICIENTS, COEFFICIENTS[0])]
    for _ in range(500):
        adam(COEFFICIENTS, *arrays)
    after = [sys.getrefcount(x) for x in (arrays[0], arrays[0][0], COEFFICIENTS, COEFFICIENTS[0])]
    assert after == before


def test_bodies_that_do_not_fit_are_refused():
    with pytest.raises(ArgumentError, match="must return 2 values"):
        multi.updater("x", lambda p, g: (p - g,), arrays=2, writes=(0, 1))
    with pytest.raises(ArgumentError, match="in order"):
        multi.updater("x", lambda p, g: (p, g), arrays=2, writes=(1, 0))
    with pytest.raises(ArgumentError, match="up to 8 lists"):
        multi.updater("x", lambda *ps: ps, arrays=9, writes=(0,))
