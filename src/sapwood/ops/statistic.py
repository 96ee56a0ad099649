"""Spread and frequency: `var`, `std` and their kin, `cov`, `corrcoef`, `histc`, `bincount`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import ops
from ..dtypes import F32, F64
from ..errors import DtypeError, ShapeError, ValueRangeError
from ..tensor import Tensor
from .declare import Plain, Reduction, composite, op
from .reduce import add_reduce, count, dims_of, restore_dims


def _moments(name: str, a: Any, dim: Any, correction: float, keepdim: bool) -> tuple[Any, Any]:
    """Return (variance, mean) along `dim`, computed in double precision."""
    if a.dtype.kind not in "fc":
        raise DtypeError(f"{name}: input must be floating-point or complex, got {a.dtype.name}; use input.float()")
    n = count(a.shape, dim)
    wide = a.astype(np.complex128 if a.dtype.kind == "c" else F64, copy=False)
    dof = max(n - correction, 0)
    if dof == 0:
        warnings.warn(
            f"{name}: {n} elements with correction {correction} leave no degree of freedom; the result is nan or inf",
            UserWarning,
            stacklevel=5,
        )
    with np.errstate(all="ignore"):
        middle = add_reduce(wide, dim, None, None, True) / n
        apart = wide - middle
        square = apart * apart if a.dtype.kind != "c" else apart.real**2 + apart.imag**2
        out = np.asarray(add_reduce(square, dim, None, None, keepdim)) / np.float64(dof)
    middle = middle if keepdim else np.asarray(middle).reshape(np.shape(out))
    return out, middle


def _cast(x: Any, like: Any, real: bool) -> Any:
    return np.asarray(x).astype(like.real.dtype if real else like.dtype, copy=False)


def variance_back(g: Any, input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """Return the gradient of the variance."""
    dof = count(input.shape, dim) - correction
    apart = input - ops.mean(input, dim, True)
    if dof <= 0:
        at_mean = apart == 0
        apart = ops.masked_fill(ops.masked_fill(apart, at_mean, float("nan")), ops.logical_not(at_mean), float("inf"))
        dof = 2
    return restore_dims(g * (2 / dof), input.shape, dim, keepdim) * apart


class Spread(Reduction):
    """A reduction with `correction`: what is taken off the number of elements."""

    function = method = False
    holomorphic = False
    kernel = "the variance is summed in double precision"
    dtypes = "fc"
    samples = lambda rng: [
        (rng.standard_normal((3, 4)),),
        (rng.standard_normal((3, 4)), 1, 0, True),
        (rng.standard_normal((3, 4, 2)), (0, 2)),
    ]


def _canon(name: str) -> Any:
    def canon(a: Any, dim: Any, correction: Any, keepdim: Any) -> tuple[Any, ...]:
        return dims_of(name, a, dim), correction, keepdim

    return canon


@op
class var_(Spread):
    """Return the variance, of the whole tensor or along `dim`."""

    canon = _canon("var")
    vjp_input = lambda g, input, dim, correction, keepdim: variance_back(g, input, dim, correction, keepdim)
    reference = lambda input, dim=None, correction=1, keepdim=False: np.var(
        input, axis=dim, ddof=correction, keepdims=keepdim
    )

    def forward(input, dim=None, correction=1, keepdim=False):
        return _cast(_moments("var", input, dim, correction, keepdim)[0], input, True)


@op
class std_(Spread):
    """Return the standard deviation, of the whole tensor or along `dim`."""

    canon = _canon("std")
    vjp_input = lambda g, input, out, dim, correction, keepdim: variance_back(
        ops.masked_fill(g / (2 * out), out == 0, 0), input, dim, correction, keepdim
    )
    reference = lambda input, dim=None, correction=1, keepdim=False: np.std(
        input, axis=dim, ddof=correction, keepdims=keepdim
    )

    def forward(input, dim=None, correction=1, keepdim=False):
        return _cast(np.sqrt(_moments("std", input, dim, correction, keepdim)[0]), input, True)


def _mean_back(g: Any, shape: Any, dim: Any, keepdim: bool) -> Any:
    return restore_dims(g / count(shape, dim), shape, dim, keepdim)


@op
class var_mean_(Spread):
    """Return (variance, mean), of the whole tensor or along `dim`."""

    many = True
    canon = _canon("var_mean")
    vjp_input = lambda g, input, dim, correction, keepdim: (
        variance_back(g[0], input, dim, correction, keepdim) + _mean_back(g[1], input.shape, dim, keepdim)
    )

    def forward(input, dim=None, correction=1, keepdim=False):
        spread, middle = _moments("var_mean", input, dim, correction, keepdim)
        return _cast(spread, input, True), _cast(middle, input, False)


@op
class std_mean_(Spread):
    """Return (standard deviation, mean), of the whole tensor or along `dim`."""

    many = True
    canon = _canon("std_mean")

    def forward(input, dim=None, correction=1, keepdim=False):
        spread, middle = _moments("std_mean", input, dim, correction, keepdim)
        return _cast(np.sqrt(spread), input, True), _cast(middle, input, False)

    def vjp_input(g, input, dim, correction, keepdim):
        spread = std_(input, dim, correction, keepdim)
        part = ops.masked_fill(g[0] / (2 * spread), spread == 0, 0)
        spread_part = variance_back(part, input, dim, correction, keepdim)
        return spread_part + _mean_back(g[1], input.shape, dim, keepdim)


_var, _std, _var_mean, _std_mean = var_, std_, var_mean_, std_mean_


def _arguments(dim: Any, unbiased: Any, keepdim: Any, correction: Any, axis: Any, keepdims: Any) -> tuple[Any, ...]:
    """Return (dim, correction, keepdim) from PyTorch's older and newer forms of the call."""
    dim, keepdim = dim if axis is None else axis, keepdim if keepdims is None else keepdims
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return dim, correction, keepdim


def _spread(name: str, own: Any, method: bool, text: str) -> None:
    """Make one of the four public functions, which differ in the op they call."""

    def function(
        input: Any,
        dim: Any = None,
        unbiased: Any = None,
        keepdim: bool = False,
        *,
        correction: Any = None,
        out: Any = None,
        axis: Any = None,
        keepdims: Any = None,
    ) -> Any:
        given = _arguments(dim, unbiased, keepdim, correction, axis, keepdims)
        if out is None or own.op.many:
            return own(input, *given)
        return own(input, *given, out=out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{text}

    Args:
        input: floating-point or complex.
        dim: an int or several; None takes all elements.
        unbiased: the older form of `correction`: True is 1, False is 0.
        correction: what is taken off the number of elements before dividing by it; 1 if not given.
    """
    composite(function, name=name, method=method) if method is False else composite(name=name, method=True)(function)


_spread("var", _var, True, "Return the variance, of the whole tensor or along `dim`.")
_spread("std", _std, True, "Return the standard deviation, of the whole tensor or along `dim`.")
_spread("var_mean", _var_mean, False, "Return (variance, mean), of the whole tensor or along `dim`.")
_spread("std_mean", _std_mean, False, "Return (standard deviation, mean), of the whole tensor or along `dim`.")


def _weights(name: str, w: Tensor, n: int, integral: bool) -> None:
    if w.ndim > 1 or w.numel() != n:
        raise ShapeError(f"cov: {name} must be a vector of {n}, one weight per observation, got shape {tuple(w.shape)}")
    if (w._array.dtype.kind in "biu") is not integral:
        raise DtypeError(f"cov: {name} must be {'integers' if integral else 'floating-point'}, got {w.dtype.name}")
    if type(w._array) is np.ndarray and w._array.size and (w._array < 0).any():
        raise ValueRangeError(f"cov: {name} must not be negative")


@composite(method=True)
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Return the covariance matrix of variables (rows) over observations (columns).

    Args:
        input: (variables, observations), or a vector of observations of one variable.
        correction: what is taken off the number of observations.
        fweights: (observations,), integers: how often each was seen.
        aweights: (observations,), float: how much each counts.

    Raises:
        ShapeError: the input has more than two dimensions, or the weights do not fit.
    """
    if input.ndim > 2:
        raise ShapeError(f"cov: input must have at most two dimensions, got shape {tuple(input.shape)}")
    if input._array.dtype.kind == "b":
        raise DtypeError("cov: input must be numbers, got bool")
    x = input if input.ndim == 2 else ops.reshape(input, (1, -1))
    n = x.shape[1]
    w = None
    if fweights is not None:
        _weights("fweights", fweights, n, True)
        w = fweights
    if aweights is not None:
        _weights("aweights", aweights, n, False)
        w = aweights if w is None else w * aweights
    total: Any = n if w is None else ops.sum(w)
    if w is not None and n and float(total.item()) == 0:
        raise ValueRangeError("cov: the weights add up to zero")
    middle = ops.sum(x if w is None else x * w, 1, True) / total
    factor: Any = total - correction
    if w is not None and aweights is not None and correction:
        weight = w * aweights if fweights is not None else w * w
        if fweights is not None:
            weight = w * aweights
        factor = total - correction * ops.sum(weight) / total
    factor = max(factor, 0) if not isinstance(factor, Tensor) else ops.clamp(factor, min=0)
    if not isinstance(factor, Tensor) and factor == 0:
        warnings.warn("cov: no degree of freedom is left; the result is nan or inf", UserWarning, stacklevel=2)
    x = x - middle
    y = ops.transpose(ops.conj(x if w is None else x * w), 0, 1)
    out = ops.matmul(x, y)
    out = ops.true_divide(out, factor)
    return ops.squeeze(out) if out.numel() == 1 else out


@composite(method=True)
def corrcoef(input: Any) -> Any:
    """Return the correlation coefficients of variables (rows) over observations (columns), within [-1, 1].

    Raises:
        ShapeError: the input has more than two dimensions.
    """
    if input.ndim > 2:
        raise ShapeError(f"corrcoef: input must have at most two dimensions, got shape {tuple(input.shape)}")
    c = cov(input)
    if c.ndim == 0:
        return c / c
    d = ops.diagonal(c)
    scale = ops.sqrt(ops.real(d) if c.is_complex() else d)
    c = c / ops.unsqueeze(scale, 1) / ops.unsqueeze(scale, 0)
    if c.is_complex():
        return ops.complex(ops.clamp(ops.real(c), -1, 1), ops.clamp(ops.imag(c), -1, 1))
    return ops.clamp(c, -1, 1)


@op
class histc(Plain):
    """Count the elements that fall into each of `bins` equal intervals between `min` and `max`.

    Args:
        input: floating-point.
        min, max: the ends of the range, in units of the input; both 0 takes the range of the data.

    Raises:
        ValueRangeError: no bins, max below min, or a range that is not finite.
    """

    inputs = ("input",)
    kind = "index"
    samples = lambda rng: [(rng.standard_normal((3, 4)), 5), (rng.standard_normal(9), 4, -1, 1)]

    def forward(input, bins=100, min=0, max=0):
        if input.dtype.kind != "f":
            raise DtypeError(f"histc: input must be floating-point, got {input.dtype.name}; use input.float()")
        if bins <= 0:
            raise ValueRangeError(f"histc: bins must be positive, got {bins}")
        if max < min:
            raise ValueRangeError(f"histc: max must not be below min, got {min} and {max}")
        x = input.reshape(-1)
        if min == max and x.size:
            min, max = float(np.minimum.reduce(x)), float(np.maximum.reduce(x))
        if min == max:
            min, max = min - 1, max + 1
        if not (np.isfinite(min) and np.isfinite(max)):
            raise ValueRangeError(f"histc: the range must be finite, got {min} to {max}")
        x = x[(x >= min) & (x <= max)]
        at = ((x - input.dtype.type(min)) * bins / input.dtype.type(max - min)).astype(np.int64)
        return np.bincount(np.minimum(at, bins - 1), minlength=bins).astype(input.dtype)


@op
class bincount(Plain):
    """Count how often each value occurs in a vector of non-negative integers, or add up their weights.

    Args:
        input: (n,), integers, at least 0.
        weights: (n,), float32 adds up in float32, all else in float64.
        minlength: the result has at least this many entries.

    Raises:
        ShapeError: not vectors of one length.
        ValueRangeError: a negative value.
    """

    inputs = ("input", "weights")
    kind = "index"
    half = False
    takes_out = False
    dtypes = "i"
    numpy = (np.bincount,)
    samples = lambda rng: [(np.array([1, 0, 3, 1]),), (np.array([1, 0, 3, 1]), rng.standard_normal(4), 6)]
    reference = lambda input, weights=None, minlength=0: np.bincount(input, weights, minlength)

    def forward(input, weights=None, minlength=0):
        if input.dtype.kind not in "iu":
            raise DtypeError(f"bincount: input must be integers, got {input.dtype.name}")
        if input.ndim != 1 or (input.size and input.min() < 0):
            raise ValueRangeError(f"bincount: input must be a vector of values of at least 0, got shape {input.shape}")
        if minlength < 0:
            raise ValueRangeError(f"bincount: minlength must be at least 0, got {minlength}")
        if weights is None:
            return np.bincount(input.astype(np.int64, copy=False), minlength=minlength)
        if weights.shape != input.shape:
            raise ShapeError(f"bincount: weights must have the input's shape {input.shape}, got {weights.shape}")
        out = np.bincount(input.astype(np.int64, copy=False), weights.astype(F64, copy=False), minlength)
        return out.astype(F32) if weights.dtype == F32 else out
