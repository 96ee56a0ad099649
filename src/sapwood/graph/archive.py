"""Graph and weights in one file: the graph as text beside its tensors, in the format of every other saved file."""

from __future__ import annotations

from typing import Any

from ..errors import LoadError
from ..random import Generator
from .capture import capture
from .ir import Graph
from .text import parse

MARK = "sapwood.graph"
VERSION = 1


def packed(graph: Graph) -> dict[str, Any]:
    """Return a graph as plain data that `save` writes."""
    tensors = {v.name: v.data.detach() for v in graph.sources() if v.data is not None}
    states = {name: generator.get_state() for name, generator in graph.generators.items()}
    return {MARK: VERSION, "graph": graph.text(), "tensors": tensors, "generators": states}


def of_module(module: Any, example: Any) -> dict[str, Any]:
    """Return the graph of a module on an example (a tensor, or a tuple of arguments) as plain data."""
    return packed(capture(module, *(example if isinstance(example, tuple) else (example,))))


def save(graph: Graph, f: Any) -> None:
    """Write a captured graph with its parameters, buffers and constants."""
    from ..serialization import save as write

    write(packed(graph), f)


def load(f: Any) -> Graph:
    """Read a graph that `save`, or `sapwood.save(module, f, example=…)`, wrote. Nothing of the program is needed.

    Raises:
        LoadError: the file holds something else, or is of a newer version.

    Example:
        >>> import io, sapwood
        >>> file = io.BytesIO()
        >>> sapwood.save(sapwood.nn.ReLU(), file, example=sapwood.ones(2))
        >>> sapwood.graph.load(file)(sapwood.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """
    from ..serialization import load as read

    data = read(f)
    if not isinstance(data, dict) or MARK not in data:
        raise LoadError("graph.load: the file holds no graph; save one with sapwood.save(module, path, example=…)")
    if data[MARK] != VERSION:
        raise LoadError(f"graph.load: the graph is of version {data[MARK]}, this is a reader of version {VERSION}")
    tensors = data["tensors"]
    graph = parse(data["graph"], tensors)
    for value in graph.sources():
        if value.requires_grad and value.data is not None:
            value.data.requires_grad_()
    for name, state in data.get("generators", {}).items():
        graph.generators[name] = Generator()
        graph.generators[name].set_state(state)
    return graph


__all__ = ["load", "of_module", "packed", "save"]
