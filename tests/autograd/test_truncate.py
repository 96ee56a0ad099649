"""cut ends a graph after the fact; grad(stop=…) takes tensors for constants."""

from __future__ import annotations

import gc
import weakref

import pytest

import sapwood as torch
from sapwood import autograd
from sapwood.autograd import cut, grad
from sapwood.errors import ArgumentError, GradError, ValueRangeError


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(map(float, values)), requires_grad=True)


@pytest.mark.parametrize("window", [1, 2, 5])
def test_truncated_backpropagation(window):
    w = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    states = []
    h = torch.ones(3, dtype=torch.float64)
    for _ in range(6):
        h = (w @ h).tanh()
        states.append(h)
        cut(states, keep=window)
    (found,) = grad(h.sum(), w)
    start = max(6 - window, 0)
    h = states[start - 1].detach() if start else torch.ones(3, dtype=torch.float64)
    for _ in range(start, 6):
        h = (w @ h).tanh()
    (expected,) = grad(h.sum(), w)
    assert torch.equal(found, expected)


def test_a_loss_at_every_step_needs_no_retained_graph_beyond_the_window():
    w = leaf(0.5)
    h, states = torch.ones(1), []
    for _ in range(8):
        h = w * h
        states.append(h)
        cut(states, keep=3)
        h.backward(retain_graph=True)
    assert w.grad.isfinite().all()


def test_what_lies_behind_is_released():
    w = leaf(1, 2)
    h = w.exp()
    kept = weakref.ref(h.grad_fn)
    y = h * 3
    z = y.exp()
    gc.disable()
    try:
        del h
        assert kept() is not None
        cut(y)
        assert kept() is None
    finally:
        gc.enable()
    z.sum().backward()
    assert w.grad is None
    assert y.requires_grad
    assert y.grad_fn.name() == "MulBackward0"
    assert y.grad_fn.next_functions == ()


def test_gradients_still_arrive():
    w = leaf(1, 2)
    h = w * 2
    h.retain_grad()
    seen = []
    h.register_hook(lambda g: seen.append(g.tolist()))
    z = (h * h).sum()
    cut(h)
    (g,) = grad(z, h, create_graph=True)
    assert g.tolist() == [4.0, 8.0]
    z.backward()
    assert h.grad.tolist() == [8.0, 16.0]
    assert len(seen) == 2


def test_one_of_several_outputs():
    w = leaf(1, 2, 3, 4)
    a, b = (w * 1).split(2)
    z = (a * 3).sum() + (b * 5).sum()
    cut(a)
    z.backward()
    assert w.grad.tolist() == [0.0, 0.0, 5.0, 5.0]


def test_custom_functions_and_joint_formulas():
    class Twice(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise AssertionError("it was cut")

    w = leaf(1, 2)
    t = Twice.apply(w)
    z = (t * 3).sum() + w.sum()
    cut(t)
    cut(t)
    z.backward()
    assert w.grad.tolist() == [1.0, 1.0]
    m = torch.nn.functional.layer_norm(w * 1, (2,), w)
    z = (m * 3).sum() + w.sum()
    cut(m)
    z.backward()
    assert w.grad.tolist() == [2.0, 2.0]


def test_leaves_constants_and_nothing_stay():
    w = leaf(1)
    cut([w, torch.ones(1)])
    cut([])
    (w * 2).backward()
    assert w.grad.item() == 2.0


def test_explain_names_the_cut():
    w, v = leaf(1), leaf(1)
    h = w * 2
    loss = (h * v).sum()
    cut(h)
    finding = autograd.explain(w, loss)[0]
    assert finding.reason == "cut"
    assert "cut off by cut() at " in finding.text
    assert "`cut(h)`" in finding.text


def test_cut_refuses():
    with pytest.raises(ArgumentError, match=r"cut: tensors\[1\] must be a tensor, got int"):
        cut([leaf(1), 3])
    with pytest.raises(ValueRangeError, match="keep is a number of tensors and must not be negative, got -1"):
        cut([leaf(1)], keep=-1)


def test_stops_are_constants():
    a = torch.tensor(0.0, requires_grad=True)
    b = 2 * a
    assert [g.item() for g in grad(a + b, [a, b])] == [3.0, 1.0]
    assert [g.item() for g in grad(a + b, [a, b], stop=[a, b])] == [1.0, 1.0]


def test_what_lies_behind_a_stop_stays_as_it_is():
    x = leaf(3)
    h = x.exp()
    y = h * h * x
    (g,) = grad(y, x, stop=h)
    assert g.item() == pytest.approx((h * h).item())
    h.backward()
    assert x.grad.item() == pytest.approx(h.item())


def test_a_stop_on_the_only_path():
    x = leaf(3)
    h = x * x
    with pytest.raises(GradError, match="not part of the outputs' graph"):
        grad(h * 2, x, stop=h)
    assert grad(h * 2, [x, h], stop=h, allow_unused=True)[0] is None
    assert grad((h * 2).sum(), {"x": x}, stop=[h], materialize_grads=True)["x"].item() == 0.0


def test_stops_at_one_of_several_outputs_and_with_create_graph():
    x = leaf(1, 2, 3, 4)
    a, b = (x * x).split(2)
    z = (a * a).sum() + (b * 3).sum()
    (g,) = grad(z, x, stop=a, create_graph=True)
    assert g.tolist() == [0.0, 0.0, 18.0, 24.0]
    assert grad(g.sum(), x)[0].tolist() == [0.0, 0.0, 6.0, 6.0]


def test_stop_refuses():
    x = leaf(1)
    with pytest.raises(ArgumentError, match=r"grad: stop\[0\] must be a plain tensor, got int"):
        grad(x * 2, x, stop=[3])
    h = x * 2
    with pytest.raises(GradError, match="stop and is_grads_batched cannot be combined"):
        grad(h, x, torch.ones(1, 1), is_grads_batched=True, stop=h)
