"""What grad, vjp, jvp and the Jacobians refuse, and how they meet grad modes and graphs."""

from __future__ import annotations

import subprocess
import sys
import weakref

import pytest

import sapwood
from sapwood.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

X = sapwood.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: grad(lambda x: x)(X), RuntimeError, "no dimensions"),
        (lambda: grad(lambda x: x.sum())(sapwood.arange(3)), RuntimeError, "floating-point"),
        (lambda: grad(lambda x: x)(3.0), ValueError, "must be a tensor, got float"),
        (lambda: grad(lambda x: x.sum(), argnums=1)(X), RuntimeError, "argument 1"),
        (lambda: grad(lambda x: x.sum(), argnums=[0])(X), RuntimeError, "int or a tuple"),
        (lambda: grad(lambda x: x.sum(), argnums=())(X), RuntimeError, "at least one"),
        (lambda: grad(lambda x, y: x.sum(), argnums=(0, 0))(X, X), RuntimeError, "different arguments"),
        (lambda: grad(lambda x: x.sum(), has_aux=True)(X), RuntimeError, "a pair"),
        (lambda: grad(lambda x: (x.sum(), 3), has_aux=True)(X), RuntimeError, "aux must hold tensors"),
        (lambda: grad(lambda x: 3.0)(X), RuntimeError, "must return a tensor, got float"),
        (lambda: grad(lambda x: (x + 0j).sum())(X), RuntimeError, "real tensor"),
        (lambda: vjp(lambda x: (x, x), X)[1](X), RuntimeError, "nested as the outputs"),
        (lambda: vjp(lambda x: x, X)[1](X[0]), RuntimeError, "cotangent 0 has shape"),
        (lambda: vjp(lambda x: 3.0, X), RuntimeError, "must return tensors"),
        (lambda: jvp(lambda x: x, X, X), RuntimeError, "primals must be a tuple"),
        (lambda: jvp(lambda x: x, (X,), (X, X)), RuntimeError, "nested alike"),
        (lambda: jvp(lambda x: x, (X,), (X[0],)), RuntimeError, "primal's shape"),
        (lambda: jvp(lambda: X, (), ()), RuntimeError, "at least one"),
        (lambda: jacrev(lambda x: x, chunk_size=0)(X), ValueError, "chunk_size"),
        (lambda: jacfwd(lambda x: x)(sapwood.arange(3)), ValueError, "floating-point"),
        (lambda: linearize(lambda x: x * x, X)[1](X[0]), RuntimeError, "tangent 0 is"),
    ],
)
def test_refuses(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_outer_no_grad_is_ignored_and_inner_is_obeyed():
    with sapwood.no_grad():
        assert grad(lambda x: (x * x).sum())(X).tolist() == (2 * X).tolist()

    def f(x):
        with sapwood.no_grad():
            c = x * x
        return (x * c).sum()

    assert grad(f)(X).tolist() == (X * X).tolist()


def test_results_belong_to_no_graph_unless_the_caller_has_one():
    assert not grad(lambda x: (x**3).sum())(X).requires_grad
    value, pull = vjp(lambda x: x**3, X)
    assert not value.requires_grad and not pull(X)[0].requires_grad
    assert not jvp(lambda x: x.prod(), (X,), (X,))[1].requires_grad
    w = X.clone().requires_grad_()
    g = grad(lambda x: (x * x * w).sum())(X)
    assert g.requires_grad
    g.sum().backward()
    assert w.grad.tolist() == (2 * X).tolist()


def test_no_grad_is_left_on_any_tensor():
    x = X.clone().requires_grad_()
    grad(lambda x: (x * x).sum())(x)
    jacrev(lambda x: x * x)(x)
    hessian(lambda x: (x * x).sum())(x)
    assert x.grad is None


def test_orders_and_nestings_agree():
    f = lambda x: (x.sin() * x.exp()).prod()
    x = sapwood.tensor([0.3, -0.7, 1.1], dtype=sapwood.float64)
    wanted = jacrev(jacrev(f))(x)
    for second in (jacfwd(jacrev(f)), jacrev(jacfwd(f)), jacfwd(jacfwd(f)), hessian(f)):
        assert sapwood.allclose(second(x), wanted, rtol=1e-12)
    third = jacrev(jacrev(jacrev(f)))(x)
    assert sapwood.allclose(jacfwd(jacrev(jacfwd(f)))(x), third, rtol=1e-11)
    batch = sapwood.stack([x, x * 2])
    assert sapwood.allclose(vmap(hessian(f))(batch)[1], hessian(f)(x * 2), rtol=1e-12)


def test_gradients_per_example_differ_from_the_gradient_of_the_batch():
    w, xs = sapwood.ones(3, dtype=sapwood.float64), sapwood.arange(6.0, dtype=sapwood.float64).reshape(2, 3)
    loss = lambda w, x: (w @ x) ** 2
    rows = vmap(grad(loss), in_dims=(None, 0))(w, xs)
    assert rows.tolist() == [grad(loss)(w, x).tolist() for x in xs]


def test_auxiliary_values_and_names():
    def loss(x):
        """Say so."""
        return (x * x).sum(), {"x": x}

    found, (value, aux) = grad_and_value(loss, has_aux=True)(X)
    assert found.tolist() == (2 * X).tolist() and value.item() == 55.0 and aux["x"].tolist() == X.tolist()
    assert grad(loss, has_aux=True).__name__ == "loss" and grad(loss).__doc__ == "Say so."


def test_a_transform_keeps_nothing_alive():
    x = X.clone()
    grad(lambda x: (x * x).sum())(x)
    vmap(grad(lambda x: (x * x).sum()))(x)
    gone = weakref.ref(x)
    del x
    assert gone() is None


def test_parameters_are_back_after_a_call_that_fails():
    module = sapwood.nn.Linear(3, 2)
    weight = module.weight
    with pytest.raises(RuntimeError):
        functional_call(module, {"weight": sapwood.ones(2, 3)}, sapwood.ones(4, 5))
    assert module.weight is weight
    with pytest.raises(ValueError, match="more than one dictionary"):
        functional_call(module, ({"weight": weight}, {"weight": weight}), X)
    with pytest.raises(RuntimeError, match="missing names"):
        functional_call(module, {"weight": weight}, X, strict=True)


def test_importing_the_package_does_not_load_transforms():
    code = "import sys, sapwood; print([m for m in sys.modules if m.startswith('sapwood.func')])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_functionalize_gives_the_same_function():
    double = sapwood.func.functionalize(lambda x: x.clone().mul_(2), remove="mutations_and_views")
    assert double(sapwood.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="remove must be 'mutations' or 'mutations_and_views', got 'x'"):
        sapwood.func.functionalize(lambda x: x, remove="x")


def test_batch_norms_without_running_statistics():
    model = sapwood.nn.Sequential(sapwood.nn.BatchNorm1d(3), sapwood.nn.Sequential(sapwood.nn.BatchNorm2d(2)))
    assert sapwood.func.replace_all_batch_norm_modules_(model) is model
    assert not model.state_dict().keys() & {"0.running_mean", "1.0.running_var", "0.num_batches_tracked"}
    assert model[0].track_running_stats is False
    x = sapwood.rand(4, 5, 3)
    y = sapwood.func.vmap(model[0])(x)
    assert sapwood.allclose(y[1], model[0](x[1]), atol=1e-6)
