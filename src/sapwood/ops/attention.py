"""Scaled dot-product attention.

Reference: Vaswani et al., Attention is all you need, arXiv:1706.03762.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..dtypes import float32
from ..errors import ShapeError, ValueRangeError
from ..tensor import Tensor, wrap
from .declare import Fused, op


def _samples(rng: Any) -> list[tuple[Any, ...]]:
    q, k, v = rng.standard_normal((3, 1, 2, 3, 4))
    return [(q, k, v, None, None), (q, k[:, :, :2], v[:, :, :2], rng.standard_normal((3, 2)), 0.3)]


def _weights(query: Any, key: Any, attn_mask: Any, scale: float) -> Any:
    """Return the softmax over keys of the scaled and masked products; rows that see no key are zero."""
    scores = ops.matmul(query * scale, ops.transpose(key, -2, -1))
    return ops.safe_softmax(scores if attn_mask is None else scores + attn_mask, -1)


@op
class fused_attention(Fused):
    """Return softmax(query · keyᵀ · scale + attn_mask) · value for (N, H, L, E) inputs as one node.

    Backward computes the weights again instead of keeping an (L, S) matrix per head alive.
    """

    inputs = ("query", "key", "value", "attn_mask")
    optional = ("attn_mask",)
    promote = "given"
    function = method = False
    grad_fn = "ScaledDotProductFlashAttentionForCpuBackward0"
    samples = _samples

    def canon(query, scale):
        return (1 / math.sqrt(query.shape[-1]) if scale is None else scale,)

    def formula(query, key, value, attn_mask, scale):
        return ops.matmul(_weights(query, key, attn_mask, scale), value)

    def forward(query, key, value, attn_mask, scale):
        scores = np.matmul(query * scale, np.swapaxes(key, -2, -1))
        if attn_mask is not None:
            scores = scores + attn_mask
        if not scores.size:
            return np.matmul(scores, value)
        top = np.maximum.reduce(scores, axis=-1, keepdims=True)
        scores -= np.where(top == -np.inf, 0, top)
        np.exp(scores, out=scores)
        total = np.add.reduce(scores, axis=-1, keepdims=True)
        out = np.matmul(scores, value)
        out /= np.where(total == 0, 1, total)
        return out

    def vjp(g, needs, query, key, value, attn_mask, scale):
        p = _weights(query, key, attn_mask, scale)
        by_value = ops.matmul(ops.transpose(p, -2, -1), g) if needs[2] else None
        if not (needs[0] or needs[1] or needs[3]):
            return None, None, by_value, None
        by_p = ops.matmul(g, ops.transpose(value, -2, -1))
        by_score = p * (by_p - ops.sum(by_p * p, -1, True))
        by_query = ops.matmul(by_score, key) * scale if needs[0] else None
        by_key = ops.matmul(ops.transpose(by_score, -2, -1), query * scale) if needs[1] else None
        return by_query, by_key, by_value, by_score if needs[3] else None


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
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        if key.shape[-3] * times != query.shape[-3] or key.shape[-3] != value.shape[-3]:
            raise ShapeError(
                f"{name}: the heads of key and value must be equal and divide query's {query.shape[-3]}, got "
                f"{key.shape[-3]} and {value.shape[-3]}"
            )
        if times > 1:
            key, value = (ops.repeat_interleave(t, times, -3) for t in (key, value))
    if is_causal:
        attn_mask = wrap(_additive(np.tril(np.ones((length, key.shape[-2]), bool)), query._array.dtype))
    elif attn_mask is not None and attn_mask.dtype.category == 0 and type(attn_mask._array) is not np.ndarray:
        attn_mask = ops.where(attn_mask, 0.0, -np.inf).to(query.dtype)
    elif attn_mask is not None and attn_mask.dtype.category == 0:
        attn_mask = wrap(_additive(attn_mask._array, query._array.dtype))
    fits = query.dim() == key.dim() == value.dim() == 4 and size == value.shape[-1]
    if fits and not dropout_p and (attn_mask is None or attn_mask._node is None):
        return ops.fused_attention(query, key, value, attn_mask, scale)
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
