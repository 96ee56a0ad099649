"""The native gradients of layer normalisation against the formula in double precision."""

import itertools

import numpy as np
import pytest

import sapwood
from sapwood.kernels import builtin, layer_norm, threads

pytestmark = pytest.mark.skipif(not builtin.available(), reason="no native code here")

SIZES = [(1, 1), (3, 5), (40, 33), (300, 7), (2, 3000), (64, 1024), (1000, 40), (1, 600)]
TOLERANCE = {"f": 2e-5, "d": 1e-12}


def reference(g, x, w, eps):
    """The formula, in doubles."""
    g, x, w = (a.astype(np.float64) for a in (g, x, w))
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
    unit, inner = (x - mean) * rstd, g * w
    slope = (inner * unit).mean(-1, keepdims=True)
    return rstd * (inner - inner.mean(-1, keepdims=True) - unit * slope), (g * unit).sum(0), g.sum(0)


def arrays(letter, rows, width, seed=0):
    rng = np.random.default_rng(seed)
    x, g = (rng.standard_normal((rows, width)).astype(letter) for _ in range(2))
    return g, x, rng.standard_normal(width).astype(letter)


@pytest.mark.parametrize("letter", "fd")
@pytest.mark.parametrize(("rows", "width"), SIZES)
def test_agrees_with_the_formula(letter, rows, width):
    g, x, w = arrays(letter, rows, width)
    for weighted, *needs in itertools.product((True, False), repeat=4):
        if not any(needs):
            continue
        found = layer_norm.back(g, x, w if weighted else None, width, 1e-5, needs)
        wanted = reference(g, x, w if weighted else np.ones_like(w), 1e-5)
        for need, a, b in zip(needs, found, wanted):
            if not need:
                assert a is None
                continue
            assert a.dtype == x.dtype
            # A row of one element has no deviation: what is left is rounding, magnified by 1/sqrt(eps).
            np.testing.assert_allclose(
                a, b, atol=TOLERANCE[letter] * max(1, np.abs(b).max()) * (300 if width == 1 else 1)
            )


def test_threads_do_not_change_a_bit():
    g, x, w = arrays("f", 700, 130)
    before = threads.get_num_threads()
    try:
        found = []
        for n in (1, 2, 3):
            threads.set_num_threads(n)
            found.append([a.tobytes() for a in layer_norm.back(g, x, w, 130, 1e-5, (True, True, True))])
    finally:
        threads.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_leaves_other_arrays_to_the_formula():
    g, x, w = arrays("f", 6, 8)
    assert layer_norm.back(g[:, ::2], x[:, ::2], w[::2], 4, 1e-5, (True, True, True)) is None
    assert layer_norm.back(g.astype("d"), x, w, 8, 1e-5, (True, True, True)) is None
    assert layer_norm.back(g.astype("e"), x.astype("e"), w.astype("e"), 8, 1e-5, (True, True, True)) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_row(bad):
    g, x, w = arrays("f", 4, 32)
    x[1, 3] = bad
    g_x, g_w, g_b = layer_norm.back(g, x, w, 32, 1e-5, (True, True, True))
    assert np.isnan(g_x[1]).all()
    assert np.isfinite(g_x[[0, 2, 3]]).all()
    assert np.isnan(g_w).all()
    assert np.isfinite(g_b).all()


def test_serves_the_op():
    """A transposed gradient takes the formula, a plain one native code; both agree."""
    x = sapwood.randn(48, 64, requires_grad=True)
    w, b = sapwood.rand(64, requires_grad=True), sapwood.zeros(64, requires_grad=True)
    g = sapwood.randn(64, 48).t()
    found = []
    for given in (g, g.contiguous()):
        y = sapwood.nn.functional.layer_norm(x, (64,), w, b)
        found.append(sapwood.autograd.grad(y, (x, w, b), given))
    for one, other in zip(*found):
        assert sapwood.allclose(one, other, rtol=1e-4, atol=1e-5)
