"""Dropout: zero random elements or channels in training, do nothing in evaluation."""

from __future__ import annotations

from ..tensor import Tensor
from . import functional as F
from .module import Module


class _DropoutNd(Module):
    __constants__ = ["p", "inplace"]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"{type(self).__name__}: the probability p must lie in [0, 1], got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the probability and whether it works in place."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zero each element with probability p, and divide the others by 1 - p (arXiv:1207.0580)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the thinned input."""
        out: Tensor = F.dropout(input, self.p, self.training, self.inplace)
        return out


class Dropout1d(_DropoutNd):
    """Zero whole channels of (N, C, L) or (C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the thinned input."""
        out: Tensor = F.dropout1d(input, self.p, self.training, self.inplace)
        return out


class Dropout2d(_DropoutNd):
    """Zero whole channels of (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the thinned input."""
        out: Tensor = F.dropout2d(input, self.p, self.training, self.inplace)
        return out


class Dropout3d(_DropoutNd):
    """Zero whole channels of (N, C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the thinned input."""
        out: Tensor = F.dropout3d(input, self.p, self.training, self.inplace)
        return out


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1, for networks of SELUs (arXiv:1706.02515)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the thinned input."""
        out: Tensor = F.alpha_dropout(input, self.p, self.training)
        return out


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the thinned input."""
        out: Tensor = F.feature_alpha_dropout(input, self.p, self.training)
        return out
