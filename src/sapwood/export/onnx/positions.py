"""Ops whose results are elements of their inputs at places that depend on the sizes alone.

Where an element comes from, the op itself says: it is run on the elements' numbers. The result is then one Gather with
a constant index; what adds up several elements is a scatter by the places of the op it reverses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sapwood.errors import ExportError
from sapwood.export.onnx.exporter import Exporter, builds, in_words
from sapwood.export.onnx.kinds import result_type
from sapwood.export.onnx.sizes import varies
from sapwood.graph.ir import Call, Value
from sapwood.ops.slow import again


def _refuse_dynamic(x: Exporter, call: Call) -> None:
    for name in call.attrs:
        x.attr(call, name)
    if varies([v.shape for v in call.values()]):
        raise ExportError(
            f"export: {in_words(call)}: it picks elements by places that depend on the sizes; these are dynamic"
        )


def _numbers(call: Call, attrs: tuple[Any, ...]) -> tuple[Any, list[Value]]:
    """Return where each element of the result comes from: 0 for nowhere, else its number among all inputs' elements."""
    import sapwood

    given: list[Value] = []
    count = 1

    def numbered(thing: Any) -> Any:
        nonlocal count
        if isinstance(thing, tuple):
            return tuple(numbered(t) for t in thing)
        if not isinstance(thing, Value):
            return thing
        given.append(thing)
        n = int(np.prod(thing.shape))
        # Doubles hold every number that occurs, and every op knows them.
        made = sapwood.arange(count, count + n, dtype=sapwood.float64).reshape(thing.shape)
        count += n
        return made

    found = again(call.op, tuple(numbered(v) for v in call.inputs), attrs)
    return found.detach().numpy().astype(np.int64), given


@builds(
    "as_strided", "as_strided_scatter", "slice_of", "copy_slices", "select_backward", "slice_backward", "rot90",
    "diagonal_backward", "diagonal_scatter", "unfold", "im2col", "embedded", "block_diagonal", "trace_back",
)  # fmt: skip
def by_places(x: Exporter, call: Call) -> str:
    made = _batched(x, call)
    if made is not None:
        return made
    _refuse_dynamic(x, call)
    if call.attrs.get("part"):
        raise ExportError(f"export: {in_words(call)}: ONNX's operators do not compute with complex numbers")
    places, given = _numbers(call, tuple(call.attrs.values()))
    return _gathered(x, call, places, given)


def _batched(x: Exporter, call: Call) -> str | None:
    """Write a call that does the same to each element of a batch whose size is dynamic; None for other calls."""
    shapes = [v.shape for v in (*call.values(), *call.results)]
    whole = any(varies(a) for a in call.attrs.values()) or id(call) in x.dynamic
    if len(shapes) != 2 or whole or not all(s and varies(s[0]) and not varies(s[1:]) for s in shapes):
        return None
    (given, made), attrs = shapes, call.attrs | ({"fill": 0} if "fill" in call.attrs else {})
    one, many = ((n, *given[1:]) for n in (1, 3))
    found = []
    for shape in (one, many):
        alone = Call(call.op, tuple(Value("", shape, v.dtype) if isinstance(v, Value) else v for v in call.inputs), {})
        try:
            found.append(_numbers(alone, tuple(attrs.values()))[0])
        except Exception:
            return None
    count = int(np.prod(given[1:]))
    parts = [found[0] + np.where(found[0] > 0, i * count, 0) for i in range(3)]
    if given[0] != made[0] or varies(given[0] - made[0]) or not np.array_equal(np.concatenate(parts), found[1]):
        return None
    flat, places = x.op("Reshape", x.operand(next(call.values())), x.ints(-1, count)), found[0][0]
    t = result_type(call)
    flat = x.cast(flat, next(call.values()).dtype, t)
    if (places == 0).any():
        fill = np.asarray(call.attrs.get("fill", 0), t.numpy)
        flat = x.op("Pad", flat, x.ints(0, 1, 0, 0), fill, mode="constant")
    else:
        places = places - 1
    return str(x.op("Gather", flat, places, axis=1))


@builds("shifted")
def _shifted(x: Exporter, call: Call) -> str:
    made = _batched(x, call)
    if made is not None:
        return made
    _refuse_dynamic(x, call)
    places, given = _numbers(call, tuple((call.attrs | {"fill": 0}).values()))
    return _gathered(x, call, places, given, call.attrs["fill"])


def _gathered(x: Exporter, call: Call, places: Any, given: list[Value], fill: Any = 0) -> str:
    t = result_type(call)
    flat = [x.op("Reshape", x.operand(v, t), x.ints(-1)) for v in given]
    if (places == 0).any():
        flat.insert(0, x.constant(np.full(1, fill, t.numpy)))
    else:
        places = places - 1
    whole = flat[0] if len(flat) == 1 else x.op("Concat", *flat, axis=0)
    return str(x.op("Gather", whole, places))


@builds("unfold_backward", "col2im")
def _added_up(x: Exporter, call: Call) -> str:
    """Add elements up where the op that took them apart found them."""
    import sapwood
    from sapwood import ops

    _refuse_dynamic(x, call)
    a, t = call.attrs, result_type(call)
    shape = call.results[0].shape
    numbers = sapwood.arange(1, 1 + int(np.prod(shape)), dtype=sapwood.float64).reshape(shape)
    if call.op.name == "col2im":
        places = ops.im2col(numbers, a["kernel_size"], a["dilation"], a["padding"], a["stride"])
    else:
        places = ops.unfold(numbers, a["dimension"], a["size"], a["step"])
    index = places.numpy().astype(np.int64).reshape(-1)
    # Place 0 takes what lay in the padding.
    zeros = x.constant(np.zeros(1 + int(np.prod(shape)), t.numpy))
    flat = x.op("Reshape", x.operand(call.inputs[0], t), x.ints(-1))
    total = x.op("ScatterElements", zeros, index, flat, axis=0, reduction="add")
    kept = x.op("Slice", total, x.ints(1), x.ints(1 << 62), x.ints(0))
    return str(x.op("Reshape", kept, x.ints(*shape)))


@builds("index_backward")
def _index_backward(x: Exporter, call: Call) -> str:
    t, dims, size = result_type(call), list(x.attr(call, "dims")), list(x.attr(call, "size"))
    indices = call.inputs[1]
    if any(v.dtype.name == "bool" for v in indices) or dims != list(range(len(dims))):
        raise ExportError(f"export: {in_words(call)}: indices must be integers of the first dimensions")
    shape = np.broadcast_shapes(*(v.shape for v in indices))
    n = len(shape)
    whole = x.ints(*shape)
    parts = [x.op("Unsqueeze", x.op("Expand", _int64(x, v), whole), x.ints(n)) for v in indices]
    zeros = x.op("ConstantOfShape", x.ints(*size), value=x.tensor(np.zeros(1, t.numpy)))
    given = x.operand(call.inputs[0], t)
    return str(x.op("ScatterND", zeros, x.op("Concat", *parts, axis=n), given, reduction="add"))


def _int64(x: Exporter, value: Value) -> str:
    from sapwood import dtypes

    return str(x.operand(value, dtypes.int64))


@builds("put")
def _put(x: Exporter, call: Call) -> str:
    t, shape = result_type(call), call.inputs[0].shape
    flat = x.op("Reshape", x.operand(call.inputs[0], t), x.ints(-1))
    index, source = (x.op("Reshape", n, x.ints(-1)) for n in (_int64(x, call.inputs[1]), x.operand(call.inputs[2], t)))
    how = "add" if x.attr(call, "accumulate") else None
    made = x.op("ScatterElements", flat, index, source, axis=0, reduction=how)
    return str(x.op("Reshape", made, x.ints(*shape)))


@builds("masked_scatter")
def _masked_scatter(x: Exporter, call: Call) -> str:
    """Take the source's elements one after the other for the places that the mask names."""
    from sapwood import dtypes

    t = result_type(call)
    a, mask, source = call.inputs
    shape = x.ints(*call.results[0].shape)
    names = x.op("Reshape", x.op("Expand", x.operand(mask, dtypes.bool_), shape), x.ints(-1))
    count = x.op("CumSum", x.op("Cast", names, to=7), np.int64(0))
    index = x.op("Max", x.op("Sub", count, np.int64(1)), np.int64(0))
    taken = x.op("Gather", x.op("Reshape", x.operand(source, t), x.ints(-1)), index)
    old = x.op("Reshape", x.op("Expand", x.operand(a, t), shape), x.ints(-1))
    return str(x.op("Reshape", x.op("Where", names, taken, old), shape))


@builds("max_unpool")
def _max_unpool(x: Exporter, call: Call) -> str:
    t, size = result_type(call), list(x.attr(call, "output_size"))
    shape, out = call.inputs[0].shape, call.results[0].shape
    lead = list(shape[: len(shape) - len(size)])
    index, values = (
        x.op("Reshape", n, x.ints(*lead, -1)) for n in (_int64(x, call.inputs[1]), x.operand(call.inputs[0], t))
    )
    zeros = x.constant(np.zeros([*lead, int(np.prod(size))], t.numpy))
    made = x.op("ScatterElements", zeros, index, values, axis=len(lead))
    return str(x.op("Reshape", made, x.ints(*out)))


@builds("gather_image")
def _gather_image(x: Exporter, call: Call) -> str:
    dims, shape, out = x.attr(call, "dims"), call.inputs[0].shape, call.results[0].shape
    lead = list(shape[: len(shape) - dims])
    a, index = (x.op("Reshape", n, x.ints(*lead, -1)) for n in (x.operand(call.inputs[0]), _int64(x, call.inputs[1])))
    return str(x.op("Reshape", x.op("GatherElements", a, index, axis=len(lead)), x.ints(*out)))


@builds("bias_gradient")
def _bias_gradient(x: Exporter, call: Call) -> str:
    rank = len(call.inputs[0].shape)
    axes = x.ints(*(d for d in range(rank) if d != 1))
    return str(x.op("ReduceSum", x.operand(call.inputs[0]), axes, keepdims=0))
