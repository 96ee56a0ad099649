"""Custom functions: what forward may return, what backward must, and what ctx remembers."""

from __future__ import annotations

import pytest

import sapwood as torch
from sapwood import errors
from sapwood.autograd import Function, function, grad


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(list(map(float, values)), requires_grad=True)


def made(forward, backward, **more):
    """Return a Function class from two lambdas."""
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("A", (Function,), members | {k: staticmethod(v) for k, v in more.items()})


def test_setup_context():
    def setup(ctx, inputs, output):
        ctx.factor = inputs[1]
        ctx.save_for_backward(inputs[0], output)

    A = made(lambda x, k: x * k, lambda ctx, g: (g * ctx.factor, None), setup_context=setup)
    x = leaf(1, 2)
    y = A.apply(x, 3.0)
    assert repr(y) == "tensor([3., 6.], grad_fn=<ABackward>)"
    assert len(y.grad_fn.next_functions) == 1
    kept, out = y.grad_fn.saved_tensors
    assert kept is x
    assert out.grad_fn is y.grad_fn
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_values_that_are_no_tensors_pass_through():
    seen = []
    A = made(lambda ctx, x: (5, x * 2, None, "a"), lambda ctx, *g: (seen.append(g), g[1])[1])
    x = leaf(2)
    out = A.apply(x)
    assert (out[0], out[2:]) == (5, (None, "a"))
    out[1].backward()
    assert [g is None for g in seen[0]] == [True, False, True, True]


BACKWARDS = {
    "too few": lambda ctx, g: g,
    "too many": lambda ctx, g: (g, g, g),
    "a list": lambda ctx, g: [g, g],
    "a number": lambda ctx, g: (g, 5),
    "a shape that does not sum down": lambda ctx, g: (torch.tensor(1.0), g),
}


@pytest.mark.parametrize("backward", BACKWARDS.values(), ids=BACKWARDS)
def test_wrong_results_of_backward(backward):
    a, b = leaf(1), leaf(2)
    with pytest.raises(RuntimeError, match="ABackward"):
        made(lambda ctx, a, b: a + b, backward).apply(a, b).backward()
    assert a.grad is None


def test_gradient_for_an_argument_that_is_no_tensor():
    A = made(lambda ctx, a, b: a + b, lambda ctx, g: (g, g))
    with pytest.raises(errors.GradError, match="argument 1"):
        A.apply(leaf(1), 3.0).backward()


def test_mark_dirty():
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    A = made(forward, lambda ctx, g: g * 2)
    x = leaf(1)
    y = x * 1
    assert A.apply(y) is y
    assert y._version == 2
    y.backward()
    assert x.grad.item() == 2.0
    with pytest.raises(RuntimeError, match="leaf"):
        A.apply(x)
    base = leaf(1, 2) * 1
    A.apply(base[:1])
    assert base.grad_fn.name() == "torch::autograd::CopySlices"

    def forgets(ctx, x):
        ctx.mark_dirty(x)
        return x * 1

    with pytest.raises(RuntimeError, match="returned"):
        made(forgets, lambda ctx, g: g).apply(leaf(1) * 1)


def test_an_input_that_is_returned_becomes_a_tensor_of_its_own():
    A = made(lambda ctx, x: x, lambda ctx, g: g * 3)
    x = leaf(2)
    y = A.apply(x)
    assert y is not x
    assert y._is_view()
    y.backward()
    assert x.grad.item() == 3.0
    with torch.no_grad():
        z = A.apply(x)
    assert (z is x, z.requires_grad) == (False, False)
    D = made(lambda ctx, x: x.detach(), lambda ctx, g: g)
    assert not D.apply(x * 1)._is_view()


def test_saved_tensors_are_checked_for_writes():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    A = made(forward, lambda ctx, g: g * 2 * ctx.saved_tensors[0])
    y = leaf(2) * 1
    z = A.apply(y)
    y.add_(1)
    with pytest.raises(errors.OverwrittenError, match="add_"):
        z.backward()


def test_undefined_gradients_become_zeros():
    stop = made(lambda ctx, x: x * 1, lambda ctx, g: None)
    seen = []
    A = made(lambda ctx, x: x * 1, lambda ctx, g: (seen.append(g.tolist()), g)[1])
    x = leaf(1)
    stop.apply(A.apply(x)).backward()
    assert seen == [[0.0]]
    assert x.grad.item() == 0.0
    with pytest.raises(RuntimeError, match="not part"):
        grad(stop.apply(x), x)


def test_once_differentiable():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    A = made(forward, function.once_differentiable(lambda ctx, g: g * 2 * ctx.saved_tensors[0]))
    x = leaf(3)
    assert not grad(A.apply(x), x, create_graph=True)[0].requires_grad
    (g,) = grad(A.apply(x) ** 2, x, create_graph=True)
    assert g.grad_fn.name() == "torch::autograd::Error"
    with pytest.raises(RuntimeError, match="once"):
        g.backward()


def test_derivatives_of_any_order_through_saved_outputs():
    def forward(ctx, x):
        y, z = x.exp(), x * 2
        ctx.save_for_backward(y)
        return y, z

    A = made(forward, lambda ctx, g, h: g * ctx.saved_tensors[0] + 2 * h)
    y = x = leaf(0)
    y = A.apply(x)[0]
    for _ in range(3):
        (y,) = grad(y, x, create_graph=True)
        assert y.item() == 1.0


def test_calls_that_are_refused():
    A = made(lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    with pytest.raises(RuntimeError, match="apply"):
        A()(leaf(1))
    with pytest.raises(TypeError):
        A.apply(leaf(1), k=3)
    both = made(lambda ctx, x: x * 2, lambda ctx, g: g, vjp=lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="one of them"):
        both.apply(leaf(1)).backward()


def test_exceptions_keep_their_type():
    class Mine(Exception):
        pass

    def fail(ctx, g):
        raise Mine

    with pytest.raises(Mine):
        made(lambda ctx, x: x * 1, fail).apply(leaf(1)).backward()
    assert torch.is_grad_enabled()


def test_names_of_the_module():
    assert all(hasattr(function, n) for n in function.__all__)
    y = made(lambda ctx, x: x * 2, lambda ctx, g: g).apply(leaf(1))
    assert isinstance(y.grad_fn, function.FunctionCtx)


def test_hooks_on_the_saved_tensors_of_a_function():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * x

        @staticmethod
        def backward(ctx, g):
            x, nothing = ctx.saved_tensors
            assert nothing is None
            return 2 * x * g

    x = leaf(1, 2)
    y = Square.apply(x)
    handle, empty = y.grad_fn._raw_saved_tensors
    assert handle.data is x
    assert handle.unpack_hook is None
    assert empty.data is None
    assert "SavedTensor object" in repr(handle)
    handle.register_hooks(lambda t: t * 10, lambda t: t / 10)
    assert handle.data.tolist() == [10.0, 20.0]
    assert handle.unpack_hook is not None
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    with pytest.raises(errors.GradError, match="has already been run"):
        _ = y.grad_fn._raw_saved_tensors
    assert repr(y.grad_fn).startswith("<torch.autograd.function.SquareBackward object at 0x")


def test_vjp_is_another_name_of_backward():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 2

    assert grad(Twice.apply(leaf(1)), leaf(1), allow_unused=True) == (None,)
    x = leaf(1)
    assert grad(Twice.apply(x), x)[0].item() == 2.0


def test_gradients_that_are_not_materialised():
    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, a, b):
            assert a is None
            return b * 3

    x = leaf(1)
    Pair.apply(x)[1].backward()
    assert x.grad.item() == 3.0


def test_a_single_output_without_gradient():
    class Marked(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.round()
            ctx.mark_non_differentiable(y)
            ctx.save_for_backward(y)
            return y

    y = Marked.apply(leaf(1.5))
    assert not y.requires_grad
    assert function.InplaceFunction(True).inplace


def test_saved_outputs_that_are_not_differentiable():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            y, n = x * 2, x.round()
            ctx.mark_non_differentiable(n)
            ctx.save_for_backward(n)
            return y, n

        @staticmethod
        def backward(ctx, g, _):
            (n,) = ctx.saved_tensors
            assert not n.requires_grad
            return g * n

    x = leaf(3)
    Both.apply(x)[0].backward()
    assert x.grad.item() == 3.0
