"""Nodes, writes and backward calls know the user's line."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import sapwood as torch
from sapwood import alias, autograd, nn
from sapwood.origin import here, origin_of, place


def line_of(tensor):
    found = place(origin_of(tensor.grad_fn))
    return None if found is None else found.text


@pytest.fixture
def tracking():
    with autograd.set_origin_tracking(True):
        yield


@pytest.fixture
def leaf():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def test_operator_function_method_and_layer(tracking, leaf):
    a = leaf * leaf
    b = torch.add(leaf, leaf)
    c = leaf.exp()
    layer = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    d = layer(leaf)
    assert line_of(a) == "a = leaf * leaf"
    assert line_of(b) == "b = torch.add(leaf, leaf)"
    assert line_of(c) == "c = leaf.exp()"
    assert line_of(d) == "d = layer(leaf)"
    inner = d.grad_fn.next_functions[0][0]
    assert place(origin_of(inner)).text == "d = layer(leaf)"


def test_a_call_over_several_lines_gives_the_line_of_the_operator(tracking, leaf):
    y = torch.cat([
        leaf * 2,
        leaf.exp(),
    ])  # fmt: skip
    second = y.grad_fn.next_functions[1][0]
    assert place(origin_of(second)).text == "leaf.exp(),"


def test_every_way_of_recording_notes_the_line(leaf):
    flat = leaf * leaf
    slow = leaf * torch.ones(2, dtype=torch.float64)
    several = leaf.max(0).values
    assert line_of(flat) == "flat = leaf * leaf"
    assert line_of(slow) == "slow = leaf * torch.ones(2, dtype=torch.float64)"
    assert line_of(several) == "several = leaf.max(0).values"


def test_custom_function_and_write_to_a_view_are_always_noted(leaf):
    class Twice(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    y = Twice.apply(leaf)
    assert line_of(y) == "y = Twice.apply(leaf)"
    z = leaf * 1
    z[0].mul_(3)
    assert line_of(z) == "z[0].mul_(3)"


def test_context_and_statement_restore(leaf):
    assert not autograd.is_origin_tracking()
    with autograd.set_origin_tracking(True):
        assert autograd.is_origin_tracking()
        inside = leaf * 3
    assert not autograd.is_origin_tracking()
    outside = leaf * 3
    assert line_of(inside) == "inside = leaf * 3"
    assert line_of(outside) == "outside = leaf * 3"
    autograd.set_origin_tracking(True)
    assert autograd.is_origin_tracking()
    autograd.set_origin_tracking(False)


def test_both_printed_forms_compute_the_same(leaf):
    def program():
        y = ((leaf @ torch.ones(2, 2)).tanh() * leaf + 2.0).softmax(0).log().sum()
        (g,) = autograd.grad(y, leaf, create_graph=True)
        return y.item(), g.tolist(), autograd.grad(g.sum(), leaf)[0].tolist()

    plain = program()
    with autograd.set_origin_tracking(True):
        assert program() == plain
    assert program() == plain


def test_a_place_says_file_line_and_function():
    found = place(here())
    assert found.file == __file__ and found.function == "test_a_place_says_file_line_and_function"
    assert found.text == "found = place(here())"
    assert str(found).endswith(f"test_origin.py:{found.line} `found = place(here())`")


def test_without_source_the_line_number_is_still_there():
    scope = {}
    exec(compile("from sapwood.origin import here\nh = here()", "nowhere.py", "exec"), scope)
    linecache.checkcache("nowhere.py")
    assert str(place(scope["h"])) == "nowhere.py:2"


def test_only_the_last_writes_are_remembered():
    x = torch.zeros(3)
    for _ in range(50):
        x.add_(1)
    record = alias.record_of(x)
    assert record.version == 50 and 8 <= len(record.writes) < 16
    assert place(record.writes[-1][2]).text == "x.add_(1)"
    assert np.all(x.numpy() == 50)
