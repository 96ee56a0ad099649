"""Draws that fill or return arrays, number for number those of PyTorch 2.13 on the CPU.

A name with a trailing underscore fills `out` in place and returns it. An array that is not contiguous is filled in the
order of its memory, as PyTorch does: the transpose of an array gets the same bytes as the array itself.
Real dtypes are float16, bfloat16 (of `ml_dtypes`), float32 and float64; complex arrays take twice as many numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sapwood.errors import DtypeError, ShapeError, ValueRangeError
from sapwood.random.boxmuller import block_normals32, block_normals64, serial_normals
from sapwood.random.generator import Generator, default_generator, native
from sapwood.random.rounding import fma32, fma64, libm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike, NDArray

    Array = NDArray[Any]
    A = TypeVar("A", bound=NDArray[Any])

__all__ = [
    "bernoulli",
    "bernoulli_",
    "cauchy_",
    "dropout_noise_",
    "exponential_",
    "geometric_",
    "log_normal_",
    "normal",
    "normal_",
    "rand",
    "randn",
    "trunc_normal_",
    "uniform_",
]


def assign(out: A, values: Array) -> A:
    """Write values (n,) into out in the order of its memory; float16 and bfloat16 are rounded through float32."""
    if values.dtype == np.float64 and out.dtype.itemsize == 2 and is_floating(out.dtype):
        with np.errstate(over="ignore"):
            values = values.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        if out.flags.c_contiguous:
            np.copyto(out.reshape(-1), values, casting="unsafe")
        else:
            order = sorted(range(out.ndim), key=lambda d: -abs(out.strides[d]))
            view = out.transpose(order)
            np.copyto(view, values.reshape(view.shape), casting="unsafe")
    return out


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Tell whether dtype is one of the four real dtypes."""
    return dtype.char in "efd" or dtype.name == "bfloat16"


def require_floating(op: str, dtype: np.dtype[Any]) -> None:
    """Raise DtypeError unless dtype is real."""
    if not is_floating(dtype):
        raise DtypeError(f"{op}: expected a floating dtype, got {dtype}; fill a floating array and convert it")


def as_real(out: Array) -> Array:
    """View a complex array as reals with a last dimension of size 2."""
    return out[..., np.newaxis].view(np.dtype(f"f{out.itemsize // 2}"))


_FINFO = {
    "e": (65504.0, 11),
    "f": (float(np.finfo(np.float32).max), 24),
    "d": (float(np.finfo(np.float64).max), 53),
    "bfloat16": (3.3895313892515355e38, 8),
}


def finfo(dtype: np.dtype[Any]) -> tuple[float, int]:
    """Return the largest number of a real dtype and the bits of its significand."""
    return _FINFO.get(dtype.char) or _FINFO[dtype.name]


def uniform_(out: A, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None) -> A:
    """Fill out with numbers uniform in [low, high).

    Raises:
        ValueRangeError: low > high, or a bound or their distance is too large for the dtype.
        DtypeError: out is neither real nor complex.
    """
    if out.dtype.kind == "c":
        uniform_(as_real(out), low, high, generator=generator)
        return out
    require_floating("uniform_", out.dtype)
    largest, _ = finfo(out.dtype)
    if not (-largest <= low <= largest and -largest <= high <= largest):
        raise ValueRangeError(f"uniform_: bounds must fit {out.dtype}, got low={low}, high={high}; use a wider dtype")
    if low > high or high - low > largest:
        raise ValueRangeError(
            f"uniform_: expected low <= high and high - low within {out.dtype}, got low={low}, high={high}"
        )
    if out.size == 0:
        return out
    g = generator or default_generator
    if _plain(out):
        kernels = native(out.size)
        if kernels is not None:
            with g.lock:
                if out.dtype == np.float64:
                    kernels.uniform(g.address(), out, high - low, low, high)
                else:
                    first, last = np.float32(low), np.float32(high)
                    with np.errstate(over="ignore"):
                        kernels.uniform(g.address(), out, float(last - first), float(first), float(last))
            return out
    values: Array
    if out.dtype == np.float64:
        values = fma64(g.uniform53(out.size), high - low, low)
    else:
        first, last = np.float32(low), np.float32(high)
        with np.errstate(over="ignore"):
            values = fma32(g.uniform24(out.size), float(last - first), float(first)).astype(out.dtype, copy=False)
    if out.dtype.itemsize == 2 or high != 1.0 or low != 0.0:
        reached = values == out.dtype.type(high)  # by rounding up
        if reached.any():
            values[reached] = low
    return assign(out, values)


def normal_(out: A, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> A:
    """Fill out with normal numbers. A complex number has the variance std**2, half of it in either part.

    Raises:
        ValueRangeError: std < 0.
        DtypeError: out is neither real nor complex.
    """
    if not std >= 0.0:
        raise ValueRangeError(f"normal_: std must be at least 0, got {std}; pass its absolute value")
    if out.dtype.kind == "c":
        normal_(as_real(out), mean, std / math.sqrt(2), generator=generator)
        return out
    require_floating("normal_", out.dtype)
    n = out.size
    if n == 0:
        return out
    g = generator or default_generator
    if n < 16 or not out.flags.c_contiguous:
        return assign(out, fma64(serial_normals(g, n), std, mean))
    if out.dtype == np.float64:
        return assign(out, block_normals64(g, n, mean, std))
    return assign(out, block_normals32(g, n, mean, std, narrow=out.dtype.itemsize == 2))


def normal(mean: Array | float, std: Array | float, *, generator: Generator | None = None) -> Array:
    """Draw normals whose mean, standard deviation or both are given element by element (`torch.normal`).

    Args:
        mean, std: arrays that broadcast against each other, or one of them a number. The mean's dtype decides if it is
            an array, else that of std.

    Raises:
        ValueRangeError: an element of std is negative.
    """
    like = mean if isinstance(mean, np.ndarray) else std
    if not isinstance(like, np.ndarray):
        raise DtypeError("normal: expected an array for mean or std, got two numbers; use normal_ for a given size")
    if isinstance(std, np.ndarray):
        if std.dtype.kind == "c":
            raise DtypeError("normal: std must be real, got a complex array")
        if std.size and not (std >= 0).all():
            raise ValueRangeError("normal: every element of std must be at least 0; pass its absolute value")
    try:
        shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    except ValueError:
        raise ShapeError(f"normal: mean {np.shape(mean)} and std {np.shape(std)} do not broadcast") from None
    out = np.empty(shape, like.dtype)
    scale = isinstance(std, np.ndarray)
    normal_(out, 0.0, 1.0 if scale else std, generator=generator)  # type: ignore[arg-type]
    if scale:
        np.multiply(out, std, out=out, casting="unsafe")
    np.add(out, np.asarray(mean, None if isinstance(mean, np.ndarray) else out.dtype), out=out, casting="unsafe")
    return out


def rand(shape: Sequence[int], dtype: DTypeLike = np.float32, *, generator: Generator | None = None) -> Array:
    """Return numbers uniform in [0, 1)."""
    return uniform_(np.empty(shape, dtype), generator=generator)


def randn(shape: Sequence[int], dtype: DTypeLike = np.float32, *, generator: Generator | None = None) -> Array:
    """Return standard normal numbers."""
    return normal_(np.empty(shape, dtype), generator=generator)


def _scalar_law(op: str, out: A, values: Array) -> A:
    if out.dtype.kind == "c":
        raise DtypeError(f"{op}: expected a real dtype, got {out.dtype}; fill real and imaginary parts separately")
    return assign(out, values)


def exponential_(out: A, rate: float = 1.0, *, generator: Generator | None = None) -> A:
    """Fill out with exponential numbers of the given rate, the inverse of their mean.

    Raises:
        ValueRangeError: rate <= 0.
        DtypeError: out is not real.
    """
    if not rate > 0.0:
        raise ValueRangeError(f"exponential_: rate must be positive, got {rate}")
    require_floating("exponential_", out.dtype)
    if out.size == 0:
        return out
    u = (generator or default_generator).uniform53(out.size)
    return assign(out, (-1.0 / rate) * libm(math.log1p, -u))


def cauchy_(out: A, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> A:
    """Fill out with Cauchy numbers; sigma is half the distance between the quartiles.

    Raises:
        ValueRangeError: sigma <= 0.
        DtypeError: out is not real.
    """
    if not sigma > 0.0:
        raise ValueRangeError(f"cauchy_: sigma must be positive, got {sigma}")
    require_floating("cauchy_", out.dtype)
    if out.size == 0:
        return out
    u = (generator or default_generator).uniform53(out.size)
    return assign(out, fma64(libm(math.tan, math.pi * (u - 0.5)), sigma, median))


def log_normal_(out: A, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> A:
    """Fill out with exp(z), z normal with the given mean and standard deviation.

    Raises:
        ValueRangeError: std <= 0.
        DtypeError: out is not real.
    """
    if not std > 0.0:
        raise ValueRangeError(f"log_normal_: std must be positive, got {std}")
    require_floating("log_normal_", out.dtype)
    if out.size == 0:
        return out
    z = fma64(serial_normals(generator or default_generator, out.size), std, mean)
    return assign(out, libm(math.exp, z))


def geometric_(out: A, p: float, *, generator: Generator | None = None) -> A:
    """Fill out (any real or integer dtype) with the number of trials up to the first success, at least 1.

    Raises:
        ValueRangeError: p outside (0, 1).
    """
    if not 0.0 < p < 1.0:
        raise ValueRangeError(f"geometric_: p must lie strictly between 0 and 1, got {p}")
    if out.dtype.kind not in "iu" and not is_floating(out.dtype):
        raise DtypeError(f"geometric_: expected a real or integer dtype, got {out.dtype}")
    if out.size == 0:
        return out
    u = (generator or default_generator).uniform53(out.size)
    return assign(out, np.ceil(libm(math.log, u) / math.log1p(-p)))


def _plain(out: Array) -> bool:
    """Return whether native code can fill the array: float32 or float64 in order."""
    return out.dtype.char in "fd" and out.flags.carray


def _toss(g: Generator, out: Array, p: float, one: float = 1.0) -> bool:
    """Fill out with `one` at probability p, else 0, by native code; return whether there is any for this array."""
    if not out.flags.carray:
        return False
    kernels = native(out.size)
    if kernels is None or not kernels.tossable(out.dtype):
        return False
    with g.lock:
        kernels.toss(g.address(), out, math.ceil(p * 2.0**53), one)
    return True


def bernoulli_(out: A, p: float | Array = 0.5, *, generator: Generator | None = None) -> A:
    """Fill out (any dtype but complex) with ones of probability p and zeros.

    Args:
        p: a number, compared with 53-bit uniforms; or an array that broadcasts to out, compared with 53-bit uniforms
            if it is float64, else with 24-bit ones.

    Raises:
        ValueRangeError: a probability outside [0, 1].
    """
    g = generator or default_generator
    if not isinstance(p, np.ndarray):
        if not 0.0 <= p <= 1.0:
            raise ValueRangeError(f"bernoulli_: p must lie in [0, 1], got {p}")
        if out.size == 0:
            return out
        if _toss(g, out, p):
            return out
        # u < p for u = k·2**-53, decided on integers: scaling by a power of two is exact.
        return _scalar_law("bernoulli_", out, g.bits53(out.size) < math.ceil(p * 2.0**53))
    require_floating("bernoulli_", p.dtype)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueRangeError("bernoulli_: every probability must lie in [0, 1]; use sigmoid or clamp")
    if out.size == 0:
        return out
    order = sorted(range(out.ndim), key=lambda d: -abs(out.strides[d]))
    limit = np.broadcast_to(p, out.shape).transpose(order).reshape(-1)
    if p.dtype == np.float64:
        return _scalar_law("bernoulli_", out, g.uniform53(out.size) < limit)
    return _scalar_law("bernoulli_", out, g.uniform24(out.size) < limit.astype(np.float32, copy=False))


def bernoulli(p: Array, *, generator: Generator | None = None) -> Array:
    """Return ones with the probabilities p and zeros: shape and dtype of p."""
    return bernoulli_(np.empty(p.shape, p.dtype), p, generator=generator)


def dropout_noise_(out: A, p: float, *, generator: Generator | None = None) -> A:
    """Fill out with what dropout multiplies by: 0 with probability p, else 1 / (1 - p)."""
    if not 0.0 <= p <= 1.0:
        raise ValueRangeError(f"dropout: p must lie in [0, 1], got {p}")
    single = np.float64 if out.dtype == np.float64 else np.float32
    one: Any = (single(1) / single(1.0 - p)).astype(out.dtype) if 0.0 < p < 1.0 else 1.0
    if out.size and _plain(out) and _toss(generator or default_generator, out, 1.0 - p, float(one)):
        return out
    bernoulli_(out, 1.0 - p, generator=generator)
    if 0.0 < p < 1.0:
        out *= one
    return out


def trunc_normal_(
    out: A, mean: float = 0.0, std: float = 1.0, low: float = -2.0, high: float = 2.0, *,
    generator: Generator | None = None,
) -> A:  # fmt: skip
    """Fill out with normal numbers that lie in [low, high] (`torch.nn.init.trunc_normal_`).

    Where more than 0.3 of the mass lies inside, normals are redrawn until they do; elsewhere uniform candidates are
    accepted in proportion to the density. Every round draws for all elements.
    """
    cdf = [(1.0 + math.erf((bound - mean) / std / math.sqrt(2.0))) / 2.0 for bound in (low, high)]
    if cdf[1] - cdf[0] > 0.3:
        least, most = (out.dtype.type(bound) for bound in (low, high))
        normal_(out, mean, std, generator=generator)
        while (missed := (out < least) | (out > most)).any():
            np.copyto(out, normal_(np.empty_like(out), mean, std, generator=generator), where=missed)
        return out
    single = np.float64 if out.dtype == np.float64 else np.float32
    peak = -0.5 * ((max(low, min(mean, high)) - mean) / std) ** 2
    pending = np.ones(out.shape, np.bool_)
    candidate, height = np.empty_like(out), np.empty_like(out)
    while pending.any():
        uniform_(candidate, low, high, generator=generator)
        np.copyto(out, candidate, where=pending)
        log_density = _rounded(candidate, lambda x: x - single(out.dtype.type(mean)))
        log_density = _rounded(log_density, lambda x: x / single(std))
        log_density = _rounded(log_density, lambda x: x * x)
        log_density = _rounded(log_density, lambda x: x * single(-0.5))
        log_density = _rounded(log_density, lambda x: x - single(out.dtype.type(peak)))
        uniform_(height, generator=generator)
        with np.errstate(divide="ignore"):
            pending &= _rounded(height, np.log) > log_density
    return out


def _rounded(x: A, function: Callable[[Array], Array]) -> A:
    """Apply a function in float32 or wider and round to the dtype of x, as one op of PyTorch does."""
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return function(wide).astype(x.dtype, copy=False)  # type: ignore[return-value]
