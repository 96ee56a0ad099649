"""Pooling in native code: what `ops` calls for large float arrays; see `pool` for the meaning of each function."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from . import engine, pool, pool_boxes, pool_windows, tiles, workspace
from .pool import Sizes
from .writer import Module

Array = ndarray[Any, Any]

_NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}


@functools.cache
def _register() -> int:
    return engine.registers()[0]


@functools.cache
def kernels(dtype: str) -> dict[str, Any]:
    """Return the functions for a dtype by name, compiled at the first call."""
    kind = tiles.Kind(dtype, _register())
    # Inner loops are written with vectors. Searching the others for some took eight times as long as the rest of the
    # compilation and gained nothing for float32; float64's largest elements of 2 × 2 gain a sixth.
    module = Module("vector" if dtype == "f32" else "plain")
    workspace.define(module)
    tiles.define(module, kind)
    pool_windows.define(module, kind)
    pool_boxes.define(module, kind)
    return workspace.load(module, ["largest", "places", "means", *pool_boxes.NAMES], dtype)


def _suits(a: Array, dims: int) -> str | None:
    """Return the dtype's name if native code reads such arrays."""
    if a.ndim > pool_windows.MAX_NDIM or dims > pool_windows.SPACE or not a.size or not a.flags.aligned:
        return None
    # Distances within an image are kept in 32 bits.
    if prod(a.shape[a.ndim - dims :]) >= 1 << 31:
        return None
    return _NAMES.get(a.dtype)


def _plain(a: Array) -> Array:
    return a if a.flags.c_contiguous else np.ascontiguousarray(a)


def largest(x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool) -> tuple[Array, Array]:
    """Return each window's largest element and its index in the flattened image; the first of equals, but NaN wins."""
    found = _windows("places", x, kernel, stride, padding, dilation, ceil)
    return pool.largest(x, kernel, stride, padding, dilation, ceil) if found is None else found


def largest_only(x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool) -> Array:
    """Return each window's largest element."""
    found = _windows("largest", x, kernel, stride, padding, dilation, ceil)
    return pool.largest_only(x, kernel, stride, padding, dilation, ceil) if found is None else found


def _windows(name: str, x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool) -> Any:
    x, dims = _plain(x), len(kernel)
    dtype = _suits(x, dims)
    lead = x.ndim - dims
    out = pool.out_sizes(x.shape[lead:], kernel, stride, padding, dilation, ceil)
    if dtype is None or min(out) < 1:
        return None
    plan = pool_windows.plan(dtype, _register(), x.shape, lead, out, kernel, stride, padding, dilation, None)
    return kernels(dtype)[name](plan, x)


def means(x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, out: Sizes, pad: bool, divisor: int | None) -> Array:
    """Return the mean of each window of floats.

    Args:
        out: sizes of the result; pad: whether the padding counts; divisor: what to divide by instead.
    """
    x, dims = _plain(x), len(kernel)
    dtype = _suits(x, dims)
    lead = x.ndim - dims
    if dtype is None:
        y = pool.sums(x, kernel, stride, padding, out)
        return np.divide(y, divisor or pool.divisors(x.shape[lead:], kernel, stride, padding, out, pad), out=y)
    counts = ((1,),) * (pool_windows.SPACE - dims) + _counts(x.shape[lead:], kernel, stride, padding, out, pad, divisor)
    plan = pool_windows.plan(dtype, _register(), x.shape, lead, out, kernel, stride, padding, (1,) * dims, counts)
    found: Array = kernels(dtype)["means"](plan, x)
    return found


@functools.lru_cache(maxsize=pool_windows.PLANS)
def _counts(
    size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, out: Sizes, pad: bool, divisor: int | None
) -> tuple[Sizes, ...]:
    """Return, per dimension and window, the factors of what a window's sum is divided by."""
    counts = []
    for n, k, s, p, m in zip(size, kernel, stride, padding, out):
        ends = [(i * s - p, min(i * s - p + k, n + p)) for i in range(m)]
        counts.append(tuple([b - a if pad else min(b, n) - max(a, 0) for a, b in ends]))
    if divisor is None:
        return tuple(counts)
    return ((divisor,) * out[0], *((1,) * m for m in out[1:]))


def means_adjoint(
    g: Array, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, pad: bool, divisor: int | None
) -> Array:
    """Return images of `size` in which every window got its share of `g`."""
    g, dims = _plain(g), len(kernel)
    dtype = _suits(g, dims)
    lead = g.ndim - dims
    out = g.shape[lead:]
    if dtype is None:
        count = divisor or pool.divisors(size, kernel, stride, padding, out, pad)
        return pool.spread((g / count).astype(g.dtype), size, kernel, stride, padding)
    ranges = tuple([
        tuple([(max(i * s - p, 0), min(i * s - p + k, n)) for i in range(m)])
        for n, k, s, p, m in zip(size, kernel, stride, padding, out)
    ])  # fmt: skip
    counts = _counts(size, kernel, stride, padding, out, pad, divisor)
    plan = pool_boxes.plan((*g.shape[:lead], *size), lead, size, out, ranges, counts, g.itemsize)
    found: Array = kernels(dtype)["box_spread"](plan, g)
    return found


def _bounds(size: Sizes, out: Sizes) -> tuple[tuple[tuple[int, int], ...], ...]:
    return tuple([tuple(pool.bounds(n, m)) for n, m in zip(size, out)])


def adaptive_means(x: Array, out: Sizes) -> Array:
    """Return the means of prod(out) windows that cover the image."""
    x, lead = _plain(x), x.ndim - len(out)
    dtype = _suits(x, len(out))
    if dtype is None or min(out) < 1:
        return pool.adaptive_means(x, out)
    size = x.shape[lead:]
    plan = pool_boxes.plan((*x.shape[:lead], *out), lead, size, out, _bounds(size, out), None, x.itemsize)
    found: Array = kernels(dtype)["box_means"](plan, x)
    return found


def adaptive_spread(g: Array, size: Sizes) -> Array:
    """Return the adjoint of `adaptive_means`."""
    g, lead = _plain(g), g.ndim - len(size)
    dtype = _suits(g, len(size))
    if dtype is None or min(size) < 1:
        return pool.adaptive_spread(g, size)
    out = g.shape[lead:]
    plan = pool_boxes.plan((*g.shape[:lead], *size), lead, size, out, _bounds(size, out), None, g.itemsize)
    found: Array = kernels(dtype)["box_spread"](plan, g)
    return found


def adaptive_largest(x: Array, out: Sizes) -> tuple[Array, Array]:
    """Return the largest elements of prod(out) windows that cover the image, and their flat indices."""
    x, lead = _plain(x), x.ndim - len(out)
    dtype = _suits(x, len(out))
    if dtype is None or min(out) < 1:
        return pool.adaptive_largest(x, out)
    size = x.shape[lead:]
    plan = pool_boxes.plan((*x.shape[:lead], *out), lead, size, out, _bounds(size, out), None, x.itemsize)
    found: tuple[Array, Array] = kernels(dtype)["box_places"](plan, x)
    return found


def scatter(g: Array, at: Array, size: Sizes, add: bool) -> Array:
    """Return images that are zero but at flat indices; elements that meet add up, or the last one stays."""
    g, at, lead = _plain(g), _plain(at), g.ndim - len(size)
    dtype = _suits(g, len(size))
    if dtype is None or at.dtype != np.int64 or at.shape != g.shape or not at.flags.aligned or min(size) < 1:
        return pool.scatter(g, at, size, add)
    plan = pool_boxes.scatter_plan((*g.shape[:lead], *size), lead, prod(g.shape[lead:]), add, g.itemsize)
    found: Array = kernels(dtype)["scatter"](plan, g, at)
    return found


__all__ = [
    "adaptive_largest",
    "adaptive_means",
    "adaptive_spread",
    "kernels",
    "largest",
    "largest_only",
    "means",
    "means_adjoint",
    "scatter",
]
