"""The graph: flags, names, edges, accumulation, partial passes, modes, in-place and views."""

from __future__ import annotations

import threading
import warnings

import pytest

import sapwood as torch
from sapwood import warned
from sapwood.autograd import grad


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(values), requires_grad=True)


def test_tutorial_graph():
    w, x = leaf(1.0), leaf(2.0)
    a = torch.add(w, x)
    a.retain_grad()
    b = torch.add(w, 1)
    y = torch.mul(a, b)
    y.backward()
    assert (w.grad.item(), x.grad.item(), a.grad.item()) == (5.0, 2.0, 2.0)
    with pytest.warns(UserWarning, match=r"retain_grad\(\)"):
        assert b.grad is None
    assert [t.is_leaf for t in (w, x, a, b, y)] == [True, True, False, False, False]
    assert y.grad_fn.name() == "MulBackward0"


def test_edges():
    x = leaf(3.0)
    n = (x * x).grad_fn.next_functions
    assert n[0][0] is n[1][0]
    assert n[0][0].variable is x
    assert type(n[0][0]).__name__ == "AccumulateGrad"
    assert [f is None for f, _ in (x * torch.ones(1)).grad_fn.next_functions] == [False, True]


def test_saved_values_follow_need_and_die_with_backward():
    w, a = leaf(2.0), torch.tensor([3.0])
    y = w * a
    assert y.grad_fn._saved_self is None
    assert y.grad_fn._saved_other.item() == 3.0
    y.backward()
    with pytest.raises(RuntimeError):
        _ = y.grad_fn._saved_other


def test_accumulation_and_independent_gradients():
    x, y = leaf(1.0, 1.0), leaf(1.0, 1.0)
    (x + y).sum().backward()
    x.grad.add_(5)
    assert y.grad.tolist() == [1.0, 1.0]
    (x * 2).sum().backward()
    assert x.grad.tolist() == [8.0, 8.0]


def test_gradient_has_the_layout_of_the_leaf():
    x = torch.ones(3, 2).t().requires_grad_()
    (x * torch.ones(2, 3)).sum().backward()
    assert x.grad.stride() == x.stride() == (1, 2)


def test_mixed_dtypes_get_their_own_back():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.float64, requires_grad=True)
    y = a * b
    y.sum().backward()
    assert (y.dtype, a.grad.dtype, b.grad.dtype) == (torch.float64, torch.float32, torch.float64)


def test_order_is_reverse_creation():
    order = []
    x = leaf(1.0)
    a, b, c = x.sin(), x.cos(), x.exp()
    for name, t in {"a": a, "b": b, "c": c}.items():
        t.grad_fn.register_hook(lambda gi, go, name=name: order.append(name))
    (c + a + b).backward()
    assert order == ["c", "b", "a"]


def test_partial_pass_leaves_the_rest_alive():
    x = leaf(2.0)
    h = x.exp()
    (g,) = grad(h * h, h)
    h.backward(g)
    assert x.grad.item() == pytest.approx(2 * 2.718281828**4, rel=1e-5)


def test_backward_inputs():
    x, z = leaf(2.0), leaf(3.0)
    h = x * z
    (h * h).backward(inputs=[h, z])
    assert x.grad is None
    assert h.grad.item() == 12.0
    assert z.grad.item() == 24.0


def test_second_and_third_derivative():
    x = leaf(2.0)
    y = x**3
    values = []
    for _ in range(3):
        (y,) = grad(y, x, create_graph=True)
        values.append(y.item())
    assert values == [12.0, 12.0, 6.0]


def test_create_graph_ignores_no_grad():
    x = leaf(2.0)
    y = x**3
    with torch.no_grad():
        (g,) = grad(y, x, create_graph=True)
    assert g.requires_grad


def test_backward_with_create_graph_warns():
    warned.said.clear()
    x = leaf(2.0)
    with pytest.warns(UserWarning, match=r"autograd\.grad"):
        (x * x).sum().backward(create_graph=True)
    assert x.grad.requires_grad


def test_modes_are_local_to_the_thread():
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
        assert not torch.is_grad_enabled()
    assert seen == [True]


def test_decorated_generator_gives_the_mode_back():
    @torch.no_grad()
    def numbers():
        yield torch.is_grad_enabled()
        yield torch.is_grad_enabled()

    it = numbers()
    assert (next(it), torch.is_grad_enabled(), next(it)) == (False, True, False)


def test_inference_tensors_stay_out_of_graphs():
    with torch.inference_mode():
        a = torch.ones(2)
    assert a.is_inference()
    assert not (a + 1).is_inference()
    with pytest.raises(RuntimeError, match="clone"):
        a * torch.ones(2, requires_grad=True)


def test_set_grad_enabled_as_statement_and_context():
    torch.set_grad_enabled(False)
    try:
        assert not torch.is_grad_enabled()
        with torch.set_grad_enabled(True):
            assert torch.is_grad_enabled()
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_version_is_shared_by_the_storage_family():
    b = torch.zeros(4)
    v = b[:2]
    v.add_(1)
    assert (b._version, v._version, b.detach()._version, b.clone()._version) == (1, 1, 1, 0)


def test_write_to_a_view_changes_the_base():
    x = leaf(1.0, 2.0)
    a = x * 1
    v = a[:1]
    v.mul_(10)
    assert a.grad_fn.name() == "torch::autograd::CopySlices"
    assert v.grad_fn.name() == "AsStridedBackward0"
    a.sum().backward()
    assert x.grad.tolist() == [10.0, 1.0]


def test_write_to_the_base_changes_the_views():
    x = leaf(1.0, 2.0)
    a = x * 1
    v = a[0]
    a.mul_(3)
    v.backward()
    assert x.grad.tolist() == [3.0, 0.0]


def test_write_of_a_gradient_into_a_plain_tensor():
    w, b = leaf(2.0), torch.zeros(3)
    b[1:2] = w
    b.sum().backward()
    assert (b.requires_grad, b.is_leaf, w.grad.item()) == (True, False, 1.0)


def test_second_derivative_through_a_written_view():
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)

    def f(t):
        a = t * t
        a[1:].mul_(t[:2])
        a[0] = t[2] ** 3
        return a

    assert torch.autograd.gradcheck(f, x)
    assert torch.autograd.gradgradcheck(f, x)


def test_data_writes_go_unnoticed_as_in_pytorch():
    x = leaf(1.0, 2.0)
    y = x.exp()
    y.data.zero_()
    assert y._version == 0
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_reassigned_data_is_seen_by_the_graph():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    x.data = torch.tensor([5.0, 5.0])
    y.backward()
    assert x.grad.tolist() == [10.0, 10.0]


def test_anomaly_mode_names_node_and_line():
    x = leaf(0.0)
    with (
        torch.autograd.set_detect_anomaly(True),
        pytest.raises(RuntimeError, match=r"(?s)MulBackward0.*test_graph\.py"),
    ):
        (x * x).sum().sqrt().backward()


def test_gradients_of_ops_stay_silent_about_infinities():
    x = leaf(0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (1 / x).log().backward()
    assert x.grad.isinf().item() or x.grad.isnan().item()


def test_a_sum_handed_to_two_inputs_is_not_added_to_in_place():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    earlier = (a * 10).sum()
    s = a + b
    # The gradient of s is a buffer that the engine made; a and b both receive it, and a's share grows afterwards.
    (s.sum() + s.sum() + s.sum() + earlier).backward()
    assert a.grad.tolist() == [13.0, 13.0]
    assert b.grad.tolist() == [3.0, 3.0]


def test_a_leaf_frozen_after_the_forward_pass_gets_nothing():
    w, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = (w * b).sum()
    w.requires_grad_(False)
    y.backward()
    assert (w.grad, b.grad.tolist()) == (None, [1.0, 2.0])
    w.requires_grad_()
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]

    y = (b * 2).sum()
    b.detach_()
    b.grad = None
    y.backward()
    assert b.grad is None

    y = (w * 2).sum()
    w.requires_grad_(False).requires_grad_()
    w.grad = None
    y.backward()
    assert w.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", ["eq_", "ne_", "lt_", "le_", "gt_", "ge_"])
def test_truth_written_over_numbers_cuts_their_gradient(name):
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    getattr(y, name)(1)
    assert type(y.grad_fn).__name__ == f"{name[:-1].capitalize()}Backward0"
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
