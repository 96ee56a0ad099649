"""Differences and integrals of sampled functions: `diff`, `gradient`, `trapezoid`, `cumulative_trapezoid`."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import ArgumentError, ShapeError, ValueRangeError
from ..tensor import Tensor
from .declare import composite
from .reduce import dims_of, into, one_dim


def _part(x: Any, dim: int, start: int, stop: int) -> Any:
    """Return x[start:stop] along `dim`; `stop` counts from the end when it is not positive."""
    n = x.shape[dim]
    return ops.narrow(x, dim, start, max((stop if stop > 0 else n + stop) - start, 0))


@composite(method=True)
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None, *, out: Any = None) -> Any:
    """Return the n-th differences of neighbours along `dim`; of booleans, whether neighbours differ.

    Args:
        input: at least one dimension.
        prepend, append: values to join on before differences are taken.

    Raises:
        ShapeError: a 0-dim input.
        ValueRangeError: `n` is negative.
    """
    if not input.ndim:
        raise ShapeError("diff: input must have at least one dimension, got none")
    if n < 0:
        raise ValueRangeError(f"diff: n must not be negative, got {n}")
    dim = one_dim("diff", input._array, dim)
    if n == 0:
        return into(ops.clone(input), out)
    if prepend is not None or append is not None:
        input = ops.cat([p for p in (prepend, input, append) if p is not None], dim)
    for _ in range(n):
        if not input.shape[dim]:
            break
        later, earlier = _part(input, dim, 1, 0), _part(input, dim, 0, -1)
        input = ops.logical_xor(later, earlier) if input._array.dtype.kind == "b" else later - earlier
    return into(input, out)


def _widths(name: str, y: Any, x: Any, dim: int) -> Any:
    """Return the widths of the intervals between sample points, shaped to multiply with neighbours of y."""
    if x.ndim == 0:
        raise ValueRangeError(f"{name}: x must have at least one dimension; pass a constant width as dx")
    if x.shape[dim if x.ndim == y.ndim else -1] != y.shape[dim] and x.ndim != y.ndim:
        raise ShapeError(f"{name}: x has {x.shape[-1]} points and y {y.shape[dim]} samples along dim {dim}")
    if x.ndim == 1 and y.ndim > 1:
        return ops.reshape(diff(x), (-1,) + (1,) * (y.ndim - dim - 1))
    return diff(x, dim=dim - y.ndim)


@composite(aliases=("trapz",))
def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """Integrate samples `y` along `dim` by the trapezoidal rule.

    Args:
        y: the samples.
        x: where they were taken, a vector or of the shape of y; without it the points lie `dx` apart (1 if not given).

    Raises:
        ArgumentError: both `x` and `dx`.
        ShapeError: `x` does not fit `y`.
    """
    if x is not None and dx is not None:
        raise ArgumentError("trapezoid: pass x or dx, not both")
    d = one_dim("trapezoid", y._array, dim)
    if not y.shape[d]:
        return ops.sum(y, d) * 0.0
    if x is not None:
        widths = _widths("trapezoid", y, x, d)
        return ops.sum(widths * (_part(y, d, 0, -1) + _part(y, d, 1, 0)), d) / 2.0
    ends = ops.select(y, d, 0) + ops.select(y, d, -1)
    return (ops.sum(y, d) - ends * 0.5) * (1 if dx is None else dx)


@composite
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """Integrate samples `y` along `dim` by the trapezoidal rule up to every point but the first.

    Args:
        y, x, dx, dim: as of `trapezoid`.
    """
    if x is not None and dx is not None:
        raise ArgumentError("cumulative_trapezoid: pass x or dx, not both")
    d = one_dim("cumulative_trapezoid", y._array, dim)
    pairs = _part(y, d, 1, 0) + _part(y, d, 0, -1)
    if x is not None:
        return ops.cumsum(_widths("cumulative_trapezoid", y, x, d) * pairs, d) / 2.0
    return ops.cumsum((1 if dx is None else dx) / 2.0 * pairs, d)


@composite
def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Any, ...]:
    """Estimate derivatives of a sampled function by central differences, one tensor per dimension.

    Args:
        input: the samples on a grid.
        spacing: the distance of grid points, one number for all dimensions or one for each; or one tensor of
            coordinates per dimension.
        dim: an int or several; None means all.
        edge_order: 1 or 2, the order of the one-sided differences at the ends.

    Raises:
        ValueRangeError: another edge order.
        ShapeError: fewer than edge_order + 1 samples, or as many spacings as there are dimensions are not given.
    """
    if edge_order not in (1, 2):
        raise ValueRangeError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    dims = dims_of("gradient", input._array, dim)
    dims = tuple(range(input.ndim)) if dims is None else dims
    if isinstance(spacing, Tensor) and spacing.ndim == 0:
        spacing = spacing.item()
    if spacing is None:
        spacing = 1
    if isinstance(spacing, int | float | complex):
        spacing = [spacing] * len(dims)
    elif isinstance(spacing, Tensor):
        spacing = [spacing]
    if len(spacing) != len(dims):
        raise ShapeError(f"gradient: {len(dims)} dimensions need as many spacings, got {len(spacing)}")
    for d in dims:
        if input.shape[d] <= edge_order:
            raise ShapeError(
                f"gradient: edge_order {edge_order} needs at least {edge_order + 1} samples, dimension {d} has "
                f"{input.shape[d]}"
            )
    return tuple(_derivative(input, d, s, edge_order) for d, s in zip(dims, spacing))


def _derivative(f: Any, d: int, spacing: Any, edge_order: int) -> Any:
    n = f.shape[d]
    if not isinstance(spacing, Tensor):
        h = float(spacing) if not isinstance(spacing, complex) else spacing
        at = [_part(f, d, k, k + 1) for k in (0, 1, 2, n - 3, n - 2, n - 1) if 0 <= k < n]
        inner = (_part(f, d, 2, 0) - _part(f, d, 0, -2)) / (2 * h)
        if edge_order == 1:
            first, last = (at[1] - at[0]) / h, (at[-1] - at[-2]) / h
        else:
            first = (-1.5 * at[0] + 2 * at[1] - 0.5 * at[2]) / h
            last = (0.5 * at[-3] - 2 * at[-2] + 1.5 * at[-1]) / h
        return ops.cat([first, inner, last], d)
    if spacing.ndim != 1 or spacing.shape[0] != n:
        raise ShapeError(
            f"gradient: the coordinates of dimension {d} must be a vector of {n}, got {tuple(spacing.shape)}"
        )
    shape = (-1,) + (1,) * (f.ndim - d - 1)
    h = ops.reshape(diff(spacing), shape)
    a, b = (_part(h, 0, 0, -1), _part(h, 0, 1, 0)) if n > 2 else (h, h)
    df = _part(f, d, 1, 0) - _part(f, d, 0, -1)
    slope = df / h
    left, right = _part(slope, d, 0, -1), _part(slope, d, 1, 0)
    inner = (b * left + a * right) / (a + b) if n > 2 else left
    first, last = _part(slope, d, 0, 1), _part(slope, d, n - 2, n - 1)
    if edge_order == 2:
        a0, b0 = _part(h, 0, 0, 1), _part(h, 0, 1, 2)
        first = first - (_part(slope, d, 1, 2) - first) * a0 / (a0 + b0)
        a1, b1 = _part(h, 0, n - 2, n - 1), _part(h, 0, n - 3, n - 2)
        last = last + (last - _part(slope, d, n - 3, n - 2)) * a1 / (a1 + b1)
    return ops.cat([first, inner, last], d)
