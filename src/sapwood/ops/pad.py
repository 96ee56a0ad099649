"""Padding: more elements at the borders of the last dimensions; negative amounts cut elements off."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..errors import MissingError, ShapeError, ValueRangeError
from .declare import Movement, op


def _pairs(name: str, pad: Any, ndim: int) -> tuple[int, ...]:
    pad = tuple(int(p) for p in pad)
    if len(pad) % 2 or len(pad) > 2 * ndim:
        raise ShapeError(
            f"{name}: pad must hold two numbers for each of at most {ndim} dimensions, last dimension first, got {pad}"
        )
    return pad


def _sides(pad: tuple[int, ...], ndim: int) -> list[tuple[int, int, int]]:
    """Return (dimension, before, after) for each padded dimension."""
    return [(ndim - 1 - i, pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)]


def _source(mode: str, n: int, before: int, after: int) -> Any:
    """Return, for each position of the padded dimension, the index it is copied from."""
    i = np.arange(-before, n + after)
    if mode == "replicate":
        return i.clip(0, n - 1)
    if mode == "circular":
        # What negative amounts cut off does not come round again.
        kept = np.arange(max(-before, 0), n - max(-after, 0))
        return kept[np.arange(-max(before, 0), len(kept) + max(after, 0)) % max(len(kept), 1)]
    return (n - 1) - np.abs((n - 1) - np.abs(i))


class IndexPad(Movement):
    """Padding with copies of the input's own elements."""

    function = method = False
    dtypes = "fc"
    vjp_input = lambda g, input, pad, mode: ops.index_unpad(g, input, pad, mode)

    def forward(input, pad, mode):
        out = input
        for dim, before, after in _sides(pad, input.ndim):
            out = out.take(_source(mode, input.shape[dim], before, after), axis=dim)
        return out


@op
class index_pad(IndexPad):
    """Pad with the elements mirrored at the border ("reflect") or with the border element ("replicate")."""

    grad_fn = (
        "{2: ReflectionPad1DBackward0, 4: ReflectionPad2DBackward0, 6: ReflectionPad3DBackward0}[len(pad)] "
        "if mode == 'reflect' else "
        "{2: ReplicationPad1DBackward0, 4: ReplicationPad2DBackward0, 6: ReplicationPad3DBackward0}[len(pad)]"
    )
    samples = lambda rng: [
        (rng.standard_normal((2, 3, 4)), (1, 2), "reflect"),
        (rng.standard_normal((2, 3, 4)), (1, -1, 0, 2), "replicate"),
    ]


@op
class circular_pad(IndexPad):
    """Pad with elements from the far end."""

    grad_fn = "CopySlices"
    samples = lambda rng: [(rng.standard_normal((2, 3, 4)), (1, 2), "circular")]


@op
class index_unpad(Movement):
    """Add what padding `input` copied back to where it came from."""

    function = method = False
    dtypes = "fc"
    inputs = ("grad", "input")
    samples = lambda rng: [(rng.standard_normal((2, 7)), rng.standard_normal((2, 4)), (1, 2), "reflect")]
    vjp_grad = lambda g, pad, mode: ops.index_pad(g, pad, mode)
    vjp_input = lambda g, input_shape: ops.zeros_of(g, input_shape)

    def forward(grad, input, pad, mode):
        out, shape = grad, input.shape
        for dim, before, after in _sides(pad, len(shape)):
            n = shape[dim]
            source = _source(mode, n, before, after)
            old = np.moveaxis(out, dim, 0)
            new = np.zeros((n, *old.shape[1:]), out.dtype)
            start = max(before, 0)
            stop = max(min(len(source), n + before), start)
            new[start - before : stop - before] = old[start:stop]
            for j in (*range(start), *range(stop, len(source))):
                new[source[j]] += old[j]
            out = np.moveaxis(new, 0, dim)
        return np.ascontiguousarray(out)


def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """Pad the last dimensions.

    Args:
        pad: (before, after) of the last dimension, then of the one before it, and so on.
        mode: "constant", "reflect", "replicate" or "circular".
        value: what "constant" puts in, 0 unless given.

    Raises:
        ShapeError: too many amounts for the input, or more reflection than there are elements.
    """
    if mode == "constant":
        return ops.constant_pad_nd(input, pad, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise MissingError(f"pad: mode must be constant, reflect, replicate or circular, got {mode!r}")
    if value is not None and value != 0:
        raise ValueRangeError(f"pad: mode {mode!r} copies elements of the input and takes no value, got {value}")
    pad = _pairs("pad", pad, input.dim())
    dims = len(pad) // 2
    if dims not in (1, 2, 3) or input.dim() not in (dims + 1, dims + 2):
        raise MissingError(
            f"pad: mode {mode!r} pads the last 1, 2 or 3 dimensions of an input with one or two dimensions before "
            f"them; got pad {pad} for input {tuple(input.shape)}"
        )
    for dim, before, after in _sides(pad, input.dim()):
        n = input.shape[dim]
        limit = {"reflect": n - 1, "circular": n, "replicate": math.inf if n else 0}[mode]
        if max(before, after) > limit or n + before + after < 1:
            raise ShapeError(
                f"pad: mode {mode!r} allows at most {limit} for dimension {dim} of size {n}, got {(before, after)}"
            )
    return (ops.circular_pad if mode == "circular" else ops.index_pad)(input, pad, mode)


__all__ = ["circular_pad", "index_pad", "index_unpad", "pad"]
