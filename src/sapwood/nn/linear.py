"""Linear layers, and layers that only reshape: `Linear`, `Bilinear`, `Identity`, `Flatten`, `Unflatten`."""

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


class Identity(Module):
    """Return the input; all arguments of the constructor are ignored."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """Return `input`."""
        return input


class Linear(Module):
    """Apply y = x Aᵀ + b to the last dimension.

    Args:
        in_features: size of the last dimension of the input.
        out_features: size of the last dimension of the output.
        bias: whether b is added.
        device: where the parameters live.
        dtype: their element type.

    Attributes:
        weight: (out_features, in_features), drawn from U(-k, k) with k = 1 / sqrt(in_features).
        bias: (out_features,), drawn from the same, after the weight.
    """

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: Tensor

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(ops.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        # With this slope the bound sqrt(6 / ((1 + a²) · fan_in)) is 1 / sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Map (*, in_features) to (*, out_features)."""
        out: Tensor = F.linear(input, self.weight, self.bias)
        return out

    def extra_repr(self) -> str:
        """Return the sizes and whether there is a bias."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of MultiheadAttention: a Linear under the name that its printed form shows."""


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that learns `in_features` from its first input."""

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new values once the sizes are known."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take `in_features` from the input and draw the parameters."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        if self.in_features == 0:
            self.in_features = self.weight.shape[-1]


class Bilinear(Module):
    """Apply y = x1ᵀ A x2 + b.

    Args:
        in1_features: size of the last dimension of the first input.
        in2_features: size of the last dimension of the second input.
        out_features: size of the last dimension of the output.
        bias: whether b is added.
        device: where the parameters live.
        dtype: their element type.
    """

    __constants__ = ["in1_features", "in2_features", "out_features"]

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be positive, got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(ops.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Map (*, in1_features) and (*, in2_features) to (*, out_features)."""
        out: Tensor = F.bilinear(input1, input2, self.weight, self.bias)
        return out

    def extra_repr(self) -> str:
        """Return the sizes and whether there is a bias."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Flatten(Module):
    """Flatten the dimensions from `start_dim` to `end_dim` into one."""

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Any:
        """Return the flattened input."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the two dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split dimension `dim` into several.

    Args:
        dim: the dimension.
        unflattened_size: tuple, list or Size of the new sizes.

    Raises:
        TypeError: a size is not an int, or the sizes are not a tuple or list.
    """

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: Any, unflattened_size: Any) -> None:
        super().__init__()
        if isinstance(dim, str):
            raise TypeError("Unflatten: dimensions have no names; give the dimension as an int")
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim must be an int, got {type(dim).__name__}")
        if not isinstance(unflattened_size, tuple | list):
            raise TypeError(
                f"Unflatten: unflattened_size must be a tuple of ints, got {type(unflattened_size).__name__}"
            )
        for i, n in enumerate(unflattened_size):
            if not isinstance(n, int):
                raise TypeError(f"Unflatten: unflattened_size must hold ints, got {type(n).__name__} at {i}")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Any) -> Any:
        """Return the input with dimension `dim` split."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Return the dimension and its new sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
