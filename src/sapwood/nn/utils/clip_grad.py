"""Keeping gradients small."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from ... import alias, ops
from ...autograd.mode import no_grad
from ...dtypes import F32, F64
from ...errors import GradError
from ...ops import warm
from ...state import get_mode
from ...tensor import Tensor, wrap


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _plain(tensors: list[Any]) -> list[Any] | None:
    """Return the arrays of tensors that kernels cover: plain, contiguous, of one type, and large enough together."""
    kind = tensors[0].dtype.numpy if tensors else None
    if (kind is not F32 and kind is not F64) or get_mode():
        return None
    arrays = []
    for t in tensors:
        if type(t) is not Tensor or t._array.dtype is not kind or not t._array.flags.c_contiguous:
            return None
        arrays.append(t._array)
    return arrays if warm.serve(sum(a.size for a in arrays)) else None


def _changed(name: str, tensors: list[Any], bound: float) -> bool:
    """Scale or clamp all tensors in one native call; return False, with nothing done, where there are no kernels."""
    arrays = None if alias.guards else _plain(tensors)
    if arrays is None or len({id(a if a.base is None else a.base) for a in arrays}) != len(arrays):
        return False
    if not _updater(name)((bound,), arrays):
        return False
    alias.stamp_all(tensors, name)
    return True


@functools.cache
def _updater(name: str) -> Any:
    from ...kernels import multi, scalar

    def scaled(x: Any, factor: Any) -> Any:
        return (x * factor,)

    def clamped(x: Any, bound: Any) -> Any:
        return (scalar.minimum(scalar.maximum(x, -bound), bound),)

    body = scaled if name == "mul_" else clamped
    return multi.updater(name, body, arrays=1, writes=(0,), coefficients=1)


@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all elements of several tensors together.

    Args:
        tensors: one or several.
        norm_type: order of the norm; inf for the largest magnitude.
        error_if_nonfinite: raise if the norm is nan or infinite.
        foreach: accepted; there is one way to compute it.

    Raises:
        GradError: the norm is not finite, and `error_if_nonfinite`.
    """
    listed = _listed(tensors)
    norm_type = float(norm_type)
    if not listed:
        none: Tensor = ops.tensor(0.0)
        return none
    total: Any
    arrays = _plain(listed) if norm_type == 2 else None
    if arrays is not None:
        from ...kernels.norms import squares

        with np.errstate(all="ignore"):
            total = wrap(np.asarray(np.sqrt(np.add.reduce(squares(arrays))), arrays[0].dtype))
    else:
        # As PyTorch does, the norm of the norms: the same rounding.
        norms = ops.stack([ops.linalg_vector_norm(t, norm_type) for t in listed])
        total = ops.linalg_vector_norm(norms, norm_type)
    if error_if_nonfinite and not bool(ops.isfinite(total)):
        raise GradError(
            f"clip_grad_norm_: the norm of order {norm_type} is {total.item()}; find where the gradients stop being "
            "finite, or pass error_if_nonfinite=False to scale them all the same"
        )
    out: Tensor = total
    return out


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients by max_norm / (total_norm + 1e-6) where that is smaller than 1, in place."""
    grads = [p.grad for p in _listed(parameters) if p.grad is not None]
    if not grads:
        return
    # Multiplying by 1 instead of branching: no value has to be read back.
    factor = ops.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
    if type(factor) is Tensor and factor.dtype is grads[0].dtype and _changed("mul_", grads, factor.item()):
        return
    for g in grads:
        g.mul_(factor)


@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of `parameters` together so that their norm is at most `max_norm`; return the norm before.

    Args:
        parameters: one or several.
        max_norm: largest norm.
        norm_type: order of the norm; inf for the largest magnitude.
        error_if_nonfinite: raise if the norm is nan or infinite.
        foreach: accepted; there is one way to compute it.
    """
    listed = _listed(parameters)
    if not listed:
        warnings.warn("clip_grad_norm_: no parameters were given, so nothing is clipped", stacklevel=3)
    grads = [p.grad for p in listed if p.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(listed, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Do the same as `clip_grad_norm_`, which is the name to use."""
    warnings.warn("clip_grad_norm is deprecated; use clip_grad_norm_", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Cut every element of the gradients off at ±clip_value, in place."""
    bound = float(clip_value)
    grads = [p.grad for p in _listed(parameters) if p.grad is not None]
    if bound >= 0 and _changed("clamp_", grads, bound):
        return
    for g in grads:
        g.clamp_(min=-bound, max=bound)
