"""A live autograd graph as the pictures need it: its nodes in order, and what the caller calls its tensors.

Nothing here knows the class of a tensor or of a node. A tensor has `grad_fn`, `is_leaf`, `grad`, `output_nr`; a node
has `name()` and `next_functions`, and, where it is a leaf's accumulator, `variable`. Shapes of tensors without a name
come from `node._input_metadata`, one entry with `shape` and `dtype` per output of the forward op, where a node has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sapwood.errors import ArgumentError
from sapwood.viz.describe import dtype_text, shape_text

__all__ = [
    "Names",
    "Walk",
    "constants_of",
    "is_accumulator",
    "node_name",
    "op_name",
    "output_spec",
    "roots_of",
    "saved",
    "walk",
]


@dataclass(slots=True)
class Names:
    """What the caller calls the tensors: leaves by identity, the others by the node and output they come from."""

    leaves: dict[int, str] = field(default_factory=dict)
    outputs: dict[tuple[int, int], tuple[str, Any]] = field(default_factory=dict)
    constants: list[tuple[str, Any]] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)
    """Keeps alive the nodes that are known by their id."""

    @classmethod
    def of(cls, *sources: Mapping[str, Any] | None, module: Any = None) -> Names:
        """Collect names; where a tensor has several, the first counts."""
        names = cls()
        for source in sources:
            for name, tensor in (source or {}).items():
                names.add(str(name), tensor)
        if module is not None:
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                names.add(str(name), tensor)
        return names

    def add(self, name: str, tensor: Any) -> None:
        if not hasattr(tensor, "grad_fn"):
            return
        if tensor.grad_fn is not None:
            node = tensor.grad_fn
            self.nodes.append(node)
            self.outputs.setdefault((id(node), tensor.output_nr), (name, tensor))
        elif id(tensor) not in self.leaves:
            self.leaves[id(tensor)] = name
            if not tensor.requires_grad:
                self.constants.append((name, tensor))


@dataclass(slots=True)
class Walk:
    """The nodes behind some roots, every node after the nodes it leads to, and how many edges reach each."""

    nodes: list[Any]
    index: dict[int, int]
    uses: list[int]


def roots_of(tensors: Any, op: str) -> list[Any]:
    """Return a tensor or several as a list."""
    roots = [tensors] if hasattr(tensors, "grad_fn") else tensors
    if isinstance(roots, Mapping):
        roots = list(roots.values())
    if not isinstance(roots, Iterable):
        raise ArgumentError(
            f"{op}: expected a tensor or several, got {type(tensors).__name__}; pass the result of a computation."
        )
    roots = list(roots)
    for root in roots:
        if not hasattr(root, "grad_fn"):
            raise ArgumentError(
                f"{op}: expected tensors, got {type(root).__name__} among them; pass results of a computation."
            )
    if not roots:
        raise ArgumentError(f"{op}: expected at least one tensor, got none; pass the result of a computation.")
    return roots


def walk(starts: Iterable[Any]) -> Walk:
    """Visit every node reachable from the starting nodes, depth first in the order of arguments."""
    nodes: list[Any] = []
    index: dict[int, int] = {}
    counts: dict[int, int] = {}
    # Nodes must stay alive while they are known by their id.
    met: dict[int, Any] = {}
    for start in starts:
        if start is None or id(start) in met:
            continue
        met[id(start)] = start
        stack = [(start, iter(start.next_functions))]
        while stack:
            node, edges = stack[-1]
            for follower, _ in edges:
                if follower is None:
                    continue
                counts[id(follower)] = counts.get(id(follower), 0) + 1
                if id(follower) not in met:
                    met[id(follower)] = follower
                    stack.append((follower, iter(follower.next_functions)))
                    break
            else:
                index[id(node)] = len(nodes)
                nodes.append(node)
                stack.pop()
    return Walk(nodes, index, [counts.get(id(node), 0) for node in nodes])


def node_name(node: Any) -> str:
    """Return the class name of a node: `MulBackward0`."""
    return str(node.name()).rpartition("::")[2]


def op_name(node: Any) -> str:
    """Return the name of the operation that a node undoes: `Mul`."""
    name = node_name(node)
    stem = name.rstrip("0123456789").removesuffix("Backward")
    return stem if stem and name != stem else name


def is_accumulator(node: Any) -> bool:
    """Tell whether a node stands for a leaf. A user's own node may well keep something under the name `variable`."""
    return node_name(node) == "AccumulateGrad" and getattr(node, "variable", None) is not None


def output_spec(node: Any, number: int) -> tuple[str, str]:
    """Return shape and dtype, as text, of one output of the op behind a node; empty where unknown."""
    metadata = getattr(node, "_input_metadata", None) or ()
    if number >= len(metadata):
        return "", ""
    return shape_text(metadata[number]), dtype_text(metadata[number])


def saved(node: Any) -> list[tuple[str, Any]]:
    """Return what a node kept for the backward pass, by name, as far as it can still be read."""
    found = []
    for attribute in dir(node):
        if attribute.startswith("_saved_"):
            try:
                found.append((attribute.removeprefix("_saved_"), getattr(node, attribute)))
            except RuntimeError:  # freed by a backward pass, or written over since
                continue
    return found


def constants_of(node: Any, names: Names) -> list[tuple[str, Any]]:
    """Return the named tensors without gradient that a node took in, recognised among what it saved.

    At most as many as the node has inputs without gradient: running statistics and the like are not inputs.
    """
    wanted = sum(follower is None for follower, _ in node.next_functions)
    if not names.constants or not wanted:
        return []
    kept = [value for _, value in saved(node) if hasattr(value, "grad_fn")]
    return [(name, t) for name, t in names.constants if any(is_same(t, value) for value in kept)][:wanted]


def is_same(tensor: Any, other: Any) -> bool:
    """Tell whether two tensors are one, or two handles on the same elements."""
    if tensor is other:
        return True
    if not (hasattr(tensor, "data_ptr") and hasattr(other, "data_ptr")) or tuple(tensor.shape) != tuple(other.shape):
        return False
    return bool(tensor.data_ptr() == other.data_ptr() and tensor.numel() > 0)
