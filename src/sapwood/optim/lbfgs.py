"""L-BFGS: quasi-Newton steps from the last few changes of gradient and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..alias import stamp
from ..autograd.mode import enable_grad
from ..errors import ValueRangeError
from .linesearch import strong_wolfe
from .optimizer import Optimizer
from .options import at_least_zero, number
from .quasinewton import Array, History


class LBFGS(Optimizer):
    """Minimize with an inverse Hessian estimated from the last `history_size` steps.

    One `step` makes up to `max_iter` iterations and calls the closure once or more in each. All parameters form one
    vector, so there is one parameter group. For gradients of the full data set.

    Args:
        params: see `Optimizer`.
        lr: length of a step, or the first length that the line search tries.
        max_iter: iterations per step.
        max_eval: calls of the closure per step; None for 5/4 max_iter.
        tolerance_grad: stop when no gradient is larger.
        tolerance_change: stop when parameters or loss change by less.
        history_size: how many steps the estimate remembers.
        line_search_fn: None or "strong_wolfe".

    Raises:
        ValueRangeError: a negative lr, several parameter groups, or an unknown line search (at the step).

    Reference: Nocedal and Wright, *Numerical Optimization*, algorithms 7.4, 7.5 and 3.5.
    """

    _counters = ()

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        at_least_zero("LBFGS", lr=lr)
        options = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, options)
        if len(self.param_groups) != 1:
            raise ValueRangeError(
                f"LBFGS: all parameters form one vector with one set of options, got {len(self.param_groups)} groups"
            )

    # -- the parameters as one vector ---------------------------------------------------------------------------

    def _gradient(self) -> Array:
        parts = []
        for p in self.param_groups[0]["params"]:
            part = np.zeros(p._array.size, p._array.dtype) if p._grad is None else p._grad._array.reshape(-1)
            parts.append(_real(part))
        return np.concatenate(parts)

    def _move(self, length: float, direction: Array) -> None:
        start = 0
        for p in self.param_groups[0]["params"]:
            array = p._array
            width = array.size * (2 if array.dtype.kind == "c" else 1)
            part = direction[start : start + width] * length
            if array.dtype.kind == "c":
                part = part.astype(array.real.dtype).view(array.dtype)
            np.add(array, part.reshape(array.shape), out=array, casting="same_kind")
            stamp(p, "LBFGS")
            start += width

    def _put(self, values: list[Array]) -> None:
        for p, value in zip(self.param_groups[0]["params"], values):
            np.copyto(p._array, value)
            stamp(p, "LBFGS")

    # -- the step -----------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Iterate until converged or until one of the limits is reached.

        Args:
            closure: clears the gradients, computes the loss and calls backward on it; returns the loss.

        Returns:
            The first loss that closure returned.
        """

        def evaluate() -> Any:
            with enable_grad():
                return closure()

        with np.errstate(all="ignore"):
            return self._iterate(evaluate)

    def _iterate(self, evaluate: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        lr, change = number(group["lr"]), group["tolerance_change"]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ValueRangeError(f"LBFGS: line_search_fn is None or 'strong_wolfe', got {group['line_search_fn']!r}")
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = evaluate()
        loss, evaluations = number(first_loss), 1
        state["func_evals"] += 1
        g = self._gradient()
        if _largest(g) <= group["tolerance_grad"]:
            return first_loss
        history = History(state, group["history_size"])
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = history.direction(g, first=state["n_iter"] == 1)
            history.last_gradient, last_loss = g.copy(), loss
            length = min(1.0, 1.0 / float(np.add.reduce(np.abs(g)))) * lr if state["n_iter"] == 1 else lr
            history.length = length
            slope = np.dot(g, d)
            history.last_loss = last_loss
            if slope > -change:
                break
            calls = 0
            if group["line_search_fn"] is not None:
                loss, g, length, calls = self._search(
                    evaluate, length, d, loss, g, slope, group["max_eval"] - evaluations
                )
                history.length = length
                self._move(length, d)
            else:
                self._move(length, d)
                if iteration != group["max_iter"]:
                    loss, g, calls = number(evaluate()), self._gradient(), 1
            evaluations += calls
            state["func_evals"] += calls
            if iteration == group["max_iter"] or evaluations >= group["max_eval"]:
                break
            if _largest(g) <= group["tolerance_grad"] or _largest(d * length) <= change:
                break
            if abs(loss - last_loss) < change:
                break
        history.save(state)
        return first_loss

    def _search(
        self, evaluate: Callable[[], Any], length: float, d: Array, loss: float, g: Array, slope: Any, most: int
    ) -> tuple[float, Array, float, int]:
        start = [p._array.copy() for p in self.param_groups[0]["params"]]

        def at(t: float) -> tuple[float, Array]:
            self._move(t, d)
            value, gradient = number(evaluate()), self._gradient()
            self._put(start)
            return value, gradient

        return strong_wolfe(at, length, d, loss, g, slope, most=most)


def _real(array: Array) -> Array:
    return np.ascontiguousarray(array).view(array.real.dtype) if array.dtype.kind == "c" else array


def _largest(array: Array) -> float:
    return float(np.maximum.reduce(np.abs(array)))
