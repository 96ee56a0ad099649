"""`capture`: run a function or a module once and keep what it did as a Graph."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ..autograd.mode import no_grad
from ..autograd.run import before_pass
from ..errors import ArgumentError, CaptureError
from ..origin import here, place
from ..random import get_rng_state, set_rng_state
from ..tensor import Tensor
from .ir import Graph
from .recorder import Recorder
from .run import evaluate
from .scopes import Scopes, Surroundings
from .structure import flatten


def capture(function: Any, *example: Any, name: str | None = None, **named: Any) -> Graph:
    """Run `function` once on an example and return the calls it made.

    Whatever Python decides on the way (branches, loops, sizes) is decided by the example; the graph holds for inputs of
    the same shapes and types. Random numbers are drawn again by each run of the graph. What the program writes over
    parameters, buffers and inputs is in `graph.writes`, and written by `run(…, update=True)`. `graph.warnings` says
    where the program looked at numbers, as by `item()`: what follows from them is fixed. The graph is run once to see
    that it gives what the function gave.

    Args:
        function: a module, or a function of tensors; tensors may lie in tuples, lists, dicts, named tuples and
            dataclasses, and what it returns likewise. Tensors it finds elsewhere are constants, those of modules
            parameters and buffers.
        example: its arguments. They run as in the program: random numbers are drawn, buffers written.
        name: of the graph; the function's or class's unless given.
        named: keyword arguments.

    Raises:
        ArgumentError: `function` cannot be called, or no tensor comes out.
        CaptureError: it raised an exception, which is kept as the cause; or it did what the graph cannot show: ran a
            backward pass, or wrote past the ops (by `.numpy()`, or NumPy's functions).

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
    around = Surroundings()
    recorder = Recorder(graph, around)
    if module is None:
        around.add_function(function)
    else:
        _take_module(recorder, module)
    example, named = _distinct((example, named), set(around.tensors))
    _take_inputs(recorder, function if module is None else module.forward, example, named)
    before = get_rng_state()
    with Scopes(module, around.modules) as scopes, recorder.recording(scopes), _no_backward(graph.name):
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
    graph.outputs = tuple(recorder.value_of(t) for t in found)
    recorder.finish()
    if not found and not graph.writes:
        raise ArgumentError(f"capture: {graph.name} returned no tensor, but {type(result).__name__}")
    graph.check()
    _verify(graph, recorder, found, before)
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


def _verify(graph: Graph, recorder: Recorder, wanted: list[Any], before: Any) -> None:
    """Run the graph on the example, with the same random numbers, and raise unless it gives the same.

    Raises:
        CaptureError: something was written that no call shows.
    """
    known = {v.name: recorder.first(v) for v in graph.sources()}
    pairs = list(zip(graph.outputs, wanted))
    pairs += [(value, recorder.left[name]) for name, value in graph.writes.items()]
    with ExitStack() as stack:
        stack.enter_context(no_grad())
        after = get_rng_state()
        set_rng_state(before)
        stack.callback(set_rng_state, after)
        for generator, state in recorder.states.values():
            stack.callback(generator.set_state, generator.get_state())
            generator.set_state(state)
        found = evaluate(graph, known)
        drawn_alike = np.array_equal(after._array, get_rng_state()._array)
    if not drawn_alike:
        graph.warnings.append("random numbers were drawn that no call shows; every run of the graph uses the same ones")
    for value, tensor in pairs:
        x, y = found[value.name].detach()._array, tensor.detach()._array
        same = x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
        if not same and not (x.shape == y.shape and np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")):
            raise CaptureError(
                f"capture: the calls of {graph.name} do not give what it returned ({value.name} differs). Something "
                "was written that no call shows, as by .numpy() or NumPy's functions; or random numbers were drawn "
                "after a seed was set inside"
            )


def _take_module(recorder: Recorder, module: Any) -> None:
    """Name the parameters and buffers of a module."""
    recorder.around.add_module("", module)
    for name, tensor in module.named_parameters():
        recorder.source("parameter", name, tensor)
    for name, tensor in module.named_buffers():
        recorder.source("buffer", name, tensor)


def _take_inputs(recorder: Recorder, function: Any, example: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Name the tensors among the arguments after the function's parameters."""
    arguments = {f"input{i}": x for i, x in enumerate(example)} | named
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*example, **named).arguments
    except (TypeError, ValueError):
        pass
    else:
        arguments = {}
        for name, thing in bound.items():
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                arguments |= {f"{name}.{i}": x for i, x in enumerate(thing)}
            elif kind is inspect.Parameter.VAR_KEYWORD:
                arguments |= thing
            else:
                arguments[name] = thing
    inside: list[Any] = []
    for name, thing in arguments.items():
        if hasattr(thing, "named_parameters"):
            recorder.around.add(name, thing)
        start = len(inside)
        recorder.graph.arguments[name] = flatten(thing, inside, lambda x: isinstance(x, Tensor))
        for i, tensor in enumerate(inside[start:]):
            recorder.source("input", name if len(inside) == start + 1 else f"{name}.{i}", tensor)


def _distinct(thing: Any, seen: set[int]) -> Any:
    """Return nested arguments in which no tensor stands twice: values are told apart by their tensors."""
    if isinstance(thing, Tensor):
        if id(thing) in seen:
            thing = thing.detach().requires_grad_(thing.requires_grad)
        seen.add(id(thing))
        return thing
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        parts = [_distinct(x, seen) for x in thing]
        return thing if all(a is b for a, b in zip(parts, thing)) else getattr(thing, "_make", type(thing))(parts)
    if isinstance(thing, tuple | list):
        return type(thing)(_distinct(x, seen) for x in thing)
    if isinstance(thing, dict):
        return {k: _distinct(x, seen) for k, x in thing.items()}
    if is_dataclass(thing) and not isinstance(thing, type):
        for field in fields(thing):
            _distinct(getattr(thing, field.name), seen)
    return thing


def _name_of(function: Any, module: Any) -> str:
    found = type(module).__name__ if module is not None else getattr(function, "__name__", type(function).__name__)
    return "function" if found == "<lambda>" else found


__all__ = ["capture"]
