"""Which value of a graph each tensor stands for while a program is captured."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from .. import alias, dtypes
from ..errors import CaptureError
from ..node import as_function
from ..ops.declare import draws, registry
from ..origin import here, place
from ..state import GRAD, get_mode, next_seq
from ..tensor import wrap
from .ir import Call, Graph, Line, Role, Value
from .memory import Store, place_of
from .scopes import Scopes, Surroundings


class _Seen(NamedTuple):
    """A tensor as it was when it was last looked at.

    Attributes:
        cut: whether its elements are cut off from the graph where they are read, as by detach().
        outside: whether writes to it are none of the graph's: it is cut, or a view of what is.
        history: the value whose gradient is the tensor's; another one than `value` after a write outside the graph.
        turns: how often its memory had been written to within the graph.
    """

    tensor: Any
    array: Any
    value: Value
    version: int
    cut: bool
    outside: bool
    history: Value
    turns: int


class Values:
    """Knows which value each tensor stands for; the part of a recorder that does not observe.

    Tensors are found by identity, or by the memory they show: what `detach()`, `.data` and views give are no new
    values. A tensor whose memory was written to through another one is read again from the root of its memory.
    """

    def __init__(self, graph: Graph, around: Surroundings) -> None:
        self.graph = graph
        self.around = around
        self.sources: dict[str, Any] = {}
        """By name: the tensors that go in."""
        self._arrays: dict[str, Any] = {}
        self._firsts: dict[str, Any] = {}
        self._seen: dict[int, _Seen] = {}
        self._stores: dict[int, Store] = {}
        self._names: Counter[str] = Counter()
        self._changing: set[str] = set()
        """Names of values that may be others in another run."""
        self._made: dict[tuple[str, ...], Value] = {}
        """What is made once of a value: cut off from the graph, or in place of one that was written over."""
        self._hidden: set[str] = set()
        """Names of values written outside the graph: under no_grad, or through detach() and .data."""
        self._began = next_seq()
        self._lines: dict[Any, Line | None] = {}
        self._scopes: Scopes | None = None
        self._grad = True

    # What goes in.

    def first(self, value: Value) -> Any:
        """Return the tensor behind a value that goes in, as it was at the beginning."""
        if value.name in self._firsts:
            return self._firsts[value.name]
        tensor = value.data if value.data is not None else self.sources[value.name]
        # It may look at its memory in another way now, as after t_(), or at other memory.
        array = self._arrays[value.name]
        return tensor if tensor._array is array else wrap(array)

    def source(self, role: Role, name: str, tensor: Any) -> Value:
        """Let a tensor be one that goes in."""
        found = self._seen.get(id(tensor))
        if found is not None and found.array is tensor._array and role != "input":
            return found.value
        data = None if role == "input" else tensor
        value = Value(self._named(name), tuple(tensor.shape), tensor.dtype, role, None, 0, data, tensor.requires_grad)
        places = {"input": self.graph.inputs, "parameter": self.graph.parameters, "buffer": self.graph.buffers}
        places.get(role, self.graph.constants).append(value)
        self.sources[value.name] = tensor
        self._arrays[value.name] = tensor._array
        if role != "constant" or id(tensor) in self.around.tensors:
            self._changing.add(value.name)
        key = id(alias.owner(tensor._array))
        made = getattr(tensor._node, "seq", 0)
        if role == "constant" and made > self._began:
            own = as_function(tensor._node)[0].name()
            self._warn(
                f"{value.name}, made by {own}, was computed out of sight, as in another thread; it is a constant"
            )
        if key not in self._stores:
            base = tensor._base
            if base is None or alias.owner(base._array) is not alias.owner(tensor._array):
                self._stores[key] = Store(tensor._array, value, self.around.stamps.get(key))
            else:
                # Views go in beside their base, which all of them can be read from.
                self._stores[key] = Store(base._array, self.source(*self._role_of(base), base))
        self._stores[key].members[place_of(tensor._array)] = value
        self._remember(tensor, value)
        return value

    def _role_of(self, tensor: Any) -> tuple[Role, str]:
        return self.around.tensors.get(id(tensor), ("constant", "constant"))

    def _named(self, name: str) -> str:
        self._names[name] += 1
        found = name if self._names[name] == 1 else f"{name}_{self._names[name]}"
        return found if found == name or found not in self._names else self._named(found)

    def _remember(self, tensor: Any, value: Value, cut: bool = False, outside: bool = False) -> None:
        store = self._stores[id(alias.owner(tensor._array))]
        history = value
        if value.name in self._hidden and not (outside or cut):
            history = self._history(tensor, store)
        self._seen[id(tensor)] = _Seen(
            tensor, tensor._array, value, store.version, cut, outside or cut, history, store.turns
        )

    def _history(self, tensor: Any, store: Store) -> Value:
        """Return the value whose gradient is that of a tensor which was written to outside the graph."""
        before = self._seen.get(id(tensor))
        if before is not None and (before.turns == store.turns or before.array is not tensor._array):
            return before.history
        if place_of(tensor._array) == store.root_place or not store.history.requires_grad:
            return store.history
        return self._region(tensor, store, store.history)

    def _region(self, tensor: Any, store: Store, root: Value) -> Value:
        """Return what a tensor shows of the root of its memory."""
        attrs = dict(zip(registry["slice_of"].attrs, store.region(tensor._array)))
        return self._call(registry["slice_of"], (root,), attrs, [kind_of(tensor)]).results[0]

    # Which value a tensor stands for.

    def value_of(self, tensor: Any) -> Value:
        """Return the value that a tensor has now; one that is not known goes in as a constant."""
        value, cut = self.plain_value_of(tensor)
        if cut and value.role != "constant":
            return self._once("detach", value)
        history = self._seen[id(tensor)].history
        if history is not value and history.requires_grad and tensor.requires_grad:
            # Written over outside the graph it keeps its place there: its gradient is that by its new value.
            return self._once("in_place_of", history, value)
        if tensor.requires_grad and not tensor.is_leaf and not value.requires_grad and self._grad:
            own = as_function(tensor._node)[0].name()
            self._warn(
                f"{value.name} has a backward of its own ({own}), which the graph does not hold: no gradient passes"
            )
        return value

    def _once(self, op: str, *inputs: Value) -> Value:
        key = op, *(v.name for v in inputs)
        if key not in self._made:
            kind = inputs[-1].shape, inputs[-1].dtype, op == "in_place_of"
            self._made[key] = self._call(registry[op], inputs, {}, [kind]).results[0]
        return self._made[key]

    def _warn(self, text: str) -> None:
        text = " ".join(text.split())
        if text not in self.graph.warnings:
            self.graph.warnings.append(text)

    def plain_value_of(self, tensor: Any) -> tuple[Value, bool]:
        """Return the value of the elements a tensor shows now, and whether it is cut off from what gave them."""
        array = tensor._array
        store = self._stores.get(id(alias.owner(array)))
        if store is None:
            around = self.around.memory.get(id(alias.owner(array)))
            if around is None or around is tensor or id(tensor) in self.around.tensors:
                return self.source(*self._role_of(tensor), tensor), False
            self.source(*self._role_of(around), around)
            return self.plain_value_of(tensor)
        seen = self._seen.get(id(tensor))
        store.check(store.root_value.name if seen is None else seen.value.name)
        if seen is not None and seen.array is array and seen.version == store.version:
            return seen.value, seen.cut
        member = store.members.get(place_of(array))
        if member is not None:
            value = member
        elif store.covers(array):
            value = store.members[place_of(array)] = self._region(tensor, store, store.root_value)
            if store.root_value.name in self._hidden:
                self._hidden.add(value.name)
        elif store.version == 0:
            return self.source(*self._role_of(tensor), tensor), False
        else:
            name = store.root_value.name if seen is None else seen.value.name
            raise CaptureError(
                f"capture: {name} was written to through memory that it shares with another tensor, in a way that the "
                "graph cannot follow; call clone() on one of the two"
            )
        cut = seen.outside if seen is not None else tensor._node is None and tensor._base is None
        exchanged = alias.moved.get(id(seen.array)) if seen is not None and seen.array is not array else None
        if exchanged is not None and exchanged[1]() is tensor:
            # By `.data = …`, which leaves its place in the graph.
            self._hidden.add(value.name)
        self._remember(tensor, value, cut)
        return value, cut

    def _written(self, tensor: Any, value: Value) -> None:
        """Let a tensor that was written to, and the root of its memory, stand for their new values."""
        array = tensor._array
        store = self._stores[id(alias.owner(array))]
        seen = self._seen.get(id(tensor))
        outside = seen is not None and seen.outside
        hidden = outside or (value.call is not None and value.call.no_grad)
        root = value
        if place_of(array) != store.root_place:
            if not store.covers(array):
                store.set_root(array, value)
            else:
                attrs = dict(zip(registry["copy_slices"].attrs, store.region(array)))
                kind = (store.root.shape, dtypes.of_numpy(store.root.dtype), value.requires_grad)
                base = store.root_value
                if not hidden and store.history is not base and store.history.requires_grad:
                    base = self._once("in_place_of", store.history, base)
                made = self._call(registry["copy_slices"], (base, value), attrs, [kind])
                made.in_place = True
                root = made.results[0]
        if outside and tensor.requires_grad and not tensor.is_leaf:
            where = place(here())
            self._warn(
                f"a detached tensor was written over{f' at {where}' if where else ''} with what wants a gradient; the "
                "graph has the numbers, and no gradient passes"
            )
        if hidden:
            self._hidden.update((value.name, root.name))
        store.written(array, value, root, hidden=hidden)
        self._remember(tensor, value, outside=outside)

    def keep(self, tensor: Any) -> None:
        """Copy what went in and is about to be written over."""
        owner = alias.owner(tensor._array)
        if id(owner) not in self._stores:
            self.plain_value_of(tensor)
        for value in self.graph.sources():
            source = self.sources[value.name]
            if value.name in self._firsts or alias.owner(source._array) is not owner:
                continue
            self._firsts[value.name] = wrap(source._array.copy()).requires_grad_(source.requires_grad)
            if value.role == "constant" and value.name not in self._changing:
                value.data = self._firsts[value.name]

    def _line(self) -> Line | None:
        origin = here()
        if origin not in self._lines:
            found = place(origin)
            line = None if found is None else Line(found.short, found.line, found.function, found.text)
            self._lines[origin] = line
        return self._lines[origin]

    def _call(self, op: Any, inputs: Any, attrs: Any, results: Any) -> Call:
        """Add a call; `results` are shapes, types, and whether a gradient is wanted."""
        call = Call(op, inputs, attrs, (), self._scopes.now() if self._scopes else (), self._line())
        # What tells tensors of one memory apart stands for no call of the program.
        call.no_grad = self._grad and not get_mode() & GRAD and op.name not in ("in_place_of", "slice_of")
        call.results = tuple(
            Value(self._named(op.name), tuple(shape), dtype, "result", call, i, None, grad and not call.no_grad)
            for i, (shape, dtype, grad) in enumerate(results)
        )
        if draws.get(op.name) is op or any(v.name in self._changing for v in call.values()):
            self._changing.update(r.name for r in call.results)
        self.graph.calls.append(call)
        return call


def kind_of(tensor: Any) -> tuple[Any, ...]:
    """Return shape, type, and whether a gradient is wanted."""
    return tuple(tensor.shape), tensor.dtype, tensor.requires_grad


__all__ = ["Values", "kind_of"]
