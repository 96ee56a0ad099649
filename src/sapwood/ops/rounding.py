"""Size, sign and rounding: abs, sign, floor, round, nan_to_num, degrees and radians."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes, ops
from ..errors import DtypeError
from .complex_parts import has_complex
from .declare import Binary, Unary, op, todo, zero


def _absolute(input: Any) -> Any:
    if input.dtype.kind == "b":
        raise DtypeError("abs: a number is expected, got a bool tensor; convert it first, e.g. tensor.int()")
    return np.absolute(input)


@op
class abs(Unary):
    """Return the absolute value of each element."""

    promote = None
    forward = _absolute
    numpy = (np.absolute,)
    vjp_input = lambda g, input: g * ops.sgn(input)
    holomorphic = False
    aliases = ("absolute",)
    domain = (0.2, 3.0)
    dtypes = "ifc"


def _sgn_vjp(g: Any, input: Any, out: Any) -> Any:
    """Return the part of g across the direction of the number, over its size."""
    if not has_complex(input):
        return ops.zeros_like(g)
    size = ops.abs(input)
    there = size != 0
    size = ops.where(there, size, 1)
    along = (g * ops.conj(out)).real
    return ops.where(there, (g - along * out) / size, 0)


def _sgn(input: Any) -> Any:
    if input.dtype.kind == "c":
        size = np.absolute(input)
        return np.where(size == 0, 0, input / np.where(size == 0, 1, size)).astype(input.dtype)
    return _sign(input)


def _sign(input: Any) -> Any:
    """Return -1, 0 or 1; NaN, which is neither positive nor negative, gives 0."""
    kind = input.dtype.kind
    if kind == "c":
        raise DtypeError("sign: a complex number has no sign; use sgn for its direction")
    if kind == "b":
        return input.copy()
    found = np.sign(input)
    return found if kind in "iu" else np.where(found == found, found, 0).astype(input.dtype)


@op
class sign(Unary):
    """Return -1, 0 or 1 for negative, zero and positive elements."""

    promote = None
    forward = _sign
    vjp_input = zero
    numpy = (np.sign,)
    domain = (0.2, 3.0)
    dtypes = "bif"


@op
class sgn(Unary):
    """Return the direction of each element: input / |input|, and 0 for 0."""

    promote = None
    forward = _sgn
    vjp_input = lambda g, input, out: _sgn_vjp(g, input, out)
    holomorphic = False
    domain = (0.2, 3.0)
    dtypes = "bifc"


def _whole(name: str, ufunc: Any) -> Any:
    """Return a rounding of floats that leaves integers as they are."""

    def forward(input: Any) -> Any:
        kind = input.dtype.kind
        if kind in "iu":
            return input.copy()
        if kind in "bc":
            raise DtypeError(f"{name}: real numbers are expected, got {input.dtype}; convert them first")
        return ufunc(input)

    return forward


@op
class floor(Unary):
    """Round down to whole numbers."""

    promote = None
    forward = _whole("floor", np.floor)
    vjp_input = zero
    numpy = (np.floor,)
    smooth = False
    dtypes = "if"


@op
class ceil(Unary):
    """Round up to whole numbers."""

    promote = None
    forward = _whole("ceil", np.ceil)
    vjp_input = zero
    numpy = (np.ceil,)
    smooth = False
    dtypes = "if"


@op
class trunc(Unary):
    """Round towards zero."""

    promote = None
    forward = _whole("trunc", np.trunc)
    vjp_input = zero
    aliases = ("fix",)
    numpy = (np.trunc,)
    smooth = False
    dtypes = "if"


def _round(input: Any, *, decimals: int = 0) -> Any:
    kind = input.dtype.kind
    if kind in "bc" or (decimals and kind not in "fV"):
        raise DtypeError(f"round: floating-point numbers are expected, got {input.dtype}; convert them first")
    if kind in "iu":
        return input.copy()
    if not decimals:
        return np.rint(input)
    scale = 10.0 ** math.fabs(decimals)
    return np.rint(input * scale) / scale if decimals > 0 else np.rint(input / scale) * scale


@op
class round(Unary):
    """Round to the nearest whole number, halves to the even one; or to `decimals` decimals."""

    promote = "same"
    forward = _round
    grad_fn = "RoundBackward0 if decimals == 0 else RoundBackward1"
    vjp_input = zero
    numpy = (np.rint,)
    smooth = False
    dtypes = "if"
    samples = lambda rng: [
        (np.array([0.5, 1.5, 2.5, -0.5, 3.7]),),
        (rng.uniform(-9, 9, (2, 3)), {"decimals": 2}),
        (rng.uniform(-900, 900, 3), {"decimals": -1}),
    ]


def _frac(input: Any) -> Any:
    if input.dtype.kind not in "fV":
        raise DtypeError(f"frac: floating-point numbers are expected, got {input.dtype}; convert them first")
    return input - np.trunc(input)


@op
class frac(Unary):
    """Return the part after the decimal point, with the sign of the number."""

    promote = "same"
    forward = _frac
    vjp_input = lambda g: g
    domain = (0.1, 0.9)


@op
class deg2rad(Unary):
    """Convert degrees to radians."""

    forward = lambda input: input * (math.pi / 180)
    vjp_input = lambda g: g * (math.pi / 180)
    grad_fn = "Deg2RadBackward0"
    numpy = (np.deg2rad,)
    linear = True
    dtypes = "bif"


@op
class rad2deg(Unary):
    """Convert radians to degrees."""

    forward = lambda input: input * (180 / math.pi)
    vjp_input = lambda g: g * (180 / math.pi)
    grad_fn = "Rad2DegBackward0"
    numpy = (np.rad2deg,)
    linear = True
    dtypes = "bif"


def _nan_to_num(input: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    kind = input.dtype.kind
    if kind in "biu":
        return input.copy()
    if kind == "c":
        out = np.empty_like(input)
        out.real = _nan_to_num(input.real, nan, posinf, neginf)
        out.imag = _nan_to_num(input.imag, nan, posinf, neginf)
        return out
    top = _largest(input.dtype)
    out = np.where(input != input, _cast(0 if nan is None else nan, input), input)
    out = np.where(out == math.inf, _cast(top if posinf is None else posinf, input), out)
    return np.where(out == -math.inf, _cast(-top if neginf is None else neginf, input), out)


def _cast(value: float, like: Any) -> Any:
    return np.asarray(value).astype(like.dtype)


def _largest(dtype: np.dtype[Any]) -> float:
    if dtypes.of_numpy(dtype) is dtypes.bfloat16:
        from ml_dtypes import finfo

        return float(finfo(dtype).max)
    return float(np.finfo(dtype).max)


@op
class nan_to_num(Unary):
    """Replace NaN by `nan` (0), and the infinities by `posinf` and `neginf` (the largest and smallest numbers)."""

    promote = None
    half = False
    forward = _nan_to_num
    vjp_input = lambda g, input: g * ops.isfinite(input)
    numpy = (np.nan_to_num,)
    dtypes = "bifc"
    samples = lambda rng: [
        (np.array([1.0, np.nan, np.inf, -np.inf]),),
        (np.array([1.0, np.nan, np.inf, -np.inf]), 0.5, 2.0, -3.0),
    ]
    smooth = False


@op
class copysign(Binary):
    """Return the size of `input` with the sign of `other`."""

    promote = "float"
    forward = np.copysign
    grad_fn = "CopysignBackward0 if hasattr(other, '_node') else CopysignBackward1"
    vjp_input = lambda g, input, out: g * ops.where(input == 0, 0, out / input)
    vjp_other = zero
    dtypes = "bif"


def _nextafter(input: Any, other: Any) -> Any:
    if input.dtype.kind not in "fV":
        raise DtypeError(f"nextafter: floating-point tensors are expected, got {input.dtype}; convert them first")
    return np.nextafter(input, other)


@op
class nextafter(Binary):
    """Return the next number after `input` in the direction of `other`."""

    scalars = False
    half = False
    forward = _nextafter
    numpy = (np.nextafter,)
    vjp_input = lambda g, input, other: g * (input != other)
    vjp_other = lambda g, other: ops.zeros_like(other)
    smooth = False


def _heaviside(input: Any, values: Any) -> Any:
    if input.dtype != values.dtype or input.dtype.kind == "c":
        raise DtypeError(
            f"heaviside: two real tensors of one dtype are expected, got {input.dtype} and {values.dtype}; convert one"
        )
    return np.where(input == 0, values, (input > 0).astype(input.dtype))


@op
class heaviside(Binary):
    """Return 0 for negative, 1 for positive elements, and `values` where `input` is 0."""

    inputs = ("input", "values")
    promote = None
    half = False
    scalars = False
    forward = _heaviside
    grad_fn = "NotImplemented"
    vjp_input = todo
    vjp_values = todo
    numpy = (np.heaviside,)
    smooth = False
    dtypes = "bif"
