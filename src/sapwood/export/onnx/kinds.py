"""Element types of calls, and shapes: what all builders share."""

from __future__ import annotations

from typing import Any

from sapwood import dtypes
from sapwood.export.onnx.exporter import Exporter
from sapwood.graph.ir import Call, Value

F32 = dtypes.float32


def result_type(call: Call) -> Any:
    """Return the element type of a call's first result."""
    return call.results[0].dtype


def common(call: Call) -> Any:
    """Return the type that operands of different types are computed in."""
    import sapwood

    found = None
    for v in call.inputs:
        if isinstance(v, Value):
            found = v.dtype if found is None else sapwood.promote_types(found, v.dtype)
    for v in call.inputs:
        if isinstance(v, float) and found is not None and not (found.is_floating_point or found.is_complex):
            found = sapwood.get_default_dtype()
    return found


def wide(x: Exporter, name: str, dtype: Any, function: Any) -> str:
    """Apply a function that ONNX has for float32 only, by way of it."""
    return x.cast(function(x.cast(name, dtype, F32)), F32, dtype)


def index_of(x: Exporter, value: Any) -> str:
    return str(x.operand(value, dtypes.int64))


def sliced(x: Exporter, name: str, dim: int, start: int, end: int, step: int = 1) -> str:
    return str(x.op("Slice", name, x.ints(start), x.ints(end), x.ints(dim), x.ints(step)))


def fixed(x: Exporter, call: Call, name: str) -> str:
    """Write a reshape to the shape of the result; one dynamic size of it is inferred."""
    shape = list(call.results[0].shape)
    return str(x.op("Reshape", name, x.shape(*shape), allowzero=1 if 0 in shape else None))


def dims_of(dim: Any, rank: int) -> list[int]:
    return (
        list(range(rank))
        if dim is None or dim == ()
        else [dim % rank]
        if isinstance(dim, int)
        else [d % rank for d in dim]
    )
