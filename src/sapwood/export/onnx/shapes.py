"""Shapes and movements in ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sapwood import dtypes
from sapwood.export.onnx.exporter import Exporter, builds
from sapwood.export.onnx.kinds import fixed, index_of, result_type, sliced
from sapwood.export.onnx.sizes import Size, varies
from sapwood.graph.ir import Call, Value


@builds("view", "unsafe_view", "reshape_alias")
def _reshape(x: Exporter, call: Call) -> str:
    return str(
        x.op(
            "Reshape",
            x.operand(call.inputs[0]),
            x.shape(*call.attrs["size"]),
            # Else 0 would mean the input's own size.
            allowzero=1 if 0 in call.attrs["size"] else None,
        )
    )


@builds("in_place_of")
def _in_place_of(x: Exporter, call: Call) -> str:
    return str(x.op("Identity", x.operand(call.inputs[1])))


@builds("expand")
def _expand(x: Exporter, call: Call) -> str:
    wanted = list(call.attrs["size"])
    given = [1] * (len(wanted) - len(call.inputs[0].shape)) + list(call.inputs[0].shape)
    return str(
        x.op("Expand", x.operand(call.inputs[0]), x.ints(*(1 if _kept(n, g) else n for n, g in zip(wanted, given))))
    )


def _kept(wanted: int, given: int) -> bool:
    """Tell whether a size stays as it is, whatever the dynamic ones are."""
    return not varies(wanted - given) and wanted == given if wanted != -1 else True


@builds("permute")
def _permute(x: Exporter, call: Call) -> str:
    rank = len(call.inputs[0].shape)
    order = [d % rank for d in x.attr(call, "dims")]
    return str(x.op("Transpose" if order else "Identity", x.operand(call.inputs[0]), perm=order or None))


@builds("transpose", "t")
def _transpose(x: Exporter, call: Call) -> str:
    rank = len(call.inputs[0].shape)
    order = list(range(rank))
    if rank > 1:
        a, b = (0, 1) if call.op.name == "t" else (x.attr(call, "dim0") % rank, x.attr(call, "dim1") % rank)
        order[a], order[b] = order[b], order[a]
    return str(
        x.op("Transpose" if rank > 1 else "Identity", x.operand(call.inputs[0]), perm=order if rank > 1 else None)
    )


@builds("unsqueeze")
def _unsqueeze(x: Exporter, call: Call) -> str:
    return str(x.op("Unsqueeze", x.operand(call.inputs[0]), x.ints(x.attr(call, "dim"))))


@builds("squeeze")
def _squeeze(x: Exporter, call: Call) -> str:
    shape = call.inputs[0].shape
    dim = x.attr(call, "dim")
    dims = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    gone = [d % max(len(shape), 1) for d in dims if shape and shape[d] == 1]
    return (
        str(x.op("Squeeze", x.operand(call.inputs[0]), x.ints(*gone)))
        if gone
        else str(x.op("Identity", x.operand(call.inputs[0])))
    )


@builds("slice")
def _slice(x: Exporter, call: Call) -> str:
    n = call.inputs[0].shape[call.attrs["dim"]]
    start, end, step = call.attrs["start"] or 0, call.attrs["end"], x.attr(call, "step")
    if "end" in x.dynamic.get(id(call), {}) or "start" in x.dynamic.get(id(call), {}):
        x.attr(call, "end"), x.attr(call, "start")
    # Up to the end, whatever it is.
    whole = end is None or (end >= n and (not varies(n) or all(e >= m for e, m in zip(_runs(end, n), n.runs))))
    dims = x.ints(call.attrs["dim"])
    return str(
        x.op("Slice", x.operand(call.inputs[0]), x.ints(start), x.ints((1 << 62) if whole else end), dims, x.ints(step))
    )


def _runs(size: int, like: Any) -> tuple[int, ...]:
    return size.runs if isinstance(size, Size) else (size,) * len(like.runs)


@builds("select")
def _select(x: Exporter, call: Call) -> str:
    index, n = call.attrs["index"], call.inputs[0].shape[call.attrs["dim"]]
    if varies(index) and not varies(index - n):
        # Counted from the end.
        index = index - n
    if not varies(index):
        index = np.int64(index)
    else:
        index = x.number(index, dtypes.int64)
    return str(x.op("Gather", x.operand(call.inputs[0]), index, axis=x.attr(call, "dim")))


@builds("split", "split_with_sizes", "unbind")
def _split(x: Exporter, call: Call) -> list[str]:
    dim = x.attr(call, "dim")
    lengths = [1 if call.op.name == "unbind" else v.shape[dim] for v in call.results]
    parts = (
        x.op("Split", x.operand(call.inputs[0]), x.ints(*lengths), outputs=max(2, len(lengths)), axis=dim)
        if len(lengths) > 1
        else [x.op("Identity", x.operand(call.inputs[0]))]
    )
    if call.op.name == "unbind":
        return [str(x.op("Squeeze", p, x.ints(dim))) for p in parts]
    return [str(p) for p in parts]


@builds("cat", "stack")
def _cat(x: Exporter, call: Call) -> str:
    t = result_type(call)
    dim = x.attr(call, "dim")
    names = [
        x.operand(v, t)
        for v in call.inputs[0]
        if not (call.op.name == "cat" and v.shape == (0,) and len(call.results[0].shape) != 1)
    ]
    if call.op.name == "stack":
        names = [x.op("Unsqueeze", n, x.ints(dim)) for n in names]
    return str(x.op("Concat", *names, axis=dim))


@builds("flip")
def _flip(x: Exporter, call: Call) -> str:
    a = x.operand(call.inputs[0])
    dims = x.attr(call, "dims")
    for d in (dims,) if isinstance(dims, int) else dims:
        a = sliced(x, a, d, -1, -(1 << 62), -1)
    return str(x.op("Identity", a)) if not dims and dims != 0 else str(a)


@builds("roll")
def _roll(x: Exporter, call: Call) -> str:
    a = x.operand(call.inputs[0])
    shifts, dims = x.attr(call, "shifts"), x.attr(call, "dims")
    shape = list(call.inputs[0].shape)
    flat = dims is None or dims == ()
    if flat:
        a, dims, whole = x.op("Reshape", a, x.ints(-1)), (0,), [math.prod(shape)]
    else:
        dims, whole = (dims,) if isinstance(dims, int) else dims, shape
    for s, d in zip((shifts,) if isinstance(shifts, int) else shifts, dims):
        n = whole[d]
        k = (n - s % n) % n if n else 0
        if k:
            if varies(n):
                k = x.op("Mod", x.ints(-s), x.ints(n))
            k = k if isinstance(k, str) else x.ints(k)
            back = x.op("Slice", a, k, x.ints(1 << 62), x.ints(d))
            a = x.op("Concat", back, x.op("Slice", a, x.ints(0), k, x.ints(d)), axis=d)
    return str(x.op("Reshape", a, x.ints(*shape))) if flat else str(x.op("Identity", a))


@builds("repeat")
def _repeat(x: Exporter, call: Call) -> str:
    repeats = list(call.attrs["repeats"])
    if "repeats" in x.dynamic.get(id(call), {}):
        x.attr(call, "repeats")
    a = x.operand(call.inputs[0])
    more = len(repeats) - len(call.inputs[0].shape)
    if more:
        a = x.op("Unsqueeze", a, x.ints(*range(more)))
    return str(x.op("Tile", a, x.ints(*repeats)))


@builds("tril", "triu")
def _triangle(x: Exporter, call: Call) -> str:
    k = np.int64(x.attr(call, "diagonal"))
    return str(x.op("Trilu", x.operand(call.inputs[0]), k, upper=int(call.op.name == "triu")))


@builds("constant_pad_nd")
def _pad(x: Exporter, call: Call) -> str:
    pad = list(x.attr(call, "pad"))
    rank = len(call.inputs[0].shape)
    begins, ends = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        begins[rank - 1 - i], ends[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    t = result_type(call)
    value = np.asarray(x.attr(call, "value") or 0, t.numpy)
    return str(x.op("Pad", x.operand(call.inputs[0]), x.ints(*begins, *ends), value, mode="constant"))


@builds("zeros_like", "ones_like", "full_like", "fill_over", "zero_fill")
def _filled(x: Exporter, call: Call) -> str:
    t = result_type(call)
    a = x.operand(call.inputs[0])
    if call.op.name == "fill_over" and isinstance(call.inputs[1], Value):
        return str(x.op("Expand", x.operand(call.inputs[1], t), x.op("Shape", a)))
    value = {"zeros_like": 0, "ones_like": 1, "zero_fill": 0}.get(call.op.name)
    if value is None:
        value = x.attr(call, "fill_value") if call.op.name == "full_like" else call.inputs[1]
    return str(x.op("Expand", np.asarray(value, t.numpy), x.op("Shape", a)))


@builds("masked_fill_value", "masked_fill_tensor")
def _masked_fill(x: Exporter, call: Call) -> str:
    t = result_type(call)
    value = (
        x.operand(call.inputs[2], t) if call.op.name.endswith("tensor") else np.asarray(x.attr(call, "value"), t.numpy)
    )
    return str(x.op("Where", x.operand(call.inputs[1], dtypes.bool_), value, x.operand(call.inputs[0], t)))


@builds("pixel_shuffle", "pixel_unshuffle")
def _pixels(x: Exporter, call: Call) -> str:
    # SpaceToDepth orders channels otherwise, so both are reshapes around a transposition.
    down = call.op.name == "pixel_unshuffle"
    r = x.attr(call, "downscale_factor" if down else "upscale_factor")
    *batch, c, h, w = call.inputs[0].shape
    n = math.prod(batch)
    first = (n, c, h // r, r, w // r, r) if down else (n, c // (r * r), r, r, h, w)
    order = [0, 1, 3, 5, 2, 4] if down else [0, 1, 4, 2, 5, 3]
    a = x.op("Transpose", x.op("Reshape", x.operand(call.inputs[0]), x.ints(*first)), perm=order)
    return fixed(x, call, a)


@builds("copy")
def _copy(x: Exporter, call: Call) -> str:
    t = result_type(call)
    return str(x.op("Expand", x.operand(call.inputs[1], t), x.op("Shape", x.operand(call.inputs[0]))))


@builds("fill")
def _fill(x: Exporter, call: Call) -> str:
    return str(x.op("Expand", x.operand(call.inputs[1], result_type(call)), x.op("Shape", x.operand(call.inputs[0]))))


@builds("empty_like")
def _empty(x: Exporter, call: Call) -> str:
    return str(x.op("Expand", np.asarray(0, result_type(call).numpy), x.op("Shape", x.operand(call.inputs[0]))))


@builds("channel_shuffle")
def _shuffle(x: Exporter, call: Call) -> str:
    n, c, *rest = call.inputs[0].shape
    g, flat = x.attr(call, "groups"), math.prod(rest)
    a = x.op("Reshape", x.operand(call.inputs[0]), x.ints(n, g, c // g, flat))
    return fixed(x, call, x.op("Transpose", a, perm=[0, 2, 1, 3]))


@builds("squeeze_product")
def _squeeze_product(x: Exporter, call: Call) -> str:
    return fixed(x, call, x.operand(call.inputs[0]))


@builds("diagonal", "diagonal_copy", "trace")
def _diagonal(x: Exporter, call: Call) -> str:
    shape = call.inputs[0].shape
    rank = len(shape)
    offset = x.attr(call, "offset") if call.op.name != "trace" else 0
    first, second = (x.attr(call, "dim1") % rank, x.attr(call, "dim2") % rank) if call.op.name == "diagonal" else (0, 1)
    order = [d for d in range(rank) if d not in (first, second)]
    rows, columns = shape[first], shape[second]
    n = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    places = (np.arange(n) - min(offset, 0)) * columns + np.arange(n) + max(offset, 0)
    a = x.op("Transpose", x.operand(call.inputs[0]), perm=[*order, first, second])
    a = x.op("Reshape", a, x.ints(*(shape[d] for d in order), rows * columns))
    a = x.op("Gather", a, places.astype(np.int64), axis=rank - 2)
    return str(x.op("ReduceSum", a, keepdims=0)) if call.op.name == "trace" else str(a)


@builds("take")
def _take(x: Exporter, call: Call) -> str:
    return str(
        x.op("Gather", x.op("Reshape", x.operand(call.inputs[0]), x.ints(-1)), index_of(x, call.inputs[1]), axis=0)
    )
