"""The recorder: turns what is observed while a program runs into the calls of a graph, in functional form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np

from .. import alias, dtypes
from ..autograd.observe import observing, watch_calls, watch_reads
from ..errors import CaptureError
from ..ops.declare import draws, registry
from ..origin import here, place
from ..random import Generator
from ..state import GRAD, get_mode
from ..tensor import Tensor, wrap
from .ir import Graph, Stream, Value
from .memory import Store, place_of
from .scopes import Scopes, Surroundings
from .values import Values, kind_of


class _Pending(NamedTuple):
    """A call between its computation and its results."""

    op: Any
    name: str
    arity: int
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    raw: tuple[Any, ...]


class Recorder(Values):
    """Observes a program."""

    def __init__(self, graph: Graph, around: Surroundings) -> None:
        super().__init__(graph, around)
        self.states: dict[str, tuple[Any, Any]] = {}
        """By name: generators that drew, and their states before."""
        self.left: dict[str, Any] = {}
        """By name: the tensors whose values the program has left in what went in."""
        self._pending: list[_Pending] = []

    @contextmanager
    def recording(self, scopes: Scopes) -> Iterator[None]:
        """Record what is called inside."""
        self._scopes, self._grad = scopes, bool(get_mode() & GRAD)
        alias.guards.append(self.keep)
        try:
            with ExitStack() as stack:
                for context in (observing(self._before), watch_calls(self._after), watch_reads(self._read)):
                    stack.enter_context(context)
                yield
        finally:
            alias.guards.remove(self.keep)
            self._scopes = None

    def _before(self, op: Any, name: str, inputs: Any, attrs: Any, compute: Any) -> Any:
        if op.name in draws and draws[op.name] is op and name != op.name:
            self._blank(inputs[0])
        given = tuple(tuple(map(self._operand, x)) if isinstance(x, tuple) else self._operand(x) for x in inputs)
        named = {n: self._attribute(op, n, a) for n, a in zip(op.attrs, attrs)}
        result = compute()
        raw = tuple(map(np.asarray, result)) if op.outs or op.many else (np.asarray(result),)
        self._pending.append(_Pending(op, name, len(inputs), given, named, raw))
        return result

    def _blank(self, tensor: Any) -> None:
        """Let a constant that is filled before it was read be one of zeros: what it holds is of no account."""
        if id(alias.owner(tensor._array)) not in self._stores and id(tensor) not in self.around.tensors:
            value = self.source("constant", "constant", tensor)
            value.data = self._firsts[value.name] = wrap(np.zeros_like(tensor._array))

    def _attribute(self, op: Any, name: str, x: Any) -> Any:
        """Return an attribute as the graph keeps it: a number for a tensor of one element.

        Raises:
            CaptureError: it is another tensor.
        """
        if isinstance(x, Generator):
            return self._stream(x)
        if not isinstance(x, Tensor):
            return x
        if x._array.ndim:
            raise CaptureError(
                f"capture: {op.name} was given a tensor of shape {tuple(x.shape)} for {name}, which is no operand; a "
                "number is expected"
            )
        self._read(f"the argument {name} of {op.name}:", x)
        return x._array.item()

    def _operand(self, x: Any) -> Any:
        return self.value_of(x) if isinstance(x, Tensor) else x

    def _stream(self, generator: Generator) -> Stream:
        for name, (known, _) in self.states.items():
            if known is generator:
                return Stream(name)
        name = "generator" if not self.states else f"generator_{len(self.states) + 1}"
        self.states[name] = generator, generator.get_state()
        self.graph.generators[name] = generator
        return Stream(name)

    def _after(self, op: Any, inputs: Any, results: Any) -> None:
        for i in range(len(self._pending) - 1, -1, -1):
            if self._pending[i].op is op and self._pending[i].arity == len(inputs):
                pending = self._pending.pop(i)
                break
        else:
            return
        # Either in place, or by out=.
        written = pending.name != op.name
        kinds = [kind_of(t) for t in results]
        if written:
            kinds = [(a.shape, dtypes.of_numpy(a.dtype), k[2]) for a, k in zip(pending.raw, kinds)]
        call = self._call(op, pending.inputs, pending.attrs, kinds)
        call.in_place = written
        call.view = not written and bool(op.view) and any(_shares(t, inputs[0]) for t in results)
        for tensor, value in zip(results, call.results):
            if written:
                self._into(tensor, value)
                continue
            key = id(alias.owner(tensor._array))
            if key not in self._stores:
                self._stores[key] = Store(tensor._array, value)
            base = self._seen.get(id(inputs[0])) if call.view else None
            outside = base is not None and base.outside
            if not outside:
                self._stores[key].members.setdefault(place_of(tensor._array), value)
            self._remember(tensor, value, outside=outside)

    def _into(self, tensor: Any, value: Value) -> None:
        """Let a result be what was written over a tensor: in its type, and repeated to its shape."""
        if value.dtype is not tensor.dtype:
            attrs = {"dtype": tensor._array.dtype, "memory_format": None}
            kind = (value.shape, tensor.dtype, value.requires_grad)
            value = self._call(registry["to_copy"], (value,), attrs, [kind]).results[0]
        if value.shape != tuple(tensor.shape):
            attrs = dict.fromkeys(registry["expand"].attrs) | {"size": tuple(tensor.shape)}
            value = self._call(registry["expand"], (value,), attrs, [kind_of(tensor)]).results[0]
        key = id(alias.owner(tensor._array))
        if key not in self._stores:
            # It was given new memory.
            self._stores[key] = Store(tensor._array, value)
            self._remember(tensor, value)
        else:
            self._written(tensor, value)

    def _read(self, what: str, tensor: Any) -> None:
        """Warn of a value that Python or NumPy sees, and that may be another one in another run."""
        if not isinstance(tensor, Tensor):
            return
        seen = self._seen.get(id(tensor))
        store = self._stores.get(id(alias.owner(tensor._array)))
        if store is not None:
            value = seen.value if seen is not None and seen.array is tensor._array else store.root_value
            changing, name = value.name in self._changing, value.name
        else:
            changing, name = id(tensor) in self.around.tensors, self._role_of(tensor)[1]
        where = place(here())
        text = f"{what} of {name}{f' at {where}' if where else ''}: what follows from it is fixed in the graph"
        if changing:
            self._warn(text)

    def finish(self) -> None:
        """Note the values that the program has left in what went in."""
        for tensor in self.around.memory.values():
            record = alias.stamp_of(tensor._array)
            key = id(alias.owner(tensor._array))
            if record is not None and key not in self._stores and record.version != self.around.stamps[key]:
                # It was written to without being read.
                self.plain_value_of(tensor)
        rebound = {}
        for name, slot, now in self.around.rebound():
            rebound[id(slot.tensor)] = now
            if not isinstance(now, Tensor) or self._changes_form(slot.tensor, now):
                what = "deleted or set to None" if not isinstance(now, Tensor) else "replaced by one of another form"
                self.graph.warnings.append(f"the tensor {name} was {what}; the graph leaves it as it is")
                rebound[id(slot.tensor)] = slot.tensor
        for value in list(self.graph.sources()):
            tensor = self.sources[value.name]
            if value.name not in self._changing:
                continue
            now = rebound.get(id(tensor), tensor)
            left, _ = self.plain_value_of(now)
            if left.type != value.type:
                self._warn(f"{value.name} has become {left.type} in place; a run of the graph leaves its form as it is")
            elif left is not value:
                self.graph.writes[value.name] = left
                self.left[value.name] = now
            if now is not tensor and value.data is not None:
                self._firsts.setdefault(value.name, tensor)
                value.data = now

    @staticmethod
    def _changes_form(old: Any, new: Any) -> bool:
        return old.dtype is not new.dtype or old.shape != new.shape


def _shares(tensor: Any, other: Any) -> bool:
    return isinstance(other, Tensor) and alias.owner(tensor._array) is alias.owner(other._array)


__all__ = ["Recorder"]
