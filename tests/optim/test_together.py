"""Groups changed in one native call: to the last bit what NumPy's functions make of the parameters one by one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import sapwood
from sapwood import optim
from sapwood.kernels import builtin, threads
from sapwood.nn import utils
from sapwood.ops import warm

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
from optim_cases import OPTIMIZERS

pytestmark = pytest.mark.skipif(not builtin.available(), reason=builtin.why_not() or "")

MORE = [
    ("SGD", {"momentum": 0.9, "dampening": 0.1}),
    ("Adam", {"lr": 0.01, "betas": (0.8, 0.99), "amsgrad": True}),
    ("AdamW", {"maximize": True}),
    ("RMSprop", {"momentum": 0.5}),
    ("RAdam", {"betas": (0.9, 0.7), "decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("ASGD", {"t0": 1}),
]
CASES = [(n, o) for n, o in OPTIMIZERS + MORE if n != "Adafactor"]
SHAPES = [(7,), (3, 40), (), (0, 3), (20, 30), (9001,)]


@pytest.fixture
def on_numpy(monkeypatch):
    """Return a function that says whether kernels serve."""

    def switch(on: bool) -> None:
        monkeypatch.setattr(warm._State, "able", not on)

    return switch


def gradients(dtype, steps=7):
    rng = np.random.default_rng(3)
    values = [[np.asarray(rng.standard_normal(s), dtype) for s in SHAPES] for _ in range(steps)]
    values[1][0][0], values[2][1][0, :3] = 0.0, [np.inf, np.nan, -0.0]
    return values


def trained(name, options, dtype, leave_out=True):
    rng = np.random.default_rng(2)
    params = [sapwood.tensor(np.asarray(rng.standard_normal(s), dtype)).requires_grad_() for s in SHAPES]
    optimizer = getattr(optim, name)(params, **options)
    for i, step in enumerate(gradients(dtype)):
        for j, (p, g) in enumerate(zip(params, step)):
            p.grad = None if leave_out and (i, j) == (3, 1) else sapwood.tensor(g)
        optimizer.step()
    state = [v for p in params for v in optimizer.state[p].values()]
    return params, [t.detach().numpy() for t in (*params, *state)]


def same(a, b):
    return all(x.dtype == y.dtype and np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{n}{i}" for i, (n, _) in enumerate(CASES)])
def test_results_are_those_of_numpy(name, options, dtype, on_numpy):
    on_numpy(False)
    params, native = trained(name, options, dtype)
    versions = [p._version for p in params]
    on_numpy(True)
    params, expected = trained(name, options, dtype)
    assert same(native, expected)
    assert versions == [p._version for p in params]


def test_results_do_not_depend_on_threads(on_numpy):
    on_numpy(False)
    before, found = threads.get_num_threads(), []
    try:
        for n in (1, 2):
            threads.set_num_threads(n)
            found.append(trained("Adam", {"weight_decay": 0.1}, np.float32)[1])
    finally:
        threads.set_num_threads(before)
    assert same(*found)


def unusual(which):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((40, 30)).astype(np.float32)
    arrays = [a, rng.standard_normal(300).astype(np.float32)]
    if which == "strided":
        arrays[0] = np.asfortranarray(a)
    elif which == "two types":
        arrays[0] = a.astype(np.float64)
    elif which == "half":
        arrays[0] = a.astype(np.float16)
    elif which == "complex":
        arrays[0] = a.astype(np.complex64)
    params = [sapwood.from_numpy(x).requires_grad_() for x in arrays]
    if which == "one memory":
        base = sapwood.from_numpy(np.concatenate([x.reshape(-1) for x in arrays]))
        params = [base[:1200].detach().requires_grad_(), base[900:].detach().requires_grad_()]
    if which == "the same twice":
        params.append(params[1])
    return params


@pytest.mark.filterwarnings("ignore:optimizer. a parameter occurs twice")
@pytest.mark.parametrize("which", ["strided", "two types", "half", "complex", "one memory", "the same twice"])
def test_what_is_unusual_goes_where_it_went(which, on_numpy):
    found = []
    for on in (False, True):
        on_numpy(on)
        params = unusual(which)
        optimizer = optim.Adam(params, lr=0.01)
        for _ in range(3):
            for p in params:
                p.grad = p.detach() * 2 + 1
            optimizer.step()
        found.append([p.detach().numpy() for p in params])
    assert same(*found)


def test_views_follow_the_step():
    p = sapwood.zeros(300).requires_grad_()
    view = p.view(30, 10)
    p.grad = sapwood.ones(300)
    optim.SGD([p], lr=0.5).step()
    assert view[3, 4].item() == -0.5
    assert view._version == p._version == 1


def test_a_step_seen_by_backward_names_the_optimizer():
    p = sapwood.ones(300).requires_grad_()
    loss = (p * p).sum()
    p.grad = sapwood.ones(300)
    optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="SGD"):
        loss.backward()


def clipped(dtype, how, count=12):
    rng = np.random.default_rng(5)
    params = [sapwood.zeros(s, dtype=dtype).requires_grad_() for s in [(count, 30 + i) for i in range(count)]]
    for p in params:
        p.grad = sapwood.tensor(rng.standard_normal(tuple(p.shape))).to(dtype)
    total = how(params)
    return params, total


@pytest.mark.parametrize(("dtype", "ulp"), [(sapwood.float32, 2.0**-23), (sapwood.float64, 2.0**-52)])
def test_norms_are_clipped_as_on_numpy(dtype, ulp, on_numpy):
    found = []
    for on in (False, True):
        on_numpy(on)
        params, total = clipped(dtype, lambda ps: utils.clip_grad_norm_(ps, 2.0))
        assert total.dtype is dtype
        assert total.dim() == 0
        assert all(p.grad._version == 1 for p in params)
        found.append((total.item(), np.concatenate([p.grad.numpy().reshape(-1) for p in params])))
    # The sums of some thousand squares; pairwise on NumPy, in double precision natively.
    assert found[0][0] == pytest.approx(found[1][0], rel=8 * ulp)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=8 * ulp)
    exact = np.sqrt((clipped(dtype, lambda _: None)[0][0].grad.numpy().astype(float) ** 2).sum())
    on_numpy(False)
    first = clipped(dtype, lambda _: None)[0][0].grad
    assert utils.get_total_norm([first]).item() == pytest.approx(exact, rel=ulp)


def test_norms_of_what_is_not_finite(on_numpy):
    for value in (np.inf, np.nan, 1e30):
        on_numpy(False)
        p = sapwood.zeros(400).requires_grad_()
        p.grad = sapwood.full((400,), float(value))
        native = utils.get_total_norm([p.grad]).item()
        expected = np.sqrt(400) * value
        assert native == pytest.approx(expected, rel=1e-6, nan_ok=True)
    with pytest.raises(RuntimeError, match="order 2"):
        utils.get_total_norm([sapwood.full((400,), np.inf)], error_if_nonfinite=True)


def test_values_are_clipped_as_on_numpy(on_numpy):
    found = []
    for on in (False, True):
        on_numpy(on)
        params, _ = clipped(sapwood.float32, lambda ps: utils.clip_grad_value_(ps, 0.25))
        found.append([p.grad.numpy() for p in params])
        assert all(p.grad._version == 1 for p in params)
    assert same(*found)
    assert max(np.abs(a).max() for a in found[0]) == 0.25


def test_a_shared_gradient_is_scaled_each_time(on_numpy):
    for on in (False, True):
        on_numpy(on)
        p, q = sapwood.zeros(400).requires_grad_(), sapwood.zeros(400).requires_grad_()
        p.grad = q.grad = sapwood.ones(400)
        utils.clip_grads_with_norm_([p, q], 5.0, sapwood.tensor(10.0))
        assert p.grad[0].item() == pytest.approx(0.25, rel=1e-5)
