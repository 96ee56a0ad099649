"""`vmap`: a function of one example becomes a function of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import ops as _ops
from ..errors import GradError, SapwoodError
from ..tensor import Tensor
from . import tree
from .level import level
from .structure import batch, has, unbatch

ops: Any = _ops


class BatchError(SapwoodError, ValueError):
    """What `vmap` was told does not fit what it was given."""


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies `func` to every example of a batch, computing all of them at once.

    Args:
        func: takes and returns tensors, or nests of them.
        in_dims: which dimension of each argument counts the examples; None for an argument that all share. One value
            for all arguments, or a nest that mirrors them.
        out_dims: where the batch goes in each result; None for a result that is the same for all examples.
        randomness: what random functions inside do: "error", "same" numbers for all examples, or "different" ones.
        chunk_size: compute at most this many examples at once.

    Returns:
        The vectorised function; all examples share its keyword arguments.

    Raises:
        BatchError: the dimensions do not fit the arguments, or their sizes differ.
        GradError: `func` asks for the value of a tensor, or draws random numbers under randomness="error".

    Example:
        >>> import sapwood
        >>> sapwood.vmap(sapwood.dot)(sapwood.ones(2, 3), sapwood.ones(2, 3))
        tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise GradError(f"vmap: randomness must be 'error', 'different' or 'same', got {randomness!r}")
    if chunk_size is not None and not chunk_size > 0:
        raise BatchError(f"vmap: chunk_size must be None or greater than 0, got {chunk_size}")
    from .randomness import watch

    watch()

    @functools.wraps(func)
    def vectorised(*args: Any, **kwargs: Any) -> Any:
        leaves, dims, spec, size = _inputs(func, in_dims, args)
        if chunk_size is None or chunk_size >= size:
            return _run(func, leaves, dims, spec, kwargs, size, out_dims, randomness, 0, size)
        parts = [
            _run(func, leaves, dims, spec, kwargs, size, out_dims, randomness, i, min(i + chunk_size, size))
            for i in range(0, size, chunk_size)
        ]
        return _joined(parts, out_dims)

    return vectorised


def _inputs(func: Any, in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], list[Any], tree.Spec, int]:
    """Return the leaves of the arguments, the batch dimension of each, and the batch size."""
    if not isinstance(in_dims, int | tuple):
        raise BatchError(f"vmap: in_dims must be an int or a tuple that mirrors the arguments, got {in_dims!r}")
    leaves, spec = tree.flatten(args)
    if not leaves:
        raise BatchError(f"vmap: {_name(func)} was given no arguments, so there is no batch; pass at least one tensor")
    given = tree.spread(in_dims, spec)
    if given is None:
        raise BatchError(f"vmap: in_dims={in_dims!r} does not mirror the arguments, which are {spec}")
    dims: list[int | None] = []
    for x, dim in zip(leaves, given):
        if dim is None:
            dims.append(None)
            continue
        if not isinstance(dim, int):
            raise BatchError(f"vmap: an in_dim must be an int or None, got {dim!r}")
        if not isinstance(x, Tensor):
            raise BatchError(
                f"vmap: in_dim={dim} was given for an argument of type {type(x).__name__}; only tensors have a batch "
                "dimension, use None for it in in_dims"
            )
        if not -x.ndim <= dim < x.ndim:
            raise BatchError(f"vmap: in_dim={dim} is out of range for a tensor of {x.ndim} dimensions")
        dims.append(dim % x.ndim)
    sizes = [x.shape[d] for x, d in zip(leaves, dims) if d is not None]
    if not sizes:
        raise BatchError("vmap: no argument is batched, every in_dim is None; give at least one a dimension")
    if len(set(sizes)) > 1:
        raise BatchError(f"vmap: batch dimensions must have one size, got {sizes} (in_dims={in_dims!r})")
    return leaves, dims, spec, sizes[0]


def _name(func: Any) -> str:
    return getattr(func, "__name__", type(func).__name__)


def _run(
    func: Any, leaves: Any, dims: Any, spec: Any, kwargs: dict[str, Any], whole: int, out_dims: Any,
    randomness: str, first: int, last: int,
) -> Any:  # fmt: skip
    """Run examples `first` to `last` of the batch."""

    def part(x: Any, dim: int) -> Any:
        x = ops.movedim(x, dim, 0) if dim else x
        return x if last - first == whole else x[first:last]

    with level(last - first, randomness) as own:
        args = [x if d is None else batch(part(x, d), own) for x, d in zip(leaves, dims)]
        made = func(*tree.unflatten(args, spec), **kwargs)
        outs, out_spec = tree.flatten(made)
        places = _places(func, out_dims, out_spec, made)
        return tree.unflatten([_result(func, o, d, own) for o, d in zip(outs, places)], out_spec)


def _places(func: Any, out_dims: Any, spec: tree.Spec, made: Any) -> list[Any]:
    places = (
        tree.spread(out_dims, spec) if isinstance(out_dims, int | tuple | list | dict) or out_dims is None else None
    )
    if places is None and isinstance(out_dims, tuple) and len(out_dims) == 1 and spec.kind is None:
        places = list(out_dims)
    if places is None or any(p is not None and not isinstance(p, int) for p in places):
        raise BatchError(f"vmap: out_dims={out_dims!r} does not mirror what {_name(func)} returned, which is {spec}")
    return places


def _result(func: Any, out: Any, place: int | None, own: Any) -> Any:
    if not isinstance(out, Tensor):
        if place is None:
            return out
        raise BatchError(
            f"vmap: {_name(func)} must return tensors, got {type(out).__name__}; use None for it in out_dims"
        )
    if place is None:
        if has(out, own):
            raise BatchError(f"vmap: {_name(func)} returned a batched tensor where out_dims is None")
        return out
    value = unbatch(out, own)
    return ops.movedim(value, 0, place) if place else value


def _joined(parts: list[Any], out_dims: Any) -> Any:
    columns = [tree.flatten(p)[0] for p in parts]
    spec = tree.flatten(parts[0])[1]
    places = tree.spread(out_dims, spec)
    if places is None:
        places = list(out_dims)
    return tree.unflatten(
        [column[0] if d is None else ops.cat(list(column), d) for column, d in zip(zip(*columns), places)], spec
    )
