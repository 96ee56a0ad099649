"""A captured graph in the form that TensorBoard draws: a GraphDef of tensorboardX's protocol buffers."""

from __future__ import annotations

import importlib
from typing import Any

from sapwood.errors import ArgumentError

__all__ = ["graph_def"]

# TensorFlow's numbers of element types, which TensorBoard reads.
TYPES = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "complex64": 8, "int64": 9, "bool": 10,
    "bfloat16": 14, "uint16": 17, "complex128": 18, "float16": 19, "uint32": 22, "uint64": 23,
}  # fmt: skip
SOURCES = {"input": "Input", "parameter": "Parameter", "buffer": "Buffer", "constant": "Constant"}


def graph_def(model: Any, example: Any) -> Any:
    """Run a model once on an example and return its graph as a GraphDef, nested by modules.

    Args:
        model: a module, a function of tensors, or a Graph that was captured before (then without example).
        example: a tensor, or a tuple or list of arguments.

    Raises:
        ArgumentError: there is no example for a model that is not captured yet.
        CaptureError: the model fails on the example.
    """
    from sapwood.graph import Graph, capture

    if isinstance(model, Graph):
        graph = model
    elif example is None:
        raise ArgumentError("add_graph: expected an example input to run the model on, got none; give input_to_model")
    else:
        graph = capture(model, *(example if isinstance(example, list | tuple) else (example,)))
    proto: Any = importlib.import_module("tensorboardX.proto.graph_pb2")
    made = proto.GraphDef()
    # The version from which TensorBoard reads shapes as they are written here.
    made.versions.producer = 22
    names = _Names(graph)
    for value in graph.sources():
        node = made.node.add(name=names.of(value), op=SOURCES[value.role])
        _describe(node, [value])
    for call in graph.calls:
        node = made.node.add(name=names.of_call(call), op=call.op.name)
        node.input.extend(names.of(value) for value in call.values())
        _describe(node, call.results)
        for key, attribute in call.attrs.items():
            if attribute is not None:
                node.attr[key].s = str(attribute).encode()
        if call.line is not None:
            node.attr["line"].s = f"{call.line.file}:{call.line.line}".encode()
    for i, value in enumerate(graph.outputs):
        node = made.node.add(name=names.free(f"output/{i}" if len(graph.outputs) > 1 else "output"), op="Output")
        node.input.append(names.of(value))
        _describe(node, [value])
    return made


def _describe(node: Any, values: Any) -> None:
    """Write shapes and element types where TensorBoard looks for them."""
    for value in values:
        shape = node.attr["_output_shapes"].list.shape.add()
        for size in value.shape:
            shape.dim.add(size=size)
    number = TYPES.get(values[0].dtype.name)
    if number is not None:
        node.attr["T" if node.op not in SOURCES.values() else "dtype"].type = number


class _Names:
    """Names in which slashes nest: modules in modules, parameters in the module that holds them."""

    def __init__(self, graph: Any) -> None:
        self._taken: set[str] = set()
        self._of: dict[str, str] = {}
        self._calls: dict[int, str] = {}
        self._root = graph.name
        for value in graph.sources():
            folder = {"input": "input", "constant": "constant"}.get(value.role, self._root)
            self._of[value.name] = self.free("/".join([folder, *value.name.split(".")]))
        for call in graph.calls:
            path = [part for s in call.scope[-1:] for part in s.path.split(".") if part]
            number = call.scope[-1].number if call.scope else 0
            if path and number:
                path[-1] += f"_{number}"
            name = self._calls[id(call)] = self.free("/".join([self._root, *path, call.op.name]))
            for i, value in enumerate(call.results):
                self._of[value.name] = f"{name}:{i}" if i else name

    def free(self, name: str) -> str:
        """Return a name that is not taken yet, with a number if need be."""
        found, k = name, 1
        while found in self._taken:
            found, k = f"{name}_{k}", k + 1
        self._taken.add(found)
        return found

    def of(self, value: Any) -> str:
        return self._of[value.name]

    def of_call(self, call: Any) -> str:
        return self._calls[id(call)]
