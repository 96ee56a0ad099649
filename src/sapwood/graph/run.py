"""The meaning of a graph: its calls, one after the other, each by the op's own eager function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ArgumentError, CaptureError, ShapeError
from ..ops.slow import again
from ..tensor import Tensor
from .ir import Graph, Value, unflatten


def run(graph: Graph, *inputs: Any, data: Mapping[str, Tensor] | None = None) -> Any:
    """Compute a graph's outputs, in the structure of what the captured function returned.

    Gradients flow as in the program: parameters are the very tensors that were captured.

    Args:
        inputs: a tensor for each of `graph.inputs`, with its type and number of dimensions.
        data: other tensors for parameters, buffers and constants, by name.

    Raises:
        ArgumentError: too many or too few inputs, or something that is no tensor.
        ShapeError: an input of another shape or type than was captured.
        CaptureError: a parameter, buffer or constant has no data.
    """
    if len(inputs) != len(graph.inputs):
        names = ", ".join(v.name for v in graph.inputs)
        raise ArgumentError(f"run: graph {graph.name} takes {len(graph.inputs)} inputs ({names}), got {len(inputs)}")
    known: dict[str, Tensor] = {}
    for value, given in zip(graph.inputs, inputs):
        if not isinstance(given, Tensor):
            raise ArgumentError(f"run: input {value.name} must be a tensor, got {type(given).__name__}")
        if tuple(given.shape) != value.shape or given.dtype is not value.dtype:
            found = f"{given.dtype.name}[{', '.join(map(str, given.shape))}]"
            raise ShapeError(
                f"run: input {value.name} was captured as {value.type}, got {found}; capture again with such an example"
            )
        known[value.name] = given
    for value in (*graph.parameters, *graph.buffers, *graph.constants):
        tensor = (data or {}).get(value.name, value.data)
        if tensor is None:
            raise CaptureError(f"run: graph {graph.name} has no data for {value.role} {value.name}; pass it in data=")
        known[value.name] = tensor

    def of(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(of(m) for m in x)
        return known[x.name] if isinstance(x, Value) else x

    for call in graph.calls:
        result = again(call.op, tuple(of(x) for x in call.inputs), tuple(call.attrs.values()))
        several = bool(call.op.outs or call.op.many)
        for value, tensor in zip(call.results, result if several else (result,)):
            known[value.name] = tensor
    return unflatten(graph.structure, [known[v.name] for v in graph.outputs])


__all__ = ["run"]
