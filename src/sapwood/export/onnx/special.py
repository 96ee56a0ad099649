"""Special functions in terms of elementary ones, for the export: in double precision, from Chebyshev series.

The series are fitted when a model is exported, to the very functions that the ops compute with. Gamma functions follow
from Stirling's series after eight steps of their recurrence.

Reference: Giles, Approximating the erfinv function, GPU Computing Gems 2 (2011), for the variable of erfinv's series.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sapwood.export.onnx.compositions import COMPOSITIONS, along

__all__: list[str] = []

STEPS = 8
"""Steps of the recurrence before Stirling's series, whose error is then below 1e-13."""


def _composes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function of doubles as the composition of the op of its name."""

    @functools.wraps(function)
    def composed(input: Any, **attrs: Any) -> Any:
        import sapwood

        t = input.dtype if input.dtype.is_floating_point else sapwood.get_default_dtype()
        return function(input.to(sapwood.float64), **attrs).to(t)

    COMPOSITIONS[function.__name__] = composed
    return function


def _series(t: Any, function: Callable[[Any], Any], low: float, high: float, terms: int) -> Any:
    """Evaluate a function's Chebyshev series on (low, high); outside, the value at the nearer end."""
    half, middle = (high - low) / 2, (high + low) / 2
    numbers = np.polynomial.chebyshev.chebinterpolate(lambda u: function(half * u + middle), terms)
    u = ((t - middle) / half).clamp(-1, 1)
    one, two = u * 0, u * 0
    for c in numbers[:0:-1]:
        one, two = 2 * u * one - two + float(c), one
    return u * one - two + float(numbers[0])


def _scipy(name: str) -> Any:
    import scipy.special

    return getattr(scipy.special, name)


def _bessel(input: Any, name: str) -> Any:
    """Return exp(−|x|) times a Bessel function of |x|: by its series, and from 8 on by one in 8 / |x|."""
    import sapwood

    function, size = _scipy(name), input.abs()
    far = _series(8 / size.clamp(min=8), lambda u: np.sqrt(8 / u) * function(8 / u), 0, 1, 30)
    return sapwood.where(size > 8, far / size.clamp(min=8).sqrt(), _series(size, function, 0, 8, 40))


@_composes
def special_i0e(input: Any) -> Any:
    return _bessel(input, "i0e")


@_composes
def special_i1e(input: Any) -> Any:
    return _bessel(input, "i1e") * input.sign()


@_composes
def i0(input: Any) -> Any:
    return _bessel(input, "i0e") * input.abs().exp()


@_composes
def special_i1(input: Any) -> Any:
    return _bessel(input, "i1e") * input.abs().exp() * input.sign()


def _erfinv(input: Any, w: Any) -> Any:
    """Return erfinv from its argument and w = −log(1 − argument²)."""
    import sapwood

    def factor(w: Any) -> Any:
        # 1 minus the argument, without cancellation.
        rest = -np.expm1(0.5 * np.log1p(-np.exp(-w)))
        return _scipy("erfcinv")(rest) / np.sqrt(-np.expm1(-w))

    near = _series(w, factor, 0, 6, 40)
    far = _series(w.clamp(min=6).sqrt(), lambda s: factor(s * s), math.sqrt(6), 26, 60)
    made = input * sapwood.where(w > 6, far, near)
    return sapwood.where(w == math.inf, input * math.inf, made)


@_composes
def erfinv(input: Any) -> Any:
    return _erfinv(input, -((1 - input) * (1 + input)).log())


@_composes
def special_ndtri(input: Any) -> Any:
    return _erfinv(2 * input - 1, -(4 * input * (1 - input)).log()) * math.sqrt(2)


def _erfcx(input: Any) -> Any:
    """Return exp(x²) · erfc(x) for x of at least 0."""
    t = 1 - 8 / (input + 4)

    def scaled(t: Any) -> Any:
        x = 4 * (1 + t) / (1 - t)
        return _scipy("erfcx")(x) * (1 + 2 * x)

    return _series(t, scaled, -1, 1, 50) / (1 + 2 * input)


@_composes
def special_erfcx(input: Any) -> Any:
    import sapwood

    made = _erfcx(input.abs())
    return sapwood.where(input < 0, 2 * (input * input).exp() - made, made)


@_composes
def special_log_ndtr(input: Any) -> Any:
    import sapwood

    tail = _erfcx(input.abs() * math.sqrt(0.5)) / 2
    square = input * input / 2
    return sapwood.where(input < 0, tail.log() - square, sapwood.log1p(-tail * (-square).exp()))


def _shifted(input: Any) -> tuple[Any, Any, Any]:
    """Return whether an argument is small, a large one instead, and the argument where it is small."""
    import sapwood

    small = input < STEPS
    return small, sapwood.where(small, input + STEPS, input), input.clamp(max=STEPS)


def _lgamma(input: Any) -> Any:
    """Return the logarithm of the gamma function for positive arguments."""
    import sapwood

    small, z, x = _shifted(input)
    s = 1 / (z * z)
    series = (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188 - s * 691 / 360360))))) / z
    made = (z - 0.5) * z.log() - z + 0.5 * math.log(2 * math.pi) + series
    product = x
    for i in range(1, STEPS):
        product = product * (x + i)
    made = made - sapwood.where(small, product, 1.0).log()
    return sapwood.where(input == math.inf, input, made)


@_composes
def lgamma(input: Any) -> Any:
    import sapwood

    below = input < 0.5
    made = _lgamma(sapwood.where(below, 1 - input, input))
    # By the distance from the nearest pole, where the sine is exact.
    sine = (math.pi * (input - input.round())).sin().abs()
    reflected = math.log(math.pi) - sine.log() - made
    made = sapwood.where(below, reflected, made)
    return sapwood.where((input <= 0) & (input == input.floor()), math.inf, made)


@_composes
def digamma(input: Any) -> Any:
    import sapwood

    below = input < 0
    small, z, x = _shifted(sapwood.where(below, 1 - input, input))
    s = 1 / (z * z)
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * 691 / 32760)))))
    made = z.log() - 0.5 / z - series
    steps = 1 / x
    for i in range(1, STEPS):
        steps = steps + 1 / (x + i)
    made = made - sapwood.where(small, steps, 0.0)
    # The angle's distance from the nearest pole, where the tangent is exact.
    rest = input - input.round()
    made = sapwood.where(below, made - math.pi / (math.pi * rest).tan(), made)
    made = sapwood.where(below & (input == input.floor()), math.nan, made)
    return sapwood.where(input == 0, -1 / input, made)


@_composes
def mvlgamma(input: Any, p: int) -> Any:
    made = input * 0 + p * (p - 1) / 4 * math.log(math.pi)
    for i in range(p):
        made = made + lgamma(input - i / 2)
    return made


def recurrence(input: Any, weight: Any, dim: int) -> Any:
    import sapwood

    if not input.dim() or input.shape[dim] < 2:
        return input.clone()
    rows, factors = input.unbind(dim), weight.unbind(dim)
    made = [rows[0]]
    for row, factor in zip(rows[1:], factors[1:]):
        made.append(row + factor * made[-1])
    return sapwood.stack(made, dim)


def adaptive_avg_pool_gradient(grad: Any, input: Any, output_size: Any) -> Any:
    for i in range(len(output_size)):
        dim = grad.dim() - len(output_size) + i
        n, out = input.shape[dim], grad.shape[dim]
        matrix = np.zeros((out, n))
        for j in range(out):
            a, b = j * n // out, -(-(j + 1) * n // out)
            matrix[j, a:b] = 1 / (b - a)
        grad = along(grad, dim, matrix)
    return grad


COMPOSITIONS |= {"recurrence": recurrence, "adaptive_avg_pool_gradient": adaptive_avg_pool_gradient}
