"""Regions of a tensor by geometry: the history of a base that was written to through a view."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from .. import alias, ops
from .declare import Op, op


def _laid_out(a: ndarray[Any, Any], layout: Any) -> ndarray[Any, Any]:
    """Return a writable copy of `a` with the strides of `layout`."""
    shape, strides = layout
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides)) if a.size else 0
    buffer = np.zeros(span, a.dtype)
    out = np.ndarray(shape, a.dtype, buffer, 0, tuple(s * a.itemsize for s in strides))
    out[...] = a
    return out


def _region(a: ndarray[Any, Any], size: Any, stride: Any, offset: int) -> ndarray[Any, Any]:
    flat = alias.flat_storage(a)
    return np.ndarray(size, a.dtype, flat, offset * a.itemsize, tuple(s * a.itemsize for s in stride))


@op
class copy_slices(Op):
    """Return `input` with the region that a view covered replaced by `src`: the history of a base after the write."""

    inputs = ("input", "src")
    function = method = False
    grad_fn = "CopySlices"
    half = False
    samples = lambda rng: [
        (rng.standard_normal((3, 4)), rng.standard_normal((2,)), ((3, 4), (4, 1)), (2,), (4, ), 1),
    ]  # fmt: skip

    def forward(input, src, layout, size, stride, offset):
        out = _laid_out(input, layout)
        _region(out, size, stride, offset)[...] = src
        return out

    def vjp_input(g, layout, size, stride, offset):
        return copy_slices(g, slice_of(g, layout, size, stride, offset) * 0, layout, size, stride, offset)

    def vjp_src(g, layout, size, stride, offset):
        return slice_of(g, layout, size, stride, offset)


@op
class slice_of(Op):
    """Return a copy of the region of `input` that a view covers."""

    inputs = ("input",)
    function = method = False
    grad_fn = "AsStridedBackward0"
    half = False
    samples = lambda rng: [(rng.standard_normal((3, 4)), ((3, 4), (4, 1)), (2,), (4,), 1)]

    def forward(input, layout, size, stride, offset):
        return _region(_laid_out(input, layout), size, stride, offset).copy()

    # Elements of an expanded view share a place, where their gradients add up.
    vjp_input = lambda g, layout, size, stride, offset: ops.restrided(g, (size, stride, offset), (*layout, 0), "target")


@op
class invalid_view(Op):
    """Stand for a view whose base was changed in place although the view cannot follow."""

    inputs = ("input",)
    function = method = False
    grad_fn = "Invalid"
    samples = lambda rng: [(rng.standard_normal(3),)]

    def forward(input):
        return input.copy()

    def vjp_input(g, out):
        return g
