"""`autograd.grad` inside transforms, and for a whole batch of cotangents at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops as _ops
from ..autograd import run
from ..autograd.run import unused
from ..errors import ArgumentError, GradError, ShapeError
from ..tensor import Tensor
from .level import Wrapper, level
from .structure import batch, ones_like, plain, pull, settled, unbatch

ops: Any = _ops


def transformed_grad(
    outputs: Any, inputs: tuple[Any, ...], cots: Any, create: bool, allow: bool | None, materialize: bool
) -> tuple[Any, ...] | None:
    """Answer `autograd.grad` where a tensor belongs to a transform, None where all are plain."""
    outs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    given = (
        (cots,) * (1 if cots is not None else len(outs)) if cots is None or isinstance(cots, Tensor) else tuple(cots)
    )
    if not any(isinstance(x, Wrapper) for x in (*outs, *inputs, *given)):
        return None
    return _grad(outs, inputs, given, create, allow, materialize)


def _grad(outs: Any, inputs: Any, cots: Any, create: bool, allow: bool | None, materialize: bool) -> tuple[Any, ...]:
    if len(cots) != len(outs):
        raise GradError(f"grad: {len(outs)} outputs came with {len(cots)} gradients; give one for each")
    own = []
    for i, (o, c) in enumerate(zip(outs, cots)):
        if not any(t._node is not None for t in plain(o)):
            raise GradError(f"grad: output {i} does not require grad, so there is nothing to differentiate")
        if c is None and o.numel() != 1:
            raise GradError(f"grad: output {i} has shape {tuple(o.shape)}; pass a gradient of its shape")
        c = ones_like(o) if c is None else c
        if c.shape != o.shape:
            raise ShapeError(f"grad: gradient {i} has shape {tuple(c.shape)}, the output {tuple(o.shape)}")
        own.append(c)
    for i, x in enumerate(inputs):
        if not any(t._node is not None for t in plain(x)):
            raise GradError(f"grad: inputs[{i}] does not require grad; call requires_grad_() before using it")
    found = pull(outs, inputs, own, create)
    return tuple(unused(i, x, allow, materialize) if g is None else g for i, (x, g) in enumerate(zip(inputs, found)))


def batched_grad(
    outputs: Any, inputs: tuple[Any, ...], cots: Any, retain: bool | None, create: bool, allow: bool | None,
    materialize: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Return one gradient per row of the cotangents, all rows computed in one pass.

    Raises:
        ArgumentError: an output without a batch of cotangents.
        ShapeError: a cotangent that is no batch of the output's shape.
    """
    outs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    given = (cots,) if isinstance(cots, Tensor) else tuple(cots or ())
    if len(given) != len(outs) or any(g is None for g in given):
        raise ArgumentError("grad: is_grads_batched needs a batched tensor in grad_outputs for every output")
    for i, (g, o) in enumerate(zip(given, outs)):
        if tuple(g.shape)[1:] != tuple(o.shape) or not g.ndim:
            raise ShapeError(
                f"grad: with is_grads_batched gradient {i} must have shape (batch, *{tuple(o.shape)}), got "
                f"{tuple(g.shape)}"
            )
    if len({len(g) for g in given}) > 1:
        raise ShapeError(f"grad: the batches of gradients differ in size, {[len(g) for g in given]}")
    size = len(given[0])
    with level(size) as own:
        found = _grad(outs, inputs, tuple(batch(g, own) for g in given), create, allow, materialize)
        rows = tuple(g if g is None else unbatch(g, own) for g in found)
    if not (create or retain):
        _free(outs)
    return tuple(_own(r) if create or r is None else _own(settled(r)) for r in rows)


def _own(x: Any) -> Any:
    # What no row depends on is one zero, spread over the batch.
    return x.clone() if isinstance(x, Tensor) and 0 in x._array.strides and np.size(x._array) > 1 else x


def _free(outs: tuple[Any, ...]) -> None:
    """Drop what the graph saved, as a pass without retain_graph does."""
    from ..node import LEAF, Freed, Node, Output
    from ..origin import here
    from ..state import next_seq

    freed = Freed()
    freed.origin, freed.seq = here(), next_seq()
    seen: set[Any] = set()
    stack = [t._node for o in outs for t in plain(o) if t._node is not LEAF]
    while stack:
        edge = stack.pop()
        node = edge.node if type(edge) is Output else edge
        if not isinstance(node, Node) or node in seen:
            continue
        seen.add(node)
        stack += node.edges
        if node.saves:
            node.saved = freed


def install() -> None:
    """Let `autograd.grad` and custom functions know of transforms."""
    from ..autograd import function
    from .custom import transformed_apply

    run.transformed = transformed_grad
    function.transformed = transformed_apply
