"""Running reductions along a dimension: `cumsum`, `cumprod`, `cummax`, `cummin`, `logcumsumexp`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..dtypes import F32, F64, as_dtype
from ..errors import DtypeError
from ..kernels import scan as kernels
from ..tensor import Tensor
from .declare import Plain, op
from .extreme import check_ordered
from .reduce import I64, has_zero, is_narrow, one_dim
from .warm import serve

NATIVE = ("add", "multiply")


def running(ufunc: Any, a: Any, dim: int, dtype: Any = None, *, reverse: bool = False) -> Any:
    """Accumulate with a ufunc; float32 in double precision, rounded at each step, as PyTorch does.

    Args:
        reverse: begin at the end of `dim`.
    """
    target = a.dtype if dtype is None else dtype.numpy
    if dtype is None and a.dtype.kind in "biu":
        target = I64
    if a.dtype != target:
        a = a.astype(target)
    if not a.ndim:
        return a.copy()
    if ufunc.__name__ in NATIVE and kernels.scans(a.dtype) and a.flags.aligned and serve(a.size):
        return kernels.run(ufunc.__name__, a, dim, reverse=reverse)[0]
    if reverse:
        return np.flip(running(ufunc, np.flip(a, dim), dim), dim)
    if is_narrow(target):
        return ufunc.accumulate(a.astype(F32), dim).astype(target)
    if target is F32 or target == F32:
        return ufunc.accumulate(a.astype(F64), dim).astype(F32)
    return ufunc.accumulate(a, dim, target)


class Scan(Plain):
    """One input, one output of its shape; along `dim` each element takes in all before it."""

    inputs = ("input",)
    kind = "scan"
    half = False
    dtypes = "bifc"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), 1),
        (rng.standard_normal((2, 3)), -2),
        (rng.standard_normal(()), 0),
        (rng.standard_normal((0, 3)), 0),
    ]


def _canon(name: str) -> Any:
    def canon(a: Any, dim: Any, dtype: Any) -> tuple[Any, ...]:
        return one_dim(name, a, dim), dtype if dtype is None else as_dtype(dtype, name)

    return canon


@op
class cumsum(Scan):
    """Return the running sum along `dim`; booleans and integers add up in int64."""

    inplace = True
    linear = True
    canon = _canon("cumsum")
    numpy = (np.cumsum,)
    vjp_input = lambda g, dim: reverse_cumsum(g, dim)
    reference = lambda input, dim: np.cumsum(input, dim) if input.ndim else input
    forward = lambda input, dim, *, dtype=None: running(np.add, input, dim, dtype)


@op
class reverse_cumsum(Scan):
    """Return the running sum along `dim` from the end: the reverse of `cumsum`."""

    function = method = False
    linear = True
    canon = lambda a, dim: (one_dim("reverse_cumsum", a, dim),)
    vjp_input = lambda g, dim: cumsum(g, dim)

    def forward(input, dim):
        if not input.ndim:
            return input.copy()
        return running(np.add, input, dim, reverse=True)


@op
class shifted(Scan):
    """Move the elements by `step` along `dim`; `fill` takes the places that become free."""

    function = method = False
    linear = True
    canon = lambda a, dim, step, fill: (one_dim("shifted", a, dim), step, fill)
    vjp_input = lambda g, dim, step: shifted(g, dim, -step, 0)
    samples = lambda rng: [(rng.standard_normal((2, 3)), 1, 1, 0), (rng.standard_normal((2, 3)), 0, -1, 0)]

    def forward(input, dim, step, fill):
        out = np.full_like(input, fill)
        if input.ndim:
            there, here = np.moveaxis(out, dim, 0), np.moveaxis(input, dim, 0)
            if step > 0:
                there[step:] = here[:-step]
            else:
                there[:step] = here[-step:]
        return out


@op
class recurrence(Plain):
    """Return the solution of out[k] = input[k] + weight[k] · out[k - 1] along `dim`.

    The running product's gradient in a form that needs no division, so that zeros are no exception.
    """

    inputs = ("input", "weight")
    function = method = False
    samples = lambda rng: [(rng.standard_normal((2, 3)), rng.standard_normal((2, 3)), 1)]

    def forward(input, weight, dim):
        out = np.array(input)
        rows, w = np.moveaxis(out, dim, 0), np.moveaxis(weight, dim, 0)
        for k in range(1, len(rows)):
            rows[k] += w[k] * rows[k - 1]
        return out

    def vjp_input(g, weight, dim):
        back = ops.flip(weight, (dim,))
        return ops.flip(recurrence(ops.flip(g, (dim,)), shifted(back, dim, 1, 0), dim), (dim,))

    def vjp_weight(g, weight, out, dim):
        back = ops.flip(weight, (dim,))
        u = ops.flip(recurrence(ops.flip(g, (dim,)), shifted(back, dim, 1, 0), dim), (dim,))
        return u * shifted(out, dim, 1, 0)


@op
class cumprod(Scan):
    """Return the running product along `dim`; booleans and integers multiply in int64."""

    inplace = True
    canon = _canon("cumprod")
    numpy = (np.cumprod,)
    reference = lambda input, dim: np.cumprod(input, dim) if input.ndim else input
    forward = lambda input, dim, *, dtype=None: running(np.multiply, input, dim, dtype)

    def vjp_input(g, input, out, dim):
        if not input.ndim:
            return g
        if not has_zero(input):
            return reverse_cumsum(g * out, dim) / input
        back = ops.flip(input, (dim,))
        behind = ops.flip(recurrence(ops.flip(g, (dim,)), shifted(back, dim, 1, 0), dim), (dim,))
        return behind * cumprod(shifted(input, dim, 1, 1), dim)


@op
class logcumsumexp(Scan):
    """Return log(cumsum(exp(input))) along `dim` without overflow."""

    dtypes = "f"
    canon = lambda a, dim: (one_dim("logcumsumexp", a, dim),)

    def forward(input, dim):
        if input.dtype.kind == "c":
            with np.errstate(all="ignore"):
                return _complex_logcumsumexp(input, dim)
        if input.dtype.kind in "biu":
            raise DtypeError(f"logcumsumexp: input must be floating-point, got {input.dtype.name}; use input.float()")
        with np.errstate(all="ignore"):
            return running(np.logaddexp, input, dim)

    def vjp_input(g, input, out, dim):
        lowest = -1e38

        def back(size: Any) -> Any:
            size = size - out
            return ops.exp((ops.flip(logcumsumexp(ops.flip(size, (dim,)), dim), (dim,)) if size.ndim else size) + input)

        if is_complex(input):
            return back(ops.masked_fill(ops.log(g), g == 0, lowest))
        # Positive and negative gradients travel in logarithms apart, so that nothing overflows.
        size = ops.log(ops.abs(g))
        return back(ops.masked_fill(size, g <= 0, lowest)) - back(ops.masked_fill(size, g >= 0, lowest))


def _complex_logcumsumexp(a: Any, dim: int) -> Any:
    if not a.ndim:
        return a.copy()
    out = np.array(a)
    rows = np.moveaxis(out, dim, 0)
    for k in range(1, len(rows)):
        before, here = rows[k - 1], rows[k]
        # The phase goes on from the larger term, so that it does not jump at the logarithm's branch cut.
        ahead = before.real >= here.real
        high, low = np.where(ahead, before, here), np.where(ahead, here, before)
        rows[k] = high + np.log1p(np.exp(low - high))
    return out


def is_complex(x: Any) -> bool:
    """Return whether an array or Tensor is complex."""
    return (x._array if isinstance(x, Tensor) else x).dtype.kind == "c"


def _running_extreme(name: str, ufunc: Any, a: Any, dim: int) -> tuple[Any, Any]:
    check_ordered(name, a)
    if not a.ndim:
        return a.copy(), np.zeros((), np.int64)
    if kernels.scans(a.dtype) and a.flags.aligned and serve(a.size):
        return kernels.run(ufunc.__name__, a, dim)
    values = ufunc.accumulate(a, dim)
    position = np.arange(a.shape[dim]).reshape((-1,) + (1,) * (a.ndim - dim - 1))
    new = (a == values) | (a != a)
    return values, np.maximum.accumulate(np.where(new, position, 0), dim)


class RunningExtreme(Plain):
    """(values, indices) of the running extreme; the last of equals."""

    inputs = ("input",)
    outs = ("values", "indices")
    kind = "scan"
    dtypes = "bif"
    samples = lambda rng: [
        (rng.standard_normal((2, 4)), 1),
        (rng.standard_normal(()), 0),
    ]
    vjp_input = lambda g, indices, dim: ops.scatter_add(ops.zeros_of(g, g.shape), dim, indices, g)


@op
class cummax(RunningExtreme):
    """Return the running maximum along `dim` and its indices, the last of equals."""

    canon = lambda a, dim: (one_dim("cummax", a, dim),)
    forward = lambda input, dim: _running_extreme("cummax", np.maximum, input, dim)


@op
class cummin(RunningExtreme):
    """Return the running minimum along `dim` and its indices, the last of equals."""

    canon = lambda a, dim: (one_dim("cummin", a, dim),)
    forward = lambda input, dim: _running_extreme("cummin", np.minimum, input, dim)
