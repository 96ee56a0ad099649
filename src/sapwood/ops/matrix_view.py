"""Transposed looks at matrices (`T`, `mT`, `H`, `mH`) and tensors given a least number of dimensions."""

from __future__ import annotations

import warnings
from typing import Any

from .. import ops
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from .declare import composite, methods
from .views import permute, shaped, transpose, unsqueeze


def _matrix(name: str, input: Any) -> None:
    if input.ndim < 2:
        raise ShapeError(f"{name}: a matrix or a batch of matrices is expected, got {input.ndim} dimensions")


def _reversed(self: Tensor) -> Any:
    """The tensor with the order of its dimensions reversed."""
    ndim = self._array.ndim
    if ndim == 2:
        return permute(self, (1, 0))
    if ndim != 1:
        warnings.warn(
            f"T: reversing all dimensions is meant for matrices, this tensor has {ndim}; write .mT for the transposed "
            "matrices of a batch, or permute(...) with the order you want",
            UserWarning,
            stacklevel=2,
        )
    return permute(self, tuple(range(ndim - 1, -1, -1)))


def _transposed(self: Tensor) -> Any:
    """The tensor with its last two dimensions swapped."""
    _matrix("mT", self)
    return transpose(self, -2, -1)


def _conjugate_matrix(self: Tensor) -> Any:
    """The conjugate transpose of a matrix."""
    if self.ndim not in (0, 2):
        raise ShapeError(f"H: a matrix is expected, got {self.ndim} dimensions; use .mH for a batch of matrices")
    return _adjoint(self)


def _conjugate_transposed(self: Tensor) -> Any:
    """The conjugate transpose of the last two dimensions."""
    if self.ndim:
        _matrix("mH", self)
    return _adjoint(self)


def _adjoint(input: Any) -> Any:
    turned = transpose(input, -2, -1) if input.ndim else ops.alias(input)
    return ops.conj(turned) if turned.is_complex() else turned


methods["T"] = property(_reversed)
methods["mT"] = property(_transposed)
methods["H"] = property(_conjugate_matrix)
methods["mH"] = property(_conjugate_transposed)


@composite(method=True)
def adjoint(input: Any) -> Any:
    """Return the conjugate transpose of the last two dimensions."""
    _matrix("adjoint", input)
    return _adjoint(input)


def _each(tensors: tuple[Any, ...], name: str, raised: Any) -> Any:
    """Apply `raised` to one tensor, or to several given one by one or as a sequence."""
    if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
        given = tensors[0]
        if not isinstance(given, list | tuple):
            raise ArgumentError(f"{name}: tensors are expected, got {type(given).__name__}")
        return tuple(raised(x) for x in given)
    return raised(tensors[0]) if len(tensors) == 1 else tuple(raised(x) for x in tensors)


@composite
def atleast_1d(*tensors: Any) -> Any:
    """Look at each 0-dim tensor as one of shape (1,); others stay as they are."""
    return _each(tensors, "atleast_1d", lambda x: x if x.ndim else shaped(x, (1,)))


@composite
def atleast_2d(*tensors: Any) -> Any:
    """Look at each tensor as one of at least two dimensions, new ones in front."""
    return _each(
        tensors,
        "atleast_2d",
        lambda x: shaped(x, (1, 1)) if not x.ndim else unsqueeze(x, 0) if x.ndim == 1 else x,
    )


@composite
def atleast_3d(*tensors: Any) -> Any:
    """Look at each tensor as one of at least three dimensions: (n,) as (1, n, 1), (m, n) as (m, n, 1)."""

    def raised(x: Any) -> Any:
        if not x.ndim:
            return shaped(x, (1, 1, 1))
        if x.ndim == 1:
            return unsqueeze(unsqueeze(x, 0), -1)
        return unsqueeze(x, -1) if x.ndim == 2 else x

    return _each(tensors, "atleast_3d", raised)
