"""What transforms do with wrapped tensors: take a level off and put it on again, begin and end differentiation.

Reverse mode is recorded on the plain tensors under all wrappers. `pull` therefore takes the levels off, one by one: a
batch becomes one larger pull, and the gradient of a dual number is the dual number of gradients,

    (gᵀ J)˙ = ∇⟨g, ẏ⟩ + ġᵀ J,   ẏ being recorded as a function of the value like everything else.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .. import ops
from ..autograd import engine
from ..dtypes import of_numpy
from ..errors import GradError
from ..node import LEAF, Node, Output
from ..ops.declare import input_names, registry
from ..ops.nodes import node_class
from ..state import GRAD, OBSERVE, get_mode, mode, next_seq
from ..tensor import Tensor, wrap
from .batched import BatchedTensor
from .dual import DualTensor
from .level import Level, Wrapper, newest

# -- calling ops ------------------------------------------------------------------------------------------------------


@cache
def _order(op: Any) -> tuple[tuple[bool, int, str, bool], ...]:
    """Return per parameter whether it is an input, its place among inputs or attributes, its name, keyword-only."""
    names = input_names(op)
    return tuple(
        (n in names, names.index(n) if n in names else op.attrs.index(n), n, keyword) for n, _, keyword in op.params
    )


def call(op: Any, inputs: Any, attrs: Any) -> Any:
    """Call an op with its inputs and attributes in the order of the declaration."""
    args, kwargs = [], {}
    for is_input, i, name, keyword in _order(op):
        value = inputs[i] if is_input else attrs[i]
        if keyword:
            kwargs[name] = value
        else:
            args.append(value)
    return op.call(*args, **kwargs)


# -- levels on and off ------------------------------------------------------------------------------------------------


def live(x: Any) -> Any:
    """Return `x` without the dual levels that have ended."""
    while isinstance(x, DualTensor) and not x._level.alive:
        x = x._primal
    return x


def has(x: Any, level: Level) -> bool:
    """Return whether `level` is anywhere in a tensor."""
    x = live(x)
    if isinstance(x, Wrapper):
        if x._level is level:
            return True
        if x._level.number > level.number:
            if isinstance(x, BatchedTensor):
                return has(x._value, level)
            return has(x._primal, level) or has(x._tangent, level)
    return False


def unbatch(x: Tensor, level: Level) -> Tensor:
    """Return the batch that `x` is an example of at `level`, its first dimension the batch."""
    x = live(x)
    if not has(x, level):
        return x.expand((level.size, *x.shape))
    if isinstance(x, BatchedTensor):
        if x._level is level:
            return x._value
        # The newer level's batch is dimension 0 of what it holds; below this level's batch it is dimension 1.
        inner = unbatch(x._value, level)
        return BatchedTensor(ops.transpose(inner, 0, 1), x._level)
    assert isinstance(x, DualTensor)
    tangent = x._tangent
    return DualTensor(unbatch(x._primal, level), None if tangent is None else unbatch(tangent, level), x._level)


def batch(x: Tensor, level: Level) -> Tensor:
    """Return the example of the batch `x` at `level`; the reverse of `unbatch`."""
    x = live(x)
    if not isinstance(x, Wrapper) or x._level.number < level.number:
        return BatchedTensor(x, level)
    if isinstance(x, BatchedTensor):
        return BatchedTensor(batch(ops.transpose(x._value, 0, 1), level), x._level)
    assert isinstance(x, DualTensor)
    tangent = x._tangent
    return DualTensor(batch(x._primal, level), None if tangent is None else batch(tangent, level), x._level)


def split(x: Any, level: Level) -> tuple[Any, Any]:
    """Return value and tangent of `x` at a forward-mode level; None for no tangent."""
    x = live(x)
    if not isinstance(x, Wrapper) or x._level.number < level.number:
        return x, None
    if isinstance(x, DualTensor):
        if x._level is level:
            return x._primal, x._tangent
        (p, pt), (t, tt) = split(x._primal, level), split(x._tangent, level)
        moved = pt if pt is None and tt is None else DualTensor(zeros_like(p) if pt is None else pt, tt, x._level)
        return DualTensor(p, t, x._level), moved
    p, t = split(x._value, level)
    return BatchedTensor(p, x._level), None if t is None else BatchedTensor(t, x._level)


def join(primal: Any, tangent: Any, level: Level) -> Any:
    """Return the dual tensor of a value and a tangent at `level`; the reverse of `split`."""
    if tangent is None or primal is None:
        return primal
    above = newest((primal, tangent))
    if above is None or above.number < level.number:
        return DualTensor(primal, tangent, level)
    if above.size is not None:
        return BatchedTensor(join(unbatch(primal, above), unbatch(tangent, above), level), above)
    (p, pt), (t, tt) = split(primal, above), split(tangent, above)
    outer = join(zeros_like(p) if pt is None else pt, tt, level) if tt is not None else pt
    return DualTensor(join(p, t, level), outer, above)


def zeros_like(x: Tensor) -> Tensor:
    """Return plain zeros of the shape and dtype of `x`."""
    a = x._array
    zeros: Tensor = ops.zeros(a.shape, dtype=of_numpy(a.dtype))
    return zeros


def ones_like(x: Tensor) -> Tensor:
    """Return plain ones of the shape and dtype of `x`: where to take the derivative of something linear."""
    a = x._array
    ones: Tensor = ops.ones(a.shape, dtype=of_numpy(a.dtype))
    return ones


def batches_in(values: Any) -> list[Level]:
    """Return the vmap levels in tensors, oldest first."""
    found: set[Level] = set()
    stack = [x for x in values if isinstance(x, Wrapper)]
    while stack:
        x = live(stack.pop())
        if isinstance(x, BatchedTensor):
            found.add(x._level)
            stack.append(x._value)  # type: ignore[arg-type]
        elif isinstance(x, DualTensor):
            stack += [p for p in (x._primal, x._tangent) if p is not None]  # type: ignore[misc]
    return sorted(found, key=lambda level: level.number)


# -- beginning and ending differentiation -----------------------------------------------------------------------------


def fresh(x: Tensor, levels: Any) -> Tensor:
    """Return `x` as something to differentiate by: a leaf, or a node of its own where `x` is part of a graph.

    Args:
        levels: the vmaps each of whose examples is to have a gradient of its own.
    """
    for level in levels:
        x = _batched_value(live(x), level)
    return _fresh(live(x))


def _batched_value(x: Any, level: Level) -> Tensor:
    """Return `x` with its value, if not its tangents, batched at `level`."""
    if isinstance(x, Wrapper) and x._level.number >= level.number:
        if x._level is level:
            return x
        if isinstance(x, BatchedTensor):
            return BatchedTensor(_batched_value(live(x._value), level), x._level)
        assert isinstance(x, DualTensor)
        return DualTensor(_batched_value(live(x._primal), level), x._tangent, x._level)
    return BatchedTensor(x.expand((level.size, *x.shape)), level)


def _fresh(x: Any) -> Tensor:
    if isinstance(x, BatchedTensor):
        return BatchedTensor(_fresh(live(x._value)), x._level)
    if isinstance(x, DualTensor):
        return DualTensor(_fresh(live(x._primal)), x._tangent, x._level)
    if not x.dtype.is_differentiable:
        raise GradError(
            f"grad: only floating-point and complex tensors can be differentiated by, got {x.dtype.name}; convert it "
            "first, e.g. tensor.float()"
        )
    if x._node is None:
        return wrap(x._array, LEAF)
    node: Node = node_class(registry["alias"], "AliasBackward0")()
    node.edges = (x if x._node is LEAF else x._node,)
    node.saved = ()
    node.shape, node.dtype, node.extra, node.seq = x._array.shape, x._array.dtype, None, next_seq()
    return wrap(x._array, node)


def plain(x: Any) -> list[Tensor]:
    """Return the plain tensors under a tensor's wrappers."""
    x = live(x)
    if isinstance(x, BatchedTensor):
        return plain(x._value)
    if isinstance(x, DualTensor):
        return plain(x._primal) + ([] if x._tangent is None else plain(x._tangent))
    return [x]


def value_of(x: Any) -> Tensor:
    """Return the plain tensor that holds the values of a tensor, its tangents aside."""
    x = live(x)
    while isinstance(x, Wrapper):
        x = live(x._value if isinstance(x, BatchedTensor) else x._primal)
    found: Tensor = x
    return found


def in_wider_graph(outs: list[Tensor], ins: list[Tensor]) -> bool:
    """Return whether `outs` depend on anything that requires grad besides the fresh `ins`."""
    own: set[Any] = set()
    for x in ins:
        t = value_of(x)
        if t._node is not LEAF:
            return True
        own.add(t)
    stack = [t if t._node is LEAF else t._node for o in outs for t in plain(o)]
    seen: set[Any] = set()
    while stack:
        edge = stack.pop()
        if edge is None or edge in seen or edge in own:
            continue
        if isinstance(edge, Tensor):
            return True
        seen.add(edge)
        stack += (edge.node,) if type(edge) is Output else edge.edges
    return False


def settled(x: Any) -> Any:
    """Return a tensor outside the graph that differentiation recorded."""
    x = live(x)
    if isinstance(x, BatchedTensor):
        return BatchedTensor(settled(x._value), x._level)
    if isinstance(x, DualTensor):
        return DualTensor(settled(x._primal), None if x._tangent is None else settled(x._tangent), x._level)
    return x.detach() if isinstance(x, Tensor) and x._node is not None else x


# -- the pullback -----------------------------------------------------------------------------------------------------


def pull(outs: Any, ins: Any, cots: Any, create: bool) -> list[Any]:
    """Return the gradient of ⟨cots, outs⟩ with respect to each of `ins`, None where `outs` do not depend on it."""
    outs, ins = [live(o) for o in outs], [live(x) for x in ins]
    level = newest((*outs, *ins))
    if level is None:
        return _pull_plain(outs, ins, cots, create)
    if level.size is not None:
        return _pull_batch(outs, ins, cots, create, level)
    ys, yts = zip(*(split(o, level) for o in outs))
    xs = [split(x, level)[0] for x in ins]
    cs, cts = zip(*(split(c, level) for c in cots))
    values = pull(ys, xs, cs, create)
    pairs = [(yt, c) for yt, c in zip(yts, cs) if yt is not None]
    pairs += [(y, ct) for y, ct in zip(ys, cts) if ct is not None]
    if not pairs:
        return values
    moved = pull([y for y, _ in pairs], xs, [c for _, c in pairs], create)
    return [join(zeros_like(x) if v is None and m is not None else v, m, level) for x, v, m in zip(xs, values, moved)]


def _pull_batch(outs: Any, ins: Any, cots: Any, create: bool, level: Level) -> list[Any]:
    batched = [has(x, level) for x in ins]
    if all(batched):
        # What is the same for every example does not depend on what each has of its own.
        pairs = [(o, c) for o, c in zip(outs, cots) if has(o, level)]
    else:
        pairs = list(zip(outs, cots))
    if not pairs:
        return [None] * len(ins)
    found = pull(
        [unbatch(o, level) for o, _ in pairs],
        [unbatch(x, level) if b else x for x, b in zip(ins, batched)],
        [unbatch(c, level) for _, c in pairs],
        create,
    )
    return [g if g is None or not b else batch(g, level) for g, b in zip(found, batched)]


def _pull_plain(outs: Any, ins: Any, cots: Any, create: bool) -> list[Any]:
    roots = [(o if o._node is LEAF else o._node, _fitting(c, o)) for o, c in zip(outs, cots) if o._node is not None]
    wanted = [x if x._node is LEAF else x._node for x in ins]
    goals = [e for e in dict.fromkeys(wanted) if e is not None]
    if not roots or not goals:
        return [None] * len(ins)
    word = get_mode()
    # Those who observe calls see a pass only if it is made of calls.
    on_tensors = create or bool(word & OBSERVE) or any(isinstance(c, Wrapper) for _, c in roots)
    if not on_tensors:
        found = engine.run([(e, c._array) for e, c in roots], keep=True, wanted=goals)
        return [None if e is None or (g := found[e]) is None else wrap(np.asarray(g)) for e in wanted]
    token = mode.set(word | GRAD if create else word & ~GRAD)
    try:
        found = engine.run(roots, create=True, keep=True, wanted=goals)
    finally:
        mode.reset(token)
    return [None if e is None else found[e] for e in wanted]


def _fitting(c: Tensor, out: Tensor) -> Tensor:
    """Return a cotangent in the dtype of its output; shapes were checked by who asked."""
    a, o = c._array, out._array
    if a.dtype is not o.dtype:
        c = c.real if a.dtype.kind == "c" and o.dtype.kind != "c" else c
        c = c.to(of_numpy(o.dtype))
    return c if a.shape == o.shape else c.expand(o.shape)
