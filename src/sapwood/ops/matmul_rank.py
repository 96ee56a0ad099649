"""`matmul`: the matrix product by rank, recorded as the calls it is made of."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from .. import ops
from ..errors import ArgumentError, ShapeError
from ..state import GRAD, get_mode
from ..tensor import Tensor
from . import slow
from .declare import Plain, View, composite, op
from .matrix import bmm, check_dtypes, dot, explain_inner, mm, mv, product


@op
class matmul_(Plain):
    """Multiply matrices of any rank as one call; `matmul` is this where no gradient is wanted."""

    inputs = ("input", "other")
    kind = "bilinear"
    function = method = False
    half = False

    def forward(input, other):
        check_dtypes("matmul", input, other)
        return product(input, other)

    def infer(input, other):
        if not (input.ndim and other.ndim):
            raise ShapeError(
                f"matmul: both operands need at least 1 dimension, got shapes {input.shape} and {other.shape}; use *"
            )
        explain_inner("matmul", input, other)

    def vjp_input(g, other, input_shape):
        if len(input_shape) == 1:
            g = ops.unsqueeze(g, -2 if other.ndim > 1 else -1)
        if other.ndim == 1:
            grad = ops.unsqueeze(g, -1) * other
        else:
            grad = ops.matmul(g, other.mT)
        return ops.squeeze(grad, -2) if len(input_shape) == 1 else grad

    def vjp_other(g, input, other_shape):
        if input.ndim == 1:
            return ops.unsqueeze(g, -2) * ops.unsqueeze(input, -1) if len(other_shape) > 1 else g * input
        if len(other_shape) > 1:
            return ops.matmul(input.mT, g)
        return ops.squeeze(ops.matmul(input.mT, ops.unsqueeze(g, -1)), -1)

    samples = lambda rng: [
        (rng.standard_normal(3), rng.standard_normal(3)),
        (rng.standard_normal((2, 3)), rng.standard_normal(3)),
        (rng.standard_normal(3), rng.standard_normal((3, 2))),
        (rng.standard_normal((2, 2, 3)), rng.standard_normal((3, 4))),
        (rng.standard_normal((2, 3)), rng.standard_normal((2, 3, 2))),
        (rng.standard_normal((2, 1, 2, 3)), rng.standard_normal((3, 3, 2))),
    ]
    reference = np.matmul
    dtypes = "ifc"


@op
class squeeze_product(View):
    """Drop the first dimension, of size 1, of a fresh product."""

    function = method = False
    grad_fn = "SqueezeBackward4"
    forward = lambda input: input[0]
    vjp_input = lambda g: ops.unsqueeze(g, 0)
    samples = lambda rng: [(rng.standard_normal((1, 3)),)]


@composite(method=True)
def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """Multiply two tensors as matrices.

    1-D operands count as a row on the left and a column on the right, and lose that dimension again; dimensions
    before the last two are a batch, and broadcast.

    Args:
        input: (..., N, K) or (K,).
        other: (..., K, M) or (K,), dtype of input.

    Returns:
        (..., N, M), without N and M where an operand is 1-D.

    Raises:
        ShapeError: the sizes K differ, the batches do not broadcast, or an operand is 0-D.
        DtypeError: the dtypes differ.

    Example:
        >>> import sapwood
        >>> sapwood.matmul(sapwood.tensor([[1., 2.], [3., 4.]]), sapwood.tensor([1., 1.]))
        tensor([3., 7.])
    """
    try:
        if input._array.ndim == 2 == other._array.ndim:
            return mm(input, other, out=out)
    except AttributeError:
        pass
    return _by_rank(input, other, out)


@composite(method="__matmul__", function_name=False)
def matmul_operator(input: Any, other: Any) -> Any:
    """Return `input @ other`."""
    try:
        if input._array.ndim == 2 == other._array.ndim:
            return mm(input, other)
    except AttributeError:
        if not hasattr(type(other), "__sapwood_op__") and not isinstance(other, Tensor):
            return NotImplemented
    return _by_rank(input, other)


@composite(method="__rmatmul__", function_name=False)
def matmul_reflected(input: Any, other: Any) -> Any:
    """Return `other @ input`."""
    if not hasattr(type(other), "__sapwood_op__") and not isinstance(other, Tensor):
        return NotImplemented
    return matmul(other, input)


def _by_rank(input: Any, other: Any, out: Any = None) -> Any:
    if isinstance(input, ndarray):
        return product(input, other)
    whole: Any = matmul_
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        for name, x in (("input", input), ("other", other)):
            if not isinstance(x, Tensor) and not hasattr(type(x), "__sapwood_op__"):
                raise ArgumentError(f"matmul: {name} must be a tensor, got {type(x).__name__}")
        return whole(input, other)
    a, b = input._array, other._array
    recorded = get_mode() & GRAD and (input._node is not None or other._node is not None)
    if out is not None or not recorded or not (a.ndim and b.ndim):
        return whole(input, other) if out is None else slow.slow(whole.op, (input, other), (), out)
    if a.shape[-1] != b.shape[-1 if b.ndim == 1 else -2]:
        explain_inner("matmul", a, b)
    if a.ndim == 1 and b.ndim == 1:
        return dot(input, other)
    if a.ndim == 2 and b.ndim == 1:
        return mv(input, other)
    if a.ndim == 1 and b.ndim == 2:
        return squeeze_product(mm(ops.unsqueeze(input, 0), other))
    return _folded(input, other) if _folds(input, other) else _expanded(input, other)


def _folds(input: Tensor, other: Tensor) -> bool:
    """Return whether one operand's batch can join its rows, so that one product of matrices does all."""
    first = input._array.ndim >= other._array.ndim
    large, small = (input, other) if first else (other, input)
    a = large._array
    if a.ndim < 3 or small._array.ndim > 2:
        return False
    if small._node is not None:
        return True
    if input._array.ndim == 2:
        return False
    if not a.size:
        return True
    a = a if first else a.mT
    return all(a.strides[i] == a.strides[i + 1] * a.shape[i + 1] for i in range(a.ndim - 2))


def _folded(input: Tensor, other: Tensor) -> Any:
    first = input.ndim >= other.ndim
    large: Any = input if first else other.mT
    small: Any = other if first else ops.t(input) if input.ndim == 2 else input
    shape = tuple(large.shape)
    rows = ops.reshape(large, (prod(shape[:-1]), shape[-1]))
    if small.ndim == 1:
        return ops.unsafe_view(mv(rows, small), shape[:-1])
    out = ops.unsafe_view(mm(rows, small), (*shape[:-1], small.shape[1]))
    return out if first else out.mT.contiguous()


def _expanded(input: Any, other: Any) -> Any:
    row, column = input.ndim == 1, other.ndim == 1
    a = ops.unsqueeze(input, 0) if row else input
    b = ops.unsqueeze(other, 1) if column else other
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        explain_inner("matmul", input._array, other._array)
        raise
    n, k, m = a.shape[-2], a.shape[-1], b.shape[-1]
    count = prod(batch)
    a = ops.reshape(ops.expand(a, (*batch, n, k)), (count, n, k))
    b = ops.reshape(ops.expand(b, (*batch, k, m)), (count, k, m))
    return ops.unsafe_view(bmm(a, b), (*batch, *(() if row else (n,)), *(() if column else (m,))))
