"""What samples cannot say of views, indexing and in-place writes: aliasing, node names, errors."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError, DimError, GradError, OverwrittenError, ShapeError, ValueRangeError


@pytest.fixture
def x():
    return sapwood.tensor(np.arange(24.0).reshape(2, 3, 4)).requires_grad_()


def names(t):
    found, node = [], t.grad_fn
    while node is not None:
        found.append(type(node).__name__)
        node = next((n for n, _ in node.next_functions if n is not None), None)
    return found[:-1]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda x: x.view(6, 4), ["ViewBackward0"]),
        (lambda x: x.reshape(-1), ["ViewBackward0"]),
        (lambda x: x[0].t().reshape(12), ["UnsafeViewBackward0", "CloneBackward0", "TBackward0", "SelectBackward0"]),
        (lambda x: x[:, :, 1].reshape(6), ["ReshapeAliasBackward0", "SelectBackward0"]),
        (lambda x: x[0].T, ["PermuteBackward0", "SelectBackward0"]),
        (lambda x: x[0, 1], ["SelectBackward0", "SelectBackward0"]),
        (lambda x: x[...], ["AliasBackward0"]),
        (lambda x: x[:, :], ["AliasBackward0"]),
        (lambda x: x[:], ["SliceBackward0"]),
        (lambda x: x[0, :, [1, 2]], ["IndexBackward0", "SelectBackward0"]),
        (lambda x: x[True], ["IndexBackward0", "UnsqueezeBackward0"]),
        (lambda x: x.split(1)[1], ["SplitBackward0"]),
        (lambda x: x.float(), ["ToCopyBackward0"]),
    ],
)
def test_names_of_nodes(x, make, expected):
    assert names(make(x)) == expected


def test_calls_that_change_nothing_return_the_tensor(x):
    v = sapwood.tensor([1.0, 2.0])
    assert v.flatten() is v
    assert v.contiguous() is v
    assert v.to(sapwood.float32) is v
    assert v[...] is not v
    assert v.expand(2) is not v


def test_basic_keys_share_memory_and_lists_copy():
    v = sapwood.tensor([0, 1, 2, 3])
    part, picked = v[1:3], v[[1, 2]]
    part[0] = 99
    picked[0] = -1
    assert v.tolist() == [0, 99, 2, 3]


def test_int_beside_a_list_selects_first(x):
    assert x[0, :, [1, 2]].shape == (3, 2)
    assert x[[0, 1], :, [1, 2]].shape == (2, 3)


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (5, DimError),
        ((0, 0, 0, 0), DimError),
        (1.5, DimError),
        ([0, 5], DimError),
        (([0, 1], [0, 1, 2]), DimError),
        (slice(None, None, -1), ValueRangeError),
        ("a", ArgumentError),
    ],
)
def test_wrong_keys(x, key, error):
    with pytest.raises(error, match=r"^(index|select)"):
        x[key]


def test_write_to_a_view_reaches_the_base(x):
    base = x * 1
    row = base[0]
    row.mul_(10)
    assert base.grad_fn.name() == "torch::autograd::CopySlices"
    assert row.grad_fn.name() == "AsStridedBackward0"
    base.sum().backward()
    assert x.grad[:, 0, 0].tolist() == [10.0, 1.0]


def test_expanded_view_of_a_changed_base_adds_its_gradients():
    v = sapwood.tensor([1.0, 2.0]).requires_grad_()
    base = v * 1
    seen = base.expand(3, 2)
    base.mul_(2)
    seen.sum().backward()
    assert v.grad.tolist() == [6.0, 6.0]


def test_leaf_is_untouched_by_a_refused_write(x):
    before = x.tolist()
    for key in (0, ([0],), (0, [1])):
        with pytest.raises(GradError, match="leaf"):
            x[key] = 5
    assert x.tolist() == before


def test_pieces_of_a_split_refuse_writes(x):
    piece = (x * 1).split(1)[0]
    with pytest.raises(GradError, match="clone"):
        piece.mul_(2)


def test_index_written_over_is_noticed():
    v = sapwood.tensor([1.0, 2.0]).requires_grad_()
    index = sapwood.tensor([0, 1, 1])
    picked = v[index]
    index[0] = 1
    with pytest.raises(OverwrittenError, match="indices"):
        picked.sum().backward()


def test_repeated_indices_add_up_in_gradients_and_not_in_assignments():
    v = sapwood.tensor([1.0, 2.0]).requires_grad_()
    v[[0, 0, 1]].sum().backward()
    assert v.grad.tolist() == [2.0, 1.0]
    b = sapwood.tensor([0.0, 0.0])
    b[[0, 0]] += 1
    assert b.tolist() == [1.0, 0.0]


def test_view_that_needs_a_copy_points_to_reshape(x):
    with pytest.raises(ShapeError, match="reshape"):
        x.transpose(0, 1).view(24)


def test_integer_casts_end_the_graph(x):
    assert not x.long().requires_grad
    assert not x.to(sapwood.int32).double().requires_grad
