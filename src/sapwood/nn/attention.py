"""Attention of several heads (arXiv:1706.03762)."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..tensor import Parameter, Tensor
from . import init
from .functional_attention import multi_head_attention_forward
from .linear import NonDynamicallyQuantizableLinear
from .module import Module


class MultiheadAttention(Module):
    """Let every query attend to the keys, in several subspaces at once.

        heads = softmax(q kᵀ / sqrt(head_dim) + mask) v,   output = [heads] Wᵀ + b

    Args:
        embed_dim: features of queries and outputs.
        num_heads: number of heads; embed_dim must be a multiple.
        dropout: probability with which attention weights are zeroed in training.
        bias: whether the projections have biases.
        add_bias_kv: add one learned key and value.
        add_zero_attn: add one key and value of zeros.
        kdim: features of the keys, embed_dim if None.
        vdim: features of the values, embed_dim if None.
        batch_first: whether inputs are (N, L, E) instead of (L, N, E).
        device: where the parameters live.
        dtype: their element type.
    """

    __constants__ = ["batch_first"]
    in_proj_weight: Any
    bias_k: Any
    bias_v: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"MultiheadAttention: sizes must be positive, got {embed_dim} and {num_heads} heads")
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(f"MultiheadAttention: embed_dim={embed_dim} cannot be split into {num_heads} heads")

        def made(*shape: int) -> Parameter:
            return Parameter(ops.empty(shape, device=device, dtype=dtype))

        if self._qkv_same_embed_dim:
            self.in_proj_weight = made(3 * embed_dim, embed_dim)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = made(embed_dim, embed_dim)
            self.k_proj_weight = made(embed_dim, self.kdim)
            self.v_proj_weight = made(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", made(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.bias_k = made(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = made(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            init.xavier_uniform_(self.q_proj_weight)
            init.xavier_uniform_(self.k_proj_weight)
            init.xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"_qkv_same_embed_dim": True, **state})

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Any]:
        """Return the attended values, and the attention weights if `need_weights`.

        Args:
            query: (L, N, E), (N, L, E) with batch_first, or (L, E).
            key: the same with S keys of kdim features.
            value: the same with S values of vdim features.
            key_padding_mask: (N, S) or (S,): True, or minus infinity, where a key is padding.
            need_weights: whether to return the weights.
            attn_mask: (L, S) or (N · heads, L, S): True, or minus infinity, where attention is forbidden.
            average_attn_weights: average the returned weights over the heads.
            is_causal: a hint that attn_mask forbids looking ahead.
        """
        q: Any = query
        k: Any = key
        v: Any = value
        swap = self.batch_first and q.dim() == 3
        if swap:
            q, k, v = _batch_second(q, k, v)
        weights: dict[str, Any] = {}
        if not self._qkv_same_embed_dim:
            weights = {
                "use_separate_proj_weight": True,
                "q_proj_weight": self.q_proj_weight,
                "k_proj_weight": self.k_proj_weight,
                "v_proj_weight": self.v_proj_weight,
            }
        out, attention = multi_head_attention_forward(
            q,
            k,
            v,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            **weights,
        )
        return (out.transpose(1, 0) if swap else out), attention


def _batch_second(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Swap the first two dimensions; inputs that are the same tensor stay the same tensor."""
    swapped: dict[int, Any] = {}
    for t in (q, k, v):
        if id(t) not in swapped:
            swapped[id(t)] = t.transpose(1, 0)
    return swapped[id(q)], swapped[id(k)], swapped[id(v)]
