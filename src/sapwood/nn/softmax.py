"""Softmax layers: probabilities, or their logarithms, along one dimension."""

from __future__ import annotations

from ..tensor import Tensor
from . import functional as F
from .activation import _Activation


class Softmin(_Activation):
    """exp(-x) divided by its sum along `dim`."""

    __constants__ = ["dim"]
    _shown = ("dim",)
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation along one dimension."""
        out: Tensor = F.softmin(input, self.dim)
        return out


class Softmax(_Activation):
    """exp(x) divided by its sum along `dim`."""

    __constants__ = ["dim"]
    _shown = ("dim",)
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation along one dimension."""
        out: Tensor = F.softmax(input, self.dim)
        return out


class Softmax2d(_Activation):
    """Softmax over the channels of each pixel of (N, C, H, W) or (C, H, W).

    Raises:
        ValueError: the input has other than 3 or 4 dimensions.
    """

    def __init__(self) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return the softmax along dimension -3."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: an input of 3 or 4 dimensions is expected, got {input.dim()}")
        out: Tensor = F.softmax(input, -3)
        return out


class LogSoftmax(_Activation):
    """log(softmax(x)) along `dim`."""

    __constants__ = ["dim"]
    _shown = ("dim",)
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation along one dimension."""
        out: Tensor = F.log_softmax(input, self.dim)
        return out
