"""Elements from and to indexed places in ONNX."""

from __future__ import annotations

import numpy as np

from sapwood import dtypes
from sapwood.errors import ExportError
from sapwood.export.onnx.exporter import Exporter, builds, in_words
from sapwood.export.onnx.kinds import index_of, result_type, sliced
from sapwood.graph.ir import Call


@builds("index_select")
def _index_select(x: Exporter, call: Call) -> str:
    index = index_of(x, call.inputs[1])
    if not call.inputs[1].shape:
        index = x.op("Unsqueeze", index, x.ints(0))
    if not call.inputs[0].shape:
        return str(x.op("Identity", x.operand(call.inputs[0])))
    return str(x.op("Gather", x.operand(call.inputs[0]), index, axis=x.attr(call, "dim")))


@builds("embedding")
def _embedding(x: Exporter, call: Call) -> str:
    return str(x.op("Gather", x.operand(call.inputs[0]), index_of(x, call.inputs[1]), axis=0))


@builds("gather")
def _gather(x: Exporter, call: Call) -> str:
    source, given = call.inputs
    a, index, dim = x.operand(source), index_of(x, given), x.attr(call, "dim")
    rank = len(source.shape)
    if not rank or not given.shape:
        a, index = (n if v.shape else x.op("Unsqueeze", n, x.ints(0)) for v, n in ((source, a), (given, index)))
        made = x.op("GatherElements", a, index, axis=0)
        return str(made if given.shape else x.op("Squeeze", made, x.ints(0)))
    for d in range(rank):
        if d != dim % rank and source.shape[d] != given.shape[d]:
            a = sliced(x, a, d, 0, given.shape[d])
    return str(x.op("GatherElements", a, index, axis=dim))


@builds("scatter_src", "scatter_value", "scatter_add")
def _scatter(x: Exporter, call: Call) -> str:
    t = result_type(call)
    if not call.inputs[0].shape or not call.inputs[1].shape:
        raise ExportError(f"export: {in_words(call)} of a number has no ONNX form")
    index = index_of(x, call.inputs[1])
    if call.op.name == "scatter_value":
        src = x.op("Expand", np.asarray(x.attr(call, "value"), t.numpy), x.ints(*call.inputs[1].shape))
    else:
        src = x.operand(call.inputs[2], t)
        for d, (a, b) in enumerate(zip(call.inputs[1].shape, call.inputs[2].shape)):
            if a != b:
                src = sliced(x, src, d, 0, a)
    reduction = "add" if call.op.name == "scatter_add" else None
    return str(
        x.op("ScatterElements", x.operand(call.inputs[0], t), index, src, axis=x.attr(call, "dim"), reduction=reduction)
    )


@builds("index")
def _indexed(x: Exporter, call: Call) -> str:
    indices, dims = call.inputs[1], list(x.attr(call, "dims"))
    a, rank = x.operand(call.inputs[0]), len(call.inputs[0].shape)
    masks = [v for v in indices if v.dtype is dtypes.bool_]
    if masks:
        return _masked(x, call, a)
    if len(indices) == 1:
        return str(x.op("Gather", a, index_of(x, indices[0]), axis=dims[0]))
    shape = np.broadcast_shapes(*(v.shape for v in indices))
    n = len(shape)
    rest = [d for d in range(rank) if d not in dims]
    if dims + rest != list(range(rank)):
        a = x.op("Transpose", a, perm=dims + rest)
    parts = [x.op("Unsqueeze", x.op("Expand", index_of(x, v), x.ints(*shape)), x.ints(n)) for v in indices]
    made = x.op("GatherND", a, x.op("Concat", *parts, axis=n))
    first = dims[0]
    if dims == list(range(first, first + len(dims))) and first:
        # Neighbouring indices put their dimensions where they stand themselves.
        order = [*range(n, n + first), *range(n), *range(n + first, n + len(rest))]
        made = x.op("Transpose", made, perm=order)
    return str(made)


def _masked(x: Exporter, call: Call, a: str) -> str:
    """Take what one mask of neighbouring dimensions names."""
    indices, dims = call.inputs[1], list(x.attr(call, "dims"))
    mask, shape = indices[0], call.inputs[0].shape
    if len(indices) > 1 or not mask.shape:
        raise ExportError(f"export: {in_words(call)}: a mask together with other indices has no ONNX form")
    first, n = dims[0], len(mask.shape)
    if n > 1:
        a = str(x.op("Reshape", a, x.ints(*shape[:first], -1, *shape[first + n :])))
    return str(x.op("Compress", a, x.op("Reshape", x.operand(mask), x.ints(-1)), axis=first))


@builds("slice_scatter", "select_scatter")
def _slice_scatter(x: Exporter, call: Call) -> str:
    t, shape = result_type(call), call.inputs[0].shape
    dim = x.attr(call, "dim") % len(shape)
    src = x.operand(call.inputs[1], t)
    if call.op.name == "select_scatter":
        places = [x.attr(call, "index") % shape[dim]]
        src = x.op("Unsqueeze", src, x.ints(dim))
    else:
        start, end = x.attr(call, "start") or 0, x.attr(call, "end")
        places = list(range(shape[dim])[start : shape[dim] if end is None else end : x.attr(call, "step")])
    line = np.array(places, np.int64).reshape([-1 if d == dim else 1 for d in range(len(shape))])
    index = np.broadcast_to(line, [len(places) if d == dim else n for d, n in enumerate(shape)])
    return str(x.op("ScatterElements", x.operand(call.inputs[0], t), np.ascontiguousarray(index), src, axis=dim))


@builds("index_copy", "index_add", "index_fill_value", "index_fill_tensor")
def _index_write(x: Exporter, call: Call) -> str:
    t, shape = result_type(call), call.inputs[0].shape
    if not shape or len(call.inputs[1].shape) != 1:
        raise ExportError(f"export: {in_words(call)} of a number has no ONNX form")
    dim = x.attr(call, "dim") % len(shape)
    n = call.inputs[1].shape[0]
    full = [n if d == dim else s for d, s in enumerate(shape)]
    column = x.op("Reshape", index_of(x, call.inputs[1]), x.ints(*(-1 if d == dim else 1 for d in range(len(shape)))))
    index = x.op("Expand", column, x.ints(*full))
    if call.op.name == "index_fill_value":
        src = x.op("Expand", np.asarray(x.attr(call, "value"), t.numpy), x.ints(*full))
    elif call.op.name == "index_fill_tensor":
        src = x.op("Expand", x.operand(call.inputs[2], t), x.ints(*full))
    else:
        src = x.operand(call.inputs[2], t)
    reduction = None
    if call.op.name == "index_add":
        reduction = "add"
        src = x.op("Mul", src, np.asarray(x.attr(call, "alpha"), t.numpy))
    return str(x.op("ScatterElements", x.operand(call.inputs[0], t), index, src, axis=dim, reduction=reduction))


@builds("scatter_reduce", "scatter_combine")
def _scatter_reduce(x: Exporter, call: Call) -> str:
    t = result_type(call)
    how = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul"}.get(
        x.attr(call, "reduce")
    )
    if how is None or call.attrs.get("include_self") is False:
        return x.composed(call)[0]
    if not call.inputs[0].shape:
        raise ExportError(f"export: {in_words(call)} of a number has no ONNX form")
    src = x.operand(call.inputs[2], t)
    for d, (a, b) in enumerate(zip(call.inputs[1].shape, call.inputs[2].shape)):
        src = sliced(x, src, d, 0, a) if a != b else src
    return str(
        x.op(
            "ScatterElements",
            x.operand(call.inputs[0], t),
            index_of(x, call.inputs[1]),
            src,
            axis=x.attr(call, "dim"),
            reduction=how,
        )
    )


@builds("index_put_at")
def _index_put(x: Exporter, call: Call) -> str:
    t, dims = result_type(call), list(x.attr(call, "dims"))
    indices = call.inputs[2]
    if any(v.dtype is dtypes.bool_ for v in indices) or dims != list(range(len(dims))):
        raise ExportError(f"export: {in_words(call)}: indices must be integers of the first dimensions")
    shape = np.broadcast_shapes(*(v.shape for v in indices))
    n = len(shape)
    parts = [x.op("Unsqueeze", x.op("Expand", index_of(x, v), x.ints(*shape)), x.ints(n)) for v in indices]
    rest = call.inputs[0].shape[len(dims) :]
    values = x.op("Expand", x.operand(call.inputs[1], t), x.ints(*shape, *rest))
    reduction = "add" if x.attr(call, "accumulate") else None
    return str(
        x.op("ScatterND", x.operand(call.inputs[0], t), x.op("Concat", *parts, axis=n), values, reduction=reduction)
    )


@builds("nonzero")
def _nonzero(x: Exporter, call: Call) -> str:
    if not call.inputs[0].shape:
        # A number that is not zero is one row of no places.
        one = x.op("Cast", x.op("Cast", x.operand(call.inputs[0]), to=9), to=7)
        size = x.op("Concat", x.op("Unsqueeze", one, x.ints(0)), x.ints(0), axis=0)
        return str(x.op("ConstantOfShape", size, value=x.tensor(np.zeros(1, np.int64))))
    return str(x.op("Transpose", x.op("NonZero", x.operand(call.inputs[0])), perm=[1, 0]))


@builds("masked_select")
def _masked_select(x: Exporter, call: Call) -> str:
    a, mask = call.inputs
    shape = np.broadcast_shapes(a.shape, mask.shape)
    whole = x.ints(*shape)
    flat = [
        x.op("Reshape", x.op("Expand", n, whole), x.ints(-1)) for n in (x.operand(a), x.operand(mask, dtypes.bool_))
    ]
    return str(x.op("Compress", flat[0], flat[1], axis=0))


@builds("unique2")
def _unique(x: Exporter, call: Call) -> list[str]:
    dim = x.attr(call, "dim")
    values, _, inverse, counts = x.op("Unique", x.operand(call.inputs[0]), outputs=4, axis=dim, sorted=1)
    if dim is None:
        inverse = x.op("Reshape", inverse, x.ints(*call.inputs[0].shape))
    return [str(values), str(inverse), str(counts)]
