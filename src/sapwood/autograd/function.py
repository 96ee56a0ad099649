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
import inspect
from typing import Any
from weakref import ref

import numpy as np

from .. import alias
from ..errors import ArgumentError, GradError, OverwrittenError
from ..node import LEAF, Freed, Node, Output, as_function
from ..origin import here
from ..state import GRAD, PACK, get_mode, mode, next_seq
from ..tensor import Tensor, wrap
from . import hooks, told
from .keeping import PackedValue, SavedTensor, alias_of_leaf
from .observe import call_pack, saved_hooks

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
        "_made",
        "_materialize",
        "_non_differentiable",
        "_tensors",
        "_to_save",
        "needs_input_grad",
    )

    function: Any = None
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
        self._tensors: tuple[bool, ...] = ()
        self._fixed: tuple[Any, ...] = ()
        self._live: tuple[bool, ...] = ()
        self._made: tuple[Any, ...] = ()
        self.needs_input_grad: tuple[bool, ...] = ()

    # -- what forward may call --------------------------------------------------------------------------------------

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (inputs, outputs or others) for backward, where they are `ctx.saved_tensors`."""
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
        if isinstance(self.saved, Freed):
            raise GradError(told.freed(self, self.saved))
        return tuple(self._restore(entry) for entry in self.saved)

    @property
    def saves(self) -> bool:  # type: ignore[override]
        """Whether freeing matters."""
        return bool(self.saved)

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """The handles of the saved tensors, to register hooks on them."""
        if isinstance(self.saved, Freed):
            self.saved_tensors  # noqa: B018 - raises

        def find(i: int) -> Any:
            entry = self.saved[i]
            return entry if type(entry) is _Packed else self._restore(entry)

        def replace(i: int, value: PackedValue) -> None:
            place = self.saved[i][2]
            self.saved = (*self.saved[:i], _Packed(value.value, value.unpack, place), *self.saved[i + 1 :])

        return tuple(
            SavedTensor(self, str(i), functools.partial(find, i), functools.partial(replace, i))
            for i in range(len(self.saved))
        )

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The edges of the tensors among the arguments, as (node, output number) pairs."""
        return tuple(as_function(e) for e, is_tensor in zip(self.edges, self._tensors) if is_tensor)

    def _restore(self, entry: Any) -> Any:
        if entry is None:
            return None
        if type(entry) is _Packed:
            array = entry.tensor()._array
            return self._at(entry.place, array)
        tensor, array, place, seq = entry
        if tensor is not None:
            if array is tensor._array or tensor._node is not LEAF:
                self._check(array, seq)
            return tensor
        self._check(array, seq)
        return self._at(place, array)

    def _at(self, place: Any, array: Any) -> Any:
        if isinstance(place, Tensor):
            return place if place._array is array else alias_of_leaf(place, array)
        return wrap(array, self._out_edge(place, array) if isinstance(place, int) else place)

    def _out_edge(self, nr: int, array: Any) -> Any:
        # Made anew each time: a node that held its own outputs' edges would be a cycle.
        if not self._live[nr]:
            return None
        if self.outs == 1:
            return self
        known = self._made[nr]()
        return Output(self, nr, array.shape, array.dtype) if known is None else known

    def _check(self, array: Any, seq: int) -> None:
        record = alias.stamp_of(array)
        if record is not None and record.seq > seq:
            raise OverwrittenError(told.overwritten(self, "a tensor", array, record, seq))

    def _keep(self, outputs: tuple[Any, ...]) -> None:
        """Turn what save_for_backward was given into arrays with their places in the graph."""
        seq = next_seq()
        pack = saved_hooks() if get_mode() & PACK else None
        entries: list[Any] = []
        for i, t in enumerate(self._to_save):
            if t is None:
                entries.append(None)
                continue
            if not isinstance(t, Tensor):
                raise ArgumentError(
                    f"save_for_backward: argument {i} must be a tensor or None, got {type(t).__name__}; put other "
                    "values on ctx as attributes"
                )
            place: Any = next((i for i, o in enumerate(outputs) if o is t), None)
            leaf = place is None and t._node is LEAF
            if place is None:
                place = t if leaf else t._node
            if pack is not None:
                given = call_pack(pack[0], self._detached(t) if isinstance(place, int) else t)
                entries.append(_Packed(given, pack[1], place))
            else:
                entries.append((t if leaf else None, t._array, place, seq))
        self.saved = tuple(entries)
        self._to_save = ()

    def _detached(self, output: Tensor) -> Tensor:
        """Return an output as its pack hook sees it: requiring grad, but holding no node that would make a cycle."""
        seen = wrap(output._array)
        seen._node = LEAF if output.dtype.is_differentiable else None
        return seen

    def name(self) -> str:
        """Return the function's name with "Backward"."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<torch.autograd.function.{type(self).__name__} object at {id(self):#x}>"

    def own_pull(self, g: Any, create: bool) -> list[Any]:
        """Return the gradient of every input from the user's backward."""
        if isinstance(self.saved, Freed):
            self.saved_tensors  # noqa: B018 - raises
        given = self._grad_outputs(g, create)
        word = get_mode()
        # A pass on Tensors is recorded only where it runs with grad mode on.
        token = mode.set(word if create else word & ~GRAD)
        try:
            result = self._formula()(self, *given)
        finally:
            mode.reset(token)
        return self._grad_inputs(result, create)

    def _formula(self) -> Any:
        """Return the user's backward, which may also be called vjp."""
        function = self.function
        if function.vjp is Function.vjp:
            return function.backward
        if function.backward is not Function.backward:
            raise GradError(f"{self.name()}: backward and vjp are both defined; define one of them")
        return function.vjp

    def _grad_outputs(self, g: Any, create: bool) -> list[Any]:
        received = g if isinstance(g, list) else [g]
        given = []
        for nr, (shape, dtype) in enumerate(self._fixed):
            x = received[nr] if isinstance(g, list) else received[0] if nr == self._only() else None
            if x is None:
                given.append(wrap(np.zeros(shape, dtype)) if self._materialize and dtype is not None else None)
            else:
                given.append(hooks.as_tensor(x, create))
        return given

    def _only(self) -> int:
        return next((i for i, live in enumerate(self._live) if live), 0)

    def _grad_inputs(self, result: Any, create: bool) -> list[Any]:
        results = result if isinstance(result, tuple) else (result,)
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
            if r is not None and not self._tensors[i]:
                raise GradError(
                    f"{self.name()}: backward returned a gradient for argument {i} of forward, which is no tensor; "
                    "return None there"
                )
            if r is not None and not isinstance(r, Tensor):
                raise GradError(f"{self.name()}: gradient {i} must be a tensor or None, got {type(r).__name__}")
            if needs:
                grads.append(r if create or r is None else r._array)
        live = iter(grads)
        return [next(live) if needs else None for needs in self.needs_input_grad]


class _FunctionMeta(type):
    """Gives every custom function its node class, named after it."""

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        super().__init__(name, bases, members)
        cls._node_class = type(name + "Backward", (FunctionNode,), {"__slots__": (), "function": cls})
        cls._backward_cls = cls._node_class


class Function(metaclass=_FunctionMeta):
    """Base of custom differentiable functions: define static `forward` and `backward`, call `apply`.

    With a static `setup_context(ctx, inputs, output)`, forward takes no `ctx`.
    """

    _node_class: Any

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
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Return what `backward` does; another name for it."""
        raise NotImplementedError("Function: define a static method backward to differentiate it")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: functions with state of their own were given up in favour of `ctx`."""
        raise GradError(f"{type(self).__name__}: an instance cannot be called; call {type(self).__name__}.apply(…)")

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
        """Call forward and record the call as one node; gradients go to tensors among the positional arguments."""
        if cls.setup_context is not Function.setup_context and (parameters := _with_defaults(cls.forward)):
            # What was left out is an input too: setup_context sees it, and backward returns a gradient for it.
            bound = parameters.bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        if transformed is not None:
            applied = transformed(cls, args, kwargs)
            if applied is not None:
                return applied[0]
        word = get_mode()
        node = cls._node_class()
        tensors = [a for a in args if isinstance(a, Tensor)]
        recording = bool(word & GRAD) and any(t._node is not None for t in tensors)
        node._tensors = tuple(isinstance(a, Tensor) for a in args)
        node.needs_input_grad = tuple(isinstance(a, Tensor) and a._node is not None for a in args)
        edges = [a._node if isinstance(a, Tensor) else None for a in args]
        node.edges = tuple(a if e is LEAF else e for a, e in zip(args, edges))
        result = _forward(cls, node, args, kwargs)
        outputs = tuple(result) if isinstance(result, tuple | list) else (result,)
        _check_dirty(node, outputs, word)
        if recording:
            placed = _place(node, args, outputs)
        else:
            placed = tuple(_outside(o, node, args) for o in outputs)
        return type(result)(placed) if isinstance(result, tuple | list) else placed[0]


def _check_dirty(node: FunctionNode, outputs: tuple[Any, ...], word: int) -> None:
    for t in node._dirty:
        if not isinstance(t, Tensor):
            raise GradError(f"{node.name()}: mark_dirty takes tensors, got {type(t).__name__}")
        if not any(t is o for o in outputs):
            raise GradError(f"{node.name()}: a tensor given to mark_dirty must be returned by forward")
        if word & GRAD and t._node is LEAF:
            raise GradError(
                f"{node.name()}: mark_dirty was given a leaf that requires grad, which must not change in place"
            )
        alias.stamp(t, node.name())


def _outside(output: Any, node: FunctionNode, args: tuple[Any, ...]) -> Any:
    """Return an output of a call that is not recorded: an input that was returned becomes a tensor of its own."""
    if any(output is d for d in node._dirty) or not any(output is a for a in args if isinstance(a, Tensor)):
        return output
    return output.detach()


@functools.cache
def _with_defaults(forward: Any) -> inspect.Signature | None:
    """Return the signature of a forward whose arguments may be left out or passed by name, else None."""
    found = inspect.signature(forward)
    special = any(p.default is not p.empty or p.kind is p.KEYWORD_ONLY for p in found.parameters.values())
    return found if special else None


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
            viewed = next((a for a in args if isinstance(a, Tensor) and _looks_at(o, a)), None)
            if viewed is not None:
                r._base = None
                alias.register_view(r, viewed, "function")
    return tuple(results)


def _looks_at(output: Any, argument: Tensor) -> bool:
    """Return whether an output is an argument or a view of it; a detached alias is neither."""
    return output is argument or (
        output._base is not None and (output._base is argument or output._base is argument._base)
    )


def _edges(node: FunctionNode, results: list[Any], live: list[bool]) -> tuple[Any, ...]:
    node.seq = next_seq()
    node.origin = here()
    if len(results) == 1 and not live[0]:
        node.shape, node.dtype = (), None
        return (None,)
    if len(results) == 1:
        node.shape, node.dtype = results[0]._array.shape, results[0]._array.dtype
        return (node,)
    node.shape = tuple(r._array.shape if ok else () for r, ok in zip(results, live))
    node.dtype = tuple(r._array.dtype if ok else None for r, ok in zip(results, live))
    recorded: Any = type(node)
    node.__class__ = _several(recorded, len(results))
    edges = tuple(
        Output(node, i, r._array.shape, r._array.dtype) if ok else None for i, (r, ok) in enumerate(zip(results, live))
    )
    node._made = tuple((lambda: None) if e is None else ref(e) for e in edges)
    return edges


@functools.cache
def _several(cls: Any, outs: int) -> Any:
    members = {"__slots__": (), "__module__": cls.__module__, "outs": outs}
    return type(cls.__name__, (cls,), members)


class _Packed(PackedValue):
    """A saved tensor that hooks packed, with its place in the graph."""

    __slots__ = ("place",)

    def __init__(self, value: Any, unpack: Any, place: Any) -> None:
        super().__init__(value, unpack)
        self.place = place


FunctionCtx = FunctionNode
BackwardCFunction = FunctionNode
FunctionMeta = _FunctionMeta

# Below because they are functions themselves; here is where programs look for them.
from .once import InplaceFunction, NestedIOFunction, once_differentiable  # noqa: E402

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]
