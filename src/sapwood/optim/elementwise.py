"""Optimizers that treat every element alike: one rule over arrays, and the bookkeeping around it.

A final class states four things: the names of the arrays it keeps per parameter (`_slots`), their first values
(`_begin`), the scalars of one step (`_coefficients`), and the rule (`_update`) that combines parameter, gradient, slots
and scalars in place. The rule never sees a Tensor, a group or a shape, so it runs on whole arrays, on pieces that
fit the cache, and on the real and imaginary parts of complex parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy import ndarray

from ..alias import stamp
from ..autograd.mode import enable_grad
from ..tensor import Tensor, wrap
from .groups import Group
from .optimizer import Optimizer
from .options import number

Array = ndarray[Any, Any]
State = dict[str, Any]

PIECE = 16384
"""Elements updated together. Six float32 arrays of this size are 384 KiB: they stay in a second-level cache."""


def counter() -> Tensor:
    """Return a step counter at 0; float32 as PyTorch keeps it, float64 where that is the default dtype."""
    from ..dtypes import float64, get_default_dtype

    return wrap(np.zeros((), np.float64 if get_default_dtype() is float64 else np.float32))


def zeros_like(p: Array) -> Tensor:
    """Return zeros in the shape, dtype and memory order of a parameter."""
    return wrap(np.zeros_like(p))


def advance(state: State) -> float:
    """Count one step and return its number."""
    step = state["step"]._array
    step += 1
    return float(step)


class Elementwise(Optimizer):
    """Apply `_update` to every parameter that has a gradient."""

    _scratch: ClassVar[int] = 1
    """How many arrays like the parameter the rule needs for intermediate results."""

    # -- what a final class states --------------------------------------------------------------------------------

    def _slots(self, group: Group) -> tuple[str, ...]:
        """Return the names of the arrays the rule reads and writes besides the parameter."""
        raise NotImplementedError

    def _begin(self, p: Array, group: Group) -> State:
        """Return the state of a parameter before its first step."""
        raise NotImplementedError

    def _coefficients(self, group: Group, state: State, fresh: bool) -> tuple[Any, ...]:
        """Count the step and return the scalars of the rule; `fresh` at the first step of a parameter."""
        raise NotImplementedError

    def _decay(self, group: Group) -> tuple[float, float]:
        """Return (L2, factor): added to the gradient per unit of parameter, and what the parameter shrinks by."""
        return number(group["weight_decay"]), 1.0

    @staticmethod
    def _update(p: Array, g: Array, slots: Sequence[Array], c: tuple[Any, ...], scratch: Sequence[Array]) -> None:
        """Change p and the slots in place."""
        raise NotImplementedError

    # -- the step ---------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient; a parameter whose gradient is None is left alone.

        Args:
            closure: computes the loss and its gradients anew; called with grad mode on.

        Returns:
            What closure returned, else None.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        name = type(self).__name__
        with np.errstate(all="ignore"):
            for group in self.param_groups:
                slots, (l2, shrink), maximize = self._slots(group), self._decay(group), group["maximize"]
                for p in group["params"]:
                    grad = p._grad
                    if grad is None:
                        continue
                    array = p._array
                    state, fresh = self._state_of(p, group, slots)
                    c = self._coefficients(group, state, fresh)
                    self._apply(array, grad._array, [state[s]._array for s in slots], c, l2, shrink, maximize)
                    stamp(p, name)
        return loss

    def _state_of(self, p: Tensor, group: Group, slots: tuple[str, ...]) -> tuple[State, bool]:
        """Return the state of a parameter, made now if there is none, and whether it was."""
        if not slots:
            return {}, False
        state = self.state[p]
        for slot in slots:
            if state.get(slot) is None:
                for key, value in self._begin(p._array, group).items():
                    if state.get(key) is None:
                        state[key] = value
                return state, True
        return state, False

    def _apply(
        self, p: Array, g: Array, slots: list[Array], c: tuple[Any, ...], l2: float, shrink: float, maximize: bool
    ) -> None:
        if p.dtype.kind == "c":
            for part in ("real", "imag"):
                parts = [getattr(a, part) for a in (p, g, *slots)]
                self._apply(parts[0], parts[1], parts[2:], c, l2, shrink, maximize)
            return
        if p.dtype.itemsize == 2:
            # In 16 bits 0.999 would round to 1 and small steps to nothing: compute in float32 and round once.
            wide: list[Array] = [a.astype(np.float32) for a in (p, g, *slots)]
            self._apply(wide[0], wide[1], wide[2:], c, l2, shrink, maximize)
            for narrow, result in zip((p, *slots), (wide[0], *wide[2:])):
                narrow[...] = result
            return
        if p.size <= PIECE or not all(a.flags.c_contiguous for a in (p, g, *slots)):
            self._piece(p, g, slots, c, l2, shrink, maximize)
            return
        p, g, slots = p.reshape(-1), g.reshape(-1), [s.reshape(-1) for s in slots]
        for start in range(0, p.size, PIECE):
            piece = slice(start, start + PIECE)
            self._piece(p[piece], g[piece], [s[piece] for s in slots], c, l2, shrink, maximize)

    def _piece(
        self, p: Array, g: Array, slots: list[Array], c: tuple[Any, ...], l2: float, shrink: float, maximize: bool
    ) -> None:
        scratch = self._buffers(p)
        if l2:
            changed = np.multiply(p, l2, out=scratch[0])
            g = (np.subtract if maximize else np.add)(changed, g, out=changed)
        elif maximize:
            g = np.negative(g, out=scratch[0])
        if shrink != 1.0:
            np.multiply(p, shrink, out=p)
        self._update(p, g, slots, c, scratch[1])

    def _buffers(self, p: Array) -> tuple[Array, list[Array]]:
        """Return an array for a changed gradient and those the rule asked for, reused from step to step."""
        cache: dict[Any, Any] = self.__dict__.setdefault("_arrays", {})
        key = p.shape, p.dtype
        found = cache.get(key)
        if found is None:
            count, pool = 1 + self._scratch, cache.get(p.dtype)
            if pool is None or pool.shape[1] < p.size:
                for stale in [k for k in cache if isinstance(k, tuple) and k[1] == p.dtype]:
                    del cache[stale]
                pool = cache[p.dtype] = np.empty((count, p.size), p.dtype)
            arrays = [row[: p.size].reshape(p.shape) for row in pool]
            found = cache[key] = arrays[0], arrays[1:]
        return found
