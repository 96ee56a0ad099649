"""Windows for signals: `hann_window`, `hamming_window`, `blackman_window`, `bartlett_window`, `kaiser_window`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import DtypeError, ValueRangeError
from ..tensor import Tensor
from .declare import composite
from .values import Array, check_place, element_type, integer, leaf


def _window(
    op: str, length: Any, periodic: bool, dtype: Any, device: Any, layout: Any, grad: bool, make: Any
) -> Tensor:
    """Return `make(i, n)`, i = 0 … n - 1, without its last value if `periodic`; lengths 0 and 1 are the same for all.

    Raises:
        ValueRangeError: a negative length.
        DtypeError: `dtype` is not a floating-point type.
    """
    check_place(op, device, layout)
    made = element_type(op, dtype, dtypes.get_default_dtype())
    n = integer(op, "window_length", length)
    if n < 0:
        raise ValueRangeError(f"{op}: window_length must not be negative, got {n}")
    if not made.is_floating_point:
        raise DtypeError(f"{op}: a floating-point dtype is expected, got {made.name}")
    if n < 2:
        return leaf(np.ones(n, made.numpy), grad)
    kind = np.float64 if made is dtypes.float64 else np.float32
    full = make(np.arange(n + bool(periodic), dtype=kind), n + bool(periodic))
    return leaf(full[:n].astype(made.numpy, copy=True), grad)


def _cosines(i: Array, n: int, alpha: float, beta: float) -> Array:
    # In the order of PyTorch's in-place passes, each of which rounds.
    return np.cos(i * i.dtype.type(2 * math.pi / (n - 1))) * i.dtype.type(-beta) + i.dtype.type(alpha)


@composite
def hann_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return 0.5 - 0.5·cos(2πi / (n - 1)); a periodic window leaves out the last of one element more."""
    make = lambda i, n: _cosines(i, n, 0.5, 0.5)
    return _window("hann_window", window_length, periodic, dtype, device, layout, requires_grad, make)


@composite
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return alpha - beta·cos(2πi / (n - 1)); a periodic window leaves out the last of one element more."""
    make = lambda i, n: _cosines(i, n, alpha, beta)
    return _window("hamming_window", window_length, periodic, dtype, device, layout, requires_grad, make)


@composite
def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return 0.42 - 0.5·cos(2πi / (n - 1)) + 0.08·cos(4πi / (n - 1))."""
    return _window("blackman_window", window_length, periodic, dtype, device, layout, requires_grad, _blackman)


def _blackman(i: Array, n: int) -> Array:
    x = i * i.dtype.type(math.pi / (n - 1))
    four, two, shift = (i.dtype.type(c) for c in (0.08, 0.5, 0.42))
    return np.cos(x * 4) * four - np.cos(x * 2) * two + shift


@composite
def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return the triangle 1 - |2i / (n - 1) - 1|."""
    return _window("bartlett_window", window_length, periodic, dtype, device, layout, requires_grad, _bartlett)


def _bartlett(i: Array, n: int) -> Array:
    rising = i * i.dtype.type(2.0 / (n - 1))
    first_half = ((n - 1) >> 1) + 1
    rising[first_half:] = rising[first_half:] * -1 + 2
    return rising


@composite
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return I0(beta·sqrt(1 - (2i / (n - 1) - 1)²)) / I0(beta), I0 the modified Bessel function of order 0."""
    make: Callable[[Array, int], Array] = lambda i, n: _kaiser(i, n, float(beta))
    return _window("kaiser_window", window_length, periodic, dtype, device, layout, requires_grad, make)


def _kaiser(i: Array, n: int, beta: float) -> Array:
    alpha = (n - 1) / 2.0
    x = np.i0(beta * np.sqrt(np.maximum(1 - ((i.astype(np.float64) - alpha) / alpha) ** 2, 0))) / np.i0(beta)
    return x.astype(i.dtype)
