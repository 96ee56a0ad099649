"""Graphs as text, and back.

    graph Sequential
    input input: float32[8, 64]
    parameter 0.weight: float32[128, 64] requires grad
    t: float32[64, 128] = t(0.weight)  # view; 0 Linear; train.py:12
    return t

After `#` stand marks and places, separated by semicolons. Parameters, buffers and constants come without their numbers;
`parse` takes these from a mapping by name.
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
from .ir import Call, Fixed, Graph, Line, Scope, Value

_SOURCE = re.compile(r"(input|parameter|buffer|constant) (\S+): (\w+)\[([\d, ]*)\]( requires grad)?$")
_CALL = re.compile(r"(.+?) = (\w+)\((.*)\)  # ?(.*)$")
_RESULT = re.compile(r"(\S+): (\w+)\[([\d, ]*)\]( requires grad)?$")
_SCOPE = re.compile(r"(\S+) (\w+)(?: (\d+))?$")


def text(graph: Graph) -> str:
    """Return a graph as text."""
    lines = [f"graph {graph.name}", *(f"warning: {w}" for w in graph.warnings)]
    lines += [f"{v.role} {_typed(v)}" for v in graph.sources()]
    for call in graph.calls:
        made = ", ".join(_typed(r) for r in call.results)
        given = ", ".join([*(_operand(x) for x in call.inputs), *(f"{n}={_attr(v)}" for n, v in call.attrs.items())])
        lines.append(f"{made} = {call.op.name}({given})  # {'; '.join(_notes(call))}".rstrip())
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
    if isinstance(x, Dtype):
        return f"%{x.name}"
    if isinstance(x, np.dtype):
        return f"%np.{x.name}"
    if isinstance(x, float) and (x != x or x in (float("inf"), float("-inf"))):
        return f"%{x}"
    if isinstance(x, tuple):
        return f"({', '.join(map(_attr, x))}{',' * (len(x) == 1)})"
    if isinstance(x, list):
        return f"[{', '.join(map(_attr, x))}]"
    return repr(x)


def _notes(call: Call) -> list[str]:
    marks = [word for word, holds in (("in place", call.in_place), ("view", call.view)) if holds]
    return [*marks, *(f"in {s}" for s in call.scope), *([f"at {call.line}"] if call.line else [])]


def _structure(structure: Any, outputs: tuple[Value, ...]) -> str:
    if isinstance(structure, Fixed):
        return repr(structure.value)
    if isinstance(structure, dict):
        return "{" + ", ".join(f"{k!r}: {_structure(v, outputs)}" for k, v in structure.items()) + "}"
    if isinstance(structure, tuple | list):
        inner = ", ".join(_structure(x, outputs) for x in structure)
        return f"[{inner}]" if isinstance(structure, list) else f"({inner}{',' * (len(structure) == 1)})"
    return f"%{outputs[structure].name}"


def parse(source: str, data: Mapping[str, Any] | None = None) -> Graph:
    """Read a graph from text.

    Args:
        source: what `text` returned.
        data: tensors for parameters, buffers and constants, by name.

    Raises:
        CaptureError: the text is no graph; the message has the line's number.
    """
    from .. import ops

    ops.complete()
    reader = _Reader(data or {})
    lines = [line for line in source.strip().splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            reader.line(line.strip())
        except CaptureError:
            raise
        except (ValueError, KeyError, SyntaxError, AttributeError) as problem:
            raise CaptureError(f"parse: line {number} is no part of a graph: {line.strip()!r} ({problem})") from problem
    if not reader.done:
        raise CaptureError("parse: the text ends without a line that returns something")
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
        from ..ops.declare import registry

        match = _CALL.match(line if "  #" in line else line + "  #")
        if match is None:
            raise ValueError("expected results = op(operands)  # notes")
        made, name, given, notes = match.groups()
        op = registry[name]
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
        """Return operands and attributes; values and types, written %name, become strings for Python's reader."""
        quoted = re.sub(r"%([^\s,()\[\]{}]+)", lambda m: repr("%" + m[1]), given)
        node = ast.parse(f"f({quoted})", mode="eval").body
        assert isinstance(node, ast.Call)
        operands = tuple(self._resolve(ast.literal_eval(a)) for a in node.args)
        return operands, {str(k.arg): self._resolve(ast.literal_eval(k.value), False) for k in node.keywords}

    def _resolve(self, x: Any, operand: bool = True) -> Any:
        if isinstance(x, tuple | list):
            return type(x)(self._resolve(m, operand) for m in x)
        if not (isinstance(x, str) and x.startswith("%")):
            return x
        name = x[1:]
        if operand:
            return self.known[name]
        if name in ("nan", "inf", "-inf"):
            return float(name)
        return _dtype(name[3:]).numpy if name.startswith("np.") else _dtype(name)

    def _note(self, call: Call, notes: str) -> None:
        for note in filter(None, notes.split("; ")):
            if note in ("in place", "view"):
                setattr(call, note.replace(" ", "_"), True)
            elif note.startswith("in ") and (found := _SCOPE.match(note[3:])):
                path, kind, number = found.groups()
                call.scope = (*call.scope, Scope("" if path == "." else path, kind, int(number or 0)))
            elif note.startswith("at "):
                file, _, line = note[3:].rpartition(":")
                call.line = Line(file, int(line))

    def _return(self, source: str) -> None:
        outputs: list[Value] = []
        quoted = re.sub(r"%([^\s,()\[\]{}]+)", lambda m: repr("%" + m[1]), source)

        def build(x: Any) -> Any:
            if isinstance(x, str) and x.startswith("%"):
                outputs.append(self.known[x[1:]])
                return len(outputs) - 1
            if isinstance(x, dict):
                return {k: build(v) for k, v in x.items()}
            return type(x)(build(v) for v in x) if isinstance(x, tuple | list) else Fixed(x)

        self.graph.structure = build(ast.literal_eval(quoted))
        self.graph.outputs = tuple(outputs)
        self.done = True


__all__ = ["parse", "text"]
