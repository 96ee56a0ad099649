"""What samples cannot say about activations, norms, losses and dropout: errors, warnings, in-place writes, names."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import sapwood
import sapwood.nn.functional as F
from sapwood.errors import ShapeError, ValueRangeError


def leaf(*shape: int) -> sapwood.Tensor:
    return sapwood.tensor(np.random.default_rng(0).standard_normal(shape)).requires_grad_()


def chain(t: sapwood.Tensor, length: int = 3) -> list[str]:
    """Return the names of the nodes from `t` along first edges."""
    names, node = [], t.grad_fn
    while node is not None and len(names) < length and "Accumulate" not in node.name():
        names.append(node.name())
        following = [n for n, _ in node.next_functions if n is not None]
        node = following[0] if following else None
    return names


class TestNames:
    def test_cross_entropy_is_two_nodes(self) -> None:
        loss = F.cross_entropy(leaf(2, 3), sapwood.tensor([0, 2]))
        assert chain(loss) == ["NllLossBackward0", "LogSoftmaxBackward0"]

    def test_images_have_another_nll_node(self) -> None:
        loss = F.cross_entropy(leaf(1, 3, 2, 2), sapwood.tensor(np.zeros((1, 2, 2), np.int64)))
        assert chain(loss)[0] == "NllLoss2DBackward0"

    def test_in_place_elu_keeps_its_result(self) -> None:
        assert chain(F.elu(leaf(3) * 1, inplace=True)) == ["EluBackward1", "MulBackward0"]

    def test_batch_norm(self) -> None:
        assert chain(F.batch_norm(leaf(3, 2), None, None, training=True)) == ["NativeBatchNormBackward0"]


class TestErrors:
    def test_integers_have_no_gelu(self) -> None:
        with pytest.raises(NotImplementedError, match="must be of floating-point types, got int64"):
            F.gelu(sapwood.tensor([1, 2]))

    def test_target_out_of_range(self) -> None:
        with pytest.raises(IndexError, match="target 5 is not a class; classes are 0 to 2"):
            F.cross_entropy(leaf(2, 3), sapwood.tensor([0, 5]))

    def test_probabilities_out_of_range(self) -> None:
        with pytest.raises(RuntimeError, match="apply sigmoid first"):
            F.binary_cross_entropy(leaf(2) + 5, sapwood.tensor([0.0, 1.0]).double())

    def test_bce_does_not_broadcast(self) -> None:
        with pytest.raises(ValueError, match=r"target must have the input's shape \(2, 3\), got \(3,\)"):
            F.binary_cross_entropy_with_logits(leaf(2, 3), sapwood.tensor([0.0, 1.0, 1.0]))

    def test_one_value_per_channel(self) -> None:
        with pytest.raises(ValueError, match="one value per channel"):
            F.batch_norm(leaf(1, 3), None, None, training=True)

    def test_layer_norm_names_both_shapes(self) -> None:
        with pytest.raises(ShapeError, match=r"normalized_shape \(2,\) must be the last sizes .* \(2, 3\)"):
            F.layer_norm(leaf(2, 3), (2,))

    @pytest.mark.parametrize("function", [F.dropout, F.alpha_dropout, F.dropout2d])
    def test_probability(self, function: object) -> None:
        with pytest.raises(ValueRangeError, match=r"must lie in \[0, 1\], got 1.5"):
            function(leaf(1, 2, 3, 3), 1.5)  # type: ignore[operator]

    def test_reflection_needs_elements(self) -> None:
        with pytest.raises(RuntimeError, match="allows at most 2 for dimension 1 of size 3"):
            F.pad(leaf(2, 3), (3, 0), "reflect")


class TestWarnings:
    def test_broadcast_target(self) -> None:
        with pytest.warns(UserWarning, match=r"target has shape \(2,\) and input \(2, 1\)"):
            loss = F.mse_loss(sapwood.tensor([[1.0], [2.0]]), sapwood.tensor([1.0, 2.0]))
        assert loss.item() == 0.5

    def test_softmax_without_dim(self) -> None:
        with pytest.warns(UserWarning, match="dim was left out"):
            F.softmax(sapwood.tensor([1.0, 2.0]))

    def test_nothing_to_warn_of(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            F.mse_loss(sapwood.tensor([1.0]), sapwood.tensor([2.0]))


class TestValues:
    def test_all_targets_ignored(self) -> None:
        x = leaf(2, 3)
        loss = F.cross_entropy(x, sapwood.tensor([-100, -100]))
        loss.backward()
        assert math.isnan(loss.item())
        assert not x.grad.numpy().any()

    def test_softmax_of_nothing_but_minus_infinity(self) -> None:
        assert np.isnan(sapwood.tensor([-math.inf, -math.inf]).softmax(0).numpy()).all()

    def test_logarithms_of_bce_are_bounded(self) -> None:
        assert F.binary_cross_entropy(sapwood.tensor([0.0]), sapwood.tensor([1.0])).item() == 100

    def test_running_statistics(self) -> None:
        mean, var = sapwood.tensor([0.0]).double(), sapwood.tensor([1.0]).double()
        x = sapwood.tensor([[1.0], [3.0]]).double()
        F.batch_norm(x, mean, var, training=True, momentum=0.5)
        assert (mean.item(), var.item()) == (1.0, 1.5)  # the variance 2 is the unbiased one

    def test_dropout_in_evaluation_is_the_input(self) -> None:
        x = leaf(3)
        assert F.dropout(x, training=False) is x

    def test_dropout_scales_what_it_keeps(self) -> None:
        sapwood.manual_seed(0)
        kept = F.dropout(sapwood.tensor(np.ones(1000)), 0.25).numpy()
        assert set(kept) == {0.0, 1 / 0.75}

    def test_relu_in_place_writes_and_differentiates(self) -> None:
        x = sapwood.tensor([-1.0, 2.0]).requires_grad_()
        y = x * 1
        assert F.relu_(y) is y
        y.sum().backward()
        assert x.grad.tolist() == [0.0, 1.0]

    def test_attention_of_a_query_that_sees_nothing_is_zero(self) -> None:
        q = leaf(1, 1, 2, 3)
        mask = sapwood.tensor([[True, False], [False, False]])
        out = F.scaled_dot_product_attention(q, q, q, mask)
        assert not out.detach().numpy()[0, 0, 1].any()
