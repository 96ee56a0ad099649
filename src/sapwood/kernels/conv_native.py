"""Convolution in native code: what `ops` calls for large float arrays; see `conv` for the meaning of each function."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy import ndarray

from . import conv, conv_correlate, engine, products, tiles, workspace
from .conv import Sizes, out_sizes
from .writer import Module

Array = ndarray[Any, Any]

_NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


class Kernels:
    """The compiled functions for one dtype."""

    def __init__(self, dtype: str) -> None:
        self.register, registers = engine.registers()
        self.heights = products.row_heights(registers)
        kind = tiles.Kind(dtype, self.register)
        module = Module()
        workspace.define(module)
        tiles.define(module, kind)
        products.define(module, kind, registers)
        conv_correlate.define(module, kind, self.heights)
        made = workspace.load(module, ["correlate"], dtype, self.heights[0])
        self.correlate = made["correlate"]


@functools.cache
def kernels(dtype: str) -> Kernels:
    """Return the functions for a dtype, compiled at the first call."""
    return Kernels(dtype)


def _suits(*arrays: Array) -> str | None:
    """Return the dtype's name if the arrays are what native code reads: of one float dtype, in C order."""
    dtype = arrays[0].dtype
    name = _NAMES.get(dtype)
    for a in arrays:
        if a.dtype is not dtype or not a.flags.c_contiguous or not a.flags.aligned or not a.size:
            return None
    return name


def _plain(a: Array) -> Array:
    return a if a.flags.c_contiguous else np.ascontiguousarray(a)


def convolve(
    x: Array, w: Array, bias: Array | None, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """Return the cross-correlation of images with filters plus a bias, (N, O, *out)."""
    x, w = _plain(x), _plain(w)
    bias = None if bias is None else _plain(bias)
    name = _suits(x, w) if bias is None else _suits(x, w, bias)
    out = out_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
    if name is None or min(out) < 1 or x.ndim > 5:
        y = conv.convolve(x, w, stride, padding, dilation, groups)
        return y if bias is None else np.add(y, bias.reshape(-1, *(1,) * len(out)), out=y)
    k = kernels(name)
    plan = conv_correlate.forward_plan(
        name, k.register, k.heights, x.shape, w.shape, out, stride, padding, dilation, groups
    )
    y = k.correlate(plan, x, w, bias)
    return y


def convolve_transposed(
    x: Array, w: Array, bias: Array | None, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """Return the adjoint of `convolve` applied to `x`, plus a bias, (N, C, *size)."""
    x, w = _plain(x), _plain(w)
    bias = None if bias is None else _plain(bias)
    name = _suits(x, w) if bias is None else _suits(x, w, bias)
    if name is None or min(size) < 1 or x.ndim > 5:
        y = conv.convolve_transposed(x, w, size, stride, padding, dilation, groups)
        return y if bias is None else np.add(y, bias.reshape(-1, *(1,) * len(size)), out=y)
    k = kernels(name)
    plan = conv_correlate.adjoint_plan(
        name, k.register, k.heights, x.shape, w.shape, size, stride, padding, dilation, groups
    )
    y = k.correlate(plan, x, w, bias)
    return y


__all__ = ["convolve", "convolve_transposed", "kernels"]
