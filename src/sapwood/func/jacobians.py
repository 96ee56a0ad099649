"""`jacrev`, `jacfwd`, `hessian`: whole matrices of derivatives, all rows or columns at once through `vmap`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import prod
from typing import Any

from .. import ops as _ops
from ..errors import GradError
from ..tensor import Tensor
from . import tree
from .structure import zeros_like
from .transforms import TransformError, _settle_aux, evaluate, jvp, positions
from .vmap import vmap

ops: Any = _ops


def basis(like: list[Tensor]) -> list[Tensor]:
    """Return the unit vectors of several tensors together: per tensor (all elements of all, *its shape)."""
    counts = [prod(x.shape) for x in like]
    total, before, found = sum(counts), 0, []
    for x, n in zip(like, counts):
        a = ops.zeros((total, n), dtype=x.dtype)
        a._array[before : before + n].reshape(-1)[:: n + 1] = 1
        found.append(a.reshape((total, *x.shape)))
        before += n
    return found


def jacrev(
    func: Callable[..., Any],
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` in reverse mode, one pullback per output element.

    Args:
        argnums: the positional arguments to differentiate by.
        has_aux: the function returns (output, aux), and the result is (jacobian, aux).
        chunk_size: how many rows to compute at once; all by default.

    Returns:
        Per output tensor, and per argument in it, a tensor of shape output.shape + argument.shape.

    Example:
        >>> import sapwood
        >>> sapwood.func.jacrev(lambda x: x * x)(sapwood.tensor([1., 2.]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if chunk_size is not None and not chunk_size > 0:
        raise TransformError(f"jacrev: chunk_size must be None or greater than 0, got {chunk_size}")

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        places = positions("jacrev", argnums, len(args))
        run = evaluate("jacrev", func, args, places, kwargs, has_aux)
        for o in run.outs:
            if not isinstance(o, Tensor):
                raise GradError(f"jacrev: the function must return tensors, got {type(o).__name__}")
        units = basis(run.outs)
        rows = vmap(lambda *cots: tuple(run.pull(list(cots))), chunk_size=chunk_size)(*units)
        counts = [prod(o.shape) for o in run.outs]
        blocks = [ops.split(r, counts, 0) if len(counts) > 1 else (r,) for r in rows]
        results = []
        for k, o in enumerate(run.outs):
            per_input = [b[k].reshape((*o.shape, *x.shape)) for b, x in zip(blocks, run.ins)]
            nested = tree.unflatten(per_input, run.in_spec)
            results.append(nested[0] if isinstance(argnums, int) else nested)
        made = tree.unflatten(results, run.spec)
        return (made, _settle_aux("jacrev", run)) if has_aux else made

    return jacobian


def jacfwd(
    func: Callable[..., Any],
    argnums: Any = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` in forward mode, one derivative per input element.

    Args:
        argnums: the positional arguments to differentiate by.
        has_aux: the function returns (output, aux), and the result is (jacobian, aux).
        randomness: as in `vmap`.

    Returns:
        As `jacrev`.
    """

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        places = positions("jacfwd", argnums, len(args))
        points, in_spec = tree.flatten(tuple(args[i] for i in places))
        for x in points:
            if not isinstance(x, Tensor):
                raise TransformError(
                    f"jacfwd: an argument to differentiate by must be a tensor, got {type(x).__name__}"
                )

        def along(*direction: Tensor) -> Any:
            def chosen(*inner: Any) -> Any:
                own = dict(zip(places, tree.unflatten(inner, in_spec)))
                return func(*(own.get(i, a) for i, a in enumerate(args)), **kwargs)

            made = jvp(chosen, tuple(points), direction, has_aux=has_aux)
            return made[1:] if has_aux else (made[1],)

        units = basis(points)
        if not prod(units[0].shape[:1]):
            found: Any = (jvp(lambda *x: func(*x, **kwargs), tuple(points), tuple(map(zeros_like, points)))[1],)
            columns = tree.map_leaves(lambda t: t.expand((0, *t.shape)), found)
        else:
            columns = vmap(along, randomness=randomness)(*units)
        outs, out_spec = tree.flatten(columns[0])
        counts = [prod(x.shape) for x in points]
        results = []
        for column in outs:
            parts = ops.split(column, counts, 0) if len(counts) > 1 else (column,)
            per_input = [ops.movedim(p, 0, -1).reshape((*column.shape[1:], *x.shape)) for p, x in zip(parts, points)]
            nested = tree.unflatten(per_input, in_spec)
            results.append(nested[0] if isinstance(argnums, int) else nested)
        made = tree.unflatten(results, out_spec)
        if not has_aux:
            return made
        return made, tree.map_leaves(lambda x: x[0], columns[1])

    return jacobian


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """Return a function that computes the matrix of second derivatives: forward mode over reverse mode.

    Example:
        >>> import sapwood
        >>> sapwood.func.hessian(lambda x: (x ** 3).sum())(sapwood.tensor([1., 2.]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
