"""Normalisation over the features of each sample: `LayerNorm`, `GroupNorm`, `RMSNorm`, `LocalResponseNorm`."""

from __future__ import annotations

import numbers
from typing import Any

from .. import ops
from ..tensor import Parameter, Tensor
from . import functional as F
from . import init
from .module import Module


class LayerNorm(Module):
    """Normalise the last dimensions to mean 0 and variance 1, then scale and shift (arXiv:1607.06450).

    Args:
        normalized_shape: sizes of those dimensions.
        eps: added to the variance.
        elementwise_affine: whether there are learned factors.
        bias: whether there are learned shifts too.
        device: where the parameters live.
        dtype: their element type.
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        _register_affine(self, self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set factors to 1 and shifts to 0."""
        _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        out: Tensor = F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
        return out

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalise groups of channels of (N, C, …) to mean 0 and variance 1, then scale and shift (arXiv:1803.08494).

    Args:
        num_groups: into how many groups the channels are split.
        num_channels: channels of the input.
        eps: added to the variance.
        affine: whether there are learned factors, one per channel.
        device: where the parameters live.
        dtype: their element type.
        bias: whether there are learned shifts too.

    Raises:
        ValueError: num_channels is not a multiple of num_groups.
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: {num_channels} channels cannot be split into {num_groups} groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        _register_affine(self, (num_channels,), affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set factors to 1 and shifts to 0."""
        _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised input."""
        out: Tensor = F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)
        return out

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide by the root mean square of the last dimensions, then scale (arXiv:1910.07467).

    Args:
        normalized_shape: sizes of those dimensions.
        eps: added to the mean square; the dtype's epsilon if None.
        elementwise_affine: whether there are learned factors.
        device: where the parameters live.
        dtype: their element type.
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(ops.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set factors to 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised input."""
        out: Tensor = F.rms_norm(x, self.normalized_shape, self.weight, self.eps)
        return out

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class _AcrossChannels(Module):
    def __init__(self, size: int, alpha: float, beta: float, k: float) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(_AcrossChannels):
    """Divide by (k + alpha · mean of squares over `size` neighbouring channels)^beta."""

    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised (N, C, …)."""
        out: Tensor = F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)
        return out


class CrossMapLRN2d(_AcrossChannels):
    """LocalResponseNorm of images (N, C, H, W); for an even `size` the windows reach one channel further back."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised (N, C, H, W)."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: an input of 4 dimensions is expected, got {input.dim()}")
        before = (self.size - 1) // 2 + 1
        padded: Any = F.pad(input * input, (0, 0, 0, 0, before - 1, before - 1))
        channels = input.size(1)
        total = sum(padded[:, i : i + channels] for i in range(2 * before - 1))
        out: Tensor = input * (total * (self.alpha / self.size) + self.k) ** -self.beta
        return out


def _shape(given: Any) -> tuple[int, ...]:
    return (given,) if isinstance(given, numbers.Integral) else tuple(given)  # type: ignore[return-value]


def _register_affine(module: Any, shape: tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any) -> None:
    """Register `weight` and `bias`, or None in their places."""
    for name, wanted in (("weight", weight), ("bias", bias)):
        made = Parameter(ops.empty(shape, device=device, dtype=dtype)) if wanted else None
        module.register_parameter(name, made)


def _reset_affine(module: Any) -> None:
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)
