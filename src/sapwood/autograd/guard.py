"""`nan_guard`: stop at the op that first makes a NaN or an infinity, forward or backward, and say what it was given.

Inside the guard every call and every backward formula is looked at as it is made, so the first bad value is found
where it arises and not where it has spread to. The error names the module, the op, the source line, the first bad
element and what the op's inputs were there; and it tells an op that produced the value from one that only passed on
what came in from outside.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy import ndarray

from ..errors import ArgumentError, NonFiniteError
from ..node import Node, Output, rare
from ..ops.declare import input_names
from ..origin import at, here, place
from ..state import GUARD, get_mode, mode
from ..tensor import Tensor
from .modules import Paths
from .observe import watch_calls

current: ContextVar[nan_guard | None] = ContextVar("sapwood_nan_guard", default=None)

CHOOSERS = {
    "where", "masked_fill_value", "masked_fill_tensor", "masked_scatter", "masked_select", "index", "index_select",
    "select", "gather",
}  # fmt: skip
"""Ops that pass gradients to the elements they chose, and zeros to the others."""


class nan_guard:
    """Raise at the first op inside that produces a NaN, in the forward and in the backward pass.

    Args:
        module: its submodules are named in the error; None if there is none.
        forward: look at the result of every op.
        backward: look at every gradient that a backward pass inside makes.
        inf: infinities count too.

    Raises:
        NonFiniteError: naming module, op, source line, the first bad element and the inputs' ranges.

    Example:
        >>> import sapwood
        >>> from sapwood import autograd
        >>> with autograd.nan_guard():
        ...     y = sapwood.ones(2).log()
    """

    def __init__(self, module: Any = None, *, forward: bool = True, backward: bool = True, inf: bool = False) -> None:
        if module is not None and not hasattr(module, "named_modules"):
            raise ArgumentError(
                f"nan_guard: module must be a Module or None, got {type(module).__name__}; switches such as inf=True "
                "are given by name"
            )
        self.forward, self.backward, self.inf = forward, backward, inf
        self.paths = Paths(module)
        self._watch = watch_calls(self._called)
        self._chose: list[Node] = []
        self._left: list[Any] = []

    def __enter__(self) -> nan_guard:
        self.paths.__enter__()
        self._watch.__enter__()
        word = mode.set(get_mode() | GUARD) if self.backward else None
        self._left.append((current.set(self), word))
        return self

    def __exit__(self, *exception: object) -> None:
        guard, word = self._left.pop()
        current.reset(guard)
        if word is not None:
            mode.reset(word)
        self._watch.__exit__()
        self.paths.__exit__()

    def bad(self, a: Any) -> Any:
        """Return which elements are not what they should be."""
        a = np.asarray(a)
        if a.dtype.kind == "V":
            a = a.astype(np.float32)
        return ~np.isfinite(a) if self.inf else np.isnan(a)

    def spoilt(self, x: Any) -> bool:
        """Return whether a value holds a bad element."""
        a = getattr(x, "_array", x)
        return isinstance(a, ndarray | np.generic) and a.dtype.kind in "fcV" and bool(self.bad(a).any())

    @property
    def what(self) -> str:
        return "NaN or infinity" if self.inf else "NaN"

    # -- forward ------------------------------------------------------------------------------------------------------

    def _called(self, op: Any, inputs: tuple[Any, ...], outputs: Any) -> None:
        path = self.paths.now()
        for t in outputs:
            node = t._node.node if type(t._node) is Output else t._node
            if path and isinstance(node, Node):
                rare(node)["module"] = path
        # Views only show what is there; the op that computes with it is the one to name.
        if not self.forward or not inputs or op.view or op.name.startswith(("empty", "new_empty")):
            return
        for nr, t in enumerate(outputs):
            if self.spoilt(t):
                raise NonFiniteError(self._forward_text(op, inputs, outputs, nr, path))

    def _forward_text(self, op: Any, inputs: tuple[Any, ...], outputs: Any, nr: int, path: str) -> str:
        out: Tensor = outputs[nr]
        found = place(here())
        name = f"{op_name(op)}{' in ' + path if path else ''}{f' at {found}' if found else ''}"
        given = [
            (f"{n}[{i}]" if isinstance(x, tuple) else n, m)
            for n, x in zip(input_names(op), inputs)
            for i, m in enumerate(x if isinstance(x, tuple) else (x,))
            # An in-place op has written over what it was given.
            if m is not None and all(m is not o for o in outputs)
        ]
        arrays = [(n, getattr(x, "_array", x)) for n, x in given]
        ranges = "".join(f"\n  {n}: {described(a)}" for n, a in arrays)
        came = [n for n, a in arrays if self.spoilt(a)]
        if came:
            return (
                f"nan_guard: {name} only passes on a {self.what} that came in with its argument {came[0]!r}, which no "
                f"op inside the guard has made: look at the data, the parameters or what was computed before.{ranges}"
            )
        result = f"output {nr}" if len(op.outs) > 1 else "its result"
        index, count = self._first(out._array)
        return (
            f"nan_guard: {name} is the first to produce a {self.what}: {count} of {out._array.size} elements of "
            f"{result}, the first at {index}{_values(arrays, index, out._array.shape)}.{ranges}"
        )

    def _first(self, a: Any) -> tuple[tuple[int, ...], int]:
        bad = self.bad(a)
        index = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(bad)))[: np.ndim(a)]
        return index, int(bad.sum())

    # -- backward -----------------------------------------------------------------------------------------------------

    def examine(self, node: Any, g: Any, grads: Any) -> None:
        """Raise if a gradient that `node` made from the incoming `g` is bad; called by the engine for each node."""
        if node.op is not None and node.op.name in CHOOSERS:
            self._chose.append(node)
            del self._chose[:-8]
        for i, x in enumerate(grads):
            if self.spoilt(x):
                problem = NonFiniteError(self._backward_text(node, g, i, np.asarray(getattr(x, "_array", x))))
                self._chose.clear()
                raise problem

    def _backward_text(self, node: Any, g: Any, i: int, bad: Any) -> str:
        path = (node.extra or {}).get("module", "")
        name = f"{node.name()}{' in ' + path if path else ''}{at(node)}"
        incoming = [np.asarray(getattr(x, "_array", x)) for x in (g if isinstance(g, list) else [g]) if x is not None]
        of = f"the gradient of {node.inputs[i]!r}" if i < len(node.inputs) else f"its gradient {i}"
        arrays = [("the incoming gradient", x) for x in incoming] + saved_arrays(node, i)
        ranges = "".join(f"\n  {n}: {described(a)}" for n, a in arrays)
        if any(self.spoilt(x) for x in incoming):
            return (
                f"nan_guard: backward: {name} only passes on a {self.what} that came in with the gradient the pass "
                f"began with.{ranges}"
            )
        index, count = self._first(bad)
        text = (
            f"nan_guard: backward: {name} is the first to produce a {self.what}: {count} of {bad.size} elements of "
            f"{of}, the first at {index}{_values(arrays, index, bad.shape)}.{ranges}"
        )
        hint = masked_hint(g, bad, self.bad(bad), self._chose)
        return f"{text}\n{hint}" if hint else text


def op_name(op: Any) -> str:
    """Return what users call an op."""
    return str(op.name).removesuffix("_of")


def saved_arrays(node: Any, i: int) -> list[tuple[str, Any]]:
    """Return the operands and results that the formula of input i of `node` used, by name."""
    if not isinstance(node.saved, tuple) or not node.saved or not node.wants:
        return []
    at = i if node.op.vjp is None and i < len(node.wants) else 0
    kept = dict(zip(node.keeps, node.saved))
    names = {"out": "its result"}
    return [
        (names.get(n, n), v)
        for n, v in ((n, kept[n]) for n in node.wants[at])
        if isinstance(v, ndarray) or (n in node.inputs and isinstance(v, int | float))
    ]


def masked_hint(g: Any, made: Any, bad: Any, chose: Any = ()) -> str:
    """Return the advice for a NaN that arose from a zero gradient: the unselected branch of a where."""
    incoming = np.asarray(getattr(g, "_array", 0.0 if isinstance(g, list) else g))
    if isinstance(g, list) or incoming.shape != made.shape or not np.all(incoming[bad] == 0):
        return ""
    chooser = f"{chose[-1].name()}{at(chose[-1])}" if chose else "a where or a mask"
    return (
        f"The incoming gradient is 0 wherever this happened, so those elements were not selected by {chooser}, and 0 "
        "times an infinite slope is NaN; use autograd.safe_where(condition, f, g, x), which computes each branch on "
        "the elements it is selected for only"
    )


def described(a: Any) -> str:
    """Return type, shape and range of a value."""
    if not isinstance(a, ndarray):
        return repr(a)
    head = f"{a.dtype} {a.shape}"
    if a.dtype.kind == "V":
        a = a.astype(np.float32)
    if not a.size or a.dtype.kind not in "fiu":
        return head
    finite = a[np.isfinite(a)]
    parts = []
    if finite.size:
        low, high = finite.min().item(), finite.max().item()
        parts.append(f"{low:.6g} everywhere" if low == high else f"from {low:.6g} to {high:.6g}")
    for n, what in ((np.isnan(a).sum(), "NaN"), (np.isinf(a).sum(), "inf")):
        if n:
            parts.append(f"{n} × {what}")
    return f"{head}, {', '.join(parts)}"


def _values(arrays: list[tuple[str, Any]], index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Return ", where input is …": the operands at the first bad element, where they have elements there."""
    there = []
    for name, a in arrays:
        if isinstance(a, ndarray | int | float) and np.asarray(a).dtype.kind in "fiubV" and np.ndim(a) <= len(shape):
            try:
                value = np.broadcast_to(np.asarray(a), shape)[index]
            except ValueError:
                continue
            there.append(f"{name} is {float(value):.6g}")
    return f", where {' and '.join(there)}" if there else ""
