"""Custom functions: a forward and a backward of the user's own, as one node of the graph.

class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y

y = Exp.apply(x)
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import alias
from ..errors import ArgumentError, GradError, OverwrittenError
from ..node import LEAF, Node, Output
from ..state import GRAD, get_mode, mode, next_seq
from ..tensor import Tensor, wrap
from . import engine

transformed: Any = None
"""What applies a function to tensors inside transforms (vmap, forward mode); set when these are first used."""


class FunctionNode(Node):
    """The node of a custom function; it is also the `ctx` that forward and backward receive.

    Saved tensors are kept as arrays with their edges, so that saving an output makes no reference cycle.
    """

    __slots__ = (
        "__dict__",
        "_dirty",
        "_fixed",
        "_live",
        "_materialize",
        "_non_differentiable",
        "_to_save",
        "needs_input_grad",
    )

    function: Any = None
    vjps = None
    takes_none = True
    holomorphic = False

    def __init__(self) -> None:
        self.edges = ()
        self.saved = ()
        self.extra = None
        self._to_save: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._non_differentiable: tuple[Any, ...] = ()
        self._materialize = True
        self.needs_input_grad: tuple[bool, ...] = ()

    # -- what forward may call --------------------------------------------------------------------------------------

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (inputs, outputs or others) for backward, where they are `ctx.saved_tensors`."""
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise ArgumentError(
                    f"save_for_backward: argument {i} must be a tensor or None, got {type(t).__name__}; put other "
                    "values on ctx as attributes"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for jvp."""
        self.__dict__["saved_for_forward"] = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare inputs that forward has changed in place; they must be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare outputs that have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether the gradient of an unused output arrives as zeros (the default) or as None."""
        self._materialize = value

    # -- what backward reads ----------------------------------------------------------------------------------------

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to save_for_backward, at their places in the graph.

        Raises:
            GradError: an earlier backward has freed them, or one was written over since.
        """
        if self.saved is None:
            raise GradError(
                f"{self.name()}: its saved tensors were freed by an earlier backward; pass retain_graph=True to that "
                "call if this one is meant"
            )
        return tuple(self._restore(entry) for entry in self.saved)

    @property
    def saves(self) -> bool:  # type: ignore[override]
        """Whether freeing matters."""
        return bool(self.saved)

    def _restore(self, entry: Any) -> Any:
        if entry is None:
            return None
        tensor, array, place, seq = entry
        if tensor is not None:
            if array is tensor._array or tensor._node is not LEAF:
                self._check(array, seq)
            return tensor
        self._check(array, seq)
        return wrap(array, self._out_edge(place, array) if isinstance(place, int) else place)

    def _out_edge(self, nr: int, array: Any) -> Any:
        # Made anew each time: a node that held its own outputs' edges would be a cycle.
        if not self._live[nr]:
            return None
        return self if self.outs == 1 else Output(self, nr, array.shape, array.dtype)

    def _check(self, array: Any, seq: int) -> None:
        record = alias.stamp_of(array)
        if record is not None and record.seq > seq:
            raise OverwrittenError(
                f"{self.name()}: a tensor saved for backward, {array.dtype} {array.shape}, was written over by "
                f"{record.op} (version {record.version} of its memory); save a clone, or do not change it in place"
            )

    def _keep(self, outputs: tuple[Any, ...]) -> None:
        """Turn what save_for_backward was given into arrays with their places in the graph."""
        seq = next_seq()
        entries: list[Any] = []
        for t in self._to_save:
            if t is None:
                entries.append(None)
                continue
            place: Any = next((i for i, o in enumerate(outputs) if o is t), None)
            if place is not None:
                entries.append((None, t._array, place, seq))
            elif t._node is LEAF:
                entries.append((t, t._array, None, seq))
            else:
                entries.append((None, t._array, t._node, seq))
        self.saved = tuple(entries)
        self._to_save = ()

    def name(self) -> str:
        """Return the function's name with "Backward"."""
        return type(self).__name__

    def pull(self, g: Any, create: bool) -> list[Any]:
        """Return the gradient of every input from the user's backward."""
        if self.saved is None:
            self.saved_tensors  # noqa: B018 - raises
        given = self._grad_outputs(g, create)
        word = get_mode()
        # A pass on Tensors is recorded only where it runs with grad mode on.
        token = mode.set(word if create else word & ~GRAD)
        try:
            result = self.function.backward(self, *given)
        finally:
            mode.reset(token)
        return self._grad_inputs(result, create)

    def _grad_outputs(self, g: Any, create: bool) -> list[Any]:
        received = g if isinstance(g, list) else [g]
        given = []
        for nr, (shape, dtype) in enumerate(self._fixed):
            x = received[nr] if isinstance(g, list) else received[0] if nr == self._only() else None
            if x is None:
                given.append(wrap(np.zeros(shape, dtype)) if self._materialize else None)
            else:
                given.append(x if create else engine._as_tensor(x, False))
        return given

    def _only(self) -> int:
        return next((i for i, live in enumerate(self._live) if live), 0)

    def _grad_inputs(self, result: Any, create: bool) -> list[Any]:
        results = result if isinstance(result, tuple | list) else (result,)
        n = len(self.needs_input_grad)
        if len(results) > n and all(r is None for r in results[n:]):
            results = results[:n]
        if len(results) != n:
            raise GradError(
                f"{self.name()}: backward must return one gradient per argument of forward ({n}), it returned "
                f"{len(results)}; return None for arguments without gradient"
            )
        grads: list[Any] = []
        for i, (r, needs) in enumerate(zip(results, self.needs_input_grad)):
            if r is not None and not isinstance(r, Tensor):
                raise ArgumentError(f"{self.name()}: gradient {i} must be a tensor or None, got {type(r).__name__}")
            if needs:
                grads.append(r if create or r is None else r._array)
        live = iter(grads)
        return [next(live) if needs else None for needs in self.needs_input_grad]


FunctionNode.own_pull = FunctionNode.pull


class _FunctionMeta(type):
    """Gives every custom function its node class, named after it."""

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        super().__init__(name, bases, members)
        cls._node_class = type(name + "Backward", (FunctionNode,), {"__slots__": (), "function": cls})


class Function(metaclass=_FunctionMeta):
    """Base of custom differentiable functions: define static `forward` and `backward`, call `apply`.

    With a static `setup_context(ctx, inputs, output)`, forward takes no `ctx`.
    """

    _node_class: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise GradError(f"{type(self).__name__}: a Function is not instantiated; call {type(self).__name__}.apply(…)")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; overridden by each function."""
        raise NotImplementedError("Function: define a static method forward")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what backward needs, for functions whose forward takes no ctx."""
        raise NotImplementedError("Function: setup_context is not defined")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of every argument of forward; overridden by each function."""
        raise NotImplementedError("Function: define a static method backward to differentiate it")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Return the tangent of every output from those of the arguments (None for no tangent)."""
        raise NotImplementedError("Function: define a static method jvp to use it in forward mode")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Return (outputs, out_dims) for a batch; or set generate_vmap_rule = True instead."""
        raise NotImplementedError("Function: define a static method vmap to use it under vmap")

    generate_vmap_rule = False

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call forward and record the call as one node."""
        if not isinstance(cls.__dict__.get("forward", cls.forward), staticmethod) and "forward" in cls.__dict__:
            raise GradError(f"{cls.__name__}: forward must be a static method that receives ctx first")
        if transformed is not None:
            applied = transformed(cls, args, kwargs)
            if applied is not None:
                return applied[0]
        word = get_mode()
        node = cls._node_class()
        tensors = [a for a in args if isinstance(a, Tensor)]
        recording = bool(word & GRAD) and any(t._node is not None for t in tensors)
        node.needs_input_grad = tuple(isinstance(a, Tensor) and a._node is not None for a in args)
        edges = [a._node if isinstance(a, Tensor) else None for a in args]
        node.edges = tuple(a if e is LEAF else e for a, e in zip(args, edges))
        result = _forward(cls, node, args, kwargs)
        outputs = result if isinstance(result, tuple | list) else (result,)
        if recording:
            placed = _place(node, args, tuple(outputs))
        else:
            placed = tuple(outputs)
        return type(result)(placed) if isinstance(result, tuple | list) else placed[0]


def _forward(cls: Any, node: FunctionNode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    word = get_mode()
    token = mode.set(word & ~GRAD)
    try:
        if cls.setup_context is Function.setup_context:
            return cls.forward(node, *args, **kwargs)
        result = cls.forward(*args, **kwargs)
        cls.setup_context(node, args, result)
        return result
    finally:
        mode.reset(token)


def _place(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Put the outputs at their places in the graph."""
    for t in node._dirty:
        if t._node is LEAF:
            raise GradError(
                f"{node.name()}: mark_dirty was given a leaf that requires grad, which must not change in place"
            )
        alias.stamp(t, node.name())
    results: list[Any] = []
    for o in outputs:
        if not isinstance(o, Tensor) or any(o is d for d in node._dirty):
            results.append(o)
        elif any(o is a for a in args):
            # An input returned unchanged becomes a new tensor, so that input and output have their own places.
            results.append(wrap(o._array))
        elif o._node is not None:
            results.append(o.detach())
        else:
            results.append(o)
    live = [
        isinstance(r, Tensor) and r.dtype.is_differentiable and not any(o is n for n in node._non_differentiable)
        for r, o in zip(results, outputs)
    ]
    node._keep(tuple(outputs))
    node._fixed = tuple((r._array.shape, r._array.dtype) if isinstance(r, Tensor) else ((), None) for r in results)
    node._live = tuple(live)
    for r, o, edge in zip(results, outputs, _edges(node, results, live)):
        if edge is None:
            continue
        if any(o is d for d in node._dirty) and o._base is not None:
            from ..ops.inplace import rebase

            rebase(o, edge)
        else:
            r._node = edge
            for a in args:
                if isinstance(a, Tensor) and r is not a and alias.owner(r._array) is alias.owner(a._array):
                    alias.register_view(r, a, "function")
                    break
    return tuple(results)


def _edges(node: FunctionNode, results: list[Any], live: list[bool]) -> tuple[Any, ...]:
    node.seq = next_seq()
    if sum(live) <= 1 and len(results) == 1:
        node.shape, node.dtype = results[0]._array.shape, results[0]._array.dtype
        return tuple(node if ok else None for ok in live)
    node.shape = tuple(r._array.shape if ok else () for r, ok in zip(results, live))
    node.dtype = tuple(r._array.dtype if ok else None for r, ok in zip(results, live))
    node.__class__ = _several(type(node), len(results))
    return tuple(
        Output(node, i, r._array.shape, r._array.dtype) if ok else None for i, (r, ok) in enumerate(zip(results, live))
    )


@functools.cache
def _several(cls: Any, outs: int) -> Any:
    members = {"__slots__": (), "__module__": cls.__module__, "outs": outs}
    return type(cls.__name__, (cls,), members)


def once_differentiable(backward: Any) -> Any:
    """Mark a backward whose result cannot be differentiated again: doing so raises instead of being wrong."""

    @functools.wraps(backward)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        word = get_mode()
        token = mode.set(word & ~GRAD)
        try:
            results = backward(ctx, *grads)
        finally:
            mode.reset(token)
        if not word & GRAD or not any(isinstance(g, Tensor) and g._node is not None for g in grads):
            return results
        several = isinstance(results, tuple)
        barred = tuple(
            _Once.apply(r, *grads) if isinstance(r, Tensor) else r for r in (results if several else (results,))
        )
        return barred if several else barred[0]

    return wrapped


class _Once(Function):
    """Passes a value on and refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *others: Tensor) -> Tensor:
        return wrap(value._array.copy())

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise GradError(
            "once_differentiable: this backward is marked as differentiable once, and was differentiated again"
        )


FunctionCtx = FunctionNode
__all__ = ["Function", "FunctionCtx", "once_differentiable"]
