"""Arithmetic: the four operations, divisions that round, remainders, multiply-add, interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import ArgumentError, DtypeError, ValueRangeError
from ..tensor import Tensor
from .call import operator_of
from .declare import Binary, Plain, Unary, composite, methods, op, registry, todo, zero
from .inplace import in_place
from .slow import NUMBERS


def _scale(name: str, x: Any, alpha: Any) -> Any:
    """Return alpha·x; whole numbers cannot be scaled by a fraction."""
    if alpha is None or isinstance(alpha, str | bytes | list | tuple | dict):
        raise ArgumentError(f"{name}: alpha must be a number, got {type(alpha).__name__}")
    kind = x.dtype.kind if hasattr(x, "dtype") else "f"
    if kind in "iub" and isinstance(alpha, float | complex):
        raise DtypeError(f"{name}: alpha must be an int for integer tensors, got {alpha!r}; convert a tensor to float")
    if kind == "b":
        return np.logical_and(x, bool(alpha))
    return x * alpha


@op
class add(Binary):
    """Add `alpha` times `other` to `input`, elementwise.

    Example:
        >>> import sapwood
        >>> sapwood.add(sapwood.tensor([1., 2.]), 10)
        tensor([11., 12.])
    """

    scalars = "all"
    signature = lambda input, other, *, alpha=1: None
    usual = {"alpha": 1}
    forward = np.add
    formula = lambda input, other, *, alpha: input + _scale("add", other, alpha)
    vjp_input = lambda g: g
    vjp_other = lambda g, alpha: g if alpha == 1 else g * alpha
    linear = True
    dtypes = "bifc"


@op
class sub(Binary):
    """Subtract `alpha` times `other` from `input`, elementwise."""

    scalars = "all"
    signature = lambda input, other, *, alpha=1: None
    usual = {"alpha": 1}
    forward = np.subtract
    formula = lambda input, other, *, alpha: input - _scale("sub", other, alpha)
    vjp_input = lambda g: g
    vjp_other = lambda g, alpha: -g if alpha == 1 else g * -alpha
    aliases = ("subtract",)
    linear = True
    dtypes = "ifc"
    no_bool = "^ or logical_xor for two bools"


@op
class rsub(Binary):
    """Subtract `alpha` times `input` from `other`, elementwise."""

    signature = lambda input, other, *, alpha=1: None
    usual = {"alpha": 1}
    forward = lambda input, other: np.subtract(other, input)
    formula = lambda input, other, *, alpha: other - _scale("rsub", input, alpha)
    grad_fn = "RsubBackward0 if hasattr(other, '_node') else RsubBackward1"
    vjp_input = lambda g, alpha: -g if alpha == 1 else g * -alpha
    vjp_other = lambda g: g
    half = False
    inplace = False
    takes_out = False
    method = False
    linear = True
    dtypes = "ifc"
    no_bool = "^ or logical_xor for two bools"


@op
class mul(Binary):
    """Multiply two tensors elementwise."""

    scalars = "all"
    forward = np.multiply
    vjp_input = lambda g, other: g * other
    vjp_other = lambda g, input: g * input
    aliases = ("multiply",)
    dtypes = "bifc"


@op
class div(Binary):
    """Divide `input` by `other`, elementwise; integers divide to floating-point numbers."""

    scalars = "all"
    promote = "float"
    forward = np.divide
    vjp_input = lambda g, other: g / other
    vjp_other = lambda g, input, other: -g * ((input / other) / other)
    function = method = False
    dtypes = "bifc"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), rng.standard_normal(3) + 3),
        (rng.standard_normal(()), rng.standard_normal((2, 1)) - 4),
        (np.zeros((0, 3)), np.ones((1, 3))),
    ]  # fmt: skip


def _floored(input: Any, other: Any) -> Any:
    q = np.floor_divide(input, other)
    _refuse_zero("floor_divide", q, input, other)
    return q


def _truncated(input: Any, other: Any) -> Any:
    """Return the quotient rounded towards zero; of integers without passing through floating point."""
    q = _floored(input, other)
    if q.dtype.kind in "iu":
        return q + ((q * other != input) & ((np.less(input, 0)) != (np.less(other, 0)))).astype(q.dtype)
    return np.trunc(np.divide(input, other))


def _refuse_zero(name: str, result: Any, input: Any, other: Any) -> None:
    """Raise what NumPy answers with 0: the division of integers by zero, and that of bools."""
    if result.dtype.kind in "iu" and not np.all(other):
        raise ValueRangeError(
            f"{name}: ZeroDivisionError: an integer tensor was divided by zero; divide floats for inf"
        )
    kinds = {np.asarray(x).dtype.kind for x in (input, other)}
    if kinds == {"b"}:
        raise DtypeError(f"{name}: numbers are expected, got two bool tensors; convert one of them first")


@op
class div_rounded(Binary):
    """Divide and round: `rounding_mode` is "trunc" (towards zero) or "floor"."""

    scalars = "all"
    function = method = False
    inplace = False
    # A 16-bit quotient is rounded to its own type before it is truncated.
    half = False
    forward = lambda input, other, *, rounding_mode: (_truncated if rounding_mode == "trunc" else _floored)(
        input, other
    )
    grad_fn = "DivBackward2"
    vjp_input = zero
    vjp_other = zero
    dtypes = "if"
    samples = lambda rng: [
        (rng.uniform(-9, 9, (2, 3)), rng.uniform(1, 3, 3), {"rounding_mode": mode}) for mode in ("trunc", "floor")
    ]


def _rounding(rounding_mode: Any) -> bool:
    if rounding_mode is None:
        return False
    if rounding_mode not in ("trunc", "floor"):
        raise ValueRangeError(f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}")
    return True


@composite(name="div", method=True, aliases=("divide",))
def div_(input: Tensor, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """Divide `input` by `other`, elementwise.

    Args:
        rounding_mode: None for the quotient itself (floating-point), "trunc" to round it towards zero, "floor" to
            round it down; rounded quotients of integers are integers.

    Raises:
        ValueRangeError: integers are divided by zero with rounding, or the mode is another one.
    """
    if _rounding(rounding_mode):
        return registry["div_rounded"].call(input, other, rounding_mode=rounding_mode, out=out)
    return registry["div"].call(input, other, out=out)


@composite(method=True)
def true_divide(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Divide `input` by `other`, elementwise; an alias of `div` without rounding."""
    return registry["div"].call(input, other, out=out)


@composite(name="div_", method="div_", function_name=False, aliases=("divide_",))
def div_in_place(input: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """Divide this tensor by `other`, in place."""
    if _rounding(rounding_mode):
        return in_place(registry["div_rounded"], input, (other,), (rounding_mode,), "div_")
    return in_place(registry["div"], input, (other,), (), "div_")


@composite(name="true_divide_", method="true_divide_", function_name=False)
def true_divide_in_place(input: Tensor, other: Any) -> Tensor:
    """Divide this tensor by `other`, in place."""
    return in_place(registry["div"], input, (other,), (), "true_divide_")


@op
class floor_divide(Binary):
    """Divide and round down, elementwise.

    Raises:
        ValueRangeError: an integer is divided by zero.
    """

    scalars = "all"
    forward = _floored
    grad_fn = "NotImplemented"
    vjp_input = todo
    vjp_other = todo
    smooth = False
    dtypes = "if"
    numpy = (np.floor_divide,)
    samples = lambda rng: [(rng.uniform(-9, 9, (2, 3)), rng.uniform(1, 3, 3))]


def _remainder(input: Any, other: Any) -> Any:
    # np.remainder gives a zero the sign of `other`; PyTorch keeps that of `input`.
    m = _fmod(input, other)
    return np.where((m != 0) & (np.less(other, 0) != np.less(m, 0)), m + other, m)


def _fmod(input: Any, other: Any) -> Any:
    m = np.fmod(input, other)
    _refuse_zero("remainder", m, input, other)
    return m


@op
class remainder(Binary):
    """Return what is left after dividing and rounding down; it has the sign of `other`.

    Raises:
        ValueRangeError: an integer is divided by zero.
    """

    scalars = "any"
    forward = _remainder
    grad_fn = (
        "(RemainderBackward1 if hasattr(other, '_node') else RemainderBackward0) if hasattr(input, '_node') "
        "else NotImplemented"
    )
    vjp_input = lambda g: g
    vjp_other = lambda g, input, other: -g * ops.div(input, other, rounding_mode="floor")
    dtypes = "if"
    numpy = (np.remainder,)
    samples = lambda rng: [(rng.uniform(-9, 9, (2, 3)), rng.uniform(1, 3, 3)), (rng.uniform(-9, 9, 3), -2.5)]


@op
class fmod(Binary):
    """Return what is left after dividing and rounding towards zero; it has the sign of `input`.

    Raises:
        ValueRangeError: an integer is divided by zero.
    """

    forward = _fmod
    grad_fn = "FmodBackward1 if hasattr(other, '_node') else FmodBackward0"
    vjp_input = lambda g: g
    vjp_other = lambda g, input, other: -g * ops.div(input, other, rounding_mode="trunc")
    dtypes = "if"
    numpy = (np.fmod,)
    samples = lambda rng: [(rng.uniform(-9, 9, (2, 3)), rng.uniform(1, 3, 3)), (rng.uniform(-9, 9, 3), -2.5)]


@op
class neg(Unary):
    """Negate each element."""

    promote = None
    forward = np.negative
    vjp_input = lambda g: -g
    aliases = ("negative",)
    linear = True
    dtypes = "ifc"
    no_bool = "~ or logical_not"


@composite(method=True)
def positive(input: Tensor) -> Tensor:
    """Return `input` itself.

    Raises:
        DtypeError: a bool tensor has no sign.
    """
    if input._array.dtype.kind == "b":
        raise DtypeError("positive: a number is expected, got a bool tensor; convert it first, e.g. tensor.int()")
    return input


def _addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    return input + (tensor1 if value == 1 else _scale("addcmul", tensor1, value)) * tensor2


@op
class addcmul(Plain):
    """Add `value` · `tensor1` · `tensor2` to `input`, elementwise."""

    inputs = ("input", "tensor1", "tensor2")
    kind = "elementwise"
    promote = "same"
    inplace = True
    forward = _addcmul
    formula = lambda input, tensor1, tensor2, *, value=1: input + (tensor1 if value == 1 else tensor1 * value) * tensor2
    vjp_input = lambda g: g
    vjp_tensor1 = lambda g, tensor2, value: g * tensor2 if value == 1 else g * (tensor2 * value)
    vjp_tensor2 = lambda g, tensor1, value: g * tensor1 if value == 1 else g * (tensor1 * value)
    dtypes = "ifc"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), rng.standard_normal(3), rng.standard_normal((2, 1))),
        (rng.standard_normal(3), rng.standard_normal(3), rng.standard_normal(()), {"value": 0.5}),
    ]


def _addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    if tensor1.dtype.kind in "iub" and tensor2.dtype.kind in "iub":
        raise DtypeError("addcdiv: floating-point tensors are expected, got integers; convert tensor1 to float first")
    return input + (tensor1 if value == 1 else value * tensor1) / tensor2


@op
class addcdiv(Plain):
    """Add `value` · `tensor1` / `tensor2` to `input`, elementwise."""

    inputs = ("input", "tensor1", "tensor2")
    kind = "elementwise"
    promote = "same"
    inplace = True
    forward = _addcdiv
    formula = lambda input, tensor1, tensor2, *, value=1: input + (tensor1 if value == 1 else value * tensor1) / tensor2
    vjp_input = lambda g: g
    vjp_tensor1 = lambda g, tensor2, value: g * (value / tensor2)
    vjp_tensor2 = lambda g, tensor1, tensor2, value: -g * ((value * tensor1) / (tensor2 * tensor2))
    dtypes = "fc"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), rng.standard_normal(3), rng.uniform(1, 2, (2, 1))),
        (rng.standard_normal(3), rng.standard_normal(3), rng.uniform(-2, -1, ()), {"value": 0.5}),
    ]


def _lerp(input: Any, end: Any, weight: Any) -> Any:
    span = end - input
    if span.dtype.kind in "iub" or not isinstance(input, np.ndarray) or not isinstance(end, np.ndarray):
        raise DtypeError("lerp: input and end must be floating-point tensors; convert them first")
    # Starting from the nearer end makes both ends exact.
    if not isinstance(weight, np.ndarray):
        return input + weight * span if abs(weight) < 0.5 else end - span * (1 - weight)
    return np.where(np.abs(weight) < 0.5, input + weight * span, end - span * (1 - weight))


def _lerped(input: Any, end: Any, weight: Any) -> Any:
    span = end - input
    near, far = input + span * weight, end - span * (1 - weight)
    if isinstance(weight, int | float):
        return near if abs(weight) < 0.5 else far
    return ops.where(ops.abs(weight) < 0.5, near, far)


@op
class lerp(Plain):
    """Interpolate linearly: input + weight · (end − input)."""

    inputs = ("input", "end", "weight")
    kind = "elementwise"
    promote = "same"
    scalars = True
    inplace = True
    forward = _lerp
    formula = lambda input, end, weight: _lerped(input, end, weight)
    grad_fn = "LerpBackward1 if hasattr(weight, '_node') else LerpBackward0"
    vjp_input = lambda g, weight: g * (1 - weight)
    vjp_end = lambda g, weight: g * weight
    vjp_weight = lambda g, input, end: g * (end - input)
    dtypes = "fc"
    samples = lambda rng: [
        (rng.standard_normal((2, 3)), rng.standard_normal(3), rng.uniform(0, 1, (2, 1))),
        (rng.standard_normal((2, 3)), rng.standard_normal(3), 0.3),
        (rng.standard_normal((2, 3)), rng.standard_normal(3), 0.7),
    ]


methods["__pos__"] = methods["positive"]
methods["__rsub__"] = operator_of(registry["rsub"], "__rsub__")


@composite(method="__rtruediv__", function_name=False)
def __rtruediv__(input: Tensor, other: Any) -> Any:
    """Divide `other` by this tensor: the reciprocal, times `other`."""
    if isinstance(other, np.generic):
        other = other.item()
    if not isinstance(other, NUMBERS):
        return NotImplemented
    return ops.reciprocal(input) * other
