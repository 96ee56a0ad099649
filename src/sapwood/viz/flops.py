"""Floating-point operations of a call: what the work of a layer is, whatever computes it.

A multiplication and an addition count one each, so a product of (n, k) and (k, m) counts 2·n·k·m; a gate of a recurrent
layer counts six. Any other op counts one for each element it makes or, reducing, reads; movements and views count none.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

__all__ = ["flops_of"]


def _size(x: Any) -> int:
    return prod(x.shape) if hasattr(x, "shape") else 0


def _convolution(inputs: Any, outs: Any) -> int:
    # Each number of the result (transposed: of the input) meets a filter's taps.
    x, weight, bias = inputs[:3]
    spatial = prod(weight.shape[2:])
    one_side = outs[0] if x.shape[1] >= weight.shape[1] and outs[0].shape[1] == weight.shape[0] else x
    return 2 * _size(one_side) * weight.shape[1] * spatial + (0 if bias is None else _size(outs[0]))


def _attention(inputs: Any, outs: Any) -> int:
    q, k, v = inputs[:3]
    pairs = prod(q.shape[:-1]) * k.shape[-2]
    return 2 * pairs * (q.shape[-1] + v.shape[-1]) + 5 * pairs


def _recurrent(first: int) -> Callable[[Any, Any], int]:
    """Return the rule of a recurrent layer whose weights begin at an input: two products a step, and its gates."""

    def rule(inputs: Any, outs: Any) -> int:
        w_ih, w_hh = inputs[first : first + 2]
        steps = prod(inputs[0].shape[:-1])
        return steps * (2 * _size(w_ih) + 2 * _size(w_hh) + 6 * w_hh.shape[0])

    return rule


def _matmul(inputs: Any, outs: Any) -> int:
    # Each number of the result is a product of two vectors as long as the inner size.
    return 2 * _size(outs[0]) * inputs[0].shape[-1]


RULES: dict[str, Callable[[Any, Any], int]] = {
    "mm": _matmul,
    "bmm": _matmul,
    "matmul": _matmul,
    "mv": lambda i, o: 2 * _size(i[0]),
    "vdot": lambda i, o: 2 * _size(i[0]),
    "addr": lambda i, o: 3 * _size(o[0]),
    "cdist": lambda i, o: 3 * _size(o[0]) * i[0].shape[-1],
    "dot": lambda i, o: 2 * _size(i[0]),
    "addmm": lambda i, o: 2 * _size(o[0]) * i[1].shape[1] + _size(o[0]),
    "addmv": lambda i, o: 2 * _size(i[1]) + _size(o[0]),
    "baddbmm": lambda i, o: 2 * _size(o[0]) * i[1].shape[2] + _size(o[0]),
    "addbmm": lambda i, o: 2 * _size(i[1]) * i[2].shape[2] + _size(o[0]),
    "trilinear": lambda i, o: 2 * prod(i[0].shape[:-1]) * _size(i[1]),
    "convolution": _convolution,
    "fused_attention": _attention,
    "lstm_layer": _recurrent(3),
    "gru_layer": _recurrent(2),
    "rnn_layer": _recurrent(2),
}
FREE = ("view", "movement")


def flops_of(op: Any, inputs: Any, outs: Any) -> int:
    """Return the floating-point operations of a call, given its operands and results."""
    rule = RULES.get(op.name)
    if rule is not None:
        return rule(inputs, outs)
    if op.kind in FREE or op.view or not any(getattr(o, "dtype", None) and o.dtype.is_floating_point for o in outs):
        return 0
    read = max((_size(x) for x in inputs if not isinstance(x, tuple)), default=0)
    return max(read, *(_size(o) for o in outs)) if op.kind in ("reduction", "fused") else max(_size(o) for o in outs)
