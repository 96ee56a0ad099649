"""Special functions, computed by SciPy, which is loaded when the first of them is called."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from .. import ops
from ..errors import ArgumentError, ValueRangeError
from ..tensor import Tensor
from .declare import Binary, Plain, Unary, composite, op, todo

TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


@cache
def scipy(name: str) -> Any:
    """Return a function of scipy.special."""
    import scipy.special

    return getattr(scipy.special, name)


def _typed(name: str) -> Any:
    """Return a forward that calls SciPy's function and keeps the type of its operands."""

    def forward(*operands: Any) -> Any:
        common = np.result_type(*operands)
        return np.asarray(scipy(name)(*operands)).astype(common, copy=False)

    return forward


def _one(name: str) -> Any:
    call = _typed(name)
    return lambda input: call(input)


def _two(name: str) -> Any:
    call = _typed(name)
    return lambda input, other: call(input, other)


@op
class erf(Unary):
    """Return the error function: 2/√π times the integral of exp(−t²) from 0 to the element."""

    forward = _one("erf")
    vjp_input = lambda g, input: g * (TWO_OVER_ROOT_PI * ops.exp(-(input * input)))
    dtypes = "bif"


@op
class erfc(Unary):
    """Return 1 − erf(input), accurate for large elements."""

    forward = _one("erfc")
    vjp_input = lambda g, input: g * (-TWO_OVER_ROOT_PI * ops.exp(-(input * input)))
    dtypes = "bif"


@op
class erfinv(Unary):
    """Return the number whose error function is given; infinite at -1 and 1, NaN beyond."""

    forward = _one("erfinv")
    vjp_input = lambda g, out: g * (ops.exp(out * out) / TWO_OVER_ROOT_PI)
    domain = (-0.9, 0.9)
    dtypes = "bif"


@op
class special_erfcx(Unary):
    """Return exp(input²) · erfc(input)."""

    forward = _one("erfcx")
    vjp_input = lambda g, input, out: g * (2 * input * out - TWO_OVER_ROOT_PI)
    function = method = inplace = False
    dtypes = "bif"


def _lgamma(input: Any) -> Any:
    return np.where(input == -np.inf, np.inf, scipy("gammaln")(input)).astype(input.dtype)


@op
class lgamma(Unary):
    """Return the logarithm of the absolute value of the gamma function."""

    forward = _lgamma
    vjp_input = lambda g, input: g * ops.digamma(input)
    domain = (0.3, 4.0)
    dtypes = "bif"


def _digamma(input: Any) -> Any:
    # At the poles: signed infinity at the two zeros, NaN at negative whole numbers, where the sides differ.
    x = scipy("psi")(input)
    x = np.where(input == 0, np.copysign(np.inf, -input), x)
    return np.where((input < 0) & (input == np.floor(input)), np.nan, x).astype(input.dtype)


@op
class digamma(Unary):
    """Return the derivative of lgamma."""

    forward = _digamma
    vjp_input = lambda g, input: g * ops.polygamma(1, input)
    domain = (0.3, 4.0)
    dtypes = "bif"


def _polygamma(n: int, input: Any) -> Any:
    if not isinstance(n, int):
        raise ArgumentError(f"polygamma: n must be an int and input a tensor, got n = {n!r}")
    if n < 0:
        raise ValueRangeError(f"polygamma: n must not be negative, got {n}")
    if n == 0:
        return _digamma(input)
    if n == 1:
        return _trigamma(input)
    x = input.astype(np.float64)
    # SciPy's series takes |x| steps for negative x, so far ones are reflected; at the poles it answers at once.
    far = (x < -20) & (x != np.floor(x))
    y = np.where(far, 1 - x, x)
    out = (1 if n % 2 else -1) * math.factorial(n) * scipy("zeta")(n + 1, y)
    if far.any():
        out = np.where(far, (-1) ** n * out - math.pi * _cot_derivative(n, np.where(far, x, 0.5)), out)
    # The limit at infinity is 0; PyTorch has NaN there.
    return np.where(x == np.inf, np.nan, out).astype(input.dtype)


def _cot_derivative(n: int, x: Any) -> Any:
    """Return the n-th derivative of cot(πx): a polynomial in the cotangent c, as c' = −π (1 + c²)."""
    coefficients = [0.0, 1.0]
    for _ in range(n):
        slope = [k * a for k, a in enumerate(coefficients)][1:]
        coefficients = [-math.pi * (a + b) for a, b in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope])]
    c = 1 / np.tan(math.pi * (x - np.floor(x)))
    out = np.zeros_like(c)
    for a in reversed(coefficients):
        out = out * c + a
    return out


def _trigamma(input: Any) -> Any:
    """Return the derivative of digamma, by reflection below 1/2."""
    x = input.astype(np.float64)
    left = x < 0.5
    y = np.where(left, 1 - x, x)
    right = scipy("zeta")(2, y)
    # The sine in the input's own type: near the poles its rounding decides, and PyTorch's has it.
    sine = np.sin(np.pi * input).astype(np.float64)
    return np.where(left, -right + (np.pi / sine) ** 2, right).astype(input.dtype)


@op
class polygamma(Plain):
    """Return the n-th derivative of digamma."""

    inputs = ("input",)
    kind = "elementwise"
    promote = "float"
    forward = _polygamma
    vjp_input = lambda g, n, input: g * ops.polygamma(n + 1, input)
    method = False
    dtypes = "bif"
    samples = lambda rng: [(n, rng.uniform(0.3, 4, (2, 3))) for n in range(4)]


@op
class i0(Unary):
    """Return the modified Bessel function of the first kind of order 0."""

    forward = _one("i0")
    vjp_input = lambda g, input: g * ops.special_i1(input)
    dtypes = "bif"


@op
class special_i0e(Unary):
    """Return exp(−|input|) · i0(input)."""

    forward = _one("i0e")
    vjp_input = lambda g, input, out: g * (ops.special_i1e(input) - ops.sgn(input) * out)
    grad_fn = "SpecialI0EBackward0"
    function = method = inplace = False
    dtypes = "bif"


def _over(out: Any, input: Any) -> Any:
    """Return out / input, and its limit 1/2 at 0."""
    there = input != 0
    return ops.where(there, out / ops.where(there, input, 1), 0.5)


@op
class special_i1(Unary):
    """Return the modified Bessel function of the first kind of order 1."""

    forward = _one("i1")
    vjp_input = lambda g, input, out: g * (ops.i0(input) - _over(out, input))
    function = method = inplace = False
    dtypes = "bif"


@op
class special_i1e(Unary):
    """Return exp(−|input|) · i1(input)."""

    forward = _one("i1e")
    vjp_input = lambda g, input, out: g * (ops.special_i0e(input) - out * ops.sgn(input) - _over(out, input))
    grad_fn = "SpecialI1EBackward0"
    function = method = inplace = False
    dtypes = "bif"


def _logit(input: Any, eps: float | None = None) -> Any:
    x = input if eps is None else np.minimum(np.maximum(input, eps), 1 - eps)
    return np.log(x / (1 - x))


def _logit_vjp(g: Any, input: Any, eps: float | None) -> Any:
    low = 0 if eps is None else eps
    inside = (input >= low) & (input <= 1 - low)
    return ops.where(inside, g / (input * (1 - input)), math.nan if eps is None else 0)


@op
class logit(Unary):
    """Return log(x / (1 − x)), of elements limited to [eps, 1 − eps] if `eps` is given."""

    forward = _logit
    vjp_input = lambda g, input, eps: _logit_vjp(g, input, eps)
    domain = (0.1, 0.9)
    dtypes = "bif"
    samples = lambda rng: [(rng.uniform(0.1, 0.9, (2, 3)),), (rng.uniform(0.3, 0.7, 3), 0.1), (np.array([0.01]), 0.1)]


@op
class special_ndtr(Unary):
    """Return the probability that a standard normal variable is at most the element."""

    forward = _one("ndtr")
    vjp_input = lambda g, input: g * (ops.exp(input * input * -0.5) / math.sqrt(2 * math.pi))
    function = method = inplace = False
    dtypes = "bif"


@op
class special_ndtri(Unary):
    """Return the element whose `ndtr` is given."""

    forward = _one("ndtri")
    vjp_input = lambda g, out: g * (ops.exp(out * out * 0.5) * math.sqrt(2 * math.pi))
    function = method = inplace = False
    domain = (0.1, 0.9)
    dtypes = "bif"


@op
class special_log_ndtr(Unary):
    """Return log(ndtr(input)), accurate for very negative elements."""

    forward = _one("log_ndtr")
    vjp_input = lambda g, input: g * (math.sqrt(2 / math.pi) / ops.special_erfcx(input * -math.sqrt(0.5)))
    function = method = inplace = False
    dtypes = "bif"


@op
class special_entr(Unary):
    """Return −x · log(x), 0 at 0, and -inf below."""

    forward = _one("entr")
    vjp_input = lambda g, input: g * (-ops.log(input) - 1)
    function = method = inplace = False
    domain = (0.2, 3.0)
    dtypes = "bif"


def _xlog1py_vjp(g: Any, input: Any, other: Any) -> Any:
    return ops.where((input == 0) & (other <= -1), 0, ops.special_xlog1py(g, other))


@op
class special_xlog1py(Binary):
    """Return input · log(1 + other), and 0 where `input` is 0 and `other` is not NaN; either may be a number."""

    scalars = "any"
    promote = "float"
    forward = _two("xlog1py")
    grad_fn = (
        "(SpecialXlog1PyBackward0 if hasattr(other, '_node') else SpecialXlog1PyBackward2) "
        "if hasattr(input, '_node') else SpecialXlog1PyBackward1"
    )
    vjp_input = lambda g, input, other: _xlog1py_vjp(g, input, other)
    vjp_other = lambda g, input, other: g * input / (other + 1)
    function = method = inplace = False
    domain = (0.2, 3.0)
    dtypes = "bif"


@op
class special_zeta(Binary):
    """Return the Hurwitz zeta function: the sum of (k + other) ** −input over k from 0; either may be a number."""

    scalars = "any"
    promote = "float"
    forward = _two("zeta")
    grad_fn = (
        "(SpecialZetaBackward0 if hasattr(other, '_node') else SpecialZetaBackward2) "
        "if hasattr(input, '_node') else SpecialZetaBackward1"
    )
    vjp_input = todo
    vjp_other = lambda g, input, other: g * -input * ops.special_zeta(input + 1, other)
    function = method = inplace = False
    domain = (1.5, 3.0)
    dtypes = "bif"


def _at_infinity(out: Any, shape: Any, x: Any, start: int) -> Any:
    """Return `out` with the limits at infinity, which hold even where the other argument is NaN."""
    out = np.where((shape == np.inf) & np.isnan(x), out.dtype.type(start), out)
    return np.where((x == np.inf) & np.isnan(shape), out.dtype.type(1 - start), out)


@op
class igamma(Binary):
    """Return the regularised lower incomplete gamma function."""

    promote = "float"
    scalars = False
    forward = lambda input, other: _at_infinity(_typed("gammainc")(input, other), input, other, 0)
    vjp_input = todo
    vjp_other = lambda g, input, other: g * _gamma_density(input, other)
    domain = (0.3, 4.0)


@op
class igammac(Binary):
    """Return the regularised upper incomplete gamma function."""

    promote = "float"
    scalars = False
    forward = lambda input, other: _at_infinity(_typed("gammaincc")(input, other), input, other, 1)
    vjp_input = todo
    vjp_other = lambda g, input, other: -g * _gamma_density(input, other)
    domain = (0.3, 4.0)


def _gamma_density(shape: Any, x: Any) -> Any:
    return ops.exp((shape - 1) * ops.log(x) - x - ops.lgamma(shape))


@composite(name="polygamma", method="polygamma", function_name=False)
def polygamma_method(input: Tensor, n: int) -> Tensor:
    """Return the n-th derivative of digamma at this tensor's elements."""
    return ops.polygamma(n, input)


def _mvlgamma(input: Any, p: int) -> Any:
    if not isinstance(p, int):
        raise ArgumentError(f"mvlgamma: p must be an int, got {p!r}")
    if p < 1:
        raise ValueRangeError(f"mvlgamma: p must be at least 1, got {p}")
    total = p * (p - 1) / 4 * math.log(math.pi)
    for k in range(p):
        total = total + scipy("gammaln")(input - k / 2)
    return np.asarray(total).astype(input.dtype, copy=False)


def _mvlgamma_vjp(g: Any, input: Any, p: int) -> Any:
    total = ops.digamma(input)
    for k in range(1, p):
        total = total + ops.digamma(input - k / 2)
    return g * total


@op
class mvlgamma(Unary):
    """Return the logarithm of the multivariate gamma function of dimension `p`."""

    forward = _mvlgamma
    vjp_input = lambda g, input, p: _mvlgamma_vjp(g, input, p)
    dtypes = "bif"
    samples = lambda rng: [(rng.uniform(2, 4, (2, 3)), p) for p in (1, 3)]
