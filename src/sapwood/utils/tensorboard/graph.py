"""A captured graph as TensorBoard's GraphDef."""

from __future__ import annotations

from typing import Any

__all__ = ["graph_def"]


def graph_def(model: Any, example: tuple[Any, ...]) -> Any:
    """Return the graph of a module on an example as a GraphDef: one node for each value that goes in, and each call."""
    from tensorboardX.proto.attr_value_pb2 import AttrValue
    from tensorboardX.proto.graph_pb2 import GraphDef
    from tensorboardX.proto.node_def_pb2 import NodeDef
    from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboardX.proto.versions_pb2 import VersionDef

    from sapwood.graph import capture

    graph = capture(model, *example)
    names: dict[str, str] = {}

    def shapes(values: Any) -> Any:
        listed = [
            TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in v.shape]) for v in values
        ]  # fmt: skip
        return {"_output_shapes": AttrValue(list=AttrValue.ListValue(shape=listed))}

    nodes = []
    for value in graph.sources():
        place = value.name.replace(".", "/")
        names[value.name] = f"{graph.name}/{place}" if value.role != "input" else place
        typed = {"attributes": AttrValue(s=value.type.encode())}
        kind = {"input": "IO Node", "parameter": "Parameter", "buffer": "Buffer"}.get(value.role, "Constant")
        nodes.append(NodeDef(name=names[value.name], op=kind, input=[], attr=shapes([value]) | typed))
    for call in graph.calls:
        scope = "/".join([graph.name, *(s.path.rpartition(".")[2] for s in call.scope)])
        name = f"{scope}/{call.results[0].name}"
        words = "; ".join([*(f"{k}={v!r}" for k, v in call.attrs.items()), *([str(call.line)] if call.line else [])])
        inputs = list(dict.fromkeys(names[v.name] for v in call.values()))
        attributes = shapes(call.results) | {"attributes": AttrValue(s=words.encode())}
        nodes.append(NodeDef(name=name, op=call.op.name, input=inputs, attr=attributes))
        names |= {r.name: name for r in call.results}
    for i, value in enumerate(graph.outputs):
        nodes.append(NodeDef(name=f"output.{i}", op="IO Node", input=[names[value.name]], attr=shapes([value])))
    return GraphDef(node=nodes, versions=VersionDef(producer=22))
