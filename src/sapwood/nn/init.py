"""Filling parameters with their first values, from the same random streams and in the same order as PyTorch."""

from __future__ import annotations

import math
import warnings
from typing import Any

from .. import ops
from ..autograd.mode import no_grad
from ..errors import ValueRangeError

_LINEAR = {"linear", "sigmoid"} | {f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor by which a nonlinearity asks for larger weights, to keep the variance of its output.

    Args:
        nonlinearity: "linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu" or the name of a convolution.
        param: the negative slope of "leaky_relu", 0.01 if None.

    Raises:
        ValueError: unknown name, or `param` is not a number.
    """
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, bool) or not isinstance(param, int | float):
            raise ValueRangeError(f"calculate_gain: the negative slope must be a number, got {param!r}")
        else:
            slope = param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueRangeError(f"calculate_gain: unknown nonlinearity {nonlinearity!r}")


def _calculate_fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    """Return how many values each output depends on, and each input reaches."""
    if tensor.dim() < 2:
        raise ValueRangeError(f"init: fans need a tensor of 2 or more dimensions, got {tensor.dim()}")
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueRangeError(f"init: the mode must be 'fan_in' or 'fan_out', got {mode!r}")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


@no_grad()
def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Fill with draws from the uniform distribution on [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Fill with draws from the normal distribution."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Any:
    """Fill with draws from the normal distribution restricted to [a, b], by rejection.

    Where most of the distribution lies inside, the draws outside are drawn again; else candidates are uniform on
    [a, b] and accepted with a probability proportional to the density.
    """

    def below(x: float) -> float:
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "trunc_normal_: the mean lies more than 2 standard deviations outside [a, b]; the draws may not follow the "
            "distribution",
            stacklevel=2,
        )
    # The share that PyTorch decides by; every draw below comes in its order, for the whole tensor at once.
    if below(b) - below(a) > 0.3:
        _redraw_outside(tensor, mean, std, a, b, generator)
    else:
        _accept_uniform(tensor, mean, std, a, b, generator)
    return tensor


def _redraw_outside(tensor: Any, mean: float, std: float, a: float, b: float, generator: Any) -> None:
    tensor.normal_(mean, std, generator=generator)
    # The bounds as the tensor's dtype rounds them.
    low, high = (ops.tensor(x, dtype=tensor.dtype).item() for x in (a, b))
    while True:
        outside = (tensor < low) | (tensor > high)
        if not bool(outside.any()):
            return
        again = ops.empty_like(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(ops.where(outside, again, tensor))


def _accept_uniform(tensor: Any, mean: float, std: float, a: float, b: float, generator: Any) -> None:
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    pending = None
    candidates = ops.empty_like(tensor)
    chance = ops.empty_like(tensor)
    while True:
        candidates.uniform_(a, b, generator=generator)
        tensor.copy_(candidates if pending is None else ops.where(pending, candidates, tensor))
        candidates.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        refused = chance.uniform_(generator=generator).log_() > candidates
        pending = refused if pending is None else pending & refused
        if not bool(pending.any()):
            return


@no_grad()
def constant_(tensor: Any, val: float) -> Any:
    """Fill with one value."""
    return tensor.fill_(val)


@no_grad()
def ones_(tensor: Any) -> Any:
    """Fill with ones."""
    return tensor.fill_(1.0)


@no_grad()
def zeros_(tensor: Any) -> Any:
    """Fill with zeros."""
    return tensor.zero_()


@no_grad()
def eye_(tensor: Any) -> Any:
    """Fill a matrix with the identity.

    Raises:
        ValueError: the tensor does not have 2 dimensions.
    """
    if tensor.dim() != 2:
        raise ValueRangeError(f"eye_: a tensor of 2 dimensions is expected, got {tensor.dim()}")
    tensor.zero_()
    tensor.diagonal().fill_(1)
    return tensor


@no_grad()
def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Fill the weight of a convolution so that it passes its input channels on unchanged.

    Raises:
        ValueError: not 3, 4 or 5 dimensions, or the output channels are not a multiple of `groups`.
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueRangeError(f"dirac_: a tensor of 3, 4 or 5 dimensions is expected, got {tensor.dim()}")
    sizes = tensor.shape
    if sizes[0] % groups:
        raise ValueRangeError(f"dirac_: {sizes[0]} output channels cannot be split into {groups} groups")
    per_group = sizes[0] // groups
    centre = tuple(n // 2 for n in sizes[2:])
    tensor.zero_()
    for group in range(groups):
        for d in range(min(per_group, sizes[1])):
            tensor[(group * per_group + d, d, *centre)] = 1
    return tensor


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Fill with U(-a, a), a = gain · sqrt(6 / (fan_in + fan_out)).

    Reference: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    a = math.sqrt(3.0) * std
    return uniform_(tensor, -a, a, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Fill with N(0, std²), std = gain · sqrt(2 / (fan_in + fan_out))."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    return normal_(tensor, 0.0, std, generator)


def kaiming_uniform_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Any:
    """Fill with U(-bound, bound), bound = gain · sqrt(3 / fan).

    Args:
        tensor: what to fill.
        a: the negative slope of the leaky ReLU after this layer.
        mode: "fan_in" keeps the variance in the forward pass, "fan_out" in the backward pass.
        nonlinearity: what follows the layer, see `calculate_gain`.
        generator: source of the draws.

    Reference: He et al., arXiv:1502.01852.
    """
    if 0 in tensor.shape:
        warnings.warn("kaiming_uniform_: the tensor has no elements, nothing to fill", stacklevel=2)
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    bound = math.sqrt(3.0) * std
    with no_grad():
        return tensor.uniform_(-bound, bound, generator=generator)


def kaiming_normal_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Any:
    """Fill with N(0, std²), std = gain / sqrt(fan). The arguments are those of `kaiming_uniform_`."""
    if 0 in tensor.shape:
        warnings.warn("kaiming_normal_: the tensor has no elements, nothing to fill", stacklevel=2)
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    with no_grad():
        return tensor.normal_(0, std, generator=generator)


def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """Fill with a (semi-)orthogonal matrix; trailing dimensions are flattened.

    Raises:
        ValueError: fewer than 2 dimensions.

    Reference: Saxe et al., arXiv:1312.6120.
    """
    if tensor.dim() < 2:
        raise ValueRangeError(f"orthogonal_: a tensor of 2 or more dimensions is expected, got {tensor.dim()}")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    cols = tensor.numel() // rows
    with no_grad():
        flat = ops.empty((rows, cols), dtype=tensor.dtype).normal_(0, 1, generator=generator)
        if rows < cols:
            flat = flat.t()
        q, r = ops.linalg_qr(flat)
        # The decomposition is unique, and the matrix uniformly distributed, only with a positive diagonal.
        q *= ops.diag(r, 0).sign()
        if rows < cols:
            q = q.t()
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


@no_grad()
def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Fill a matrix with N(0, std²), and set a fraction `sparsity` of each column to zero.

    Raises:
        ValueError: the tensor does not have 2 dimensions.
    """
    if tensor.dim() != 2:
        raise ValueRangeError(f"sparse_: a tensor of 2 dimensions is expected, got {tensor.dim()}")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for col in range(cols):
        tensor[ops.randperm(rows)[:zeros], col] = 0
    return tensor


def _deprecated(function: Any) -> Any:
    name = function.__name__[:-1]

    def old(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(f"nn.init.{name} is deprecated; use nn.init.{name}_", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    old.__name__ = name
    old.__doc__ = f"Do the same as `{name}_`, which is the name to use."
    return old


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
