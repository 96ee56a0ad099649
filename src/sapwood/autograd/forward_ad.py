"""Forward-mode differentiation: a value and its derivative along a direction, carried through a program together.

with dual_level():
    x = make_dual(primal, tangent)
    value, derivative = unpack_dual(f(x))
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import GradError
from ..func.dual import DualTensor
from ..func.level import Level, start, stop
from ..func.structure import live, split
from ..func.transforms import check_tangent
from ..tensor import Tensor

_levels: list[Level] = []


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns: the value, and its tangent or None."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Begin forward mode and return its level, 0.

    Raises:
        GradError: it has begun already; `func.jvp` nests.
    """
    if _levels:
        raise GradError("enter_dual_level: forward mode is on already and does not nest here; use func.jvp, which does")
    _levels.append(Level())
    start(_levels[-1])
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End forward mode: its tangents are gone.

    Raises:
        GradError: it has not begun, or `level` is another.
    """
    if not _levels or level not in (None, 0):
        raise GradError("exit_dual_level: forward mode is not on at this level; call enter_dual_level() first")
    stop(_levels.pop())


class dual_level:
    """Forward mode for the time of a block."""

    def __enter__(self) -> int:
        self.level = enter_dual_level()
        return self.level

    def __exit__(self, *exception: object) -> None:
        exit_dual_level(level=self.level)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Any:
    """Return a look at `tensor` that carries `tangent`, its derivative along some direction.

    Raises:
        GradError: forward mode is off, or the tensor carries a tangent already.
        ShapeError: the tangent does not have the tensor's shape.
        TransformError: one of the two is neither floating-point nor complex (a ValueError).
    """
    if not _levels or level not in (None, 0):
        raise GradError("make_dual: forward mode is off; use it inside `with dual_level():`")
    tensor, tangent = live(tensor), live(tangent)
    check_tangent("make_dual", tensor, tangent)
    if split(tensor, _levels[-1])[1] is not None:
        raise GradError("make_dual: this tensor carries a tangent already; unpack_dual(...).primal is without")
    return DualTensor(tensor, tangent, _levels[-1])


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the value and the tangent of a tensor, None for a tensor without, and once forward mode has ended."""
    if not isinstance(tensor, Tensor):
        return UnpackedDualTensor(tensor, None)
    if not _levels:
        return UnpackedDualTensor(live(tensor), None)
    return UnpackedDualTensor(*split(tensor, _levels[-1]))
