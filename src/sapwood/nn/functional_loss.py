"""Losses as `nn.functional` has them: reductions by name, the older size_average and reduce, warnings on broadcasts."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import ops
from ..autograd.mode import no_grad
from ..errors import DtypeError, ShapeError, ValueRangeError
from ..ops import loss, loss_more
from ..ops.loss import REDUCTIONS, reduced, reduction_name
from ..tensor import Tensor

Bool = bool | None
Maybe = Tensor | None


def chosen_reduction(name: str, size_average: Bool, reduce: Bool, reduction: str) -> str:
    """Return the reduction that the arguments mean together."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(
            f"{name}: size_average and reduce are the old way to say reduction={reduction!r}", UserWarning, stacklevel=3
        )
    if reduction not in REDUCTIONS:
        reduction_name(name, reduction)
    return reduction


def _pair(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return input and target expanded to one shape, with a warning where that changes anything."""
    if input._array.shape == target._array.shape:
        return input, target
    warnings.warn(
        f"{name}: target has shape {tuple(target.shape)} and input {tuple(input.shape)}; they are broadcast against "
        "each other, which compares every element with several others and is seldom meant; give them one shape",
        UserWarning,
        stacklevel=3,
    )
    shape = ops.broadcast_shapes(tuple(input.shape), tuple(target.shape))
    expanded = [t if tuple(t.shape) == tuple(shape) else ops.expand(t, shape) for t in (input, target)]
    return expanded[0], expanded[1]


def _weighted(name: str, terms: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """Return weighted terms, their sum, or their sum divided by that of the weights."""
    if weight.shape != terms.shape:
        raise ShapeError(f"{name}: weight must have the input's shape {tuple(terms.shape)}, got {tuple(weight.shape)}")
    terms = terms * weight
    return terms if reduction == "none" else ops.sum(terms) / ops.sum(weight) if reduction == "mean" else ops.sum(terms)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Bool = None,
    reduce: Bool = None,
    reduction: str = "mean",
    weight: Maybe = None,
) -> Tensor:
    """Return the squared error (input - target)²."""
    reduction = chosen_reduction("mse_loss", size_average, reduce, reduction)
    input, target = _pair("mse_loss", input, target)
    if weight is None:
        return loss.mse_loss(input, target, reduction)
    return _weighted("mse_loss", ops.pow(input - target, 2), weight, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Bool = None,
    reduce: Bool = None,
    reduction: str = "mean",
    weight: Maybe = None,
) -> Tensor:
    """Return the absolute error |input - target|."""
    reduction = chosen_reduction("l1_loss", size_average, reduce, reduction)
    input, target = _pair("l1_loss", input, target)
    terms = ops.abs(input - target)
    return reduced(terms, reduction) if weight is None else _weighted("l1_loss", terms, weight, reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Bool = None,
    reduce: Bool = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return the squared error up to `beta`, the absolute error beyond."""
    reduction = chosen_reduction("smooth_l1_loss", size_average, reduce, reduction)
    input, target = _pair("smooth_l1_loss", input, target)
    if beta == 0:
        return reduced(ops.abs(input - target), reduction)
    return loss.smooth_l1_loss(input, target, reduction, beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Maybe = None
) -> Tensor:
    """Return half the squared error up to `delta`, a straight line beyond."""
    reduction = chosen_reduction("huber_loss", None, None, reduction)
    input, target = _pair("huber_loss", input, target)
    if weight is None:
        return loss.huber_loss(input, target, reduction, delta)
    terms = loss.huber_loss(input, target, "none", delta)
    if weight.shape != terms.shape:
        raise ShapeError(f"huber_loss: weight must have the shape {tuple(terms.shape)}, got {tuple(weight.shape)}")
    return reduced(terms * weight, reduction)


# -- classes -----------------------------------------------------------------------------------------------------------


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Maybe = None,
    size_average: Bool = None,
    ignore_index: int = -100,
    reduce: Bool = None,
    reduction: str = "mean",
) -> Tensor:
    """Return minus the log probability of each target class.

    Args:
        input: (C), (N, C) or (N, C, *), log probabilities.
        target: the input's shape without C, class indices.
        weight: (C), a factor per class.
        ignore_index: targets of this value count nothing.
    """
    return _nll(input, target, weight, chosen_reduction("nll_loss", size_average, reduce, reduction), ignore_index)


def _nll(input: Tensor, target: Tensor, weight: Maybe, reduction: str, ignore_index: int) -> Tensor:
    shape = input._array.shape
    ndim = len(shape)
    if ndim < 3 or ndim == 4:
        return loss.nll_loss(input, target, weight, reduction, ignore_index)
    wanted = (shape[0], *shape[2:])
    if tuple(target.shape) != wanted:
        raise ShapeError(f"nll_loss: input is {shape}, target must have shape {wanted}, got {tuple(target.shape)}")
    rest = math.prod(shape[2:])
    flat = ops.reshape(input, (*shape[:2], 1, rest))
    out = loss.nll_loss(flat, ops.reshape(target, (shape[0], 1, rest)), weight, reduction, ignore_index)
    return ops.reshape(out, wanted) if reduction == "none" else out


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Maybe = None,
    size_average: Bool = None,
    ignore_index: int = -100,
    reduce: Bool = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy between the softmax of `input` and the target classes or class probabilities.

    Args:
        input: (C), (N, C) or (N, C, *), unnormalised logits.
        target: the input's shape without C, class indices; or the input's shape, probabilities.
        weight: (C), a factor per class.
        ignore_index: target indices of this value count nothing.
        label_smoothing: the share of each target that is spread over all classes.
    """
    reduction = chosen_reduction("cross_entropy", size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1:
        raise ValueRangeError(f"cross_entropy: label_smoothing must lie in [0, 1], got {label_smoothing}")
    log = ops.log_softmax(input, 0 if input.dim() < 2 else 1)
    if input._array.shape == target._array.shape:
        return _probabilities(log, target, weight, reduction, ignore_index, label_smoothing)
    if not label_smoothing:
        return _nll(log, target, weight, reduction, ignore_index)
    hard = _nll(log, target, weight, reduction, ignore_index)
    soft = _smooth(log, target, weight, reduction, ignore_index)
    classes = log.shape[0 if log.dim() < 2 else 1]
    return ops.mul_number(hard, 1 - label_smoothing) + ops.mul_number(soft, label_smoothing / classes)


def _over_classes(weight: Tensor, ndim: int) -> Tensor:
    return ops.reshape(weight, (-1,) if ndim < 2 else (1, -1) + (1,) * (ndim - 2))


def _smooth(log: Tensor, target: Tensor, weight: Maybe, reduction: str, ignore_index: int) -> Tensor:
    """Return the loss against every class at once, where the target is not ignored."""
    dim = 0 if log.dim() < 2 else 1
    terms = -ops.sum(log if weight is None else log * _over_classes(weight, log.dim()), dim)
    ignored = target.eq(ignore_index)
    terms = ops.masked_fill(terms, ignored, 0.0)
    if reduction != "mean":
        return reduced(terms, reduction)
    kept = ops.masked_select(target, ~ignored)
    if weight is None:
        return ops.sum(terms) / kept.numel()
    return ops.sum(terms) / ops.sum(ops.index_select(weight, 0, kept))


def _probabilities(
    log: Tensor, target: Tensor, weight: Maybe, reduction: str, ignore_index: int, label_smoothing: float
) -> Tensor:
    if not target.is_floating_point():
        raise DtypeError(
            f"cross_entropy: a target of the input's shape holds class probabilities and must be floating-point, got "
            f"{target.dtype.name}; class indices have the input's shape without the class dimension"
        )
    if ignore_index >= 0:
        raise ValueRangeError(
            "cross_entropy: ignore_index has a meaning for class indices only, target is probabilities"
        )
    dim = 0 if log.dim() < 2 else 1
    classes = log.shape[dim]
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    terms = log * target if weight is None else log * target * _over_classes(weight, log.dim())
    if reduction == "mean":
        return ops.div_number(-ops.sum(terms), log.numel() / classes if log.numel() else math.nan)
    return -(ops.sum(terms) if reduction == "sum" else ops.sum(terms, dim))


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Maybe = None,
    size_average: Bool = None,
    reduce: Bool = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the cross entropy between probabilities; logarithms are bounded below by -100."""
    reduction = chosen_reduction("binary_cross_entropy", size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ShapeError(
            f"binary_cross_entropy: target must have the input's shape {tuple(input.shape)}, got {tuple(target.shape)}"
        )
    if weight is not None and weight.shape != target.shape:
        weight = ops.expand(weight, ops.broadcast_shapes(tuple(target.shape), tuple(weight.shape)))
    return loss.binary_cross_entropy(input, target, weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Maybe = None,
    size_average: Bool = None,
    reduce: Bool = None,
    reduction: str = "mean",
    pos_weight: Maybe = None,
) -> Tensor:
    """Return the cross entropy between sigmoid(input) and target, without overflow.

    Args:
        pos_weight: broadcasts to target; a factor on the loss of positive targets.
    """
    reduction = chosen_reduction("binary_cross_entropy_with_logits", size_average, reduce, reduction)
    if target.shape != input.shape:
        raise ShapeError(
            f"binary_cross_entropy_with_logits: target must have the input's shape {tuple(input.shape)}, got "
            f"{tuple(target.shape)}"
        )
    return loss.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


# -- distributions -----------------------------------------------------------------------------------------------------


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: Bool = None,
    reduce: Bool = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the Kullback-Leibler divergence of log probabilities `input` from `target`.

    Args:
        reduction: "batchmean" divides the sum by the batch size, which is the divergence; "mean" by all elements.
        log_target: whether target holds log probabilities too.
    """
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "kl_div: reduction='mean' divides by the number of elements and is not the divergence; use 'batchmean'",
            UserWarning,
            stacklevel=2,
        )
    batch = reduction == "batchmean" and size_average is None and reduce is None
    kind = "sum" if batch else chosen_reduction("kl_div", size_average, reduce, reduction)
    total = loss_more.kl_div(input, target, kind, log_target=log_target)
    return total / input.shape[0] if batch and input.dim() else total


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: Bool = None,
    eps: float = 1e-8,
    reduce: Bool = None,
    reduction: str = "mean",
) -> Tensor:
    """Return minus the log likelihood of Poisson counts.

    Args:
        log_input: whether input is the logarithm of the rate.
        full: add Stirling's approximation of the term that depends on target alone.
    """
    kind = chosen_reduction("poisson_nll_loss", size_average, reduce, reduction)
    return loss_more.poisson_nll_loss(input, target, log_input, full, eps, kind)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Return minus the log likelihood of normal variables with means `input` and variances `var`.

    Args:
        var: the input's shape, or with its last dimension missing or 1, or a number; at least `eps` is used.
        full: add the constant log(2π) / 2.
    """
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueRangeError(f"gaussian_nll_loss: var must not be negative, got {var}")
        var = ops.ones_like(input) * var
    elif type(var._array) is np.ndarray and bool((var._array < 0).any()):
        raise ValueRangeError("gaussian_nll_loss: var must not hold negative numbers")
    shape = tuple(input.shape)
    if tuple(var.shape) != shape:
        if tuple(var.shape) == shape[:-1]:
            var = ops.unsqueeze(var, -1)
        elif not (var.dim() == len(shape) and all(a in (b, 1) for a, b in zip(var.shape, shape))):
            raise ShapeError(f"gaussian_nll_loss: var {tuple(var.shape)} does not fit input {shape}")
    reduction = chosen_reduction("gaussian_nll_loss", None, None, reduction)
    var = ops.clone(var)
    # The bound changes the value only: gradients reach var as if it were not there.
    with no_grad():
        var.clamp_min_(eps)
    terms = (ops.log(var) + (input - target) ** 2 / var) * 0.5
    return reduced(terms + 0.5 * math.log(2 * math.pi) if full else terms, reduction)


__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "chosen_reduction",
    "cross_entropy",
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
]
