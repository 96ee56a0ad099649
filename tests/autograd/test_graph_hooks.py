"""Hooks: the order they run in, what they may return, and the passes they take part in."""

from __future__ import annotations

import pytest

import sapwood as torch
from sapwood.autograd import Function, Variable, grad, graph
from sapwood.utils.hooks import RemovableHandle


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(map(float, values)), requires_grad=True)


class Stop(Function):
    """Sends no gradient back."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return None


def test_order_at_a_leaf():
    order = []
    w = leaf(2)
    node = (w * 1).grad_fn.next_functions[0][0]
    node.register_prehook(lambda go: order.append("pre"))
    node.register_hook(lambda gi, go: order.append(("post", gi, go[0].item())))
    w.register_post_accumulate_grad_hook(lambda t: order.append(("accumulated", t.grad.item())))
    w.register_hook(lambda g: order.append("tensor"))
    (w * 3).backward()
    assert order == ["tensor", "pre", ("accumulated", 3.0), ("post", (), 3.0)]
    order.clear()
    assert grad(w * 3, w)[0].item() == 3.0
    assert order == ["tensor"]


def test_leaves_with_hooks_accumulate_during_the_pass():
    order = []
    x, w = leaf(1), leaf(2)
    w.register_post_accumulate_grad_hook(lambda t: order.append("w"))
    y = x * 2
    y.register_hook(lambda g: order.append("y"))
    z = y * w
    z.register_hook(lambda g: order.append("z"))
    z.backward()
    assert order == ["z", "w", "y"]
    order.clear()
    u = w * x
    u.register_hook(lambda g: order.append("u"))
    (u.exp() * w).backward()
    assert order == ["u", "w"]


def test_optimizer_inside_backward_frees_gradients():
    weights = [leaf(1) for _ in range(3)]
    alive = []

    def step(p):
        with torch.no_grad():
            p -= 0.1 * p.grad
        alive.append(sum(w.grad is not None for w in weights))
        p.grad = None

    for w in weights:
        w.register_post_accumulate_grad_hook(step)
    y = leaf(1)
    for w in weights:
        y = (y * w).tanh()
    y.backward()
    assert alive == [1, 1, 1]


def test_order_at_a_node():
    order = []
    x = leaf(1)
    y = x * 2
    y.grad_fn.register_prehook(lambda go: (go[0] * 7,))
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_hook(lambda gi, go: order.append((gi[0].item(), gi[1], go[0].item())))
    (y * 1).backward(retain_graph=True)
    assert (y.grad.item(), x.grad.item()) == (2.0, 28.0)
    assert order == [(28.0, None, 14.0)]
    assert grad(y * 3, y)[0].item() == 6.0


@pytest.mark.parametrize(
    ("pre", "result", "cls"),
    [
        (True, lambda g: g[0] * 2, TypeError),
        (True, lambda g: (g[0], g[0]), RuntimeError),
        (True, lambda g: (torch.ones(3),), RuntimeError),
        (False, lambda g, _: g[0] * 5, TypeError),
        (False, lambda g, _: (g[0],), RuntimeError),
    ],
)
def test_results_of_node_hooks_are_checked(pre, result, cls):
    x = leaf(1)
    y = x * torch.tensor([3.0])
    (y.grad_fn.register_prehook if pre else y.grad_fn.register_hook)(result)
    with pytest.raises(cls, match="hook"):
        y.backward()
    assert x.grad is None


@pytest.mark.parametrize("result", [torch.ones(3), torch.ones(1, dtype=torch.float64)])
def test_results_of_tensor_hooks_are_checked(result):
    x = leaf(1)
    x.register_hook(lambda g: result)
    with pytest.raises(RuntimeError, match="hook"):
        (x * 2).backward()
    assert x.grad is None


def test_hooks_learn_of_gradients_that_never_came():
    seen = []
    x = leaf(1, 2)
    a, b = x.unbind()
    b.register_hook(lambda g: seen.append(("b", g)))
    a.backward()
    y = x * 2
    y.register_hook(lambda g: seen.append(("y", g)))
    x.register_hook(lambda g: seen.append(("x", g)))
    Stop.apply(y).sum().backward()
    assert seen == [("b", None), ("y", None), ("x", None)]
    assert x.grad.tolist() == [1.0, 0.0]


def test_removal():
    order = []
    y = leaf(1) * 2
    y.register_hook(lambda g: order.append("first"))
    y.register_hook(lambda g: third.remove())
    third = y.register_hook(lambda g: order.append("third"))
    y.backward(retain_graph=True)
    y.backward()
    assert order == ["first", "third", "first"]
    assert isinstance(third, RemovableHandle)


def test_hook_on_several_tensors():
    calls = []
    a, b, c = leaf(1), leaf(2), leaf(3)
    x, y, z = a * 2, b * 3, c * 4
    handle = graph.register_multi_grad_hook((x, y, z), lambda gs: calls.append([g and g.item() for g in gs]))
    (x + y).backward(retain_graph=True)
    (x + y + z).backward(retain_graph=True)
    assert calls == [[1.0, 1.0, None], [1.0, 1.0, 1.0]]
    handle.remove()
    firsts = []
    graph.register_multi_grad_hook((x, y), lambda g: firsts.append(g.item()), mode="any")
    (x * 5 + y).backward()
    assert len(calls) == 2
    assert firsts == [1.0]
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook((x,), print, mode="some")
    with pytest.raises(RuntimeError, match="require grad"):
        graph.register_multi_grad_hook((torch.ones(1),), print)


def test_saved_tensor_hooks_of_a_function():
    log = []

    class Product(Function):
        @staticmethod
        def forward(ctx, x, y):
            out = x * y
            ctx.save_for_backward(x, y, out)
            return out

        @staticmethod
        def backward(ctx, g):
            x, y, _ = ctx.saved_tensors
            return g * y, g * x

    x, y = leaf(1), leaf(2)
    with graph.saved_tensors_hooks(lambda t: (log.append(t.item()), t * 2)[1], lambda t: t):
        z = Product.apply(x, y)
    z.backward()
    assert log == [1.0, 2.0, 2.0]
    assert (x.grad.item(), y.grad.item()) == (4.0, 2.0)


def test_saved_tensor_hooks_nest_fail_and_can_be_forbidden():
    x = leaf(1, 2)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 5):
        y = x * x
    with pytest.raises(TypeError, match="unpack"):
        y.sum().backward()
    log = []
    with graph.saved_tensors_hooks(lambda t: (log.append(1), t)[1], lambda t: t):
        with graph.saved_tensors_hooks(lambda t: (log.append(2), t)[1], lambda t: t):
            x * x
        with pytest.raises(RuntimeError, match="active"), graph.disable_saved_tensors_hooks("no"):
            pass
        x * x
    assert log == [2, 2, 1, 1]
    with (
        graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    ):
        pass


def test_hooks_on_one_saved_value():
    x = leaf(1, 2)
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t * 3, lambda t: t)
    assert y.grad_fn._saved_self.tolist() == [3.0, 6.0]
    with pytest.raises(RuntimeError, match="already"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 8.0]
    with pytest.raises(RuntimeError, match="freed"):
        _ = y.grad_fn._raw_saved_self


def test_edges_as_roots_and_inputs():
    x = leaf(1, 2)
    y = x * 2
    edge = graph.get_gradient_edge(y)
    assert grad((y * y).sum(), edge)[0].tolist() == [4.0, 8.0]
    assert grad(edge, x, torch.ones(2))[0].tolist() == [2.0, 2.0]
    a, b = x.unbind()
    assert grad(a + 3 * b, [graph.GradientEdge(b.grad_fn, 1)])[0].item() == 3.0
    at_leaf = graph.get_gradient_edge(x)
    (x * x).sum().backward(inputs=[at_leaf])
    assert x.grad.tolist() == [2.0, 4.0]


def test_metadata_of_nodes():
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 2
    y.grad_fn.metadata["note"] = 5
    assert y.exp().grad_fn.next_functions[0][0].metadata == {"note": 5}
    (only,) = y.grad_fn._input_metadata
    assert (only.shape, only.dtype) == ([2, 3], torch.float32)
    assert [m.shape for m in x.unbind()[0].grad_fn._input_metadata] == [[3], [3]]
    accumulator = y.grad_fn.next_functions[0][0]
    assert isinstance(accumulator, graph.Node)
    assert isinstance(y.grad_fn, graph.Node)


def test_callbacks_run_when_the_pass_has_ended():
    order = []
    x = leaf(1)

    def hook(g):
        Variable._execution_engine.queue_callback(lambda: order.append(("end", x.grad.item())))
        order.append("hook")

    (x * 2).register_hook(hook)
    y = x * 2
    y.register_hook(hook)
    y.backward()
    assert order == ["hook", ("end", 2.0)]
    with pytest.raises(RuntimeError, match="no backward pass"):
        Variable._execution_engine.queue_callback(print)
    assert isinstance(x, Variable)
    assert Variable(torch.ones(1), requires_grad=True).requires_grad


def test_prehook_of_an_accumulator_replaces_the_gradient():
    x = torch.ones(2, requires_grad=True)
    accumulator = graph.get_gradient_edge(x).node
    accumulator.register_prehook(lambda gs: (gs[0] * 5,))
    (x * 2).sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]


def test_a_leaf_with_hooks_as_root():
    x = torch.ones(1, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.item()))
    x.backward()
    assert seen == [1.0]
    assert x.grad.item() == 1.0


def test_any_hook_ignores_what_never_came():
    a, b = torch.ones(4, requires_grad=True).split(2)
    x = torch.ones(1, requires_grad=True)
    seen = []
    graph.register_multi_grad_hook([a, x], lambda g: seen.append(g), mode="any")
    b.sum().backward()
    assert seen == []


def test_partial_passes_and_hooks_on_several_tensors():
    x, u = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    seen = []
    graph.register_multi_grad_hook([x, u], lambda gs: seen.append([None if g is None else g.item() for g in gs]))
    torch.autograd.grad(x * 2 + u * 3, x)
    assert seen == [[2.0, None]]


def test_saved_on_cpu():
    x = torch.ones(2, requires_grad=True)
    with graph.save_on_cpu():
        h = x * 3
        y = (h * h).sum()
    h.detach().zero_()
    y.backward()
    assert x.grad.tolist() == [18.0, 18.0]


def test_edge_of_one_output():
    a, b = torch.ones(4, requires_grad=True).split(2)
    edge = graph.get_gradient_edge(b)
    assert (edge.node is a.grad_fn, edge.output_nr) == (True, 1)
    assert torch.autograd.grad((a * b).sum(), edge)[0].tolist() == [1.0, 1.0]


def test_kept_values_of_nodes_with_several_outputs():
    x = torch.tensor([2.0, 1.0, 3.0], requires_grad=True)
    low, high = torch.aminmax(x, dim=0)
    node = low.grad_fn
    assert node._saved_min.grad_fn is node
    assert node._raw_saved_max.data.output_nr == 1
    del high
    assert torch.autograd.grad(node._saved_max * 2, x)[0].tolist() == [0.0, 0.0, 2.0]


def test_converted_leaves_among_saved_values():
    x = torch.ones(2, requires_grad=True)
    y = x * torch.ones(2, dtype=torch.float64, requires_grad=True)
    saved = y.grad_fn._saved_self
    assert saved.dtype is torch.float64
    assert torch.autograd.grad(saved.sum(), x)[0].dtype is torch.float32
