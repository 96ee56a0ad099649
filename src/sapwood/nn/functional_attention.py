"""`multi_head_attention_forward`: the computation of MultiheadAttention on parameters that are given."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..errors import ShapeError
from . import functional as F

_NAME = "multi_head_attention_forward"


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """Return attended values and attention weights; shapes and masks as in `MultiheadAttention.forward`.

    Raises:
        AssertionError: the features of the query are not `embed_dim_to_check`, or do not divide into heads.
        ShapeError: a mask has the wrong shape.
    """
    batched = query.dim() == 3
    _check_ranks(query, key, value, key_padding_mask, attn_mask)
    if not batched:
        query, key, value = _unsqueezed(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    if width != embed_dim_to_check:
        raise AssertionError(f"{_NAME}: the query must have {embed_dim_to_check} features, got {width}")
    if width % num_heads:
        raise AssertionError(f"{_NAME}: {width} features cannot be split into {num_heads} heads")
    heads = batch * num_heads
    if is_causal and attn_mask is None:
        raise RuntimeError(f"{_NAME}: is_causal describes attn_mask, so it needs one")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        is_causal = False
    mask = _additive(attn_mask, query.dtype, "attn_mask")
    padding = _additive(key_padding_mask, query.dtype, "key_padding_mask")
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        weights = in_proj_weight
    q, k, v = _projected(query, key, value, weights, in_proj_bias)
    mask = _checked_mask(mask, heads, length, key.size(0))
    added = 0
    if bias_k is not None and bias_v is not None:
        k = ops.cat([k, bias_k.repeat(1, batch, 1)], 0)
        v = ops.cat([v, bias_v.repeat(1, batch, 1)], 0)
        added += 1
    # (L, N, E) to (N · heads, L, E / heads): every head of every sample is one matrix of a batch.
    q = _split(q, heads)
    k = _split(k, heads) if static_k is None else static_k
    v = _split(v, heads) if static_v is None else static_v
    if add_zero_attn:
        nothing = ops.zeros((heads, 1, width // num_heads), dtype=k.dtype)
        k = ops.cat([k, nothing], 1)
        v = ops.cat([v, nothing], 1)
        added += 1
    if added:
        mask = None if mask is None else F.pad(mask, (0, added))
        padding = None if padding is None else F.pad(padding, (0, added))
    mask = _with_padding(mask, padding, batch, num_heads, k.size(1))
    dropped = dropout_p if training else 0.0
    if need_weights:
        out, attention = _attend(q, k, v, mask, dropped)
        attention = attention.view(batch, num_heads, length, k.size(1))
        attention = attention.mean(dim=1) if average_attn_weights else attention
        attention = attention if batched else attention.squeeze(0)
    else:
        out, attention = _attend_without_weights(q, k, v, mask, dropped, is_causal, batch, num_heads), None
    out = out.transpose(0, 1).reshape(length * batch, width)
    out = F.linear(out, out_proj_weight, out_proj_bias)
    out = out.view(length, batch, out.size(1))
    return (out if batched else out.squeeze(1)), attention


def _unsqueezed(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """Add a batch of one; arguments that are the same tensor stay the same, for the packed projection."""
    made = {id(t): t.unsqueeze(1) for t in (query, key, value)}
    return made[id(query)], made[id(key)], made[id(value)]


def _check_ranks(query: Any, key: Any, value: Any, key_padding_mask: Any, attn_mask: Any) -> None:
    dims = query.dim()
    if dims not in (2, 3):
        raise AssertionError(f"{_NAME}: the query must have 2 or 3 dimensions, got {dims}")
    for name, t in (("key", key), ("value", value)):
        if t.dim() != dims:
            raise AssertionError(f"{_NAME}: {name} must have {dims} dimensions like the query, got {t.dim()}")
    if key_padding_mask is not None and key_padding_mask.dim() != dims - 1:
        raise AssertionError(f"{_NAME}: key_padding_mask must have {dims - 1} dimensions, got {key_padding_mask.dim()}")
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(f"{_NAME}: attn_mask must have 2 or 3 dimensions, got {attn_mask.dim()}")


def _additive(mask: Any, dtype: Any, name: str) -> Any:
    """Return a mask to add to the scores: minus infinity where a boolean mask is True."""
    if mask is None or mask.is_floating_point():
        return mask
    if str(mask.dtype) != "torch.bool":
        raise AssertionError(f"{_NAME}: {name} must be boolean or floating-point, got {mask.dtype}")
    return ops.zeros(tuple(mask.shape), dtype=dtype).masked_fill_(mask, float("-inf"))


def _checked_mask(mask: Any, heads: int, length: int, keys: int) -> Any:
    if mask is None:
        return None
    wanted = (length, keys) if mask.dim() == 2 else (heads, length, keys)
    if tuple(mask.shape) != wanted:
        raise ShapeError(f"{_NAME}: attn_mask must have shape {wanted}, got {tuple(mask.shape)}")
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _projected(query: Any, key: Any, value: Any, weights: Any, bias: Any) -> tuple[Any, Any, Any]:
    """Return query, key and value after their input projections."""
    if not isinstance(weights, tuple):
        if key.shape != value.shape:
            raise AssertionError(
                f"{_NAME}: key and value must have one shape, got {tuple(key.shape)} and {tuple(value.shape)}"
            )
        if query is key and key is value:
            # One product for all three.
            q, k, v = F.linear(query, weights, bias).chunk(3, -1)
            return q, k, v
        weights = weights.chunk(3)
    elif key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"{_NAME}: key and value must have the same length and batch")
    biases = (None, None, None) if bias is None else bias.chunk(3)
    q, k, v = (F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))
    return q, k, v


def _split(x: Any, heads: int) -> Any:
    length, batch, width = x.shape
    return x.reshape(length, heads, width * batch // heads).transpose(0, 1)


def _with_padding(mask: Any, padding: Any, batch: int, num_heads: int, keys: int) -> Any:
    """Return the sum of the attention mask and the padding of each sample, for every head."""
    if padding is None:
        return mask
    if tuple(padding.shape) != (batch, keys):
        raise AssertionError(f"{_NAME}: key_padding_mask must have shape {(batch, keys)}, got {tuple(padding.shape)}")
    padding = padding.view(batch, 1, 1, keys).expand(-1, num_heads, -1, -1).reshape(batch * num_heads, 1, keys)
    return padding if mask is None else mask + padding


def _attend(q: Any, k: Any, v: Any, mask: Any, dropout: float) -> tuple[Any, Any]:
    q = q * math.sqrt(1.0 / float(q.size(-1)))
    scores = ops.bmm(q, k.transpose(-2, -1)) if mask is None else ops.baddbmm(mask, q, k.transpose(-2, -1))
    attention = F.softmax(scores, dim=-1)
    if dropout > 0.0:
        attention = F.dropout(attention, p=dropout)
    return ops.bmm(attention, v), attention


def _attend_without_weights(
    q: Any, k: Any, v: Any, mask: Any, dropout: float, is_causal: bool, batch: int, num_heads: int
) -> Any:
    """Return the attended values by the op that never forms all weights, (N · heads, L, E / heads)."""
    length, keys, size = q.size(1), k.size(1), q.size(2)
    if mask is not None:
        per_head = mask.size(0) != 1 or mask.dim() != 3
        mask = mask.view(batch, num_heads, -1, keys) if per_head else mask.unsqueeze(0)
    q = q.view(batch, num_heads, length, size)
    k = k.view(batch, num_heads, keys, size)
    v = v.view(batch, num_heads, keys, size)
    out = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal)
    return out.reshape(batch * num_heads, length, size)
