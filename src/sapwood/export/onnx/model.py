"""A function or module as an ONNX model: what is captured, written by the exporter, put together and written out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.errors import ArgumentError, ExportError
from sapwood.export.onnx import (  # noqa: F401 - each of them fills the table of builders
    draws,
    elements,
    images,
    layers,
    maths,
    places,
    positions,
    ranks,
    reductions,
    shapes,
    special,
)
from sapwood.export.onnx.exporter import Exporter, in_words
from sapwood.export.onnx.functions import DOMAIN, Folder
from sapwood.export.onnx.sizes import Runs, axes_of
from sapwood.export.onnx.trial import tried
from sapwood.export.onnx.writer import CONSTANT, TYPES, package
from sapwood.files import atomic_file
from sapwood.graph.capture import capture
from sapwood.graph.ir import Graph, Value

__all__ = ["export"]

MOST = 2**31 - 2**20
"""Bytes that ONNX keeps in one file."""


def export(
    function: Any,
    args: Any = (),
    f: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int = 21,
    dynamic_axes: Mapping[str, Any] | None = None,
    functions: bool = False,
    **ignored: Any,
) -> Any:
    """Export a module or a function as an ONNX model.

    The function is run once on the example. Parameters become initialisers under their dotted names; every edge has its
    type and shape, every node the user's line and its module.

    Args:
        function: a module, a function of tensors, or a `sapwood.graph.Graph`.
        args: the example: a tensor, or a tuple of arguments.
        f: the file to write, whole or not at all; None only returns the model.
        kwargs: keyword arguments of the example.
        input_names, output_names: what the model's inputs and outputs are called.
        opset_version: of the standard operators.
        dynamic_axes: by input name, dimensions that may have any size: {"x": {0: "batch"}} or {"x": [0]}. The function
            is run on three more examples with other sizes there, to see what depends on them.
        functions: write modules as functions of the model, nested as they are; calls that do the same share one.
        ignored: further arguments of PyTorch's function, which change nothing here.

    Returns:
        The onnx.ModelProto.

    Raises:
        ExportError: an op has no ONNX form, or depends on a dynamic size in a way that ONNX cannot follow.
        MissingError: the package onnx is not installed.

    Example:
        >>> import sapwood
        >>> from sapwood.export.onnx import export
        >>> model = export(sapwood.nn.Linear(3, 2), sapwood.ones(1, 3))
        >>> [n.op_type for n in model.graph.node]
        ['Gemm']
    """
    onnx = package()
    given = args if isinstance(args, tuple) else (args,)
    graph = function if isinstance(function, Graph) else capture(function, *given, **(kwargs or {}))
    _check(graph, input_names, output_names)
    x = Exporter(opset_version)
    axes = axes_of(graph, input_names, dynamic_axes)
    if axes:
        x.runs = Runs(graph, function, given, dict(kwargs or {}), axes)
        x.dynamic = x.runs.changes
    _take(x, graph, input_names)
    scopes = _calls(x, graph)
    outputs = _outputs(x, graph, output_names)
    x.nodes = x.heads + x.nodes
    _drop_unused(x, outputs)
    opsets, extra = [onnx.helper.make_opsetid("", opset_version)], {}
    if functions:
        folder = _folder(x, graph, scopes, {word for named in axes.values() for word in named.values()})
        x.nodes = folder.fold(x.nodes, sorted(outputs))
        _drop_unused(x, outputs)
        if folder.functions:
            opsets.append(onnx.helper.make_opsetid(DOMAIN, 1))
            extra["functions"] = folder.functions
    made = onnx.helper.make_graph(
        x.nodes,
        graph.name,
        [_info(x, x.known[v.name], v) for v in graph.inputs],
        [_info(x, name, v) for name, v in outputs.items()],
        [onnx.numpy_helper.from_array(np.asarray(a, order="C"), name) for name, a in x.initializers.items()],
        value_info=_inner(x, graph, outputs),
    )
    model = onnx.helper.make_model(made, opset_imports=opsets, producer_name="sapwood", **extra)
    model.ir_version = min(model.ir_version, 10)
    if x.runs is not None:
        tried(onnx, model, x.runs)
    if f is not None:
        _write(onnx, model, Path(f))
    return model


def _check(graph: Graph, input_names: Any, output_names: Any) -> None:
    """Refuse names that do not fit, and what no model can be of this graph."""
    for names, values, what in ((input_names, graph.inputs, "input"), (output_names, graph.outputs, "output")):
        if names is not None and len(names) != len(values):
            raise ArgumentError(f"export: {len(names)} {what}_names for {len(values)} {what}s")
    if len({id(v) for v in graph.outputs}) != len(graph.outputs):
        raise ExportError("export: one tensor is returned twice; ONNX names each output once")
    if any("random" in w for w in graph.warnings):
        raise ExportError(
            "export: random numbers were drawn, which would be the same in every run of the model; call model.eval() "
            "first, or hand them in as an input"
        )


def _take(x: Exporter, graph: Graph, names: Sequence[str] | None) -> None:
    """Give the exporter what goes into the graph: inputs by name, and the arrays that calls read."""
    for i, value in enumerate(graph.inputs):
        x.known[value.name] = names[i] if names else value.name
        x.inputs.append(x.known[value.name])
    uses = graph.uses()
    for i, value in enumerate(graph.constants):
        if uses[value.name] or value in graph.outputs:
            x.take(value, [o.constants[i] for o in x.runs.others] if x.runs else [])
    for value in (*graph.parameters, *graph.buffers):
        if uses[value.name] or value in graph.outputs:
            x.known[value.name] = value.name
            x.initializers[value.name] = value.data.detach().numpy()


def _calls(x: Exporter, graph: Graph) -> dict[int, Any]:
    """Write all calls; return the modules of each node, by its identity."""
    scopes: dict[int, Any] = {}
    for call in graph.calls:
        first = len(x.nodes)
        x.call(call)
        for node in x.nodes[first:]:
            scopes[id(node)] = call.scope
            for scope in call.scope[-1:]:
                entry = node.metadata_props.add()
                entry.key, entry.value = "module", str(scope)
    return scopes


def _outputs(x: Exporter, graph: Graph, names: Sequence[str] | None) -> dict[str, Value]:
    """Return the outputs by what the model calls them; one that is an input or a parameter is copied."""
    found: dict[str, Value] = {}
    for i, value in enumerate(graph.outputs):
        wanted = names[i] if names else value.name
        if value.name not in x.known:
            raise ExportError(f"export: the output {value.name} is a result of {in_words(value.call)} that ONNX lacks")
        here = x.known[value.name]
        if here != wanted and value.role == "result" and x.free(here, wanted):
            x.rename(here, wanted)
            here = wanted
        if here != wanted or value.role != "result":
            wanted = wanted if wanted != here else f"{wanted}_out"
            x.doc = ""
            x.nodes.append(x.onnx.helper.make_node("Identity", [here], [wanted]))
        found[wanted] = value
    return found


def _folder(x: Exporter, graph: Graph, scopes: Mapping[int, Any], symbols: set[str]) -> Folder:
    """Return what folds modules into functions."""
    constants = {n: a for n, a in x.initializers.items() if n.startswith(CONSTANT)}
    typed = {x.known[v.name]: v for v in graph.values() if v.name in x.known and not v.dtype.is_complex}
    every = {n: _info(x, n, v) for n, v in typed.items()}
    return Folder(x.onnx, x.opset, scopes, constants, every, frozenset(symbols))


def _inner(x: Exporter, graph: Graph, outputs: Mapping[str, Value]) -> list[Any]:
    """Return types and shapes of the values between the nodes."""
    made = {n for node in x.nodes for n in node.output} - set(outputs)
    return [_info(x, v.name, v) for c in graph.calls for v in c.results if v.name in made]


def _info(x: Exporter, name: str, value: Value) -> Any:
    if value.dtype.is_complex:
        raise ExportError(
            f"export: {value.name} is {value.dtype.name}; ONNX's operators do not compute with complex numbers"
        )
    shape = x.sizes(value) or list(value.shape)
    return x.onnx.helper.make_tensor_value_info(name, TYPES[value.dtype.name], shape)


def _drop_unused(x: Exporter, outputs: Mapping[str, Value]) -> None:
    """Remove nodes whose results nothing reads, and constants that are left over."""
    wanted = set(outputs)
    kept = []
    for node in reversed(x.nodes):
        if any(n in wanted for n in node.output):
            kept.append(node)
            wanted.update(node.input)
    x.nodes = kept[::-1]
    x.initializers = {n: a for n, a in x.initializers.items() if n in wanted}


def _write(onnx: Any, model: Any, path: Path) -> None:
    """Write a model, whole or not at all; weights beyond ONNX's 2 GB go into a file beside it."""
    if model.ByteSize() < MOST:
        with atomic_file(path) as file:
            file.write(model.SerializeToString())
        return
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        beside = f"{path.name}.data"
        onnx.save(model, os.path.join(folder, path.name), save_as_external_data=True, location=beside)
        # The weights first: a model without them could not be read.
        for name in (beside, path.name):
            os.replace(os.path.join(folder, name), path.parent / name)
