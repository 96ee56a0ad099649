"""nan_guard stops at the first producer and says what it was given."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood as torch
from sapwood import autograd, nn
from sapwood.errors import ArgumentError, NonFiniteError


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
        self.outer = nn.Linear(2, 1, bias=False)
        for p in self.parameters():
            nn.init.constant_(p, -0.5)

    def forward(self, x):
        return self.outer(self.inner(x).sqrt())


def refused(program, **options):
    with pytest.raises(NonFiniteError) as caught, autograd.nan_guard(**options):
        program()
    assert isinstance(caught.value, RuntimeError | FloatingPointError)
    return str(caught.value)


def test_forward_producer_with_its_input():
    x = torch.tensor([1.0, -4.0, 9.0])
    text = refused(lambda: x.sqrt() * 2)
    assert "sqrt at " in text and "`text = refused(lambda: x.sqrt() * 2)`" in text
    assert "is the first to produce a NaN: 1 of 3 elements of its result, the first at (1,), where input is -4" in text
    assert "input: float32 (3,), from -4 to 9" in text


def test_forward_names_the_module():
    model = Model()
    bad = Model()
    with torch.no_grad():
        bad.inner[0].weight[0, 0] = float("nan")
    text = refused(lambda: bad(torch.ones(1, 2)), module=bad)
    assert "mm in inner.0 (Linear) at " in text
    assert "only passes on a NaN that came in with its argument" in text
    with torch.no_grad():
        model.outer.weight.fill_(float("inf"))
    text = refused(lambda: model(torch.ones(1, 2)), module=model)
    assert "mm in outer (Linear) at " in text and "first to produce a NaN" in text
    assert "mat2: float32 (2, 1), 2 × inf" in text


def test_inf_only_when_asked():
    x = torch.tensor([0.0, 1.0])
    with autograd.nan_guard():
        x.log()
    text = refused(lambda: x.log(), inf=True)
    assert "log at " in text and "NaN or infinity" in text and "where input is 0" in text


def test_switches():
    x = torch.tensor([-1.0], requires_grad=True)
    with autograd.nan_guard(forward=False, backward=False):
        y = x.sqrt()
        y.backward()
    assert np.isnan(x.grad.numpy()).all()
    with autograd.nan_guard(backward=False):
        torch.tensor([0.0], requires_grad=True).mul(0).sqrt().backward()
    with pytest.raises(ArgumentError, match="switches such as inf=True"):
        autograd.nan_guard(True)


def test_backward_producer_and_module():
    model = Model()
    x = torch.zeros(1, 2)

    def program():
        model(x).sum().backward()

    text = refused(program, module=model, inf=True)
    assert "backward: SqrtBackward0 in Model at " in text
    assert "is the first to produce a NaN or infinity: 2 of 2 elements of the gradient of 'input'" in text
    assert "the incoming gradient is -0.5 and its result is 0" in text
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())


def test_backward_propagator():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    text = refused(lambda: y.backward(torch.tensor([1.0, float("nan")])))
    assert "MulBackward0" in text and "only passes on a NaN that came in with the gradient the pass began with" in text


def test_backward_hint_names_the_where():
    x = torch.tensor([0.0, 4.0], requires_grad=True)

    def program():
        y = torch.where(x > 0, x.sqrt(), 0.0)
        y.sum().backward()

    text = refused(program)
    assert "not selected by WhereBackward0 at " in text and "autograd.safe_where" in text


def test_no_hint_where_nothing_was_masked():
    x = torch.tensor([0.0], requires_grad=True)
    text = refused(lambda: (x * 0 * float("inf")).backward(), forward=False)
    assert "MulBackward0" in text and "the incoming gradient is inf and other is 0" in text
    assert "safe_where" not in text


def test_in_place_ops_are_seen():
    x = torch.tensor([-1.0])
    text = refused(lambda: x.sqrt_())
    assert "sqrt at " in text and "first to produce" in text


def test_finite_programs_are_left_alone():
    def program():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
        model(torch.ones(4, 2)).pow(2).mean().backward()
        return [p.grad.tolist() for p in model.parameters()]

    plain = program()
    with autograd.nan_guard(inf=True):
        assert program() == plain
    assert program() == plain


def test_create_graph_inside():
    x = torch.tensor([0.0], requires_grad=True)

    def program():
        (g,) = autograd.grad((x * x * x.sqrt()).sum(), x, create_graph=True)
        g.backward()

    with pytest.raises(NonFiniteError, match="SqrtBackward0"), autograd.nan_guard(forward=False):
        program()


def test_sixteen_bit_floats():
    x = torch.tensor([1.0, -1.0], dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match=r"log at .* input is -1") as caught, autograd.nan_guard():
        x.log()
    assert "bfloat16 (2,), from -1 to 1" in str(caught.value)
