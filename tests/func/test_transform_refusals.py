"""One small program for each mistake that transforms refuse, with the words they use."""

from __future__ import annotations

import copy

import pytest

import sapwood
from sapwood import nn
from sapwood.autograd import Function, forward_ad
from sapwood.autograd import grad as backward_grad
from sapwood.func import functional_call, grad, jacfwd, jacrev, jvp, linearize, stack_module_state, vjp, vmap

X = sapwood.arange(6.0).reshape(2, 3)


def function(**members):
    """Return a custom function that doubles, with some members of its own."""
    base = {
        "forward": staticmethod(lambda x: x * 2),
        "setup_context": staticmethod(lambda ctx, inputs, output: None),
        "backward": staticmethod(lambda ctx, g: g * 2),
    }
    given = {k: v if isinstance(v, bool) else staticmethod(v) for k, v in members.items()}
    return type("Double", (Function,), base | given)


def dual(program):
    with forward_ad.dual_level():
        return program(forward_ad.make_dual(X, X))


def inside(program, **options):
    """Run a program on each row of a batch that requires grad."""
    x = X.clone().requires_grad_()
    return vmap(program, **options)(x * 1)


def frozen():
    m = nn.Linear(1, 1)
    m.weight.requires_grad_(False)
    return m


VMAP = {
    "in_dim": (
        lambda: vmap(lambda d: d, in_dims=({"a": "x"},))({"a": X}),
        ValueError,
        "an in_dim must be an int or None",
    ),
    "shapes that differ": (
        lambda: vmap(sapwood.bincount)(sapwood.tensor([[0, 1], [0, 5]])),
        RuntimeError,
        "bincount gives results of different shapes for different examples",
    ),
    "elements": (lambda: vmap(lambda x: x.view(4))(X), RuntimeError, "does not hold the elements of a tensor"),
    "a larger result": (
        lambda: vmap(lambda x: x.add_(sapwood.ones(2, 3)))(X.clone()),
        RuntimeError,
        "add_: the result has",
    ),
    "a wider result": (
        lambda: vmap(lambda x: x.add_(1.5))(sapwood.ones(2, 3, dtype=sapwood.long)),
        TypeError,
        "add_: the result is float32, which int64 cannot hold",
    ),
    "other memory": (lambda: vmap(lambda x: x.resize_(7))(X.clone()), RuntimeError, "replaces a tensor's memory"),
    "one tensor, many fillings": (
        lambda: (
            vmap(lambda x: sapwood.zeros(3).uniform_() + x, randomness="different")(X)
            and vmap(lambda x, y: y.uniform_() + x, in_dims=(0, None), randomness="different")(X, sapwood.zeros(3))
        ),
        RuntimeError,
        "uniform_ would fill one tensor differently for every example",
    ),
    "the same draw of a batched tensor": (
        lambda: vmap(lambda x: sapwood.poisson(x), randomness="same")(X),
        RuntimeError,
        "poisson of a batched tensor cannot draw the same numbers",
    ),
    "alpha dropout in nested vmaps": (
        lambda: vmap(vmap(lambda x: nn.functional.alpha_dropout(x, 0.5, True), randomness="same"), randomness="same")(
            X.reshape(1, 2, 3)
        ),
        RuntimeError,
        "alpha_dropout in nested vmaps",
    ),
    "two rules": (
        lambda: vmap(function(generate_vmap_rule=True, vmap=lambda *a: None).apply)(X),
        RuntimeError,
        "generate_vmap_rule=True and a vmap of its own",
    ),
    "no pair": (
        lambda: vmap(function(vmap=lambda info, in_dims, x: x).apply)(X),
        RuntimeError,
        "vmap must return a pair (outputs, out_dims)",
    ),
    "mark_dirty": (
        lambda: vmap(function(generate_vmap_rule=True, setup_context=lambda ctx, i, o: ctx.mark_dirty(i[0])).apply)(X),
        RuntimeError,
        "a generated vmap rule cannot change inputs in place",
    ),
}

GRAD_INSIDE = {
    "gradients": (
        lambda: inside(lambda x: backward_grad([x.sum()], [x], [None, None])),
        RuntimeError,
        "1 outputs came with 2 gradients",
    ),
    "no graph": (
        lambda: vmap(lambda x: backward_grad(x.sum(), x))(X),
        RuntimeError,
        "output 0 does not require grad, so there is nothing to differentiate",
    ),
    "elements": (lambda: inside(lambda x: backward_grad(x * 2, x)), RuntimeError, "pass a gradient of its shape"),
    "shape": (
        lambda: inside(lambda x: backward_grad(x * 2, x, sapwood.ones(2))),
        RuntimeError,
        "gradient 0 has shape (2,), the output (3,)",
    ),
    "input": (
        lambda: inside(lambda x: backward_grad((x * 2).sum(), sapwood.ones(1))),
        RuntimeError,
        "inputs[0] does not require grad",
    ),
    "no batch": (
        lambda: backward_grad(sapwood.ones(2, requires_grad=True) * 2, [X], is_grads_batched=True),
        TypeError,
        "is_grads_batched needs a batched tensor in grad_outputs for every output",
    ),
    "batches that differ": (
        lambda: backward_grad(
            [(x := sapwood.ones(2, requires_grad=True)) * 2, x * 3], x, [X.T, X.T[:2]], is_grads_batched=True
        ),
        RuntimeError,
        "the batches of gradients differ in size, [3, 2]",
    ),
}


class Times:
    """Holds a tensor where no transform looks for what its function captured."""

    def __init__(self, x):
        self.x = x

    def over(self, t):
        return self.x.mul_(t)


FORWARD = {
    "count": (
        lambda: dual(function(jvp=lambda ctx, t: (t, t)).apply),
        RuntimeError,
        "jvp must return one tangent per output (1), it returned 2",
    ),
    "shape": (
        lambda: dual(function(jvp=lambda ctx, t: t[0]).apply),
        RuntimeError,
        "jvp returned a tangent of shape (3,) for output 0, which has (2, 3)",
    ),
    "deepcopy": (lambda: dual(copy.deepcopy), RuntimeError, "a dual tensor belongs to its level"),
    "outer transform": (
        lambda: vmap(lambda x: jvp(Times(x).over, (sapwood.ones(3),), (sapwood.ones(3),)))(X.clone()),
        RuntimeError,
        "which cannot keep the tangent",
    ),
    "aux": (lambda: jvp(lambda x: x, (X,), (X,), has_aux=True), RuntimeError, "jvp: with has_aux=True"),
    "numbers": (lambda: jvp(lambda x: 3, (X,), (X,)), RuntimeError, "jvp: the function must return tensors, got int"),
    "strict": (lambda: jvp(lambda x: X, (X,), (X,), strict=True), RuntimeError, "strict=True forbids that"),
    "nest": (lambda: linearize(lambda x: x * x, X)[1]((X, X)), RuntimeError, "tangents must be nested as the primals"),
    "jacfwd": (lambda: jacfwd(lambda x: x)(3.0), ValueError, "must be a tensor, got float"),
}

REVERSE = {
    "no primals": (lambda: vjp(lambda: X), ValueError, "at least one primal is expected"),
    "no outputs": (lambda: vjp(lambda x: (), X), RuntimeError, "returned nothing to differentiate"),
    "cotangent": (lambda: vjp(lambda x: x * 2, X)[1](3.0), RuntimeError, "cotangent 0 must be a tensor, got float"),
    "jacrev": (lambda: jacrev(lambda x: 3)(X), RuntimeError, "jacrev: the function must return tensors, got int"),
}

MODULES = {
    "dictionary": (lambda: functional_call(nn.ReLU(), 3, X), ValueError, "a dictionary or a sequence of dictionaries"),
    "part": (
        lambda: functional_call(nn.ReLU(), {"a.b": X}, X),
        AttributeError,
        "the module has no part 'a' (for 'a.b')",
    ),
    "tensor": (
        lambda: functional_call(nn.Linear(3, 1), {"weight": 3}, X),
        TypeError,
        "'weight' must be a tensor, got int",
    ),
    "no models": (lambda: stack_module_state([]), RuntimeError, "at least one model is expected"),
    "modes": (
        lambda: stack_module_state([nn.Linear(1, 1), nn.Linear(1, 1).eval()]),
        RuntimeError,
        "must be in one mode, training or evaluation",
    ),
    "classes": (lambda: stack_module_state([nn.Linear(1, 1), nn.ReLU()]), RuntimeError, "must be of one class"),
    "frozen in some": (
        lambda: stack_module_state([nn.Linear(1, 1), frozen()]),
        RuntimeError,
        "a parameter requires grad in some of the models only",
    ),
}
ALL = {f"{part}: {name}": case for part, cases in (
    ("vmap", VMAP), ("grad", GRAD_INSIDE), ("forward", FORWARD), ("reverse", REVERSE), ("modules", MODULES)
) for name, case in cases.items()}  # fmt: skip


@pytest.mark.parametrize(("program", "error", "text"), ALL.values(), ids=ALL)
def test_refuses(program, error, text):
    with pytest.raises(error) as caught:
        program()
    assert text in str(caught.value)


def test_a_gradient_inside_a_batch_is_fine():
    (g,) = inside(lambda x: backward_grad((x * x).sum(), x))
    assert g.tolist() == (2 * X).tolist()
    assert grad(lambda x: (x * x).sum())(X).tolist() == (2 * X).tolist()
