"""Tensors from data: `tensor`, `as_tensor`, `zeros`, `ones`, `full`, `arange` … and their `_like` forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..errors import ArgumentError
from ..tensor import Tensor, wrap
from .declare import Movement, composite, op


@composite
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a new leaf tensor with a copy of `data`."""
    a = np.array(data._array if isinstance(data, Tensor) else data)
    if not isinstance(data, np.ndarray | np.generic | Tensor) and a.dtype == np.float64:
        a = a.astype(dtypes.get_default_dtype().numpy)
    if dtype is not None:
        a = a.astype(dtype.numpy)
    t = wrap(a)
    return t.requires_grad_() if requires_grad else t


def legacy_constructor(cls: type[Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """Build `Tensor(…)` and `Subclass(…)`."""
    raise ArgumentError("Tensor: not yet")


@op
class zeros_like(Movement):
    """Return zeros of the input's shape and dtype."""

    method = False
    samples = lambda rng: [(rng.standard_normal((2, 3)),)]
    forward = np.zeros_like


def zeros_of(like: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros of a shape, of the kind (array or Tensor) and dtype of `like`."""
    if isinstance(like, Tensor):
        return wrap(np.zeros(shape, like._array.dtype))
    return np.zeros(shape, like.dtype)
