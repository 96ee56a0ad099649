"""Switches and names around autograd: what they accept, what they change, what they refuse."""

from __future__ import annotations

import warnings

import pytest

import sapwood as torch
import sapwood.autograd as autograd
from sapwood import functional, warned
from sapwood.autograd import graph
from sapwood.errors import ArgumentError, DtypeError, GradError, ValueRangeError


def test_anomaly_switches_have_top_level_names():
    assert not torch.is_anomaly_enabled()
    torch.set_anomaly_enabled(True, False)
    try:
        assert torch.is_anomaly_enabled()
        assert not torch.is_anomaly_check_nan_enabled()
    finally:
        torch.set_anomaly_enabled(False)
    assert torch.is_anomaly_check_nan_enabled()
    with pytest.raises(ArgumentError, match="set_anomaly_enabled: True or False is expected, got int"):
        torch.set_anomaly_enabled(1)


def test_switches_take_bools_only():
    with pytest.raises(ArgumentError, match="set_grad_enabled: mode must be True or False, got str"):
        torch.set_grad_enabled("on")
    assert torch.is_grad_enabled()


def test_switches_without_effect():
    assert not autograd.is_multithreading_enabled()
    with autograd.enforce_grad_layout_policy(False):
        x = torch.ones(2, 3).t().requires_grad_()
        (x * 2).sum().backward()
    assert x.grad.stride() == x.stride()

    @autograd.enforce_grad_layout_policy(False)
    def double(x):
        return x * 2

    assert double(3) == 6


def test_requires_grad_is_assigned_to_leaves_only():
    y = torch.ones(2, requires_grad=True) * 2
    assert y.requires_grad_() is y
    with pytest.raises(GradError, match=r"requires_grad: it can be assigned on a leaf only.* MulBackward0"):
        y.requires_grad = True


def test_detach_functions():
    x = torch.ones(2, requires_grad=True)
    y = torch.detach(x)
    assert not y.requires_grad
    assert y.data_ptr() == x.data_ptr()
    z = x * 2
    assert torch.detach_(z) is z
    assert z.is_leaf
    with pytest.raises(ArgumentError, match="detach: input must be a tensor"):
        torch.detach(3)


def test_explain_knows_the_function_detach():
    w = torch.ones(2, requires_grad=True)
    v = torch.ones(2, requires_grad=True)
    finding = autograd.explain(w, (v * torch.detach(w * 2)).sum())[0]
    assert (finding.state, finding.reason) == ("none", "cut")
    assert "cut off by detach() at" in finding.text


def test_grad_dtype_converts_what_arrives():
    x = torch.tensor([1.0, -0.0], requires_grad=True)
    assert x.grad_dtype is torch.float32
    x.grad_dtype = torch.float16
    seen = []
    x.register_hook(lambda g: seen.append(g.dtype))
    (x * torch.tensor([2.0, -0.0])).sum().backward()
    assert str(x.grad) == "tensor([2., -0.], dtype=torch.float16)"
    (x * 2).sum().backward()
    assert x.grad.tolist() == [4.0, 2.0]
    assert seen == [torch.float16] * 2
    assert autograd.grad((x * x).sum(), x, create_graph=True)[0].dtype is torch.float16
    with pytest.raises(GradError, match="grad_dtype: this tensor has a gradient of type float16"):
        x.grad_dtype = torch.float64
    with pytest.raises(DtypeError, match="grad: the gradient must be float16 as its grad_dtype says, got float32"):
        x.grad = torch.ones(2)
    x.grad_dtype = None
    assert x.grad_dtype is None
    x.grad = torch.ones(2, dtype=torch.float64)
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.dtype is torch.float32


def test_grad_dtype_refuses():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    with pytest.raises(GradError, match="grad_dtype: only leaves have one"):
        _ = y.grad_dtype
    with pytest.raises(GradError, match="grad_dtype: it can be set on a leaf only"):
        y.grad_dtype = torch.float16
    with pytest.raises(GradError, match="grad_dtype: a dtype or None must be assigned, got int"):
        x.grad_dtype = 3


def test_version_counters_can_be_set():
    x = torch.ones(2, requires_grad=True)
    a = x * 1
    y = (a * a).sum()
    a.data_ptr()
    a.detach().add_(1)
    assert a._version == 1
    autograd._unsafe_set_version_counter(a, 0)
    assert a._version == 0
    y.backward()
    assert x.grad.tolist() == [4.0, 4.0]
    autograd._unsafe_set_version_counter((a, x), (5, 2))
    assert (a._version, x._version) == (5, 2)
    with pytest.raises(ArgumentError, match="one version from 0 on is expected for each of the 1 tensors"):
        autograd._unsafe_set_version_counter((a,), (1, 2))


def test_version_counter_set_back_finds_earlier_writes():
    x = torch.ones(2, requires_grad=True)
    a = x * 1
    y = (a * a).sum()
    a.detach().add_(1)
    a.detach().add_(1)
    autograd._unsafe_set_version_counter(a, 1)
    with pytest.raises(GradError, match="version 1 of its memory"):
        y.backward()


def test_budget_of_a_compiled_region():
    with pytest.raises(ArgumentError, match="budget must be a number, got bool"):
        graph.region_activation_memory_budget(True)
    with pytest.raises(ValueRangeError, match="between 0 and 1, got 2"):
        graph.region_activation_memory_budget(2)
    with pytest.raises(GradError, match="checkpoint_to_budget"):
        graph.region_activation_memory_budget(0.5)


def test_create_graph_warns_once():
    warned.said.clear()
    x = torch.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="use autograd.grad for higher derivatives") as caught:
        (x * x).sum().backward(create_graph=True)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (x * x).sum().backward(create_graph=True)
    torch.set_warn_always(True)
    try:
        assert torch.is_warn_always_enabled()
        with pytest.warns(UserWarning, match="create_graph"):
            (x * x).sum().backward(create_graph=True)
    finally:
        torch.set_warn_always(False)


def test_functional_has_the_names_of_the_package():
    assert functional.einsum is torch.einsum
    assert all(getattr(functional, name) is getattr(torch, name) for name in dir(functional))
    with pytest.raises(AttributeError, match="nothing"):
        _ = functional.nothing


FILLS = {
    "masked_fill_": lambda x: x.masked_fill_(torch.tensor([[True, False], [False, False]]), 3.0),
    "index_fill_": lambda x: x.index_fill_(0, torch.tensor([0]), 3.0),
    "index_put_": lambda x: x.index_put_((torch.tensor([0]),), torch.tensor(3.0)),
    "__setitem__": lambda x: x.__setitem__(torch.tensor([[True, False], [False, False]]), 3.0),
}


@pytest.mark.parametrize("name", FILLS)
def test_fills_of_expanded_tensors_warn(name):
    x = torch.zeros(2, 1).expand(2, 2)
    with pytest.warns(UserWarning, match=f"{name}: this tensor was expanded"):
        FILLS[name](x)
    assert x.tolist() == [[3.0, 3.0], [0.0, 0.0]]


@pytest.mark.parametrize("name", FILLS)
def test_recorded_fills_of_expanded_tensors_are_refused(name):
    x = (torch.zeros(2, 1, requires_grad=True) * 1).expand(2, 2)
    with pytest.raises(GradError, match=f"{name}: several elements of this tensor share one memory location"):
        FILLS[name](x)


def test_anomaly_context_begins_when_it_is_entered():
    with pytest.warns(UserWarning, match="for debugging only"):
        context = autograd.detect_anomaly()
    assert not torch.is_anomaly_enabled()
    with context:
        assert torch.is_anomaly_enabled()
        node = (torch.ones(1, requires_grad=True) * 2).grad_fn
    assert not torch.is_anomaly_enabled()
    assert "(torch.ones(1, requires_grad=True) * 2).grad_fn" in node.metadata["traceback_"][-1]


def test_no_grad_with_and_without_parentheses():
    @torch.no_grad
    def bare():
        return torch.is_grad_enabled()

    @torch.no_grad()
    def called():
        return torch.is_grad_enabled()

    assert (bare(), called(), bare.__name__) == (False, False, "bare")

    class Named(torch.no_grad):
        def __init__(self):
            super().__init__()
            self.name = "mine"

    with Named() as nothing:
        assert not torch.is_grad_enabled()
    assert nothing is None
    assert Named().name == "mine"
    assert isinstance(torch.no_grad(), torch.no_grad)
