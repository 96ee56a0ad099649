"""Pooling of arrays: the largest or the mean element of windows that slide over the last dimensions.

All attributes are tuples with one int per pooled dimension; dimensions before those are a batch.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

Array = ndarray[Any, Any]
Sizes = tuple[int, ...]

TILE = 1 << 18
"""Bytes of input looked at together, so that the passes over them stay in cache."""


def out_sizes(size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool) -> Sizes:
    """Return the pooled sizes. With `ceil` the last window may stick out, but must start inside image or padding."""
    out = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation):
        span = n + 2 * p - d * (k - 1) - 1
        m = (-(-span // s) if ceil else span // s) + 1
        out.append(m - 1 if ceil and (m - 1) * s >= n + p else m)
    return tuple(out)


def _filled(x: Array, out: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, value: Any) -> Array:
    """Return `x` with `value` around it, as far as windows reach."""
    dims = len(out)
    size = x.shape[-dims:]
    ends = [(m - 1) * s + d * (k - 1) + 1 for m, s, k, d in zip(out, stride, kernel, dilation)]
    if not any(padding) and all(e <= n for e, n in zip(ends, size)):
        return x
    shape = x.shape[:-dims] + tuple([max(e, n + p) for e, n, p in zip(ends, size, padding)])
    full = np.full(shape, value, x.dtype)
    inside: Any = (Ellipsis, *[slice(p, p + n) for p, n in zip(padding, size)])
    full[inside] = x
    return full


def _lowest(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def largest(x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool) -> tuple[Array, Array]:
    """Return each window's largest element and its index in the flattened image; the first of equals, but NaN wins."""
    dims = len(kernel)
    lead, size = x.shape[:-dims], x.shape[-dims:]
    out = out_sizes(size, kernel, stride, padding, dilation, ceil)
    planes = x.reshape(prod(lead), *size)
    best = np.empty((len(planes), *out), x.dtype)
    at = np.empty(best.shape, np.int64)
    first, base, table = _positions(size, kernel, stride, padding, dilation, out)
    each = max(1, TILE // max(1, x.itemsize * prod(size)))
    low = _lowest(x.dtype)
    met = [_met(offset, stride, dilation, out) for offset in product(*map(range, kernel))]
    for a in range(0, len(planes), each):
        full = _filled(planes[a : a + each], out, kernel, stride, padding, dilation, low)
        top = best[a : a + each]
        parts = [full[(slice(None), *region)] for region in met]
        choice = _first_largest(parts, top, low)
        if choice is None:
            choice = _last_better(parts, top, low, first)
        found = at[a : a + each]
        np.take(table, choice, out=found, mode="clip")
        np.add(found, base, out=found)
    return best.reshape(*lead, *out), at.reshape(*lead, *out)


def _first_largest(parts: list[Array], top: Array, low: Any) -> Array | None:
    """Put the largest of the parts into `top` and return which part it is from, the first of equals.

    None if that takes more care: NaNs compare with nothing, and the lowest number may be padding.
    """
    count = len(parts)
    if count > 255 or not top.size:
        return None
    top[...] = parts[0]
    for part in parts[1:]:
        np.maximum(top, part, out=top)
    if not top.min() > low:
        return None
    rank = np.zeros(top.shape, np.uint8)
    for i, part in enumerate(parts):
        # The first part has the highest rank; products and maxima of bytes are much faster than masked copies.
        np.maximum(rank, (part == top).view(np.uint8) * np.uint8(count - i), out=rank)
    return np.subtract(np.uint8(count), rank, out=rank)


def _last_better(parts: list[Array], top: Array, low: Any, first: Array) -> Array:
    """Do the same one comparison after the other, from the first element inside the image; the last NaN wins."""
    top[...] = low
    choice = np.empty(top.shape, first.dtype)
    choice[...] = first
    for i, part in enumerate(parts):
        better = part > top
        if part.dtype.kind == "f":
            better |= part != part
        np.copyto(top, part, where=better)
        np.copyto(choice, first.dtype.type(i), where=better)
    return choice


def _met(offset: Sizes, stride: Sizes, dilation: Sizes, out: Sizes) -> Any:
    return tuple([slice(i * d, i * d + (m - 1) * s + 1, s) for i, s, d, m in zip(offset, stride, dilation, out)])


def _positions(
    size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, out: Sizes
) -> tuple[Array, Array, Array]:
    """Return, per window, its first element inside the image (as a number of the kernel's positions) and the flat index
    of its corner; and per position the distance from the corner."""
    dims = len(out)
    steps = [prod(size[i + 1 :]) for i in range(dims)]
    number = np.zeros((1,) * dims, np.int64)
    base = np.zeros((1,) * dims, np.int64)
    table = np.zeros((1,) * dims, np.int64)
    for i, (k, s, p, d, m) in enumerate(zip(kernel, stride, padding, dilation, out)):
        shape = (-1,) + (1,) * (dims - 1 - i)
        start = np.arange(m) * s - p
        inside = -(np.minimum(start, 0) // d)
        number = number * k + inside.reshape(shape)
        base = base + (start * steps[i]).reshape(shape)
        table = table + (np.arange(k) * d * steps[i]).reshape(shape)
    small = np.uint8 if prod(kernel) < 256 else np.int32
    return number.astype(small), base, table.reshape(-1)


def largest_only(x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool) -> Array:
    """Return each window's largest element, one dimension after the other."""
    out = out_sizes(x.shape[-len(kernel) :], kernel, stride, padding, dilation, ceil)
    y = _filled(x, out, kernel, stride, padding, dilation, _lowest(x.dtype))
    for i in reversed(range(len(kernel))):
        y = _slide(np.maximum, y, i - len(kernel), kernel[i], stride[i], dilation[i], out[i])
    return y


def _slide(combine: Any, x: Array, dim: int, k: int, s: int, d: int, m: int) -> Array:
    """Combine the k elements of each window along one dimension."""
    tail: Any = (slice(None),) * (-1 - dim)
    parts = [x[(Ellipsis, slice(j * d, j * d + (m - 1) * s + 1, s), *tail)] for j in range(k)]
    if k == 1:
        return parts[0].copy()
    total: Array = combine(parts[0], parts[1])
    for part in parts[2:]:
        combine(total, part, out=total)
    return total


def divisors(size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, out: Sizes, pad: bool) -> Array:
    """Return the number of elements of each window, those of the padding included if `pad`."""
    counts = np.ones((1,) * len(out), np.int64)
    for i, (n, k, s, p, m) in enumerate(zip(size, kernel, stride, padding, out)):
        start = np.arange(m) * s - p
        end = np.minimum(start + k, n + p)
        if not pad:
            start, end = np.maximum(start, 0), np.minimum(end, n)
        counts = counts * (end - start).reshape((-1,) + (1,) * (len(out) - 1 - i))
    return counts


def sums(x: Array, kernel: Sizes, stride: Sizes, padding: Sizes, out: Sizes) -> Array:
    """Return the sum of each window."""
    ones = (1,) * len(kernel)
    y = _filled(x, out, kernel, stride, padding, ones, 0)
    for i in reversed(range(len(kernel))):
        y = _slide(np.add, y, i - len(kernel), kernel[i], stride[i], 1, out[i])
    return y


def spread(g: Array, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes) -> Array:
    """Return images in which every window got its element of `g` added: the adjoint of `sums`."""
    dims = len(kernel)
    for i in range(dims):
        n, k, s, p, m = size[i], kernel[i], stride[i], padding[i], g.shape[i - dims]
        dim = g.ndim - dims + i
        full = np.zeros((*g.shape[:dim], max(n + p, (m - 1) * s + k), *g.shape[dim + 1 :]), g.dtype)
        rows: Any = (slice(None),) * dim
        for j in range(k):
            full[(*rows, slice(j, j + (m - 1) * s + 1, s))] += g
        g = full[(*rows, slice(p, p + n))]
    return np.ascontiguousarray(g)


# -- windows that adapt to the output's size --------------------------------------------------------------------------


def bounds(n: int, m: int) -> list[tuple[int, int]]:
    """Return the m windows that cover n elements evenly; neighbours share elements where m does not divide n."""
    return [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]


def adaptive_means(x: Array, out: Sizes) -> Array:
    """Return the means of prod(out) windows that cover the image."""
    dims = len(out)
    for i, m in enumerate(out):
        dim = x.ndim - dims + i
        rows: Any = (slice(None),) * dim
        y = np.empty((*x.shape[:dim], m, *x.shape[dim + 1 :]), x.dtype)
        for j, (a, b) in enumerate(bounds(x.shape[dim], m)):
            np.add.reduce(x[(*rows, slice(a, b))], axis=dim, out=y[(*rows, j)])
            y[(*rows, j)] /= b - a
        x = y
    return x


def adaptive_spread(g: Array, size: Sizes) -> Array:
    """Return the adjoint of `adaptive_means`."""
    dims = len(size)
    for i, n in enumerate(size):
        dim = g.ndim - dims + i
        rows: Any = (slice(None),) * dim
        y = np.zeros((*g.shape[:dim], n, *g.shape[dim + 1 :]), g.dtype)
        for j, (a, b) in enumerate(bounds(n, g.shape[dim])):
            y[(*rows, slice(a, b))] += (g[(*rows, j)] / (b - a))[(*rows, None)]
        g = y
    return g


def adaptive_largest(x: Array, out: Sizes) -> tuple[Array, Array]:
    """Return the largest elements of prod(out) windows that cover the image, and their flat indices."""
    dims = len(out)
    lead, size = x.shape[:-dims], x.shape[-dims:]
    best = np.empty((*lead, *out), x.dtype)
    at = np.empty(best.shape, np.int64)
    numbers = np.arange(prod(size)).reshape(size)
    for cell in product(*[list(enumerate(bounds(n, m))) for n, m in zip(size, out)]):
        spot: Any = (Ellipsis, *[j for j, _ in cell])
        box: Any = tuple([slice(a, b) for _, (a, b) in cell])
        part = x[(Ellipsis, *box)].reshape(*lead, numbers[box].size)
        # NumPy's argmax takes the first NaN, PyTorch's pooling the last.
        index = part.argmax(-1)
        nans = np.isnan(part)
        if nans.any():
            last = nans.shape[-1] - 1 - nans[..., ::-1].argmax(-1)
            index = np.where(nans.any(-1), last, index)
        best[spot] = np.take_along_axis(part, index[..., None], -1)[..., 0]
        at[spot] = numbers[box].reshape(-1)[index]
    return best, at


def fractional_largest(x: Array, kernel: Sizes, out: Sizes, samples: Array) -> tuple[Array, Array]:
    """Return the largest elements of windows at pseudo-random places, and their flat indices.

    Args:
        x: (N, C, *spatial).
        samples: (N, C, dims), uniform in [0, 1), in the order of the dimensions.
    """
    dims = len(out)
    lead, size = x.shape[:-dims], x.shape[-dims:]
    where = np.zeros((*lead, *(1,) * (2 * dims)), np.int64)
    for i, (n, k, m) in enumerate(zip(size, kernel, out)):
        u = samples[..., i, None]
        start = np.full((*lead, m), n - k, np.int64)
        if m > 1:
            alpha = samples.dtype.type(n - k) / samples.dtype.type(m - 1)
            start[..., :-1] = ((np.arange(m - 1, dtype=u.dtype) + u) * alpha).astype(np.int64) - (u * alpha).astype(
                np.int64
            )
        index = (start[..., None] + np.arange(k)) * prod(size[i + 1 :])
        shape = [1] * (2 * dims)
        shape[i], shape[dims + i] = m, k
        where = where + index.reshape(*lead, *shape)
    flat = where.reshape(*lead, prod(out) * prod(kernel))
    parts = np.take_along_axis(x.reshape(*lead, prod(size)), flat, -1).reshape(*lead, *out, prod(kernel))
    index = parts.argmax(-1)
    best = np.take_along_axis(parts, index[..., None], -1)[..., 0]
    return best, np.take_along_axis(flat.reshape(parts.shape), index[..., None], -1)[..., 0]


# -- elements by index ------------------------------------------------------------------------------------------------


def gather(x: Array, at: Array, dims: int) -> Array:
    """Return the elements of images at flat indices."""
    lead = x.shape[:-dims]
    count = prod(lead)
    flat = at.reshape(count, prod(at.shape[-dims:])) + np.arange(count)[:, None] * prod(x.shape[-dims:])
    return x.reshape(-1)[flat].reshape(at.shape)


def scatter(g: Array, at: Array, size: Sizes, add: bool) -> Array:
    """Return images that are zero but at flat indices; elements that meet add up, or the last one stays."""
    dims = len(size)
    lead = g.shape[:-dims]
    count, area = prod(lead), prod(size)
    flat = (at.reshape(count, prod(at.shape[-dims:])) + np.arange(count)[:, None] * area).reshape(-1)
    if add and g.dtype.kind == "f":
        out = np.bincount(flat, g.reshape(-1), count * area).astype(g.dtype)
    elif add:
        out = np.zeros(count * area, g.dtype)
        np.add.at(out, flat, g.reshape(-1))
    else:
        out = np.zeros(count * area, g.dtype)
        out[flat] = g.reshape(-1)
    return out.reshape(*lead, *size)
