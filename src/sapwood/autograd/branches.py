"""`safe_where`: a choice between two computations that each see only the elements they are chosen for.

`where(x > 0, x.log(), 0)` computes the logarithm of every element; backward then multiplies the zero gradient of the
elements that were not chosen with an infinite slope, which is NaN. Here a branch is computed on its own elements, so
that the others have no gradient at all instead of a zero one.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ..errors import ArgumentError, DtypeError, ShapeError
from ..ops.declare import public
from ..tensor import Tensor, wrap


def safe_where(condition: Tensor, f: Any, g: Any, *tensors: Tensor) -> Tensor:
    """Compute `f(*tensors)` where `condition` holds and `g(*tensors)` elsewhere, each on its own elements only.

    Args:
        condition: bool; it and the tensors broadcast to the result's shape.
        f, g: a function of the tensors' chosen elements (vectors of one length), which works element by element; or a
            tensor or a number to take the elements from.
        tensors: what the functions are given.

    Returns:
        A tensor of the common shape. An element that a branch was not chosen for takes no part in it, neither in its
        value nor in its gradient, whatever the branch would have given there.

    Raises:
        ArgumentError: a function without parameters, or no bool condition.
        ShapeError: a branch does not return one value per element it was given.

    Example:
        >>> import sapwood
        >>> x = sapwood.tensor([0.0, 4.0], requires_grad=True)
        >>> y = sapwood.autograd.safe_where(x > 0, sapwood.sqrt, 0.0, x)
        >>> y.sum().backward()
        >>> x.grad
        tensor([0.0000, 0.2500])
    """
    if not isinstance(condition, Tensor) or condition._array.dtype.kind != "b":
        came = condition.dtype.name if isinstance(condition, Tensor) else type(condition).__name__
        raise ArgumentError(f"safe_where: condition must be a bool tensor, got {came}; write it as a comparison")
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise ArgumentError(f"safe_where: argument {i} of the branches must be a tensor, got {type(t).__name__}")
    given = [condition, *tensors, *(b for b in (f, g) if isinstance(b, Tensor))]
    shape = np.broadcast_shapes(*(t._array.shape for t in given))
    chosen = np.broadcast_to(condition._array, shape)
    one, other = (_branch(n, b, c, tensors, shape) for n, b, c in (("f", f, chosen), ("g", g, ~chosen)))
    return _joined(chosen, one, other)


def _branch(name: str, branch: Any, chosen: Any, tensors: tuple[Tensor, ...], shape: tuple[int, ...]) -> Any:
    """Return a branch's values on its elements: a vector, or a number."""
    mask = wrap(chosen.copy())
    if isinstance(branch, Tensor):
        return branch.expand(shape)[mask]
    if not callable(branch):
        return branch
    if not tensors or not _takes_arguments(branch):
        raise ArgumentError(
            f"safe_where: {name} must be a function of the chosen elements, e.g. safe_where(x > 0, lambda x: x.log(), "
            "0.0, x); one without parameters would compute every element"
        )
    part = [t.expand(shape)[mask] for t in tensors]
    result = branch(*part)
    number = int(chosen.sum())
    if isinstance(result, Tensor) and result._array.shape not in ((number,), ()):
        raise ShapeError(
            f"safe_where: {name} was given vectors of {number} elements and must return one value for each, it "
            f"returned shape {result._array.shape}; it has to work element by element"
        )
    if isinstance(result, Tensor) and not result._array.ndim:
        return result.expand((number,))
    return result


def _takes_arguments(branch: Any) -> bool:
    try:
        parameters = inspect.signature(branch).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.kind is not p.KEYWORD_ONLY for p in parameters)


def _joined(chosen: Any, one: Any, other: Any) -> Tensor:
    """Return the vectors `one` and `other` in their places."""
    tensors = [b for b in (one, other) if isinstance(b, Tensor)]
    if not tensors:
        raise ArgumentError("safe_where: one of the branches must give a tensor, got numbers alone; use where()")
    like = tensors[0]
    if len(tensors) == 2 and one.dtype is not other.dtype:
        raise DtypeError(f"safe_where: the branches give {one.dtype.name} and {other.dtype.name}; convert one of them")
    out: Any = wrap(np.zeros(chosen.shape, like._array.dtype))
    for values, mask in ((one, chosen), (other, ~chosen)):
        places = wrap(mask.copy())
        if isinstance(values, Tensor):
            out = public["masked_scatter"](out, places, values)
        else:
            out = public["masked_fill"](out, places, values)
    result: Tensor = out
    return result
