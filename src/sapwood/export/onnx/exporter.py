"""A captured graph becomes an ONNX model: each call by its op's builder, or by the formula the op is declared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sapwood.errors import ExportError
from sapwood.export.onnx.compositions import COMPOSITIONS
from sapwood.export.onnx.reasons import DRAWN, NOT_EXPORTED
from sapwood.export.onnx.sizes import Size, annotate, of_run, varies
from sapwood.export.onnx.writer import TYPES, Writer
from sapwood.graph.capture import capture
from sapwood.graph.ir import Call, Graph, Value

__all__ = ["BUILDERS", "TYPES", "Exporter", "builds", "in_words"]

Builder = Callable[["Exporter", Call], Any]
BUILDERS: dict[str, Builder] = {}
"""What writes an op's call: called with the exporter and the call, it returns the names of the results."""


def builds(*names: str) -> Callable[[Builder], Builder]:
    """Register a builder for ops."""

    def register(builder: Builder) -> Builder:
        for name in names:
            BUILDERS[name] = builder
        return builder

    return register


class Exporter(Writer):
    """A model in the making, call by call."""

    def __init__(self, opset: int) -> None:
        super().__init__(opset)
        self._lived: list[Graph] = []

    def operand(self, x: Any, dtype: Any = None) -> Any:
        """Return the name of a call's operand, as an element type if one is given; numbers become constants."""
        if x is None:
            return None
        if isinstance(x, Value):
            name = self.known.get(x.name)
            if name is None:
                raise ExportError(f"export: {x.name}, a result of {in_words(x.call)}, has no ONNX form")
            return name if dtype is None else self.cast(name, x.dtype, dtype)
        if isinstance(x, Size):
            return self.number(x, dtype or _type_of(int(x)))
        numpy = (dtype or _type_of(x)).numpy
        return self.constant(np.asarray(x).astype(numpy))

    def operands(self, call: Call, dtype: Any = None) -> list[Any]:
        """Return the names of all operands, as an element type if one is given."""
        return [self.operand(x, dtype) for x in call.inputs if not isinstance(x, tuple)]

    def attr(self, call: Call, name: str) -> Any:
        """Return an attribute; one that would change with the sizes that are dynamic is refused.

        Raises:
            ExportError: the attribute depends on a dynamic size.
        """
        if name in self.dynamic.get(id(call), {}) or varies(call.attrs[name]):
            raise ExportError(
                f"export: {in_words(call)}: its attribute {name!r} depends on a dynamic size; it can be exported with "
                "fixed sizes only"
            )
        return call.attrs[name]

    # The graph.

    def call(self, call: Call) -> None:
        """Write a call."""
        self.doc = f"{call.line} {call.line.text}" if call.line else ""
        self.here = in_words(call)
        first = len(self.nodes)
        builder = BUILDERS.get(call.op.name)
        if builder is not None:
            made = builder(self, call)
        elif call.op.name in COMPOSITIONS:
            made = self.composed(call)
        elif call.op.formula is not None:
            made = self.composed(call, call.op.formula)
        else:
            drawn = call.op.kind == "draw"
            reason = DRAWN if drawn else NOT_EXPORTED.get(call.op.name, "nothing says how")
            raise ExportError(f"export: {in_words(call)} has no ONNX form: {reason}")
        names = [made] if isinstance(made, str) else list(made)
        fresh = {n: node for node in self.nodes[first:] for n in node.output}
        for value, name in zip(call.results, names):
            if name is None:
                continue
            if name in fresh and name not in self.known.values():
                self._rename(first, name, value.name)
                self.known[value.name] = value.name
            else:
                self.known[value.name] = name

    def free(self, old: str, new: str) -> bool:
        """Tell whether a result may be called otherwise: a node makes it, and nothing has the new name."""
        made = {n for node in self.nodes for n in node.output}
        return old in made and new not in made and new not in self.initializers and new not in self.known.values()

    def rename(self, old: str, new: str) -> None:
        """Call a result otherwise, everywhere."""
        self._rename(0, old, new)
        self.known = {k: new if v == old else v for k, v in self.known.items()}

    def _rename(self, first: int, old: str, new: str) -> None:
        for node in self.nodes[first:]:
            for names in (node.input, node.output):
                for i, n in enumerate(names):
                    if n == old:
                        names[i] = new

    def composed(self, call: Call, function: Any = None) -> list[str]:
        """Write a call as the ops that a function consists of: its formula, or by default its composition here."""
        import sapwood

        function = function or COMPOSITIONS[call.op.name]
        examples = [
            sapwood.zeros(of_run(x.shape, 0), dtype=x.dtype) if isinstance(x, Value) else x for x in call.inputs
        ]  # fmt: skip
        tensors = [e for e in examples if isinstance(e, sapwood.Tensor)]
        names = [n.lstrip("*") for n in call.op.inputs]
        run = 0

        def program(*given: Any) -> Any:
            left = iter(given)
            filled = [next(left) if isinstance(e, sapwood.Tensor) else e for e in examples]
            values = dict(zip(names, filled)) | {k: of_run(v, run) for k, v in call.attrs.items()}
            if function is not call.op.formula:
                return function(**values)
            positional = [values[n] for n, _, keyword in call.op.params if not keyword and n in values]
            return function(*positional, **{n: values[n] for n, _, k in call.op.params if k and n in values})

        inner = capture(program, *tensors, name=call.op.name)
        others = []
        if self.runs is not None and varies([v.shape for v in call.values()] + list(call.attrs.values())):
            if id(call) in self.dynamic:
                self.attr(call, next(iter(self.dynamic[id(call)])))
            for run in range(1, 1 + len(self.runs.others)):
                given = [sapwood.zeros(of_run(v.shape, run), dtype=v.dtype) for v in call.values()]
                others.append(capture(program, *given, name=call.op.name))
            try:
                self.dynamic |= annotate(inner, others)
            except ExportError as problem:
                raise ExportError(
                    f"export: {in_words(call)} can be exported with fixed sizes only: {problem}"
                ) from None
            # Calls are known by identity, so they must stay.
            self._lived.append(inner)
        if any(c.op is call.op and c.attrs == call.attrs for c in inner.calls):
            raise ExportError(f"export: {in_words(call)} has no ONNX form: its formula is the op itself")
        outer = dict(self.known)
        given = [x for x in call.inputs if isinstance(x, Value)]
        for value, real in zip(inner.inputs, given):
            self.known[value.name] = outer[real.name]
        for i, value in enumerate(inner.constants):
            if others:
                self.take(value, [o.constants[i] for o in others])
            else:
                self.known[value.name] = self.constant(value.data.detach().numpy())
        prefix = self.name(call.op.name)
        for c in inner.calls:
            for r in c.results:
                r.name = f"{prefix}.{r.name}"
            c.line = call.line
            self.call(c)
        made = [self.known[v.name] for v in inner.outputs]
        self.known = outer
        return made


def _type_of(x: Any) -> Any:
    from sapwood import dtypes

    return dtypes.of_number(x)


def in_words(call: Call | None) -> str:
    """Return an op and where it was called."""
    if call is None:
        return "the input"
    where = f" at {call.line}" + (f" `{call.line.text}`" if call.line and call.line.text else "") if call.line else ""
    return f"{call.op.name}{where}"
