"""`explain`: why a gradient is there, None, zero, NaN or huge, in words and with the source line."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..cuts import cuts
from ..errors import ArgumentError, GradError
from ..node import LEAF, Output
from ..origin import at, is_origin_tracking, set_origin_tracking
from ..state import next_seq
from ..tensor import Tensor
from .flow import Flows, size_of, why_small
from .guard import described
from .run import _roots
from .unreached import REPLAY, cut_text, leaves_behind, made_by, why_none


class Finding(NamedTuple):
    """What explain found out about one tensor."""

    name: str
    shape: tuple[int, ...]
    state: str
    """"ok", "none", "zero", "tiny", "huge", "nan", "inf", or "not kept" for a tensor that is no leaf."""
    reason: str
    """A word for the cause, e.g. "cut", "frozen", "dead relu"; empty where nothing is wrong."""
    text: str
    """The cause in a sentence, with the line."""


class Explanation:
    """The findings of `explain`: print it, loop over it, or ask for a tensor by name."""

    def __init__(self, head: str, findings: list[Finding]) -> None:
        self.head = head
        self.findings = findings

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, name: str | int) -> Finding:
        if isinstance(name, int):
            return self.findings[name]
        found = next((f for f in self.findings if f.name == name), None)
        if found is None:
            raise KeyError(f"explain: no tensor is called {name!r}; there are {', '.join(f.name for f in self)}")
        return found

    @property
    def problems(self) -> list[Finding]:
        """The findings whose gradient is not as it should be."""
        return [f for f in self.findings if f.state not in ("ok", "not kept")]

    def table(self) -> list[tuple[str, ...]]:
        """Return the findings as rows of text, the column names first."""
        rows = [(f.name, str(f.shape), f.state, f.reason, f.text) for f in self.findings]
        return [("tensor", "shape", "gradient", "reason", "explanation"), *rows]

    def __str__(self) -> str:
        rows = self.table()
        widths = [max(len(r[i]) for r in rows) for i in range(4)]
        lines = ["  " + "  ".join([c.ljust(w) for c, w in zip(r, widths)] + [r[4]]).rstrip() for r in rows]
        return "\n".join([self.head, *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rows = self.table()
        titles = "".join(f"<th>{html.escape(c)}</th>" for c in head)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in r) + "</tr>" for r in rows)
        return f"<p>{html.escape(self.head)}</p><table><tr>{titles}</tr>{body}</table>"


def explain(target: Any, loss: Any, *, tiny: float = 1e-12, huge: float = 1e6) -> Explanation:
    """Say for each parameter or tensor what gradient it gets from `loss`, and why.

    The graph, every `.grad` and every hook are left alone. Call it before backward, which frees what explain reads.

    Args:
        target: a Module (its parameters), a tensor, a sequence of tensors, or a dict of them by name.
        loss: the tensor to differentiate (a sum is taken if it has several elements), or a function that computes it;
            with a function every source line is known, and uses under no_grad are found.
        tiny, huge: the largest absolute value below, or above, which a gradient is remarked on.

    Raises:
        ArgumentError: `target` or `loss` is something else.

    Example:
        >>> import sapwood
        >>> w = sapwood.ones(2, requires_grad=True)
        >>> print(sapwood.autograd.explain(w, (w * 0).sum())[0].reason)
        zero factor
    """
    named = _named(target)
    tracked, since = is_origin_tracking(), next_seq()
    if not isinstance(loss, Tensor):
        tracked = True
        if not callable(loss):
            raise ArgumentError(f"explain: loss must be a tensor or a function, got {type(loss).__name__}")
        with set_origin_tracking(True):
            loss = loss()
        if not isinstance(loss, Tensor):
            raise ArgumentError(f"explain: the function must return the loss, it returned {type(loss).__name__}")
    if loss._node is None:
        return _no_graph(named, loss, since, tracked)
    reached: set[Any] = set()
    leaves = {id(leaf) for leaf in leaves_behind(loss if loss._node is LEAF else loss._node, reached)}
    until = float("inf") if loss._node is LEAF else loss._node.seq
    flows, trouble = _flows(loss)
    findings = []
    for name, t in named:
        inside = id(t) in leaves if t._node is LEAF else t._node is not None and _node(t) in reached
        if not inside:
            reason, text = why_none(t, reached, until, tracked=tracked)
            if t._grad is not None:
                text += "; its .grad holds an earlier gradient"
            findings.append(_finding(name, t, "none", reason, text))
        elif t._node is LEAF:
            findings.append(_leaf(name, t, flows, tiny, huge))
        else:
            findings.append(_inner(name, t, flows))
    number = sum(f.state != "none" for f in findings)
    root = "the loss" if loss._node is LEAF else f"{loss.grad_fn.name()}{at(loss.grad_fn)}"  # type: ignore[union-attr]
    head = f"explain: {number} of {len(findings)} tensors get a gradient from {root}"
    if trouble:
        head += f"; {trouble}"
    elif not tracked and any(f.reason == "unused" for f in findings):
        head += f"; {REPLAY}"
    return Explanation(head, findings)


def _named(target: Any) -> list[tuple[str, Tensor]]:
    if isinstance(target, Tensor):
        return [("tensor", target)]
    if hasattr(target, "named_parameters"):
        return list(target.named_parameters())
    pairs = list(target.items()) if isinstance(target, dict) else [(f"[{i}]", t) for i, t in enumerate(target)]
    for name, t in pairs:
        if not isinstance(t, Tensor):
            raise ArgumentError(f"explain: {name} must be a tensor, got {type(t).__name__}")
    return pairs


def _node(t: Tensor) -> Any:
    return t._node.node if type(t._node) is Output else t._node


def _finding(name: str, t: Tensor, state: str, reason: str, text: str) -> Finding:
    return Finding(name, tuple(t._array.shape), state, reason, text)


def _no_graph(named: list[tuple[str, Tensor]], loss: Tensor, since: int, tracked: bool) -> Explanation:
    made = made_by(loss) or next((c for c in cuts() if c.seq > since), None)
    why = (
        cut_text(made)
        if made is not None
        else (
            "it was made under no_grad, from numbers, NumPy arrays or detached tensors, or no input requires grad; "
            + REPLAY
        )
    )
    findings = []
    for name, t in named:
        reason, text = why_none(t, set(), tracked=tracked)
        findings.append(_finding(name, t, "none", reason, text))
    return Explanation(f"explain: the loss is not part of a graph: {why}", findings)


def _flows(loss: Tensor) -> tuple[Flows | None, str]:
    """Return the flows of a pass from the loss, or why there can be none."""
    seed = Tensor.detach(loss)
    seed._array = np.ones_like(loss._array)
    try:
        return Flows(_roots("explain", loss, seed, False)), ""
    except GradError as problem:
        return None, f"only the structure is known, the values are gone: {problem}"


def _leaf(name: str, t: Tensor, flows: Flows | None, tiny: float, huge: float) -> Finding:
    g = flows.leaves.get(t) if flows is not None else None if t._grad is None else t._grad._array
    if g is None:
        return _finding(name, t, "ok" if flows is None else "none", "", "on a path from the loss")
    flow = None if flows is None else flows.of(t)
    size, shown = size_of(g), described(np.asarray(g))
    if np.isnan(g).any():
        return _finding(name, t, "nan", "nan", _first_made("NaN", flow and flow.nan, shown))
    if np.isinf(g).any():
        return _finding(name, t, "inf", "inf", _first_made("infinity", flow and flow.inf, shown))
    if size <= tiny:
        reason, text = why_small(flow.low) if flow is not None else ("zero", "a backward has freed what would tell why")
        return _finding(name, t, "tiny" if size else "zero", reason, text)
    if size >= huge:
        text = shown
        if flow is not None and flow.high[1] is not None:
            factor, node, _ = flow.high
            text += f"; it grew most, {factor:.3g} times, in {node.name()}{at(node)}"
        return _finding(name, t, "huge", "grew", f"{text}; scale the loss or the inputs, or clip the gradient")
    return _finding(name, t, "ok", "", shown)


def _first_made(what: str, made: Any, shown: str) -> str:
    if made is None:
        return f"{shown}; the pass began with it, or a backward has freed what would tell where it came from"
    node, i = made
    of = f"the gradient of {node.inputs[i]!r}" if i < len(node.inputs) else f"gradient {i}"
    return f"{shown}; the first {what} was made by {node.name()}{at(node)}, in {of}; nan_guard() shows its values"


def _inner(name: str, t: Tensor, flows: Flows | None) -> Finding:
    arrived = [] if flows is None else flows.arrived.get(_node(t), [])
    shown = f"; {described(arrived[0])} arrives at it" if arrived else ""
    if t.retains_grad:
        return _finding(name, t, "ok", "", f"not a leaf, and retain_grad() keeps its gradient{shown}")
    return _finding(
        name, t, "not kept", "not a leaf",
        f"not a leaf: {t.grad_fn.name()}{at(t.grad_fn)} made it, and backward() keeps gradients of leaves only; call "  # type: ignore[union-attr]
        f"retain_grad() on it before backward(){shown}",
    )  # fmt: skip


__all__ = ["Explanation", "Finding", "explain"]
