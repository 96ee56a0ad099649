"""Custom functions inside transforms: their own `jvp` and `vmap`, or a rule made from forward and backward."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import ops as _ops
from ..autograd.function import Function, FunctionNode
from ..errors import GradError, MissingError, ShapeError
from ..state import GRAD, get_mode, mode
from ..tensor import Tensor
from .batched import BatchedTensor
from .dual import DualTensor
from .level import Level, Wrapper, level, newest, without
from .structure import batch, has, live, plain, split, unbatch

ops: Any = _ops


class VmapInfo(NamedTuple):
    """What a function's `vmap` is told about the batch."""

    batch_size: int
    randomness: str


def transformed_apply(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
    """Apply a custom function where an argument belongs to a transform; None where none does."""
    if not any(isinstance(a, Wrapper) for a in args):
        return None
    args = tuple(map(live, args))
    newest_level = newest(args)
    if newest_level is None:
        return (cls.apply(*args, **kwargs),)
    if newest_level.size is None:
        return (_forward_mode(cls, args, kwargs, newest_level),)
    return (_batch(cls, args, kwargs, newest_level),)


# -- forward mode -----------------------------------------------------------------------------------------------------


def _forward_mode(cls: Any, args: Any, kwargs: Any, own: Level) -> Any:
    if cls.jvp is Function.jvp:
        raise MissingError(
            f"{cls.__name__}: it has no static method jvp, which forward mode needs; define jvp(ctx, *tangents)"
        )
    parts = [split(a, own) if isinstance(a, Tensor) else (a, None) for a in args]
    primals, tangents = [p for p, _ in parts], [t for _, t in parts]
    ctx = _ForwardContext(primals)
    result = _run(cls, ctx, primals, kwargs)
    tensors = [p for p in primals if isinstance(p, Tensor)]
    if any(t._node is not None for p in tensors for t in plain(p)):
        # The value's place in the graph comes from an ordinary call; what jvp saved of it follows.
        computed, result = result, cls.apply(*primals, **kwargs)
        ctx.replace(_several(computed), _several(result))
    outs, moves = _several(result), _several(cls.jvp(ctx, *tangents))
    if len(moves) != len(outs):
        raise GradError(
            f"{cls.__name__}: jvp must return one tangent per output ({len(outs)}), it returned {len(moves)}"
        )
    for i, (o, t) in enumerate(zip(outs, moves)):
        if isinstance(t, Tensor) and isinstance(o, Tensor) and t.shape != o.shape:
            raise ShapeError(
                f"{cls.__name__}: jvp returned a tangent of shape {tuple(t.shape)} for output {i}, which has "
                f"{tuple(o.shape)}"
            )
    made = [o if t is None or not isinstance(o, Tensor) else DualTensor(o, t, own) for o, t in zip(outs, moves)]
    return type(result)(made) if isinstance(result, tuple | list) else made[0]


def _several(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def _run(cls: Any, ctx: Any, args: Any, kwargs: Any) -> Any:
    """Call forward, and setup_context where it is apart, without recording."""
    token = mode.set(get_mode() & ~GRAD)
    try:
        if cls.setup_context is Function.setup_context:
            return cls.forward(ctx, *args, **kwargs)
        made = cls.forward(*args, **kwargs)
        cls.setup_context(ctx, tuple(args), made)
        return made
    finally:
        mode.reset(token)


class _ForwardContext:
    """The ctx of forward and jvp in forward mode: it keeps what was saved for forward."""

    def __init__(self, args: Any) -> None:
        self.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        self._forward: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep nothing: jvp reads what was saved for forward."""

    def save_for_forward(self, *tensors: Any) -> None:
        self._forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        pass

    def mark_non_differentiable(self, *tensors: Any) -> None:
        pass

    def set_materialize_grads(self, value: bool) -> None:
        pass

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._forward

    def replace(self, old: tuple[Any, ...], new: tuple[Any, ...]) -> None:
        """Take the recorded results in place of the ones computed for the context."""
        table = {id(o): n for o, n in zip(old, new)}
        self._forward = tuple(table.get(id(t), t) for t in self._forward)


# -- batches ----------------------------------------------------------------------------------------------------------


def _batch(cls: Any, args: Any, kwargs: Any, own: Level) -> Any:
    own_rule = cls.vmap is not Function.vmap
    if own_rule and cls.generate_vmap_rule:
        raise GradError(f"{cls.__name__}: it has generate_vmap_rule=True and a vmap of its own; drop one of the two")
    if not own_rule and not cls.generate_vmap_rule:
        raise GradError(
            f"{cls.__name__}: it says nothing about vmap; set generate_vmap_rule = True if forward and backward are "
            "made of tensor operations, or define a static method vmap(info, in_dims, *args)"
        )
    batched = [isinstance(a, Tensor) and has(a, own) for a in args]
    values = [unbatch(a, own) if b else a for a, b in zip(args, batched)]
    with without(own):
        if own_rule:
            return _by_rule(cls, values, batched, own)
        return _generated(cls, values, batched, kwargs, own)


def _by_rule(cls: Any, values: Any, batched: Any, own: Level) -> Any:
    info = VmapInfo(own.size or 0, own.randomness)
    made = cls.vmap(info, tuple(0 if b else None for b in batched), *values)
    if not isinstance(made, tuple) or len(made) != 2:
        raise GradError(f"{cls.__name__}: vmap must return a pair (outputs, out_dims)")
    outs, dims = made
    if not isinstance(outs, tuple | list):
        return _placed(outs, dims[0] if isinstance(dims, tuple | list) else dims, own)
    places = dims if isinstance(dims, tuple | list) else (dims,) * len(outs)
    return type(outs)(_placed(o, d, own) for o, d in zip(outs, places))


def _placed(out: Any, dim: int | None, own: Level) -> Any:
    if dim is None or not isinstance(out, Tensor):
        return out
    return BatchedTensor(ops.movedim(out, dim, 0) if dim else out, own)


def _generated(cls: Any, values: Any, batched: Any, kwargs: Any, own: Level) -> Any:
    """Run forward and backward for whole batches, as one function on the level below."""
    size = own.size or 0
    shape: dict[str, Any] = {}

    class Batch(Function):
        @staticmethod
        def forward(ctx: Any, *inner: Any) -> Any:
            user = ctx.user = _UserContext(ctx)
            with level(size, own.randomness) as here:
                given = [batch(v, here) if b else v for v, b in zip(inner, batched)]
                if cls.setup_context is Function.setup_context:
                    made = cls.forward(user, *given, **kwargs)
                else:
                    made = cls.forward(*given, **kwargs)
                    cls.setup_context(user, tuple(given), made)
                shape["kind"] = type(made) if isinstance(made, tuple | list) else None
                outs = tuple(made) if isinstance(made, tuple | list) else (made,)
                shape["batched"] = [isinstance(o, Tensor) and has(o, here) for o in outs]
                plain_outs = [unbatch(o, here) if b else o for o, b in zip(outs, shape["batched"])]
                user._finish(here, outs, plain_outs)
            return tuple(plain_outs)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            user = ctx.user
            with level(size, own.randomness) as here:
                user._here = here
                given = [g if g is None or not b else batch(g, here) for g, b in zip(grads, user._batched_outs)]
                made = cls.backward(user, *given)
                found = list(made) if isinstance(made, tuple | list) else [made]
                results = []
                for g, b in zip(found, batched):
                    if isinstance(g, Tensor):
                        if b:
                            g = unbatch(g, here)
                        elif has(g, here):
                            g = unbatch(g, here).sum(0)
                    results.append(g)
            return tuple(results)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            user = ctx.user
            user._ctx = ctx
            with level(size, own.randomness) as here:
                user._here, user._forward = here, True
                given = [t if t is None or not b else batch(t, here) for t, b in zip(tangents, batched)]
                made = cls.jvp(user, *given)
                user._forward = False
                moves = made if isinstance(made, tuple | list) else (made,)
                return tuple(t if t is None else unbatch(t, here) for t in moves)

        generate_vmap_rule = True

    Batch.__name__ = Batch.__qualname__ = cls.__name__
    if cls.jvp is Function.jvp:
        del Batch.jvp
    outs = Batch.apply(*values)
    made = [BatchedTensor(o, own) if b else o for o, b in zip(outs, shape["batched"])]
    return made[0] if shape["kind"] is None else shape["kind"](made)


class _UserContext:
    """What a function's forward and backward receive as ctx: it keeps batches in the node's own saved tensors."""

    def __init__(self, ctx: FunctionNode) -> None:
        self._ctx = ctx
        self._saved: tuple[Any, ...] = ()
        self._for_forward: tuple[Any, ...] = ()
        self._kept: list[bool] = []
        self._here: Any = None
        self._forward = False
        self._non_differentiable: tuple[Any, ...] = ()

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        return self._ctx.needs_input_grad

    def save_for_backward(self, *tensors: Any) -> None:
        self._saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self._for_forward = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self._non_differentiable = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        raise GradError("mark_dirty: a generated vmap rule cannot change inputs in place; define a static method vmap")

    def set_materialize_grads(self, value: bool) -> None:
        self._ctx.set_materialize_grads(value)

    def _finish(self, here: Level, outs: tuple[Any, ...], values: list[Any]) -> None:
        """Hand what was saved to the node, as the tensors on the level below."""
        replaced = {id(o): v for o, v in zip(outs, values)}

        def below(t: Any) -> Any:
            if t is None:
                return None
            return replaced[id(t)] if id(t) in replaced else unbatch(t, here) if has(t, here) else t

        self._kept = [t is not None and has(t, here) for t in self._saved]
        self._ctx.save_for_backward(*(below(t) for t in self._saved))
        self._kept_forward = [t is not None and has(t, here) for t in self._for_forward]
        self._ctx.save_for_forward(*(below(t) for t in self._for_forward))
        self._ctx.mark_non_differentiable(*(below(t) for t in self._non_differentiable))
        self._batched_outs = [isinstance(o, Tensor) and has(o, here) for o in outs]
        self._saved = self._for_forward = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        if self._forward:
            pairs = zip(self._ctx.saved_tensors, self._kept_forward)
        else:
            pairs = zip(self._ctx.saved_tensors, self._kept)
        return tuple(batch(t, self._here) if b else t for t, b in pairs)
