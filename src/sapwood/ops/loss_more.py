"""Losses that are compositions of ops, in the form the package has them: reductions may be counted 0, 1, 2."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..errors import ShapeError
from ..tensor import Tensor
from .declare import composite, op
from .distance import pairwise_distance
from .loss import reduced, reduction_name
from .vector_norm import linalg_vector_norm


def _reduced(op: str, terms: Any, reduction: Any) -> Any:
    return reduced(terms, reduction_name(op, reduction))


@composite
def kl_div(input: Any, target: Any, reduction: Any = 1, *, log_target: bool = False) -> Any:
    """Return the Kullback-Leibler divergence of log probabilities `input` from `target`.

    out = target · (log(target) - input)
    """
    if log_target:
        return _reduced("kl_div", ops.exp(target) * (target - input), reduction)
    return _reduced("kl_div", ops.xlogy(target, target) - target * input, reduction)


@composite
def poisson_nll_loss(input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: Any) -> Any:
    """Return minus the log likelihood of Poisson counts, up to terms that do not depend on `input` unless `full`."""
    if log_input:
        loss = ops.exp(input) - target * input
    else:
        loss = input - target * ops.log(ops.add_number(input, eps))
    if full:
        stirling = target * ops.log(target) - target + ops.log(target * (2 * math.pi)) * 0.5
        loss = loss + ops.masked_fill(stirling, target <= 1, 0)
    return _reduced("poisson_nll_loss", loss, reduction)


@composite
def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: Any = 1) -> Any:
    """Return the distance `input` where target is 1, and what it lacks to `margin` where target is -1."""
    apart = ops.clamp_min_number(ops.number_minus(input, float(margin)), 0)
    zeros = ops.zeros_like(input)
    loss = ops.where(target != 1, apart, zeros) + ops.where(target != -1, input, zeros)
    return _reduced("hinge_embedding_loss", loss, reduction)


@composite
def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: Any = 1) -> Any:
    """Return by how much input1 and input2 are not `margin` apart in the order that target (1 or -1) gives.

    out = max(0, -target · (input1 - input2) + margin)
    """
    if not input1.dim() == input2.dim() == target.dim():
        raise ShapeError(
            "margin_ranking_loss: input1, input2 and target must have the same number of dimensions, got shapes "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
        )
    loss = ops.clamp_min_number(ops.add_number(-target * (input1 - input2), float(margin)), 0)
    return _reduced("margin_ranking_loss", loss, reduction)


_COSINE_EPSILON = 1e-12
"""PyTorch's addition to the squared lengths in cosine_embedding_loss."""


@composite
def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: Any = 1) -> Any:
    """Return 1 - cos(input1, input2) where target is 1, and max(0, cos - margin) where target is -1."""
    dim = target.dim()
    if dim > 1 or not input1.dim() == input2.dim() == dim + 1:
        raise ShapeError(
            "cosine_embedding_loss: inputs must be (N, D) with target (N), or (D) with target (), got "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}"
        )
    dot = ops.sum(input1 * input2, dim)
    square1 = ops.add_number(ops.sum(input1 * input1, dim), _COSINE_EPSILON)
    square2 = ops.add_number(ops.sum(input2 * input2, dim), _COSINE_EPSILON)
    cos = dot / ops.sqrt(square1 * square2)
    zeros = ops.zeros_like(cos)
    loss = ops.where(target == 1, ops.number_minus(cos, 1), zeros)
    loss = loss + ops.where(target == -1, ops.clamp_min_number(cos - margin, 0), zeros)
    return _reduced("cosine_embedding_loss", loss, reduction)


@op
class norm_of_difference(linalg_vector_norm.op):
    """Return the p-norm under the name that the graph shows for it inside distances."""

    grad_fn = "NormBackward1"
    samples = lambda rng: [(rng.standard_normal((2, 3)), 2, 1)]


def _check_dims(op: str, *tensors: Any) -> None:
    if len({t.dim() for t in tensors}) > 1:
        shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
        raise ShapeError(f"{op}: anchor, positive and negative must have the same number of dimensions, got {shapes}")


@composite
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: Any = 1,
) -> Any:
    """Return by how much the negative is not `margin` farther from the anchor than the positive.

        out = max(0, d(anchor, positive) - d(anchor, negative) + margin)

    Args:
        swap: measure the negative from the positive where that is nearer.

    Reference: Balntas et al., Learning shallow convolutional feature descriptors with triplet losses, 2016.
    """
    _check_dims("triplet_margin_loss", anchor, positive, negative)
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, pairwise_distance(positive, negative, p, eps))
    loss = ops.clamp_min_number(ops.add_number(near, float(margin)) - far, 0)
    return _reduced("triplet_margin_loss", loss, reduction)


@composite(name="binary_cross_entropy_with_logits")
def _bce_with_logits(input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: Any = 1) -> Any:
    """Return the cross entropy between sigmoid(input) and target."""
    name = reduction_name("binary_cross_entropy_with_logits", reduction)
    declared = ops.loss.binary_cross_entropy_with_logits
    return declared(input, target, weight, pos_weight, name)


def _lengths(lengths: Any) -> tuple[int, ...]:
    return tuple(map(int, lengths.tolist() if isinstance(lengths, Tensor) else lengths))


@composite
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: Any = 1,
    zero_infinity: bool = False,
) -> Any:
    """Return minus the log likelihood of label sequences under frame-wise class probabilities.

    Args:
        log_probs: (T, N, C) or (T, C), float, log probabilities.
        targets: (N, S), or all label sequences one after another, int.
        input_lengths, target_lengths: (N,), the frames and labels that each example really has.
        blank: the class that stands for no label.
        reduction: "mean" divides each loss by its number of labels before averaging.
        zero_infinity: count 0 for targets that cannot be reached.

    Reference: Graves et al., Connectionist temporal classification, ICML 2006.
    """
    single = log_probs.dim() == 2
    if single:
        log_probs, targets = ops.unsqueeze(log_probs, 1), ops.unsqueeze(targets, 0)
        input_lengths, target_lengths = (
            ops.reshape(n, (1,)) if isinstance(n, Tensor) else n for n in (input_lengths, target_lengths)
        )
    labels = _lengths(target_lengths)
    loss = ops.ctc_negative_log(log_probs, targets, _lengths(input_lengths), labels, blank, zero_infinity)
    name = reduction_name("ctc_loss", reduction)
    if name == "mean":
        counts = ops.tensor([max(n, 1) for n in labels], dtype=loss.dtype)
        return ops.mean(loss / counts)
    if name == "sum":
        return ops.sum(loss)
    return ops.squeeze(loss, 0) if single else loss


__all__ = [
    "cosine_embedding_loss",
    "ctc_loss",
    "hinge_embedding_loss",
    "kl_div",
    "margin_ranking_loss",
    "norm_of_difference",
    "poisson_nll_loss",
    "triplet_margin_loss",
]
