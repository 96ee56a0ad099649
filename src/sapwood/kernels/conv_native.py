"""Convolution in native code: what `ops` calls for large float arrays; see `conv` for the meaning of each function."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from . import conv, conv_correlate, conv_filters, conv_plan, conv_sums, engine, products, tiles, workspace
from .conv import Sizes, out_sizes
from .writer import Module

Array = ndarray[Any, Any]

_NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


class Kernels:
    """The compiled functions for one dtype, and what plans for them depend on: bytes and number of registers."""

    def __init__(self, dtype: str, register: int, registers: int) -> None:
        self.register = register
        self.heights = products.row_heights(registers)
        kind = tiles.Kind(dtype, self.register)
        # Inner loops are written with vectors; searching the others for some took four times as long as the rest of a
        # compilation and made nothing faster.
        module = Module("vector")
        workspace.define(module)
        tiles.define(module, kind)
        products.define(module, kind, registers)
        conv_correlate.define(module, kind, self.heights)
        self.block = products.dot_shape(registers)
        conv_filters.define(module, kind, self.block)
        conv_sums.define(module, kind)
        made = workspace.load(module, ["correlate", "filters", "sums"], dtype, self.heights[0])
        self.correlate, self.filters, self.sums = (made[n] for n in ("correlate", "filters", "sums"))


@functools.cache
def kernels(dtype: str) -> Kernels:
    """Return the functions for a dtype, compiled at the first call."""
    return Kernels(dtype, *engine.registers())


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
    plan = conv_plan.forward_plan(name, k.register, k.heights, x.shape, w.shape, out, stride, padding, dilation, groups)
    found: Array = k.correlate(plan, x, w, bias)
    return found


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
    plan = conv_plan.adjoint_plan(
        name, k.register, k.heights, x.shape, w.shape, size, stride, padding, dilation, groups
    )
    found: Array = k.correlate(plan, x, w, bias)
    return found


def filter_gradient(
    x: Array, g: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """Return, per filter element, the sum of `g` times what the element met in `x`, (O, C / groups, *kernel)."""
    x, g = _plain(x), _plain(g)
    name = _suits(x, g)
    if name is not None and x.ndim <= 5:
        k = kernels(name)
        plan = conv_filters.plan(name, k.register, k.block, x.shape, g.shape, kernel, stride, padding, dilation, groups)
        found: Array | None = k.filters(plan, x, g)
        if found is not None:
            return found
    return conv.filter_gradient(x, g, kernel, stride, padding, dilation, groups)


def bias_gradient(g: Array) -> Array:
    """Return the sum of `g` over the batch and space, (O,)."""
    g = _plain(g)
    name = _suits(g)
    if name is None:
        total: Array = g.sum((0, *range(2, g.ndim)), dtype=g.dtype)
        return total
    found: Array = kernels(name).sums(conv_sums.plan(g.shape[0], g.shape[1], prod(g.shape[2:])), g)
    return found


__all__ = ["bias_gradient", "convolve", "convolve_transposed", "filter_gradient", "kernels"]
