"""`as_strided`: any look at the memory under a tensor, with gradients that are right for overlapping elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from .. import alias, ops
from ..errors import ShapeError
from .declare import Movement, View, composite, op
from .sizes import ints, one_int


def _geometry(a: ndarray) -> tuple[Any, ...]:
    """Return sizes, strides and offset of an array in its storage, in elements."""
    return a.shape, alias.element_strides(a), alias.offset_in_storage(a)


def _places(size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> ndarray:
    """Return where in the storage each element of a geometry lies."""
    at = np.full(size, offset, np.int64)
    for d, (n, s) in enumerate(zip(size, stride)):
        at += (np.arange(n) * s).reshape((n,) + (1,) * (len(size) - d - 1))
    return at


def _span(*geometries: tuple[Any, ...]) -> tuple[int, int]:
    """Return the first place that any of the geometries reaches, and the one after the last."""
    first, last = [], []
    for size, stride, offset in geometries:
        if 0 not in size:
            first.append(offset)
            last.append(offset + sum((n - 1) * s for n, s in zip(size, stride)) + 1)
    return (min(first), max(last)) if first else (0, 0)


def move(a: ndarray, source: tuple[Any, ...], target: tuple[Any, ...], mean: str) -> ndarray:
    """Lay `a` out in memory as `source` says, adding up where elements meet, and read it as `target` says.

    Args:
        mean: "source" or "target": divide by the number of elements of that geometry that meet in one place, so that
            each place of an overlapping input receives its gradient once.
    """
    start, end = _span(source, target)
    memory = np.zeros(end - start, a.dtype)
    if not _overlaps(source):
        _window(memory, source, start)[...] = a
    else:
        put = _places(source[0], source[1], source[2] - start)
        if mean == "source":
            a = a / np.bincount(put.ravel(), minlength=len(memory))[put].astype(a.real.dtype)
        np.add.at(memory, put, a)
    if mean == "target" and _overlaps(target):
        take = _places(target[0], target[1], target[2] - start)
        memory /= np.maximum(np.bincount(take.ravel(), minlength=len(memory)), 1).astype(memory.real.dtype)
    return _window(memory, target, start).copy()


def _overlaps(geometry: tuple[Any, ...]) -> bool:
    """Return whether several elements of a geometry may lie in one place."""
    reach = 0
    for s, n in sorted((s, n) for n, s in zip(*geometry[:2]) if n > 1):
        if s <= reach:
            return True
        reach += s * (n - 1)
    return False


def _window(memory: ndarray, geometry: tuple[Any, ...], start: int) -> ndarray:
    """Look at one-dimensional memory, which begins at place `start`, as a geometry says."""
    size, stride, offset = geometry
    if 0 in size:
        return np.empty(size, memory.dtype)
    item = memory.itemsize
    return ndarray(size, memory.dtype, memory, (offset - start) * item, tuple(s * item for s in stride))


@op
class as_strided(View):
    """Look at the storage under a tensor with given sizes, strides and offset, in elements."""

    function = method = False
    exempt = {"layout": "sizes and strides speak of the storage, not of the elements in order"}
    grad_fn = "AsStridedBackward0"
    vjp_input = lambda g, size, stride, storage_offset, layout: ops.restrided(
        g, (size, stride, storage_offset), layout, "target"
    )
    samples = lambda rng: [
        (rng.standard_normal((3, 4)), (2, 2), (1, 2), 1, None),
        (rng.standard_normal(6), (3, 3), (1, 1), None, None),
    ]

    def canon(a, size, stride, storage_offset, layout):
        size, stride = ints("as_strided", "size", size), ints("as_strided", "stride", stride)
        layout = layout or _geometry(a)
        offset = layout[2] if storage_offset is None else one_int("as_strided", "storage_offset", storage_offset)
        if len(size) != len(stride):
            raise ShapeError(f"as_strided: size and stride must have the same length, got {size} and {stride}")
        if any(n < 0 for n in (*size, *stride, offset)):
            raise ShapeError(
                f"as_strided: sizes, strides and offset must not be negative, got {size}, {stride} and {offset}"
            )
        end, held = _span((size, stride, offset))[1], alias.owner(a).size
        if end > held:
            raise ShapeError(
                f"as_strided: size {size}, stride {stride} and offset {offset} reach {end} elements into the storage, "
                f"which holds {held}"
            )
        return size, stride, offset, layout

    def forward(input, size, stride, storage_offset, layout):
        memory = alias.flat_storage(input)
        item = input.itemsize
        return ndarray(size, input.dtype, memory, storage_offset * item, tuple(s * item for s in stride))


@composite(name="as_strided", method=True)
def strided(input: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """Look at the storage under `input` with any sizes, strides and offset, in elements.

    Args:
        storage_offset: counted from the start of the storage; without it, the tensor's own.

    Raises:
        ShapeError: a negative number, or a place outside the storage.
    """
    if isinstance(input, ndarray):
        return move(input, _plain(input.shape), (size, stride, storage_offset or 0), "source")
    return as_strided(input, size, stride, storage_offset, None)


def _plain(shape: tuple[int, ...]) -> tuple[Any, ...]:
    stride, step = [], 1
    for n in reversed(shape):
        stride.append(step)
        step *= max(n, 1)
    return tuple(shape), tuple(reversed(stride)), 0


@op
class restrided(Movement):
    """Lay elements out in memory as `source` says and read them as `target` says: the gradient of `as_strided`."""

    function = method = False
    takes_out = False
    vjp_input = lambda g, source, target, mean: ops.restrided(
        g, target, source, "source" if mean == "target" else "target"
    )
    forward = lambda input, source, target, mean: move(input, source, target, mean)
    samples = lambda rng: [
        (rng.standard_normal((3, 3)), ((3, 3), (1, 1), 0), ((6,), (1,), 0), "target"),
        (rng.standard_normal((2, 3)), ((2, 3), (0, 1), 0), ((4,), (1,), 0), "source"),
    ]


@op
class as_strided_scatter(Movement):
    """Return a copy of `input` in which the elements that `as_strided` would show are `src`."""

    inputs = ("input", "src")
    takes_out = False
    exempt = {"layout": "sizes and strides speak of the storage, not of the elements in order"}
    samples = lambda rng: [(rng.standard_normal((3, 4)), rng.standard_normal((2, 2)), (2, 2), (1, 2), 1)]

    def canon(a, size, stride, storage_offset):
        return as_strided.op.canon(a, size, stride, storage_offset, None)[:3]

    def forward(input, src, size, stride, storage_offset=None):
        if src.shape != size:
            raise ShapeError(f"as_strided_scatter: src must have the shape {size}, got {src.shape}")
        # The offset counts from the start of the storage, so the copy keeps what lies before the tensor.
        held = alias.owner(input).size
        memory = np.zeros(held, input.dtype)
        memory[...] = alias.flat_storage(input)
        memory[_places(size, stride, storage_offset)] = src
        return memory[_places(*_geometry(input))]

    def vjp_input(g, size, stride, storage_offset):
        return ops.as_strided_scatter(g, ops.zeros_of(g, size), size, stride, storage_offset)

    def vjp_src(g, size, stride, storage_offset):
        return ops.as_strided(ops.clone(g), size, stride, storage_offset)


__all__ = ["move", "strided"]
