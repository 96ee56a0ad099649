"""Attention in blocks: the two ways to compute it agree, whatever the shapes, and neither holds all scores."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.kernels import attention, builtin, threads

native = pytest.mark.skipif(not builtin.available(), reason=builtin.why_not() or "")

# N, H, H', L, S, E, Ev
SIZES = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 3, 3, 5, 7, 4, 6),
    (1, 4, 2, 33, 65, 8, 8),
    (2, 2, 1, 64, 64, 32, 32),
    (1, 2, 2, 100, 300, 20, 17),
    (1, 1, 1, 300, 600, 16, 16),
    (1, 2, 2, 40, 290, 5, 64),
]
MASKS = ("none", "scores", "padding", "columns")
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}


def operands(size, dtype, mask, seed=0):
    n, h, shared, length, keys, e, ev = size
    rng = np.random.default_rng(seed)

    def some(*shape):
        return rng.standard_normal(shape).astype(dtype)

    q, k, v = some(n, length, h, e).transpose(0, 2, 1, 3), some(n, shared, keys, e), some(n, keys, shared, ev)
    m = None
    if mask == "scores":
        m = some(length, keys)
    elif mask == "padding":
        m = np.where(rng.random((n, 1, 1, keys)) < 0.5, -np.inf, 0).astype(dtype)
    elif mask == "columns":
        m = some(n, 1, length, 1)
    return q, k, v.transpose(0, 2, 1, 3), m, some(n, h, length, ev), some(n, h, length)


def reference(q, k, v, m, causal, scale):
    """Attention by its definition, in double precision."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.mT * scale
    if m is not None:
        s = s + m
    if causal:
        s = np.where(np.arange(s.shape[-1]) > np.arange(s.shape[-2])[:, None], -np.inf, s)
    top = np.where((s == -np.inf).all(-1, keepdims=True), 0, s.max(-1, keepdims=True))
    e = np.exp(s - top)
    total = e.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = np.log(total) + top
    return e @ v / np.where(total == 0, 1, total), logs[..., 0]


def both(size, dtype, mask, causal, native):
    q, k, v, m, g, g_logs = operands(size, dtype, mask)
    out, logs = attention.attend(q, k, v, m, causal, 0.3, native=native)
    back = attention.attend_back(g, q, k, v, m, out, logs, g_logs, causal, 0.3, native=native)
    return [out, logs, *back]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("size", SIZES)
def test_numpy_computes_the_definition(size, mask, causal):
    q, k, v, m, _, _ = operands(size, np.float64, mask)
    got = attention.attend(q, k, v, m, causal, 0.3, native=False)
    for a, b in zip(got, reference(q, k, v, m, causal, 0.3)):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@native
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("size", SIZES)
def test_native_code_agrees_with_numpy(size, mask, causal, dtype):
    got, want = (both(size, dtype, mask, causal, native) for native in (True, False))
    for a, b in zip(got, want):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE[dtype] * 5)


@native
@pytest.mark.parametrize("size", SIZES)
def test_the_number_of_threads_changes_nothing(size):
    before = threads.get_num_threads()
    try:
        results = []
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            results.append([x.tobytes() for x in both(size, np.float32, "scores", False, True)])
    finally:
        threads.set_num_threads(before)
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=native)])
def test_queries_that_see_nothing_give_zeros_and_no_gradient(native):
    q, k, v, _, g, _ = operands((1, 2, 2, 40, 20, 8, 8), np.float32, "none")
    m = np.zeros((40, 20), np.float32)
    m[3:35] = -np.inf
    out, logs = attention.attend(q, k, v, m, False, 1.0, native=native)
    assert not out[:, :, 3:35].any() and np.all(logs[:, :, 3:35] == -np.inf)
    by_query, by_key, by_value = attention.attend_back(g, q, k, v, m, out, logs, None, False, 1.0, native=native)
    assert not by_query[:, :, 3:35].any() and by_query[:, :, :3].all()
    assert np.isfinite(by_key).all() and np.isfinite(by_value).all()


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=native)])
def test_nan_reaches_the_queries_that_see_it(native):
    q, k, v, _, _, _ = operands((1, 1, 1, 40, 40, 8, 8), np.float32, "none")
    k = k.copy()
    k[0, 0, 20] = np.nan
    out, _ = attention.attend(q, k, v, None, True, 1.0, native=native)
    assert np.isfinite(out[0, 0, :20]).all() and np.isnan(out[0, 0, 20:]).all()


def test_numpy_never_holds_all_scores(monkeypatch):
    seen = []
    scores = attention._scores

    def noted(*args):
        made = scores(*args)
        seen.append(made.size)
        return made

    monkeypatch.setattr(attention, "_scores", noted)
    monkeypatch.setattr(attention, "SCORES", 1 << 12)
    both((1, 2, 1, 300, 1000, 4, 4), np.float32, "none", False, False)
    assert max(seen) <= 1 << 12 and sum(seen) == 2 * 2 * 300 * 1000
