"""Products made of matrix products and broadcasting: `linear`, `outer`, `inner`, `tensordot`, `kron`, `cross` …"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from operator import index
from typing import Any

import numpy as np

from .. import ops
from ..errors import ArgumentError, DtypeError, ShapeError
from ..tensor import check_dim
from .conv import widened
from .declare import Plain, composite, op
from .matrix import addmm, check_dtypes, mm
from .out import write_out


def linear(input: Any, weight: Any, bias: Any = None, *, out: Any = None) -> Any:
    """Return input @ weight.T + bias.

    Args:
        input: (..., in), float.
        weight: (out, in) or (in,), dtype of input.
        bias: (out,) or None.

    Returns:
        (..., out); (...) for a 1-D weight.

    Raises:
        ShapeError: the sizes `in` differ.
    """
    if out is not None:
        return into(linear(input, weight, bias), out)
    shape = input.shape
    if len(weight.shape) == 2 and len(shape) and shape[-1] != weight.shape[1]:
        raise ShapeError(
            f"linear: input {tuple(shape)} has {shape[-1]} features, weight {tuple(weight.shape)} takes "
            f"{weight.shape[1]}; input.shape[-1] must equal weight.shape[1]"
        )
    try:
        return _affine(input, weight, bias, shape)
    except DtypeError as problem:
        found = [f"{n} {x.dtype}" for n, x in (("input", input), ("weight", weight), ("bias", bias)) if x is not None]
        raise DtypeError(f"linear: {', '.join(found)}; they must have one dtype, convert with .to(dtype)") from problem


def _affine(input: Any, weight: Any, bias: Any, shape: Any) -> Any:
    columns = ops.t(weight)
    if len(shape) == 2 and len(weight.shape) == 2:
        return mm(input, columns) if bias is None else addmm(bias, input, columns)
    if bias is None:
        return ops.matmul(input, columns)
    if len(weight.shape) == 2 and len(shape) and _joins(input):
        rows = ops.reshape(input, (prod(shape[:-1]), shape[-1]))
        return ops.reshape(addmm(bias, rows, columns), (*shape[:-1], weight.shape[0]))
    return ops.add(ops.matmul(input, columns), bias)


def _joins(input: Any) -> bool:
    """Return whether the rows of all matrices can be looked at as one matrix."""
    array = getattr(input, "_array", None)
    return array is None or bool(array.flags.c_contiguous)


@op
class trilinear(Plain):
    """Return sum_ij input1[n, i] weight[o, i, j] input2[n, j] as (N, O)."""

    inputs = ("input1", "weight", "input2")
    function = method = False
    half = False
    takes_out = False

    def forward(input1, weight, input2):
        def sums(x, w, y):
            (n, i), (o, _, j) = x.shape, w.shape
            rows = np.matmul(x, w.transpose(1, 0, 2).reshape(i, o * j)).reshape(n, o, j)
            return np.matmul(rows, y[:, :, None])[:, :, 0].copy()

        return widened(sums, input1, weight, input2)

    vjp_input1 = lambda g, weight, input2: ops.trilinear(g, ops.permute(weight, (1, 0, 2)), input2)
    vjp_input2 = lambda g, input1, weight: ops.trilinear(g, ops.permute(weight, (2, 0, 1)), input1)

    def vjp_weight(g, input1, input2, weight_shape):
        pairs = ops.unsqueeze(g, 2) * ops.unsqueeze(input1, 1)
        rows = ops.reshape(pairs, (input1.shape[0], weight_shape[0] * weight_shape[1]))
        return ops.reshape(ops.mm(rows.mT, input2), weight_shape)

    samples = lambda rng: [tuple(rng.standard_normal(s) for s in ((2, 3), (5, 3, 4), (2, 4)))]
    reference = lambda input1, weight, input2: np.einsum("ni,oij,nj->no", input1, weight, input2)


@composite
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """Return input1ᵀ weight[o] input2 + bias[o] for every output o.

    Args:
        input1: (..., in1).
        input2: (..., in2), the same leading sizes.
        weight: (out, in1, in2).
        bias: (out,) or None.

    Returns:
        (..., out).
    """
    lead = tuple(input1.shape[:-1])
    if lead != tuple(input2.shape[:-1]):
        raise ShapeError(
            f"bilinear: leading sizes differ: input1 is {tuple(input1.shape)}, input2 {tuple(input2.shape)}"
        )
    if len(weight.shape) != 3 or (input1.shape[-1], input2.shape[-1]) != tuple(weight.shape[1:]):
        raise ShapeError(
            f"bilinear: weight {tuple(weight.shape)} must be (out, {input1.shape[-1]}, {input2.shape[-1]}), input1 "
            f"being {tuple(input1.shape)} and input2 {tuple(input2.shape)}"
        )
    count = prod(lead)
    rows = [ops.reshape(x, (count, x.shape[-1])) for x in (input1, input2)]
    out = ops.reshape(trilinear(rows[0], weight, rows[1]), (*lead, weight.shape[0]))
    return out if bias is None else ops.add(out, bias)


# -- products of dimensions -------------------------------------------------------------------------------------------


@composite(method=True, aliases=("ger",))
def outer(input: Any, vec2: Any, *, out: Any = None) -> Any:
    """Return the products of all pairs of elements of two vectors, (N, M)."""
    for name, x in (("input", input), ("vec2", vec2)):
        if len(x.shape) != 1:
            raise ShapeError(f"outer: {name} must be a vector, got shape {tuple(x.shape)}")
    return ops.mul(ops.reshape(input, (input.shape[0], 1)), vec2, out=out)


@composite(method=True)
def inner(input: Any, other: Any, *, out: Any = None) -> Any:
    """Sum products over the last dimension of both; with a 0-D operand, multiply.

    Args:
        input: (..., K).
        other: (..., K).

    Returns:
        (*input.shape[:-1], *other.shape[:-1]).
    """
    if not len(input.shape) or not len(other.shape):
        return ops.mul(input, other, out=out)
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError(f"inner: last sizes differ: input is {tuple(input.shape)}, other is {tuple(other.shape)}")
    return tensordot(input, other, ([-1], [-1]), out)


@composite
def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """Sum products over dimensions of `a` paired with dimensions of `b`.

    Args:
        dims: how many: the last of a with the first of b; or the two lists of dimensions.

    Returns:
        The remaining dimensions of a, then those of b.
    """
    mine, yours = _pairs(a, b, dims)
    for i, j in zip(mine, yours):
        if a.shape[i] == b.shape[j]:
            continue
        # A size of 1 pairs with anything: the other side is summed first.
        if 1 not in (a.shape[i], b.shape[j]):
            raise ShapeError(
                f"tensordot: paired sizes differ: dimension {i} of a {tuple(a.shape)} is {a.shape[i]}, dimension {j} "
                f"of b {tuple(b.shape)} is {b.shape[j]}"
            )
    wide_a = [j for i, j in zip(mine, yours) if a.shape[i] == 1 != b.shape[j]]
    wide_b = [i for i, j in zip(mine, yours) if b.shape[j] == 1 != a.shape[i]]
    b = ops.sum(b, wide_a, keepdim=True, dtype=b.dtype) if wide_a else b
    a = ops.sum(a, wide_b, keepdim=True, dtype=a.dtype) if wide_b else a
    free_a = [i for i in range(len(a.shape)) if i not in mine]
    free_b = [j for j in range(len(b.shape)) if j not in yours]
    k = prod(a.shape[i] for i in mine)
    shape = (*(a.shape[i] for i in free_a), *(b.shape[j] for j in free_b))
    n, m = prod(a.shape[i] for i in free_a), prod(b.shape[j] for j in free_b)
    left, right = ops.permute(a, (*free_a, *mine)), ops.permute(b, (*yours, *free_b))
    if shape:
        r = mm(ops.reshape(left, (n, k)), ops.reshape(right, (k, m)))
    else:
        r = ops.dot(ops.reshape(left, (k,)), ops.reshape(right, (k,)))
    return into(ops.reshape(r, shape), out)


def _pairs(a: Any, b: Any, dims: Any) -> tuple[list[int], list[int]]:
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if not isinstance(dims, list | tuple):
        n = index(dims)
        if n < 0 or n > min(len(a.shape), len(b.shape)):
            raise ShapeError(f"tensordot: dims must lie between 0 and {min(len(a.shape), len(b.shape))}, got {n}")
        return list(range(len(a.shape) - n, len(a.shape))), list(range(n))
    if len(dims) != 2:
        raise ArgumentError(f"tensordot: dims must be an int or two lists of dimensions, got {dims!r}")
    mine, yours = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(mine) != len(yours):
        raise ShapeError(f"tensordot: both lists of dims must have one length, got {mine} and {yours}")
    found = (
        [check_dim("tensordot", d, len(a.shape)) for d in mine],
        [check_dim("tensordot", d, len(b.shape)) for d in yours],
    )
    if any(len(set(f)) < len(f) for f in found):
        raise ShapeError(f"tensordot: a dimension appears twice in dims {dims!r}")
    return found


def into(result: Any, out: Any) -> Any:
    """Return the result, written into `out` where one was given."""
    if out is None:
        return result
    write_out("out", out, result._array)
    return out


@composite(method=True)
def kron(input: Any, other: Any, *, out: Any = None) -> Any:
    """Return the Kronecker product: other, scaled by every element of input, laid out in input's order."""
    dims = max(len(input.shape), len(other.shape))
    mine = (1,) * (dims - len(input.shape)) + tuple(input.shape)
    yours = (1,) * (dims - len(other.shape)) + tuple(other.shape)
    x = ops.reshape(input, tuple(n for m in mine for n in (m, 1)))
    y = ops.reshape(other, tuple(n for m in yours for n in (1, m)))
    return into(ops.unsafe_view(ops.mul(x, y), tuple(m * n for m, n in zip(mine, yours))), out)


def multi_dot(tensors: Any, *, out: Any = None) -> Any:
    """Multiply a chain of matrices in the order that takes the fewest operations; the ends may be vectors.

    Reference: Cormen et al., Introduction to Algorithms, 15.2.
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise ShapeError(f"multi_dot: at least 2 tensors are needed, got {len(tensors)}")
    ends = (0, len(tensors) - 1)
    for i, t in enumerate(tensors):
        if len(t.shape) != 2 and not (i in ends and len(t.shape) == 1):
            raise ShapeError(
                f"multi_dot: tensor {i} must be a matrix{' or a vector' if i in ends else ''}, got {tuple(t.shape)}"
            )
    row, column = len(tensors[0].shape) == 1, len(tensors[-1].shape) == 1
    chain = tensors[:]
    chain[0] = ops.unsqueeze(chain[0], 0) if row else chain[0]
    chain[-1] = ops.unsqueeze(chain[-1], 1) if column else chain[-1]
    for i, (a, b) in enumerate(pairwise(chain)):
        if a.shape[1] != b.shape[0]:
            raise ShapeError(
                f"multi_dot: tensors {i} and {i + 1} do not fit: {tuple(tensors[i].shape)} and "
                f"{tuple(tensors[i + 1].shape)}"
            )
    r = _multiply(chain, _cuts([chain[0].shape[0], *(t.shape[1] for t in chain)]), 0, len(chain) - 1)
    shape = (*(() if row else (r.shape[0],)), *(() if column else (r.shape[1],)))
    return into(ops.reshape(r, shape), out)


def _cuts(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return where to cut every part of a chain of matrices of sizes[i] x sizes[i + 1]."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            prices = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            cut[i, j] = min(prices, key=prices.__getitem__)
            cost[i, j] = prices[cut[i, j]]
    return cut


def _multiply(chain: list[Any], cut: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return chain[i]
    k = cut[i, j]
    return mm(_multiply(chain, cut, i, k), _multiply(chain, cut, k + 1, j))


@composite
def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """Multiply a chain of matrices in the order that takes the fewest operations."""
    for i, m in enumerate(matrices):
        if len(m.shape) != 2:
            raise ShapeError(f"chain_matmul: tensor {i} must be a matrix, got shape {tuple(m.shape)}")
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices, out=out)


# -- vectors along a dimension ----------------------------------------------------------------------------------------


@op
class linalg_cross(Plain):
    """Return the cross product of vectors of 3 elements along `dim`; the other dimensions broadcast."""

    inputs = ("input", "other")
    function = method = False
    half = False
    kind = "bilinear"

    def canon(a, dim):
        return (check_dim("linalg.cross", index(dim), a.ndim),)

    def forward(input, other, *, dim=-1):
        if input.dtype is not other.dtype:
            check_dtypes("linalg.cross", input, other)
        if input.ndim != other.ndim:
            raise ShapeError(
                f"linalg.cross: input {input.shape} and other {other.shape} must have one number of dimensions"
            )
        if not input.shape[dim] == other.shape[dim] == 3:
            raise ShapeError(
                f"linalg.cross: dimension {dim} must have size 3 in both, got {input.shape} and {other.shape}"
            )
        return widened(lambda x, y: _cross(x, y, dim), input, other)

    vjp_input = lambda g, other, dim: ops.linalg_cross(other, g, dim=dim)
    vjp_other = lambda g, input, dim: ops.linalg_cross(g, input, dim=dim)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), rng.standard_normal((2, 3))),
        (rng.standard_normal((3, 2)), rng.standard_normal((3, 1)), {"dim": 0}),
    ]
    dtypes = "ifc"


def _cross(x: Any, y: Any, dim: int) -> Any:
    at = lambda a, i: a[(slice(None),) * dim + (i % 3,)]
    parts = [at(x, i + 1) * at(y, i + 2) - at(x, i + 2) * at(y, i + 1) for i in range(3)]
    return np.stack(parts, dim)


@composite(method=True)
def cross(input: Any, other: Any, dim: int | None = None, *, out: Any = None) -> Any:
    """Return the cross product of vectors of 3 elements along `dim`, the first dimension of size 3 if not given."""
    if dim is None:
        found = [d for d, n in enumerate(input.shape) if n == 3]
        if not found:
            raise ShapeError(f"cross: no dimension of input {tuple(input.shape)} has size 3")
        dim = found[0]
    return ops.linalg_cross(input, other, dim=dim, out=out)


def vecdot(x: Any, y: Any, *, dim: int = -1, out: Any = None) -> Any:
    """Return the inner products of vectors along `dim`, those of x conjugated."""
    if x.dtype.is_complex:
        x = ops.conj(x)
    return ops.sum(ops.mul(x, y), dim, out=out)
