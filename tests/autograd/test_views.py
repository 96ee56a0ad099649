"""Writing in place: what views and bases see of each other, what refuses, and that refusing comes before the write."""

from __future__ import annotations

import pytest

import sapwood as torch
from sapwood import errors
from sapwood.autograd import Function, graph


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(map(float, values)), requires_grad=True)


def test_old_views_of_a_plain_base_follow_when_it_enters_the_graph():
    b, w = torch.zeros(3), leaf(2)
    v = b[:2]
    b.mul_(w)
    assert v.requires_grad
    assert v.grad_fn.name() == "AsStridedBackward0"
    u = torch.zeros(3)
    left, right = u[:2], u[1:]
    left.add_(w)
    right.sum().backward()
    assert w.grad.item() == 1.0


def test_one_of_several_views_refuses_and_becomes_invalid():
    x = leaf(1, 2)
    a = x * 1
    p, _ = a.unbind()
    with pytest.raises(errors.GradError, match="several views"):
        p.mul_(2)
    assert a.tolist() == [1.0, 2.0]
    a.mul_(2)
    assert repr(p) == "tensor(2., grad_fn=<Invalid>)"
    with pytest.raises(RuntimeError, match="clone"):
        _ = p.grad_fn
    with pytest.raises(RuntimeError):
        p.backward()
    a.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_several_views_of_a_plain_base():
    a = torch.zeros(2, 2)
    p, _ = a.unbind()
    p.add_(1)
    with pytest.raises(RuntimeError):
        p.mul_(leaf(2))
    assert a.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_view_made_under_no_grad():
    b = leaf(1, 2) * 1
    with torch.no_grad():
        v = b[0]
    assert (v.requires_grad, v.is_leaf) == (True, True)
    with pytest.raises(errors.GradError, match="no_grad"):
        v.mul_(2)
    with torch.no_grad():
        v.mul_(3)
    assert b.tolist() == [3.0, 2.0]
    b.mul_(2)
    with pytest.raises(RuntimeError):
        _ = v.grad_fn


def test_view_of_a_leaf_that_began_to_require_grad_later():
    x = torch.zeros(3)
    v = x[:2]
    x.requires_grad_()
    assert v.requires_grad
    with pytest.raises(errors.GradError, match="view of a leaf"):
        v.add_(1)
    assert x.tolist() == [0.0, 0.0, 0.0]


class Flat(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, g):
        return g.view(2, 1)


def test_view_made_by_a_function():
    a = torch.ones(2, 1, requires_grad=True) * 1
    v = Flat.apply(a)
    assert v._is_view()
    with pytest.raises(errors.GradError, match="custom Function"):
        v.mul_(2)
    a.mul_(2)
    with pytest.raises(RuntimeError):
        _ = v.grad_fn


def test_views_of_views():
    x = leaf(1, 2, 3, 4)
    a = x * 1
    m = a.view(2, 2)
    r = m[0][1:]
    r.mul_(10)
    assert [t.grad_fn.name() for t in (a, m)] == ["torch::autograd::CopySlices", "AsStridedBackward0"]
    m.sum().backward()
    assert x.grad.tolist() == [1.0, 10.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[1:].add_(x[:-1]),
        lambda x: x[1:].copy_(x[:-1]),
        lambda x: x.__setitem__(slice(1, None), x[:-1]),
        lambda x: torch.add(x[1:], 1, out=x[:-1]),
    ],
)
def test_operands_that_overlap_the_target_in_part(write):
    x = torch.arange(5.0)
    with pytest.raises(RuntimeError, match=r"clone|of its own"):
        write(x)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_operands_beside_or_equal_to_the_target():
    x = torch.arange(6.0)
    x[:3].add_(x[3:])
    x.sub_(x)
    assert x.tolist() == [0.0] * 6
    x[:, None].add_(1)
    x[::2].add_(x[1::2])
    assert x.tolist() == [2.0, 1.0, 2.0, 1.0, 2.0, 1.0]


@pytest.mark.parametrize(
    "write", [lambda y: y.mul_(y), lambda y: y.mul_(y.view(2, 2).view(4)), lambda y: y[::2].mul_(y[1::2])]
)
def test_an_operand_whose_memory_the_op_itself_writes(write):
    x = leaf(1, 2, 3, 4)
    y = x * 1
    write(y)
    with pytest.raises(errors.OverwrittenError, match="mul_"):
        y.sum().backward()
    assert x.grad is None
    z = x * 1
    z.add_(z)
    z.sum().backward()
    assert x.grad.tolist() == [2.0] * 4


def test_real_and_imaginary_parts_are_views():
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
    x = torch.tensor([1.0, 2, 3, 4], dtype=torch.float64, requires_grad=True)

    def parts(t):
        a = t * t
        a.real.mul_(t.imag)
        torch.view_as_real(a)[0].mul_(2)
        return a

    def pairs(t):
        a = (t * 1).view(2, 2)
        c = torch.view_as_complex(a)
        c.mul_(2 - 1j)
        c[0] = c[1] * 1
        return a

    assert torch.autograd.gradcheck(parts, z)
    assert torch.autograd.gradcheck(pairs, x)
    assert torch.autograd.gradgradcheck(pairs, x)


def test_hooks_stay_and_retained_gradients_move():
    x = leaf(1, 2)
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.retain_grad()
    y[0].mul_(3)
    assert y.retains_grad
    y.sum().backward()
    assert seen == [[3.0, 1.0]]
    assert y.grad.tolist() == [1.0, 1.0]


def test_inference_tensors():
    plain = torch.zeros(2)
    with torch.inference_mode():
        a = torch.ones(2)
        a.add_(1)
        plain.add_(1)
        v = plain[0]
    assert not v.is_inference()
    v.add_(1)
    assert plain.tolist() == [2.0, 1.0]
    assert a[0].is_inference()
    for mode in (torch.no_grad, torch.enable_grad):
        with mode(), pytest.raises(RuntimeError, match="clone"):
            a.add_(1)
    assert a.tolist() == [2.0, 2.0]


def test_mutation_of_saved_values_on_request():
    x = leaf(1, 2)
    with graph.allow_mutation_on_saved_tensors():
        a = x.exp()
        b = a.sin()
        a.add_(1)
        c = a.cos()
        a.mul_(2)
        with pytest.raises(RuntimeError), graph.allow_mutation_on_saved_tensors():
            pass
        (b + c + a).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([4.440375, 11.734733]), rtol=1e-5, atol=0)
    with graph.allow_mutation_on_saved_tensors():
        y = (x * x).sum()
    with pytest.raises(RuntimeError, match="inside the context"):
        y.backward()


def test_versions_by_hand():
    x = torch.ones(2)
    with torch.autograd._unsafe_preserve_version_counter(x):
        x.add_(1)
    assert x._version == 0
    y = leaf(1).exp()
    graph.increment_version([y])
    with pytest.raises(errors.OverwrittenError):
        y.backward()


def test_detach_in_place():
    y = leaf(1, 2) * 1
    v = y[0]
    with pytest.raises(RuntimeError, match="view"):
        v.detach_()
    y.detach_()
    assert (y.requires_grad, v.requires_grad) == (False, True)


@pytest.mark.parametrize("second", [False, True])
def test_a_pass_for_given_inputs_meets_the_view_that_cannot_follow(second):
    w = torch.ones(4, requires_grad=True)
    x = w * 1
    view = x.chunk(2)[0]
    x.mul_(1.5)
    with pytest.raises(RuntimeError, match="a view was used that cannot follow its base"):
        torch.autograd.grad((view * view).sum(), w, create_graph=second, allow_unused=True)


@pytest.mark.parametrize("turn", ["unsqueeze_", "t_", "squeeze_"])
def test_shapes_change_in_place_under_no_grad(turn):
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 2
    node = y.grad_fn
    with torch.no_grad():
        for t in x, y:
            getattr(t, turn)(*((0,) if turn == "unsqueeze_" else ()))
    assert x.is_leaf
    assert x.requires_grad
    assert y.grad_fn is node
    assert y.shape == {"unsqueeze_": (1, 2, 3), "t_": (3, 2), "squeeze_": (2, 3)}[turn]


def test_copying_a_tensor_onto_itself_is_a_write():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="copy_: this tensor is a leaf"):
        x.copy_(x)
    y = x * 2
    y.copy_(y)
    assert y._version == 1
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_sizes_that_do_not_broadcast_in_place():
    with pytest.raises(RuntimeError, match=r"add_?: sizes do not broadcast at dimension -1 \(3 and 9\)"):
        torch.ones(9).add_(torch.ones(3, 3))


def test_one_number_out_of_the_memory_that_is_written():
    x = torch.arange(4.0)
    x[1:] = x[2]
    assert x.tolist() == [0.0, 2.0, 2.0, 2.0]


def test_writes_to_views_of_data_go_unnoticed():
    w = torch.ones(2, 2, requires_grad=True)
    y = (w * w).sum()
    w.data[0].mul_(3)
    w.data.view(-1)[0] = 5
    w.data.t()[0].zero_()
    assert w._version == 0
    y.backward()
    assert w.grad.tolist() == [[0.0, 6.0], [0.0, 2.0]]
    d = w.data
    v = d[0]
    v.add_(1)
    assert (d._version, v._version, w._version) == (1, 1, 0)


def test_views_of_a_tensor_that_is_turned_in_place():
    w = torch.arange(6.0).reshape(2, 3).requires_grad_()
    x = w * 1
    flat = x.reshape(-1)
    x.t_()
    (flat * torch.arange(6.0)).sum().backward()
    assert w.grad.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
