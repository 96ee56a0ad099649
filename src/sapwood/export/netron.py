"""Captured graphs in Netron's own JSON, and in DOT, for its viewer (https://github.com/lutzroeder/netron).

Beside ONNX, which knows standard operators only, these say what was really called: every op under its own name, with
shapes and dtypes on the edges, attributes, modules and source lines. Netron reads the JSON from files that end in
`.netron`, DOT from `.dot`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sapwood.errors import ArgumentError
from sapwood.files import write_text
from sapwood.graph.capture import capture
from sapwood.graph.ir import Call, Graph, Value
from sapwood.viz.dot import quoted

__all__ = ["dot", "model", "save"]

CATEGORIES = {
    "activation": "Activation", "activation_more": "Activation", "activation_slope": "Activation",
    "softmaxes": "Activation", "adaptive": "Pool", "pool": "Pool", "attention": "Attention", "conv": "Layer",
    "matrix": "Layer", "products": "Layer", "recurrent": "Layer", "lookup": "Layer", "dropping": "Dropout",
    "normalization": "Normalization", "normalization_batch": "Normalization", "join": "Tensor", "splitting": "Tensor",
    "slicing": "Tensor", "views": "Shape", "movement": "Shape", "matrix_view": "Shape", "expanding": "Shape",
    "pad": "Tensor", "create": "Constant", "filling": "Constant",
}  # fmt: skip
"""Netron's colours, by the module that declares an op."""


def model(graph: Any, args: Any = ()) -> dict[str, Any]:
    """Return a graph as the object that Netron's JSON holds.

    Args:
        graph: a `sapwood.graph.Graph`, or a module or function, which is run once on the example.
        args: the example: a tensor, or a tuple of arguments.

    Raises:
        GraphError: the function cannot be captured.

    Example:
        >>> import sapwood
        >>> from sapwood.export import netron
        >>> made = netron.model(sapwood.nn.Linear(3, 2), sapwood.ones(1, 3))
        >>> [node["type"]["name"] for node in made["modules"][0]["nodes"]]
        ['t', 'addmm']
    """
    graph = _graph(graph, args)
    values = list(graph.values())
    number = {v.name: i for i, v in enumerate(values)}
    return {
        "signature": "netron:sapwood",
        "format": "Sapwood",
        "producer": f"sapwood v{_version()}",
        "modules": [
            {
                "name": graph.name,
                "values": [_value(v) for v in values],
                "inputs": [{"name": v.name, "value": [number[v.name]]} for v in graph.inputs],
                "outputs": [{"name": v.name, "value": [number[v.name]]} for v in graph.outputs],
                "nodes": [_node(c, number) for c in graph.calls],
            }
        ],
    }


def save(graph: Any, path: str | os.PathLike[str], args: Any = ()) -> None:
    """Write a graph for Netron, whole or not at all.

    Args:
        graph: a `sapwood.graph.Graph`, or a module or function, which is run once on the example.
        path: ends in `.netron` for JSON or in `.dot` for DOT.
        args: the example: a tensor, or a tuple of arguments.

    Raises:
        ArgumentError: the path ends in something else.
        GraphError: the function cannot be captured.
        OSError: the file cannot be written.
    """
    kind = Path(path).suffix
    if kind not in (".netron", ".dot"):
        raise ArgumentError(
            f"save: Netron knows a format by its name: expected .netron or .dot, got {os.fspath(path)!r}"
        )
    captured = _graph(graph, args)
    made = model(captured)
    text = dot(made) if kind == ".dot" else json.dumps(made, ensure_ascii=False, allow_nan=False)
    write_text(path, text)


def dot(made: dict[str, Any]) -> str:
    """Return what `model` returns as DOT, labelled as Netron knows it from drawings of FX graphs.

    Netron shows no clusters, so modules are attributes here; `sapwood.viz.draw(…).dot()` is the text for Graphviz.
    """
    (graph,) = made["modules"]
    values = graph["values"]
    lines = ["digraph {", "  node [shape=record]"]
    maker: dict[int, str] = {}

    def add(name: str, *fields: str) -> str:
        label = "|".join(_field(f) for f in (name, *fields))
        lines.append(f"  {quoted(name)} [label={_label('{' + label + '}')}]")
        return name

    def shaped(value: dict[str, Any]) -> str:
        return f"{value['type']['dataType']}{value['type']['shape']['dimensions']}"

    inputs = [i for entry in graph["inputs"] for i in entry["value"]]
    for i, value in enumerate(values):
        if "initializer" in value:
            maker[i] = add(value["name"], f"op_code=get_parameter {shaped(value)}")
        elif i in inputs:
            maker[i] = add(value["name"], "op_code=placeholder", f"type: {shaped(value)}")
    for node in graph["nodes"]:
        attributes = [f"{a['name']}: {_plain(a['value'])}" for a in node["attributes"]]
        add(node["name"], "op_code=call_function", "\\l".join([node["type"]["name"], *attributes]))
        maker |= {i: node["name"] for out in node["outputs"] for i in out["value"]}
        for given in node["inputs"]:
            for i in given["value"]:
                lines.append(f"  {quoted(maker[i])} -> {quoted(node['name'])} [label={quoted(shaped(values[i]))}]")
    return "\n".join([*lines, "}", ""])


def _field(text: str) -> str:
    """Return a field of a label without the signs that divide it."""
    for sign, instead in (("|", "/"), ("{", "("), ("}", ")"), ("<", "‹"), (">", "›")):
        text = text.replace(sign, instead)
    return text


def _plain(value: Any) -> str:
    """Return an attribute's value in one line; a colon or a backslash would be read as something else."""
    text = str(tuple(value) if isinstance(value, list) else value)
    return " ".join(text.replace(":", " ").replace("\\", "/").split())


def _label(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'


def _graph(graph: Any, args: Any) -> Graph:
    if isinstance(graph, Graph):
        return graph
    return capture(graph, *(args if isinstance(args, tuple) else (args,)))


def _version() -> str:
    import sapwood

    return sapwood.__version__


def _type(value: Value) -> dict[str, Any]:
    return {"dataType": value.dtype.name, "shape": {"dimensions": list(value.shape)}}


def _value(value: Value) -> dict[str, Any]:
    found: dict[str, Any] = {"name": value.name, "type": _type(value)}
    if value.role in ("parameter", "buffer", "constant"):
        # What Netron shows inside of the node that reads it, and not as an input of the model.
        found["initializer"] = {"type": _type(value)}
    return found


def _node(call: Call, number: dict[str, int]) -> dict[str, Any]:
    inputs, attributes = [], []
    for name, x in zip(call.op.inputs, call.inputs):
        plain = name.lstrip("*")
        given = [v for v in (x if isinstance(x, tuple) else (x,)) if isinstance(v, Value)]
        if given:
            inputs.append({"name": plain, "value": [number[v.name] for v in given]})
        elif x is not None:
            attributes.append(_attribute(plain, x))
    attributes += [_attribute(n, v) for n, v in call.attrs.items() if v is not None]
    if call.in_place:
        attributes.append(_attribute("in place", True))
    if call.scope:
        attributes.append(_attribute("module", str(call.scope[-1])))
    if call.line:
        attributes.append(_attribute("line", f"{call.line} {call.line.text}".rstrip()))
    kind: dict[str, Any] = {"name": call.op.name}
    category = CATEGORIES.get(call.op.__module__.rpartition(".")[2])
    if category:
        kind["category"] = category
    outs = call.op.outs or ("out",)
    outputs = [
        {"name": outs[i] if i < len(outs) else f"{outs[-1]}{i}", "value": [number[r.name]]}
        for i, r in enumerate(call.results)
    ]
    return {
        "type": kind, "name": call.results[0].name if call.results else "", "inputs": inputs, "outputs": outputs,
        "attributes": attributes,
    }  # fmt: skip


def _attribute(name: str, value: Any) -> dict[str, Any]:
    """Return an attribute as JSON: numbers, flags and lists of integers as they are, all else as text."""
    if isinstance(value, bool):
        return {"name": name, "value": value, "type": "boolean"}
    if isinstance(value, int) and abs(value) < 1 << 53:
        return {"name": name, "value": value, "type": "int64"}
    if isinstance(value, float) and value - value == 0:
        return {"name": name, "value": value, "type": "float64"}
    if isinstance(value, list | tuple) and all(type(v) is int for v in value):
        return {"name": name, "value": list(value), "type": "int64[]"}
    return {"name": name, "value": value if isinstance(value, str) else str(value), "type": "string"}
