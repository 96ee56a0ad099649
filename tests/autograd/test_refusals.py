"""One small program for each mistake that autograd, tensors and hooks refuse, with the words they use."""

from __future__ import annotations

import gc

import pytest

import sapwood as torch
import sapwood.autograd.functional as functional
from sapwood import autograd, nn
from sapwood.autograd import Function, function, grad, graph
from sapwood.node import AccumulateGrad
from sapwood.utils import checkpoint


def leaf(*values: float, dtype=torch.float32) -> torch.Tensor:
    return torch.tensor(list(values), dtype=dtype, requires_grad=True)


def loss(x):
    return (x * x).sum()


class Plain(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1


class SavesNumbers(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(3)
        return x * 1


class NewStyle(Function):
    @staticmethod
    def forward(x):
        return x * 1


def inference():
    with torch.inference_mode():
        return torch.ones(2)


def hooked(hook, register="register_hook"):
    x = leaf(1, 2)
    getattr(x, register)(hook)
    loss(x).backward()


def raw(x):
    return (x * 2).exp().grad_fn._raw_saved_result


def half_saved():
    x, k = leaf(1), torch.ones(1)
    return (x * k).grad_fn._raw_saved_self


def gone(edge):
    x = leaf(1)
    node = graph.get_gradient_edge(x).node
    del x
    gc.collect()
    return edge(node)


GRAD = {
    "inputs of backward": (
        lambda: loss(leaf(1)).backward(inputs=[]),
        RuntimeError,
        "inputs is empty, so nothing would",
    ),
    "inputs of grad": (lambda: grad(loss(leaf(1)), []), RuntimeError, "inputs is empty, so there is nothing"),
    "zeros forbidden": (
        lambda: grad(loss(x := leaf(1)), x, materialize_grads=True, allow_unused=False),
        ValueError,
        "allow_unused=False forbids",
    ),
    "too few gradients": (
        lambda: autograd.backward([loss(leaf(1))] * 2, [None]),
        RuntimeError,
        "2 root tensors came with 1 gradients",
    ),
    "root": (lambda: autograd.backward([3]), TypeError, "root 0 must be a tensor or a GradientEdge, got int"),
    "complex root": (
        lambda: (leaf(1) * 1j).sum().backward(),
        RuntimeError,
        "only for a real root, root 0 is complex64",
    ),
    "complex gradient": (
        lambda: loss(leaf(1)).backward(torch.tensor(1j)),
        TypeError,
        "the gradient of root 0 is complex64, the root is float32",
    ),
    "edge without a graph": (
        lambda: graph.get_gradient_edge(torch.ones(1)),
        RuntimeError,
        "get_gradient_edge: this tensor does not require grad",
    ),
    "edge to a leaf that is gone": (
        lambda: gone(lambda node: grad(loss(leaf(1)), graph.GradientEdge(node, 0))),
        RuntimeError,
        "GradientEdge: the leaf that it names is gone",
    ),
    "accumulator of a leaf that is gone": (
        lambda: gone(lambda node: node.register_hook(print)),
        RuntimeError,
        "AccumulateGrad: its leaf is gone",
    ),
    "saved name": (lambda: loss(leaf(1)).grad_fn._saved_nothing, AttributeError, "no attribute '_saved_nothing'"),
    "raw saved name": (
        lambda: raw(leaf(1)) and (leaf(1) * 2).grad_fn._raw_saved_nothing,
        AttributeError,
        "no attribute",
    ),
    "Variable": (lambda: autograd.Variable(3), TypeError, "Variable: data must be a tensor, got int"),
}

TENSORS = {
    "off on a non-leaf": (
        lambda: (leaf(1) * 2).requires_grad_(False),
        RuntimeError,
        "only a leaf can stop requiring grad, this tensor was made by MulBackward0",
    ),
    "on for an inference tensor": (lambda: inference().requires_grad_(), RuntimeError, "an inference tensor cannot"),
    "version of an inference tensor": (lambda: inference()._version, RuntimeError, "do not count their writes"),
    "grad of another kind": (
        lambda: setattr(leaf(1), "grad", 3),
        TypeError,
        "a tensor or None can be assigned, got int",
    ),
    "data of another kind": (
        lambda: setattr(leaf(1), "data", 3),
        TypeError,
        "data: a tensor must be assigned, got int",
    ),
    "retain_grad": (lambda: torch.ones(1).retain_grad(), RuntimeError, "retain_grad: this tensor does not require"),
    "register_hook": (lambda: torch.ones(1).register_hook(print), RuntimeError, "register_hook: this tensor does not"),
    "post-accumulate": (
        lambda: (leaf(1) * 2).register_post_accumulate_grad_hook(print),
        RuntimeError,
        "use register_hook for a non-leaf",
    ),
    "t_ of a leaf": (lambda: torch.ones(2, 2, requires_grad=True).t_(), RuntimeError, "t_: this tensor is a leaf"),
    "resize_ in a graph": (lambda: (leaf(1) * 2).resize_(3), RuntimeError, "resize_: a tensor that requires grad"),
    "negative size": (lambda: torch.ones(2).resize_(-1), RuntimeError, "resize_: sizes must not be negative"),
    "set_ of a leaf": (lambda: leaf(1).set_(torch.ones(2)), RuntimeError, "set_: a leaf that requires grad"),
    "set_ to another dtype": (
        lambda: torch.ones(1).set_(torch.ones(1, dtype=torch.float64)),
        RuntimeError,
        "set_: the source must be float32 like the tensor, got float64",
    ),
    "random numbers into a number": (
        lambda: torch.Tensor.exponential_(3),
        TypeError,
        "exponential_: a tensor is expected, got int",
    ),
}

HOOKS = {
    "result": (lambda: hooked(lambda g: 3), TypeError, "a tensor's hook must return a tensor or None, got int"),
    "no value to hook": (lambda: half_saved().register_hooks(print, print), RuntimeError, "keeps nothing as self"),
    "hooks on a saved value": (lambda: raw(leaf(1)).register_hooks(1, 2), TypeError, "two functions are expected"),
    "module hooks mixed": (
        lambda: (
            [nn.ReLU().register_full_backward_hook(print), m := nn.ReLU()]
            and (m.register_full_backward_hook(print), m.register_backward_hook(print))
        ),
        RuntimeError,
        "",
    ),
    "module hooks mixed, other order": (
        lambda: (m := nn.ReLU()) and (m.register_backward_hook(print), m.register_full_backward_hook(print)),
        RuntimeError,
        "",
    ),
}

FUNCTIONS = {
    "save_for_backward": (
        lambda: SavesNumbers.apply(leaf(1)),
        TypeError,
        "argument 0 must be a tensor or None, got int",
    ),
    "no forward": (lambda: type("A", (Function,), {}).apply(leaf(1)), NotImplementedError, "static method forward"),
    "no setup_context": (lambda: Function.setup_context(None, (), None), NotImplementedError, "is not defined"),
    "no backward": (lambda: Plain.apply(leaf(1)).backward(), NotImplementedError, "backward to differentiate it"),
    "no vjp": (lambda: Function.vjp(None), NotImplementedError, "backward to differentiate it"),
    "no jvp": (lambda: Function.jvp(None), NotImplementedError, "static method jvp"),
    "no vmap": (lambda: Function.vmap(None, (), ()), NotImplementedError, "static method vmap"),
}

CHECKS = {
    "nothing to check": (lambda: autograd.gradcheck(loss, torch.ones(1)), ValueError, "no input requires grad"),
    "expanded": (
        lambda: autograd.gradcheck(loss, leaf(1, dtype=torch.float64).expand(3)),
        RuntimeError,
        "input 0 shares memory between elements",
    ),
    "v does not match": (
        lambda: functional.vjp(loss, torch.ones(2), (torch.tensor(1.0), torch.tensor(1.0))),
        RuntimeError,
        "vjp: v must match the output, 1 tensors are expected, got 2",
    ),
    "several outputs": (
        lambda: functional.hvp(lambda x: (x.sum(), x.sum()), torch.ones(2), torch.ones(2)),
        RuntimeError,
        "hvp: the function must return a single tensor, got a tuple",
    ),
    "create_graph forward": (
        lambda: functional.jacobian(loss, torch.ones(2), True, strategy="forward-mode", vectorize=True),
        NotImplementedError,
        "create_graph=True needs strategy='reverse-mode'",
    ),
    "strict forward": (
        lambda: functional.jacobian(loss, torch.ones(2), strict=True, strategy="forward-mode", vectorize=True),
        RuntimeError,
        "strict=True needs strategy='reverse-mode'",
    ),
    "strategy": (
        lambda: functional.hessian(loss, torch.ones(2), outer_jacobian_strategy="x"),
        AssertionError,
        "outer_jacobian_strategy must be 'forward-mode' or 'reverse-mode', got 'x'",
    ),
    "detach_variable": (
        lambda: checkpoint.detach_variable([leaf(1)]),
        RuntimeError,
        "inputs must be a tuple, got list",
    ),
    "nothing to recompute": (
        lambda: checkpoint.checkpoint(lambda x: x.detach(), leaf(1), use_reentrant=True).sum().backward(),
        RuntimeError,
        "no output of the recomputed function requires grad",
    ),
    "parts of utils": (lambda: torch.utils.nothing, AttributeError, "has no attribute 'nothing'"),
}
ALL = {f"{part}: {name}": case for part, cases in (
    ("grad", GRAD), ("tensors", TENSORS), ("hooks", HOOKS), ("functions", FUNCTIONS), ("checks", CHECKS)
) for name, case in cases.items()}  # fmt: skip


@pytest.mark.parametrize(("program", "error", "text"), ALL.values(), ids=ALL)
def test_refuses(program, error, text):
    with pytest.raises(error) as caught:
        program()
    assert text in str(caught.value)


def test_passes_that_are_not_deterministic():
    class Drifting(Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            Drifting.calls += 1
            return g * (2 + 0.1 * Drifting.calls)

    x = leaf(1, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="two backward passes through the same graph differ"):
        autograd.gradcheck(Drifting.apply, x)


@pytest.mark.parametrize("mode", ["check_batched_grad", "check_batched_forward_grad"])
def test_batches_that_differ_from_their_rows(mode):
    class Batched(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return Same.apply(g)

        @staticmethod
        def jvp(ctx, t):
            return Same.apply(t)

        @staticmethod
        def vmap(info, in_dims, x):
            return x * 2, in_dims[0]

    class Same(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def vmap(info, in_dims, x):
            return x * 3, in_dims[0]

    x = leaf(1, 2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="computed as a batch differ"):
        autograd.gradcheck(Batched.apply, x, **{mode: True})


def test_hooks_of_modules_with_keywords_return_pairs():
    m = nn.Linear(1, 1)
    m.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"returns None or \(args, kwargs\), got int"):
        m(torch.ones(1))


def test_results_of_full_backward_hooks():
    m = nn.Linear(1, 1)
    m.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="full backward hook: 1 gradients are expected back"):
        m(leaf(1)).backward()
    m = nn.Linear(1, 1)
    m.register_full_backward_hook(lambda m, gi, go: (torch.ones(1),))
    with (
        pytest.raises(RuntimeError, match="no input requires grad, so no grad_input can be replaced"),
        pytest.warns(UserWarning, match="no input of Linear requires grad"),
    ):
        m(torch.ones(1)).backward()


def test_global_hooks_are_of_one_kind():
    from sapwood.nn.modules import module

    full = module.register_module_full_backward_hook(lambda *a: None)
    with pytest.raises(RuntimeError):
        module.register_module_backward_hook(lambda *a: None)
    full.remove()
    legacy = module.register_module_backward_hook(lambda *a: None)
    with pytest.raises(RuntimeError):
        module.register_module_full_backward_hook(lambda *a: None)
    legacy.remove()


def test_the_accumulator_is_a_node():
    assert isinstance(graph.get_gradient_edge(leaf(1)).node, AccumulateGrad)
    assert function.FunctionCtx is Plain._backward_cls.__mro__[1]
