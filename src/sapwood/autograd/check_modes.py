"""What `gradcheck` can check beside backward: forward mode, and whole batches of gradients at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..func.dual import DualTensor
from ..func.level import level
from ..func.structure import batch, split, unbatch
from ..tensor import Tensor, wrap
from .check import GradcheckError, _basis, _numeric, _outputs, _random_like
from .run import grad

Array = np.ndarray[Any, Any]


def check_forward(func: Callable[..., Any], given: Any, k: int, i: int, eps: float, atol: float, rtol: float) -> None:
    """Compare the derivatives of output k by forward mode with difference quotients.

    Raises:
        GradcheckError: with both Jacobians.
    """
    units = list(_basis(given[i]._array))
    columns = [_derivative(func, given, k, i, wrap(u)) for u in units]
    expected = _numeric(func, given, k, given[i]._array, eps)
    for got, want in zip(columns, expected, strict=True):
        if not np.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
            raise GradcheckError(
                f"gradcheck: output {k} with respect to input {i}: forward mode is off by up to "
                f"{np.max(np.abs(got - want)):.3g}\nnumerical:\n{np.array(expected)}\n"
                f"forward mode:\n{np.array(columns)}"
            )


def _derivative(func: Any, given: Any, k: int, i: int, tangent: Tensor) -> Array:
    with level() as own:
        duals = [DualTensor(x, tangent, own) if j == i else x for j, x in enumerate(given)]
        value, moved = split(_outputs(func, tuple(duals))[k], own)
        found: Array = np.zeros(value.shape, value._array.dtype) if moved is None else moved.detach()._array
    return found


def check_batched_forward(func: Callable[..., Any], given: Any, k: int, i: int) -> None:
    """Compare a batch of forward derivatives with the same ones, one at a time.

    Raises:
        GradcheckError: they differ.
    """
    rng = np.random.default_rng(0)
    directions = np.stack([_random_like(rng, given[i]._array) for _ in range(2)])
    one_by_one = np.stack([_derivative(func, given, k, i, wrap(d.copy())) for d in directions])
    with level(len(directions)) as own:
        several = batch(wrap(directions), own)
        with level() as dual:
            duals = [DualTensor(x, several, dual) if j == i else x for j, x in enumerate(given)]
            value, moved = split(_outputs(func, tuple(duals))[k], dual)
            together = unbatch(value * 0 if moved is None else moved, own).detach()._array
    if not np.allclose(together, one_by_one, rtol=1e-7, atol=1e-9, equal_nan=True):
        raise GradcheckError(
            f"gradcheck: output {k} with respect to input {i}: forward derivatives computed as a batch differ from "
            f"those computed one by one\nbatch:\n{together}\none by one:\n{one_by_one}"
        )


def check_batched(out: Tensor, source: Tensor, k: int, i: int) -> None:
    """Compare gradients for a batch of cotangents with those for one after the other.

    Raises:
        GradcheckError: they differ.
    """
    rng = np.random.default_rng(1)
    cots = np.stack([_random_like(rng, out._array) for _ in range(2)])
    rows = [grad(out, source, wrap(c), retain_graph=True, materialize_grads=True)[0]._array for c in cots]
    (together,) = grad(
        out, source, wrap(cots), retain_graph=True, allow_unused=True, is_grads_batched=True, materialize_grads=True
    )
    if not np.allclose(together._array, np.stack(rows), rtol=1e-7, atol=1e-9, equal_nan=True):
        raise GradcheckError(
            f"gradcheck: output {k} with respect to input {i}: gradients computed as a batch differ from those "
            f"computed one by one\nbatch:\n{together._array}\none by one:\n{np.stack(rows)}"
        )
