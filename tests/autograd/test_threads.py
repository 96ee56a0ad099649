"""Several threads, and backward inside backward."""

from __future__ import annotations

import threading

import pytest

import sapwood as torch
from sapwood.autograd import Function, grad


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(map(float, values)), requires_grad=True)


def run(work, threads: int = 4) -> None:
    """Run `work` in several threads at once; an exception in one is raised here."""
    problems = []
    barrier = threading.Barrier(threads)

    def guarded():
        barrier.wait()
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    started = [threading.Thread(target=guarded) for _ in range(threads)]
    for t in started:
        t.start()
    for t in started:
        t.join()
    if problems:
        raise problems[0]


def test_gradients_of_a_shared_leaf_add_up_ten_thousand_times():
    x = torch.zeros(3, requires_grad=True)

    def work():
        for _ in range(2500):
            (x * 1).sum().backward()

    run(work)
    assert x.grad.tolist() == [10_000.0] * 3


def test_two_passes_through_one_graph_never_corrupt():
    for _ in range(50):
        x = leaf(1)
        y = x
        for _ in range(10):
            y = y.exp().log()
        results = []

        def work(y=y, results=results):
            try:
                y.backward()
                results.append(1)
            except RuntimeError:
                results.append(0)

        run(work, 2)
        assert len(results) == 2
        if sum(results):
            assert x.grad.item() == pytest.approx(sum(results), rel=1e-4)


def test_backward_inside_backward():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x.detach().requires_grad_()
            with torch.enable_grad():
                ctx.y = ctx.x**2
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, g):
            return grad(ctx.y, ctx.x, g)[0]

    def again(k):
        with torch.enable_grad():
            (w * k).backward()

    x, w = leaf(3), leaf(1)
    y = Square.apply(Square.apply(x))
    y.register_hook(lambda g: again(3))
    x.register_hook(lambda g: again(4))
    y.backward()
    assert (x.grad.item(), w.grad.item()) == (108.0, 7.0)
