"""Pooling layers: one number for each window of the last one, two or three dimensions."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from . import functional as F
from .module import Module
from .sizes import _ntuple


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    _function: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """Return the largest element of each window, with `return_indices` also where it is."""
        return getattr(F, self._function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        """Return the geometry."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Take the largest element of each window of (N, C, L); the arguments are those of MaxPool2d."""

    _function = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """Take the largest element of each window of (N, C, H, W).

    Args:
        kernel_size: size of the window.
        stride: distance between windows, kernel_size if None.
        padding: minus infinities added at each side.
        dilation: distance between the elements of a window.
        return_indices: also return where the elements are, for MaxUnpool.
        ceil_mode: whether a window may start inside and end outside.
    """

    _function = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """Take the largest element of each window of (N, C, D, H, W); the arguments are those of MaxPool2d."""

    _function = "max_pool3d"


class _MaxUnpoolNd(Module):
    _dims: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        sized = _ntuple(self._dims)
        self.kernel_size = sized(kernel_size)
        self.stride = sized(kernel_size if stride is None else stride)
        self.padding = sized(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Put each element of `input` where `indices` says, zeros elsewhere."""
        unpool = getattr(F, f"max_unpool{self._dims}d")
        out: Tensor = unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)
        return out

    def extra_repr(self) -> str:
        """Return the geometry."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Undo MaxPool1d, with zeros where information was lost."""

    _dims = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """Undo MaxPool2d, with zeros where information was lost."""

    _dims = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """Undo MaxPool3d, with zeros where information was lost."""

    _dims = 3


class _AvgPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]

    def extra_repr(self) -> str:
        """Return the geometry."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """Take the mean of each window of (N, C, L); the arguments are those of AvgPool2d."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        sized = _ntuple(1)
        self.kernel_size = sized(kernel_size)
        self.stride = sized(kernel_size if stride is None else stride)
        self.padding = sized(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        out: Tensor = F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )
        return out


class _AvgPoolWithDivisor(_AvgPoolNd):
    _function: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        out: Tensor = getattr(F, self._function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )
        return out


class AvgPool2d(_AvgPoolWithDivisor):
    """Take the mean of each window of (N, C, H, W).

    Args:
        kernel_size: size of the window.
        stride: distance between windows, kernel_size if None.
        padding: zeros added at each side.
        ceil_mode: whether a window may start inside and end outside.
        count_include_pad: whether the zeros count in the mean.
        divisor_override: divide the sum by this number instead.
    """

    _function = "avg_pool2d"


class AvgPool3d(_AvgPoolWithDivisor):
    """Take the mean of each window of (N, C, D, H, W); the arguments are those of AvgPool2d."""

    _function = "avg_pool3d"


class _FractionalMaxPoolNd(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _dims: int

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        sized = _ntuple(self._dims)
        self.kernel_size = sized(kernel_size)
        if self._dims == 3 and any(k <= 0 for k in self.kernel_size):
            raise ValueError(f"{name}: kernel_size must be positive, got {kernel_size}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else sized(output_size)
        self.output_ratio = None if output_ratio is None else sized(output_ratio)
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{name}: give either output_size or output_ratio")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"{name}: output_ratio must lie between 0 and 1, got {output_ratio}")

    def forward(self, input: Tensor) -> Any:
        """Return the largest elements, with `return_indices` also where they are."""
        return getattr(F, f"fractional_max_pool{self._dims}d")(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Max pooling over windows at random places, so that any output size is possible (arXiv:1412.6071)."""

    _dims = 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Max pooling over windows at random places, so that any output size is possible (arXiv:1412.6071)."""

    _dims = 3


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    _function: str

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms."""
        pool = getattr(F, self._function)
        out: Tensor = pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)
        return out

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """Take the p-norm of each window of (N, C, L), p = norm_type."""

    _function = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    """Take the p-norm of each window of (N, C, H, W), p = norm_type."""

    _function = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    """Take the p-norm of each window of (N, C, D, H, W), p = norm_type."""

    _function = "lp_pool3d"


class _AdaptiveMaxPoolNd(Module):
    __constants__ = ["output_size", "return_indices"]
    _function: str

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """Return the largest elements, with `return_indices` also where they are."""
        return getattr(F, self._function)(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """Return the output size."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Max pooling of (N, C, L) with windows chosen for an output of the given size."""

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Max pooling of (N, C, H, W) with windows chosen for an output of the given size."""

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Max pooling of (N, C, D, H, W) with windows chosen for an output of the given size."""

    _function = "adaptive_max_pool3d"


class _AdaptiveAvgPoolNd(Module):
    __constants__ = ["output_size"]
    _function: str

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        out: Tensor = getattr(F, self._function)(input, self.output_size)
        return out

    def extra_repr(self) -> str:
        """Return the output size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Mean pooling of (N, C, L) with windows chosen for an output of the given size."""

    _function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Mean pooling of (N, C, H, W) with windows chosen for an output of the given size."""

    _function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Mean pooling of (N, C, D, H, W) with windows chosen for an output of the given size."""

    _function = "adaptive_avg_pool3d"
