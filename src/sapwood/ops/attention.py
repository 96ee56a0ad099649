"""Scaled dot-product attention.

Reference: Vaswani et al., Attention is all you need, arXiv:1706.03762.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import ndarray

from .. import ops
from ..dtypes import float32
from ..errors import ShapeError, ValueRangeError
from ..kernels.attention import attend, attend_back
from ..tensor import Tensor, wrap
from . import slow
from .declare import Fused, op
from .warm import serve


def _samples(rng: Any) -> list[tuple[Any, ...]]:
    q, k, v = rng.standard_normal((3, 1, 2, 3, 4))
    mask = rng.standard_normal((3, 2))
    return [
        (q, k, v, None, None, False),
        (q, k[:, :, :2], v[:, :, :2], mask, 0.3, False),
        (q, k, v, None, None, True),
        (q, k[:, :1], v[:, :1], None, 0.5, False),
        (*rng.standard_normal((3, 1, 3, 20, 4)), rng.standard_normal((3, 1, 20)), None, False),
    ]


def _scores(query: Any, key: Any, attn_mask: Any, scale: float, is_causal: bool) -> Any:
    """Return the scaled and masked products of queries and keys."""
    scores = ops.matmul(query * scale, ops.transpose(key, -2, -1))
    if attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        scores = scores + ops.triu(ops.zeros_of(scores, scores.shape[-2:]) - math.inf, 1)
    return scores


def _repeated(x: Any, query: Any) -> Any:
    """Return key or value with a head for each of the query's."""
    times = query.shape[1] // x.shape[1]
    return x if times == 1 else ops.repeat_interleave(x, times, 1)


def _gathered(g: Any, x: Any) -> Any:
    """Return the sum over the heads that shared one of key or value."""
    n, heads, length, size = g.shape
    shared = x.shape[1]
    return g if shared == heads else ops.sum(ops.reshape(g, (n, shared, heads // shared, length, size)), 2)


@op
class fused_attention(Fused):
    """Return softmax(query · keyᵀ · scale + attn_mask) · value for (N, H, L, E) inputs, and the logarithms of the sums.

    Neither pass holds the whole (L, S) matrix of a head: backward computes blocks of weights again from the logarithms.
    Key and value may have fewer heads, each for several consecutive ones of the query.
    """

    inputs = ("query", "key", "value", "attn_mask")
    optional = ("attn_mask",)
    outs = ("output", "logsumexp")
    promote = "given"
    kernel = "its forward function runs native code of its own"
    function = method = False
    takes_none = True
    grad_fn = "ScaledDotProductFlashAttentionForCpuBackward0"
    samples = _samples

    def canon(query, scale, is_causal):
        return 1 / math.sqrt(query.shape[-1]) if scale is None else scale, is_causal

    def formula(query, key, value, attn_mask, scale, is_causal):
        scores = _scores(query, _repeated(key, query), attn_mask, scale, is_causal)
        out = ops.matmul(ops.safe_softmax(scores, -1), _repeated(value, query))
        return out, ops.logsumexp(scores, -1)

    def forward(query, key, value, attn_mask, scale, is_causal):
        native = serve(query.size // query.shape[-1] * key.shape[2] if query.size else 0)
        return attend(query, key, value, attn_mask, is_causal, scale, native=native)

    def vjp(g, needs, query, key, value, attn_mask, output, logsumexp, scale, is_causal):
        g_out, g_logs = g
        if type(query) is ndarray and not needs[3]:
            # The gradient of the logarithms alone is that of the weights with nothing to weigh.
            g_out = ops.zeros_of(output, output.shape) if g_out is None else g_out
            native = serve(logsumexp.size * key.shape[2])
            made = attend_back(
                g_out, query, key, value, attn_mask, output, logsumexp, g_logs, is_causal, scale, native=native
            )
            return *made, None
        keys, values = _repeated(key, query), _repeated(value, query)
        p = ops.safe_softmax(_scores(query, keys, attn_mask, scale, is_causal), -1)
        by_value, by_score = None, 0
        if g_out is not None:
            by_value = _gathered(ops.matmul(ops.transpose(p, -2, -1), g_out), value) if needs[2] else None
            by_p = ops.matmul(g_out, ops.transpose(values, -2, -1))
            by_score = p * (by_p - ops.sum(by_p * p, -1, True))
        if g_logs is not None:
            by_score = by_score + p * ops.unsqueeze(g_logs, -1)
        by_query = ops.matmul(by_score, keys) * scale if needs[0] else None
        by_key = ops.matmul(ops.transpose(by_score, -2, -1), query * scale) if needs[1] else None
        return by_query, by_key if by_key is None else _gathered(by_key, key), by_value, by_score if needs[3] else None


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Average the values, weighted by how well each query matches the keys.

        out = softmax(query · keyᵀ · scale + attn_mask) · value

    Args:
        query: (*, L, E), float.
        key: (*, S, E), dtype of query.
        value: (*, S, Ev), dtype of query.
        attn_mask: broadcasts to (*, L, S); bool (True: may attend) or added to the scores.
        dropout_p: the probability of dropping a weight; applied always, pass 0 in evaluation.
        is_causal: let query i see the keys 0 to i only; excludes attn_mask.
        scale: 1 / sqrt(E) unless given.
        enable_gqa: repeat the heads (dimension -3) of key and value until they are as many as query's.

    Returns:
        (*, L, Ev)
    """
    name = "scaled_dot_product_attention"
    for what, t in (("query", query), ("key", key), ("value", value)):
        if t.dim() < 2:
            raise ShapeError(f"{name}: {what} must have at least 2 dimensions, got shape {tuple(t.shape)}")
    if is_causal and attn_mask is not None:
        raise ValueRangeError(f"{name}: is_causal builds its own mask; pass attn_mask or is_causal, not both")
    if not query.dtype == key.dtype == value.dtype:
        raise ShapeError(
            f"{name}: query, key and value must have one dtype, got {query.dtype.name}, {key.dtype.name} and "
            f"{value.dtype.name}"
        )
    length, size = query.shape[-2], query.shape[-1]
    times = 1
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        if key.shape[-3] * times != query.shape[-3] or key.shape[-3] != value.shape[-3]:
            raise ShapeError(
                f"{name}: the heads of key and value must be equal and divide query's {query.shape[-3]}, got "
                f"{key.shape[-3]} and {value.shape[-3]}"
            )
    looked_through = attn_mask is not None and (type(attn_mask._array) is not np.ndarray or slow.watched(attn_mask))
    if looked_through and attn_mask.dtype.category == 0:
        attn_mask = ops.where(attn_mask, 0.0, -np.inf).to(query.dtype)
    elif attn_mask is not None and attn_mask.dtype.category == 0:
        attn_mask = wrap(_additive(attn_mask._array, query._array.dtype))
    fits = query.dim() == key.dim() == value.dim() == 4 and size == value.shape[-1]
    if fits and not dropout_p and (attn_mask is None or attn_mask._node is None):
        return ops.fused_attention(query, key, value, attn_mask, scale, is_causal)[0]
    if times > 1:
        key, value = (ops.repeat_interleave(t, times, -3) for t in (key, value))
    if is_causal:
        attn_mask = wrap(_additive(np.tril(np.ones((length, key.shape[-2]), bool)), query._array.dtype))
    given = query.dtype
    if given.itemsize == 2:
        # As PyTorch, which computes this path in single precision and rounds once.
        query, key, value = (t.to(float32) for t in (query, key, value))
    root = math.sqrt(1 / math.sqrt(size) if scale is None else scale)
    scores = ops.matmul(query * root, ops.transpose(key, -2, -1) * root)
    if attn_mask is not None:
        scores = scores + attn_mask
    weights = ops.safe_softmax(scores, -1)
    if dropout_p:
        weights = ops.dropout(weights, dropout_p, True)
    return ops.matmul(weights, value).to(given)


def _additive(allowed: Any, dtype: Any) -> Any:
    """Return a mask to add: 0 where attending is allowed, -inf elsewhere."""
    return np.where(allowed, 0, -np.inf).astype(dtype)


__all__ = ["fused_attention", "scaled_dot_product_attention"]
