"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ... import ops
from ...errors import DtypeError
from ...tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters, one after the other, as one vector."""
    out: Tensor = ops.cat([p.reshape(-1) for p in parameters])
    return out


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Put consecutive elements of a vector into the parameters; they then share its memory."""
    if not isinstance(vec, Tensor):
        raise DtypeError(f"vector_to_parameters: the vector must be a Tensor, got {type(vec).__name__}")
    v: Any = vec
    at = 0
    for p in parameters:
        n = p.numel()
        p.data = v[at : at + n].view_as(p).data
        at += n
