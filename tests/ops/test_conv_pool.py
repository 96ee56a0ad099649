"""Convolutions, pooling and embeddings: what is recorded, corners, and what errors say."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood
import sapwood.nn.functional as F
from sapwood.errors import DimError, ShapeError, ValueRangeError
from sapwood.kernels import conv as kernel


def rand(*shape, grad=True):
    return sapwood.tensor(np.random.default_rng(0).standard_normal(shape), requires_grad=grad)


def test_tiles_do_not_change_results(monkeypatch):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 4, 9, 8)), rng.standard_normal((6, 2, 3, 2))
    attrs = ((2, 1), (1, 1), (1, 2), 2)
    whole = kernel.convolve(x, w, *attrs)
    g = rng.standard_normal(whole.shape)
    adjoint = kernel.convolve_transposed(g, w, (9, 8), *attrs)
    filters = kernel.filter_gradient(x, g, (3, 2), *attrs)
    monkeypatch.setattr(kernel, "TILE", 300)
    monkeypatch.setattr(kernel, "WIDE", 1)
    np.testing.assert_allclose(kernel.convolve(x, w, *attrs), whole, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.convolve_transposed(g, w, (9, 8), *attrs), adjoint, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.filter_gradient(x, g, (3, 2), *attrs), filters, rtol=1e-12, atol=1e-12)


def test_output_padding_beyond_the_stride():
    x, w = rand(1, 2, 4), rand(2, 3, 2)
    y = F.conv_transpose1d(x, w, stride=1, dilation=3, output_padding=2)
    assert y.shape == (1, 3, 9)
    g = rand(1, 3, 9, grad=False)
    gx, gw = sapwood.autograd.grad((y * g).sum(), (x, w))
    eps = 1e-6
    for t, gt in ((x, gx), (w, gw)):
        d = rand(*t.shape, grad=False)
        moved = [
            F.conv_transpose1d(*(v + s * eps * d if v is t else v for v in (x, w)), None, 1, 0, 2, 1, 3)
            for s in (1, -1)
        ]
        slope = ((moved[0] - moved[1]) * g).sum().item() / (2 * eps)
        assert slope == pytest.approx((gt * d).sum().item(), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.conv2d(rand(1, 3, 5, 5), rand(2, 4, 3, 3)), ShapeError, r"takes 4; input\.shape\[1\] must equal"),
        (lambda: F.conv2d(rand(3, 5), rand(2, 3, 3, 3)), ShapeError, r"conv2d: input must be \(N, C, H, W\)"),
        (
            lambda: F.conv2d(rand(1, 3, 2, 2), rand(2, 3, 3, 3)),
            ShapeError,
            r"the kernel is larger than the padded image",
        ),
        (lambda: F.conv2d(rand(1, 3, 5, 5), rand(2, 3, 3, 3), rand(3)), ShapeError, r"bias must have shape \(2,\)"),
        (lambda: F.conv1d(rand(1, 3, 5), rand(2, 3, 3), stride=2, padding="same"), ValueRangeError, "needs stride 1"),
        (lambda: F.max_pool2d(rand(1, 1, 4, 4), 2, padding=2), ValueRangeError, "at most half of kernel_size"),
        (lambda: F.max_pool2d(rand(4, 4), 2), ShapeError, r"max_pool2d: input must be \(N, C, H, W\)"),
        (
            lambda: F.embedding(sapwood.tensor([4]), rand(3, 2)),
            DimError,
            "index 4 is out of range, the table has 3 rows",
        ),
        (lambda: F.embedding(sapwood.tensor([-1]), rand(3, 2)), DimError, "index -1 is out of range"),
        (lambda: F.one_hot(sapwood.tensor([3]), 2), ValueRangeError, "num_classes 2 must exceed every class index"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_nodes():
    x = rand(1, 2, 6, 6)
    assert F.conv2d(x, rand(3, 2, 2, 2)).grad_fn.name() == "ConvolutionBackward0"
    assert F.max_pool2d(x, 2).grad_fn.name() == "MaxPool2DWithIndicesBackward0"
    assert F.avg_pool3d(rand(1, 2, 4, 4, 4), 2).grad_fn.name() == "AvgPool3DBackward0"
    assert F.adaptive_avg_pool2d(x, 1).grad_fn.name() == "MeanBackward1"
    assert F.adaptive_avg_pool2d(x, 2).grad_fn.name() == "AdaptiveAvgPool2DBackward0"
    assert F.max_pool1d(rand(1, 2, 6), 2).grad_fn.name() == "SqueezeBackward1"
    assert F.embedding(sapwood.tensor([1]), rand(3, 2)).grad_fn.name() == "EmbeddingBackward0"


def test_max_pool_takes_the_first_of_equals_and_the_last_nan():
    x = sapwood.tensor([[[2.0, 2.0, float("nan"), float("nan")]]])
    values, at = F.max_pool1d(x, 2, return_indices=True)
    assert at.tolist() == [[[0, 3]]]
    assert values[0, 0, 0] == 2
    assert F.max_pool1d(x, 2).isnan().tolist() == [[[False, True]]]


def test_max_pool_of_minus_infinity_points_inside_the_image():
    x = sapwood.full((1, 1, 3), float("-inf"))
    _, at = F.max_pool1d(x, 3, stride=2, padding=1, return_indices=True)
    assert at.tolist() == [[[0, 1]]]


def test_embedding_padding_and_frequency():
    w = rand(4, 2)
    indices = sapwood.tensor([1, 1, 2, 3])
    F.embedding(indices, w, padding_idx=2, scale_grad_by_freq=True).sum().backward()
    assert w.grad.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]


def test_embedding_max_norm_changes_the_table():
    w = sapwood.tensor([[3.0, 4.0], [0.3, 0.4]])
    out = F.embedding(sapwood.tensor([0, 1]), w, max_norm=1.0)
    np.testing.assert_allclose(w.numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    np.testing.assert_array_equal(out.numpy(), w.numpy())
