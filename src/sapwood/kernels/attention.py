"""Attention of arrays, forward and backward, without the whole matrix of scores.

Arrays are (N, H, L, E): query (N, H, L, E), key (N, H', S, E), value (N, H', S, Ev), where H is a multiple of H' and
consecutive heads of the query share one of key and value. A mask broadcasts to (N, H, L, S) and is added to the scores.
Forward also returns the logarithms of the sums of exponentials, (N, H, L), from which backward has the weights of a
block without the others.

Reference: Dao, Fu, Ermon, Rudra and Ré, FlashAttention, arXiv:2205.14135.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy import ndarray

Array = ndarray[Any, Any]

SCORES = 1 << 20
"""Elements of a block of scores where NumPy computes."""
QUERIES = 256
"""Queries of such a block, at most."""
RATE = 40
"""Multiply-adds a nanosecond, roughly: what tells whether threads pay."""
UNITS = 16
"""Parts that backward is divided into, at least, if the keys are many."""


def attend(
    query: Array, key: Array, value: Array, mask: Array | None, causal: bool, scale: float, *, native: bool
) -> tuple[Array, Array]:
    """Return softmax(query · keyᵀ · scale + mask) · value and the logarithms of the sums.

    Args:
        causal: query i sees the keys 0 to i only.
        native: whether kernels compute; they exist for float32 and float64.
    """
    n, h, length, _ = query.shape
    wide = value.shape[-1]
    if query.strides[1] < query.strides[2] and query.strides[3] == query.itemsize:
        # The heads of a position lie side by side: as PyTorch, the result has that order too, ready for the next layer.
        out = np.empty((n, length, h, wide), query.dtype).transpose(0, 2, 1, 3)
    else:
        out = np.empty((n, h, length, wide), query.dtype)
    logs = np.empty((n, h, length), query.dtype)
    if not out.size or not key.shape[2]:
        out[...] = 0
        logs[...] = -np.inf
        return out, logs
    if native and query.dtype.char in "fd":
        _attend_native(query, key, value, mask, causal, scale, out, logs)
    else:
        _attend(query, key, value, mask, causal, scale, out, logs)
    return out, logs


def attend_back(
    g: Array, query: Array, key: Array, value: Array, mask: Array | None, out: Array, logs: Array,
    g_logs: Array | None, causal: bool, scale: float, *, native: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the gradients of query, key and value.

    Args:
        g, g_logs: gradients of the results of `attend`.
    """
    dtype = query.dtype
    by_query, by_key, by_value = (
        np.empty((x.shape[0], x.shape[2], x.shape[1], x.shape[3]), dtype).transpose(0, 2, 1, 3)
        for x in (query, key, value)
    )
    if not query.size or not key.size or not value.size:
        for x in (by_query, by_key, by_value):
            x[...] = 0
        return by_query, by_key, by_value
    if native and dtype.char in "fd":
        _back_native(g, query, key, value, mask, out, logs, g_logs, causal, scale, by_query, by_key, by_value)
    else:
        _back(g, query, key, value, mask, out, logs, g_logs, causal, scale, by_query, by_key, by_value)
    return by_query, by_key, by_value


# -- NumPy -------------------------------------------------------------------------------------------------------------


def _parts(query: Array, key: Array) -> Iterator[tuple[int, slice, slice, slice]]:
    """Yield example, heads, their heads of key and value, and queries of one block after the other."""
    n, h, length, _ = query.shape
    times = h // key.shape[1]
    queries = max(1, min(length, QUERIES, SCORES // (key.shape[2] * times)))
    heads = max(1, SCORES // (queries * key.shape[2] * times))
    for i in range(n):
        for a in range(0, key.shape[1], heads):
            b = min(a + heads, key.shape[1])
            for first in range(0, length, queries):
                yield i, slice(a * times, b * times), slice(a, b), slice(first, min(first + queries, length))


def _scores(q: Array, k: Array, mask: Array | None, causal: bool, scale: float, first: int) -> Array:
    """Return the scores of queries (heads', times, L, E) and keys (heads', 1, S, E)."""
    scores = np.matmul(q * scale, k.mT)
    if mask is not None:
        scores += mask
    if causal:
        rows, cols = scores.shape[-2:]
        scores[..., np.arange(cols) > np.arange(first, first + rows)[:, None]] = -np.inf
    return scores


def _block(
    query: Array, key: Array, mask: Array | None, causal: bool, scale: float, part: tuple[int, slice, slice, slice]
) -> tuple[Array, int]:
    """Return the scores of a block and how many keys it sees."""
    i, heads, shared, rows = part
    count = min(key.shape[2], rows.stop) if causal else key.shape[2]
    groups = shared.stop - shared.start
    q = query[i, heads, rows].reshape(groups, -1, rows.stop - rows.start, query.shape[-1])
    k = key[i, shared, None, :count]
    m = None
    if mask is not None:
        shape = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        m = np.broadcast_to(mask, shape)[i, heads, rows, :count].reshape(groups, -1, rows.stop - rows.start, count)
    return _scores(q, k, m, causal, scale, rows.start), count


def _attend(
    query: Array, key: Array, value: Array, mask: Array | None, causal: bool, scale: float, out: Array, logs: Array
) -> None:
    for part in _parts(query, key):
        i, heads, shared, rows = part
        scores, count = _block(query, key, mask, causal, scale, part)
        top = np.maximum.reduce(scores, axis=-1, keepdims=True)
        top = np.where(top == -np.inf, 0, top)
        scores -= top
        np.exp(scores, out=scores)
        total = np.add.reduce(scores, axis=-1, keepdims=True)
        with np.errstate(divide="ignore"):
            logs[i, heads, rows] = (np.log(total) + top).reshape(logs[i, heads, rows].shape)
        r = np.matmul(scores, value[i, shared, None, :count])
        r /= np.where(total == 0, 1, total)
        target = out[i, heads, rows]
        target[...] = r.reshape(target.shape)


def _back(
    g: Array, query: Array, key: Array, value: Array, mask: Array | None, out: Array, logs: Array,
    g_logs: Array | None, causal: bool, scale: float, by_query: Array, by_key: Array, by_value: Array,
) -> None:  # fmt: skip
    by_key[...] = 0
    by_value[...] = 0
    low = np.where(logs == -np.inf, 0, logs)
    mean = np.add.reduce(g * out, axis=-1)
    if g_logs is not None:
        mean -= g_logs
    for part in _parts(query, key):
        i, heads, shared, rows = part
        p, count = _block(query, key, mask, causal, scale, part)
        four = p.shape[:3]
        p -= low[i, heads, rows].reshape(*four, 1)
        np.exp(p, out=p)
        k, v = key[i, shared, None, :count], value[i, shared, None, :count]
        gs, q = g[i, heads, rows].reshape(*four, -1), query[i, heads, rows].reshape(*four, -1)
        by_value[i, shared, :count] += np.add.reduce(np.matmul(p.mT, gs), axis=1)
        d = np.matmul(gs, v.mT)
        d -= mean[i, heads, rows].reshape(*four, 1)
        d *= p
        d *= scale
        target = by_query[i, heads, rows]
        target[...] = np.matmul(d, k).reshape(target.shape)
        by_key[i, shared, :count] += np.add.reduce(np.matmul(d.mT, q), axis=1)


# -- native ------------------------------------------------------------------------------------------------------------


@functools.cache
def _kernels(char: str) -> tuple[Any, Any]:
    """Return the builtins of one dtype."""
    from . import attention_text, direct, engine

    found = engine.load(attention_text.text("f32" if char == "f" else "f64"), ["forward", "backward"])
    return tuple(direct.make(name, found[name]) for name in ("forward", "backward"))  # type: ignore[return-value]


_FORWARD = struct.Struct("11qd15q")
_BACKWARD = struct.Struct("11qd29q")


def _rows(*arrays: Array) -> list[Array]:
    """Return arrays whose last dimension is without gaps."""
    return [
        x
        if (x.strides[-1] == x.itemsize and x.flags.aligned) or (x.shape[-1] == 1 and x.flags.aligned)
        else x.copy("C")
        for x in arrays
    ]


def _mask(mask: Array | None, shape: tuple[int, ...]) -> tuple[Array | None, tuple[int, ...]]:
    """Return a mask with rows without gaps, and its strides."""
    if mask is None:
        return None, (0, 0, 0)
    if mask.shape[-1] != shape[-1]:
        mask = np.broadcast_to(mask, (*mask.shape[:-1], shape[-1]))
    (mask,) = _rows(mask)
    return mask, np.broadcast_to(mask, shape).strides[:3]


def _block_size(itemsize: int) -> int:
    from . import engine

    return 2 * engine.vector_bytes() // itemsize


def _attend_native(
    query: Array, key: Array, value: Array, mask: Array | None, causal: bool, scale: float, out: Array, logs: Array
) -> None:
    query, key, value = _rows(query, key, value)
    n, h, length, size = query.shape
    keys, wide = value.shape[2:]
    mask, steps = _mask(mask, (n, h, length, keys))
    blocks = -(-length // _block_size(query.itemsize))
    cost = n * h * length * keys * (size + wide) // (2 * RATE if causal else RATE)
    words = _FORWARD.pack(
        n * h * blocks, 1, cost, h, h // key.shape[1], length, keys, size, wide, causal, blocks, scale,
        *query.strides[:3], *key.strides[:3], *value.strides[:3], *out.strides[:3], *steps,
    )  # fmt: skip
    _kernels(query.dtype.char)[0](words, query, key, value, mask, out, logs)


def _back_native(
    g: Array, query: Array, key: Array, value: Array, mask: Array | None, out: Array, logs: Array,
    g_logs: Array | None, causal: bool, scale: float, by_query: Array, by_key: Array, by_value: Array,
) -> None:  # fmt: skip
    g, query, key, value, out = _rows(g, query, key, value, out)
    logs = np.ascontiguousarray(logs)
    g_logs = None if g_logs is None else np.ascontiguousarray(g_logs)
    n, h, length, size = query.shape
    keys, wide = value.shape[2:]
    mask, steps = _mask(mask, (n, h, length, keys))
    pairs = n * key.shape[1]
    from .attention_text import KEYS

    # Parts by size alone, so that the number of threads changes nothing.
    segments = max(1, min(-(-UNITS // pairs), keys // (2 * KEYS)))
    partial = by_query if segments == 1 else np.empty((segments, n, h, length, size), query.dtype)
    cost = n * h * length * keys * (3 * size + 2 * wide) // (2 * RATE if causal else RATE)
    words = _BACKWARD.pack(
        pairs * segments, 1, cost, h, h // key.shape[1], length, keys, size, wide, causal, 0, scale,
        *query.strides[:3], *key.strides[:3], *value.strides[:3], *out.strides[:3], *steps,
        segments, *g.strides[:3], *partial.strides[-4:-1], *by_key.strides[:3], *by_value.strides[:3],
        partial.strides[0] if segments > 1 else 0,
    )  # fmt: skip
    _kernels(query.dtype.char)[1](
        words, query, key, value, mask, out, logs, g, g_logs, partial, by_key, by_value
    )  # fmt: skip
    if segments > 1:
        np.add.reduce(partial, axis=0, out=by_query)


__all__ = ["attend", "attend_back"]
