"""Losses that are one node of the graph: squared, absolute and Huber errors, cross entropies, margins.

Every one reduces its elementwise terms by `reduction`: "none" keeps them, "sum" adds them, "mean" divides the sum by
their number. `loss_more` has the losses that are compositions of ops, and the checks around these.
"""

from __future__ import annotations

import math
from math import prod
from typing import Any

import numpy as np

from .. import ops
from ..errors import DimError, DtypeError, ShapeError, ValueRangeError
from .declare import Fused, op

REDUCTIONS = ("none", "mean", "sum")


def reduction_name(op: str, reduction: Any) -> str:
    """Return `reduction` as a name; PyTorch's function forms also count them 0, 1, 2.

    Raises:
        ValueRangeError: it is none of the three.
    """
    if reduction in REDUCTIONS:
        name: str = reduction
        return name
    if type(reduction) is int and 0 <= reduction < 3:
        return REDUCTIONS[reduction]
    raise ValueRangeError(f"{op}: reduction must be 'none', 'mean' or 'sum', got {reduction!r}")


def _reduced(terms: Any, reduction: str) -> Any:
    """Reduce terms given as an array."""
    if reduction == "none":
        return terms
    total = np.add.reduce(terms, axis=None)
    return total / np.size(terms) if reduction == "mean" else total


def reduced(terms: Any, reduction: str) -> Any:
    """Reduce terms by ops."""
    return terms if reduction == "none" else ops.mean(terms) if reduction == "mean" else ops.sum(terms)


def _share(g: Any, terms: Any, reduction: str, factor: float = 1) -> Any:
    """Return the cotangent of each term, times `factor`."""
    if reduction == "mean":
        factor = factor / max(math.prod(terms.shape), 1)
    return g if factor == 1 else g * factor


def _two(rng: Any) -> list[tuple[Any, ...]]:
    x, y = rng.standard_normal((2, 3, 4)) * 2
    return [(x, y, {"reduction": r}) for r in REDUCTIONS]


class PairLoss(Fused):
    """A loss between an input and a target of its shape."""

    inputs = ("input", "target")
    promote = "given"
    function = method = False
    samples = _two


@op
class mse_loss(PairLoss):
    """Return the squared error (input - target)²."""

    def forward(input, target, reduction="mean"):
        d = input - target
        d *= d
        return _reduced(d, reduction)

    formula = lambda input, target, reduction="mean": reduced((input - target) * (input - target), reduction)

    def vjp_input(g, input, target, reduction):
        d = input - target
        return d * _share(g, d, reduction, 2)

    def vjp_target(g, input, target, reduction):
        d = input - target
        return d * _share(g, d, reduction, -2)


@op
class smooth_l1_loss(PairLoss):
    """Return the squared error where it is small and the absolute error elsewhere, joined smoothly.

    out = d² / (2 beta) if |d| < beta else |d| - beta / 2,  d = input - target
    """

    grad_fn = "SmoothL1LossBackward0"

    def canon(input, reduction, beta):
        if beta < 0:
            raise ValueRangeError(f"smooth_l1_loss: beta must be at least 0, got {beta}")
        return reduction, beta

    def forward(input, target, reduction="mean", beta=1.0):
        d = np.abs(input - target)
        return _reduced(np.where(d < beta, d * d * (0.5 / beta), d - 0.5 * beta) if beta else d, reduction)

    def formula(input, target, reduction="mean", beta=1.0):
        d = ops.abs(input - target)
        return reduced(ops.where(d < beta, d * d * (0.5 / beta), d - 0.5 * beta) if beta else d, reduction)

    def vjp_input(g, input, target, reduction, beta):
        d = input - target
        slope = ops.where(ops.abs(d) < beta, d * (1 / beta), ops.sign(d)) if beta else ops.sign(d)
        return slope * _share(g, d, reduction)

    def vjp_target(g, input, target, reduction, beta):
        d = input - target
        slope = ops.where(ops.abs(d) < beta, d * (1 / beta), ops.sign(d)) if beta else ops.sign(d)
        return slope * _share(g, d, reduction, -1)


@op
class huber_loss(PairLoss):
    """Return half the squared error up to `delta` and a straight line of slope `delta` beyond.

    Reference: Huber, Robust estimation of a location parameter, 1964.
    """

    def canon(input, reduction, delta):
        if not delta > 0:
            raise ValueRangeError(f"huber_loss: delta must be above 0, got {delta}")
        return reduction, delta

    def forward(input, target, reduction="mean", delta=1.0):
        d = np.abs(input - target)
        return _reduced(np.where(d <= delta, d * d * 0.5, delta * (d - 0.5 * delta)), reduction)

    def formula(input, target, reduction="mean", delta=1.0):
        d = ops.abs(input - target)
        return reduced(ops.where(d <= delta, d * d * 0.5, delta * (d - 0.5 * delta)), reduction)

    def vjp_input(g, input, target, reduction, delta):
        d = input - target
        return ops.where(ops.abs(d) <= delta, d, ops.sign(d) * delta) * _share(g, d, reduction)

    def vjp_target(g, input, target, reduction, delta):
        d = input - target
        return ops.where(ops.abs(d) <= delta, d, ops.sign(d) * delta) * _share(g, d, reduction, -1)


@op
class soft_margin_loss(PairLoss):
    """Return log(1 + exp(-target · input)) for targets of 1 and -1."""

    dtypes = "fc"
    half = False

    def forward(input, target, reduction="mean"):
        return _reduced(np.log1p(np.exp(-target * input)), reduction)

    formula = lambda input, target, reduction="mean": reduced(ops.log1p(ops.exp(-target * input)), reduction)

    def vjp_input(g, input, target, reduction):
        return -target * ops.sigmoid(-target * input) * _share(g, input, reduction)


# -- cross entropies ---------------------------------------------------------------------------------------------------


def _bce_samples(rng: Any) -> list[tuple[Any, ...]]:
    x, y, w = rng.uniform(0.05, 0.95, (3, 3, 4))
    return [(x, y, None, {"reduction": r}) for r in REDUCTIONS] + [(x, y, w, "mean")]


_LOG_FLOOR = -100.0
"""PyTorch's bound for the logarithms of binary_cross_entropy, so that certain mistakes cost a finite loss."""


@op
class binary_cross_entropy(Fused):
    """Return the cross entropy between probabilities; logarithms are bounded below by -100.

    out = -weight · (target · log(input) + (1 - target) · log(1 - input))
    """

    inputs = ("input", "target", "weight")
    optional = ("weight",)
    promote = "given"
    function = method = False
    samples = _bce_samples

    def forward(input, target, weight=None, reduction="mean"):
        if input.size and not (np.minimum.reduce(input, axis=None) >= 0 and np.maximum.reduce(input, axis=None) <= 1):
            raise ValueRangeError(
                "binary_cross_entropy: input must hold probabilities between 0 and 1; apply sigmoid first, or use "
                "binary_cross_entropy_with_logits"
            )
        low = np.maximum(np.log1p(-input), _LOG_FLOOR)
        terms = (target - 1) * low - target * np.maximum(np.log(input), _LOG_FLOOR)
        return _reduced(terms if weight is None else terms * weight, reduction)

    def formula(input, target, weight=None, reduction="mean"):
        low, high = ops.log1p(-input), ops.log(input)
        low = ops.where(low < _LOG_FLOOR, _LOG_FLOOR, low)
        terms = (target - 1) * low - target * ops.where(high < _LOG_FLOOR, _LOG_FLOOR, high)
        return reduced(terms if weight is None else terms * weight, reduction)

    def vjp_input(g, input, target, weight, reduction):
        g = _share(g if weight is None else g * weight, input, reduction)
        variance = (1 - input) * input
        return g * (input - target) / ops.where(variance < 1e-12, 1e-12, variance)

    def vjp_target(g, input, weight, reduction):
        g = _share(g if weight is None else g * weight, input, reduction)
        return g * (ops.log1p(-input) - ops.log(input))


def _logit_samples(rng: Any) -> list[tuple[Any, ...]]:
    x, y, w = rng.standard_normal((3, 3, 4))
    y = 1 / (1 + np.exp(-y))
    return [(x, y, None, None, {"reduction": r}) for r in REDUCTIONS] + [(x, y, w * w, w[0] * w[0], "mean")]


@op
class binary_cross_entropy_with_logits(Fused):
    """Return the cross entropy between sigmoid(input) and target, without forming the sigmoid.

    out = weight · ((1 - target) · input - (1 + (pos_weight - 1) · target) · logsigmoid(input))
    """

    inputs = ("input", "target", "weight", "pos_weight")
    optional = ("weight", "pos_weight")
    promote = "given"
    function = method = False
    samples = _logit_samples

    def forward(input, target, weight=None, pos_weight=None, reduction="mean"):
        log = np.minimum(input, 0) - np.log1p(np.exp(-np.abs(input)))
        if pos_weight is not None:
            log = log * ((pos_weight - 1) * target + 1)
        terms = (1 - target) * input - log
        return _reduced(terms if weight is None else terms * weight, reduction)

    def formula(input, target, weight=None, pos_weight=None, reduction="mean"):
        log = ops.logsigmoid(input)
        if pos_weight is not None:
            log = log * ((pos_weight - 1) * target + 1)
        terms = (1 - target) * input - log
        return reduced(terms if weight is None else terms * weight, reduction)

    def vjp_input(g, input, target, weight, pos_weight, reduction):
        g = _share(g if weight is None else g * weight, input, reduction)
        if pos_weight is None:
            return (ops.sigmoid(input) - target) * g
        t = pos_weight * target
        return ((t + 1 - target) * ops.sigmoid(input) - t) * g

    def vjp_target(g, input, weight, pos_weight, reduction):
        g = _share(g if weight is None else g * weight, input, reduction)
        if pos_weight is None:
            return -input * g
        return (ops.logsigmoid(-input) - pos_weight * ops.logsigmoid(input)) * g


def _chosen(shape: tuple[int, ...], dtype: Any, target: Any, weight: Any, ignore_index: int) -> tuple[Any, Any]:
    """Return the target classes with ignored ones as 0, and the weight of each target.

    Raises:
        DtypeError: targets that are not class indices.
        DimError: a class index outside [0, C).
        ShapeError: shapes that do not belong together.
    """
    classes = shape[min(len(shape), 2) - 1]
    if target.dtype != np.int64 and target.dtype != np.uint8:
        raise DtypeError(
            f"nll_loss: target must hold class indices of type int64, got {target.dtype}; use target.long()"
        )
    if target.shape != shape[:1] * (len(shape) > 1) + shape[2:]:
        raise ShapeError(
            f"nll_loss: input is {shape}, target must be its shape without the class dimension, got {target.shape}"
        )
    if weight is not None and weight.shape != (classes,):
        raise ShapeError(
            f"nll_loss: weight must hold one number for each of {classes} classes, got shape {weight.shape}"
        )
    kept = target != ignore_index
    all_kept = bool(np.logical_and.reduce(kept, axis=None))
    index = target if all_kept else np.where(kept, target, 0)
    if index.size and not (np.minimum.reduce(index, axis=None) >= 0 and np.maximum.reduce(index, axis=None) < classes):
        wrong = index[(index < 0) | (index >= classes)].flat[0]
        raise DimError(
            f"nll_loss: target {wrong} is not a class; classes are 0 to {classes - 1}, ignored is {ignore_index}"
        )
    if weight is None:
        return index, (np.ones(target.shape, dtype) if all_kept else kept.astype(dtype))
    return index, weight[index] if all_kept else weight[index] * kept


def _nll_samples(rng: Any) -> list[tuple[Any, ...]]:
    x, t, w = rng.standard_normal((4, 3)), np.array([0, 2, 1, 2]), rng.uniform(0.5, 1, 3)
    return [(x, t, None, {"reduction": r}) for r in REDUCTIONS] + [
        (x, t, w, "mean", 2),
        (rng.standard_normal((2, 3, 2, 2)), rng.integers(0, 3, (2, 2, 2)), w, "mean"),
        (x[0], np.array(1), None, "mean"),
    ]


def _native_loss(forward: Any, least: int) -> Any:
    """Return nll_loss by native code, and on NumPy what that does not know, errors included."""
    from ..kernels import picked

    def loss(input, target, weight=None, reduction="mean", ignore_index=-100):
        if type(input) is np.ndarray and input.size >= least:
            found = picked.entries(input, target, weight, reduction, ignore_index)
            if found is not None:
                return found
        return forward(input, target, weight, reduction, ignore_index)

    return loss


def _native_spread(forward: Any, least: int) -> Any:
    """Return nll_spread by native code, likewise."""
    from ..kernels import picked

    def spread(grad, target, weight, shape, reduction, ignore_index):
        if type(grad) is np.ndarray and prod(shape) >= least:
            found = picked.spread(grad, target, weight, shape, reduction, ignore_index)
            if found is not None:
                return found
        return forward(grad, target, weight, shape, reduction, ignore_index)

    return spread


@op
class nll_loss(Fused):
    """Return minus the entry of each target class, weighted; with "mean", divided by the sum of the weights."""

    inputs = ("input", "target", "weight")
    optional = ("weight",)
    promote = "given"
    function = method = False
    linear = True
    native = _native_loss
    grad_fn = "NllLossBackward0 if input.ndim < 3 else NllLoss2DBackward0"
    samples = _nll_samples
    vjp_input = lambda g, input_shape, target, weight, reduction, ignore_index: ops.nll_spread(
        g, target, weight, input_shape, reduction, ignore_index
    )

    def forward(input, target, weight=None, reduction="mean", ignore_index=-100):
        index, w = _chosen(input.shape, input.dtype, target, weight, ignore_index)
        if input.ndim == 1:
            picked = input[index]
        elif input.ndim == 2:
            picked = input[np.arange(len(index)), index]
        else:
            picked = np.take_along_axis(input, index[:, None].astype(np.int64), 1)[:, 0]
        # Ignored entries stay out even where they are infinite.
        terms = np.where(target == ignore_index, w, -picked * w)
        if reduction == "none":
            return terms
        total = np.add.reduce(terms, axis=None)
        return total / np.add.reduce(w, axis=None) if reduction == "mean" else total


@op
class nll_spread(Fused):
    """Return the gradient of `nll_loss`: minus the weighted cotangent at each target class, zero elsewhere."""

    inputs = ("grad", "target", "weight")
    optional = ("weight",)
    promote = None
    function = method = False
    linear = True
    native = _native_spread
    grad_fn = "NllLossBackwardBackward0"
    samples = lambda rng: [(rng.standard_normal(()), np.array([0, 2]), None, (2, 3), "mean", -100)]
    vjp_grad = lambda g, target, weight, reduction, ignore_index: ops.nll_loss(
        g, target, weight, reduction, ignore_index
    )

    def forward(grad, target, weight, shape, reduction, ignore_index):
        index, w = _chosen(shape, grad.dtype, target, weight, ignore_index)
        if reduction == "mean":
            # With every target ignored the loss is nan, its gradient still zero.
            w = np.where(target == ignore_index, w, w / np.add.reduce(w, axis=None))
        out = np.zeros(shape, grad.dtype)
        values = -grad * w
        if len(shape) == 1:
            out[index] = values
        elif len(shape) == 2:
            out[np.arange(len(index)), index] = values
        else:
            np.put_along_axis(out, index[:, None].astype(np.int64), values[:, None], 1)
        return out


__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "huber_loss",
    "mse_loss",
    "nll_loss",
    "nll_spread",
    "reduced",
    "reduction_name",
    "smooth_l1_loss",
    "soft_margin_loss",
]
