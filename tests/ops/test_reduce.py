"""What the samples of reductions, sorting and scattering cannot say: names, ties, error classes, forms of the call."""

from __future__ import annotations

import pytest

import sapwood as sw
from sapwood.errors import ArgumentError, DimError, DtypeError, ShapeError, ValueRangeError


def leaf(values):
    return sw.tensor(values, requires_grad=True)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: x.sum(), "SumBackward0"),
        (lambda x: x.sum(0), "SumBackward1"),
        (lambda x: x.mean(), "MeanBackward0"),
        (lambda x: x.mean((0, 1)), "MeanBackward1"),
        (lambda x: x.prod(), "ProdBackward0"),
        (lambda x: x.max(), "MaxBackward1"),
        (lambda x: x.max(0).values, "MaxBackward0"),
        (lambda x: x.amax(), "AmaxBackward0"),
        (lambda x: x.median(), "MedianBackward0"),
        (lambda x: x.median(0).values, "MedianBackward1"),
        (lambda x: x.norm(), "LinalgVectorNormBackward0"),
        (lambda x: x.sort().values, "SortBackward0"),
        (lambda x: x.sort(stable=True).values, "SortBackward1"),
        (lambda x: x.masked_fill(x > 1, 0.0), "MaskedFillBackward0"),
        (lambda x: x.masked_fill(x > 1, sw.tensor(0.0)), "MaskedFillBackward1"),
        (lambda x: x.scatter(0, sw.tensor([[0, 1]]), 1.0), "ScatterBackward1"),
        (lambda x: x.scatter(0, sw.tensor([[0, 1]]), 1.0, reduce="add"), "NotImplemented"),
    ],
)
def test_node_names(call, name):
    assert type(call(leaf([[1.0, 2.0], [3.0, 4.0]])).grad_fn).__name__ == name


@pytest.mark.parametrize(
    ("call", "grad"),
    [
        (lambda x: x.max(), [0.0, 0.5, 0.5]),
        (lambda x: x.amax(), [0.0, 0.5, 0.5]),
        (lambda x: x.median(), [0.0, 0.5, 0.5]),
        (lambda x: x.max(0).values, [0.0, 1.0, 0.0]),
        (lambda x: x.topk(1).values.sum(), [0.0, 1.0, 0.0]),
        (lambda x: x.norm(float("inf")), [0.0, 0.5, 0.5]),
    ],
)
def test_ties_share_a_gradient_or_the_first_takes_it(call, grad):
    x = leaf([1.0, 3.0, 3.0])
    call(x).backward()
    assert x.grad.tolist() == grad


def test_a_norm_of_zero_has_gradient_zero():
    x = leaf([0.0, 0.0])
    x.norm().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_products_with_zeros_have_gradients():
    x = leaf([0.0, 2.0, 3.0])
    x.prod().backward()
    assert x.grad.tolist() == [6.0, 0.0, 0.0]
    x = leaf([2.0, 0.0, 3.0])
    x.cumprod(0).sum().backward()
    assert x.grad.tolist() == [1.0, 8.0, 0.0]


def test_indices_of_equal_elements_are_those_pytorch_names():
    x = sw.tensor([1.0, 3.0, 3.0, 2.0, 3.0])
    assert x.topk(2).indices.tolist() == [2, 4]
    assert sw.tensor([1.0] * 5).kthvalue(3).indices.item() == 0
    assert sw.tensor([1.0] * 5).median(0).indices.item() == 2
    assert sw.tensor([1.0, 2.0, 2.0, 3.0, 3.0, 1.0]).mode().indices.item() == 5
    assert sw.tensor([1.0, 2.0, 2.0, 1.0]).cummax(0).indices.tolist() == [0, 1, 2, 2]


def test_types_of_results():
    assert sw.tensor([True, True]).sum().dtype is sw.int64
    assert sw.tensor([1, 2], dtype=sw.int8).cumsum(0).dtype is sw.int64
    assert sw.tensor([1, 2], dtype=sw.int32).sum(dtype=sw.int32).dtype is sw.int32
    assert sw.tensor([1.0], dtype=sw.float16).sum(dtype=sw.float32).dtype is sw.float32
    assert sw.tensor([1], dtype=sw.uint8).all().dtype is sw.uint8


def test_names_that_numpy_uses():
    x = sw.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum(axis=0, keepdims=True).tolist() == [[4.0, 6.0]]
    assert x.max(axis=1).indices.tolist() == [1, 1]
    assert x.cumsum(axis=1).tolist() == [[1.0, 3.0], [3.0, 7.0]]
    assert x.std(axis=0, correction=0).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.sum(2), DimError, r"sum: dim must lie in \[-2, 1\]"),
        (lambda x: x.sum((0, 0)), ShapeError, "sum: each dimension may be named once"),
        (lambda x: x.sum(0, 1), ArgumentError, "sum: keepdim must be a bool"),
        (lambda x: x.long().mean(), DtypeError, "mean: the result must be floating-point"),
        (lambda x: x[:0].max(), ShapeError, "max: an empty tensor"),
        (lambda x: x[:0].max(0), DimError, "max: dimension 0 must have nonzero size"),
        (lambda x: x.kthvalue(3), ShapeError, "kthvalue: k must lie between"),
        (lambda x: x.topk(3), ShapeError, "topk: k must lie between"),
        (lambda x: x.quantile(1.5), ValueRangeError, "quantile: q must lie in"),
        (lambda x: x.cumsum(), ArgumentError, "cumsum: dim must be an int"),
        (lambda x: x.gather(1, sw.tensor([[5]])), ValueRangeError, "gather: index 5 is out of range for dimension 1"),
        (lambda x: x.gather(1, sw.tensor([[1.0]])), DtypeError, "gather: index must be int64 or int32"),
        (lambda x: x.scatter(1, sw.tensor([[0]]), sw.tensor([[1]])), DtypeError, "scatter: src must have the type"),
        (lambda x: x.index_copy(1, sw.tensor([7]), x[:, :1]), DimError, "index_copy: index 7 is out of range"),
        (lambda x: x.take(sw.tensor([9])), DimError, "take: index 9 is out of range"),
        (lambda x: x.masked_fill(sw.tensor([1, 0]), 0.0), DtypeError, "masked_fill: mask must be bool"),
        (lambda x: x.norm("foo"), ValueRangeError, "norm: p must be"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(sw.tensor([[1.0, 2.0], [3.0, 4.0]]))


def test_in_place_forms_write_their_tensor():
    x = sw.tensor([1.0, 2.0, 3.0])
    assert x.index_add_(0, sw.tensor([0, 0]), sw.tensor([1.0, 1.0])) is x
    assert x.tolist() == [3.0, 2.0, 3.0]
    x.scatter_(0, sw.tensor([1]), 9.0).masked_fill_(x > 8, 0.0)
    assert x.tolist() == [3.0, 0.0, 3.0]


def test_a_spread_gradient_is_not_shared_with_the_leaf():
    x = leaf([1.0, 2.0])
    x.sum().backward()
    x.grad[0] = 5.0
    assert x.grad.tolist() == [5.0, 1.0]
