"""Activations: layers that apply one function to each element, or along one dimension."""

from __future__ import annotations

import warnings
from typing import Any

from .. import ops
from ..tensor import Parameter, Tensor
from . import functional as F
from . import init
from .module import Module


class _Activation(Module):
    """Keeps its arguments as attributes, and prints those named in `_shown`, and `inplace` where it is set."""

    _shown: tuple[str, ...] = ()
    _shows_inplace = True

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        for name, value in settings.items():
            setattr(self, name, value)

    def extra_repr(self) -> str:
        """Return the settings."""
        parts = [f"{name}={getattr(self, name)}" for name in self._shown]
        if self._shows_inplace and getattr(self, "inplace", False):
            parts.append("inplace=True")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "dim" in type(self).__dict__.get("__constants__", ()):
            self.__dict__.setdefault("dim", None)


class Threshold(_Activation):
    """Keep x where it exceeds `threshold`, put `value` elsewhere."""

    __constants__ = ["threshold", "value", "inplace"]
    _shown = ("threshold", "value")
    threshold: float
    value: float
    inplace: bool

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(threshold=threshold, value=value, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.threshold(input, self.threshold, self.value, self.inplace)
        return out


class ReLU(_Activation):
    """max(0, x)."""

    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.relu(input, self.inplace)
        return out


class RReLU(_Activation):
    """Leaky ReLU whose negative slope is drawn from U(lower, upper) in training, and is their mean in evaluation."""

    __constants__ = ["lower", "upper", "inplace"]
    _shown = ("lower", "upper")
    lower: float
    upper: float
    inplace: bool

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.rrelu(input, self.lower, self.upper, self.training, self.inplace)
        return out


class Hardtanh(_Activation):
    """Cut x off at `min_val` and `max_val`.

    Raises:
        AssertionError: `max_val` is not larger than `min_val`.
    """

    __constants__ = ["min_val", "max_val", "inplace"]
    _shown: tuple[str, ...] = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        if min_value is not None:
            warnings.warn("Hardtanh: min_value is now called min_val", FutureWarning, stacklevel=2)
            min_val = min_value
        if max_value is not None:
            warnings.warn("Hardtanh: max_value is now called max_val", FutureWarning, stacklevel=2)
            max_val = max_value
        if max_val <= min_val:
            raise AssertionError(f"Hardtanh: max_val must exceed min_val, got {max_val} and {min_val}")
        super().__init__(min_val=min_val, max_val=max_val, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.hardtanh(input, self.min_val, self.max_val, self.inplace)
        return out


class ReLU6(Hardtanh):
    """min(max(0, x), 6)."""

    _shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x))."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self, *args, **kwargs)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = ops.sigmoid(input)
        return out


class Hardsigmoid(_Activation):
    """0 below -3, 1 above 3, x / 6 + 1/2 between."""

    __constants__ = ["inplace"]
    _shows_inplace = False
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.hardsigmoid(input, self.inplace)
        return out


class Tanh(_Activation):
    """The hyperbolic tangent."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self, *args, **kwargs)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = ops.tanh(input)
        return out


class SiLU(_Activation):
    """x · sigmoid(x), also called swish."""

    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.silu(input, self.inplace)
        return out


class Mish(_Activation):
    """x · tanh(softplus(x))."""

    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.mish(input, self.inplace)
        return out


class Hardswish(_Activation):
    """x · hardsigmoid(x)."""

    __constants__ = ["inplace"]
    _shows_inplace = False
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.hardswish(input, self.inplace)
        return out


class ELU(_Activation):
    """x where positive, alpha · (exp(x) - 1) elsewhere."""

    __constants__ = ["alpha", "inplace"]
    _shown = ("alpha",)
    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.elu(input, self.alpha, self.inplace)
        return out


class CELU(_Activation):
    """max(0, x) + min(0, alpha · (exp(x / alpha) - 1))."""

    __constants__ = ["alpha", "inplace"]
    _shown = ("alpha",)
    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.celu(input, self.alpha, self.inplace)
        return out


class SELU(_Activation):
    """ELU scaled so that activations keep mean 0 and variance 1 (arXiv:1706.02515)."""

    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.selu(input, self.inplace)
        return out


class GLU(_Activation):
    """a · sigmoid(b), where a and b are the halves of the input along `dim`."""

    __constants__ = ["dim"]
    _shown = ("dim",)
    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation along one dimension."""
        out: Tensor = F.glu(input, self.dim)
        return out


class GELU(_Activation):
    """x · Φ(x), Φ the distribution function of the normal distribution (arXiv:1606.08415).

    Args:
        approximate: "none", or "tanh" for 0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³))).
    """

    __constants__ = ["approximate"]
    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(approximate=approximate)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.gelu(input, approximate=self.approximate)
        return out

    def extra_repr(self) -> str:
        """Return the kind of approximation."""
        return f"approximate={self.approximate!r}"


class Hardshrink(_Activation):
    """x where |x| exceeds `lambd`, 0 elsewhere."""

    __constants__ = ["lambd"]
    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd=lambd)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.hardshrink(input, self.lambd)
        return out

    def extra_repr(self) -> str:
        """Return the threshold."""
        return f"{self.lambd}"


class LeakyReLU(_Activation):
    """x where positive, negative_slope · x elsewhere."""

    __constants__ = ["inplace", "negative_slope"]
    _shown = ("negative_slope",)
    negative_slope: float
    inplace: bool

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(negative_slope=negative_slope, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.leaky_relu(input, self.negative_slope, self.inplace)
        return out


class LogSigmoid(_Activation):
    """log(sigmoid(x)), without overflow."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self, *args, **kwargs)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.logsigmoid(input)
        return out


class Softplus(_Activation):
    """log(1 + exp(beta · x)) / beta; x itself where beta · x exceeds `threshold`."""

    __constants__ = ["beta", "threshold"]
    _shown = ("beta", "threshold")
    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(beta=beta, threshold=threshold)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.softplus(input, self.beta, self.threshold)
        return out


class Softshrink(_Activation):
    """Move x towards 0 by `lambd`, and to 0 where |x| is smaller."""

    __constants__ = ["lambd"]
    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd=lambd)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.softshrink(input, self.lambd)
        return out

    def extra_repr(self) -> str:
        """Return the threshold."""
        return f"{self.lambd}"


class PReLU(Module):
    """x where positive, weight · x elsewhere, with a learned weight.

    Args:
        num_parameters: 1, or the number of channels (dimension 1 of the input).
        init: first value of the weight.
        device: where the parameter lives.
        dtype: its element type.
    """

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(ops.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to its first value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.prelu(input, self.weight)
        return out

    def extra_repr(self) -> str:
        """Return the number of weights."""
        return f"num_parameters={self.num_parameters}"


class Softsign(_Activation):
    """x / (1 + |x|)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self, *args, **kwargs)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.softsign(input)
        return out


class Tanhshrink(_Activation):
    """x - tanh(x)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self, *args, **kwargs)

    def forward(self, input: Tensor) -> Tensor:
        """Return the activation of each element."""
        out: Tensor = F.tanhshrink(input)
        return out
