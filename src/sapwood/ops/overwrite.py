"""Values that replace a tensor's and owe it nothing, as random numbers do: what is recorded for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import alias
from ..errors import ArgumentError, ShapeError
from ..node import LEAF, Node
from ..state import GRAD, get_mode, next_seq
from ..tensor import Tensor
from .declare import Op, composite, op, registry, todo, zero
from .inplace import rebase
from .values import Array


@op
class overwritten(Op):
    """Stand for values that replaced the inputs and owe them nothing: random numbers. The gradients are zero."""

    inputs = ("input", "other")
    optional = ("other",)
    function = method = False
    half = False
    smooth = False
    samples = lambda rng: [(rng.standard_normal((2, 3)),)]
    forward = lambda input, other=None: input.copy()
    vjp = lambda g, needs: tuple([zero(g) for _ in needs])


@op
class underived(Op):
    """Stand for a draw whose derivative nobody has written: differentiating it is an error."""

    inputs = ("input", "other")
    optional = ("other",)
    function = method = False
    half = False
    grad_fn = "NotImplemented"
    samples = lambda rng: [(rng.standard_normal((2, 3)),)]
    forward = lambda input, other=None: input.copy()
    vjp = todo


def forgetting(name: str, array: Array, *sources: Tensor) -> Node:
    """Return the node, called `name`, of a new `array` that sends zeros back to `sources`, or refuses to."""
    from .nodes import node_class

    node: Node = node_class(registry["underived" if name == "NotImplemented" else "overwritten"], name)()
    node.edges = tuple(s if s._node is LEAF else s._node for s in sources)
    node.saved = ()
    node.shape, node.dtype, node.extra, node.seq = array.shape, array.dtype, None, next_seq()
    return node


@composite(name="fill_diagonal_", method=True, function_name=False)
def fill_diagonal_(input: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Set the elements whose indices are all equal to a number.

    Args:
        wrap: in a matrix with more rows than columns, begin the diagonal anew one row below its end.

    Raises:
        ShapeError: the tensor has fewer than two dimensions, or more than two that differ in size.
    """
    shape = input._array.shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise ShapeError(
            f"fill_diagonal_: a matrix, or a tensor with all sizes equal, is expected, got the shape {shape}"
        )
    if len(shape) > 2:
        strides, offset = input.stride(), input.storage_offset()
        input.as_strided((shape[0],), (sum(strides),), offset).fill_(fill_value)
        return input
    for start in range(0, max(shape[0], 1), shape[1] + 1) if wrap else (0,):
        input[start:].diagonal().fill_(fill_value)
    return input


def overwrite(tensor: Any, name: str, node_name: str, write: Callable[[Array], Any]) -> Tensor:
    """Let `write` fill the tensor's array, as an in-place op that forgets what was there.

    Raises:
        GradError: the tensor must not be written to.
    """
    if not isinstance(tensor, Tensor):
        raise ArgumentError(f"{name}: a tensor is expected, got {type(tensor).__name__}")
    recording = bool(get_mode() & GRAD)
    alias.check_writable(tensor, name, recording)
    write(tensor._array)
    alias.stamp(tensor, name)
    if recording and tensor._node is not None:
        rebase(tensor, forgetting(node_name, tensor._array, tensor))
    return tensor
