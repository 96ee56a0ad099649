"""Modules as functions of an ONNX model: one for each class and way of calling it, nested as the modules are.

A stretch of nodes that one call of a module wrote becomes a node whose type is the module's class; its body is a
function of the model. Calls whose bodies are the same, apart from names, share one function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["DOMAIN", "Folder"]

DOMAIN = "sapwood"
"""The domain of the functions."""


class Folder:
    """Folds the nodes of a model.

    Args:
        onnx: the package.
        opset: of the standard operators.
        scopes: by the identity of a node, the modules it was called in, outermost first.
        constants: arrays by name, which functions hold themselves; all other names from outside are their inputs.
        infos: types and shapes of values by name.
        symbols: what the user calls dynamic sizes.
    """

    def __init__(
        self, onnx: Any, opset: int, scopes: Mapping[int, Any], constants: Mapping[str, Any], infos: Mapping[str, Any],
        symbols: frozenset[str],
    ) -> None:  # fmt: skip
        self.onnx, self.opset = onnx, opset
        self.scopes, self.constants, self.infos = scopes, constants, infos
        self.symbols = symbols
        self.functions: list[Any] = []
        self._known: dict[bytes, str] = {}
        self._names: dict[str, int] = {}

    def fold(self, nodes: Sequence[Any], outputs: Sequence[str]) -> list[Any]:
        """Return the nodes with every call of a module as one node; `functions` grows.

        Args:
            nodes: in an order in which they can run.
            outputs: names of results that are wanted.
        """
        return self._level(list(nodes), set(outputs), 0)

    def _level(self, nodes: list[Any], wanted: set[str], depth: int) -> list[Any]:
        """Fold nodes that all lie in the same `depth` modules; `wanted` are results read elsewhere."""
        found: list[Any] = []
        start = 0
        readers = _readers(nodes)
        while start < len(nodes):
            scope = self._scope(nodes[start], depth)
            stop = start + 1
            while stop < len(nodes) and scope is not None and self._scope(nodes[stop], depth) == scope:
                stop += 1
            run = nodes[start:stop]
            if scope is None or len(run) < 2:
                # One node says as much as a function around it would.
                found += run
            else:
                outer = {n for node in run for n in node.output if n and (n in wanted or readers[n] > stop - 1)}
                found.append(self._called(run, outer, scope, depth))
            start = stop
        return found

    def _scope(self, node: Any, depth: int) -> Any:
        scope = self.scopes.get(id(node), ())
        return scope[depth] if len(scope) > depth else None

    def _called(self, run: list[Any], outer: set[str], scope: Any, depth: int) -> Any:
        """Return the node that calls a function of these nodes."""
        made = {n for node in run for n in node.output}
        outputs = [n for node in run for n in node.output if n in outer]
        body = self._level(run, outer, depth + 1)
        read = list(dict.fromkeys(n for node in body for n in node.input if n and n not in made))
        inputs = [n for n in read if n not in self.constants]
        held = [n for n in read if n in self.constants]
        names = self._local(inputs, held, outputs, body, scope.path)
        helper = self.onnx.helper
        inside = [
            helper.make_node("Constant", [], [names[n]], value=self.onnx.numpy_helper.from_array(self.constants[n]))
            for n in held
        ]
        for node in body:
            copy = type(node)()
            copy.CopyFrom(node)
            for side in ("input", "output"):
                given = [names[n] if n else n for n in getattr(node, side)]
                del getattr(copy, side)[:]
                getattr(copy, side).extend(given)
            copy.name = copy.output[0]
            for entry in copy.metadata_props:
                # The same for every call: the place within this module.
                entry.value = _within(entry.value, scope.path)
            inside.append(copy)
        known = [(names[n], self.infos[n]) for n in names if n in self.infos and n not in self.constants]
        name = self._function(scope.kind, [names[n] for n in inputs], [names[n] for n in outputs], inside, known)
        label = f"{scope.path or scope.kind}" + (f"_{scope.number}" if scope.number else "")
        node = helper.make_node(name, inputs, outputs, name=label, domain=DOMAIN)
        entry = node.metadata_props.add()
        entry.key, entry.value = "module", str(scope)
        return node

    def _local(
        self, inputs: Sequence[str], held: Sequence[str], outputs: Sequence[str], body: Sequence[Any], path: str
    ) -> dict[str, str]:
        """Return what names are called in a function: parameters by their path within the module."""
        names: dict[str, str] = {}
        taken: set[str] = set()

        def give(old: str, hint: str) -> None:
            if old in names:
                return
            new, k = hint, 1
            while new in taken:
                k += 1
                new = f"{hint}_{k}"
            taken.add(new)
            names[old] = new

        for n in inputs:
            give(n, n[len(path) + 1 :] if path and n.startswith(f"{path}.") else "input")
        for n in outputs:
            give(n, "output")
        for n in held:
            give(n, "constant")
        for node in body:
            for n in node.output:
                if n:
                    give(n, node.op_type.lower())
        return names

    def _function(
        self, kind: str, inputs: list[str], outputs: list[str], nodes: list[Any], known: Sequence[tuple[str, Any]]
    ) -> str:
        """Return the name of a function with this body, which is made if it is not there."""
        infos = []
        for name, info in sorted(known, key=lambda k: k[0]):
            copy = type(info)()
            copy.CopyFrom(info)
            copy.name = name
            for size in copy.type.tensor_type.shape.dim:
                if size.dim_param and size.dim_param not in self.symbols:
                    # It follows a dynamic size, but has no name; one made up would differ from call to call.
                    size.Clear()
            infos.append(copy)
        opsets = [self.onnx.helper.make_opsetid("", self.opset), self.onnx.helper.make_opsetid(DOMAIN, 1)]
        made = self.onnx.helper.make_function(DOMAIN, kind, inputs, outputs, nodes, opsets, value_info=infos)
        key = made.SerializeToString(deterministic=True)
        if key not in self._known:
            number = self._names[kind] = self._names.get(kind, 0) + 1
            if number > 1:
                made.name = f"{kind}_{number}"
            self._known[key] = made.name
            self.functions.append(made)
        return self._known[key]


def _readers(nodes: Sequence[Any]) -> dict[str, int]:
    """Return for every result the place of the last node that reads it, -1 where none does."""
    last = {n: -1 for node in nodes for n in node.output}
    for i, node in enumerate(nodes):
        for n in node.input:
            if n in last:
                last[n] = i
    return last


def _within(module: str, path: str) -> str:
    """Return a module's place as seen from the module at `path`."""
    where, kind = module.split(" ")[:2]
    if where == path:
        return f". {kind}"
    return f"{where[len(path) + 1 :]} {kind}" if path and where.startswith(f"{path}.") else module
