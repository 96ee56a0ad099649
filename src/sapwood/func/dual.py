"""`DualTensor`: a value and its derivative along one direction, computed side by side.

    f(x + ε t) = f(x) + ε f'(x) t

How the derivative of an op follows from its declaration is in `tangents`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import alias
from ..errors import GradError
from ..tensor import Tensor, wrap
from .level import Level, Wrapper, newest

_PLACE = ("_array", "_node", "_base", "_view_kind", "_record", "_views")


class DualTensor(Wrapper):
    """The tensor `primal` with its tangent at a forward-mode level; a dead level leaves the primal alone."""

    __slots__ = ()

    _primal: Tensor
    _tangent: Tensor | None

    def __new__(cls, primal: Tensor, tangent: Tensor | None, level: Level) -> DualTensor:
        made: DualTensor = object.__new__(cls)
        made._primal = primal
        made._tangent = tangent
        made._level = level
        return made

    @classmethod
    def __sapwood_op__(cls, op: Any, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """Compute `op` and the derivative of its result."""
        from .tangents import dual_call

        return dual_call(op, inputs, attrs)

    @classmethod
    def __sapwood_write__(cls, op: Any, target: Tensor, others: tuple[Any, ...], attrs: tuple[Any, ...]) -> Tensor:
        """Write value and tangent over `target`, which takes a tangent if it had none."""
        from .structure import call, split

        level = newest((target, *others))
        assert level is not None
        primal, tangent = split(call(op, (target, *others), attrs), level)
        own, own_tangent = split(target, level)
        own.copy_(primal)
        if own_tangent is None and tangent is not None:
            own_tangent = _given_tangent(target, level)
        if own_tangent is not None:
            own_tangent.zero_() if tangent is None else own_tangent.copy_(tangent)
        return target

    def detach(self) -> Tensor:
        """Return the value alone, outside every graph: what is detached does not follow the inputs."""
        return self._primal.detach()

    @property  # type: ignore[misc]
    def data(self) -> Tensor:
        """The primal's memory outside the graph."""
        return self._primal.data

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether the value wants a gradient."""
        self._primal.requires_grad_(requires_grad)
        return self

    def zero_(self) -> Tensor:
        """Set every element, and its tangent, to zero."""
        for part in (self._primal, self._tangent):
            if part is not None:
                part.zero_()
        return self

    def fill_(self, value: Any) -> Tensor:
        """Set every element to `value`, a number or a 0-dim tensor."""
        if isinstance(value, Tensor):
            return self.copy_(value)
        self._primal.fill_(value)
        if self._tangent is not None:
            self._tangent.zero_()
        return self

    def item(self) -> Any:
        """Return the only element as a Python number."""
        return self._primal.item()

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        return self._primal.tolist()

    def __bool__(self) -> bool:
        return bool(self._primal)

    def numpy(self, *, force: bool = False) -> Any:
        """Return the array under the primal."""
        return self._primal.numpy(force=force)

    def __repr__(self) -> str:
        text = repr(self._primal)
        if self._tangent is None or not self._level.alive:
            return text
        tangent = self._tangent.item() if not self._tangent.ndim else self._tangent
        return f"{text[:-1]}, tangent={tangent!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise GradError("deepcopy: a dual tensor belongs to its level and cannot be copied; copy unpack_dual's parts")

    def backward(self, *args: Any, **kwargs: Any) -> None:
        """Add the gradients of the value to `.grad` of the leaves it depends on."""
        self._primal.backward(*args, **kwargs)


def _delegate(name: str) -> Any:
    return property(lambda self: getattr(self._primal, name), lambda self, value: setattr(self._primal, name, value))


for _name in _PLACE:
    setattr(DualTensor, _name, _delegate(_name))


def _given_tangent(target: Tensor, level: Level) -> Tensor:
    """Make a tensor dual that something with a tangent is written into; a view makes its base dual too."""
    if isinstance(target, Wrapper):
        raise GradError(
            "in-place: a value with a tangent is written into a tensor of an outer transform, which cannot keep the "
            "tangent; use the out-of-place form"
        )
    base = target._base
    if base is None:
        return _become_dual(target, level)
    whole = base._tangent if isinstance(base, DualTensor) else _become_dual(base, level)
    geometry = alias.strided_over(base._array, target._array)
    _become_dual(target, level)
    part = whole.as_strided(*geometry)  # type: ignore[union-attr]
    target._tangent = part  # type: ignore[attr-defined]
    found: Tensor = part
    return found


def _become_dual(target: Any, level: Level) -> Tensor:
    """Turn a plain tensor, in place, into a dual one with a tangent of zeros."""
    primal = wrap(target._array, target._node)
    primal.__dict__.update(target.__dict__)
    tangent = wrap(np.zeros_like(target._array))
    target.__dict__.clear()
    target.__class__ = DualTensor
    target._primal, target._tangent, target._level = primal, tangent, level
    return tangent
