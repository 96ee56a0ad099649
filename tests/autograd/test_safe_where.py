"""safe_where: what a branch was not chosen for takes no part, at any order."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood as torch
from sapwood import autograd
from sapwood.errors import ArgumentError, DtypeError, ShapeError

safe_where = autograd.safe_where


def test_gradient_is_that_of_the_chosen_branch():
    x = torch.tensor([0.0, 4.0, -1.0], requires_grad=True)
    y = safe_where(x > 0, torch.log, lambda x: 3 * x, x)
    assert y.tolist() == pytest.approx([0.0, np.log(4.0), -3.0])
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 0.25, 3.0]


def test_the_unsafe_form_gives_nan():
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    torch.where(x > 0, x.sqrt(), 0.0).sum().backward()
    assert np.isnan(x.grad.numpy()[0])
    x.grad = None
    safe_where(x > 0, torch.sqrt, 0.0, x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.25]


def test_orders_one_and_two():
    x = torch.tensor([[0.3, 2.0], [1.5, -0.7]], dtype=torch.float64, requires_grad=True)

    def function(x):
        return safe_where(x > 0, lambda x: x.log() * x, lambda x: x.exp(), x)

    assert autograd.gradcheck(function, (x,))
    assert autograd.gradgradcheck(function, (x,))


def test_broadcasting_and_several_tensors():
    x = torch.ones(2, 1, requires_grad=True)
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    c = torch.tensor([True, False])
    y = safe_where(c, lambda x, w: x * w, lambda x, w: x - w, x, w)
    assert y.tolist() == [[2.0, -2.0], [2.0, -2.0]]
    y.sum().backward()
    assert x.grad.tolist() == [[3.0], [3.0]] and w.grad.tolist() == [2.0, -2.0]


def test_tensors_and_numbers_as_branches():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = safe_where(x > 1, x, -1.0)
    assert y.tolist() == [-1.0, 2.0]
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("chosen", [True, False])
def test_all_or_nothing_chosen(chosen):
    x = torch.tensor([0.0, 0.0], requires_grad=True)
    y = safe_where(torch.tensor([chosen] * 2), lambda x: x + 1, torch.exp, x)
    assert y.tolist() == [1.0, 1.0]
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_zero_dim_and_empty():
    x = torch.tensor(4.0, requires_grad=True)
    y = safe_where(x > 0, torch.sqrt, 0.0, x)
    y.backward()
    assert y.item() == 2.0 and x.grad.item() == 0.25
    e = torch.ones(0, requires_grad=True)
    assert safe_where(e > 0, torch.sqrt, 0.0, e).shape == (0,)


def test_mistakes_are_named():
    x = torch.tensor([1.0, 2.0])
    with pytest.raises(ArgumentError, match="condition must be a bool tensor, got float32"):
        safe_where(x, torch.sqrt, 0.0, x)
    with pytest.raises(ArgumentError, match="one without parameters would compute every element"):
        safe_where(x > 0, lambda: x.sqrt(), 0.0, x)
    with pytest.raises(ArgumentError, match="one without parameters"):
        safe_where(x > 0, torch.sqrt, 0.0)
    with pytest.raises(ArgumentError, match="argument 0 of the branches must be a tensor, got float"):
        safe_where(x > 0, torch.sqrt, 0.0, 1.0)
    with pytest.raises(ShapeError, match="must return one value for each"):
        safe_where(x > 0, lambda x: x.expand(2, 2), 0.0, x)
    with pytest.raises(DtypeError, match="float64 and float32"):
        safe_where(x > 1, lambda x: x.double(), lambda x: x, x)
    with pytest.raises(ArgumentError, match="numbers alone"):
        safe_where(x > 0, 1.0, 0.0)
