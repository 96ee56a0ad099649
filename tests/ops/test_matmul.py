"""Matrix products: what is recorded by rank, the layout of gradients, and what errors say."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood
import sapwood.nn.functional as F
from sapwood.errors import DtypeError, ShapeError


def rand(*shape, grad=True):
    return sapwood.tensor(np.random.default_rng(0).standard_normal(shape), requires_grad=grad)


def chain(t, length=7):
    """Return the names of the nodes along the first input that has one."""
    names, node = [], t.grad_fn
    while node is not None and len(names) < length:
        names.append(node.name().removesuffix("Backward0"))
        node = next((n for n, _ in node.next_functions if n is not None and "AccumulateGrad" not in n.name()), None)
    return names


@pytest.mark.parametrize(
    ("a", "b", "names"),
    [
        ((3,), (3,), ["Dot"]),
        ((2, 3), (3,), ["Mv"]),
        ((3,), (3, 2), ["SqueezeBackward4", "Mm", "Unsqueeze"]),
        ((2, 3), (3, 4), ["Mm"]),
        ((2, 2, 3), (2, 3, 4), ["UnsafeView", "Bmm", "View", "Expand"]),
        ((2, 2, 3), (3, 4), ["UnsafeView", "Mm", "View"]),
        ((2, 3), (2, 3, 4), ["Clone", "Transpose", "UnsafeView", "Mm", "UnsafeView", "Clone", "Transpose"]),
        ((2, 2, 3), (3,), ["UnsafeView", "Mv", "View"]),
    ],
)
def test_matmul_records_by_rank(a, b, names):
    x, y = rand(*a), rand(*b)
    out = x @ y
    assert chain(out) == names
    with sapwood.no_grad():
        np.testing.assert_allclose((x @ y).numpy(), out.detach().numpy(), rtol=1e-12)


def test_linear_records_what_pytorch_records():
    w, b = rand(5, 3), rand(5)
    assert chain(F.linear(rand(2, 3, grad=False), w, b)) == ["Addmm", "T"]
    assert chain(F.linear(rand(2, 3, grad=False), w)) == ["Mm", "T"]
    assert chain(F.linear(rand(2, 2, 3), w, b)) == ["View", "Addmm", "View"]
    assert chain(F.linear(rand(2, 2, 3), w)) == ["UnsafeView", "Mm", "View"]
    assert chain(F.linear(rand(3), w, b)) == ["View", "Addmm", "View"]


def test_gradient_of_a_transposed_weight_is_row_major():
    w, b = rand(5, 3), rand(5)
    (g,) = sapwood.autograd.grad(F.linear(rand(2, 3), w, b).sum(), w)
    assert g.is_contiguous()
    assert g.stride() == w.stride()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: rand(3, 4) @ rand(5, 4), r"mm: inner sizes differ: input is \(3, 4\), mat2 is \(5, 4\).*mat2\.mT\?"),
        (lambda: rand(2, 3, 4) @ rand(3, 3, 4), r"matmul: inner sizes differ.*Did you mean other\.mT\?"),
        (lambda: rand(2, 3, 4) @ rand(3, 4, 4), r"matmul: batch sizes do not fit: input is \(2, 3, 4\)"),
        (lambda: sapwood.bmm(rand(1, 3, 4), rand(2, 4, 4)), r"bmm: batch sizes differ"),
        (lambda: sapwood.mm(rand(3), rand(3, 4)), r"mm: input must be a matrix \(2 dimensions\), got shape \(3,\)"),
        (lambda: F.linear(rand(2, 3), rand(3, 4)), r"linear: input \(2, 3\) has 3 features, weight \(3, 4\) takes 4"),
        (lambda: sapwood.addmm(rand(3), rand(2, 3), rand(3, 4)), r"addmm: input is \(3,\) and must broadcast"),
    ],
)
def test_shape_errors_name_both_shapes(call, text):
    with pytest.raises(ShapeError, match=text):
        call()


def test_dtype_errors():
    with pytest.raises(DtypeError, match=r"mm: the operands must have one dtype, got float64 and float32"):
        rand(2, 2) @ rand(2, 2).float()
    with pytest.raises(DtypeError, match=r"mm: not defined for bool"):
        sapwood.tensor([[True]]) @ sapwood.tensor([[True]])


def test_beta_zero_leaves_input_out():
    nan = sapwood.full((2, 2), float("nan"))
    one = sapwood.ones(2, 2)
    assert sapwood.addmm(nan, one, one, beta=0).tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_einsum_errors():
    x = rand(2, 3)
    with pytest.raises(ShapeError, match=r"einsum: 'j' has size 4 in operand 1 \(4, 2\), and 3 in one before"):
        sapwood.einsum("ij,jk", x, rand(4, 2))
    with pytest.raises(ValueError, match=r"einsum: 'k' is in the output of 'ij->k' and in none of the operands"):
        sapwood.einsum("ij->k", x)
    with pytest.raises(ValueError, match=r"einsum: 'i' is repeated in the output"):
        sapwood.einsum("ij->ii", x)
    with pytest.raises(ShapeError, match=r"names 1 dimensions of operand 0, which has 2.*use \.\.\."):
        sapwood.einsum("i", x)


def test_einsum_forms_agree():
    x, y = rand(2, 3), rand(3, 4)
    expected = (x @ y).tolist()
    for out in (
        sapwood.einsum("ij,jk->ik", x, y),
        sapwood.einsum("ij,jk", [x, y]),
        sapwood.einsum(x, [0, 1], y, [1, 2], [0, 2]),
        sapwood.einsum("...j,jk->...k", x, y),
    ):
        assert out.tolist() == expected
