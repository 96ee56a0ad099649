"""Norms and what is made of them: `norm`, `linalg.vector_norm`, `dist`, `renorm`, and `logsumexp`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes, ops
from ..dtypes import F32, F64, as_dtype
from ..errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from .declare import Binary, Reduction, composite, op
from .reduce import add_reduce, dims_of, is_narrow, one_dim, restore_dims


def _p_norm(a: Any, p: float, dim: Any, keepdim: bool) -> Any:
    """Return the p-norm of a float or complex array of at least 32 bits."""
    if p == 2:
        square = a * a if a.dtype.kind != "c" else a.real * a.real + a.imag * a.imag
        return np.sqrt(add_reduce(square, dim, None, None, keepdim))
    size = np.abs(a)
    if p == 1:
        return add_reduce(size, dim, None, None, keepdim)
    if p == 0:
        return add_reduce(a != 0, dim, size.dtype, None, keepdim)
    if p == math.inf or p == -math.inf:
        return (np.maximum if p > 0 else np.minimum).reduce(size, dim, None, None, keepdim)
    with np.errstate(all="ignore"):
        return add_reduce(size**p, dim, None, None, keepdim) ** (1 / p)


def _as_computed(name: str, a: Any, dtype: Any) -> tuple[Any, Any]:
    """Return `a` in the type a norm is computed in, and the type of the result."""
    if dtype is not None:
        if a.dtype.kind == "c" and not dtype.is_complex:
            raise DtypeError(f"{name}: a complex input needs a complex dtype, got {dtype.name}")
        a = a.astype(dtype.numpy)
    kind = "f" if is_narrow(a.dtype) else a.dtype.kind
    if kind not in "fc":
        raise DtypeError(f"{name}: input must be floating-point or complex, got {a.dtype.name}; use input.float()")
    if is_narrow(a.dtype):
        return a.astype(F32), a.dtype
    return a, np.dtype(a.real.dtype)


def norm_back(g: Any, x: Any, out: Any, p: float, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the gradient of a p-norm; 0 where the norm is 0.

    g, out: of the reduction's shape; x: the input.
    """

    def spread(v: Any) -> Any:
        return restore_dims(v, x.shape, dim, keepdim)

    if p == 2:
        return x * spread(ops.masked_fill(g / out, out == 0, 0))
    if p == 0:
        return ops.zeros_like(x)
    if p == 1:
        return spread(g) * ops.sgn(x)
    size = ops.abs(x)
    if p == math.inf or p == -math.inf:
        best = spread(out)
        mask = (size == best) | ((size != size) & (best != best))
        share = g / ops.sum(mask, dim, keepdim, dtype=g.dtype)
        return ops.sgn(x) * spread(share) * mask
    if p < 1:
        part = ops.masked_fill(ops.sgn(x) * size ** (p - 1), x == 0, 0)
        return part * spread(g * out ** (1 - p))
    part = ops.sgn(x) * size ** (p - 1) if p < 2 else x * size ** (p - 2)
    return part * spread(ops.masked_fill(g / out ** (p - 1), out == 0, 0))


@op
class linalg_vector_norm(Reduction):
    """Return the p-norm of the elements, of the whole tensor or along `dim`.

        sum(|x|^ord)^(1/ord); the largest |x| for inf, the smallest for -inf, the count of nonzeros for 0

    Args:
        input: floating-point or complex, any shape.
        ord: a number, inf or -inf.
        dim: an int or several; None takes the input as one vector.

    Raises:
        DtypeError: the input is of integers or bools.
    """

    function = method = False
    half = False
    holomorphic = False
    dtypes = "fc"
    vjp_input = lambda g, input, out, ord, dim, keepdim: norm_back(g, input, out, ord, dim, keepdim)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)),),
        (rng.standard_normal((2, 3)), 3, 1, True),
        (rng.standard_normal((2, 3)), float("inf"), (0, 1)),
        (rng.standard_normal((2, 3)), 1, 0),
        (rng.standard_normal(3), 1.5),
        (rng.standard_normal(()), 2, 0),
    ]

    def canon(a, ord, dim, keepdim, dtype):
        dim = dims_of("linalg.vector_norm", a, dim)
        return ord, dim, keepdim, dtype if dtype is None else as_dtype(dtype, "linalg.vector_norm")

    def forward(input, ord=2, dim=None, keepdim=False, *, dtype=None):
        if dtype is None and (input.dtype is F32 or input.dtype is F64) and ord == 2:
            return np.sqrt(add_reduce(input * input, dim, None, None, keepdim))
        a, target = _as_computed("linalg.vector_norm", input, dtype)
        if a.size == 0 and (ord < 0 or ord == math.inf) and 0 in [a.shape[d] for d in dim or range(a.ndim)]:
            raise ShapeError(f"linalg.vector_norm: no elements have no norm of order {ord}; the shape is {a.shape}")
        return np.asarray(_p_norm(a, ord, dim, keepdim)).astype(target, copy=False)


@composite(method=True)
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None, dtype: Any = None) -> Any:
    """Return the norm of a tensor, or norms along `dim`.

    Args:
        input: floating-point or complex.
        p: "fro" (the 2-norm of all elements), "nuc" (the sum of singular values), a number, inf or -inf.
        dim: an int or several; None takes all elements ("nuc": a matrix).

    Raises:
        ValueRangeError: `p` is another string.
    """
    if isinstance(out, dtypes.dtype):
        # The method has no out, and dtype in its place.
        out, dtype = None, out
    if p == "nuc":
        return ops.linalg_matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if p is None or p == "fro":
        p = 2
    if isinstance(p, str):
        raise ValueRangeError(f'norm: p must be "fro", "nuc" or a number, got {p!r}')
    if dtype is not None:
        return linalg_vector_norm(input, p, dim, keepdim, dtype=dtype, out=out)
    return linalg_vector_norm(input, p, dim, keepdim, out=out)


@op
class dist(Binary):
    """Return the p-norm of `input - other`, which broadcast."""

    kind = "reduction"
    scalars = False
    inplace = False
    takes_out = False
    holomorphic = False
    dtypes = "fc"
    vjp_input = lambda g, input, other, out, p: norm_back(g, input - other, out, p)
    vjp_other = lambda g, input, other, out, p: -norm_back(g, input - other, out, p)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), rng.standard_normal((2, 3))),
        (rng.standard_normal((2, 3)), rng.standard_normal(3), 1),
    ]

    def forward(input, other, p=2):
        if input.dtype.kind not in "fc":
            raise DtypeError(f"dist: input and other must be floating-point or complex, got {input.dtype.name}")
        return _p_norm(input - other, p, None, False)


@op
class renorm(Reduction):
    """Scale down the slices along `dim` whose p-norm exceeds `maxnorm`, so that it is `maxnorm`.

    Raises:
        ShapeError: the input has fewer than two dimensions.
        ValueRangeError: `p` is not positive or `maxnorm` is negative.
    """

    kind = ""
    inplace = True
    holomorphic = False
    dtypes = "fc"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), 2, 0, 1.0),
        (rng.standard_normal((2, 3, 2)), 1, -1, 2.0),
        (rng.standard_normal((2, 3)), 3, 1, 0.5),
    ]

    def canon(a, p, dim, maxnorm):
        if a.ndim < 2:
            raise ShapeError(f"renorm: input must have at least two dimensions, got shape {a.shape}")
        if p <= 0 or maxnorm < 0:
            raise ValueRangeError(f"renorm: p must be positive and maxnorm not negative, got {p} and {maxnorm}")
        return p, one_dim("renorm", a, dim), maxnorm

    def forward(input, p, dim, maxnorm):
        size = _p_norm(input, p, tuple(d for d in range(input.ndim) if d != dim), True)
        return (input * np.where(size > maxnorm, maxnorm / (size + 1e-7), 1)).astype(input.dtype, copy=False)

    def vjp_input(g, input, p, dim, maxnorm):
        dims = tuple(d for d in range(input.ndim) if d != dim)
        size = linalg_vector_norm(input, p, dims, True)
        over = size > maxnorm
        factor = ops.masked_fill(maxnorm / (size + 1e-7), ops.logical_not(over), 1)
        along = ops.sum(g * ops.conj(input), dims, True)
        slope = -ops.real(along) * factor / (size + 1e-7) * over
        return g * factor + norm_back(slope, input, size, p, dims, True)


@op
class logsumexp(Reduction):
    """Return log(sum(exp(input))) along `dim` without overflow; integers become the default float type.

    Args:
        dim: an int or several.
    """

    promote = "float"
    dtypes = "bifc"
    vjp_input = lambda g, input, out, dim, keepdim: (
        restore_dims(g, input.shape, dim, keepdim) * ops.exp(input - restore_dims(out, input.shape, dim, keepdim))
    )
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), 1),
        (rng.standard_normal((2, 3)), (0, 1), True),
        (rng.standard_normal(()), 0),
    ]

    def canon(a, dim, keepdim):
        if dim is None:
            raise ArgumentError("logsumexp: dim must be an int or several, got None")
        return dims_of("logsumexp", a, dim), keepdim

    def formula(input, dim, keepdim=False):
        top = ops.amax(input, dim, True)
        top = ops.where(ops.isfinite(top), top, 0)
        out = ops.log(ops.sum(ops.exp(input - top), dim, True)) + top
        return out if keepdim else ops.squeeze(out, dim)

    def forward(input, dim, keepdim=False):
        if not input.size:
            return np.log(add_reduce(np.exp(input), dim, None, None, keepdim))
        top = np.maximum.reduce(input.real, dim, None, None, True)
        top = np.where(np.isfinite(top), top, 0).astype(input.real.dtype, copy=False)
        out = np.log(add_reduce(np.exp(input - top), dim, None, None, keepdim))
        return out + (top if keepdim else top.squeeze(dim))


__all__ = ["linalg_vector_norm", "norm_back"]
