"""Graphs as text, and back.

    graph Sequential
    input input: float32[8, 64]
    parameter 0.weight: float32[128, 64] requires grad
    t: float32[64, 128] = t(%0.weight)  # view; in 0 Linear; at train.py:12
    return %t

After `#` stand marks and places, separated by semicolons. `takes` says how the inputs lie in the arguments, where they
are not just one after the other; `write x = %y` what the program has left in x. Parameters, buffers and constants come
without their numbers; `parse` takes these from a mapping by name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import dtype as Dtype
from ..errors import CaptureError
from .ir import Call, Graph, Line, Scope, Stream, Value
from .structure import Fixed, Opaque, Record

_SOURCE = re.compile(r"(input|parameter|buffer|constant) (\S+): (\w+)\[([\d, ]*)\]( requires grad)?$")
_CALL = re.compile(r"(.+?) = (\w+)\((.*)\)  # ?(.*)$")
_RESULT = re.compile(r"(\S+): (\w+)\[([\d, ]*)\]( requires grad)?$")
_SCOPE = re.compile(r"(\S+) (\w+)(?: (\d+))?$")
_NAMED = re.compile(r"""('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|%([^\s,()\[\]{}:=]+)""")
_MARKS = {"in place": "in_place", "view": "view", "no grad": "no_grad"}


def text(graph: Graph) -> str:
    """Return a graph as text."""
    lines = [f"graph {graph.name}", *(f"warning: {' '.join(w.split())}" for w in graph.warnings)]
    lines += [f"{v.role} {_typed(v)}" for v in graph.sources()]
    if list(graph.arguments.values()) != list(range(len(graph.inputs))):
        lines.append(f"takes {_structure(graph.arguments, graph.inputs)}")
    for call in graph.calls:
        made = ", ".join(_typed(r) for r in call.results)
        given = ", ".join([*(_operand(x) for x in call.inputs), *(f"{n}={_attr(v)}" for n, v in call.attrs.items())])
        lines.append(f"{made} = {call.op.name}({given})  # {'; '.join(_notes(call))}".rstrip())
    lines += [f"write {name} = %{value.name}" for name, value in graph.writes.items()]
    lines.append(f"return {_structure(graph.structure, graph.outputs)}")
    return "\n".join(lines)


def _typed(value: Value) -> str:
    return f"{value.name}: {value.type}" + (" requires grad" if value.requires_grad else "")


def _operand(x: Any) -> str:
    if isinstance(x, Value):
        return f"%{x.name}"
    if isinstance(x, tuple):
        return f"({', '.join(map(_operand, x))}{',' * (len(x) == 1)})"
    return _attr(x)


def _attr(x: Any) -> str:
    """Return something that `_Reader.evaluate` reads back."""
    if isinstance(x, Dtype):
        return f"%{x.name}"
    if isinstance(x, np.dtype):
        return f"%np.{x.name}"
    if isinstance(x, np.generic):
        return f"scalar(%np.{x.dtype.name}, {_attr(x.item())})"
    if isinstance(x, complex):
        return f"complex({x.real!r}, {x.imag!r})"
    if isinstance(x, Stream):
        return f"stream({x.name!r})"
    if isinstance(x, slice):
        return f"slice({x.start!r}, {x.stop!r}, {x.step!r})"
    if type(x) is tuple:
        return f"({', '.join(map(_attr, x))}{',' * (len(x) == 1)})"
    if type(x) is list:
        return f"[{', '.join(map(_attr, x))}]"
    if type(x) is dict:
        return "{" + ", ".join(f"{_attr(k)}: {_attr(v)}" for k, v in x.items()) + "}"
    if x is Ellipsis:
        return "..."
    if x is None or type(x) in (bool, int, float, str, bytes):
        return repr(x)
    return f"opaque({' '.join(repr(x).split())!r})"


def _notes(call: Call) -> list[str]:
    marks = [word for word, name in _MARKS.items() if getattr(call, name)]
    return [*marks, *(f"in {s}" for s in call.scope), *([f"at {call.line}"] if call.line else [])]


def _structure(structure: Any, values: Any) -> str:
    if isinstance(structure, Fixed):
        return _attr(structure.value)
    if isinstance(structure, Record):
        inner = ", ".join(f"{n}={_structure(x, values)}" for n, x in structure.parts.items())
        return f"{structure.kind}.{structure.name}({inner})"
    if isinstance(structure, dict):
        return "{" + ", ".join(f"{_attr(k)}: {_structure(v, values)}" for k, v in structure.items()) + "}"
    if isinstance(structure, tuple | list):
        inner = ", ".join(_structure(x, values) for x in structure)
        return f"[{inner}]" if isinstance(structure, list) else f"({inner}{',' * (len(structure) == 1)})"
    return f"%{values[structure].name}"


def parse(source: str, data: Mapping[str, Any] | None = None) -> Graph:
    """Read a graph from text.

    Args:
        source: what `text` returned.
        data: tensors for parameters, buffers and constants, by name.

    Raises:
        CaptureError: the text is no graph; the message has the line's number.
    """
    from .. import ops
    from ..ops import drawing

    ops.complete()
    del drawing
    reader = _Reader(data or {})
    lines = [line for line in source.strip().splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            reader.line(line.strip())
        except CaptureError:
            raise
        except (ValueError, LookupError, SyntaxError, AttributeError, TypeError, RecursionError) as problem:
            raise CaptureError(f"parse: line {number} is no part of a graph: {line.strip()!r} ({problem})") from problem
    if not reader.done:
        raise CaptureError("parse: the text ends without a line that returns something")
    if not reader.graph.arguments:
        reader.graph.arguments = {v.name: i for i, v in enumerate(reader.graph.inputs)}
    reader.graph.check()
    return reader.graph


def _dtype(name: str) -> Dtype:
    if name not in dtypes.by_name:
        raise ValueError(f"{name} is no element type")
    return dtypes.by_name[name]


class _Reader:
    def __init__(self, data: Mapping[str, Any]) -> None:
        self.graph, self.data, self.known, self.done = Graph(), data, dict[str, Value](), False

    def line(self, line: str) -> None:
        if line.startswith("graph "):
            self.graph.name = line[6:]
        elif line.startswith("warning: "):
            self.graph.warnings.append(line[9:])
        elif line.startswith("takes "):
            places = {v.name: i for i, v in enumerate(self.graph.inputs)}
            arguments = self._structured(line[6:], lambda value: places[value.name])
            if not isinstance(arguments, dict):
                raise ValueError("expected arguments by name")
            self.graph.arguments = arguments
        elif line.startswith("write "):
            name, _, left = line[6:].partition(" = ")
            self.graph.writes[name] = self.known[left.removeprefix("%")]
        elif line.startswith("return "):
            self._return(line[7:])
        elif match := _SOURCE.match(line):
            role, *rest = match.groups()
            value = self._value(rest, role)
            value.data = self.data.get(value.name)
            {"input": self.graph.inputs, "parameter": self.graph.parameters, "buffer": self.graph.buffers,
             "constant": self.graph.constants}[role].append(value)  # fmt: skip
        else:
            self._call(line)

    def _value(self, parts: Any, role: Any = "result") -> Value:
        name, kind, sizes, grad = parts
        shape = tuple(int(n) for n in sizes.split(",") if n.strip())
        dtype = _dtype(kind)
        value = self.known[name] = Value(name, shape, dtype, role, requires_grad=bool(grad))
        return value

    def _call(self, line: str) -> None:
        from ..ops.declare import draws, registry

        match = _CALL.match(line if "  #" in line else line + "  #")
        if match is None:
            raise ValueError("expected results = op(operands)  # notes")
        made, name, given, notes = match.groups()
        op = draws[name] if name in draws and name not in registry else registry[name]
        operands, attrs = self._arguments(given)
        call = Call(op, operands, attrs)
        results = []
        for part in re.split(r", (?=\S+: \w+\[)", made):
            found = _RESULT.match(part)
            if found is None:
                raise ValueError(f"{part!r} is no result")
            results.append(found.groups())
        call.results = tuple(self._value(r) for r in results)
        for i, value in enumerate(call.results):
            value.call, value.number = call, i
        self._note(call, notes)
        self.graph.calls.append(call)

    def _arguments(self, given: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return operands and attributes."""
        node = ast.parse(f"f({_quoted(given)})", mode="eval").body
        if not isinstance(node, ast.Call):
            raise ValueError("expected a call")
        operands = tuple(self._evaluate(a, lambda name: self.known[name]) for a in node.args)
        return operands, {str(k.arg): self._evaluate(k.value, _type) for k in node.keywords}

    def _evaluate(self, node: Any, named: Any) -> Any:
        """Return what an expression stands for; `named` says what %name is."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Tuple | ast.List):
            made = [self._evaluate(x, named) for x in node.elts]
            return made if isinstance(node, ast.List) else tuple(made)
        if isinstance(node, ast.Dict):
            return {self._evaluate(k, named): self._evaluate(v, named) for k, v in zip(node.keys, node.values)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._evaluate(node.operand, named)
        if isinstance(node, ast.Name) and node.id in ("nan", "inf"):
            return float(node.id)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts = {str(k.arg): self._evaluate(k.value, named) for k in node.keywords}
            return Record(ast.unparse(node.func.value), node.func.attr, parts)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            given = [self._evaluate(x, _type if node.func.id == "scalar" and not i else named)
                     for i, x in enumerate(node.args)]  # fmt: skip
            return named(given[0]) if node.func.id == "named" else _MADE[node.func.id](*given)
        raise ValueError(f"{ast.unparse(node)} has no meaning here")

    def _note(self, call: Call, notes: str) -> None:
        for note in filter(None, notes.split("; ")):
            if note in _MARKS:
                setattr(call, _MARKS[note], True)
            elif note.startswith("in ") and (found := _SCOPE.match(note[3:])):
                path, kind, number = found.groups()
                call.scope = (*call.scope, Scope("" if path == "." else path, kind, int(number or 0)))
            elif note.startswith("at "):
                file, _, line = note[3:].rpartition(":")
                call.line = Line(file, int(line))

    def _return(self, source: str) -> None:
        outputs: list[Value] = []

        def place(value: Value) -> int:
            outputs.append(value)
            return len(outputs) - 1

        self.graph.structure = self._structured(source, place)
        self.graph.outputs = tuple(outputs)
        self.done = True

    def _structured(self, source: str, place: Any) -> Any:
        """Read a structure; `place` gives the position of a value."""

        def build(x: Any) -> Any:
            if isinstance(x, Value):
                return place(x)
            if isinstance(x, Record):
                return Record(x.kind, x.name, {n: build(p) for n, p in x.parts.items()})
            if isinstance(x, dict):
                return {k: build(v) for k, v in x.items()}
            return type(x)(build(v) for v in x) if isinstance(x, tuple | list) else Fixed(x)

        def named(name: str) -> Any:
            return self.known[name] if name in self.known else _type(name)

        return build(self._evaluate(ast.parse(_quoted(source), mode="eval").body, named))


def _quoted(source: str) -> str:
    """Write %name, outside of strings, as a call that Python's reader understands."""
    return _NAMED.sub(lambda m: m[1] or f"named({m[2]!r})", source)


def _type(name: str) -> Any:
    return _dtype(name[3:]).numpy if name.startswith("np.") else _dtype(name)


_MADE: dict[str, Any] = {
    "complex": complex, "opaque": Opaque, "scalar": lambda kind, x: kind.type(x), "slice": slice, "stream": Stream,
}  # fmt: skip


__all__ = ["parse", "text"]
