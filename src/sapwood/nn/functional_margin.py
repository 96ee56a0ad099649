"""Margin losses, and the loss of label sequences, as `nn.functional` has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..errors import ShapeError, ValueRangeError
from ..ops import loss, loss_more
from ..ops.distance import pairwise_distance
from ..ops.loss import reduced
from ..ops.loss_more import ctc_loss as _ctc_loss
from ..tensor import Tensor
from .functional_loss import Bool, Maybe, chosen_reduction


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: Bool = None, reduce: Bool = None, reduction: str = "mean"
) -> Tensor:
    """Return log(1 + exp(-target · input)) for targets of 1 and -1."""
    return loss.soft_margin_loss(input, target, chosen_reduction("soft_margin_loss", size_average, reduce, reduction))


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: Bool = None,
    reduce: Bool = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `input` where target is 1, max(0, margin - input) where it is -1."""
    kind = chosen_reduction("hinge_embedding_loss", size_average, reduce, reduction)
    return loss_more.hinge_embedding_loss(input, target, margin, kind)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Bool = None,
    reduce: Bool = None,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, -target · (input1 - input2) + margin)."""
    kind = chosen_reduction("margin_ranking_loss", size_average, reduce, reduction)
    return loss_more.margin_ranking_loss(input1, input2, target, margin, kind)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Bool = None,
    reduce: Bool = None,
    reduction: str = "mean",
) -> Tensor:
    """Return 1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1."""
    kind = chosen_reduction("cosine_embedding_loss", size_average, reduce, reduction)
    return loss_more.cosine_embedding_loss(input1, input2, target, margin, kind)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Maybe = None,
    size_average: Bool = None,
    reduce: Bool = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over classes of max(0, margin - input[target] + input[class]) to the power p."""
    kind = chosen_reduction("multi_margin_loss", size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueRangeError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    if weight is not None and weight.dim() != 1:
        raise ShapeError(f"multi_margin_loss: weight must be (C), got {tuple(weight.shape)}")
    if input.dim() > 1:
        return ops.multi_margin_loss(input, target, p, margin, weight, kind)
    single = ops.multi_margin_loss(ops.reshape(input, (1, -1)), ops.reshape(target, (1,)), p, margin, weight, kind)
    return ops.squeeze(single, 0) if kind == "none" else single


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: Bool = None, reduce: Bool = None, reduction: str = "mean"
) -> Tensor:
    """Return the hinge losses of each example's classes (target up to its first -1) against all others."""
    kind = chosen_reduction("multilabel_margin_loss", size_average, reduce, reduction)
    return ops.multilabel_margin_loss(input, target, kind)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Maybe = None,
    size_average: Bool = None,
    reduce: Bool = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over classes of the cross entropy between sigmoid(input) and target."""
    kind = chosen_reduction("multilabel_soft_margin_loss", size_average, reduce, reduction)
    terms = -(target * ops.logsigmoid(input) + (1 - target) * ops.logsigmoid(-input))
    if weight is not None:
        terms = terms * weight
    return reduced(ops.sum(terms, input.dim() - 1) / input.shape[-1], kind)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Bool = None,
    reduce: Bool = None,
    reduction: str = "mean",
) -> Tensor:
    """Return by how much the negative is not `margin` farther from the anchor than the positive."""
    kind = chosen_reduction("triplet_margin_loss", size_average, reduce, reduction)
    if margin <= 0:
        raise ValueRangeError(f"triplet_margin_loss: margin must be above 0, got {margin}")
    return loss_more.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, kind)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return the triplet margin loss with a distance of your own."""
    name = "triplet_margin_with_distance_loss"
    reduction = chosen_reduction(name, None, None, reduction)
    distance = pairwise_distance if distance_function is None else distance_function
    if margin <= 0:
        raise ValueRangeError(f"{name}: margin must be above 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise ShapeError(f"{name}: anchor, positive and negative must have the same number of dimensions")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduced(ops.clamp_min_number(margin + near - far, 0), reduction)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return minus the log likelihood of label sequences under frame-wise class probabilities."""
    kind = chosen_reduction("ctc_loss", None, None, reduction)
    return _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, kind, zero_infinity)


__all__ = [
    "cosine_embedding_loss",
    "ctc_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]
