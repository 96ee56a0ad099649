"""Reductions to truth and counts of it: `all`, `any`, `count_nonzero`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .declare import Reduction, op
from .reduce import I64, add_reduce, dims_of


def _truth(ufunc: Any, a: Any, dim: Any, keepdim: bool) -> Any:
    out = ufunc.reduce(a if a.dtype.kind == "b" else a != 0, dim, None, None, keepdim)
    return np.asarray(out).astype(a.dtype) if a.dtype == np.uint8 else out


@op
class all_(Reduction):
    """Return whether every element is nonzero, of the whole tensor or along `dim`; uint8 in, uint8 out, else bool."""

    kind = "logical"
    dtypes = "bifc"
    numpy = (np.all,)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)) > 0, 1),
        (np.ones((0,)),),
        (rng.integers(0, 2, (2, 3)), (0, 1), True),
    ]
    reference = lambda input, dim=None, keepdim=False: np.all(input, axis=dim, keepdims=keepdim)
    forward = lambda input, dim=None, keepdim=False: _truth(np.logical_and, input, dim, keepdim)
    canon = lambda a, dim, keepdim: (dims_of("all", a, dim), keepdim)


@op
class any_(Reduction):
    """Return whether some element is nonzero, of the whole tensor or along `dim`; uint8 in, uint8 out, else bool."""

    kind = "logical"
    dtypes = "bifc"
    numpy = (np.any,)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)) > 0, 1),
        (np.ones((0,)),),
        (rng.integers(0, 2, (2, 3)), (0, 1), True),
    ]
    reference = lambda input, dim=None, keepdim=False: np.any(input, axis=dim, keepdims=keepdim)
    forward = lambda input, dim=None, keepdim=False: _truth(np.logical_or, input, dim, keepdim)
    canon = lambda a, dim, keepdim: (dims_of("any", a, dim), keepdim)


@op
class count_nonzero(Reduction):
    """Count the elements that are not zero."""

    kind = "logical"
    dtypes = "bifc"
    takes_out = False
    numpy = (np.count_nonzero,)
    samples = lambda rng: [(rng.integers(0, 2, (2, 3)), 1), (rng.standard_normal((2, 3)), (0, 1)), (np.zeros(0),)]
    reference = lambda input, dim=None: np.count_nonzero(input, axis=dim)
    forward = lambda input, dim=None: add_reduce(input != 0, dim, I64, None, False)
    canon = lambda a, dim: (dims_of("count_nonzero", a, dim),)
