"""Saved values as Tensors: what a differentiable backward pass, `node._saved_*` and saved-tensor hooks need.

A node keeps bare arrays. The Tensor that such an array once was can be made again at any time: an input is the array
at the edge of that input, the output is the array at the node itself.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from numpy import ndarray

from ..alias import check_intact
from ..errors import ArgumentError, GradError
from ..node import Freed, Node, Output, Unusual
from ..state import GRAD, PACK, get_mode, mode, next_seq
from ..tensor import Tensor, wrap
from . import told


class Packed:
    """A node's saved values when some of them are no plain arrays: packed by hooks, or lost to a write in place."""

    __slots__ = ("saved",)

    def __init__(self, saved: tuple[Any, ...]) -> None:
        self.saved = saved

    def __iter__(self) -> Any:
        raise Unusual


class PackedValue:
    """One such value: `unpack(value)` makes the tensor again at each use."""

    __slots__ = ("unpack", "value")

    def __init__(self, value: Any, unpack: Callable[[Any], Any]) -> None:
        self.value = value
        self.unpack = unpack

    def tensor(self) -> Tensor:
        """Return the tensor again.

        Raises:
            ArgumentError: the hook returned something else.
        """
        word = get_mode()
        token = mode.set(word & ~PACK)
        try:
            found = self.unpack(self.value)
        finally:
            mode.reset(token)
        if not isinstance(found, Tensor):
            raise ArgumentError(f"saved_tensors_hooks: unpack must return a tensor, got {type(found).__name__}")
        return found


def readable(node: Node) -> tuple[Any, ...]:
    """Return the values that the node keeps, unpacked.

    Raises:
        GradError: an earlier backward has freed them.
    """
    saved = node.saved
    if type(saved) is Freed:
        raise GradError(told.freed(node, saved))
    if saved is None:
        raise GradError(
            "backward: a view was used that cannot follow its base, which was written to in place: it comes "
            "from an op that returns several views, was made under no_grad, or by a custom Function; clone it first"
        )
    if type(saved) is Packed:
        return tuple(map(_unpack, saved.saved))
    found: tuple[Any, ...] = saved
    return found


def _unpack(value: Any) -> Any:
    if type(value) is PackedValue:
        return value.tensor()._array
    return tuple(map(_unpack, value)) if type(value) is tuple else value


def in_graph(node: Node, saved: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return kept values with arrays as Tensors at their places in the graph."""
    return tuple(map(as_tensor, repeat(node), node.keeps, saved))


class SavedTensor:
    """One value that a node keeps, before unpacking: the place to register hooks on it alone."""

    __slots__ = ("_find", "_name", "_node", "_replace")

    def __init__(self, node: Any, name: str, find: Callable[[], Any], replace: Callable[[Any], None]) -> None:
        self._node = node
        self._name = name
        self._find = find
        self._replace = replace

    def register_hooks(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        """Keep `pack_hook(tensor)` in place of the value; `unpack_hook` makes the tensor again at each use.

        Raises:
            GradError: the value was freed, is not there, or has hooks already.
        """
        value = self._find()
        if value is None:
            raise GradError(f"register_hooks: {self._node.name()} keeps nothing as {self._name}; hooks have no use")
        if isinstance(value, PackedValue):
            raise GradError(f"register_hooks: {self._name} of {self._node.name()} has hooks already")
        if not callable(pack_hook) or not callable(unpack_hook):
            raise ArgumentError("register_hooks: two functions are expected, one that packs and one that unpacks")
        word = get_mode()
        token = mode.set(word & ~(PACK | GRAD))
        try:
            self._replace(PackedValue(pack_hook(value.detach()), unpack_hook))
        finally:
            mode.reset(token)

    @property
    def data(self) -> Any:
        """What is kept: the tensor, or what the pack hook made of it."""
        value = self._find()
        return value.value if isinstance(value, PackedValue) else value

    @property
    def unpack_hook(self) -> Any:
        """The unpack hook, None without hooks."""
        value = self._find()
        return value.unpack if isinstance(value, PackedValue) else None

    def __repr__(self) -> str:
        return f"<SavedTensor object at {id(self):#x}>"


def raw_value(node: Node, name: str) -> SavedTensor:
    """Return the handle of what `node` saved under `name`.

    Raises:
        GradError: backward has freed it.
        AttributeError: no tensor of that name is ever saved.
    """
    own = {"self": "input", "result": "out"}.get(name, name)
    readable_or_freed(node)
    if own not in node.keeps or own not in (*node.inputs, *node.out_names):
        raise AttributeError(f"{node.name()} saves no tensor called {name!r}")
    at = node.keeps.index(own)

    def values() -> list[Any]:
        readable_or_freed(node)
        return list(node.saved.saved if type(node.saved) is Packed else node.saved)

    def find() -> Any:
        value = values()[at]
        return value if value is None or type(value) is PackedValue else as_tensor(node, own, value)

    def replace(value: PackedValue) -> None:
        node.saved = Packed((*values()[:at], value, *values()[at + 1 :]))

    return SavedTensor(node, name, find, replace)


def readable_or_freed(node: Node) -> None:
    """Raise if backward has freed what the node saved."""
    if node.saved is None or type(node.saved) is Freed:
        readable(node)


def as_tensor(node: Node, name: str, value: Any) -> Any:
    """Return one saved value; an array becomes the Tensor it was."""
    if type(value) is not ndarray:
        if type(value) is tuple and value and all(type(v) is ndarray for v in value) and name in node.inputs:
            # A list input (cat, stack, index): its members' edges are the last ones of the node, in order.
            return tuple(_at_edge(v, e) for v, e in zip(value, node.edges[node.inputs.index(name) :]))
        return value
    if name in node.out_names:
        return wrap(value, node if node.outs == 1 else _output(node, node.out_names.index(name), value))
    if name in node.inputs:
        return _at_edge(value, node.edges[node.inputs.index(name)])
    return wrap(value)


def _output(node: Node, nr: int, value: Any) -> Output:
    made: Any = node.extra and node.extra.get("outputs")
    known = made and made[nr]()
    return Output(node, nr, value.shape, value.dtype) if known is None else known


def _at_edge(value: Any, edge: Any) -> Any:
    if not isinstance(edge, Tensor):
        return wrap(value, edge)
    # The leaf itself, unless the node computed with a converted copy of it.
    return edge if edge._array is value else alias_of_leaf(edge, value)


def alias_of_leaf(leaf: Any, value: Any) -> Any:
    """Return a Tensor that holds `value` and whose gradient goes to `leaf`: a converted, packed or earlier copy."""
    if leaf._array.shape != value.shape:
        return leaf
    if leaf._array.dtype != value.dtype:
        from ..dtypes import of_numpy

        return leaf.to(of_numpy(value.dtype))
    from ..ops.declare import registry
    from ..ops.nodes import node_class

    node: Node = node_class(registry["clone"], "CloneBackward0")()
    node.edges, node.saved, node.extra = (leaf,), (), None
    node.shape, node.dtype, node.seq = value.shape, value.dtype, next_seq()
    return wrap(value, node)


def saved_value(node: Node, name: str) -> Any:
    """Return what `node` saved under `name`, None if no formula needed it.

    Raises:
        GradError: backward has freed it, or it was written over since.
        AttributeError: nothing of that name is ever saved.
    """
    readable_or_freed(node)
    saved = node.saved.saved if type(node.saved) is Packed else node.saved
    if name not in node.keeps:
        return None
    value = saved[node.keeps.index(name)]
    check_intact(node, name, value)
    return as_tensor(node, name, _unpack(value))
