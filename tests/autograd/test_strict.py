"""strict refuses silent broadcasting and promotion in the user's own lines."""

from __future__ import annotations

import pytest

import sapwood as torch
from sapwood import nn
from sapwood.autograd import strict
from sapwood.errors import DtypeError, ShapeError


def test_ranks():
    target, output = torch.ones(3), torch.ones(3, 1, requires_grad=True)
    with strict():
        with pytest.raises(ShapeError) as caught:
            output - target
        assert "strict: sub at " in str(caught.value)
        assert "`output - target`" in str(caught.value)
        assert "shapes (3, 1) and (3,)" in str(caught.value)
        with pytest.raises(ShapeError, match="strict: add_ at"):
            torch.ones(3, 3).add_(target)
        with pytest.raises(ShapeError, match="strict: div at"):
            output / target
        (output.squeeze(1) - target).sum().backward()
        assert (output * 2 + torch.tensor(1.0) + 3).shape == (3, 1)
    assert (output - target).shape == (3, 3)
    assert output.grad.shape == (3, 1)


def test_sizes_of_one():
    a, b = torch.ones(3, 1), torch.ones(3, 3)
    with strict():
        assert (a * b).shape == (3, 3)
    with (
        strict(sizes=True),
        pytest.raises(ShapeError, match=r"mul at .* \(3, 1\) and \(3, 3\), which would be broadcast"),
    ):
        a * b


def test_types():
    a, b = torch.ones(3), torch.ones(3, dtype=torch.float64)
    with strict():
        assert (a + b).dtype is torch.float64
    with strict(dtypes=True):
        with pytest.raises(DtypeError, match=r"add at .* of types float32 and float64, which would be promoted"):
            a + b
        assert (a + 1).dtype is torch.float32
        assert (a > a).dtype is torch.bool


def test_what_the_package_does_inside_is_left_alone():
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 1))
    x = torch.ones(5, 2, 3)
    with strict(sizes=True, dtypes=True):
        loss = nn.functional.mse_loss(model(x), torch.zeros(5, 2, 1))
    loss.backward()
    assert model[0].weight.grad is not None
