"""Distances and similarities of vectors: `cdist`, `pdist`, `pairwise_distance`, `cosine_similarity`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..dtypes import promote_types
from ..errors import DtypeError, ShapeError, ValueRangeError
from . import slow
from .conv import widened
from .declare import Plain, composite, op

EXACT = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


def _norms(d: Any, p: float) -> Any:
    """Return p-norms of differences along the last dimension."""
    a = np.abs(d)
    if p == 0:
        return (a != 0).sum(-1).astype(d.dtype)
    if p == 1:
        return a.sum(-1)
    if p == 2:
        return np.sqrt((a * a).sum(-1))
    if p == np.inf:
        return a.max(-1) if a.shape[-1] else a.sum(-1)
    return (a**p).sum(-1) ** (1 / p)


def slope(d: Any, out: Any, p: float) -> Any:
    """Return the derivative of the p-norm `out` of the vectors `d` by each of their elements, 0 where out is 0."""
    if p == 0:
        return d * 0
    if p == 1:
        return ops.sign(d)
    if p == float("inf"):
        return ops.sign(d) * (ops.abs(d) == ops.unsqueeze(out, -1))
    # Where the norm is 0 the vector is, too; adding 1 there keeps 0 / 0 away.
    direction = d / ops.unsqueeze(out + (out == 0), -1)
    if p == 2:
        return direction
    size = ops.abs(direction)
    return ops.sign(d) * (size + (size == 0)) ** (p - 1)


@op
class cdist_(Plain):
    """Return the p-norm distance of every row of x1 (..., P, M) to every row of x2 (..., R, M), (..., P, R)."""

    inputs = ("x1", "x2")
    function = method = False
    takes_out = False
    half = False
    grad_fn = "CdistBackward0"

    def forward(x1, x2, p):
        return widened(lambda a, b: _all_norms(a, b, p), x1, x2)

    def vjp_x1(g, x1, x2, out, p):
        d = ops.unsqueeze(x1, -2) - ops.unsqueeze(x2, -3)
        return ops.sum(ops.unsqueeze(g, -1) * slope(d, out, p), -2)

    def vjp_x2(g, x1, x2, out, p):
        d = ops.unsqueeze(x1, -2) - ops.unsqueeze(x2, -3)
        return ops.sum(-ops.unsqueeze(g, -1) * slope(d, out, p), -3)

    samples = lambda rng: [(rng.standard_normal((2, 3)), rng.standard_normal((4, 3)), p) for p in (1.0, 2.0, 3.0)]


def _all_norms(a: Any, b: Any, p: float) -> Any:
    """Return all distances, row by row of x1 where the differences would take much memory."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    size = int(np.prod(batch)) * a.shape[-2] * b.shape[-2] * a.shape[-1]
    if size <= 1 << 20:
        return _norms(a[..., :, None, :] - b[..., None, :, :], p)
    out = np.empty((*batch, a.shape[-2], b.shape[-2]), a.dtype)
    for i in range(a.shape[-2]):
        out[..., i, :] = _norms(a[..., i, None, :] - b, p)
    return out


@composite
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    """Return the p-norm distance of every row of x1 to every row of x2.

    Args:
        x1: (..., P, M), float.
        x2: (..., R, M), dtype of x1; leading sizes broadcast.
        p: at least 0, may be inf.

    Returns:
        (..., P, R).
    """
    for name, x in (("x1", x1), ("x2", x2)):
        if not x.dtype.is_floating_point:
            raise DtypeError(f"cdist: {name} must be of a floating-point type, got {x.dtype}")
        if len(x.shape) < 2:
            raise ShapeError(f"cdist: {name} must have at least 2 dimensions, got shape {tuple(x.shape)}")
    if x1.dtype != x2.dtype:
        raise DtypeError(f"cdist: x1 and x2 must have one dtype, got {x1.dtype} and {x2.dtype}")
    if x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(f"cdist: rows differ in size: x1 is {tuple(x1.shape)}, x2 is {tuple(x2.shape)}")
    if p < 0:
        raise ValueRangeError(f"cdist: p must be at least 0, got {p}")
    if compute_mode is not None and compute_mode not in EXACT and compute_mode not in (0, 1, 2):
        raise ValueRangeError(f"cdist: compute_mode must be one of {', '.join(EXACT)}, got {compute_mode!r}")
    return cdist_(x1, x2, float(p))


@op
class pdist_(Plain):
    """Return the p-norm distance of every pair of rows of (N, M), (N · (N − 1) / 2,)."""

    inputs = ("input",)
    function = method = False
    takes_out = False
    half = False
    grad_fn = "PdistBackward0"

    def forward(input, p):
        i, j = np.triu_indices(len(input), 1)
        return widened(lambda a: _norms(a[i] - a[j], p), input)

    def vjp_input(g, input, out, p):
        n = input.shape[0]
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        i, j = constant(g, [a for a, _ in pairs]), constant(g, [b for _, b in pairs])
        r = ops.unsqueeze(g, -1) * slope(ops.embedding(input, i) - ops.embedding(input, j), out, p)
        return ops.embedding_gradient(r, i, n, -1, False) - ops.embedding_gradient(r, j, n, -1, False)

    samples = lambda rng: [(rng.standard_normal((4, 3)), p) for p in (1.0, 2.0, 3.0)]


def constant(like: Any, numbers: list[int]) -> Any:
    """Return int64 indices as an array, or as a Tensor where `like` is one."""
    from ..tensor import Tensor, wrap

    a = np.array(numbers, np.int64)
    return wrap(a) if isinstance(like, Tensor) else a


@composite
def pdist(input: Any, p: float = 2.0) -> Any:
    """Return the p-norm distance of every pair of rows, in the order (0, 1), (0, 2), … (N − 2, N − 1).

    Args:
        input: (N, M), float.
    """
    if len(input.shape) != 2:
        raise ShapeError(f"pdist: input must be a matrix, got shape {tuple(input.shape)}")
    if not input.dtype.is_floating_point:
        raise DtypeError(f"pdist: input must be of a floating-point type, got {input.dtype}")
    if p < 0:
        raise ValueRangeError(f"pdist: p must be at least 0, got {p}")
    return pdist_(input, float(p))


@composite
def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """Return the p-norm of x1 − x2 + eps along the last dimension.

    Args:
        x1, x2: (..., M), broadcast with each other.
    """
    return ops.norm_of_difference(ops.add_number(ops.sub(x1, x2), float(eps)), p, -1, keepdim)


@composite
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """Return the cosine of the angle between vectors along `dim`.

        sum(x1 · x2) / (max(|x1|, eps) · max(|x2|, eps))

    Args:
        x1, x2: float, broadcast with each other.
    """
    common = promote_types(x1.dtype, x2.dtype)
    if not (common.is_floating_point or common.is_complex):
        raise DtypeError(f"cosine_similarity: x1 and x2 must be of floating-point types, got {x1.dtype} and {x2.dtype}")
    x1, x2 = ops.broadcast_tensors(x1.to(common), x2.to(common))
    units = []
    for x in (x1, x2):
        size = ops.clone(ops.linalg_vector_norm(x, 2, dim, True))
        # The floor is set outside the graph: below it the gradient is that of the norm itself.
        if hasattr(type(size), "__sapwood_op__"):
            plain = size.detach()
            size = size + (ops.clamp(plain, min=eps) - plain)
        elif slow.watched(size):
            from ..autograd.mode import no_grad

            with no_grad():
                size.clamp_(min=eps)
        else:
            np.maximum(size._array, np.asarray(eps, size._array.dtype), out=size._array)
        units.append(ops.div(x, size))
    return ops.sum(ops.mul(*units), dim)
