"""Dropout: elements or whole channels set to zero at random, the rest scaled so that expectations stay.

The noise is PyTorch's: the same seed drops the same elements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import ShapeError, ValueRangeError
from ..random.arrays import bernoulli_, dropout_noise_
from ..tensor import Tensor, wrap
from . import slow
from .declare import composite

_SELU_FLOOR = 1.7580993408473766
"""Minus what selu tends to for large negative inputs, alpha · scale: alpha dropout drops to it."""


def _check(name: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueRangeError(f"{name}: p is a probability and must lie in [0, 1], got {p}")


def _noise_like(name: str, input: Tensor, features: bool) -> Any:
    """Return an unfilled array for the noise: the input's memory layout, or one element per channel."""
    if not features:
        return np.empty_like(input._array, subok=False)
    shape = input._array.shape
    if len(shape) < 2:
        raise ShapeError(f"{name}: input must have a batch and a channel dimension, got shape {shape}")
    return np.empty(shape[:2] + (1,) * (len(shape) - 2), input._array.dtype)


def _dropped(name: str, input: Any, p: float, train: bool, features: bool, inplace: bool) -> Any:
    _check(name, p)
    if p == 0 or not train or not input.numel():
        return input
    if p == 1:
        noise = np.zeros((), input._array.dtype)
    else:
        blank = _noise_like(name, input, features)
        if slow.watched(input):
            from .drawing import drawn, order_of

            drawn_noise = drawn("dropout_noise", (input,), p, features, order_of(blank))
            return input.mul_(drawn_noise) if inplace else input * drawn_noise
        noise = dropout_noise_(blank, p)
    return input.mul_(wrap(noise)) if inplace else input * wrap(noise)


def _alpha_dropped(name: str, input: Any, p: float, train: bool, features: bool, inplace: bool) -> Any:
    _check(name, p)
    if p == 0 or not train or not input.numel():
        return input
    if p == 1:
        zero = wrap(np.zeros((), input._array.dtype))
        return input.mul_(zero) if inplace else input * zero
    blank = _noise_like(name, input, features)
    if slow.watched(input):
        from .drawing import drawn, order_of

        factor, added = drawn("alpha_dropout_noise", (input,), p, features, order_of(blank), _SELU_FLOOR)
        return input.mul_(factor).add_(added) if inplace else input * factor + added
    noise = bernoulli_(blank, 1 - p)
    scale = 1 / math.sqrt((_SELU_FLOOR * _SELU_FLOOR * p + 1) * (1 - p))
    shift = np.asarray((noise - 1) * (_SELU_FLOOR * scale) + _SELU_FLOOR * scale * p, noise.dtype)
    noise *= scale
    if inplace:
        return input.mul_(wrap(noise)).add_(wrap(shift))
    return input * wrap(noise) + wrap(shift)


@composite
def dropout(input: Any, p: float, train: bool) -> Any:
    """Set elements to zero with probability p and scale the others by 1 / (1 - p); only in training.

    Reference: Srivastava et al., Dropout, JMLR 15, 2014.
    """
    return _dropped("dropout", input, p, train, False, False)


@composite(name="dropout_")
def dropout_(input: Any, p: float, train: bool) -> Any:
    """Apply dropout in place."""
    return _dropped("dropout_", input, p, train, False, True)


@composite
def feature_dropout(input: Any, p: float, train: bool) -> Any:
    """Set whole channels to zero with probability p and scale the others by 1 / (1 - p); only in training.

    Reference: Tompson et al., arXiv:1411.4280.
    """
    return _dropped("feature_dropout", input, p, train, True, False)


@composite(name="feature_dropout_")
def feature_dropout_(input: Any, p: float, train: bool) -> Any:
    """Apply feature dropout in place."""
    return _dropped("feature_dropout_", input, p, train, True, True)


@composite
def alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """Drop elements to selu's floor, then scale and shift so that mean and variance stay; only in training.

    Reference: Klambauer et al., arXiv:1706.02515.
    """
    return _alpha_dropped("alpha_dropout", input, p, train, False, False)


@composite(name="alpha_dropout_")
def alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """Apply alpha dropout in place."""
    return _alpha_dropped("alpha_dropout_", input, p, train, False, True)


@composite
def feature_alpha_dropout(input: Any, p: float, train: bool) -> Any:
    """Drop whole channels to selu's floor, then scale and shift so that mean and variance stay; only in training."""
    return _alpha_dropped("feature_alpha_dropout", input, p, train, True, False)


@composite(name="feature_alpha_dropout_")
def feature_alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """Apply feature alpha dropout in place."""
    return _alpha_dropped("feature_alpha_dropout_", input, p, train, True, True)


__all__ = [
    "alpha_dropout",
    "alpha_dropout_",
    "dropout",
    "dropout_",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
]
