"""A graph as data: values, the calls that make them, and what goes in and comes out.

A `Graph` is a list of calls in order, in functional form: a write in place gives a new value that stands for the
written tensor from then on. `run` says what a graph means, `text` how it is written down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ..dtypes import dtype as Dtype
from ..errors import CaptureError
from .structure import Fixed, Record, flatten, unflatten

Role = Literal["input", "parameter", "buffer", "constant", "result"]


@dataclass(slots=True, eq=False)
class Value:
    """A tensor of the graph.

    Attributes:
        name: unique in the graph: a parameter's dotted name, an input's argument, else the op's with a number.
        shape, dtype: of the tensor that was seen.
        role: where it comes from.
        call, number: the call that makes it and which of its results it is; None for what goes in.
        data: the Tensor behind a parameter, a buffer or a constant.
        requires_grad: whether a gradient reached it when it was seen.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Dtype
    role: Role = "result"
    call: Call | None = None
    number: int = 0
    data: Any = None
    requires_grad: bool = False

    def __repr__(self) -> str:
        return f"Value({self.name}: {self.type})"

    @property
    def type(self) -> str:
        """Element type and shape: `float32[8, 64]`."""
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Scope:
    """A call of a module: its path, its class, and which call of it this was."""

    path: str
    kind: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.path or '.'} {self.kind}" + (f" {self.number}" if self.number else "")


@dataclass(frozen=True, slots=True)
class Line:
    """A place in the user's program."""

    file: str
    line: int
    function: str = ""
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(slots=True, eq=False)
class Call:
    """One op applied to values.

    Attributes:
        op: the declaration.
        inputs: in the order of `op.inputs`: a Value, a number, None, or a tuple of Values for "*tensors".
        attrs: canonical attributes by name.
        results: what it makes.
        scope: the modules it happened in, outermost first.
        line: the user's line.
        in_place: the program wrote the result over its first input.
        view: the program's result shared memory with its first input.
        no_grad: the program called it under no_grad, inside what was captured.
    """

    op: Any
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    results: tuple[Value, ...] = ()
    scope: tuple[Scope, ...] = ()
    line: Line | None = None
    in_place: bool = False
    view: bool = False
    no_grad: bool = False

    def values(self) -> Iterator[Value]:
        """Yield the values among the inputs."""
        for x in self.inputs:
            for v in x if isinstance(x, tuple) else (x,):
                if isinstance(v, Value):
                    yield v

    def __repr__(self) -> str:
        made = ", ".join(r.name for r in self.results)
        return f"Call({made} = {self.op.name}({', '.join(v.name for v in self.values())}))"


@dataclass(frozen=True, slots=True)
class Stream:
    """In place of a Generator among attributes: its name in `Graph.generators`."""

    name: str


@dataclass(slots=True, eq=False)
class Graph:
    """Calls in order, and the values they begin and end with.

    Two graphs are equal if they are built alike: the same calls of the same values, which go in and come out under the
    same names and types. Names of results, source lines, warnings and the tensors' numbers are not compared.

    Attributes:
        arguments: how the inputs lie in the function's arguments, by name: structures of positions in `inputs`.
        outputs: the values that come out, flat.
        structure: how they lie in what the function returned: nested tuples, lists and dicts of positions in
            `outputs`, a `Record` for a named tuple or a dataclass; other leaves stand for themselves, in a `Fixed`.
        writes: what the program wrote over inputs, parameters, buffers and named constants: by their names, the values
            they had at its end.
        generators: the random Generators that draws name, besides the default one.
        warnings: what may make the graph wrong for other inputs, each with its line.
    """

    name: str = "graph"
    inputs: list[Value] = field(default_factory=list)
    parameters: list[Value] = field(default_factory=list)
    buffers: list[Value] = field(default_factory=list)
    constants: list[Value] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    outputs: tuple[Value, ...] = ()
    structure: Any = 0
    arguments: dict[str, Any] = field(default_factory=dict)
    writes: dict[str, Value] = field(default_factory=dict)
    generators: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def sources(self) -> Iterator[Value]:
        """Yield what goes in: inputs, parameters, buffers, constants."""
        yield from (*self.inputs, *self.parameters, *self.buffers, *self.constants)

    def values(self) -> Iterator[Value]:
        """Yield every value, in the order in which they are defined."""
        yield from self.sources()
        for call in self.calls:
            yield from call.results

    def uses(self) -> dict[str, list[Call]]:
        """Return the calls that read each value, by its name."""
        found: dict[str, list[Call]] = {v.name: [] for v in self.values()}
        for call in self.calls:
            for name in dict.fromkeys(v.name for v in call.values()):
                found[name].append(call)
        return found

    def check(self) -> None:
        """Raise unless every value is defined once, before it is used.

        Raises:
            CaptureError: naming the value.
        """
        known: set[str] = set()

        def define(value: Value) -> None:
            if value.name in known:
                raise CaptureError(f"graph {self.name}: two values are called {value.name}")
            known.add(value.name)

        for value in self.sources():
            define(value)
        for call in self.calls:
            for value in call.values():
                if value.name not in known:
                    raise CaptureError(f"graph {self.name}: {call!r} reads {value.name}, which nothing defines before")
            for i, value in enumerate(call.results):
                if value.call is not call or value.number != i:
                    raise CaptureError(f"graph {self.name}: {value.name} does not know that {call!r} makes it")
                define(value)
        for value in (*self.outputs, *self.writes.values()):
            if value.name not in known:
                raise CaptureError(f"graph {self.name}: the output {value.name} is not defined")
        sources = {value.name for value in self.sources()}
        for name in self.writes:
            if name not in sources:
                raise CaptureError(f"graph {self.name}: it writes to {name}, which does not go in")

    def __call__(self, *inputs: Any, update: bool = False, **named: Any) -> Any:
        """Run the graph on other inputs (see `run`)."""
        from .run import run

        return run(self, *inputs, update=update, **named)

    def form(self) -> tuple[Any, ...]:
        """Return what equality compares: the graph with its values numbered in place of their names."""
        numbers = {value.name: i for i, value in enumerate(self.values())}

        def of(x: Any) -> Any:
            if isinstance(x, tuple):
                return tuple(of(m) for m in x)
            return ("%", numbers[x.name]) if isinstance(x, Value) else repr(x)

        sources = tuple((v.role, v.name, v.type, v.requires_grad) for v in self.sources())
        calls = tuple(
            (
                (c.op.name, of(c.inputs), tuple((n, repr(a)) for n, a in c.attrs.items())),
                tuple((r.type, r.requires_grad) for r in c.results),
                (c.scope, c.in_place, c.view, c.no_grad),
            )
            for c in self.calls
        )
        ends = of(self.outputs), tuple((n, of(v)) for n, v in sorted(self.writes.items()))
        return sources, calls, ends, repr(self.structure), repr(self.arguments)

    def __eq__(self, other: object) -> bool:
        return self.form() == other.form() if isinstance(other, Graph) else NotImplemented

    def __hash__(self) -> int:
        return hash((len(self.inputs), len(self.parameters), tuple(c.op.name for c in self.calls)))

    def text(self) -> str:
        """Return the graph as text that `parse` reads back."""
        from .text import text

        return text(self)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Graph({self.name}: {len(self.inputs)} inputs, {len(self.calls)} calls, {len(self.outputs)} outputs)"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self.text())}</pre>"


__all__ = [
    "Call", "Fixed", "Graph", "Line", "Record", "Role", "Scope", "Stream", "Value", "flatten", "unflatten",
]  # fmt: skip
