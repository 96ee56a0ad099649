"""Optimizers and schedulers against PyTorch's stored results, and what results cannot say."""

from __future__ import annotations

import copy
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import sapwood
from sapwood import optim
from sapwood.errors import ArgumentError, MissingError, ValueRangeError

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

from optim_cases import OPTIMIZERS, SCHEDULERS, rates, train  # noqa: E402

STORED = json.loads((GOLDEN / "optim.json").read_text())


def param(*values: float) -> sapwood.Tensor:
    return sapwood.tensor(list(values)).requires_grad_()


@pytest.mark.parametrize("i", range(len(OPTIMIZERS)), ids=[f"{n}{i}" for i, (n, _) in enumerate(OPTIMIZERS)])
def test_optimizer_goes_where_pytorchs_goes(i):
    params, optimizer = train(sapwood.tensor, optim, *OPTIMIZERS[i])
    expected = STORED["optimizers"][i]
    for p, e in zip(params, expected["params"]):
        # A dozen roundings per step, eight steps.
        np.testing.assert_allclose(p.tolist(), e, rtol=1e-12, atol=1e-12)
    assert repr(optimizer) == expected["repr"]
    saved = optimizer.state_dict()
    for group, e in zip(saved["param_groups"], expected["groups"]):
        assert json.loads(json.dumps({k: v for k, v in group.items() if k != "betas"})) == e
        assert [k for k in group if k != "betas"] == list(e)
    state = saved["state"].get(1, {})
    assert [(key, str(v.dtype)) for key, v in state.items()] == [(key, dtype) for key, _, dtype in expected["state"]]
    for v, (_, e, _) in zip(state.values(), expected["state"]):
        np.testing.assert_allclose(v.tolist(), e, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("i", range(len(SCHEDULERS)), ids=[n for n, _ in SCHEDULERS])
def test_scheduler_sets_pytorchs_rates(i):
    seen, keys = rates(sapwood.tensor, optim, *SCHEDULERS[i])
    assert np.array_equal(seen, STORED["schedulers"][i]["rates"])
    private = {"_scale_fn_ref"}
    assert set(keys) - private == set(STORED["schedulers"][i]["keys"]) - private


@pytest.mark.parametrize("name", ["Adam", "SGD", "RAdam", "Adafactor"])
def test_saved_state_continues_to_the_bit(name):
    options = {"momentum": 0.9} if name == "SGD" else {}
    whole, _ = train(sapwood.tensor, optim, name, options)
    p = [sapwood.tensor(w.detach().numpy().copy()).requires_grad_() for w in whole]
    first, second = getattr(optim, name)(whole, **options), getattr(optim, name)(p, **options)
    for params, o in ((whole, first), (p, second)):
        for x in params:
            x.grad = sapwood.ones_like(x)
        o.step()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for params, o in ((whole, first), (p, second)):
        for x in params:
            x.grad = x.detach() * 2
        o.step()
    assert all(np.array_equal(a.detach().numpy(), b.detach().numpy()) for a, b in zip(whole, p))
    assert all(second.state[b]["step"] is not first.state[a]["step"] for a, b in zip(whole, p) if name != "SGD")


def test_large_and_strided_parameters_move_like_small_ones():
    rng = np.random.default_rng(1)
    start, grad = rng.standard_normal((300, 200)), rng.standard_normal((300, 200))
    results = []
    for layout in (lambda a: a.copy(), np.asfortranarray, lambda a: np.stack([a, a], -1)[..., 0]):
        p = sapwood.from_numpy(layout(start)).requires_grad_()
        o = optim.Adam([p], weight_decay=0.1)
        for _ in range(3):
            p.grad = sapwood.tensor(grad)
            o.step()
        results.append(p.detach().numpy())
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_complex_parameters_move_by_real_and_imaginary_part():
    z = sapwood.tensor([1 + 2j, -1j]).requires_grad_()
    x, y = (sapwood.tensor(part).requires_grad_() for part in ([1.0, 0.0], [2.0, -1.0]))
    z.grad, x.grad, y.grad = sapwood.tensor([0.5 - 1j, 3 + 0j]), sapwood.tensor([0.5, 3.0]), sapwood.tensor([-1.0, 0.0])
    for p in (z, x, y):
        optim.Adam([p], lr=0.1).step()
    assert z.real.tolist() == x.tolist()
    assert z.imag.tolist() == y.tolist()


def test_bfloat16_keeps_small_decay():
    p = sapwood.ones(4, dtype=sapwood.bfloat16).requires_grad_()
    o = optim.Adam([p], lr=0.1)
    p.grad = sapwood.full((4,), 2.0, dtype=sapwood.bfloat16)
    o.step()
    assert p.tolist() == [pytest.approx(0.9, rel=2**-8)] * 4


def test_step_is_seen_by_backward():
    p = param(1.0)
    loss = (p * p).sum()
    p.grad = sapwood.ones(1)
    optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="SGD"):
        loss.backward()


def test_closure_runs_with_grad_and_its_loss_is_returned():
    p = param(5.0)
    o = optim.SGD([p], 0.1)

    def closure():
        o.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with sapwood.no_grad():
        assert o.step(closure).item() == 25
    assert p.item() == 4


def test_none_gradient_skips_and_zero_gradient_does_not():
    for set_to_none, expected in ((True, 0.9), (False, 0.81)):
        p = param(1.0)
        o = optim.SGD([p], 0.1, momentum=0.9)
        p.grad = sapwood.ones(1)
        o.step()
        o.zero_grad(set_to_none)
        o.step()
        assert p.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_finds_the_minimum_of_rosenbrocks_function(search):
    p = sapwood.tensor([-1.2, 1.0], dtype=sapwood.float64).requires_grad_()
    o = optim.LBFGS([p], lr=1 if search else 0.05, line_search_fn=search, max_iter=60 if search else 400)

    def closure():
        o.zero_grad()
        loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
        loss.backward()
        return loss

    for _ in range(4 if search else 40):  # fixed steps of 0.05 are slow
        o.step(closure)
    np.testing.assert_allclose(p.tolist(), [1, 1], atol=1e-4)


def test_hooks_run_around_step_and_state():
    p = param(1.0)
    o = optim.SGD([p], 0.1)
    seen = []
    handles = [
        o.register_step_pre_hook(lambda *_: seen.append("before")),
        o.register_step_post_hook(lambda *_: seen.append("after")),
        o.register_state_dict_post_hook(lambda _, d: {**d, "extra": 1}),
    ]
    o.step()
    assert seen == ["before", "after"]
    assert o.state_dict()["extra"] == 1
    for h in handles:
        h.remove()
    o.step()
    assert seen == ["before", "after"]


def test_wrong_parameters_are_refused():
    p, q = param(1.0), param(2.0)
    for wrong, kind, text in [
        ([], ValueError, "empty"),
        (p, TypeError, "one tensor"),
        ([p * 2], ValueError, "not a leaf"),
        ([{"params": [p]}, {"params": [p, q]}], ValueError, "two parameter groups"),
        ([1.0], TypeError, "must be tensors"),
        ([{"params": {p, q}}], TypeError, "set"),
        ([("a", p), q], ValueError, "name all"),
    ]:
        with pytest.raises(kind, match=text):
            optim.SGD(wrong)
    with pytest.warns(UserWarning, match="twice"):
        optim.SGD([p, p])
    with pytest.raises(ValueRangeError, match="lr must be at least 0, got -1"):
        optim.Adam([p], lr=-1)
    with pytest.raises(ValueRangeError, match="nesterov"):
        optim.SGD([p], nesterov=True)
    with pytest.raises(MissingError, match="differentiable"):
        optim.SGD([p], differentiable=True)
    with pytest.raises(ValueRangeError, match=r"sizes \[1\], the saved one \[2\]"):
        optim.SGD([p]).load_state_dict(optim.SGD([p, q]).state_dict())


def test_names_are_kept_and_saved():
    o = optim.SGD([("w", param(1.0)), ("b", param(2.0))])
    assert o.state_dict()["param_groups"][0]["param_names"] == ["w", "b"]


def test_stepping_the_scheduler_first_warns():
    o = optim.SGD([param(1.0)], lr=1.0)
    s = optim.lr_scheduler.StepLR(o, 1)
    with pytest.warns(UserWarning, match=r"optimizer.step\(\) first"):
        s.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        s.get_lr()
    assert s.get_last_lr() == [pytest.approx(0.01)]


def test_plateau_waits_one_epoch_longer_than_its_patience():
    o = optim.SGD([param(1.0)], lr=1.0)
    s = optim.lr_scheduler.ReduceLROnPlateau(o, patience=1)
    seen = []
    for _ in range(5):
        s.step(1)
        seen.append(o.param_groups[0]["lr"])
    assert seen == [1.0, 1.0, 0.1, 0.1, 0.010000000000000002]


def test_schedulers_in_sequence_and_chained():
    o = optim.SGD([param(1.0)], lr=1.0)
    lr = optim.lr_scheduler
    s = lr.SequentialLR(o, [lr.ConstantLR(o, 0.1, 20), lr.ExponentialLR(o, 0.5)], milestones=[2])
    seen = [o.param_groups[0]["lr"]]
    for _ in range(4):
        o.step()
        s.step()
        seen.append(o.param_groups[0]["lr"])
    assert seen == pytest.approx([0.1, 0.1, 1.0, 0.5, 0.25])
    with pytest.raises(ValueRangeError, match="milestones"):
        lr.SequentialLR(o, [lr.ExponentialLR(o, 0.5)], milestones=[2])
    with pytest.raises(ArgumentError, match="expected an Optimizer"):
        lr.StepLR(3, 1)  # type: ignore[arg-type]


def test_tensor_rate_keeps_its_identity():
    rate = sapwood.tensor(1.0)
    o = optim.SGD([param(1.0)], lr=rate)
    s = optim.lr_scheduler.ExponentialLR(o, 0.5)
    o.step()
    s.step()
    assert o.param_groups[0]["lr"] is rate
    assert rate.item() == 0.5


def test_step_hooks_see_the_arguments_of_the_method():
    p = param(1.0)
    o = optim.SGD([p], 0.1)
    seen = []
    o.register_step_pre_hook(lambda *given: seen.append(given))
    o.register_step_post_hook(lambda *given: seen.append(given))
    closure = lambda: p.sum()
    o.step(closure)
    assert seen == [(o, (o, closure), {})] * 2
    o.register_step_pre_hook(lambda o, args, kwargs: ((o,), {"closure": lambda: 5.0}))
    assert o.step(closure) == 5.0
