"""`checkpoint` and `checkpoint_sequential`: run a function without keeping what its backward needs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from ...autograd.observe import saved_tensors_hooks
from ...errors import GradError, ValueRangeError
from ...random import default_generator, fork_rng
from ...state import GRAD, get_mode
from .frame import Frame
from .reentrant import CheckpointFunction
from .trace import traced

_early_stop: ContextVar[bool | None] = ContextVar("sapwood_early_stop", default=None)
_debug: ContextVar[bool | None] = ContextVar("sapwood_checkpoint_debug", default=None)
Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Set, for checkpointed calls made inside, whether their recomputation ends with the last tensor it needs."""
    token = _early_stop.set(enable)
    try:
        yield
    finally:
        _early_stop.reset(token)


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Set `debug` for all checkpointed calls made inside; None leaves it to each call."""
    token = _debug.set(enabled)
    try:
        yield
    finally:
        _debug.reset(token)


def noop_context_fn() -> Contexts:
    """Return two contexts that do nothing."""
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Return `function(*args, **kwargs)`, keeping its arguments instead of what its backward needs.

    Backward calls the function again, once, when it first needs a value from inside.

    Args:
        function: must do the same at every call.
        use_reentrant: False is the variant to use: it works with autograd.grad, nested calls, keyword arguments, and
            arguments that require no grad. True runs a whole backward inside backward. To be given explicitly.
        context_fn: returns two contexts, in which the function is run first, and again.
        determinism_check: "default" compares the shapes and dtypes of recomputed tensors, "none" does not.
        debug: let errors show the ops of both runs and where they part.
        early_stop: end the second run with the last tensor it needs.
        kwargs: for the function; `preserve_rng_state=False` lets the second run draw new random numbers.

    Raises:
        ValueRangeError: an option that the variant does not have, or an unknown determinism_check.
        CheckpointError: in backward, when the second run did not do what the first did.

    Example:
        >>> import sapwood
        >>> from sapwood.utils.checkpoint import checkpoint
        >>> x = sapwood.ones(2, requires_grad=True)
        >>> checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False).sum().backward()
        >>> x.grad
        tensor([-2.4784, -2.4784])

    Reference: Chen et al., arXiv:1604.06174.
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: give use_reentrant explicitly; use_reentrant=False is the better variant, True, the default "
            "for now, the older one",
            UserWarning,
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        return _record(function, args, kwargs, preserve, context_fn, determinism_check, debug, early_stop)
    if kwargs:
        raise ValueRangeError(
            f"checkpoint: use_reentrant=True takes no keyword arguments for the function, got {', '.join(kwargs)}; use "
            "use_reentrant=False"
        )
    if context_fn is not noop_context_fn or debug:
        raise ValueRangeError("checkpoint: context_fn and debug need use_reentrant=False")
    return CheckpointFunction.apply(function, preserve, *args)


def _record(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    preserve: bool,
    context_fn: Callable[[], Contexts],
    determinism_check: str,
    debug: bool,
    early_stop: bool,
) -> Any:
    """Call the function with every tensor it saves replaced by a holder of its frame."""
    explain = None
    debugging, stopping = _debug.get(), _early_stop.get()
    if debug if debugging is None else debugging:
        if context_fn is not noop_context_fn:
            raise ValueRangeError(
                "checkpoint: debug observes the runs in contexts of its own; drop context_fn or debug"
            )
        first, again, explain = traced()
    else:
        first, again = context_fn()
    if determinism_check not in ("default", "none"):
        raise ValueRangeError(f"checkpoint: determinism_check must be 'default' or 'none', got {determinism_check!r}")
    if not get_mode() & GRAD:
        return function(*args, **kwargs)
    state = default_generator.get_state() if preserve else None

    def run(args: list[Any], kwargs: dict[str, Any]) -> None:
        with fork_rng(enabled=preserve):
            if preserve:
                default_generator.set_state(state)
            with again:
                function(*args, **kwargs)

    frame = Frame(
        run,
        early_stop=early_stop if stopping is None else stopping,
        compare=determinism_check == "default",
        explain=explain,
    )
    frame.keep(args, kwargs)
    with saved_tensors_hooks(frame.pack, frame.unpack), first:
        result = function(*args, **kwargs)
        frame.complete = True
    if not frame.complete:
        raise GradError(
            "checkpoint: the first context of context_fn swallowed an exception of the function, so there is no result "
            "to return; let it pass"
        )
    return result


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a Sequential, or a list of functions, in segments that are checkpointed, all but the last.

    Args:
        functions: a Sequential or a list; each takes what the one before it returned.
        segments: how many; the last takes the rest.
        input: what the first receives.
        use_reentrant, kwargs: see `checkpoint`; of the others only preserve_rng_state is taken.

    Raises:
        ValueRangeError: another keyword argument.
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint_sequential: give use_reentrant explicitly; use_reentrant=False is the better variant, True, "
            "the default for now, the older one",
            UserWarning,
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueRangeError(f"checkpoint_sequential: unknown keyword arguments {', '.join(kwargs)}")
    children = getattr(functions, "children", None)
    chain = list(children()) if children is not None and not isinstance(functions, list | tuple) else list(functions)
    if segments < 1:
        raise ValueRangeError(f"checkpoint_sequential: segments must be at least 1, got {segments}")
    size = len(chain) // segments
    if segments > 1 and not size:
        raise ValueRangeError(
            f"checkpoint_sequential: {len(chain)} functions cannot be cut into {segments} segments; use fewer"
        )
    start = 0
    for _ in range(segments - 1):
        part = _chained(chain[start : start + size])
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
        start += size
    return _chained(chain[start:])(input)


def _chained(functions: list[Callable[..., Any]]) -> Callable[[Any], Any]:
    def chained(input: Any) -> Any:
        for f in functions:
            input = f(input)
        return input

    return chained
