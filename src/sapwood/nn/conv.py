"""Convolutions: `Conv1d`, `Conv2d`, `Conv3d`, their transposes, and the lazy forms of both."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..tensor import Parameter, Tensor
from . import functional as F
from . import init
from .lazy import LazyModuleMixin
from .module import Module
from .parameter import UninitializedParameter
from .sizes import _ntuple, _reverse_repeat_tuple

_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels", "out_channels",
        "kernel_size",
    ]  # fmt: skip
    weight: Tensor
    bias: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: Any,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check(type(self).__name__, in_channels, out_channels, kernel_size, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _both_sides(padding, kernel_size, dilation)
        ends = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(ops.empty((*ends, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values: U(-k, k) with k = 1 / sqrt(fan_in), the weight before the bias."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Return what differs from the defaults."""
        zeros, ones = (0,) * len(self.kernel_size), (1,) * len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != ones:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"


def _check(
    name: str, inputs: int, outputs: int, kernel: Any, stride: Any, padding: Any, groups: int, padding_mode: str
) -> None:
    if groups <= 0:
        raise ValueError(f"{name}: groups must be positive, got {groups}")
    for what, n in (("in_channels", inputs), ("out_channels", outputs)):
        if n % groups:
            raise ValueError(f"{name}: {what} must be a multiple of groups, got {n} and {groups}")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"{name}: padding must be a size, 'same' or 'valid', got {padding!r}")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError(f"{name}: padding='same' needs stride 1, got {stride}")
    if padding_mode not in _MODES:
        raise ValueError(f"{name}: padding_mode must be one of {', '.join(_MODES)}, got {padding_mode!r}")
    if any(isinstance(k, int) and k <= 0 for k in kernel):
        raise ValueError(f"{name}: kernel sizes must be positive, got {kernel}")


def _both_sides(padding: Any, kernel: tuple[int, ...], dilation: tuple[int, ...]) -> Any:
    """Return the padding of every side, last dimension first, as `pad` takes it."""
    if not isinstance(padding, str):
        return _reverse_repeat_tuple(padding, 2)
    sides = [0, 0] * len(kernel)
    if padding == "same":
        for i, (d, k) in enumerate(zip(reversed(dilation), reversed(kernel))):
            total = d * (k - 1)
            sides[2 * i] = total // 2
            sides[2 * i + 1] = total - total // 2
    return sides


class _Conv(_ConvNd):
    """What the three convolutions share; a subclass names its number of dimensions and its function."""

    _dims: int
    _function: str

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sized = _ntuple(self._dims)
        super().__init__(
            in_channels,
            out_channels,
            sized(kernel_size),
            sized(stride),
            padding if isinstance(padding, str) else sized(padding),
            sized(dilation),
            False,
            sized(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Any) -> Tensor:
        convolve = getattr(F, self._function)
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._dims
        out: Tensor = convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)
        return out

    def forward(self, input: Tensor) -> Tensor:
        """Convolve (N, C, …) or (C, …)."""
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    """What the three transposed convolutions share."""

    _dims: int
    _function: str

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f"{type(self).__name__}: only padding_mode='zeros' exists, got {padding_mode!r}")
        sized = _ntuple(self._dims)
        super().__init__(
            in_channels,
            out_channels,
            sized(kernel_size),
            sized(stride),
            sized(padding),
            sized(dilation),
            True,
            sized(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Tensor, output_size: Any) -> Any:
        """Return the output padding with which the output has the size that was asked for."""
        if output_size is None:
            return self.output_padding
        n = self._dims
        if len(output_size) == n + (input.dim() - n):
            output_size = output_size[-n:]
        if len(output_size) != n:
            raise ValueError(
                f"{type(self).__name__}: output_size must have {n} or {input.dim()} entries, got {len(output_size)}"
            )
        added = []
        for d in range(n):
            least = (
                (input.size(d + input.dim() - n) - 1) * self.stride[d]
                - 2 * self.padding[d]
                + self.dilation[d] * (self.kernel_size[d] - 1)
                + 1
            )
            most = least + self.stride[d] - 1
            if not least <= output_size[d] <= most:
                raise ValueError(
                    f"{type(self).__name__}: output size {output_size[d]} of dimension {d} is out of reach; for this "
                    f"input it can be {least} to {most}"
                )
            added.append(output_size[d] - least)
        return added

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Convolve (N, C, …) or (C, …); `output_size` chooses among the sizes that the stride leaves open."""
        padding = self._output_padding(input, output_size)
        convolve = getattr(F, self._function)
        out: Tensor = convolve(
            input, self.weight, self.bias, self.stride, self.padding, padding, self.groups, self.dilation
        )
        return out


class Conv1d(_Conv):
    """Convolve sequences (N, C, L) with a bank of filters; the arguments are those of Conv2d."""

    _dims = 1
    _function = "conv1d"


class Conv2d(_Conv):
    """Convolve images (N, C, H, W) with a bank of filters.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: int or one per dimension.
        stride: int or one per dimension.
        padding: int, one per dimension, 'valid' (none) or 'same' (output as large as the input).
        dilation: distance between the taps of the kernel.
        groups: into how many separate convolutions the channels are split.
        bias: whether a bias is added to each output channel.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.
        device: where the parameters live.
        dtype: their element type.
    """

    _dims = 2
    _function = "conv2d"


class Conv3d(_Conv):
    """Convolve volumes (N, C, D, H, W) with a bank of filters; the arguments are those of Conv2d."""

    _dims = 3
    _function = "conv3d"


class ConvTranspose1d(_ConvTransposeNd):
    """The gradient of Conv1d with respect to its input, as a layer; the arguments are those of ConvTranspose2d."""

    _dims = 1
    _function = "conv_transpose1d"


class ConvTranspose2d(_ConvTransposeNd):
    """The gradient of Conv2d with respect to its input, as a layer (also called deconvolution).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: int or one per dimension.
        stride: int or one per dimension.
        padding: by how much the output is cropped at each side.
        output_padding: added to one side of the output.
        groups: into how many separate convolutions the channels are split.
        bias: whether a bias is added to each output channel.
        dilation: distance between the taps of the kernel.
        padding_mode: 'zeros'.
        device: where the parameters live.
        dtype: their element type.
    """

    _dims = 2
    _function = "conv_transpose2d"


class ConvTranspose3d(_ConvTransposeNd):
    """The gradient of Conv3d with respect to its input, as a layer; the arguments are those of ConvTranspose2d."""

    _dims = 3
    _function = "conv_transpose3d"


class _LazyConv(LazyModuleMixin, _ConvNd):
    """What lazy convolutions share: `in_channels` comes from the first input."""

    _dims: int

    def _defer(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        """Put parameters without a shape in the places of those that were made without channels."""
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new values once the sizes are known."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take `in_channels` from the input and draw the parameters."""
        if not self.has_uninitialized_params():
            return
        if input.dim() not in (self._dims + 1, self._dims + 2):
            raise RuntimeError(
                f"{type(self).__name__}: an input of {self._dims + 1} or {self._dims + 2} dimensions is expected, got "
                f"{input.dim()}"
            )
        self.in_channels = input.shape[-self._dims - 1]
        if self.in_channels % self.groups:
            raise ValueError(
                f"{type(self).__name__}: in_channels must be a multiple of groups, got {self.in_channels} and "
                f"{self.groups}"
            )
        ends = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            ends = (self.in_channels, self.out_channels // self.groups)
        self.weight.materialize((*ends, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyForward(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            False,
            padding_mode,
        )
        self._defer(out_channels, bias, device, dtype)


class _LazyTranspose(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
        )
        self._defer(out_channels, bias, device, dtype)


class LazyConv1d(_LazyForward, Conv1d):
    """A Conv1d that learns `in_channels` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyForward, Conv2d):
    """A Conv2d that learns `in_channels` from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyForward, Conv3d):
    """A Conv3d that learns `in_channels` from its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTranspose, ConvTranspose1d):
    """A ConvTranspose1d that learns `in_channels` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTranspose, ConvTranspose2d):
    """A ConvTranspose2d that learns `in_channels` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTranspose, ConvTranspose3d):
    """A ConvTranspose3d that learns `in_channels` from its first input."""

    cls_to_become = ConvTranspose3d
