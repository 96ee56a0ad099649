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

from ..alias import stamp_all
from ..autograd.mode import enable_grad
from ..tensor import Tensor, wrap
from .groups import Group
from .optimizer import Optimizer
from .options import number
from .together import Change, Scalars, together

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

    def _scalars(self, group: Group, t: float, fresh: bool) -> Scalars:
        """Return the scalars of the rule in step `t` of a parameter; `fresh` at its first.

        Numbers are floats; True or None chooses between forms of the rule.
        """
        raise NotImplementedError

    def _coefficients(self, group: Group, state: State, fresh: bool) -> Scalars:
        """Count the step and return the scalars of the rule; for rules whose scalars have a state of their own."""
        return self._scalars(group, advance(state) if "step" in state else 0.0, fresh)

    def _decay(self, group: Group) -> tuple[float, float]:
        """Return (L2, factor): added to the gradient per unit of parameter, and what the parameter shrinks by."""
        return number(group["weight_decay"]), 1.0

    @staticmethod
    def _update(p: Array, g: Array, slots: Sequence[Array], c: tuple[Any, ...], scratch: Sequence[Array]) -> None:
        """Change p and the slots in place; with NumPy's elementwise functions alone, which kernels can follow."""
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
        for group in self.param_groups:
            params = [p for p in group["params"] if p._grad is not None]
            if not params:
                continue
            l2, shrink = self._decay(group)
            change = l2 or None, None if shrink == 1.0 else shrink, True if group["maximize"] else None
            if not together(self, params, group, change):
                slots = self._slots(group)
                with np.errstate(all="ignore"):
                    for p in params:
                        state, fresh = self._state_of(p, group, slots)
                        c = self._coefficients(group, state, fresh)
                        self._apply(p._array, p._grad._array, [state[s]._array for s in slots], c, change)
            stamp_all(params, type(self).__name__)
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

    def _apply(self, p: Array, g: Array, slots: list[Array], c: Scalars, change: Change) -> None:
        """Change one parameter and its slots on NumPy."""
        if p.dtype.kind == "c":
            for part in ("real", "imag"):
                parts = [getattr(a, part) for a in (p, g, *slots)]
                self._apply(parts[0], parts[1], parts[2:], c, change)
            return
        if p.dtype.itemsize == 2:
            # In 16 bits 0.999 would round to 1 and small steps to nothing: compute in float32 and round once.
            wide: list[Array] = [a.astype(np.float32) for a in (p, g, *slots)]
            self._apply(wide[0], wide[1], wide[2:], c, change)
            for narrow, result in zip((p, *slots), (wide[0], *wide[2:])):
                narrow[...] = result
            return
        if p.size <= PIECE or not all(a.flags.c_contiguous for a in (p, g, *slots)):
            self._piece(p, g, slots, c, change, self._buffers(p))
            return
        p, g, slots = p.reshape(-1), g.reshape(-1), [s.reshape(-1) for s in slots]
        for start in range(0, p.size, PIECE):
            piece = slice(start, start + PIECE)
            self._piece(p[piece], g[piece], [s[piece] for s in slots], c, change, self._buffers(p[piece]))

    @classmethod
    def _piece(cls, p: Any, g: Any, slots: list[Any], c: Scalars, change: Change, spare: tuple[Any, list[Any]]) -> None:
        """Change arrays, or the cells of a kernel, of which the scalars are cells too."""
        l2, shrink, maximize = change
        if l2 is not None:
            changed = np.multiply(p, l2, out=spare[0])
            g = (np.subtract if maximize else np.add)(changed, g, out=changed)
        elif maximize:
            g = np.negative(g, out=spare[0])
        if shrink is not None:
            np.multiply(p, shrink, out=p)
        cls._update(p, g, slots, c, spare[1])

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
