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


def _region(a: ndarray[Any, Any], size: Any, stride: Any, offset: int, part: str) -> ndarray[Any, Any]:
    """Return the region as a view: of the elements, of the real halves of complex ones, or of pairs as complex."""
    flat = alias.flat_storage(a)
    dtype = a.dtype if not part else flat.real.dtype if part == "real" else np.result_type(a.dtype, np.complex64)
    n = dtype.itemsize
    return np.ndarray(size, dtype, flat, offset * n, tuple(s * n for s in stride))


@op
class copy_slices(Op):
    """Return `input` with the region that a view covered replaced by `src`: the history of a base after the write."""

    inputs = ("input", "src")
    function = method = False
    grad_fn = "CopySlices"
    half = False
    holomorphic = False
    samples = lambda rng: [
        (rng.standard_normal((3, 4)), rng.standard_normal((2,)), ((3, 4), (4, 1)), (2,), (4, ), 1, ""),
    ]  # fmt: skip

    def forward(input, src, layout, size, stride, offset, part):
        out = _laid_out(input, layout)
        _region(out, size, stride, offset, part)[...] = src
        return out

    def vjp_input(g, layout, size, stride, offset, part):
        region = slice_of(g, layout, size, stride, offset, part)
        return copy_slices(g, region * 0, layout, size, stride, offset, part)

    def vjp_src(g, layout, size, stride, offset, part):
        return slice_of(g, layout, size, stride, offset, part)


@op
class slice_of(Op):
    """Return a copy of the region of `input` that a view covers."""

    inputs = ("input",)
    function = method = False
    grad_fn = "AsStridedBackward0"
    half = False
    holomorphic = False
    samples = lambda rng: [(rng.standard_normal((3, 4)), ((3, 4), (4, 1)), (2,), (4,), 1, "")]

    def forward(input, layout, size, stride, offset, part):
        return _region(_laid_out(input, layout), size, stride, offset, part).copy(order="K")

    # Elements of an expanded view share a place, where their gradients add up.
    def vjp_input(g, layout, size, stride, offset, part):
        if part == "complex":
            place = (*size, 2), (*(2 * s for s in stride), 1), 2 * offset
            return ops.restrided(ops.view_as_real(g), place, (*layout, 0), "target")
        if part == "real":
            halves = (*layout[0], 2), (*(2 * s for s in layout[1]), 1), 0
            return ops.view_as_complex(ops.restrided(g, (size, stride, offset), halves, "target"))
        return ops.restrided(g, (size, stride, offset), (*layout, 0), "target")


@op
class detach(Op):
    """Return the input outside the graph, on the same memory: the declared form of `detach` and `.data`, for graphs."""

    inputs = ("input",)
    function = method = False
    takes_out = False
    half = False
    dtypes = "bifc"
    exempt = {"sharing": "it lies on the memory of its input without being a view, whose history would go on"}
    samples = lambda rng: [(rng.standard_normal((2, 3)),)]
    forward = lambda input: input.view()


@op
class in_place_of(Op):
    """Stand for a leaf, `input`, that was written over with `src` outside the graph: its gradient is that by `src`."""

    inputs = ("input", "src")
    function = method = False
    half = False
    exempt = {"pullback": "its gradient belongs to the value that the input was replaced by"}
    samples = lambda rng: [(rng.standard_normal((2, 3)), rng.standard_normal((2, 3)))]
    forward = lambda input, src: src.copy()
    vjp_input = lambda g: g


@op
class invalid_view(Op):
    """Stand for a view whose base was changed in place although the view cannot follow."""

    inputs = ("input",)
    function = method = False
    grad_fn = "Invalid"
    exempt = {
        "captured": "its formula raises: a view that cannot follow its base has no gradient",
        "thrift": "its formula raises: a view that cannot follow its base has no gradient",
    }
    samples = lambda rng: [(rng.standard_normal(3),)]

    def forward(input):
        return input.copy()

    def vjp_input(g, out):
        return g
