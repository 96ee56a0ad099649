"""Saved values as Tensors: what a differentiable backward pass, `node._saved_*` and saved-tensor hooks need.

A node keeps bare arrays. The Tensor that such an array once was can be made again at any time: an input is the array
at the edge of that input, the output is the array at the node itself.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from ..errors import GradError
from ..node import Freed, Node, Output
from ..tensor import Tensor, wrap
from . import told


class Packed:
    """A node's saved values after `pack` of saved-tensor hooks; `unpack` is applied at each use."""

    __slots__ = ("saved", "unpack")

    def __init__(self, saved: tuple[Any, ...], unpack: Any) -> None:
        self.saved = saved
        self.unpack = unpack


class PackedValue:
    """One packed value among the saved ones."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def readable(node: Node) -> tuple[Any, ...]:
    """Return the node's saved arguments per input, unpacked.

    Raises:
        GradError: an earlier backward has freed them.
    """
    saved = node.saved
    if type(saved) is Freed:
        raise GradError(told.freed(node, saved))
    if type(saved) is Packed:
        return tuple(None if args is None else tuple(_unpack(a, saved.unpack) for a in args) for args in saved.saved)
    found: tuple[Any, ...] = saved
    return found


def _unpack(value: Any, unpack: Any) -> Any:
    if type(value) is PackedValue:
        return unpack(value.value)._array
    if type(value) is tuple:
        return tuple(_unpack(v, unpack) for v in value)
    return value


def as_tensors(node: Node, i: int, saved: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """Return the saved arguments of input i's formula, arrays as Tensors at their place in the graph."""
    if saved is None:
        return ()
    return tuple(as_tensor(node, name, value) for name, value in zip(node.wants[i], saved))


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
    return Output(node, nr, value.shape, value.dtype)


def _at_edge(value: Any, edge: Any) -> Any:
    if not isinstance(edge, Tensor):
        return wrap(value, edge)
    # The leaf itself, unless the node computed with a converted copy of it.
    return edge if edge._array is value else _alias_of_leaf(edge, value)


def _alias_of_leaf(leaf: Any, value: Any) -> Any:
    """Return a Tensor that holds `value` and whose gradient goes to `leaf` (a promoted or converted copy of it)."""
    if leaf._array.shape == value.shape and leaf._array.dtype != value.dtype:
        from ..dtypes import of_numpy

        return leaf.to(of_numpy(value.dtype))
    return leaf


def saved_value(node: Node, name: str) -> Any:
    """Return what `node` saved under `name`, None if no formula needed it.

    Raises:
        GradError: backward has freed it.
        AttributeError: nothing of that name is ever saved.
    """
    saved = readable(node)
    for i, names in enumerate(node.wants):
        if name in names and saved[i] is not None:
            return as_tensor(node, name, saved[i][names.index(name)])
    if any(name in names for names in node.wants) or name in node.inputs:
        return None
    raise AttributeError(f"{node.name()} saves nothing called {name!r}")
