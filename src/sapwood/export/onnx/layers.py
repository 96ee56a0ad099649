"""Products, normalisation, pooling, attention, recurrent layers and losses in ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sapwood import dtypes
from sapwood.errors import ExportError
from sapwood.export.onnx.exporter import Exporter, builds, in_words
from sapwood.export.onnx.kinds import result_type
from sapwood.export.onnx.positions import by_places
from sapwood.graph.ir import Call


@builds("mm", "bmm", "matmul", "mv", "dot")
def _matmul(x: Exporter, call: Call) -> str:
    return str(x.op("MatMul", *x.operands(call, result_type(call))))


@builds("addmm")
def _addmm(x: Exporter, call: Call) -> str:
    c, a, b = x.operands(call)
    alpha, beta = (float(x.attr(call, n)) for n in ("alpha", "beta"))
    # A transposed weight is the product's own business.
    made = next((n for n in x.nodes if b in n.output), None)
    if made is not None and made.op_type == "Transpose" and len(call.inputs[2].shape) == 2:
        return str(x.op("Gemm", a, made.input[0], c, alpha=alpha, beta=beta, transB=1))
    return str(x.op("Gemm", a, b, c, alpha=alpha, beta=beta))


@builds("addmv", "baddbmm")
def _added_product(x: Exporter, call: Call) -> str:
    t = result_type(call)
    c, a, b = x.operands(call, t)
    alpha, beta = (np.asarray(x.attr(call, n), t.numpy) for n in ("alpha", "beta"))
    return str(x.op("Add", x.op("Mul", c, beta), x.op("Mul", x.op("MatMul", a, b), alpha)))


@builds("convolution")
def _convolution(x: Exporter, call: Call) -> str:
    a, w, b = (x.operand(v) for v in call.inputs)
    pads = list(x.attr(call, "padding"))
    common_ = {
        "strides": list(x.attr(call, "stride")), "dilations": list(x.attr(call, "dilation")), "pads": pads * 2,
        "group": x.attr(call, "groups"),
    }  # fmt: skip
    batched = len(call.inputs[0].shape) == len(call.inputs[1].shape)
    a = a if batched else x.op("Unsqueeze", a, x.ints(0))
    if x.attr(call, "transposed"):
        r = x.op("ConvTranspose", a, w, b, output_padding=list(x.attr(call, "output_padding")), **common_)
    else:
        r = x.op("Conv", a, w, b, **common_)
    return str(r) if batched else str(x.op("Squeeze", r, x.ints(0)))


@builds("fused_attention")
def _attention(x: Exporter, call: Call) -> list[Any]:
    q, k, v, mask = call.inputs
    t = q.dtype
    scale = x.attr(call, "scale")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    rank = len(k.shape)
    turned = x.op("Transpose", x.operand(k), perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = x.op("Mul", x.op("MatMul", x.operand(q), turned), np.asarray(scale, t.numpy))
    low = np.asarray(-np.inf, t.numpy)
    if x.attr(call, "is_causal"):
        seen = np.tril(np.ones((q.shape[-2], k.shape[-2]), bool))
        scores = x.op("Where", seen, scores, low)
    if mask is not None:
        if mask.dtype is dtypes.bool_:
            scores = x.op("Where", x.operand(mask), scores, low)
        else:
            scores = x.op("Add", scores, x.operand(mask, t))
    sums = x.op("ReduceLogSumExp", scores, x.ints(-1), keepdims=0)
    return [str(x.op("MatMul", x.op("Softmax", scores, axis=-1), x.operand(v))), str(sums)]


@builds("layer_norm_of")
def _layer_norm(x: Exporter, call: Call) -> str:
    a, w, b = call.inputs
    shape = x.attr(call, "normalized_shape")
    scale = x.operand(w) if w is not None else x.constant(np.ones(shape, a.dtype.numpy))
    return str(
        x.op("LayerNormalization", x.operand(a), scale, x.operand(b), axis=-len(shape), epsilon=x.attr(call, "eps"))
    )


@builds("batch_norm_of")
def _batch_norm(x: Exporter, call: Call) -> str:
    a, w, b, mean, var = call.inputs
    n, t = mean.shape[0], a.dtype
    scale = x.operand(w) if w is not None else x.full(1, n, t)
    shift = x.operand(b) if b is not None else x.full(0, n, t)
    return str(
        x.op(
            "BatchNormalization",
            x.operand(a),
            scale,
            shift,
            x.operand(mean),
            x.operand(var),
            epsilon=x.attr(call, "eps"),
        )
    )


def _pooled(x: Exporter, call: Call, kind: str, outputs: int = 1, **more: Any) -> Any:
    a = x.operand(call.inputs[0])
    kernel = list(x.attr(call, "kernel_size"))
    batched = len(call.inputs[0].shape) == len(kernel) + 2
    a = a if batched else x.op("Unsqueeze", a, x.ints(0))
    r = x.op(
        kind, a, outputs=outputs, kernel_shape=kernel, strides=list(x.attr(call, "stride")) or kernel,
        pads=list(x.attr(call, "padding")) * 2, ceil_mode=int(bool(x.attr(call, "ceil_mode"))), **more,
    )  # fmt: skip
    r = [r] if outputs == 1 else r
    return [str(n) if batched else str(x.op("Squeeze", n, x.ints(0))) for n in r]


@builds("max_of_windows")
def _max_pool(x: Exporter, call: Call) -> Any:
    return _pooled(x, call, "MaxPool", dilations=list(x.attr(call, "dilation")))[0]


@builds("avg_pool")
def _avg_pool(x: Exporter, call: Call) -> Any:
    if x.attr(call, "divisor_override") or x.attr(call, "ceil_mode"):
        return x.composed(call)[0]
    return _pooled(x, call, "AveragePool", count_include_pad=int(bool(x.attr(call, "count_include_pad"))))[0]


@builds("adaptive_avg_pool")
def _adaptive(x: Exporter, call: Call) -> str:
    size = list(x.attr(call, "output_size"))
    shape = call.inputs[0].shape[-len(size) :]
    a = x.operand(call.inputs[0])
    rank = len(call.inputs[0].shape)
    wanted = [n if s is None else s for n, s in zip(shape, size)]
    if all(s == 1 for s in wanted):
        return str(x.op("ReduceMean", a, x.ints(*range(rank - len(size), rank)), keepdims=1))
    if any(n % s for n, s in zip(shape, wanted)):
        return x.composed(call)[0]
    batched = rank == len(size) + 2
    a = a if batched else x.op("Unsqueeze", a, x.ints(0))
    kernel = [n // s for n, s in zip(shape, wanted)]
    r = x.op("AveragePool", a, kernel_shape=kernel, strides=kernel)
    return str(r) if batched else str(x.op("Squeeze", r, x.ints(0)))


@builds("lstm_layer", "gru_layer", "rnn_layer")
def _recurrent(x: Exporter, call: Call) -> list[Any]:
    kind = {"lstm_layer": "LSTM", "gru_layer": "GRU", "rnn_layer": "RNN"}[call.op.name]
    lengths = call.attrs["lengths"]
    if len(set(lengths)) != 1 or "lengths" in x.dynamic.get(id(call), {}):
        raise ExportError(f"export: {in_words(call)} over packed sequences, or with dynamic steps, has no ONNX form")
    values = dict(zip(call.op.inputs, call.inputs))
    hidden = values["w_hh"].shape[1]
    # ONNX orders gates i o f c and z r h; here they are i f g o and r z n.
    order = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}[kind]
    rows = np.concatenate([np.arange(g * hidden, (g + 1) * hidden) for g in order])

    def ordered(name: str) -> str:
        return str(x.op("Unsqueeze", x.op("Gather", x.operand(values[name]), rows.astype(np.int64), axis=0), x.ints(0)))

    bias = None
    if values["b_ih"] is not None:
        bias = x.op("Concat", ordered("b_ih"), ordered("b_hh"), axis=1)
    starts = [_state(x, values[n]) for n in ("h0", "c0") if n in values]
    more: dict[str, Any] = {"direction": "reverse" if x.attr(call, "reverse") else "forward"}
    if kind == "GRU":
        more["linear_before_reset"] = 1
    if kind == "RNN":
        more["activations"] = ["Relu" if x.attr(call, "nonlinearity") == "relu" else "Tanh"]
    # The rows of all steps lie one after the other; ONNX has them as (steps, batch, features).
    rows_in = x.op("Reshape", x.operand(values["input"]), x.ints(len(lengths), -1, values["input"].shape[1]))
    operands = [rows_in, ordered("w_ih"), ordered("w_hh"), bias, None, *starts]
    made = x.op(kind, *operands, outputs=len(starts) + 1, hidden_size=hidden, **more)
    out = str(x.op("Reshape", made[0], x.ints(-1, hidden)))
    states = [str(x.op("Squeeze", n, x.ints(0))) for n in made[1:]]
    return [out, *states, *([None] * (len(call.results) - 1 - len(states)))]


def _state(x: Exporter, value: Any) -> Any:
    """Return a first state, or None for zeros, which ONNX begins with for whatever batch."""
    if value.role == "constant" and not value.data.any():
        return None
    return x.op("Unsqueeze", x.operand(value), x.ints(0))


@builds("nll_loss")
def _nll_loss(x: Exporter, call: Call) -> str:
    a, target, weight = call.inputs
    names = [x.operand(a), x.operand(target)]
    single = len(a.shape) < 2
    if single:
        names = [x.op("Unsqueeze", n, x.ints(0)) for n in names]
    how = x.attr(call, "reduction")
    made = x.op(
        "NegativeLogLikelihoodLoss", *names, x.operand(weight), ignore_index=x.attr(call, "ignore_index"), reduction=how
    )
    return str(x.op("Squeeze", made, x.ints(0)) if single and how == "none" else made)


@builds("mse_loss")
def _mse(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a, b = x.operands(call, t)
    d = x.op("Sub", a, b)
    square = x.op("Mul", d, d)
    how = x.attr(call, "reduction")
    return (
        str(square) if how == "none" else str(x.op("ReduceMean" if how == "mean" else "ReduceSum", square, keepdims=0))
    )


@builds("index_pad", "circular_pad")
def _padded(x: Exporter, call: Call) -> str:
    pad, rank = list(x.attr(call, "pad")), len(call.inputs[0].shape)
    begins, ends = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        begins[rank - 1 - i], ends[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    mode = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}.get(x.attr(call, "mode") or "circular")
    if mode is None or any(n < 0 for n in pad):
        return by_places(x, call)
    return str(x.op("Pad", x.operand(call.inputs[0]), x.ints(*begins, *ends), None, mode=mode))


@builds("max_pool_with_indices")
def _max_pool_indices(x: Exporter, call: Call) -> list[Any]:
    values, places = _pooled(x, call, "MaxPool", 2, dilations=list(x.attr(call, "dilation")))
    # ONNX counts places over the whole batch; here they are counted within a channel.
    plane = math.prod(call.inputs[0].shape[-len(x.attr(call, "kernel_size")) :])
    return [values, str(x.op("Mod", places, np.int64(plane)))]
