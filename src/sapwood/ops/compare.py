"""Comparisons, truth, and choice: eq … ge, isnan, isclose, logical_and, where."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, ops
from ..cuts import read
from ..errors import ArgumentError, DtypeError, GradError
from ..tensor import Tensor, wrap
from .declare import Comparison, Plain, Unary, composite, op, registry


def _ordered(name: str, ufunc: Any) -> Any:
    """Return an ordering comparison, which complex numbers do not have (NumPy orders them by their parts)."""

    def forward(input: Any, other: Any) -> Any:
        for x in (input, other):
            if isinstance(x, complex) or (hasattr(x, "dtype") and x.dtype.kind == "c"):
                raise DtypeError(f"{name}: complex numbers have no order; compare their abs() or real parts")
        return ufunc(input, other)

    return forward


@op
class eq(Comparison):
    """Return where `input` equals `other`."""

    forward = np.equal
    dtypes = "bifc"


@op
class ne(Comparison):
    """Return where `input` differs from `other`."""

    forward = np.not_equal
    aliases = ("not_equal",)
    dtypes = "bifc"


@op
class lt(Comparison):
    """Return where `input` is less than `other`."""

    forward = _ordered("lt", np.less)
    aliases = ("less",)
    numpy = (np.less,)


@op
class le(Comparison):
    """Return where `input` is less than `other` or equal to it."""

    forward = _ordered("le", np.less_equal)
    aliases = ("less_equal",)
    numpy = (np.less_equal,)


@op
class gt(Comparison):
    """Return where `input` is greater than `other`."""

    forward = _ordered("gt", np.greater)
    aliases = ("greater",)
    numpy = (np.greater,)


@op
class ge(Comparison):
    """Return where `input` is greater than `other` or equal to it."""

    forward = _ordered("ge", np.greater_equal)
    aliases = ("greater_equal",)
    numpy = (np.greater_equal,)


class Predicate(Unary):
    """One input, a bool output; no gradient."""

    promote = "bool"
    half = False
    inplace = False
    takes_out = False
    dtypes = "bif"


@op
class isnan(Predicate):
    """Return where an element is not a number."""

    forward = lambda input: input != input
    numpy = (np.isnan,)
    dtypes = "bifc"


@op
class isinf(Predicate):
    """Return where an element is infinite."""

    forward = np.isinf
    dtypes = "bifc"


@op
class isfinite(Predicate):
    """Return where an element is neither infinite nor NaN."""

    forward = np.isfinite
    dtypes = "bifc"


def _real(name: str, x: Any) -> Any:
    if x.dtype.kind == "c":
        raise DtypeError(f"{name}: a real tensor is expected, got {x.dtype}; look at its real and imaginary parts")
    return x


@op
class isposinf(Predicate):
    """Return where an element is positive infinity."""

    forward = lambda input: _real("isposinf", input) == np.inf
    numpy = (np.isposinf,)
    takes_out = True


@op
class isneginf(Predicate):
    """Return where an element is negative infinity."""

    forward = lambda input: _real("isneginf", input) == -np.inf
    numpy = (np.isneginf,)
    takes_out = True


@op
class isreal(Predicate):
    """Return where an element has no imaginary part."""

    forward = lambda input: input.imag == 0 if input.dtype.kind == "c" else np.ones(input.shape, np.bool_)
    numpy = (np.isreal,)
    dtypes = "bifc"


@op
class signbit(Predicate):
    """Return where the sign of an element is minus, that of -0.0 included."""

    forward = lambda input: np.signbit(input) if input.dtype.kind not in "biu" else input < 0
    numpy = (np.signbit,)
    takes_out = True


class Logical(Comparison):
    """Two inputs of any type, taken as true or false."""

    promote = None
    scalars = False
    half = False
    dtypes = "bifc"


@op
class logical_and(Logical):
    """Return where both elements are not zero."""

    forward = np.logical_and


@op
class logical_or(Logical):
    """Return where one or both elements are not zero."""

    forward = np.logical_or


@op
class logical_xor(Logical):
    """Return where exactly one of two elements is not zero."""

    forward = np.logical_xor


@op
class logical_not(Unary):
    """Return where an element is zero."""

    promote = None
    half = False
    forward = np.logical_not
    dtypes = "bifc"


def _isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    if input.dtype != other.dtype:
        raise DtypeError(f"isclose: one dtype is expected, got {input.dtype} and {other.dtype}; convert one of them")
    if rtol < 0 or atol < 0:
        raise GradError(f"isclose: rtol and atol must not be negative, got {rtol} and {atol}")
    close = input == other
    if equal_nan:
        close = close | ((input != input) & (other != other))
    if input.dtype.kind == "b" or (rtol == 0 and atol == 0):
        return close
    if input.dtype.kind in "iu":
        input, other = input.astype(np.float64), other.astype(np.float64)
    with np.errstate(all="ignore"):
        error, allowed = np.abs(input - other), atol + np.abs(rtol * other)
    return close | (np.isfinite(error) & (error <= allowed))


@op
class isclose(Plain):
    """Return where |input − other| <= atol + rtol · |other|.

    Args:
        equal_nan: whether two NaNs are close.

    Raises:
        DtypeError: the dtypes differ.
    """

    inputs = ("input", "other")
    kind = "elementwise"
    takes_out = False
    forward = _isclose
    dtypes = "bifc"
    samples = lambda rng: [
        (np.array([1.0, 2.0, np.nan]), np.array([1.0 + 1e-9, 2.1, np.nan])),
        (np.array([1.0, np.inf, np.nan]), np.array([1.1, np.inf, np.nan]), 0.2, 0.0, True),
    ]


@composite(method=True)
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return whether all elements are close, as `isclose` defines it."""
    read("allclose()", input)
    return bool(np.all(ops.isclose(input, other, rtol, atol, equal_nan)._array))


@composite(method=True)
def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same shape and the same elements."""
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        raise ArgumentError(f"equal: two tensors are expected, got {type(input).__name__} and {type(other).__name__}")
    read("equal()", input)
    read("equal()", other)
    a, b = input._array, other._array
    if a.shape != b.shape:
        return False
    return bool(np.all(a == b))


@composite(method=True)
def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element is not zero.

    Raises:
        GradError: there is no or more than one element.
    """
    return bool(input)


# -- where ------------------------------------------------------------------------------------------------------------


def _choose(condition: Any, input: Any, other: Any) -> Any:
    if condition.dtype.kind != "b":
        if condition.dtype != np.uint8:
            raise DtypeError(
                f"where: condition must be a bool tensor, got {condition.dtype}; compare it with something"
            )
        condition = condition.astype(np.bool_)
    common = _common(input, other)
    return np.where(condition, _as(input, common), _as(other, common))


def _as(x: Any, common: Any) -> Any:
    return x if isinstance(x, np.ndarray) and x.dtype is common else np.asarray(x).astype(common)


def _common(input: Any, other: Any) -> Any:
    if isinstance(input, np.ndarray) and isinstance(other, np.ndarray) and input.dtype is other.dtype:
        return input.dtype
    ranks: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for x in (input, other):
        if isinstance(x, np.ndarray):
            ranks[0 if x.ndim else 1].append(dtypes.of_numpy(x.dtype))
        else:
            ranks[2].append(x)
    return dtypes.result_dtype(*ranks).numpy


@op
class where(Plain):
    """Take elements of `input` where `condition` holds, and of `other` elsewhere."""

    inputs = ("condition", "input", "other")
    kind = "elementwise"
    scalars = "all"
    half = False
    function = method = False
    forward = _choose
    vjp_input = lambda g, condition: ops.where(condition, g, 0)
    vjp_other = lambda g, condition: ops.where(condition, 0, g)
    dtypes = "bifc"
    samples = lambda rng: [
        (np.array([True, False, True]), rng.standard_normal((2, 3)), rng.standard_normal(3)),
        (np.array([[True], [False]]), rng.standard_normal(3), 0.5),
        (np.array([[True], [False]]), 2.0, rng.standard_normal(3)),
    ]


def _beside(number: float, tensor: Any) -> Any:
    """Return a number as a tensor of the type of `tensor`, for the flat path; only where promotion says the same."""
    if type(tensor) is not Tensor or (tensor._array.dtype is not dtypes.F32 and tensor._array.dtype is not dtypes.F64):
        return number
    return wrap(np.asarray(number, tensor._array.dtype))


@composite(name="where")
def where_(condition: Any, input: Any = None, other: Any = None, *, out: Tensor | None = None) -> Any:
    """Take elements of `input` where `condition` holds, and of `other` elsewhere.

    With `condition` alone, return the positions of its nonzero elements as one index tensor per dimension.

    Args:
        condition: a bool tensor.
        input, other: tensors or numbers that broadcast with it.

    Example:
        >>> import sapwood
        >>> x = sapwood.tensor([-1., 2.])
        >>> sapwood.where(x > 0, x, 0.)
        tensor([0., 2.])
    """
    if type(condition) is np.ndarray or isinstance(condition, np.generic):
        if not isinstance(input, Tensor) and not isinstance(other, Tensor):
            return np.where(condition, input, other)
        condition = wrap(np.asarray(condition))
    if input is None and other is None:
        return ops.nonzero(condition, as_tuple=True)
    if type(other) is float or type(other) is int:
        other = _beside(other, input)
    elif type(input) is float or type(input) is int:
        input = _beside(input, other)
    return registry["where"].call(condition, input, other, out=out)


@composite(name="where", method="where", function_name=False)
def where_method(input: Tensor, condition: Tensor, other: Any) -> Tensor:
    """Take this tensor's elements where `condition` holds, and those of `other` elsewhere."""
    return ops.where(condition, input, other)
