"""Multi-class margin losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import DtypeError, ShapeError, ValueRangeError
from .declare import Fused, Plain, op
from .loss import REDUCTIONS, reduced


@op
class class_mask(Plain):
    """Return, in the shape and dtype of `input`, how often each class occurs in `target` up to its first -1."""

    inputs = ("input", "target")
    function = method = False
    samples = lambda rng: [(rng.standard_normal((2, 3)), np.array([[0, 2, -1], [1, -1, 0]]))]

    def forward(input, target):
        classes = input.shape[-1]
        live = np.logical_and.accumulate(target >= 0, axis=-1)
        if target.size and np.maximum.reduce(np.where(live, target, 0), axis=None) >= classes:
            raise ValueRangeError(f"margin loss: target {target.max()} is not a class; classes are 0 to {classes - 1}")
        columns = np.arange(classes)
        return ((target[..., None] == columns) & live[..., None]).sum(-2).astype(input.dtype)


def _margin_samples(rng: Any) -> list[tuple[Any, ...]]:
    x, t, w = rng.standard_normal((3, 4)), np.array([0, 2, 3]), rng.uniform(0.5, 1, 4)
    return [(x, t, 1, 1.0, None, {"reduction": r}) for r in REDUCTIONS] + [(x, t, 2, 0.5, w, "mean")]


def _violation(input: Any, target: Any, margin: float) -> tuple[Any, Any]:
    """Return by how much each other class comes too close to the target class, and the mask of targets."""
    column = ops.unsqueeze(target, 1)
    own = ops.class_mask(input, column) != 0
    z = input - ops.gather(input, 1, column) + margin
    return ops.where(own | (z <= 0), 0, z), own


@op
class multi_margin_loss(Fused):
    """Return, per example, the mean over classes of max(0, margin - input[target] + input[class]) to the power p."""

    inputs = ("input", "target", "weight")
    optional = ("weight",)
    promote = "given"
    function = method = False
    samples = _margin_samples

    def canon(input, p, margin, reduction):
        if p not in (1, 2):
            raise ValueRangeError(f"multi_margin_loss: p must be 1 or 2, got {p}")
        if input.ndim != 2:
            raise ShapeError(f"multi_margin_loss: input must be (N, C), got {input.shape}")
        return p, margin, reduction

    def formula(input, target, p=1, margin=1.0, weight=None, reduction="mean"):
        z, _ = _violation(input, target, margin)
        z = z if p == 1 else z * z
        if weight is not None:
            z = z * ops.unsqueeze(ops.index_select(weight, 0, target), 1)
        return reduced(ops.sum(z, 1) / input.shape[1], reduction)

    def vjp_input(g, input, target, p, margin, weight, reduction):
        n, classes = input.shape
        z, own = _violation(input, target, margin)
        slope = ops.where(z > 0, 1.0 / classes, 0.0 * z) if p == 1 else z * (2.0 / classes)
        if weight is not None:
            slope = slope * ops.unsqueeze(ops.index_select(weight, 0, target), 1)
        if reduction == "mean":
            g = g / n
        elif reduction == "none":
            g = ops.unsqueeze(g, 1)
        h = slope * g
        return ops.where(own, -ops.sum(h, 1, True), h)


def _label_samples(rng: Any) -> list[tuple[Any, ...]]:
    x, t = rng.standard_normal((2, 3)), np.array([[0, 2, -1], [1, -1, 0]])
    return [(x, t, {"reduction": r}) for r in REDUCTIONS] + [(x[0], t[0], "mean")]


def _pairs(input: Any, target: Any) -> tuple[Any, Any]:
    """Return 1 - input[t] + input[j] for every pair of classes (t, j), and how often the pair counts."""
    count = ops.class_mask(input, target)
    weight = ops.unsqueeze(count, -1) * ops.unsqueeze(ops.where(count == 0, 1.0, 0.0 * count), -2)
    return ops.unsqueeze(input, -2) - ops.unsqueeze(input, -1) + 1, weight


@op
class multilabel_margin_loss(Fused):
    """Return, per example, the hinge losses of its classes against all others, divided by the number of classes."""

    inputs = ("input", "target")
    promote = "given"
    function = method = False
    grad_fn = "MultilabelMarginLossBackward0"
    samples = _label_samples

    def canon(input, reduction):
        if input.ndim > 2:
            raise ShapeError(f"multilabel_margin_loss: input must be (C) or (N, C), got {input.shape}")
        return (reduction,)

    def infer(input, target, reduction="mean"):
        if target.dtype != np.int64:
            raise DtypeError(f"multilabel_margin_loss: target must be int64 class indices, got {target.dtype}")
        if input.shape != target.shape:
            raise ShapeError(
                f"multilabel_margin_loss: target must have the input's shape {input.shape}, got {target.shape}"
            )

    def formula(input, target, reduction="mean"):
        z, weight = _pairs(input, target)
        return reduced(ops.sum(ops.where(z <= 0, 0, z) * weight, (-2, -1)) / max(input.shape[-1], 1), reduction)

    def vjp_input(g, input, target, reduction):
        z, weight = _pairs(input, target)
        if reduction == "mean":
            g = g / (input.shape[0] if input.ndim > 1 else 1)
        elif reduction == "none":
            g = ops.unsqueeze(ops.unsqueeze(g, -1), -1)
        h = ops.where(z > 0, weight, 0) * (g / input.shape[-1])
        return ops.sum(h, -2) - ops.sum(h, -1)


__all__ = ["class_mask", "multi_margin_loss", "multilabel_margin_loss"]
