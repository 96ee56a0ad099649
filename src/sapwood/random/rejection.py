"""Distributions whose samplers reject: Poisson, binomial, gamma, Dirichlet.

The parameters are arrays; each element takes as many uniforms as its own loop needs, in the arrays' logical order.
float32 parameters keep float32 where PyTorch's samplers do, the rest is float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.errors import DtypeError, ShapeError, ValueRangeError
from sapwood.random.generator import Generator, default_generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Draw = Callable[[], float]

__all__ = ["binomial", "dirichlet", "poisson", "standard_gamma"]


def _require(op: str, *arrays: Array) -> None:
    for array in arrays:
        if array.dtype.char not in "efd" and array.dtype.name != "bfloat16":
            raise DtypeError(f"{op}: expected a floating dtype, got {array.dtype}; convert the parameters")
    if len({array.dtype for array in arrays}) > 1:
        raise DtypeError(f"{op}: parameters differ in dtype: {', '.join(str(a.dtype) for a in arrays)}")


def poisson(rate: Array, *, generator: Generator | None = None) -> Array:
    """Return Poisson counts with the given means: shape and dtype of rate.

    Raises:
        ValueRangeError: a rate is negative.

    Reference: from 10 on the transformed rejection PTRS, Hörmann, Insurance: Mathematics and Economics 12 (1993).
    """
    _require("poisson", rate)
    with (generator or default_generator).doubles() as uniform:
        counts = [_poisson_one(x, uniform) for x in rate.astype(np.float64).reshape(-1).tolist()]
    return np.array(counts, np.float64).reshape(rate.shape).astype(rate.dtype)


def _poisson_one(rate: float, uniform: Draw) -> int:
    if not rate >= 0:
        raise ValueRangeError(f"poisson: a rate must not be negative, got {rate}; use relu or exp")
    if rate == 0:
        return 0
    if rate < 10:
        limit, product, count = math.exp(-rate), uniform(), 0
        while product > limit:
            product *= uniform()
            count += 1
        return count
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = uniform() - 0.5
        v = uniform()
        us = 0.5 - abs(u)
        if us == 0:
            continue
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= v_r:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        log_v = math.log(v) if v else -math.inf
        if log_v + math.log(inverse_alpha) - math.log(a / (us * us) + b) <= (
            -rate + k * log_rate - math.lgamma(k + 1.0)
        ):
            return k


def binomial(count: Array, prob: Array, *, generator: Generator | None = None) -> Array:
    """Return the number of successes in count trials of probability prob: arrays of one shape and dtype.

    Reference: where min(p, 1-p)·count is 10 or more the transformed rejection BTRS, Hörmann, J. Statist. Comput.
    Simul. 46 (1993); below, sums of geometric numbers.
    """
    _require("binomial", count, prob)
    if count.shape != prob.shape:
        raise ShapeError(f"binomial: count {count.shape} and prob {prob.shape} differ; broadcast them first")
    single = np.float64 if count.dtype == np.float64 else np.float32
    pairs = zip(count.astype(single).reshape(-1), prob.astype(single).reshape(-1))
    with (generator or default_generator).doubles() as uniform, np.errstate(all="ignore"):
        out = [_binomial_one(n, p, single, uniform) for n, p in pairs]
    return np.array(out, np.float64).reshape(count.shape).astype(count.dtype)


def _binomial_one(n: Any, p: Any, single: Any, uniform: Draw) -> float:
    if n <= 0 or p <= 0:
        return 0.0
    if p >= 1:
        return float(n)
    if math.isnan(p):
        return math.nan
    q = p if p <= 0.5 else single(1.0 - float(p))
    hits = _transformed(n, q, single, uniform) if n * q >= 10 else _by_gaps(n, q, single, uniform)
    return hits if p <= 0.5 else float(n - single(hits))


def _by_gaps(n: Any, p: Any, single: Any, uniform: Draw) -> float:
    """Count successes by the geometric gaps between them."""
    log_q = float(single(math.log1p(-float(p))))
    total, hits, limit = 0.0, 0, float(n)
    while True:
        u = uniform()
        total += math.ceil(math.log(u) / log_q) if u else math.inf
        if total > limit:
            return float(hits)
        hits += 1


def _transformed(n: Any, p: Any, single: Any, uniform: Draw) -> float:
    """Sample by BTRS. n and p, and what is computed from them alone, stay in the parameters' dtype."""
    one = single(1)
    spread = float(np.sqrt(n * p * (one - p)))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * float(p)
    c = float(n * p) + 0.5
    v_r = 0.92 - 4.2 / b
    r = float(p / (one - p))
    alpha = (2.83 + 5.1 / b) * spread
    m = float(np.floor((n + one) * p))
    trials = float(n)
    while True:
        u = uniform() - 0.5
        v = uniform()
        us = 0.5 - abs(u)
        if us == 0:
            continue
        hits = single(math.floor((2 * a / us + b) * u + c))
        if hits < 0 or hits > n:
            continue
        k = float(hits)
        if us >= 0.07 and v <= v_r:
            return k
        misses = float(n - hits + one)
        log_v = math.log(v * alpha / (a / (us * us) + b)) if v else -math.inf
        if log_v <= (
            (m + 0.5) * math.log((m + 1) / (r * (trials - m + 1)))
            + float(n + one) * math.log((trials - m + 1) / misses)
            + (k + 0.5) * math.log(r * misses / float(hits + one))
            + _stirling_tail(m)
            + _stirling_tail(trials - m)
            - _stirling_tail(k)
            - _stirling_tail(float(n - hits))
        ):
            return k


_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_tail(k: float) -> float:
    """Return log k! minus Stirling's approximation at k."""
    if k < len(_TAILS):
        return _TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


_THIRD = float(np.float32(1) / np.float32(3))
_SQUEEZE = float(np.float32(0.0331))


def standard_gamma(alpha: Array, *, generator: Generator | None = None) -> Array:
    """Return gamma numbers of shape parameter alpha and rate 1: shape and dtype of alpha.

    Reference: Marsaglia and Tsang, A simple method for generating gamma variables, ACM TOMS 26 (2000).
    """
    _require("standard_gamma", alpha)
    single = np.float64 if alpha.dtype == np.float64 else np.float32
    out = _gammas(alpha.astype(single), single, generator or default_generator)
    tiny = np.finfo(alpha.dtype).tiny if alpha.dtype.name != "bfloat16" else np.finfo(np.float32).tiny
    result: Array = np.maximum(out.astype(alpha.dtype), np.asarray(tiny).astype(alpha.dtype))
    return result


def dirichlet(alpha: Array, *, generator: Generator | None = None) -> Array:
    """Return points of the simplex along the last dimension: gamma numbers divided by their sum."""
    _require("dirichlet", alpha)
    gamma = np.maximum(_gammas(alpha.astype(np.float64), np.float64, generator or default_generator), 2.0**-1022)
    share = (gamma / gamma.sum(-1, keepdims=True)).astype(alpha.dtype)
    info = np.finfo(np.float32 if alpha.dtype.name == "bfloat16" else alpha.dtype)
    result: Array = np.clip(share, alpha.dtype.type(info.tiny), alpha.dtype.type(1 - info.epsneg))
    return result


def _gammas(alpha: Array, single: Any, generator: Generator) -> NDArray[np.float64]:
    with generator.doubles() as uniform:
        normal = _normals(generator, uniform)
        values = [_gamma_one(x, single, uniform, normal) for x in alpha.reshape(-1)]
    return np.array(values, np.float64).reshape(alpha.shape)


def _normals(generator: Generator, uniform: Draw) -> Draw:
    """Give a function that draws one standard normal, sharing the generator's spare one."""

    def draw() -> float:
        spare = generator.normal
        if spare is not None:
            generator.normal = None
            return spare
        u1, u2 = uniform(), uniform()
        radius, theta = math.sqrt(-2.0 * math.log1p(-u2)), 2.0 * math.pi * u1
        generator.normal = radius * math.sin(theta)
        return radius * math.cos(theta)

    return draw


def _gamma_one(alpha: Any, single: Any, uniform: Draw, normal: Draw) -> float:
    scale = 1.0
    if alpha < 1:
        if alpha == 0:
            return 0.0
        scale = math.pow(1 - uniform(), float(single(1) / alpha))
        alpha = alpha + single(1)
    d = float(alpha - single(_THIRD))
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal()
        y = 1.0 + c * x
        if y <= 0:
            continue
        v = y * y * y
        u = 1 - uniform()
        xx = x * x
        if u < 1.0 - _SQUEEZE * xx * xx or math.log(u) < 0.5 * xx + d * (1.0 - v + math.log(v)):
            return scale * d * v
