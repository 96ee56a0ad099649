"""Convolution of arrays: windows copied into tiles that stay in cache, multiplied as matrices.

Layouts: images (N, C, *spatial), filters (O, C / groups, *kernel). All attributes are tuples with one int per spatial
dimension. The cross-correlation, its adjoint (the transposed convolution) and the gradient of the filters share the
tiles; none of them lays out the windows of a whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

Array = ndarray[Any, Any]
Sizes = tuple[int, ...]

TILE = 1 << 20
"""Bytes of copied windows at a time; together with the filters about a core's second-level cache."""
WIDE = 256
"""Columns from which a product of matrices runs at full speed; smaller images are taken several at a time."""


def out_sizes(size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Sizes:
    """Return the spatial sizes of a convolution's output."""
    return tuple(
        [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(size, kernel, stride, padding, dilation)]
    )


def padded(x: Array, padding: Sizes, value: Any = 0) -> Array:
    """Return `x` in C order with `padding` copies of `value` on both sides of each spatial dimension."""
    if not any(padding):
        return np.ascontiguousarray(x)
    shape = x.shape[:2] + tuple([n + 2 * p for n, p in zip(x.shape[2:], padding)])
    out = np.zeros(shape, x.dtype) if value == 0 else np.full(shape, value, x.dtype)
    out[(slice(None), slice(None), *[slice(p, p + n) for n, p in zip(x.shape[2:], padding)])] = x
    return out


def windows(x: Array, kernel: Sizes, stride: Sizes, dilation: Sizes, out: Sizes) -> Array:
    """Return the view (C, *kernel, N, *out) of the elements of `x`, C-contiguous, that each window covers."""
    n, c = x.shape[:2]
    steps = x.strides[2:]
    strides = (x.strides[1], *[s * d for s, d in zip(steps, dilation)], x.strides[0])
    return ndarray((c, *kernel, n, *out), x.dtype, x, 0, strides + tuple([s * t for s, t in zip(steps, stride)]))


def offsets(kernel: Sizes, stride: Sizes, dilation: Sizes, out: Sizes) -> Iterator[tuple[Any, Any]]:
    """Yield, per position in the kernel, the position and the slices of the image it meets."""
    for at in product(*map(range, kernel)):
        yield at, tuple([slice(i * d, i * d + (m - 1) * s + 1, s) for i, s, d, m in zip(at, stride, dilation, out)])


def convolve(x: Array, w: Array, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> Array:
    """Return the cross-correlation of images with filters, (N, O, *out)."""
    n, c = x.shape[:2]
    o, kernel = w.shape[0], w.shape[2:]
    out = out_sizes(x.shape[2:], kernel, stride, padding, dilation)
    y = np.empty((n, o, *out), x.dtype)
    if not y.size or not w.size:
        y[...] = 0
        return y
    if _pointwise(kernel, stride, padding):
        joined = np.ascontiguousarray(x).reshape(n, groups, c // groups, -1)
        filters = w.reshape(groups, o // groups, c // groups)
        np.matmul(filters, joined, out=y.reshape(n, groups, o // groups, -1))
        return y
    if groups > 1 and c == groups:
        return _depthwise(x, w, y, stride, padding, dilation)
    filters = w.reshape(groups, o // groups, -1)
    for a, b, first, last, cols in _tiles(x, kernel, stride, padding, dilation, out, groups):
        target = y[a:b].reshape(b - a, groups, o // groups, *out)[:, :, :, first:last]
        if b - a == 1 and last - first == out[0]:
            np.matmul(filters, cols, out=target.reshape(groups, o // groups, -1))
        else:
            r = np.matmul(filters, cols).reshape(groups, o // groups, b - a, last - first, *out[1:])
            target[...] = np.moveaxis(r, 2, 0)
    return y


def convolve_transposed(
    x: Array, w: Array, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """Return the adjoint of `convolve` applied to `x`, (N, C, *size); `w` is (channels of x, C / groups, *kernel)."""
    n, o = x.shape[:2]
    kernel, small = w.shape[2:], x.shape[2:]
    c = w.shape[1] * groups
    y = np.zeros((n, c, *size), x.dtype)
    if not y.size or not x.size or not w.size:
        return y
    joined = np.ascontiguousarray(x).reshape(n, groups, o // groups, -1)
    filters = w.reshape(groups, o // groups, -1).mT
    if _pointwise(kernel, stride, padding) and size == small:
        np.matmul(filters, joined, out=y.reshape(n, groups, c // groups, -1))
        return y
    if max(stride) == 1 and o <= 2 * c:
        # Without strides the adjoint is a convolution too, with the filters reversed; gathering beats scattering.
        around = tuple([d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding)])
        if min(around) >= 0 and size == out_sizes(small, kernel, stride, around, dilation):
            reverse = w.reshape(groups, o // groups, c // groups, *kernel).swapaxes(1, 2)
            reverse = reverse[(slice(None),) * 3 + (slice(None, None, -1),) * len(kernel)]
            return convolve(x, reverse.reshape(c, o // groups, *kernel), stride, around, dilation, groups)
    spans = [(m - 1) * s + d * (k - 1) + 1 for m, s, d, k in zip(small, stride, dilation, kernel)]
    full = [max(m + 2 * p, span) for m, p, span in zip(size, padding, spans)]
    inside = (slice(None), slice(None), *[slice(p, p + m) for p, m in zip(padding, size)])
    each = max(1, TILE // (x.itemsize * c * prod(kernel) * prod(small)))
    for a in range(0, n, each):
        b = min(n, a + each)
        if groups > 1 and groups == o == c:
            cols = x[a:b].reshape(b - a, c, *(1 for _ in kernel), *small) * w.reshape(c, *kernel, *(1 for _ in small))
        else:
            cols = np.matmul(filters, joined[a:b]).reshape(b - a, c, *kernel, *small)
        whole = np.zeros((b - a, c, *full), x.dtype)
        for at, region in offsets(kernel, stride, dilation, small):
            spot = whole[(slice(None), slice(None), *region)]
            np.add(spot, cols[(slice(None), slice(None), *at)], out=spot)
        y[a:b] = whole[inside]
    return y


def filter_gradient(
    x: Array, g: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """Return, per filter element, the sum of `g` times what the element met in `x`, (O, C / groups, *kernel)."""
    c = x.shape[1]
    o, out = g.shape[1], g.shape[2:]
    total = np.zeros((groups, o // groups, c // groups * prod(kernel)), x.dtype)
    if not x.size or not g.size:
        return total.reshape(o, c // groups, *kernel)
    if groups > 1 and c == groups:
        return _depthwise_gradient(x, g, kernel, stride, padding, dilation)
    for a, b, first, last, cols in _tiles(x, kernel, stride, padding, dilation, out, groups):
        rows = np.moveaxis(g[a:b, :, first:last].reshape(b - a, groups, o // groups, -1), 0, 2)
        total += np.matmul(rows.reshape(groups, o // groups, -1), cols.mT)
    return total.reshape(o, c // groups, *kernel)


def columns(x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Array:
    """Return the windows of `x` as columns, (N, C * prod(kernel), windows)."""
    out = out_sizes(x.shape[2:], kernel, stride, padding, dilation)
    n, c = x.shape[:2]
    cols = np.empty((n, c, *kernel, *out), x.dtype)
    np.moveaxis(cols, 0, len(kernel) + 1)[...] = windows(padded(x, padding), kernel, stride, dilation, out)
    return cols.reshape(n, c * prod(kernel), prod(out))


def from_columns(cols: Array, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Array:
    """Return the sum of columns, each put back where its window lies, (N, C, *size); the adjoint of `columns`."""
    out = out_sizes(size, kernel, stride, padding, dilation)
    n, c = cols.shape[0], cols.shape[1] // prod(kernel)
    cols = cols.reshape(n, c, *kernel, *out)
    whole = np.zeros((n, c, *[m + 2 * p for m, p in zip(size, padding)]), cols.dtype)
    for at, region in offsets(kernel, stride, dilation, out):
        whole[(slice(None), slice(None), *region)] += cols[(slice(None), slice(None), *at)]
    inside = (slice(None), slice(None), *[slice(p, p + m) for p, m in zip(padding, size)])
    return np.ascontiguousarray(whole[inside])


# -- tiles ------------------------------------------------------------------------------------------------------------


def _pointwise(kernel: Sizes, stride: Sizes, padding: Sizes) -> bool:
    return max(kernel) == 1 == max(stride) and not any(padding)


def _tiles(
    x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, out: Sizes, groups: int
) -> Iterator[tuple[int, int, int, int, Array]]:
    """Yield (first image, end, first row, end, windows) tile by tile, rows being those of the output.

    The windows are copied as columns, (groups, C / groups * prod(kernel), images * rows * …); they hold until the next
    tile is asked for.
    """
    n, c = x.shape[:2]
    row = x.itemsize * c * prod(kernel) * prod(out[1:])
    images = min(n, max(1, TILE // (row * out[0])), -(-WIDE // prod(out)))
    rows = out[0] if images > 1 else min(out[0], max(1, TILE // row, -(-WIDE // prod(out[1:]))))
    buffer = np.empty(c * prod(kernel) * images * rows * prod(out[1:]), x.dtype)
    for a in range(0, n, images):
        part = padded(x[a : a + images], padding)
        m = len(part)
        met = windows(part, kernel, stride, dilation, out)
        for first in range(0, out[0], rows):
            last = min(out[0], first + rows)
            shape = (c, *kernel, m, last - first, *out[1:])
            cols = buffer[: prod(shape)]
            cols.reshape(shape)[...] = met[(slice(None),) * (len(kernel) + 2) + (slice(first, last),)]
            yield a, a + m, first, last, cols.reshape(groups, c // groups * prod(kernel), -1)


# -- one filter set per channel ---------------------------------------------------------------------------------------


def _depthwise(x: Array, w: Array, y: Array, stride: Sizes, padding: Sizes, dilation: Sizes) -> Array:
    n, c = x.shape[:2]
    kernel, out = w.shape[2:], y.shape[2:]
    ones = (1,) * len(out)
    weights = w.reshape(c, -1, *kernel)
    many = weights.shape[1]
    each = max(1, TILE // (2 * x.itemsize * c * many * prod(out)))
    for a in range(0, n, each):
        part = padded(x[a : a + each], padding)
        target = y[a : a + each].reshape(len(part), c, many, *out)
        term: Any = None
        for at, region in offsets(kernel, stride, dilation, out):
            factor = weights[(slice(None), slice(None), *at)].reshape(c, many, *ones)
            met = part[(slice(None), slice(None), None, *region)]
            if term is None:
                np.multiply(met, factor, out=target)
                term = np.empty(target.shape, target.dtype)
            else:
                np.multiply(met, factor, out=term)
                np.add(target, term, out=target)
    return y


def _depthwise_gradient(x: Array, g: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> Array:
    n, c = x.shape[:2]
    out = g.shape[2:]
    many = g.shape[1] // c
    total = np.zeros((c, many, *kernel), x.dtype)
    dims = (0, *range(3, 3 + len(out)))
    each = max(1, TILE // (2 * x.itemsize * c * many * prod(out)))
    for a in range(0, n, each):
        part = padded(x[a : a + each], padding)
        gs = g[a : a + each].reshape(len(part), c, many, *out)
        for at, region in offsets(kernel, stride, dilation, out):
            met = part[(slice(None), slice(None), None, *region)]
            total[(slice(None), slice(None), *at)] += np.multiply(met, gs).sum(dims)
    return total.reshape(c * many, 1, *kernel)
