"""`out=`: a result written into tensors that the caller gave."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy import asarray, ndarray

from .. import alias, dtypes
from ..errors import ArgumentError, DtypeError, GradError, ShapeError
from ..state import GRAD, get_mode
from ..tensor import Tensor
from .declare import Op
from .returns import return_type


def into(op: type[Op], inputs: list[Any], result: Any, out: Any) -> Any:
    """Copy a result into the tensors given as `out=`; `inputs` are the operands, sequences flattened.

    Raises:
        GradError: an input or `out` requires grad: what is written into `out` is not recorded.
        DtypeError: the result cannot be held by `out` without loss of category.
    """
    recording = get_mode() & GRAD
    if recording and any(isinstance(x, Tensor) and x._node is not None for x in inputs):
        raise GradError(f"{op.name}: with out= nothing is recorded, but an input requires grad; detach it or drop out=")
    outs = (out,) if isinstance(out, Tensor) else tuple(out)
    results = (result,) if not (op.outs or op.many) else tuple(result)
    if len(outs) != len(results):
        raise ArgumentError(f"{op.name}: out must hold {len(results)} tensors, got {len(outs)}")
    for o, r in zip(outs, results):
        if op.kind == "movement":
            _refuse_overlap(op, inputs, o)
        elif isinstance(o, Tensor) and o._array.shape == np.shape(r):
            _refuse_partial_overlap(op, inputs, o)
        write_out(op.name, o, asarray(r))
    return out if isinstance(out, Tensor) else return_type(op)(outs) if op.outs else tuple(outs)


def _refuse_overlap(op: type[Op], inputs: list[Any], out: Any) -> None:
    """Raise if `out` shares memory with an input: elements move, so they would be read after they were written."""
    for x in inputs:
        if (
            isinstance(x, Tensor)
            and isinstance(out, Tensor)
            and (x is out or np.may_share_memory(x._array, out._array))
        ):
            raise ShapeError(f"{op.name}: out shares memory with an input; pass a tensor of its own")


def _refuse_partial_overlap(op: type[Op], inputs: list[Any], out: Any) -> None:
    for x in inputs:
        if isinstance(x, Tensor) and x is not out and alias.partly_overlap(out._array, x._array):
            raise ShapeError(f"{op.name}: out lies partly in the memory of an input; pass a tensor of its own")


def write_out(name: str, out: Tensor, result: ndarray[Any, Any]) -> None:
    """Put `result` into the tensor `out`, resizing it if its shape differs."""
    if not isinstance(out, Tensor):
        raise ArgumentError(f"{name}: out must be a tensor, got {type(out).__name__}")
    if get_mode() & GRAD and out._node is not None:
        raise GradError(f"{name}: out requires grad, and what is written into it is not recorded; pass a plain tensor")
    if alias.captured.get():
        alias.check_not_captured(out, name)
    if alias.overlaps_itself(out._array):
        raise ShapeError(f"{name}: several elements of out share one memory location (it was expanded); clone it first")
    for guard in alias.guards:
        guard(out)
    source, target = dtypes.of_numpy(result.dtype), out.dtype
    if source.category > target.category:
        raise DtypeError(f"{name}: the result is {source.name} and cannot be written into out of type {target.name}")
    if out._array.shape != result.shape:
        if out._array.size:
            warnings.warn(
                f"{name}: out has shape {out._array.shape} and is resized to {result.shape}; pass an out of the right "
                "shape, or empty it first with out.resize_(0)",
                UserWarning,
                stacklevel=4,
            )
        out._array = np.empty(result.shape, out._array.dtype)
    out._array[...] = result
    alias.stamp(out, name)
