"""Random functions inside `vmap`: refused, the same for all examples, or drawn for the whole batch at once.

The random functions know nothing of this. When the first `vmap` is made, each gets a doorkeeper in place of its code,
which calls the original at once where no vmap runs; programs without vmap pay nothing.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from .. import ops as _ops
from ..errors import GradError
from ..ops.declare import methods, public
from ..tensor import Tensor
from .batched import BatchedTensor
from .level import Level, vmaps, without
from .structure import has, unbatch

ops: Any = _ops
_SIZED = ("rand", "randn", "randint", "normal", "randperm")
_LIKE = ("rand_like", "randn_like", "randint_like", "bernoulli", "poisson", "multinomial", "binomial", "rrelu")
_DROPPED = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
_FILLERS = ("uniform_", "normal_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_", "log_normal_")
_watched = False


def watch() -> None:
    """Give every random function its doorkeeper, once."""
    global _watched
    if _watched:
        return
    _watched = True
    names = (*_SIZED, *_LIKE, *_DROPPED, *(n + "_" for n in _DROPPED), *_FILLERS)
    for name in names:
        for found in {public.get(name), methods.get(name)} - {None}:
            if isinstance(found, types.FunctionType):
                _guard(name, found)


def _guard(name: str, function: types.FunctionType) -> None:
    original = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    original.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(original, function)
    slot = f"_guarded_{name}"
    function.__globals__[slot] = functools.partial(_drawn, name, original)
    made: dict[str, Any] = {}
    text = f"def {function.__code__.co_name}(*args, **kwargs):\n    return {slot}(*args, **kwargs)\n"
    exec(compile(text, f"<sapwood {name}>", "exec"), made)
    function.__wrapped__ = original  # type: ignore[attr-defined]
    function.__code__ = made[function.__code__.co_name].__code__


def _drawn(name: str, original: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a random function as the innermost vmap wants it."""
    levels = vmaps()
    if not levels or _idle(name, args, kwargs):
        return original(*args, **kwargs)
    level = levels[-1]
    if level.randomness == "error":
        raise GradError(
            f"vmap: {name} draws random numbers, and randomness='error' forbids that; choose randomness='same' or "
            "'different', or draw outside vmap"
        )
    with without(level):
        return _same(name, original, level, args, kwargs) if level.randomness == "same" else _different(
            name, original, level, args, kwargs
        )  # fmt: skip


def _idle(name: str, args: Any, kwargs: Any) -> bool:
    """Return whether a dropout does nothing: no training, or a probability of zero."""
    if name.rstrip("_") not in _DROPPED:
        return False
    values = dict(zip(("input", "p", "train"), args)) | kwargs
    return not values["train"] or values["p"] == 0


def _batched(x: Any, level: Level) -> bool:
    return isinstance(x, Tensor) and has(x, level)


def _size(name: str, level: Level, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments of a function with a size, for the whole batch."""
    if "size" in kwargs and kwargs["size"] is not None:
        return args, kwargs | {"size": (level.size, *kwargs["size"])}
    if name in ("rand", "randn"):
        given = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
        return (level.size, *given), kwargs
    return (*args[:-1], (level.size, *args[-1])), kwargs


def _different(name: str, original: Any, level: Level, args: Any, kwargs: Any) -> Any:
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    if name == "randperm":
        return BatchedTensor(
            ops.stack([_drawn(name, original, *args, **kwargs) for _ in range(level.size or 0)]), level
        )
    if not tensors:
        args, kwargs = _size(name, level, args, kwargs)
        return BatchedTensor(_drawn(name, original, *args, **kwargs), level)
    if name in _FILLERS or name.endswith("_"):
        if not _batched(args[0], level):
            raise GradError(f"vmap: {name} would fill one tensor differently for every example; fill a batched tensor")
        values = [unbatch(x, level) if isinstance(x, Tensor) else x for x in args]
        _drawn(name, original, *values, **kwargs)
        return args[0]
    if name == "multinomial" or name.startswith("feature"):
        rows = [
            _drawn(name, original, *(unbatch(x, level)[i] if isinstance(x, Tensor) else x for x in args), **kwargs)
            for i in range(level.size or 0)
        ]
        return BatchedTensor(ops.stack(rows), level)
    whole = [unbatch(x, level) if isinstance(x, Tensor) else x for x in args]
    named = {k: unbatch(x, level) if isinstance(x, Tensor) else x for k, x in kwargs.items()}
    return BatchedTensor(_drawn(name, original, *whole, **named), level)


def _same(name: str, original: Any, level: Level, args: Any, kwargs: Any) -> Any:
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    if not any(_batched(x, level) for x in tensors):
        return _drawn(name, original, *args, **kwargs)
    if "alpha" in name:
        if vmaps():
            raise GradError(f"vmap: {name} in nested vmaps draws numbers of its own only; use randomness='different'")
        # It looks at its input's shape alone, which is that of one example.
        return original(*args, **kwargs)
    if name.rstrip("_") in _DROPPED:
        # The noise of one example, for all of them.
        noise = _drawn(name, original, ops.ones_like(unbatch(args[0], level)[0]), *args[1:], **kwargs)
        return args[0].mul_(noise) if name.endswith("_") else args[0] * noise
    if name.endswith("_like"):
        return _drawn(name, original, ops.empty_like(unbatch(args[0], level)[0]), *args[1:], **kwargs)
    if name in _FILLERS:
        args[0].copy_(_drawn(name, original, ops.empty_like(unbatch(args[0], level)[0]), *args[1:], **kwargs))
        return args[0]
    raise GradError(
        f"vmap: {name} of a batched tensor cannot draw the same numbers for all examples; use randomness='different'"
    )
