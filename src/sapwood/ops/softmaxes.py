"""Softmax and its relatives: normalised exponentials along one dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..dtypes import as_dtype
from ..tensor import Tensor, check_dim
from .declare import Fused, composite, op


def _samples(rng: Any) -> list[tuple[Any, ...]]:
    return [(rng.standard_normal((3, 4)), 1), (rng.standard_normal((2, 3, 2)), 1), (np.array(2.0), 0)]


class Softmax(Fused):
    """A function that normalises along `dim`."""

    promote = "given"
    function = method = False
    samples = _samples

    def canon(input, dim):
        if type(dim) is int and 0 <= dim < input.ndim:
            return (dim,)
        return (check_dim("softmax", dim, input.ndim),)


@op
class softmax_of(Softmax):
    """Return exp(input) divided by its sum along `dim`; the largest element is subtracted first."""

    grad_fn = "SoftmaxBackward0"
    vjp_input = lambda g, out, dim: out * (g - ops.sum(g * out, dim, True))
    jvp_input = vjp_input
    onnx = "Softmax"

    def forward(input, dim):
        if not input.size:
            return input.copy()
        dim = dim if input.ndim else ()
        out = np.asarray(input - np.maximum.reduce(input, axis=dim, keepdims=True))
        np.exp(out, out=out)
        # One division for each sum: dividing every element costs more than computing its exponential does.
        out *= 1 / np.add.reduce(out, axis=dim, keepdims=True)
        return out

    def formula(input, dim):
        e = ops.exp(input - ops.amax(input, dim, True))
        return e * (1 / ops.sum(e, dim, True))


@op
class log_softmax_of(Softmax):
    """Return the logarithm of softmax along `dim`, finite for finite inputs."""

    grad_fn = "LogSoftmaxBackward0"
    vjp_input = lambda g, out, dim: g - ops.exp(out) * ops.sum(g, dim, True)
    jvp_input = lambda t, out, dim: t - ops.sum(ops.exp(out) * t, dim, True)
    onnx = "LogSoftmax"

    def forward(input, dim):
        if not input.size:
            return input.copy()
        dim = dim if input.ndim else ()
        out = np.asarray(input - np.maximum.reduce(input, axis=dim, keepdims=True))
        out -= np.log(np.add.reduce(np.exp(out), axis=dim, keepdims=True))
        return out

    def formula(input, dim):
        shifted = input - ops.amax(input, dim, True)
        return shifted - ops.log(ops.sum(ops.exp(shifted), dim, True))


@op
class safe_softmax(Softmax):
    """Return softmax along `dim`, with zeros instead of NaN where every element is -inf."""

    grad_fn = "SafeSoftmaxBackward0"
    vjp_input = lambda g, out, dim: out * (g - ops.sum(g * out, dim, True))
    jvp_input = vjp_input

    def formula(input, dim):
        return ops.where(ops.amax(input, dim, True) == -math.inf, 0, ops.softmax_of(input, dim))


def _in_dtype(input: Any, dtype: Any) -> Any:
    return input if dtype is None or not isinstance(input, Tensor) else input.to(as_dtype(dtype))


@composite(method=True)
def softmax(input: Any, dim: int, dtype: Any = None, *, out: Any = None) -> Any:
    """Rescale the elements along `dim` to positive numbers that sum to one.

        out = exp(input) / sum(exp(input), dim)

    Args:
        input: any shape, float.
        dim: the dimension that sums to one.
        dtype: convert the input first, e.g. to keep precision.

    Example:
        >>> import sapwood
        >>> sapwood.softmax(sapwood.tensor([0., 0.]), 0)
        tensor([0.5000, 0.5000])
    """
    return ops.softmax_of(input if dtype is None else _in_dtype(input, dtype), dim, out=out)


@composite(method=True)
def log_softmax(input: Any, dim: int, dtype: Any = None, *, out: Any = None) -> Any:
    """Return the logarithm of softmax, computed without overflow.

        out = input - log(sum(exp(input), dim))

    Args:
        input: any shape, float.
        dim: the dimension whose exponentials sum to one.
        dtype: convert the input first.
    """
    return ops.log_softmax_of(input if dtype is None else _in_dtype(input, dtype), dim, out=out)
