"""The graph as an object: nodes, edges to differentiate from and to, and hooks on several tensors at once."""

from __future__ import annotations

import threading
from abc import ABC
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import alias
from .. import node as nodes
from ..errors import ArgumentError, GradError, ValueRangeError
from ..hook import RemovableHandle
from ..node import LEAF, GradientEdge, Output, accumulator
from ..tensor import Tensor
from . import hooks
from .mutation import allow_mutation_on_saved_tensors
from .observe import disable_saved_tensors_hooks, saved_tensors_hooks


class Node(ABC):  # noqa: B024 - only for isinstance; programs define no nodes of their own by it
    """What every node of a graph is an instance of: recorded calls, custom functions, accumulators of leaves."""


Node.register(nodes.Node)
Node.register(nodes.AccumulateGrad)


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the tensor's place in the graph, which outlives the tensor and does not keep its values.

    Raises:
        GradError: the tensor does not require grad.
    """
    node = tensor._node
    if node is None:
        raise GradError("get_gradient_edge: this tensor does not require grad, so it has no place in a graph")
    if node is LEAF:
        return GradientEdge(accumulator(tensor), 0, tensor)
    if type(node) is Output:
        return GradientEdge(node.node, node.nr, node)
    return GradientEdge(node, 0)


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` once per backward about the gradients of several tensors.

    Args:
        fn: with mode "all" receives a list with the gradient of each tensor (None where none arrived), once all that
            will arrive in this pass have; with mode "any" the first gradient that arrives.

    Raises:
        ValueRangeError: another mode.
        GradError: one of the tensors does not require grad.
    """
    if mode not in ("all", "any"):
        raise ValueRangeError(f"register_multi_grad_hook: mode must be 'all' or 'any', got {mode!r}")
    edges = [t if t._node is LEAF else t._node for t in tensors]
    if None in edges:
        raise GradError(
            f"register_multi_grad_hook: tensors[{edges.index(None)}] does not require grad, so no gradient will reach "
            "the hook"
        )
    lock = threading.Lock()
    key = object()

    def arrived(i: int, g: Any) -> None:
        running = hooks.current.get()
        if running is None:
            return
        with lock:
            if mode == "any":
                if g is None or key in running.notes:
                    return
                running.notes[key] = True
                given = g
            else:
                if key not in running.notes:
                    running.notes[key] = [None] * len(tensors), sum(map(running.will_reach, edges))
                given, missing = running.notes[key]
                given[i] = g
                running.notes[key] = given, missing - 1
                if missing > 1:
                    return
        fn(given)

    return _Handles([t.register_hook(partial(arrived, i)) for i, t in enumerate(tensors)])


class _Handles(RemovableHandle):
    """The handles of one hook on several tensors."""

    __slots__ = ("_all",)

    def __init__(self, handles: list[RemovableHandle]) -> None:
        self._all = handles
        self.id = handles[0].id if handles else -1

    def remove(self) -> None:
        for handle in self._all:
            handle.remove()


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Report a write that Sapwood could not see, such as one through `tensor.numpy()`."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tuple(tensor):
        alias.stamp(t, "increment_version")


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in main memory; on this device they are there already, copies are made all the same."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: t.clone(), lambda t: t)


def region_activation_memory_budget(budget: float) -> None:
    """Refuse: a budget for a compiled region has no meaning where nothing is compiled.

    Args:
        budget: the share of the saved bytes to keep, from 0 to 1.

    Raises:
        ArgumentError: it is no number.
        ValueRangeError: it is out of range.
        GradError: otherwise; `utils.checkpoint.checkpoint_to_budget` does this for a module that is not compiled.
    """
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise ArgumentError(f"region_activation_memory_budget: budget must be a number, got {type(budget).__name__}")
    if not 0 <= budget <= 1:
        raise ValueRangeError(f"region_activation_memory_budget: budget must lie between 0 and 1, got {budget}")
    raise GradError(
        "region_activation_memory_budget: this is no compiled region, where it would have no effect; use "
        "utils.checkpoint.checkpoint_to_budget(module, example_input, budget_bytes)"
    )


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Do nothing: a CPU has no streams that could differ."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Do nothing: a CPU has no streams that could be captured."""


__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]
