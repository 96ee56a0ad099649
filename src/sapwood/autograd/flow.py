"""How gradients change on their way: where one vanished, grew or became NaN, followed from the loss to every edge."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import Output
from ..ops.declare import zero
from ..origin import at
from .guard import CHOOSERS, described, op_name, saved_arrays
from .stepping import Step, walk

_CLIPPED = {
    "relu", "hardtanh", "clamp", "clamp_min", "clamp_min_number", "clamp_max", "threshold", "hardsigmoid", "hardshrink",
    "softshrink", "leaky_relu", "elu", "celu",
}  # fmt: skip
_SATURATING = {
    "sigmoid", "tanh", "softmax", "safe_softmax", "log_softmax", "softplus", "logsigmoid", "erf", "hardswish", "gelu",
    "silu",
}  # fmt: skip


class Flow:
    """What happened to the largest contribution to a gradient since the loss.

    Attributes:
        low, high: (factor, node, input) of the step that shrank it most and of the one that made it grow most.
        nan, inf: the first node that made one of a gradient without, None if there is none.
    """

    __slots__ = ("high", "inf", "low", "nan", "size")

    def __init__(self, size: float, low: Any, high: Any, nan: Any, inf: Any) -> None:
        self.size, self.low, self.high, self.nan, self.inf = size, low, high, nan, inf


def size_of(a: Any) -> float:
    """Return the largest absolute value among the finite elements."""
    a = np.abs(np.asarray(a))
    finite = a[np.isfinite(a)]
    return float(finite.max()) if finite.size else 0.0


class Flows:
    """The flows of one backward pass, which leaves the graph, every `.grad` and every hook alone."""

    def __init__(self, roots: list[tuple[Any, Any]]) -> None:
        self.leaves: dict[Any, Any] = {}
        self.arrived: dict[Any, Any] = {}
        """Per node, the gradients that arrived at it."""
        self._flows: dict[Any, Flow] = {}
        for edge, g in roots:
            self._flows[_key(edge)] = Flow(size_of(g), (1.0, None, 0), (1.0, None, 0), None, None)
        for step in walk(roots, self.leaves, keep=True, hooks=False):
            self._passed(step)

    def of(self, edge: Any) -> Flow | None:
        """Return the flow that reached a leaf or a node."""
        return self._flows.get(_key(edge))

    def _passed(self, step: Step) -> None:
        node = step.node
        before = self._flows[node]
        incoming = [g._array for g in step.incoming if g is not None]
        self.arrived[node] = incoming
        size = max(map(size_of, incoming), default=0.0)
        had_nan = any(np.isnan(g).any() for g in incoming)
        had_inf = any(np.isinf(g).any() for g in incoming)
        for i, (edge, given) in enumerate(zip(step.edges, step.grads)):
            if edge is None or given is None:
                continue
            g = given._array
            out = size_of(g)
            low, high = before.low, before.high
            if size > 0.0:
                low = min(low, (out / size, node, i), key=_first)
                high = max(high, (out / size, node, i), key=_first)
            nan = before.nan if had_nan else (node, i) if np.isnan(g).any() else None
            inf = before.inf if had_inf else (node, i) if np.isinf(g).any() else None
            new, old = Flow(out, low, high, nan, inf), self._flows.get(_key(edge))
            if old is not None:
                new.nan, new.inf = old.nan or nan, old.inf or inf
                if old.size > out:
                    new.size, new.low, new.high = old.size, old.low, old.high
            self._flows[_key(edge)] = new


def _first(entry: Any) -> float:
    return float(entry[0])


def _key(edge: Any) -> Any:
    return edge.node if type(edge) is Output else edge


def why_small(low: Any) -> tuple[str, str]:
    """Return the reason, as a word and as a sentence, why a step made a gradient vanish."""
    factor, node, i = low
    if node is None or factor > 1e-3:
        return "zero upstream", "no single op did it: the gradient is this small from the loss on"
    name, where = node.name() if node.op is None else op_name(node.op), at(node)
    saved = dict(saved_arrays(node, i))
    out = saved.get("its result")
    if node.op is not None and i < len(node.op.vjps) and node.op.vjps[i] is zero:
        return "no slope", f"{name}{where} has derivative 0 everywhere; use a smooth stand-in where gradients must pass"
    if name in _CLIPPED:
        seen = out if out is not None else next(iter(saved.values()), None)
        range_ = "" if seen is None else f" (it saved {described(seen)})"
        return "dead relu", (
            f"dead {name}{where}: every element lies where it is flat{range_}; lower the learning rate, check the bias "
            "and the scale of its input, or use leaky_relu"
        )
    if name in _SATURATING:
        range_ = "" if out is None else f": its result is {described(out)}"
        return "saturated", (
            f"saturated {name}{where}{range_}, where its slope is 0 or nearly; scale its input down, or use a loss "
            "that takes logits"
        )
    if name in CHOOSERS:
        return "not selected", f"{name}{where} did not select any of its elements"
    for other, a in saved.items():
        if size_of(a) == 0.0:
            return "zero factor", f"{name}{where} multiplied it with {other!r}, which is 0 everywhere"
    return "zero slope", f"{node.name()}{where} turned the gradient of input {i} into {factor:.3g} times what arrived"
