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
    """

    op: Any
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    results: tuple[Value, ...] = ()
    scope: tuple[Scope, ...] = ()
    line: Line | None = None
    in_place: bool = False
    view: bool = False

    def values(self) -> Iterator[Value]:
        """Yield the values among the inputs."""
        for x in self.inputs:
            for v in x if isinstance(x, tuple) else (x,):
                if isinstance(v, Value):
                    yield v

    def __repr__(self) -> str:
        made = ", ".join(r.name for r in self.results)
        return f"Call({made} = {self.op.name}({', '.join(v.name for v in self.values())}))"


@dataclass(slots=True, eq=False)
class Graph:
    """Calls in order, and the values they begin and end with.

    Attributes:
        outputs: the values that come out, flat.
        structure: how they lie in what the function returned: nested tuples, lists and dicts of positions in
            `outputs`; other leaves stand for themselves, in a `Fixed`.
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
        for value in self.outputs:
            if value.name not in known:
                raise CaptureError(f"graph {self.name}: the output {value.name} is not defined")

    def __call__(self, *inputs: Any) -> Any:
        """Run the graph on other inputs (see `run`)."""
        from .run import run

        return run(self, *inputs)

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


@dataclass(frozen=True, slots=True)
class Fixed:
    """Something in a function's result that is no tensor."""

    value: Any


def flatten(thing: Any, leaves: list[Any], is_leaf: Any) -> Any:
    """Collect the leaves of nested tuples, lists and dicts; return the structure with their positions."""
    if is_leaf(thing):
        leaves.append(thing)
        return len(leaves) - 1
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return tuple(flatten(x, leaves, is_leaf) for x in thing)
    if isinstance(thing, tuple | list):
        return type(thing)(flatten(x, leaves, is_leaf) for x in thing)
    if isinstance(thing, dict):
        return {k: flatten(x, leaves, is_leaf) for k, x in thing.items()}
    return Fixed(thing)


def unflatten(structure: Any, leaves: Any) -> Any:
    """Return a structure with its leaves in their places."""
    if isinstance(structure, Fixed):
        return structure.value
    if isinstance(structure, dict):
        return {k: unflatten(x, leaves) for k, x in structure.items()}
    if isinstance(structure, tuple | list):
        return type(structure)(unflatten(x, leaves) for x in structure)
    return leaves[structure]


__all__ = ["Call", "Fixed", "Graph", "Line", "Scope", "Value", "flatten", "unflatten"]
