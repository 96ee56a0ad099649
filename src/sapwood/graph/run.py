"""The meaning of a graph: its calls, one after the other, each by the op's own eager function."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from ..autograd.mode import no_grad
from ..errors import ArgumentError, CaptureError, ShapeError
from ..ops.slow import again
from ..tensor import Tensor
from .ir import Graph, Stream, Value
from .structure import Fixed, Record, flatten, unflatten


def run(
    graph: Graph, *inputs: Any, data: Mapping[str, Tensor] | None = None, update: bool = False, **named: Any
) -> Any:
    """Compute a graph's outputs, in the structure of what the captured function returned.

    Gradients flow as in the program: parameters are the very tensors that were captured. Random numbers are drawn in
    the program's order: under the same seed they are the program's.

    Args:
        inputs: a tensor for each of `graph.inputs`, with its type and number of dimensions; or the arguments as the
            function takes them.
        data: other tensors for parameters, buffers and constants, by name.
        update: write over parameters, buffers, named constants and inputs what the program wrote (`graph.writes`).
        named: arguments by name.

    Raises:
        ArgumentError: too many or too few inputs, something that is no tensor, or another number or text than was
            captured.
        ShapeError: an input of another shape or type than was captured.
        CaptureError: a parameter, buffer, constant or generator is missing.
    """
    known: dict[str, Tensor] = {}
    for value, given in zip(graph.inputs, _inputs(graph, inputs, named)):
        if tuple(given.shape) != value.shape or given.dtype is not value.dtype:
            got = f"{given.dtype.name}[{', '.join(map(str, given.shape))}]"
            raise ShapeError(
                f"run: input {value.name} was captured as {value.type}, got {got}; capture again with such an example"
            )
        known[value.name] = given
    for value in (*graph.parameters, *graph.buffers, *graph.constants):
        tensor = (data or {}).get(value.name, value.data)
        if tensor is None:
            raise CaptureError(f"run: graph {graph.name} has no data for {value.role} {value.name}; pass it in data=")
        known[value.name] = tensor
    found = evaluate(graph, known)
    if update:
        _write(graph, known, found)
    return unflatten(graph.structure, [found[v.name] for v in graph.outputs])


def _inputs(graph: Graph, inputs: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """Return a tensor for each of the graph's inputs.

    Raises:
        ArgumentError: they are others than were captured.
    """
    names = ", ".join(v.name for v in graph.inputs)
    count = len(inputs) + len(named)
    if not named and count == len(graph.inputs) and all(isinstance(x, Tensor) for x in inputs):
        return list(inputs)
    unknown = [n for n in named if n not in graph.arguments]
    takes = ", ".join(graph.arguments)
    if unknown:
        raise ArgumentError(f"run: graph {graph.name} was captured without {unknown[0]}; it takes {takes}")
    if count != len(graph.arguments):
        nested = list(graph.arguments.values()) != list(range(len(graph.inputs)))
        ways = f"{len(graph.arguments)} arguments ({takes}) or " if nested else ""
        raise ArgumentError(f"run: graph {graph.name} takes {ways}{len(graph.inputs)} inputs ({names}), got {count}")
    given = dict(zip((n for n in graph.arguments if n not in named), inputs)) | named
    found: dict[int, Any] = {}
    for name, structure in graph.arguments.items():
        if name not in given:
            raise ArgumentError(f"run: graph {graph.name} takes {takes}; {name} is missing")
        _match(name, structure, given[name], found)
    return [found[i] for i in range(len(graph.inputs))]


def _match(name: str, structure: Any, thing: Any, found: dict[int, Any]) -> None:
    """Collect the tensors of an argument that must be built like a structure."""
    if isinstance(structure, int):
        if not isinstance(thing, Tensor):
            raise ArgumentError(f"run: input {name} must be a tensor, got {type(thing).__name__}")
        found[structure] = thing
        return
    leaves: list[Any] = []
    other = flatten(thing, leaves, lambda x: isinstance(x, Tensor))
    pairs = [(structure, other)]
    while pairs:
        a, b = pairs.pop()
        if isinstance(a, int) and isinstance(b, int):
            found[a] = leaves[b]
            continue
        a, b = (x.parts if isinstance(x, Record) else x for x in (a, b))
        if isinstance(a, dict) and isinstance(b, dict) and list(a) == list(b):
            pairs += [(a[k], b[k]) for k in a]
        elif type(a) is type(b) and isinstance(a, tuple | list) and len(a) == len(b):
            pairs += zip(a, b)
        elif not (isinstance(a, Fixed) and isinstance(b, Fixed) and repr(a.value) == repr(b.value)):
            shown = f"{a.value!r}" if isinstance(a, Fixed) else "another structure of tensors"
            raise ArgumentError(
                f"run: argument {name} was captured as {shown}; the graph holds for that only, capture again for "
                f"{thing!r:.80}"
            )


def evaluate(graph: Graph, known: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return every value of a graph by name, from those that go in."""
    found = dict(known)

    def of(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(of(m) for m in x)
        return found[x.name] if isinstance(x, Value) else x

    for call in graph.calls:
        attrs = tuple(_stream(graph, a) if type(a) is Stream else a for a in call.attrs.values())
        with no_grad() if call.no_grad else nullcontext():
            result = again(call.op, tuple(of(x) for x in call.inputs), attrs)
        several = bool(call.op.outs or call.op.many)
        for value, tensor in zip(call.results, result if several else (result,)):
            found[value.name] = tensor
    return found


def _stream(graph: Graph, stream: Stream) -> Any:
    generator = graph.generators.get(stream.name)
    if generator is None:
        raise CaptureError(
            f"run: graph {graph.name} has no generator {stream.name}; set graph.generators[{stream.name!r}]"
        )
    return generator


def _write(graph: Graph, known: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    """Write what the program wrote: all of it is read before the first write."""
    with no_grad():
        values = {name: found[value.name].detach().clone() for name, value in graph.writes.items()}
        for name, value in values.items():
            known[name].copy_(value)


__all__ = ["evaluate", "run"]
