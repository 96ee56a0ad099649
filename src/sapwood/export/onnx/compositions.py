"""Ops in terms of others, for the export: what has no formula of its own, or one that ONNX cannot follow.

Each function takes what its op takes, by the same names, and is captured on the shapes of the call. Constants may be
computed from shapes and attributes, so such a call has fixed sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["COMPOSITIONS"]

COMPOSITIONS: dict[str, Callable[..., Any]] = {}


def _composes(function: Callable[..., Any]) -> Callable[..., Any]:
    COMPOSITIONS[function.__name__] = function
    return function


def _constant(array: Any, like: Any = None) -> Any:
    import sapwood

    made = sapwood.tensor(np.asarray(array))
    return made if like is None else made.to(like.dtype)


def along(x: Any, dim: int, matrix: Any) -> Any:
    """Multiply a dimension by a constant matrix (old size, new size)."""
    rank = x.dim()
    made = x.transpose(dim, rank - 1) if dim % rank != rank - 1 else x
    made = made @ _constant(matrix, x)
    return made.transpose(dim, rank - 1) if dim % rank != rank - 1 else made


@_composes
def renorm(input: Any, p: Any, dim: int, maxnorm: float) -> Any:
    import sapwood

    others = tuple(d for d in range(input.dim()) if d != dim % input.dim())
    size = input.abs().pow(p).sum(others, True).pow(1 / p)
    return input * sapwood.where(size > maxnorm, maxnorm / (size + 1e-7), sapwood.ones_like(size))


@_composes
def pdist(input: Any, p: float) -> Any:
    i, j = np.triu_indices(input.shape[0], 1)
    d = (input[_constant(i)] - input[_constant(j)]).abs()
    if p == 0:
        return (d != 0).to(input.dtype).sum(-1)
    return d.amax(-1) if math.isinf(p) else d.pow(p).sum(-1).pow(1 / p)


@_composes
def logcumsumexp(input: Any, dim: int) -> Any:
    from sapwood import ops

    if not input.dim() or not input.numel():
        return input.clone()
    step = 1
    while step < input.shape[dim]:
        input = ops.logaddexp(input, ops.shifted(input, dim % input.dim(), step, -math.inf))
        step *= 2
    return input.clone() if step == 1 else input


@_composes
def class_mask(input: Any, target: Any) -> Any:
    import sapwood

    live = (target >= 0).to(sapwood.int64).cumprod(-1)
    hits = (target.unsqueeze(-1) == _constant(np.arange(input.shape[-1]))).to(sapwood.int64)
    return (hits * live.unsqueeze(-1)).sum(-2).to(input.dtype)


@_composes
def histc(input: Any, bins: int, min: float, max: float) -> Any:
    import sapwood

    x = input.reshape(-1)
    if min == max == 0:
        low, high = x.min(), x.max()
        flat = low == high
        low, high = sapwood.where(flat, low - 1, low), sapwood.where(flat, high + 1, high)
    else:
        low, high = (sapwood.tensor(float(v), dtype=input.dtype) for v in (min, max))
    inside = (x >= low) & (x <= high)
    at = ((x - low) * bins / (high - low)).to(sapwood.int64).clamp(max=bins - 1)
    hits = (at.unsqueeze(-1) == _constant(np.arange(bins))) & inside.unsqueeze(-1)
    return hits.to(input.dtype).sum(0)


@_composes
def select_reduced(input: Any, indices: Any, dim: int, keepdim: bool) -> Any:
    if not input.dim():
        return input.clone()
    made = input.gather(dim, indices if keepdim else indices.unsqueeze(dim))
    return made if keepdim else made.squeeze(dim)


@_composes
def place_reduced(input: Any, indices: Any, shape: Sequence[int], dim: int, keepdim: bool) -> Any:
    import sapwood

    if not shape:
        return input.clone()
    given = (input, indices) if keepdim else (input.unsqueeze(dim), indices.unsqueeze(dim))
    return sapwood.zeros(tuple(shape), dtype=input.dtype).scatter(dim, given[1], given[0])


@_composes
def scatter_image(input: Any, indices: Any, like: Any, size: Sequence[int], add: bool) -> Any:
    import sapwood

    lead = tuple(input.shape[: input.dim() - len(size)])
    flat = sapwood.zeros((*lead, math.prod(size)), dtype=input.dtype)
    index, values = (t.reshape(*lead, -1) for t in (indices, input))
    made = flat.scatter_add(-1, index, values) if add else flat.scatter(-1, index, values)
    return made.reshape(*lead, *size)


@_composes
def row_factor(indices: Any, like: Any, padding_idx: int, scale: bool) -> Any:
    import sapwood

    flat = indices.reshape(-1)
    factor = sapwood.ones_like(flat, dtype=like.dtype)
    if scale:
        factor = 1 / (flat.unsqueeze(0) == flat.unsqueeze(1)).to(like.dtype).sum(1)
    if padding_idx >= 0:
        factor = factor * (flat != padding_idx).to(like.dtype)
    return factor.reshape(*indices.shape, 1)


@_composes
def embedding_gradient(grad: Any, indices: Any, rows: int, padding_idx: int, scale: bool) -> Any:
    import sapwood

    given = grad * row_factor(indices, grad, padding_idx, scale) if scale or padding_idx >= 0 else grad
    table = sapwood.zeros((rows, grad.shape[-1]), dtype=grad.dtype)
    return table.index_add(0, indices.reshape(-1), given.reshape(-1, grad.shape[-1]))


@_composes
def nll_spread(grad: Any, target: Any, weight: Any, shape: Sequence[int], reduction: str, ignore_index: int) -> Any:
    import sapwood

    live = (target != ignore_index).to(grad.dtype)
    index = sapwood.where(target == ignore_index, sapwood.zeros_like(target), target)
    w = live if weight is None else weight[index] * live
    share = w / w.sum() if reduction == "mean" else w
    dim = 1 if len(shape) > 1 else 0
    zeros = sapwood.zeros(tuple(shape), dtype=grad.dtype)
    return zeros.scatter(dim, index.unsqueeze(dim), (-grad * share).unsqueeze(dim))


@_composes
def scatter_reduce(input: Any, index: Any, src: Any, dim: int, reduce: str, include_self: bool) -> Any:
    """With all arguments: ONNX's own operator knows neither means nor results without the input itself."""
    import sapwood

    ones = sapwood.ones_like(src)
    if not include_self:
        touched = sapwood.zeros_like(input).scatter_add(dim, index, ones) > 0
        neutral = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}[reduce]
        input = sapwood.where(touched, sapwood.full_like(input, neutral), input)
    if reduce != "mean":
        return input.scatter_reduce(dim, index, src, reduce)
    count = sapwood.full_like(input, float(include_self)).scatter_add(dim, index, ones)
    return input.scatter_add(dim, index, src) / sapwood.where(count == 0, sapwood.ones_like(count), count)


@_composes
def index_reduce(input: Any, index: Any, source: Any, dim: int, reduce: str, include_self: bool) -> Any:
    shape = [-1 if d == dim % input.dim() else 1 for d in range(input.dim())]
    return input.scatter_reduce(
        dim, index.reshape(shape).expand(source.shape), source, reduce, include_self=include_self
    )


@_composes
def adaptive_avg_pool(input: Any, output_size: Sequence[Any]) -> Any:
    for i, wanted in enumerate(output_size):
        dim = input.dim() - len(output_size) + i
        n = input.shape[dim]
        out = n if wanted is None else wanted
        matrix = np.zeros((n, out))
        for j, (a, b) in enumerate(_windows(n, out)):
            matrix[a:b, j] = 1 / (b - a)
        input = along(input, dim, matrix)
    return input


@_composes
def adaptive_max_pool(input: Any, output_size: Sequence[Any]) -> Any:
    dims = len(output_size)
    size = input.shape[input.dim() - dims :]
    out = [n if w is None else w for n, w in zip(size, output_size)]
    numbers = np.arange(math.prod(size)).reshape(size)
    cells = [
        numbers[tuple(slice(a, b) for a, b in cell)].reshape(-1)
        for cell in itertools.product(*[_windows(n, m) for n, m in zip(size, out)])
    ]
    longest = max(map(len, cells))
    # Shorter windows repeat their first element, which changes no maximum.
    table = np.array([[*c, *[c[0]] * (longest - len(c))] for c in cells])
    lead = tuple(input.shape[: input.dim() - dims])
    flat = input.reshape(*lead, -1)
    values, which = flat[..., _constant(table.reshape(-1))].reshape(*lead, *table.shape).max(-1)
    places = _constant(table).expand(*lead, *table.shape).gather(-1, which.unsqueeze(-1)).squeeze(-1)
    return values.reshape(*lead, *out), places.reshape(*lead, *out)


@_composes
def avg_pool(
    input: Any, kernel_size: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil_mode: bool,
    count_include_pad: bool, divisor_override: Any,
) -> Any:  # fmt: skip
    """By the matrix of every dimension, which the op itself gives for unit vectors."""
    from sapwood.ops.declare import registry

    dims = len(kernel_size)
    for i in range(dims):
        dim = input.dim() - dims + i
        # (1, n, 1, n) → (1, n, 1, out): what each element adds to each result.
        unit = np.eye(input.shape[dim])[None, :, None]
        given = ((1, kernel_size[i]), (1, (stride or kernel_size)[i]), (0, padding[i]))
        divisor = None if divisor_override is None else 1
        made = registry["avg_pool"].forward(unit, *given, ceil_mode, count_include_pad, divisor)
        input = along(input, dim, made[0, :, 0])
    return input if divisor_override is None else input / divisor_override


def _windows(n: int, out: int) -> list[tuple[int, int]]:
    """Return begin and end of windows that cover n elements evenly."""
    return [(j * n // out, -(-(j + 1) * n // out)) for j in range(out)]
