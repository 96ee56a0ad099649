"""Graphs die with their last reference, at any depth, without the garbage collector."""

from __future__ import annotations

import gc
import resource
import weakref

import pytest

import sapwood as torch


@pytest.fixture(autouse=True)
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_chain_of_200_000_nodes():
    x = torch.tensor([1.0], requires_grad=True)
    y = x
    for _ in range(200_000):
        y = y + 1
    y.backward()
    del y
    assert x.grad.item() == 1.0


def test_nothing_outlives_its_last_reference():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = (x.exp() * x).sum()
    refs = [weakref.ref(y), weakref.ref(y.grad_fn), weakref.ref(x)]
    y.backward()
    del y, x
    assert [r() for r in refs] == [None, None, None]


def test_views_and_written_views_die_too():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    a = x * 1
    v = a[:1]
    v.mul_(2)
    refs = [weakref.ref(t) for t in (a, v, a.grad_fn, v.grad_fn)]
    a.sum().backward()
    del a, v
    assert [r() for r in refs] == [None] * 4


def test_ten_thousand_training_steps_do_not_grow():
    torch.manual_seed(0)
    w, b = torch.randn(8, 4, requires_grad=True), torch.zeros(4, requires_grad=True)
    x, y = torch.randn(16, 8), torch.randn(16, 4)

    def step():
        loss = (((x @ w + b).tanh() - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w.sub_(0.01 * w.grad)
            b.sub_(0.01 * b.grad)
        w.grad = b.grad = None

    for _ in range(500):
        step()
    objects, memory = len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10_000):
        step()
    assert len(gc.get_objects()) - objects < 50
    # One step's graph is about 10 kB; a leak of one node a step would show as more than 1,000 kB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 1_000
