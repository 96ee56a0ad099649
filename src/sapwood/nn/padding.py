"""Padding layers. Sizes are given for every side, the last dimension first: (left, right, top, bottom, …)."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from . import functional as F
from .module import Module
from .sizes import _ntuple


class _Pad(Module):
    """What the padding layers share; a subclass names its number of dimensions and its mode."""

    __constants__ = ["padding"]
    _dims: int
    _mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        out: Tensor = F.pad(input, self.padding, self._mode)
        return out

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.padding}"


class _ConstantPadNd(Module):
    __constants__ = ["padding", "value"]
    _dims: int

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        out: Tensor = F.pad(input, self.padding, "constant", self.value)
        return out

    def extra_repr(self) -> str:
        """Return the sizes and the value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pad the last dimension with a value."""

    _dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Pad the last two dimensions with a value."""

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pad the last three dimensions with a value."""

    _dims = 3


class ZeroPad1d(ConstantPad1d):
    """Pad the last dimension with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Pad the last two dimensions with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Pad the last three dimensions with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.padding}"


class ReflectionPad1d(_Pad):
    """Pad the last dimension by reflecting the input at its border, which is not repeated."""

    _dims = 1
    _mode = "reflect"


class ReflectionPad2d(_Pad):
    """Pad the last two dimensions by reflecting the input at its border, which is not repeated."""

    _dims = 2
    _mode = "reflect"


class ReflectionPad3d(_Pad):
    """Pad the last three dimensions by reflecting the input at its border, which is not repeated."""

    _dims = 3
    _mode = "reflect"


class ReplicationPad1d(_Pad):
    """Pad the last dimension by repeating the value at the border."""

    _dims = 1
    _mode = "replicate"


class ReplicationPad2d(_Pad):
    """Pad the last two dimensions by repeating the value at the border."""

    _dims = 2
    _mode = "replicate"


class ReplicationPad3d(_Pad):
    """Pad the last three dimensions by repeating the value at the border."""

    _dims = 3
    _mode = "replicate"


class CircularPad1d(_Pad):
    """Pad the last dimension with values from the opposite side."""

    _dims = 1
    _mode = "circular"


class CircularPad2d(_Pad):
    """Pad the last two dimensions with values from the opposite side."""

    _dims = 2
    _mode = "circular"


class CircularPad3d(_Pad):
    """Pad the last three dimensions with values from the opposite side."""

    _dims = 3
    _mode = "circular"
