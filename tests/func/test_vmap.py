"""What vmap refuses and why, in-place writes, random numbers, indices."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood
import sapwood.nn.functional as F
from sapwood.func import grad, jvp, vmap

X = sapwood.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: vmap(lambda x: x)(3), ValueError, "type int"),
        (lambda: vmap(lambda x: x, in_dims=None)(X), ValueError, "in_dims must be an int or a tuple"),
        (lambda: vmap(lambda x: x, in_dims=(None,))(X), ValueError, "no argument is batched"),
        (lambda: vmap(lambda: X)(), ValueError, "no arguments"),
        (lambda: vmap(lambda x: x, in_dims=(0, 0))(X), ValueError, "does not mirror the arguments"),
        (lambda: vmap(lambda x: x, in_dims=2)(X), ValueError, "out of range for a tensor of 2 dimensions"),
        (lambda: vmap(lambda x, y: x)(X, X.T), ValueError, r"one size, got \[2, 3\]"),
        (lambda: vmap(lambda x: x, out_dims=None)(X), ValueError, "out_dims is None"),
        (lambda: vmap(lambda x: x, out_dims=(0, 0))(X), ValueError, "does not mirror what"),
        (lambda: vmap(lambda x: 3.0)(X), ValueError, "must return tensors, got float"),
        (lambda: vmap(lambda x: x, out_dims=5)(X), IndexError, "dim must lie in"),
        (lambda: vmap(lambda x: x, randomness="other")(X), RuntimeError, "randomness must be"),
        (lambda: vmap(lambda x: x, chunk_size=0)(X), ValueError, "chunk_size"),
        (lambda: vmap(lambda x: x.item())(sapwood.ones(3)), RuntimeError, "item needs the values"),
        (lambda: vmap(lambda x: x if x > 0 else -x)(sapwood.ones(3)), RuntimeError, "bool needs the values"),
        (lambda: vmap(lambda x: x.tolist())(X), RuntimeError, "tolist needs the values"),
        (lambda: vmap(lambda x: x.numpy())(X), RuntimeError, "numpy needs the values"),
        (lambda: vmap(lambda x: np.asarray(x))(X), RuntimeError, "array needs the values"),
        (lambda: vmap(lambda x: float(x))(sapwood.ones(3)), RuntimeError, "float needs the values"),
        (lambda: vmap(lambda x: x.nonzero())(X), RuntimeError, "depends on values"),
        (lambda: vmap(lambda x: x[x > 1])(X), RuntimeError, "shapes depend on values"),
        (lambda: vmap(lambda x: x + sapwood.rand(3))(X), RuntimeError, "randomness='error'"),
        (lambda: vmap(lambda x: x.uniform_())(X.clone()), RuntimeError, "randomness='error'"),
        (lambda: vmap(lambda x, y: y.add_(x), in_dims=(0, None))(X, X[0].clone()), RuntimeError, "differs between"),
        (lambda: vmap(lambda x: sapwood.add(x, 1, out=x))(X.clone()), RuntimeError, "out= cannot hold"),
        (lambda: vmap(lambda x: x.sum().backward())(X), RuntimeError, "cannot run inside vmap"),
    ],
)
def test_refuses(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_tensor_that_escaped_its_vmap_is_refused():
    kept = []
    vmap(lambda x: (kept.append(x), x)[1])(X)
    with pytest.raises(RuntimeError, match="has ended"):
        kept[0] + 1


def test_writing_in_place_reaches_the_callers_tensor():
    x = X.clone()
    vmap(lambda row: row.mul_(2))(x)
    assert x.tolist() == (X * 2).tolist()


def test_views_share_what_is_written():
    def f(x):
        y = x.clone()
        y[1:].zero_()
        y.view(3)[0] += 10
        return y

    assert vmap(f)(X).tolist() == [[10, 0, 0], [13, 0, 0]]
    assert vmap(grad(lambda x: f(x * x).sum()))(X).tolist() == [[0, 0, 0], [6, 0, 0]]


def test_one_example_describes_itself():
    def f(x):
        assert x.shape == (4, 3) and x.ndim == 2 and x.dtype is sapwood.float32 and len(x) == 4
        assert not x.is_contiguous() and x.T.is_contiguous() and x.numel() == 12
        return x

    x = sapwood.zeros(2, 3, 4).transpose(1, 2)
    assert vmap(f)(x).shape == (2, 4, 3)


def test_the_printed_form_shows_the_batch():
    seen = []
    vmap(lambda x: (seen.append(repr(x)), x)[1])(X)
    assert seen[0].splitlines()[0] == "BatchedTensor(lvl=1, bdim=0, value="
    assert seen[0].splitlines()[1] == "    tensor([[0., 1., 2.],"


def test_zero_dim_examples_promote_like_zero_dim_tensors():
    doubles, floats = sapwood.ones(3, dtype=sapwood.float64), sapwood.ones(3, 2)
    assert vmap(lambda a, b: a * b)(doubles, floats).dtype is sapwood.float32


def test_same_and_different_random_numbers():
    zeros = sapwood.zeros(3, 2)
    sapwood.manual_seed(0)
    same = vmap(lambda x: x + sapwood.randn(2), randomness="same")(zeros)
    sapwood.manual_seed(0)
    assert same.tolist() == [sapwood.randn(2).tolist()] * 3
    sapwood.manual_seed(0)
    different = vmap(lambda x: x + sapwood.randn(2), randomness="different")(zeros)
    sapwood.manual_seed(0)
    assert different.tolist() == sapwood.randn(3, 2).tolist()


def test_dropout_follows_the_choice():
    drop = lambda x: sapwood.nn.functional.dropout(x, 0.5)
    same = vmap(drop, randomness="same")(sapwood.ones(4, 50))
    assert all(row == same[0].tolist() for row in same.tolist())
    different = vmap(drop, randomness="different")(sapwood.ones(4, 50))
    assert different[0].tolist() != different[1].tolist()
    assert vmap(lambda x: sapwood.nn.functional.dropout(x, 0.5, training=False))(X).tolist() == X.tolist()


def test_random_functions_outside_vmap_are_as_before():
    vmap(lambda x: x, randomness="different")(X)
    sapwood.manual_seed(3)
    assert sapwood.rand(2, dtype=sapwood.float64).dtype is sapwood.float64
    with pytest.raises(TypeError):
        sapwood.rand("text")


def test_an_empty_batch():
    assert vmap(lambda x: x.sum() * 2)(sapwood.ones(0, 3)).shape == (0,)
    assert vmap(lambda x: x @ sapwood.ones(3, 2))(sapwood.ones(0, 3)).shape == (0, 2)


def test_indices_of_each_example():
    rows, at = sapwood.arange(12.0).reshape(3, 4), sapwood.tensor([0, 3, 1])
    assert vmap(lambda r, i: r[i])(rows, at).tolist() == [0.0, 7.0, 9.0]
    assert vmap(lambda i: rows[i], in_dims=0)(at[:2] % 3).tolist() == [rows[0].tolist(), rows[0].tolist()]


def test_chunks_give_the_same():
    f = lambda x: (x.sin(), x.sum())
    whole, parts = vmap(f, out_dims=(1, 0))(X.T), vmap(f, out_dims=(1, 0), chunk_size=2)(X.T)
    assert [a.tolist() for a in whole] == [a.tolist() for a in parts]


def test_forward_mode_through_vmap():
    value, tangent = jvp(vmap(lambda x: (x * x).sum()), (X,), (sapwood.ones(2, 3),))
    assert value.tolist() == [5.0, 50.0] and tangent.tolist() == [6.0, 24.0]


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize(("randomness", "equal"), [("same", True), ("different", False)])
def test_gumbel_softmax_follows_the_choice(hard, randomness, equal):
    sapwood.manual_seed(0)
    x = sapwood.ones(2, 200)
    y = vmap(lambda x: F.gumbel_softmax(x, hard=hard), randomness=randomness)(x)
    assert bool((y[0] == y[1]).all()) is equal
    assert sapwood.allclose(y.sum(1), sapwood.ones(2))
    with pytest.raises(RuntimeError, match="randomness='error'"):
        vmap(F.gumbel_softmax)(x)


@pytest.mark.parametrize(("randomness", "equal"), [("same", True), ("different", False)])
def test_fractional_pooling_follows_the_choice(randomness, equal):
    sapwood.manual_seed(1)
    x = sapwood.rand(1, 3, 12, 12).expand(2, 3, 12, 12)
    y = vmap(lambda x: F.fractional_max_pool2d(x, 2, output_size=5), randomness=randomness)(x)
    assert bool((y[0] == y[1]).all()) is equal
    with pytest.raises(RuntimeError, match="randomness='error'"):
        vmap(lambda x: F.fractional_max_pool2d(x, 2, output_size=5))(x)


@pytest.mark.parametrize("drop", [F.alpha_dropout, F.feature_alpha_dropout, F.dropout])
@pytest.mark.parametrize(("randomness", "equal"), [("same", True), ("different", False)])
@pytest.mark.parametrize("inplace", [False, True])
def test_every_dropout_follows_the_choice(drop, randomness, equal, inplace):
    sapwood.manual_seed(0)
    y = vmap(lambda x: drop(x, 0.5, True, inplace), randomness=randomness)(sapwood.ones(2, 3, 40))
    assert bool((y[0] == y[1]).all()) is equal
    assert (y != 1).any()


def test_requires_grad_does_not_escape():
    x = X.clone()
    with pytest.raises(RuntimeError, match="requires_grad_: it would change the tensor outside vmap"):
        vmap(lambda x: x.requires_grad_())(x)
    assert not x.requires_grad
    assert vmap(lambda x: x.requires_grad_(False) * 2)(x).tolist() == (x * 2).tolist()
