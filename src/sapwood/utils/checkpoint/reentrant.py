"""The reentrant variant: one custom function whose backward runs the function again and differentiates that."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from ...autograd import hooks, run
from ...autograd.function import Function
from ...autograd.mode import enable_grad, no_grad
from ...errors import GradError
from ...random import default_generator, fork_rng
from ...tensor import Tensor


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs, tensors among them outside the graph as leaves that require grad where they did."""
    if not isinstance(inputs, tuple):
        raise GradError(f"detach_variable: inputs must be a tuple, got {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no input requires grad: the reentrant variant then gives no gradient to anything."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn(
            "checkpoint: no argument requires grad, and with use_reentrant=True gradients reach the function's "
            "parameters only through its arguments, so there will be none; use use_reentrant=False",
            UserWarning,
            stacklevel=5,
        )


class CheckpointFunction(Function):
    """Runs a function without recording it, and runs it again, recorded, in backward."""

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        """Call `run_function(*args)` without a graph."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.rng = default_generator.get_state() if preserve_rng_state else None
        ctx.arguments = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run the function again, recorded, and differentiate it; parameters receive their gradients on the way."""
        current = hooks.current.get()
        if current is not None and current.partial:
            raise GradError(
                "checkpoint: use_reentrant=True works with neither autograd.grad nor backward(inputs=…), as it runs "
                "a whole backward inside; use use_reentrant=False, or backward() without inputs"
            )
        arguments = list(ctx.arguments)
        for i, t in zip(ctx.places, ctx.saved_tensors):
            arguments[i] = t
        with fork_rng(enabled=ctx.rng is not None):
            if ctx.rng is not None:
                default_generator.set_state(ctx.rng)
            inputs = detach_variable(tuple(arguments))
            with enable_grad():
                result = ctx.run_function(*inputs)
        outputs = (result,) if isinstance(result, Tensor) else tuple(result)
        pairs = [(o, g) for o, g in zip(outputs, grads) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise GradError(
                "checkpoint: no output of the recomputed function requires grad; call it without checkpoint"
            )
        run.backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None, *(x._grad if isinstance(x, Tensor) else None for x in inputs)
