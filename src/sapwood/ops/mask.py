"""Elements that a mask marks: `masked_fill`, `masked_select`, `masked_scatter`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import ndarray

from .. import ops
from ..errors import DtypeError, ShapeError
from ..tensor import Tensor
from .declare import Plain, composite, op
from .scattering import _number_as


def _check_mask(op: str, mask: Any) -> None:
    if mask.dtype.kind != "b":
        raise DtypeError(f"{op}: mask must be bool, got {mask.dtype.name}; use mask.bool()")


def _broadcast(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(
            f"{op}: input and mask do not broadcast, their shapes are {shapes[0]} and {shapes[1]}"
        ) from None


@op
class masked_fill_value(Plain):
    """Return `input` with a number where `mask` is true; the two broadcast."""

    inputs = ("input", "mask")
    function = method = False
    half = False
    dtypes = "bifc"
    grad_fn = "MaskedFillBackward0"
    vjp_input = lambda g, mask: masked_fill_value(g, mask, 0)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), rng.standard_normal((2, 3)) > 0, 1.5),
        (rng.standard_normal(3), rng.standard_normal((2, 3)) > 0, 0),
    ]

    def forward(input, mask, value):
        _check_mask("masked_fill", mask)
        return np.where(mask, _number_as(value, input.dtype, "masked_fill"), input)

    def infer(input, mask, value):
        _broadcast("masked_fill", input.shape, mask.shape)


@op
class masked_fill_tensor(Plain):
    """Return `input` with a 0-dim tensor where `mask` is true; input and mask broadcast."""

    inputs = ("input", "mask", "value")
    function = method = False
    half = False
    dtypes = "bifc"
    grad_fn = "MaskedFillBackward1"
    vjp_input = lambda g, mask: masked_fill_value(g, mask, 0)
    vjp_value = lambda g, mask: ops.sum(masked_fill_value(g, ops.logical_not(mask), 0))
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), rng.standard_normal((2, 3)) > 0, rng.standard_normal(())),
    ]

    def forward(input, mask, value):
        _check_mask("masked_fill", mask)
        if value.ndim:
            raise ShapeError(f"masked_fill: value must be a number or a 0-dim tensor, got shape {value.shape}")
        if value.dtype.kind == "c" and input.dtype.kind != "c":
            raise DtypeError(f"masked_fill: a complex value does not fit a tensor of {input.dtype.name}")
        return np.where(mask, value.astype(input.dtype), input)

    def infer(input, mask, value):
        _broadcast("masked_fill", input.shape, mask.shape)


@composite(method=True)
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """Return `input` with `value` where `mask` is true; input and mask broadcast.

    Args:
        mask: bool.
        value: a number or a 0-dim tensor.
    """
    if isinstance(value, Tensor | ndarray):
        return masked_fill_tensor(input, mask, value)
    return masked_fill_value(input, mask, value)


@composite(name="masked_fill_", method="masked_fill_", function_name=False)
def masked_fill_in_place(input: Any, mask: Any, value: Any) -> Any:
    """Write `value` into this tensor where `mask` is true."""
    from .inplace import in_place

    if isinstance(value, Tensor):
        return in_place(masked_fill_tensor.op, input, (mask, value), (), "masked_fill_")
    return in_place(masked_fill_value.op, input, (mask,), (value,), "masked_fill_")


@op
class masked_select(Plain):
    """Return the elements where `mask` is true as a vector; input and mask broadcast."""

    inputs = ("input", "mask")
    kind = "movement"
    linear = True
    half = False
    dtypes = "bifc"
    vjp_input = lambda g, mask, input_shape: masked_scatter(
        ops.zeros_of(g, _broadcast("masked_select", input_shape, mask.shape)), mask, g
    )
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), rng.standard_normal((2, 3)) > 0),
        (rng.standard_normal((2, 3)), np.array([True, False, True])),
    ]

    def forward(input, mask):
        _check_mask("masked_select", mask)
        if input.shape != mask.shape:
            shape = _broadcast("masked_select", input.shape, mask.shape)
            input, mask = np.broadcast_to(input, shape), np.broadcast_to(mask, shape)
        return input[mask].reshape(-1)


@op
class masked_scatter(Plain):
    """Return `input` with elements of `source`, in order, where `mask` is true; input and mask broadcast.

    Args:
        mask: bool.
        source: the input's type, at least as many elements as the mask is true.
    """

    inputs = ("input", "mask", "source")
    inplace = True
    takes_out = False
    half = False
    dtypes = "bifc"
    vjp_input = lambda g, mask: masked_fill_value(g, mask, 0)
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), np.array([True, False, True]), rng.standard_normal(6)),
        (rng.standard_normal((2, 3)), rng.standard_normal((2, 3)) > 0, rng.standard_normal((2, 4))),
    ]

    def forward(input, mask, source):
        _check_mask("masked_scatter", mask)
        if source.dtype != input.dtype:
            raise DtypeError(f"masked_scatter: source must be {input.dtype.name} like input, got {source.dtype.name}")
        shape = _broadcast("masked_scatter", input.shape, mask.shape)
        mask = np.broadcast_to(mask, shape)
        n = int(np.count_nonzero(mask))
        if source.size < n:
            raise ShapeError(f"masked_scatter: the mask is true {n} times and source has {source.size} elements only")
        out = np.array(np.broadcast_to(input, shape), order="C")
        out[mask] = source.reshape(-1)[:n]
        return out

    def vjp_source(g, mask, source_shape):
        picked = masked_select(g, mask)
        short = math.prod(source_shape) - picked.shape[0]
        return ops.reshape(ops.cat([picked, ops.zeros_of(g, (short,))]) if short else picked, source_shape)
