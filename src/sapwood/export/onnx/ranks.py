"""Order in ONNX: medians, places in sorted sequences, running products and extremes, counts."""

from __future__ import annotations

import numpy as np

from sapwood import dtypes
from sapwood.errors import ExportError
from sapwood.export.onnx.exporter import Exporter, builds, in_words
from sapwood.export.onnx.kinds import fixed, index_of, result_type, sliced
from sapwood.graph.ir import Call


def _line(x: Exporter, call: Call, dim: int) -> tuple[str, int, int]:
    """Return the input with at least one dimension, the dimension counted from 0, and its length."""
    a, shape = x.operand(call.inputs[0]), call.inputs[0].shape
    if not shape:
        return str(x.op("Unsqueeze", a, x.ints(0))), 0, 1
    return str(a), dim % len(shape), shape[dim % len(shape)]


def _sorted(x: Exporter, name: str, dim: int, n: int) -> tuple[str, str]:
    values, index = x.op("TopK", name, x.ints(n), axis=dim, largest=0, sorted=1, outputs=2)
    return str(values), str(index)


def _is_float(call: Call) -> bool:
    return bool(call.inputs[0].dtype.is_floating_point)


@builds("median", "kthvalue")
def _median(x: Exporter, call: Call) -> list[str]:
    a, dim, n = _line(x, call, x.attr(call, "dim"))
    k = x.attr(call, "k") - 1 if call.op.name == "kthvalue" else (n - 1) // 2
    if call.op.name == "median" and _is_float(call):
        # One NaN makes the median NaN; kept out of the order, which ONNX leaves open for it.
        broken = x.op("IsNaN", a)
        order = x.op("Where", broken, x.op("CastLike", np.float32(np.inf), a), a)
        values, index = (sliced(x, v, dim, k, k + 1) for v in _sorted(x, order, dim, n))
        any_ = x.op("ReduceMax", x.op("Cast", broken, to=6), x.ints(dim), keepdims=1)
        first = x.op("ArgMax", x.op("Cast", broken, to=6), axis=dim, keepdims=1)
        lost = x.op("Cast", any_, to=9)
        values = x.op("Where", lost, x.op("CastLike", np.float32(np.nan), a), values)
        index = x.op("Where", lost, first, index)
    else:
        values, index = (sliced(x, v, dim, k, k + 1) for v in _sorted(x, a, dim, n))
    return [fixed(x, call, values), fixed(x, call, index)]


@builds("nanmedian")
def _nanmedian(x: Exporter, call: Call) -> list[str]:
    a, dim, n = _line(x, call, x.attr(call, "dim"))
    values, index = _nan_last(x, a, dim, n)
    return [fixed(x, call, values), fixed(x, call, index)]


def _nan_last(x: Exporter, a: str, dim: int, n: int) -> tuple[str, str]:
    """Return the median of what is not NaN along a dimension, which stays, and its place."""
    broken = x.op("IsNaN", a)
    order = x.op("Where", broken, x.op("CastLike", np.float32(np.inf), a), a)
    whole = x.op("ReduceSum", x.op("Cast", x.op("Not", broken), to=7), x.ints(dim), keepdims=1)
    middle = x.op("Div", x.op("Max", x.op("Sub", whole, np.int64(1)), np.int64(0)), np.int64(2))
    values, index = (x.op("GatherElements", v, middle, axis=dim) for v in _sorted(x, order, dim, n))
    empty = x.op("Equal", whole, np.int64(0))
    return str(x.op("Where", empty, x.op("CastLike", np.float32(np.nan), a), values)), str(index)


@builds("median_all", "nanmedian_all")
def _median_all(x: Exporter, call: Call) -> str:
    flat, n = x.op("Reshape", x.operand(call.inputs[0]), x.ints(-1)), int(np.prod(call.inputs[0].shape))
    if call.op.name == "nanmedian_all" and _is_float(call):
        return fixed(x, call, _nan_last(x, flat, 0, n)[0])
    broken, order = None, flat
    if _is_float(call):
        broken = x.op("IsNaN", flat)
        order = x.op("Where", broken, x.op("CastLike", np.float32(np.inf), flat), flat)
    values, _ = _sorted(x, order, 0, n)
    middle = sliced(x, values, 0, (n - 1) // 2, (n - 1) // 2 + 1)
    if broken is not None:
        lost = x.op("Cast", x.op("ReduceMax", x.op("Cast", broken, to=6), x.ints(0), keepdims=1), to=9)
        middle = str(x.op("Where", lost, x.op("CastLike", np.float32(np.nan), flat), middle))
    return fixed(x, call, middle)


@builds("mode")
def _mode(x: Exporter, call: Call) -> list[str]:
    """Count equal elements: of those that occur most the least, at its last place."""
    a, dim, n = _line(x, call, x.attr(call, "dim"))
    values, _ = _sorted(x, a, dim, n)
    same = x.op(
        "Cast", x.op("Equal", x.op("Unsqueeze", values, x.ints(dim + 1)), x.op("Unsqueeze", values, x.ints(dim))), to=7
    )
    best = x.op("ArgMax", x.op("ReduceSum", same, x.ints(dim + 1), keepdims=0), axis=dim, keepdims=1)
    value = x.op("GatherElements", values, best, axis=dim)
    hit = x.op("Cast", x.op("Equal", a, value), to=7)
    index = x.op("ArgMax", hit, axis=dim, keepdims=1, select_last_index=1)
    return [fixed(x, call, str(value)), fixed(x, call, str(index))]


def _behind(x: Exporter, name: str, dim: int, rank: int, step: int, fill: object) -> str:
    """Move along a dimension; what comes in is `fill`."""
    pads = [step if d == dim else 0 for d in range(rank)] + [-step if d == dim else 0 for d in range(rank)]
    return str(x.op("Pad", name, x.ints(*pads), fill))


@builds("cumprod")
def _cumprod(x: Exporter, call: Call) -> str:
    """Multiply with what lies 1, 2, 4, … places before."""
    t = result_type(call)
    a, dim, n = _line(x, call, x.attr(call, "dim"))
    a, rank, step = x.cast(a, call.inputs[0].dtype, t), max(1, len(call.inputs[0].shape)), 1
    while step < n:
        a = str(x.op("Mul", a, _behind(x, a, dim, rank, step, np.ones((), t.numpy))))
        step *= 2
    return fixed(x, call, a)


@builds("cummax", "cummin")
def _cummax(x: Exporter, call: Call) -> list[str]:
    """Choose between an element and what lies 1, 2, 4, … places before; of equals the later one, but NaN stays."""
    a, dim, n = _line(x, call, x.attr(call, "dim"))
    rank, step = max(1, len(call.inputs[0].shape)), 1
    shape = call.inputs[0].shape or (1,)
    line = np.arange(n).reshape([-1 if d == dim else 1 for d in range(rank)])
    index = x.constant(np.ascontiguousarray(np.broadcast_to(line, shape)))
    better = "GreaterOrEqual" if call.op.name == "cummax" else "LessOrEqual"
    numpy = call.inputs[0].dtype.numpy
    if numpy.kind == "f":
        worst = -np.inf if call.op.name == "cummax" else np.inf
    else:
        worst = np.iinfo(numpy).min if call.op.name == "cummax" else np.iinfo(numpy).max
    while step < n:
        before = _behind(x, a, dim, rank, step, np.asarray(worst, numpy))
        place = _behind(x, index, dim, rank, step, np.int64(0))
        keep = x.op(better, a, before)
        if numpy.kind == "f":
            keep = x.op("Or", keep, x.op("IsNaN", a))
        a, index = str(x.op("Where", keep, a, before)), str(x.op("Where", keep, index, place))
        step *= 2
    return [fixed(x, call, a), fixed(x, call, index)]


@builds("searchsorted")
def _searchsorted(x: Exporter, call: Call) -> str:
    """Count the elements that are less, or not greater."""
    line, value = x.operand(call.inputs[0]), x.operand(call.inputs[1], call.inputs[0].dtype)
    rank = len(call.inputs[0].shape)
    if len(call.inputs) > 2 and call.inputs[2] is not None:
        line = x.op("GatherElements", line, index_of(x, call.inputs[2]), axis=rank - 1)
    if rank > 1:
        line = x.op("Unsqueeze", line, x.ints(rank - 1))
    right = x.attr(call, "right") or x.attr(call, "side") == "right"
    value = x.op("Unsqueeze", value, x.ints(len(getattr(call.inputs[1], "shape", ()))))
    before = x.op("LessOrEqual" if right else "Less", line, value)
    count = x.op("ReduceSum", x.op("Cast", before, to=7), x.ints(-1), keepdims=0)
    return x.cast(str(count), dtypes.int64, result_type(call))


@builds("bincount")
def _bincount(x: Exporter, call: Call) -> str:
    t = result_type(call)
    index = index_of(x, call.inputs[0])
    if not call.inputs[0].shape[0]:
        raise ExportError(f"export: {in_words(call)} of no elements has no ONNX form")
    most = x.op("Add", x.op("ReduceMax", index, keepdims=0), np.int64(1))
    size = x.op("Unsqueeze", x.op("Max", most, np.int64(x.attr(call, "minlength"))), x.ints(0))
    zeros = x.op("ConstantOfShape", size, value=x.tensor(np.zeros(1, t.numpy)))
    weights = call.inputs[1] if len(call.inputs) > 1 else None
    given = x.constant(np.ones(call.inputs[0].shape, t.numpy)) if weights is None else x.operand(weights, t)
    return str(x.op("ScatterElements", zeros, index, given, axis=0, reduction="add"))
