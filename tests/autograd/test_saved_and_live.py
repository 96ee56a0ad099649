"""saved counts what a graph keeps; live_graphs finds graphs and who holds them."""

from __future__ import annotations

import doctest
import gc
import importlib

import pytest

import sapwood as torch
from sapwood import autograd, nn
from sapwood.errors import ArgumentError


def test_bytes_by_op_and_memory_counted_once():
    x = torch.ones(1000, requires_grad=True)
    y = x.exp()
    report = autograd.saved((y * y).sum())
    assert report.total == 4000 and report.nodes == 3
    assert report.by("op") == {"MulBackward0": 4000, "ExpBackward0": 0}
    assert next((r.op, r.name, r.shape, r.bytes) for r in report) == ("MulBackward0", "other", (1000,), 4000)
    assert str(report).splitlines()[0] == "saved for backward: 4.0 kB by 3 nodes"


def test_a_view_keeps_the_whole_memory():
    x = torch.ones(1000, requires_grad=True)
    y = x * 1
    assert autograd.saved((y[:1] * y[:1]).sum()).total == 4000


def test_parameters_are_not_counted():
    model = nn.Linear(100, 50)
    assert autograd.saved(model(torch.ones(10, 100)).sum()).total == 4000


def test_modules_and_lines():
    model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 1))
    data = torch.zeros(50, 10)

    def loss():
        hidden = model(data)
        return hidden.exp().sum()

    report = autograd.saved(loss, model)
    # The result of tanh is what the next layer saved too, and counts there.
    assert report.by("module") == {"2 (Linear)": 4000, "0 (Linear)": 2000, "(unknown)": 200, "1 (Tanh)": 0}
    (first, second) = report.by("line")
    assert "`hidden = model(data)`" in first and "`return hidden.exp().sum()`" in second
    finished = autograd.saved(loss(), model)
    assert finished.total == report.total and finished.by("module")["0 (Linear)"] == 2000
    assert autograd.is_origin_tracking() is False


def test_custom_functions_and_hooks():
    class Square(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    x = torch.ones(100, requires_grad=True)
    report = autograd.saved(Square.apply(x * 1).sum())
    assert report.by("op")["SquareBackward"] == 400
    with autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        y = (x * 1).exp()
    assert autograd.saved(y.sum()).by("op")["ExpBackward0"] == 200


def test_nothing_left_after_backward():
    x = torch.ones(100, requires_grad=True)
    y = x.exp().sum()
    y.backward()
    assert autograd.saved(y).total == 0


def test_units_and_mistakes():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(ArgumentError, match="by takes 'op', 'module' or 'line'"):
        autograd.saved(x.exp()).by("colour")
    with pytest.raises(ArgumentError, match="root 0 must be a tensor, got int"):
        autograd.saved([1])


def test_list_of_losses_is_found():
    def train(steps):
        kept_losses = []
        w = torch.ones(3, requires_grad=True)
        for _ in range(steps):
            loss = (w * w).exp().sum()
            kept_losses.append(loss)
        del loss
        return autograd.live_graphs().only("kept_losses")

    gc.collect()
    graphs = train(4)
    assert len(graphs) == 4 and {g.nodes for g in graphs} == {3}
    assert {g.bytes for g in graphs} == {24}
    assert graphs[0].held_by == (
        "a list of 4 elements, the variable 'kept_losses' of test_list_of_losses_is_found.<locals>.train()",
    )
    assert "4 graphs of 3 nodes, 24 B" in str(graphs)
    gc.collect()
    assert not autograd.live_graphs().only("kept_losses")


def test_running_total_variable_attribute_and_growth():
    class State:
        pass

    w = torch.ones(3, requires_grad=True)
    state = State()
    gc.collect()
    with autograd.set_origin_tracking(True):
        state.hidden_sum = w * 1
        autograd.live_graphs()
        for _ in range(5):
            state.hidden_sum = state.hidden_sum + w
        (found,) = autograd.live_graphs().only("hidden_sum")
        assert found.nodes == 6 and found.root.startswith("AddBackward0 at ")
        assert found.growth == 6
        (again,) = autograd.live_graphs().only("hidden_sum")
        assert again.growth == 0
    assert any("'hidden_sum'" in h and "State" in h for h in found.held_by)


def test_looking_keeps_nothing_alive():
    import weakref

    def look():
        h = torch.ones(3, requires_grad=True) * 2
        autograd.live_graphs()
        return weakref.ref(h), weakref.ref(h.grad_fn)

    gc.collect()
    gc.disable()
    try:
        assert [r() for r in look()] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["branches", "guard", "held", "live", "reasons", "stepping"])
def test_examples_in_docstrings(name):
    gc.collect()
    result = doctest.testmod(importlib.import_module(f"sapwood.autograd.{name}"))
    assert result.attempted and not result.failed


def test_the_report_has_both_names():
    assert autograd.saved_report is autograd.saved


def test_many_lines_are_summed_up():
    x = torch.ones(4, requires_grad=True)
    with autograd.set_origin_tracking(True):
        scope = {"x": x}
        exec(compile("\n".join(["y = x.exp()"] + ["y = y.exp()"] * 14), "many.py", "exec"), scope)
    text = str(autograd.saved(scope["y"]))
    assert "5 more" in text


def test_no_graphs_at_all():
    from sapwood.autograd.live import LiveGraphs

    assert str(LiveGraphs([])) == "live graphs: none"
