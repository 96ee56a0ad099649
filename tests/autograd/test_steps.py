"""steps: the backward pass one node at a time gives what backward gives, and lets one interfere."""

from __future__ import annotations

import pytest

import sapwood as torch
from sapwood import autograd, nn
from sapwood.errors import ArgumentError, GradError, ShapeError


def program():
    torch.manual_seed(1)
    w = torch.randn(3, 2, requires_grad=True)
    b = torch.zeros(2, requires_grad=True)
    x = torch.randn(4, 3)
    left, right = torch.split((x @ w + b).tanh(), 1, dim=1)
    loss = (left * right).sum() + left.max(0).values.sum() + b.exp().mean()
    return loss, (w, b)


def test_same_gradients_as_backward():
    loss, leaves = program()
    loss.backward()
    expected = [t.grad.tolist() for t in leaves]
    loss, leaves = program()
    events = list(autograd.steps(loss))
    assert [t.grad.tolist() for t in leaves] == expected
    names = [e.name for e in events]
    assert names[0] == "AddBackward0" and names[-2:] == ["AccumulateGrad"] * 2
    assert {"SplitBackward0", "MaxBackward0", "MmBackward0"} <= set(names)
    assert [e.number for e in events] == list(range(1, len(events) + 1))


def test_accumulates_like_backward():
    w = torch.ones(2, requires_grad=True)
    (w * 3).sum().backward()
    for _ in autograd.steps((w * 3).sum()):
        pass
    assert w.grad.tolist() == [6.0, 6.0]


def test_shows_gradients_node_and_line():
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    with autograd.set_origin_tracking(True):
        y = w * w
    events = list(autograd.steps(y, torch.tensor([1.0, 10.0])))
    first = events[0]
    assert first.node is y.grad_fn and first.incoming[0].tolist() == [1.0, 10.0]
    assert [g.tolist() for g in first.grads] == [[2.0, 30.0], [2.0, 30.0]]
    assert first.place.text == "y = w * w" and first.edges[0] is w and first.leaf is None
    assert repr(first).startswith("step 1: MulBackward0 at ")
    assert events[1].leaf is w and events[1].incoming[0].tolist() == [4.0, 60.0]


def test_broadcast_gradients_are_shown_in_the_shape_of_the_input():
    b = torch.zeros(2, requires_grad=True)
    events = list(autograd.steps((torch.ones(3, 2) + b).sum()))
    assert [e.grads[1].shape for e in events if e.name == "AddBackward0"] == [(2,)]
    assert b.grad.tolist() == [3.0, 3.0]


def test_replacing_a_gradient():
    x = torch.tensor(2.0, requires_grad=True)
    y = x * x
    for event in autograd.steps(y.exp()):
        if event.name == "MulBackward0":
            event.grads[0] = torch.tensor(1.0)
            event.grads[1] = None
    assert x.grad.item() == 1.0
    for event in autograd.steps(x * 5):
        if event.leaf is x:
            event.grads[0] = event.grads[0] * 2
    assert x.grad.item() == 11.0


def test_changing_a_gradient_in_place_reaches_only_its_own_input():
    a, b = (torch.tensor(1.0, requires_grad=True) for _ in range(2))
    for event in autograd.steps(a + b):
        if event.name == "AddBackward0":
            event.grads[0].mul_(7)
    assert (a.grad.item(), b.grad.item()) == (7.0, 1.0)


def test_leaving_early_leaves_the_leaves():
    w = torch.ones(2, requires_grad=True)
    for event in autograd.steps((w * 2).sum()):
        if event.number == 1:
            break
    assert w.grad is None


def test_frees_like_backward_and_can_retain():
    w = torch.ones(2, requires_grad=True)
    y = w.exp().sum()
    list(autograd.steps(y, retain_graph=True))
    list(autograd.steps(y))
    with pytest.raises(GradError, match=r"list\(autograd.steps\(y\)\)"):
        y.backward()
    with pytest.raises(GradError, match="freed by the earlier backward"):
        list(autograd.steps(y))


def test_hooks_and_retained_gradients_work():
    w = torch.ones(2, requires_grad=True)
    h = w * 2
    h.retain_grad()
    h.register_hook(lambda g: g * 10)
    list(autograd.steps(h.sum()))
    assert h.grad.tolist() == [10.0, 10.0] and w.grad.tolist() == [20.0, 20.0]


def test_a_model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    x, y = torch.randn(5, 3), torch.arange(5) % 2

    def loss():
        return nn.functional.cross_entropy(model(x), y)

    loss().backward()
    expected = [p.grad.tolist() for p in model.parameters()]
    model.zero_grad()
    for _ in autograd.steps(loss()):
        pass
    assert [p.grad.tolist() for p in model.parameters()] == expected


def test_mistakes_are_named():
    w = torch.ones(2, requires_grad=True)
    with pytest.raises(GradError, match="steps: root 0 does not require grad"):
        autograd.steps(torch.ones(()))

    def replace(by):
        for event in autograd.steps((w * 2).sum()):
            if event.name == "MulBackward0":
                event.grads[0] = by

    with pytest.raises(ArgumentError, match=r"grads\[0\] of MulBackward0 must be a tensor or None, got float"):
        replace(1.0)
    with pytest.raises(ShapeError):
        replace(torch.ones(5))
