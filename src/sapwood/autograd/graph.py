"""The graph as an object: nodes, edges to differentiate from and to, and hooks on several tensors at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from .. import alias
from ..errors import ArgumentError, GradError
from ..hook import RemovableHandle
from ..node import LEAF, Output, accumulator
from ..node import AccumulateGrad as AccumulateGrad
from ..node import Node as Node
from ..tensor import Tensor
from .observe import (
    disable_saved_tensors_hooks as disable_saved_tensors_hooks,
)
from .observe import (
    saved_tensors_hooks as saved_tensors_hooks,
)


class GradientEdge(NamedTuple):
    """A place in the graph: output `output_nr` of `node`. Usable where `backward` and `grad` take tensors."""

    node: Any
    output_nr: int
    edge: Any = None


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
    return GradientEdge(node, 0, node)


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` once per backward about the gradients of several tensors.

    Args:
        fn: with mode "all" receives a list with the gradient of each tensor (None where none arrived), once all that
            can arrive have; with mode "any" the first gradient that arrives.

    Raises:
        ArgumentError: another mode.
    """
    if mode not in ("all", "any"):
        raise ArgumentError(f"register_multi_grad_hook: mode must be 'all' or 'any', got {mode!r}")
    wanted = [i for i, t in enumerate(tensors) if t._node is not None]
    if not wanted:
        raise GradError("register_multi_grad_hook: none of the tensors requires grad, so the hook could never run")
    lock = threading.Lock()
    received: list[Any] = [None] * len(tensors)
    count = 0

    def arrived(i: int, g: Any) -> None:
        nonlocal count
        with lock:
            count = (count + 1) % len(wanted)
            ready = count == 0 if mode == "all" else count == 1 % len(wanted)
            received[i] = g
            given = list(received) if mode == "all" else g
            if count == 0:
                received[:] = [None] * len(tensors)
        if ready:
            fn(given)

    return _Handles([tensors[i].register_hook(partial(arrived, i)) for i in wanted])


class _Handles(RemovableHandle):
    """The handles of one hook on several tensors."""

    __slots__ = ("_all",)

    def __init__(self, handles: list[RemovableHandle]) -> None:
        self._all = handles
        self.id = handles[0].id

    def remove(self) -> None:
        for handle in self._all:
            handle.remove()


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Report a write that Sapwood could not see, such as one through `tensor.numpy()`."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        alias.stamp(t, "increment_version")


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in main memory; on this device they are there already, copies are made all the same."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: t.clone(), lambda t: t)
