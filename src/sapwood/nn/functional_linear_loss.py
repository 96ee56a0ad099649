"""`linear_cross_entropy`: a linear layer to class logits and their cross entropy."""

from __future__ import annotations

import math
from typing import Any

from ..errors import ShapeError
from ..tensor import Tensor
from . import functional as F

_NAME = "linear_cross_entropy"


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Return cross_entropy(linear(input, linear_weight, linear_bias), target).

    Args:
        input: (N, in_features) or (in_features,).
        linear_weight: (classes, *, in_features).
        target: class numbers (N, *), or class probabilities (N, classes, *).
        linear_bias: (classes, *).
        weight: (classes,), a factor for each class.
        reduction: "none", "mean" or "sum".
        ignore_index: targets that do not count, -100 if None.
        label_smoothing: how much of the target is spread over all classes, in [0, 1].
        options: how the work may be divided; the result does not depend on it.

    Raises:
        ShapeError: the shapes do not fit together.
    """
    w: Any = linear_weight
    b: Any = linear_bias
    if input.dim() not in (1, 2):
        raise ShapeError(f"{_NAME}: the input must have 1 or 2 dimensions, got {input.dim()}")
    if w.dim() < 2:
        raise ShapeError(f"{_NAME}: linear_weight must have at least 2 dimensions, got {w.dim()}")
    features = input.shape[-1]
    if w.shape[-1] != features:
        raise ShapeError(f"{_NAME}: linear_weight has {w.shape[-1]} features in its last dimension, input {features}")
    rows = tuple(w.shape[:-1])
    if b is not None and tuple(b.shape) != rows:
        raise ShapeError(f"{_NAME}: linear_bias must have shape {rows}, got {tuple(b.shape)}")
    if len(rows) > 1 and input.dim() == 1:
        raise ShapeError(f"{_NAME}: with further dimensions in linear_weight the input must be (N, {features})")
    shape = (*input.shape[:-1], *rows)
    if ignore_index is not None and tuple(target.shape) == shape:
        raise RuntimeError(f"{_NAME}: a target of probabilities has no class number that ignore_index could name")
    if len(rows) > 1:
        w = w.reshape((math.prod(rows), features))
        b = None if b is None else b.reshape(-1)
    out: Tensor = F.cross_entropy(
        F.linear(input, w, b).reshape(shape),
        target,
        weight=weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
    return out
