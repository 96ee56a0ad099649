"""Dynamic sizes: a function is run on further examples with other sizes, to see what follows them.

What differs between the runs becomes a `Size`: an int, the one of the first run, that knows the others. Arithmetic on
it is done for all runs, so that builders compute with sizes as with any ints; where a size must be known when the model
runs, the exporter looks for the formula over the dynamic sizes that fits all runs.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sapwood.errors import ArgumentError, CaptureError, ExportError
from sapwood.graph.capture import capture
from sapwood.graph.ir import Graph, Value

__all__ = ["Runs", "Size", "annotate", "axes_of", "formula_of", "of_run", "varies"]

GROWTH = ((1, 4, 2), (5, 3, 11), (7, 13, 6), (12, 8, 17), (9, 19, 10), (16, 14, 23))
"""How many steps each dynamic size grows by in the further runs: in different orders, so that no two go together."""
STEPS = (1, 2, 4, 8, 16, 32, 64)
"""How much the sizes of the further examples grow by: the first step that the function can take, for what is halved and
put together again knows multiples only."""


class Size(int):
    """A size that is another for other examples."""

    others: tuple[int, ...]

    def __new__(cls, first: int, others: Sequence[int]) -> Size:
        made = super().__new__(cls, first)
        made.others = tuple(others)
        return made

    @property
    def runs(self) -> tuple[int, ...]:
        """What it is in each run."""
        return (int(self), *self.others)


def _lifted(function: Callable[[int, int], int], swapped: bool) -> Any:
    def method(self: Size, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        theirs = other.runs if isinstance(other, Size) else (int(other),) * len(self.runs)
        pairs = zip(theirs, self.runs) if swapped else zip(self.runs, theirs)
        return _made([function(a, b) for a, b in pairs])

    return method


def _made(runs: Sequence[int]) -> int:
    return runs[0] if len(set(runs)) == 1 else Size(runs[0], runs[1:])


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(Size, f"__{_name}__", _lifted(getattr(operator, _name), False))
    setattr(Size, f"__r{_name}__", _lifted(getattr(operator, _name), True))
setattr(Size, "__neg__", lambda self: _made([-n for n in self.runs]))  # noqa: B010 - mypy knows int's own


def varies(thing: Any) -> bool:
    """Tell whether a size that is dynamic lies in something."""
    if isinstance(thing, list | tuple):
        return any(varies(t) for t in thing)
    return isinstance(thing, Size)


def of_run(thing: Any, run: int) -> Any:
    """Return something with every size as it was in a run."""
    if isinstance(thing, list | tuple) and varies(thing):
        return type(thing)(of_run(t, run) for t in thing)
    return thing.runs[run] if isinstance(thing, Size) else thing


def formula_of(
    runs: Sequence[int], symbols: Mapping[str, Sequence[int]]
) -> tuple[int, tuple[str, ...], int, int] | None:
    """Return (k, words, c, d) with size = (k · product of words + c) // d in all runs, or None.

    Of several, one without c and d, else one without d: what is halved, or strided over, is rounded.
    """
    found = None
    groups = [w for n in range(1, len(symbols) + 1) for w in itertools.combinations(symbols, n)]
    products = {words: [math.prod(n) for n in zip(*(symbols[w] for w in words))] for words in groups}
    for words, p in products.items():
        k, rest = divmod(runs[1] - runs[0], p[1] - p[0])
        c = runs[0] - k * p[0]
        if rest or not k or any(r != k * n + c for r, n in zip(runs, p)):
            continue
        if not c:
            return k, words, 0, 1
        found = found or (k, words, c, 1)
    for words, d in [] if found else itertools.product(groups, range(2, 9)):
        for c in range(-2 * d, 2 * d + 1):
            if all(n + c >= 0 and r == (n + c) // d for r, n in zip(runs, products[words])):
                return 1, words, c, d
    return found


def axes_of(graph: Graph, names: Any, dynamic: Any) -> dict[int, dict[int, str]]:
    """Return by the number of an input its dynamic dimensions and what they are called."""
    found: dict[int, dict[int, str]] = {}
    known = list(names) if names else [v.name for v in graph.inputs]
    for name, axes in (dynamic or {}).items():
        if name not in known:
            continue
        i = known.index(name)
        given = axes if isinstance(axes, Mapping) else {a: f"{name}_{a}" for a in axes}
        rank = len(graph.inputs[i].shape)
        for a, word in given.items():
            if not -rank <= a < rank:
                raise ArgumentError(f"export: dynamic_axes: {name} has {rank} dimensions, got {a}")
            found.setdefault(i, {})[a % rank] = str(word)
    return found


def annotate(graph: Graph, others: Sequence[Graph]) -> dict[int, dict[str, Any]]:
    """Put what other runs say into a graph: shapes and attributes that differ become, or hold, sizes.

    Returns:
        By the identity of a call, attributes that differ in another way.

    Raises:
        ExportError: the runs made different calls.
    """
    ops = [c.op for c in graph.calls]
    if any([c.op for c in o.calls] != ops or len(o.constants) != len(graph.constants) for o in others):
        raise ExportError("export: with other sizes the function makes other calls; export it with fixed sizes")
    for value, *same in zip(graph.values(), *(list(o.values()) for o in others)):
        if any(len(s.shape) != len(value.shape) for s in same):
            raise ExportError(f"export: with other sizes {value.name} has another number of dimensions")
        value.shape = tuple(_made(sizes) for sizes in zip(value.shape, *(s.shape for s in same)))
    changes: dict[int, dict[str, Any]] = {}
    for call, *twins in zip(graph.calls, *(o.calls for o in others)):
        for name, mine in call.attrs.items():
            try:
                runs = [mine, *(t.attrs[name] for t in twins)]
                if all(type(r) is float and r.is_integer() for r in runs):
                    # A count that was divided by.
                    runs = [int(r) for r in runs] if len(set(runs)) > 1 else runs
                call.attrs[name] = _merged(runs)
            except _Differs:
                changes.setdefault(id(call), {})[name] = [t.attrs[name] for t in twins]
        given = []
        for i, mine in enumerate(call.inputs):
            try:
                number = not isinstance(mine, Value | tuple)
                given.append(_merged([mine, *(t.inputs[i] for t in twins)]) if number else mine)
            except _Differs:
                where = f" at {call.line}" if call.line else ""
                raise ExportError(
                    f"export: {call.op.name}{where}: a number follows a dynamic size in a way that is not seen; "
                    "compute it from whole numbers, or export with fixed sizes"
                ) from None
        call.inputs = tuple(given)
    return changes


class _Differs(Exception):
    pass


def _merged(runs: Sequence[Any]) -> Any:
    first = runs[0]
    if all(type(r) is int for r in runs):
        return _made(runs)
    if isinstance(first, tuple | list) and all(type(r) is type(first) and len(r) == len(first) for r in runs):
        return type(first)(_merged(parts) for parts in zip(*runs))
    if any(repr(r) != repr(first) for r in runs[1:]):
        raise _Differs
    return first


class Runs:
    """A function's runs on an example and on larger ones; the graph of the first knows what differs.

    Args:
        graph: what the function did with the example.
        function, args, kwargs: what was run.
        axes: by the number of an input, its dynamic dimensions and what they are called.
    """

    def __init__(
        self, graph: Graph, function: Any, args: Any, kwargs: Any, axes: Mapping[int, Mapping[int, str]]
    ) -> None:
        if isinstance(function, Graph):
            raise ArgumentError("export: dynamic_axes needs the function itself, to run it on other sizes")
        self.axes = axes
        self.places: dict[str, tuple[int, int]] = {}
        """Where a dynamic size is read: number of the input, dimension."""
        sizes: dict[str, int] = {}
        for i, named in axes.items():
            for a, word in named.items():
                n = graph.inputs[i].shape[a]
                if sizes.setdefault(word, n) != n:
                    raise ArgumentError(f"export: dynamic_axes: {word} is {sizes[word]} and {n} in one example")
                self.places.setdefault(word, (i, a))
        self.inputs: list[list[Any]] = []
        """Tensors of the further examples."""
        self.others = self._captured(function, args, kwargs, sizes)
        self.changes = annotate(graph, self.others)
        self.symbols = {w: graph.inputs[i].shape[a].runs for w, (i, a) in self.places.items()}  # type: ignore[attr-defined]

    def _captured(self, function: Any, args: Any, kwargs: Any, sizes: Mapping[str, int]) -> list[Graph]:
        for step in STEPS:
            found, self.inputs = [], []
            try:
                for run in range(len(GROWTH[0])):
                    # Beyond the table, its rows once more, and larger.
                    rows = [GROWTH[k % len(GROWTH)][run] + 24 * (k // len(GROWTH)) for k in range(len(sizes))]
                    grown = {w: n + step * row for row, (w, n) in zip(rows, sizes.items())}
                    found.append(self._on(function, args, kwargs, grown))
            except CaptureError as problem:
                if step == STEPS[-1]:
                    raise ExportError(
                        "export: the function cannot be run with other sizes of its dynamic_axes; it said: "
                        f"{problem.__cause__ or problem}"
                    ) from problem
                continue
            break
        return found

    def _on(self, function: Any, args: Any, kwargs: Any, grown: Mapping[str, int]) -> Graph:
        """Capture the function on larger inputs; random numbers and buffers are left as they were."""
        import sapwood

        tensors: list[Any] = []

        def larger(thing: Any) -> Any:
            if isinstance(thing, sapwood.Tensor):
                for a, word in self.axes.get(len(tensors), {}).items():
                    index = sapwood.arange(grown[word]) % max(thing.shape[a], 1)
                    thing = sapwood.index_select(thing.detach(), a, index)
                tensors.append(thing)
                return thing
            if isinstance(thing, list | tuple):
                return type(thing)(larger(t) for t in thing)
            return {k: larger(v) for k, v in thing.items()} if isinstance(thing, dict) else thing

        given, named = larger(tuple(args)), larger(kwargs)
        state = sapwood.get_rng_state()
        buffers = [(b, b.detach().clone()) for b in getattr(function, "buffers", list)()]
        try:
            return capture(function, *given, **named)
        finally:
            self.inputs.append(tensors)
            sapwood.set_rng_state(state)
            with sapwood.no_grad():
                for buffer, old in buffers:
                    buffer.copy_(old)
