"""`sapwood.fuse`: functions of tensors as kernels, with gradients."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood
from sapwood.kernels import builtin

native = pytest.mark.skipif(not builtin.available(), reason=f"no kernels: {builtin.why_not()}")


def tensors(*shapes, dtype=sapwood.float64):
    sapwood.manual_seed(len(shapes))
    return [sapwood.randn(s, dtype=dtype, requires_grad=True) for s in shapes]


def gradients(function, args, **kwargs):
    answer = function(*args, **kwargs)
    parts = answer if isinstance(answer, tuple) else (answer,)
    total = sum((p * sapwood.arange(p.numel()).view(p.shape)).sum() for p in parts)
    asked = [a for a in args if isinstance(a, sapwood.Tensor) and a.requires_grad]
    return parts, sapwood.autograd.grad(total, asked, allow_unused=True)


def swish(x, slope):
    return x * sapwood.sigmoid(x * slope)


def normal(x, scale, shift):
    d = x - x.mean(-1, keepdim=True)
    return d * (d * d).mean(-1, keepdim=True).add(1e-5).rsqrt() * scale + shift


def mixed(x, y):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True) * y).sum(), sapwood.where(x > 0, x, y).tanh()


def layers(x):
    f = sapwood.nn.functional
    return f.gelu(x) + x.softmax(-1).log() + x.clamp(-1, 1) + f.layer_norm(x, x.shape[-1:]) + f.elu(x, 0.5)


PROGRAMS = [
    (swish, [(7, 5)], (1.5,)),
    (normal, [(4, 9), (9,), (9,)], ()),
    (mixed, [(6, 8), (8,)], ()),
    (layers, [(5, 6)], ()),
    (lambda x, y: (x - y).abs().sum(0) / (1 + x.square().mean(0)), [(3, 4), (3, 1)], ()),
    (lambda x: -x, [()], ()),
]


@pytest.mark.parametrize("program", range(len(PROGRAMS)))
@pytest.mark.parametrize("dtype", [sapwood.float64, sapwood.float32])
def test_values_and_gradients(program, dtype):
    function, shapes, settings = PROGRAMS[program]
    args = [*tensors(*shapes, dtype=dtype), *settings]
    fused = sapwood.fuse(function)
    tolerance = 1e-12 if dtype == sapwood.float64 else 2e-5  # sums of a few terms in another order
    (ours, found), (expected, wanted) = gradients(fused, args), gradients(function, args)
    for a, b in zip((*ours, *found), (*expected, *wanted), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)
    if builtin.available():
        for part in (fused._forward, fused._backward):
            assert not any("plain" in repr(p) for p in part._plans.values()), "not fused"


def test_settings_by_name():
    (x,) = tensors((3, 4))
    fused = sapwood.fuse(swish)
    assert fused(x, slope=2.0).equal(fused(x, 2.0))
    assert fused(slope=3.0, x=x).allclose(swish(x, 3.0))


def test_gradients_of_any_order():
    (x,) = tensors((3, 4))
    fused = sapwood.fuse(swish)
    assert sapwood.autograd.gradcheck(fused, (x, 0.7))
    assert sapwood.autograd.gradgradcheck(fused, (x, 0.7))


def test_an_input_that_does_not_matter():
    x, y = tensors((3,), (4,))
    first = sapwood.fuse(lambda x, y: x.exp())
    first(x, y).sum().backward()
    assert y.grad.tolist() == [0.0] * 4


def test_under_transforms():
    (x,) = tensors((3, 4))
    fused = sapwood.fuse(swish)
    one = sapwood.func.vmap(lambda r: fused(r, 1.0))(x)
    assert one.allclose(swish(x, 1.0))
    _, tangent = sapwood.func.jvp(lambda r: fused(r, 1.0), (x.detach(),), (sapwood.ones(3, 4, dtype=x.dtype),))
    _, expected = sapwood.func.jvp(lambda r: swish(r, 1.0), (x.detach(),), (sapwood.ones(3, 4, dtype=x.dtype),))
    assert tangent.allclose(expected)
    per_row = sapwood.func.vmap(sapwood.func.grad(lambda r: fused(r, 1.0).sum()))(x.detach())
    assert per_row.allclose(gradients_of_sum(x))


def gradients_of_sum(x):
    return sapwood.autograd.grad(swish(x, 1.0).sum(), x)[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2 if x.sum() > 0 else x @ x.T,
        lambda x: x @ x.T,
        lambda x: x[0] + 1,
        lambda x: x * float(x.detach().sum()),
        lambda x: x + sapwood.tensor(x.detach().numpy()),
        lambda x: sapwood.cumsum(x, 0),
        lambda x: x.abs().sum(0) / (1 + x.square().mean()),
    ],
)
def test_what_cannot_be_fused_runs_op_by_op(function):
    (x,) = tensors((3, 3))
    for a, b in zip(gradients(sapwood.fuse(function), [x]), gradients(function, [x])):
        assert a[0].equal(b[0])


def test_errors_are_those_of_the_function():
    x, y = tensors((3,), (4,))
    with pytest.raises(sapwood.errors.ShapeError, match="broadcast"):
        sapwood.fuse(lambda a, b: a + b)(x, y)
    with pytest.raises(ZeroDivisionError):
        sapwood.fuse(lambda a: a / (1 // 0))(x)


def test_arrays_too():
    x = np.linspace(-1, 1, 12).reshape(3, 4)
    found = sapwood.fuse(lambda a: np.tanh(a).sum(axis=1))(x)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, np.tanh(x).sum(1), rtol=1e-14)


@native
def test_one_node_that_keeps_the_arguments():
    (x,) = tensors((300, 4))
    y = sapwood.fuse(layers)(x)
    assert [type(n).__name__ for n, _ in y.grad_fn.next_functions if n is not None] == ["AccumulateGrad"]
    assert [t.shape for t in y.grad_fn.saved_tensors] == [x.shape]
