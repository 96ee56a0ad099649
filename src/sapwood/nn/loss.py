"""Loss functions as modules. The formulas stand with the functions of the same names in `functional`."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

from ..tensor import Tensor
from . import functional as F
from .functional_linear_loss import linear_cross_entropy
from .linear import Linear
from .module import Module


def _reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return the reduction that the two old arguments stand for, or `reduction` if neither is given."""
    if size_average is None and reduce is None:
        return reduction
    mean = size_average is None or size_average
    found = "none" if reduce is False else "mean" if mean else "sum"
    warnings.warn(f"size_average and reduce are deprecated; write reduction={found!r}", stacklevel=4)
    return found


class _Loss(Module):
    __constants__ = ["reduction"]

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """|input - target|."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        out: Tensor = F.l1_loss(input, target, reduction=self.reduction)
        return out


class MSELoss(_Loss):
    """(input - target)²."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        out: Tensor = F.mse_loss(input, target, reduction=self.reduction)
        return out


class NLLLoss(_WeightedLoss):
    """Minus the log-probability of the target class; input (N, C, …), target (N, …) of class numbers."""

    __constants__ = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        out: Tensor = F.nll_loss(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )
        return out


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss for images."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn("NLLLoss2d is deprecated; NLLLoss does the same", FutureWarning, stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of logits (N, C, …) with class numbers (N, …) or class probabilities (N, C, …)."""

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        out: Tensor = F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )
        return out


class PoissonNLLLoss(_Loss):
    """exp(input) - target · input, or input - target · log(input + eps) without `log_input`."""

    __constants__ = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        out: Tensor = F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )
        return out


class GaussianNLLLoss(_Loss):
    """Minus the log-likelihood of the target under a normal distribution with mean `input` and variance `var`."""

    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        """Return the loss."""
        out: Tensor = F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)
        return out


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of the target from log-probabilities `input`."""

    __constants__ = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        out: Tensor = F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)
        return out


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities; their logarithms are cut off at -100."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        out: Tensor = F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)
        return out


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits, without overflow; `pos_weight` weighs the positive class."""

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        out: Tensor = F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )
        return out


class SmoothL1Loss(_Loss):
    """Quadratic below `beta`, linear above."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        out: Tensor = F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)
        return out


class HuberLoss(_Loss):
    """Quadratic below `delta`, linear above; `delta` times SmoothL1Loss."""

    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, int | float):
            raise TypeError(f"HuberLoss: delta must be a number, got {type(delta).__name__}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        out: Tensor = F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)
        return out


class CTCLoss(_Loss):
    """Minus the log-probability of a label sequence, summed over its alignments to the input (Graves et al., 2006).

    Args:
        blank: the class that stands for no label.
        reduction: "none", "mean" (over the batch, each divided by its target length) or "sum".
        zero_infinity: make infinite losses, of targets too long for their inputs, zero.
    """

    __constants__ = ["blank", "reduction"]

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        """Return the loss of log-probabilities (T, N, C)."""
        out: Tensor = F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
        return out


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How LinearCrossEntropyLoss may divide its work; the result does not depend on it.

    Args:
        allow_retain_graph: keep what a second backward pass needs.
        batch_chunk_size: rows computed at a time; None for all.
        chunking_method: how that number is chosen where it is not given.
        acc_policy: which intermediate values are kept in the wider dtype.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer to class logits and their cross entropy, in one module.

    Args:
        in_features: size of the last dimension of the input.
        num_classes: number of classes.
        out_features: further dimensions of the logits.
        bias: whether the linear layer has a bias.
        device: where the parameters live.
        dtype: their element type.
        reduction: "none", "mean" or "sum".
        weight: a factor for each class.
        ignore_index: targets that do not count.
        label_smoothing: how much of the target is spread over all classes, in [0, 1].
        options: how the work may be divided.
    """

    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"LinearCrossEntropyLoss: the weight must have shape ({num_classes},), got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"LinearCrossEntropyLoss: label_smoothing must lie in [0, 1], got {label_smoothing}")
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        width = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, width, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of inputs (*, in_features)."""
        linear: Any = self.linear
        shape = (self.num_classes, *self.out_features)
        out: Tensor = linear_cross_entropy(
            input,
            linear.weight.reshape((*shape, linear.in_features)),
            target,
            linear_bias=None if linear.bias is None else linear.bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )
        return out

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        )
