"""Wrong calls: the class, a text that names op, argument, what came and what to do, and every tensor as it was."""

from __future__ import annotations

import re

import pytest

import sapwood as torch
from sapwood import errors


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(values), requires_grad=True)


def refuses(cls: type[Exception], *words: str):
    """Expect an error of class `cls` whose text has the words in order."""
    return pytest.raises(cls, match=".*".join(map(re.escape, words)))


def test_sizes_that_do_not_broadcast():
    a, b = torch.zeros(2, 3), torch.zeros(2, 4)
    with refuses(
        errors.ShapeError, "mul", "dimension -1", "3 and 4", "input is float32 (2, 3)", "other is float32 (2, 4)"
    ):
        a * b
    assert isinstance(errors.ShapeError("x"), RuntimeError)


def test_inner_sizes_of_a_product():
    with refuses(errors.ShapeError, "(3, 4)", "(5, 2)"):
        torch.mm(torch.zeros(3, 4), torch.zeros(5, 2))


def test_operand_of_a_foreign_type():
    with refuses(errors.ArgumentError, "add", "other", "str"):
        torch.add(leaf(1.0), "text")
    with pytest.raises(TypeError):
        leaf(1.0) + "text"


def test_mixed_dtypes_in_a_product():
    with refuses(RuntimeError, "float32", "float64"):
        torch.mm(torch.zeros(2, 2), torch.zeros(2, 2, dtype=torch.float64))


def test_integers_cannot_require_grad():
    t = torch.tensor([1, 2])
    with refuses(errors.DtypeError, "requires_grad_", "int64", "float()"):
        t.requires_grad_()
    assert not t.requires_grad
    with pytest.raises(RuntimeError):
        torch.tensor([1, 2], requires_grad=True)


def test_backward_without_a_graph():
    with refuses(errors.GradError, "backward", "does not require grad", "no_grad"):
        torch.tensor([1.0]).backward()


def test_root_of_several_elements_without_gradient():
    x = leaf(1.0, 2.0)
    y = x * 2
    with refuses(errors.GradError, "backward", "one element", "(2,)", ".sum()"):
        y.backward()
    assert x.grad is None
    y.backward(torch.ones(2))
    assert x.grad.tolist() == [2.0, 2.0]


def test_gradient_of_a_wrong_shape():
    x = leaf(1.0, 2.0)
    with refuses(errors.ShapeError, "backward", "(3,)", "(2,)"):
        (x * 2).backward(torch.ones(3))
    assert x.grad is None


def test_gradient_that_is_no_tensor():
    with refuses(errors.ArgumentError, "backward", "list"):
        (leaf(1.0) * 2).backward([[1.0]])


def test_second_backward():
    x = leaf(3.0)
    y = x * x
    y.backward()
    with refuses(errors.GradError, "MulBackward0", "earlier backward", "retain_graph=True"):
        y.backward()
    assert x.grad.tolist() == [6.0]


def test_overwritten_saved_tensor():
    x = leaf(1.0, 2.0)
    y = x.exp()
    y.add_(1)
    with refuses(errors.OverwrittenError, "ExpBackward0", "add_", "clone()"):
        y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(
    "write", [lambda t: t.add_(1), lambda t: t.zero_(), lambda t: t.mul_(2), lambda t: t.copy_(t * 2)]
)
def test_in_place_on_a_leaf(write):
    x = leaf(1.0, 2.0)
    with refuses(errors.GradError, "leaf", "no_grad"):
        write(x)
    assert x.tolist() == [1.0, 2.0]
    assert x._version == 0


def test_item_assignment_on_a_leaf():
    x = leaf(1.0, 2.0)
    with refuses(errors.GradError, "view of a leaf"):
        x[0] = 5
    assert x.tolist() == [1.0, 2.0]


def test_in_place_does_not_widen_or_grow():
    i = torch.tensor([1])
    with refuses(errors.DtypeError, "add_", "float32", "int64"):
        i.add_(1.5)
    z = torch.zeros(3)
    with refuses(errors.ShapeError, "add_", "(2, 3)", "(3,)"):
        z.add_(torch.zeros(2, 3))
    assert i.tolist() == [1]
    assert z.tolist() == [0.0, 0.0, 0.0]


def test_expanded_memory_refuses_writes():
    t = torch.zeros(1)
    with refuses(errors.GradError, "add_", "clone()"):
        t.expand(3).add_(1)
    assert t.tolist() == [0.0]


def test_unused_input():
    x, z = leaf(2.0), leaf(1.0)
    with refuses(errors.GradError, "inputs[1]", "allow_unused=True"):
        torch.autograd.grad(x * 2, [x, z])


def test_grad_of_an_input_without_grad():
    x = leaf(2.0)
    with refuses(errors.GradError, "inputs[0]", "requires_grad_()"):
        torch.autograd.grad(x * 2, torch.tensor([1.0]))


def test_turning_grad_off_on_a_non_leaf():
    y = leaf(1.0) * 2
    with refuses(errors.GradError, "MulBackward0", "detach()"):
        y.requires_grad = False
    assert y.requires_grad


def test_numpy_of_a_tensor_in_a_graph():
    with refuses(errors.GradError, "numpy", "detach()"):
        leaf(1.0).numpy()


def test_out_is_not_differentiable():
    with refuses(errors.GradError, "mul", "out="):
        torch.mul(leaf(1.0), 2, out=torch.empty(1))


def test_assigned_gradients_are_checked():
    x = leaf(2.0)
    for value, cls in (
        (torch.zeros(3), RuntimeError),
        (torch.zeros(1, dtype=torch.float64), RuntimeError),
        (x, RuntimeError),
    ):
        with pytest.raises(cls):
            x.grad = value
    assert x.grad is None


def test_dim_out_of_range():
    with refuses(IndexError, "sum", "dim"):
        torch.zeros(2, 3).sum(2)


def test_truth_of_several_elements():
    with refuses(RuntimeError, "ambiguous", ".any()"):
        bool(torch.zeros(2))
