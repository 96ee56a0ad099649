"""Every op, by family. Importing the package declares them all and installs Tensor's methods.

Formulas refer to ops as `ops.<name>`, so families need not import each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import (
    activation,
    activation_more,
    activation_slope,
    adaptive,
    arith,
    attention,
    batch_norm,
    bitwise,
    cast,
    columns,
    compare,
    complex_parts,
    conv,
    create,
    ctc,
    difference,
    distance,
    dropout,
    einsum,
    embedding,
    embedding_bag,
    expanding,
    extrema,
    extreme,
    fill,
    index_write,
    indexing,
    join,
    legacy,
    loss,
    loss_margin,
    loss_more,
    mask,
    math,
    matmul,
    matmul_rank,
    matrix_view,
    movement,
    norm,
    number,
    ordering,
    pad,
    place,
    pool,
    power,
    products,
    query,
    ranges,
    rank,
    reduce,
    rounding,
    sample,
    scan,
    scattering,
    search,
    slices,
    slicing,
    softmax,
    special_math,
    splitting,
    statistic,
    strided,
    truth,
    upsample,
    vector_norm,
    view_inplace,
    views,
    vision,
    window,
)
from .declare import public as public
from .declare import registry as registry
from .fill import zeros_of as zeros_of
from .install import install

install()


def __getattr__(name: str) -> Callable[..., Any]:
    if name in public:
        return public[name]
    if name in registry:
        return registry[name].call
    raise AttributeError(f"sapwood.ops has no op {name!r}")


# A family may be called like an op in it (matmul); the name in this package is the op's.
globals().update({n: o.call for n, o in registry.items()})
globals().update(public)
