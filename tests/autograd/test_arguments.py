"""What backward, grad, hooks and custom functions accept and refuse as arguments."""

from __future__ import annotations

import pytest

import sapwood as torch
import sapwood.autograd as autograd
from sapwood.autograd import graph
from sapwood.errors import ArgumentError, GradError


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(map(float, values)), requires_grad=True)


def test_old_names_of_arguments_warn():
    x = leaf(1, 2)
    with pytest.warns(FutureWarning, match="use the new one"):
        autograd.backward(x.sum(), grad_variables=torch.tensor(2.0))
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(GradError, match="grad_variables is the old name of grad_tensors; pass only the latter"):
        autograd.backward(x.sum(), torch.tensor(1.0), grad_variables=torch.tensor(2.0))
    with pytest.warns(FutureWarning, match="only_inputs has no effect"):
        (g,) = autograd.grad(x.sum(), x, only_inputs=False)
    assert g.tolist() == [1.0, 1.0]


def test_positions_of_arguments():
    x, u = leaf(1), leaf(1)
    (g, none) = autograd.grad(x * x, [x, u], None, True, False, True, True)
    assert (g.item(), none) == (2.0, None)
    autograd.backward(x * x, None, None, False, None, [x])
    assert x.grad.item() == 2.0


@pytest.mark.parametrize("inputs", ["x", 3, [3]])
def test_inputs_that_are_no_tensors(inputs):
    x = leaf(1)
    with pytest.raises(GradError, match=r"grad: inputs(\[0\])? must be a tensor or a "):
        autograd.grad(x * x, inputs)


def test_post_accumulate_hooks_return_nothing():
    x = leaf(1)
    x.register_post_accumulate_grad_hook(lambda t: 3)
    with pytest.raises(ArgumentError, match="a post-accumulate hook must return None, got int"):
        (x * 2).backward()


def test_a_hook_on_no_tensors_is_never_called():
    graph.register_multi_grad_hook([], lambda g: 1 / 0).remove()


def test_pack_hooks_are_functions_that_write_to_nothing():
    x = leaf(1, 2)
    for pair, which in ((3, lambda t: t), "pack"), ((lambda t: t, 3), "unpack"):
        with pytest.raises(ArgumentError, match=f"{which} must be a function, got int"):
            graph.saved_tensors_hooks(*pair).__enter__()
    with graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
        h = x * 1
        with pytest.raises(GradError, match=r"pack has written to the tensor it was given \(mul_\)"):
            h * h


def test_arguments_of_forward_may_be_named_or_left_out():
    class Scaled(autograd.Function):
        @staticmethod
        def forward(x, k=2.0, *, shift=0.0):
            return x * k + shift

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

    x = leaf(1)
    for y, value, slope in (
        (Scaled.apply(x), 2.0, 2.0),
        (Scaled.apply(x, k=3.0), 3.0, 3.0),
        (Scaled.apply(x, 4.0, shift=1.0), 5.0, 4.0),
    ):
        assert y.item() == value
        assert autograd.grad(y, x)[0].item() == slope

    class Old(autograd.Function):
        @staticmethod
        def forward(ctx, x, k=1.0):
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

    assert autograd.grad(Old.apply(x, k=3.0), x)[0].item() == 3.0
    assert autograd.grad(Old.apply(x), x)[0].item() == 1.0


def test_mark_dirty_takes_tensors():
    class Odd(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(3)
            return x * 1

    with pytest.raises(GradError, match="OddBackward: mark_dirty takes tensors, got int"):
        Odd.apply(leaf(1))
    assert Odd._backward_cls.__name__ == "OddBackward"


def test_data_of_a_leaf_stays_differentiable():
    x = leaf(1, 2)
    with pytest.raises(GradError, match=r"data: this tensor requires grad.* got int64"):
        x.data = torch.zeros(2, dtype=torch.long)


def test_swapping_tensors():
    a, b = torch.ones(1), torch.nn.Parameter(torch.zeros(2))
    a.note = 3
    seen = b
    torch.utils.swap_tensors(a, b)
    assert seen is b
    assert (type(a), type(b), b.note, hasattr(a, "note")) == (torch.nn.Parameter, torch.Tensor, 3, False)
    assert (a.tolist(), a.requires_grad, b.tolist(), b.requires_grad) == ([0.0, 0.0], True, [1.0], False)
    a.requires_grad_(False)
    torch.utils.swap_tensors(a, b)
    (a.requires_grad_() * 2).sum().backward()
    (b.requires_grad_() * 2).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0], [2.0, 2.0])
    v = a.view(1)
    with pytest.raises(GradError, match="swap_tensors: a tensor is a view"):
        torch.utils.swap_tensors(v, b)


@pytest.mark.parametrize(
    ("shape", "wrap", "expected"),
    [
        ((2, 3), False, [[1, 0, 0], [0, 1, 0]]),
        ((5, 2), False, [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]]),
        ((5, 2), True, [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]),
        ((2, 2, 2), False, [[[1, 0], [0, 0]], [[0, 0], [0, 1]]]),
        ((0, 2), True, []),
    ],
)
def test_filled_diagonals(shape, wrap, expected):
    assert torch.zeros(shape).fill_diagonal_(1, wrap).tolist() == expected


def test_filled_diagonals_in_a_graph():
    x = torch.ones(2, 2, requires_grad=True)
    y = x * 2
    y.fill_diagonal_(0)
    y.sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0], [2.0, 0.0]]
    with pytest.raises(GradError, match="leaf that requires grad"):
        x.fill_diagonal_(0)
    with pytest.raises(RuntimeError, match=r"fill_diagonal_: a matrix, or a tensor with all sizes equal.* \(2, 3, 2\)"):
        torch.zeros(2, 3, 2).fill_diagonal_(1)


def test_gradcheck_of_functions_without_gradient():
    x = torch.rand(2, dtype=torch.float64, requires_grad=True)
    assert autograd.gradcheck(lambda x: torch.ones(2), x)
    with pytest.raises(RuntimeError, match="no output has a gradient, but they change with input 0"):
        autograd.gradcheck(lambda x: (x * 2).detach(), x)
    with pytest.raises(ArgumentError, match="gradcheck: the function must return tensors"):
        autograd.gradcheck(lambda x: 3, x)
    with pytest.warns(UserWarning, match="gradcheck: input 0 is float32"):
        autograd.gradcheck(torch.sin, torch.ones(2, requires_grad=True), eps=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradcheck_along_one_direction(dtype):
    class Wrong(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2.01

    x = torch.rand(2, 3, dtype=dtype, requires_grad=True)
    assert autograd.gradcheck(lambda x: (x * x).sum(0), x, fast_mode=True)
    assert autograd.gradgradcheck(lambda x: (x * x * x).sum(0), x, fast_mode=True)
    with pytest.raises(RuntimeError, match="the analytical Jacobian is off by up to"):
        autograd.gradcheck(Wrong.apply, x, fast_mode=True)
