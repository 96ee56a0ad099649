"""Hooks of a backward pass: reached only where a node or a leaf carries some.

The order at a node is PyTorch's: tensor hooks, then the retained gradient, then the gradient that `grad` returns, then
the node's pre-hooks, the formula, the node's post-hooks. At a leaf: tensor hooks, pre-hooks of its AccumulateGrad, the
accumulation, post-accumulate hooks, post-hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..errors import ArgumentError, DtypeError, GradError, ShapeError
from ..node import Node, Output
from ..state import GRAD, mode
from ..tensor import Tensor, wrap


class Pass:
    """What user code may ask about the backward pass that is calling it.

    Attributes:
        partial: whether only the gradients of given tensors are wanted.
        callbacks: functions to call when the pass has ended.
        notes: what hooks on several tensors remember during the pass.
    """

    __slots__ = ("__weakref__", "_path", "_reached", "_roots", "_stop", "_wanted", "callbacks", "notes", "partial")

    def __init__(
        self, roots: Iterable[tuple[Any, Any]], path: set[Any] | None, wanted: Iterable[Any] | None, stop: Any = ()
    ) -> None:
        self.partial = wanted is not None
        self._stop = stop
        self.callbacks: list[Callable[[], Any]] = []
        self.notes: dict[Any, Any] = {}
        self._reached: set[Any] | None = None
        self._roots = [edge for edge, _ in roots]
        self._path = path
        self._wanted = wanted

    def will_reach(self, edge: Any) -> bool:
        """Return whether the gradient of `edge` is computed in this pass."""
        if self._reached is None:
            self._reached = reachable(self._roots, self._stop)
            if self._path is not None:
                self._reached &= self._path | set(self._wanted or ())
        return edge in self._reached


current: ContextVar[Pass | None] = ContextVar("sapwood_pass", default=None)


def reachable(roots: list[Any], stop: Any = ()) -> set[Any]:
    """Return every edge that can be reached from the roots, themselves included, not going beyond `stop`."""
    seen: set[Any] = set()
    stack = list(roots)
    while stack:
        edge = stack.pop()
        if edge in seen:
            continue
        seen.add(edge)
        if not isinstance(edge, Tensor) and edge not in stop:
            stack.extend(e for e in edges_of(edge) if e is not None)
    return seen


def edges_of(node: Any) -> tuple[Any, ...]:
    """Return the edges of a Node or an Output."""
    return (node.node,) if type(node) is Output else node.edges


def queue_callback(function: Callable[[], Any]) -> None:
    """Call `function` when the backward pass that runs now has ended.

    Raises:
        GradError: no backward pass is running here.
    """
    running = current.get()
    if running is None:
        raise GradError("queue_callback: no backward pass is running; call it from a hook or a Function's backward")
    running.callbacks.append(function)


def as_tensor(g: Any, create: bool) -> Any:
    """Return a gradient as the Tensor that user code sees."""
    if create or g is None:
        return g
    a = np.asarray(g)
    return wrap(a if a.flags.writeable else a.copy())


def call(hook: Any, args: tuple[Any, ...], create: bool) -> Any:
    """Run user code with grad mode equal to `create`."""
    word = mode.get()
    token = mode.set(word | GRAD if create else word & ~GRAD)
    try:
        return hook(*args)
    finally:
        mode.reset(token)


def _checked(result: Any, like: Any, what: str) -> Any:
    """Return what a hook gave in place of a gradient, after checking that it can take its place."""
    if not isinstance(result, Tensor):
        raise ArgumentError(f"hook: {what} must return a tensor or None, got {type(result).__name__}")
    if like is not None:
        if result._array.shape != like._array.shape:
            raise ShapeError(
                f"hook: {what} returned a gradient of shape {result._array.shape}, it must have {like._array.shape}"
            )
        if result._array.dtype != like._array.dtype:
            raise DtypeError(
                f"hook: {what} returned a gradient of type {result.dtype.name}, it must be {like.dtype.name}"
            )
    return result


def tensor_hooks(extra: dict[str, Any], g: Any, create: bool) -> Any:
    """Pass a complete gradient (None if none arrived) through the hooks of its tensor."""
    for hook in tuple(extra.get("tensor", {}).values()):
        t = as_tensor(g, create)
        result = call(hook, (t,), create)
        if result is not None:
            result = _checked(result, t, "a tensor's hook")
            g = result if create else result._array
        elif not create and t is not None and t._array is not g:
            g = t._array  # a read-only or scalar gradient was copied; the hook may have written to the copy
    return g


def retained(extra: dict[str, Any], g: Any, create: bool) -> None:
    """Keep the gradient in `.grad` of the tensor that asked for it."""
    reference = extra.get("retain")
    if reference is not None and g is not None and (tensor := reference()) is not None:
        # A copy, unless recorded: what waits in the pass may still be added to.
        t = g if create else wrap(np.array(g))
        tensor._grad = t if tensor._grad is None else tensor._grad + t


def before(node: Any, g: Any, create: bool) -> Any:
    """Run the tensor hooks at a node or an output and keep the gradient where that was asked for."""
    extra = node.extra
    if type(node) is Output and g is None:
        return g  # the node will tell its hooks, once
    if not isinstance(g, list):
        g = tensor_hooks(extra, g, create)
        retained(extra, g, create)
    else:
        for nr, reference in extra.get("hooked", {}).items():
            output = reference()
            if g[nr] is None and output is not None and output.extra:
                g[nr] = tensor_hooks(output.extra, None, create)
    return g


def pre_hooks(node: Node, g: Any, create: bool) -> Any:
    """Run the node's pre-hooks on the gradients of its outputs."""
    for hook in tuple(node.extra.get("pre", {}).values()) if node.extra else ():
        given = _tuple(g, create)
        result = call(hook, (given,), create)
        if result is not None:
            new = _replaced(result, given, "a pre-hook", create)
            g = new if isinstance(g, list) else new[0]
    return g


def after(node: Node, g: Any, grads: Any, create: bool) -> Any:
    """Run the node's post-hooks on (grad_inputs, grad_outputs)."""
    for hook in tuple(node.extra.get("post", {}).values()) if node.extra else ():
        inputs = tuple(as_tensor(x, create) for x in grads)
        result = call(hook, (inputs, _tuple(g, create)), create)
        if result is not None:
            grads = _replaced(result, inputs, "a hook of a node", create)
    return grads


def _tuple(g: Any, create: bool) -> tuple[Any, ...]:
    return tuple(as_tensor(x, create) for x in (g if isinstance(g, list) else (g,)))


def _replaced(result: Any, given: tuple[Any, ...], what: str, create: bool) -> list[Any]:
    if not isinstance(result, tuple):
        raise ArgumentError(f"hook: {what} must return a tuple of gradients or None, got {type(result).__name__}")
    if len(result) != len(given):
        raise GradError(f"hook: {what} returned {len(result)} gradients, there are {len(given)}")
    checked = [r if r is None else _checked(r, like, what) for r, like in zip(result, given)]
    return [r if create or r is None else r._array for r in checked]


def leaf_tensor_hooks(leaf: Any, g: Any, create: bool) -> Any:
    """Convert and run the tensor hooks of a leaf: what `grad` does before it returns the leaf's gradient."""
    return g if leaf._extra is None else tensor_hooks(leaf._extra, _converted(leaf._extra, g, create), create)


def _converted(extra: dict[str, Any], g: Any, create: bool) -> Any:
    """Return the gradient of a leaf in the type that its `grad_dtype` asks for."""
    wanted = extra.get("dtype", (None,))[0]
    if g is None or wanted is None:
        return g
    return g.to(wanted) if create else np.asarray(g).astype(wanted.numpy, copy=False)


def _prepare(extra: dict[str, Any], g: Any) -> None:
    """Let a gradient of another type than its leaf's be added to something of its own type."""
    leaf = extra["dtype"][1]()
    if g is not None and leaf._grad is None and g.dtype is not leaf._array.dtype:
        # Minus zero is what every float is kept by when added to.
        leaf._grad = wrap(np.full_like(leaf._array, -0.0, g.dtype))


def before_leaf(extra: dict[str, Any], g: Any, create: bool) -> Any:
    """Run what must see the gradient of a leaf before it is accumulated."""
    g = tensor_hooks(extra, _converted(extra, g, create), create)
    for hook in tuple(extra.get("pre", {}).values()):
        given = (as_tensor(g, create),)
        result = call(hook, (given,), create)
        if result is not None:
            g = _replaced(result, given, "a pre-hook", create)[0]
    leaf = extra["off"]() if "off" in extra else None
    if leaf is not None and leaf._node is None:
        return None  # it has stopped requiring grad since the graph was built
    if "dtype" in extra and not create:
        _prepare(extra, g)
    return g


def after_leaf(leaf: Any, extra: dict[str, Any], g: Any, create: bool) -> None:
    """Run what must see a leaf after its gradient was accumulated."""
    for hook in tuple(extra.get("accumulated", {}).values()):
        result = call(hook, (leaf,), False)
        if result is not None:
            raise ArgumentError(
                f"hook: a post-accumulate hook must return None, got {type(result).__name__}; change tensor.grad in it"
            )
    for hook in tuple(extra.get("post", {}).values()):
        call(hook, ((), (as_tensor(g, create),)), create)


def leaf_counts(roots: list[Any], path: set[Any] | None, wanted: Any) -> dict[Any, int]:
    """Return, for every leaf with hooks, how many gradients will arrive at it in the pass."""
    counts: dict[Any, int] = {}
    seen: set[Any] = set()
    stack: list[Any] = []
    for edge in roots:
        if not isinstance(edge, Tensor):
            stack.append(edge)
        elif edge._extra:
            counts.setdefault(edge, 0)
    while stack:
        node = stack.pop()
        if node in seen or (path is not None and node not in path):
            continue
        seen.add(node)
        for e in edges_of(node):
            if isinstance(e, Tensor):
                if e._extra:
                    counts[e] = counts.get(e, 0) + 1
            elif e is not None:
                stack.append(e)
    return counts if wanted is None else {leaf: n for leaf, n in counts.items() if leaf in wanted}
