"""The memory of L-BFGS: the last steps, and the direction that follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ..tensor import Tensor, wrap

Array = ndarray[Any, Any]


def _array(value: Any) -> Any:
    return value._array if isinstance(value, Tensor) else value


class History:
    """The last changes of parameters (s) and gradient (y), kept in an optimizer's state between its steps.

    Args:
        state: holds what `save` left there.
        size: how many pairs to keep.
    """

    def __init__(self, state: dict[str, Any], size: int) -> None:
        self.size = size
        self.d: Any = _array(state.get("d"))
        self.length: Any = state.get("t")
        self.y: list[Array] = [_array(v) for v in state.get("old_dirs") or ()]
        self.s: list[Array] = [_array(v) for v in state.get("old_stps") or ()]
        self.inverse: list[Any] = [_array(v) for v in state.get("ro") or ()]
        self.scale: Any = _array(state.get("H_diag"))
        self.last_gradient: Any = _array(state.get("prev_flat_grad"))
        self.last_loss: Any = state.get("prev_loss")
        self.weights: list[Any] | None = None

    def direction(self, g: Array, *, first: bool) -> Array:
        """Return −H g, H the estimated inverse Hessian; at the very first iteration −g."""
        if first:
            self.y, self.s, self.inverse, self.scale = [], [], [], 1
            self.d = -g
            return self.d
        y, s = g - self.last_gradient, self.d * self.length
        curvature = np.dot(y, s)
        if curvature > 1e-10:  # otherwise the estimate would lose its positive curvature
            if len(self.y) == self.size:
                for kept in (self.y, self.s, self.inverse):
                    kept.pop(0)
            self.y.append(y)
            self.s.append(s)
            self.inverse.append(1.0 / curvature)
            self.scale = curvature / np.dot(y, y)
        self.d = self._two_loops(g)
        return self.d

    def _two_loops(self, g: Array) -> Array:
        q = -g
        weights: list[Any] = [None] * self.size
        for i in reversed(range(len(self.y))):
            weights[i] = np.dot(self.s[i], q) * self.inverse[i]
            q -= self.y[i] * weights[i]
        q = q * self.scale
        for i in range(len(self.y)):
            q += self.s[i] * (weights[i] - np.dot(self.y[i], q) * self.inverse[i])
        self.weights = weights
        return q

    def save(self, state: dict[str, Any]) -> None:
        """Leave everything in `state`, arrays as tensors, under PyTorch's keys."""
        if self.weights is not None:
            state["al"] = [None if w is None else wrap(np.array(w)) for w in self.weights]
        state["d"] = wrap(self.d)
        state["t"] = self.length
        state["old_dirs"] = [wrap(y) for y in self.y]
        state["old_stps"] = [wrap(s) for s in self.s]
        state["ro"] = [wrap(np.array(r)) for r in self.inverse]
        state["H_diag"] = self.scale if isinstance(self.scale, int) else wrap(np.array(self.scale))
        state["prev_flat_grad"] = wrap(self.last_gradient)
        state["prev_loss"] = self.last_loss
