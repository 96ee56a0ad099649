"""`capture`: run a function or a module once and keep what it did as a Graph."""

from __future__ import annotations

import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import alias
from ..autograd.mode import no_grad
from ..autograd.observe import observing, watch_calls
from ..autograd.run import before_pass
from ..errors import ArgumentError, CaptureError
from ..ops.declare import registry
from ..ops.inplace import region_of
from ..origin import here, place
from ..random import get_rng_state
from ..tensor import Tensor
from .ir import Call, Graph, Line, Scope, Value, flatten


def capture(function: Any, *example: Any, name: str | None = None, **named: Any) -> Graph:
    """Run `function` once on an example and return the calls it made.

    Whatever Python decides on the way (branches, loops, sizes) is decided by the example; the graph holds for inputs of
    the same shapes and types. Values read out by `item()` and the like, and random numbers, are constants of the graph;
    `graph.warnings` says when random numbers were drawn. Running the graph leaves a module's buffers as they are. The
    graph is run once to see that it gives what the function gave.

    Args:
        function: a module, or a function of tensors; tensors may lie in tuples, lists and dicts, and what it returns
            likewise. Tensors it finds elsewhere are constants, those of a module parameters and buffers.
        example: its arguments. They run as in the program: random numbers are drawn, buffers written.
        name: of the graph; the function's or class's unless given.
        named: keyword arguments.

    Raises:
        ArgumentError: `function` cannot be called, or no tensor comes out.
        CaptureError: it raised an exception, which is kept as the cause; or it did what the graph cannot show: ran a
            backward pass, or wrote past the ops (`out=`, `.data`, `.numpy()`, random fills, index assignment).

    Example:
        >>> import sapwood
        >>> graph = sapwood.graph.capture(lambda x: (x * 2).relu(), sapwood.ones(3))
        >>> [call.op.name for call in graph.calls]
        ['mul', 'relu']
    """
    if not callable(function):
        raise ArgumentError(f"capture: expected a module or a function, got {type(function).__name__}")
    module = function if hasattr(function, "named_parameters") else None
    graph = Graph(name or _name_of(function, module))
    recorder = _Recorder(graph)
    recorder.take_module(module)
    example, named = _distinct((example, named))
    recorder.take_inputs(function if module is None else module.forward, example, named)
    before = get_rng_state()
    with _Scopes(module) as scopes, recorder.recording(scopes), _no_backward(graph.name):
        try:
            result = function(*example, **named)
        except CaptureError:
            raise
        except Exception as problem:
            where = scopes.path()
            within = f" in {where}" if where else ""
            raise CaptureError(
                f"capture: running {graph.name} on the example raised {type(problem).__name__}{within}: {problem}"
            ) from problem
        found: list[Any] = []
        graph.structure = flatten(result, found, lambda x: isinstance(x, Tensor))
        if not found:
            raise ArgumentError(f"capture: {graph.name} returned no tensor, but {type(result).__name__}")
        graph.outputs = tuple(recorder.value_of(t) for t in found)
    if not np.array_equal(before._array, get_rng_state()._array):
        graph.warnings.append("random numbers were drawn; every run of the graph uses the same ones")
    graph.check()
    _verify(graph, recorder, found)
    return graph


@contextmanager
def _no_backward(name: str) -> Iterator[None]:
    """Refuse backward passes inside."""

    def refuse(op: str) -> None:
        where = place(here())
        raise CaptureError(
            f"capture: {name} runs {op}(){f' at {where}' if where else ''}; a backward pass computes on arrays, which "
            "the graph does not see. Capture the forward computation, and differentiate the graph's outputs"
        )

    before_pass.append(refuse)
    try:
        yield
    finally:
        before_pass.remove(refuse)


def _verify(graph: Graph, recorder: _Recorder, wanted: list[Any]) -> None:
    """Run the graph on the example, and raise unless it gives the same numbers.

    Raises:
        CaptureError: something was written that no call shows.
    """
    from .run import run

    inputs = [recorder.first(v) for v in graph.inputs]
    data = {v.name: recorder.first(v) for v in graph.sources() if v.role != "input"}
    with no_grad():
        found: list[Any] = []
        flatten(run(graph, *inputs, data=data), found, lambda x: isinstance(x, Tensor))
    for value, a, b in zip(graph.outputs, found, wanted):
        x, y = a.detach()._array, b.detach()._array
        same = x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        if not same and not np.array_equal(x, y, equal_nan=x.dtype.kind in "fc"):
            raise CaptureError(
                f"capture: the calls of {graph.name} do not give what it returned ({value.name} differs). Something "
                "was written that no call shows: by out=, .data, .numpy(), a random fill such as normal_(), or index "
                "assignment with tensors; write it as a new value, e.g. with where() or index_put()"
            )


def _distinct(thing: Any, seen: set[int] | None = None) -> Any:
    """Return nested arguments in which no tensor stands twice: values are told apart by their tensors."""
    seen = set() if seen is None else seen
    if isinstance(thing, Tensor):
        if id(thing) in seen:
            thing = thing.detach().requires_grad_(thing.requires_grad)
        seen.add(id(thing))
        return thing
    if isinstance(thing, tuple | list) and not hasattr(thing, "_fields"):
        return type(thing)(_distinct(x, seen) for x in thing)
    return {k: _distinct(x, seen) for k, x in thing.items()} if isinstance(thing, dict) else thing


def _name_of(function: Any, module: Any) -> str:
    found = type(module).__name__ if module is not None else getattr(function, "__name__", type(function).__name__)
    return "function" if found == "<lambda>" else found


class _Recorder:
    """Turns observed calls into calls of a graph.

    Tensors are known by identity, and kept alive while they are. A tensor whose storage was written to since it was
    last seen is read again from its base, the way the history of views is renewed in autograd.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._seen: dict[int, tuple[Any, Value, int]] = {}
        """By identity: the tensor, its value, and how often its storage had been written to."""
        self._writes: Counter[int] = Counter()
        self._pending: list[tuple[Any, str, Any, Any]] = []
        self._names: Counter[str] = Counter()
        self._scopes: Any = None
        self._sources: dict[str, Any] = {}
        self._firsts: dict[str, Any] = {}
        """Copies of what goes in, made before the program wrote over it."""

    def first(self, value: Value) -> Any:
        """Return the tensor behind a value that goes in, as it was at the beginning."""
        return self._firsts.get(value.name, value.data if value.data is not None else self._sources[value.name])

    # What goes in.

    def take_module(self, module: Any) -> None:
        """Name the parameters and buffers of a module."""
        if module is None:
            return
        for kind, things in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
            for name, tensor in things:
                self._source(kind, name, tensor)

    def take_inputs(self, function: Any, example: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Name the tensors among the arguments after the function's parameters."""
        try:
            bound = inspect.signature(function).bind(*example, **named).arguments
        except (TypeError, ValueError):
            bound = {f"input{i}": x for i, x in enumerate(example)} | named
        for name, thing in bound.items():
            found: list[Any] = []
            flatten(thing, found, lambda x: isinstance(x, Tensor))
            for i, tensor in enumerate(found):
                if id(tensor) not in self._seen:
                    self._source("input", name if len(found) == 1 else f"{name}.{i}", tensor)

    def _source(self, role: Any, name: str, tensor: Any) -> Value:
        data = None if role == "input" else tensor
        value = Value(self._named(name), tuple(tensor.shape), tensor.dtype, role, None, 0, data, tensor.requires_grad)
        places = {"input": self.graph.inputs, "parameter": self.graph.parameters, "buffer": self.graph.buffers}
        places.get(role, self.graph.constants).append(value)
        self._sources[value.name] = tensor
        self._remember(tensor, value)
        return value

    def _named(self, name: str) -> str:
        self._names[name] += 1
        found = name if self._names[name] == 1 else f"{name}_{self._names[name]}"
        return found if found == name or found not in self._names else self._named(found)

    def _remember(self, tensor: Any, value: Value) -> None:
        self._seen[id(tensor)] = tensor, value, self._writes[id(alias.owner(tensor._array))]

    # What is called.

    def recording(self, scopes: Any) -> Any:
        """Return the context in which calls are recorded."""
        self._scopes = scopes
        return _Both(observing(self._before), watch_calls(self._after))

    def _before(self, op: Any, name: str, inputs: Any, attrs: Any, compute: Any) -> Any:
        if name != op.name and name.endswith("_"):
            self._keep_constants(inputs[0])
        result = compute()
        self._pending.append((op, name, inputs, attrs))
        return result

    def _keep_constants(self, tensor: Any) -> None:
        """Copy what went in and is about to be written over."""
        owner = alias.owner(tensor._array)
        for value in self.graph.sources():
            source = self._sources[value.name]
            if value.name in self._firsts or alias.owner(source._array) is not owner:
                continue
            self._firsts[value.name] = source.detach().clone()
            if value.role == "constant":
                value.data = self._firsts[value.name]

    def _after(self, op: Any, inputs: Any, results: Any) -> None:
        for i in range(len(self._pending) - 1, -1, -1):
            if self._pending[i][0] is op and len(self._pending[i][2]) == len(inputs):
                _, name, given, attrs = self._pending.pop(i)
                break
        else:
            return
        in_place = name != op.name and name.endswith("_")
        given = tuple(tuple(map(self._operand, x)) if isinstance(x, tuple) else self._operand(x) for x in given)
        call = self._call(op, given, dict(zip(op.attrs, attrs)), [(t, None) for t in results])
        call.in_place = in_place
        call.view = bool(op.view) and any(self._shares(t, inputs[0]) for t in results)
        if in_place:
            self._written(inputs[0], call.results[0])
        else:
            for tensor, value in zip(results, call.results):
                self._remember(tensor, value)

    @staticmethod
    def _shares(tensor: Any, other: Any) -> bool:
        return isinstance(other, Tensor) and alias.owner(tensor._array) is alias.owner(other._array)

    def _call(self, op: Any, inputs: Any, attrs: Any, results: Any) -> Call:
        found = place(here())
        line = None if found is None else Line(found.short, found.line, found.function, found.text)
        call = Call(op, inputs, attrs, (), self._scopes.now(), line)
        call.results = tuple(
            Value(self._named(op.name), tuple(t.shape), t.dtype, "result", call, i, None, t.requires_grad)
            for i, (t, _) in enumerate(results)
        )
        self.graph.calls.append(call)
        return call

    def _operand(self, x: Any) -> Any:
        return self.value_of(x) if isinstance(x, Tensor) else x

    def value_of(self, tensor: Any) -> Value:
        """Return the value that a tensor has now; one that is not known is a constant."""
        found = self._seen.get(id(tensor))
        count = self._writes[id(alias.owner(tensor._array))]
        if found is not None and found[2] == count:
            return found[1]
        if count and tensor._base is not None and self._current(tensor._base):
            base = self.value_of(tensor._base)
            attrs = dict(zip(registry["slice_of"].attrs, region_of(tensor, tensor._base)))
            value = self._call(registry["slice_of"], (base,), attrs, [(tensor, None)]).results[0]
            self._remember(tensor, value)
            return value
        if found is not None and count:
            raise CaptureError(
                f"capture: {found[1].name} was written to through memory that it shares with another tensor, in a way "
                "that the graph cannot follow; call clone() on one of the two"
            )
        return self._source("constant", "constant", tensor)

    def _current(self, tensor: Any) -> bool:
        found = self._seen.get(id(tensor))
        return found is not None and found[2] == self._writes[id(alias.owner(tensor._array))]

    def _written(self, tensor: Any, value: Value) -> None:
        """Let a tensor that was written to, its base and its views stand for their new values."""
        base = tensor._base
        old = None if base is None else self.value_of(base)
        self._writes[id(alias.owner(tensor._array))] += 1
        self._remember(tensor, value)
        if old is not None:
            attrs = dict(zip(registry["copy_slices"].attrs, region_of(tensor, base)))
            made = self._call(registry["copy_slices"], (old, value), attrs, [(base, None)])
            made.in_place = True
            self._remember(base, made.results[0])


class _Both:
    """Two contexts as one."""

    def __init__(self, *contexts: Any) -> None:
        self._contexts = contexts

    def __enter__(self) -> None:
        for context in self._contexts:
            context.__enter__()

    def __exit__(self, *exception: Any) -> None:
        for context in reversed(self._contexts):
            context.__exit__(*exception)


class _Scopes:
    """Inside, knows which submodules of a module are running."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._running: list[Scope] = []
        self._handles: list[Any] = []
        self._failed = ""

    def __enter__(self) -> _Scopes:
        if self._module is not None:
            for path, m in self._module.named_modules():
                enter = self._entering(path, type(m).__name__)
                self._handles.append(m.register_forward_pre_hook(enter, prepend=True))
                self._handles.append(m.register_forward_hook(self._leave, always_call=True))
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()

    def now(self) -> tuple[Scope, ...]:
        """Return the running modules, outermost first, the captured one itself left out."""
        return tuple(self._running[1:])

    def path(self) -> str:
        """Return the innermost module that was running when something failed."""
        return self._failed

    def _entering(self, path: str, kind: str) -> Callable[..., None]:
        numbers = itertools.count()

        def enter(module: Any, args: Any) -> None:
            self._failed = f"{path} ({kind})" if path else kind
            self._running.append(Scope(path, kind, next(numbers)))

        return enter

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        if self._running:
            self._running.pop()


__all__ = ["capture"]
