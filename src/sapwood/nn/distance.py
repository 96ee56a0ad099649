"""Distances between vectors."""

from __future__ import annotations

from ..tensor import Tensor
from . import functional as F
from .module import Module


class PairwiseDistance(Module):
    """Return the p-norm of x1 - x2 + eps along the last dimension.

    Args:
        p: order of the norm.
        eps: added to each difference, against a division by zero in the gradient.
        keepdim: keep the last dimension with size 1.
    """

    __constants__ = ["norm", "eps", "keepdim"]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Map two (N, D) or (D,) tensors to (N,) or ()."""
        out: Tensor = F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
        return out


class CosineSimilarity(Module):
    """Return the cosine of the angle between x1 and x2 along `dim`.

    Args:
        dim: dimension along which the vectors lie.
        eps: smallest norm that is divided by.
    """

    __constants__ = ["dim", "eps"]

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the similarity, without dimension `dim`."""
        out: Tensor = F.cosine_similarity(x1, x2, self.dim, self.eps)
        return out
