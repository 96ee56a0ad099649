"""Random tensors: `rand`, `randn`, `randint`, `randperm`, `normal`, `bernoulli`, `multinomial`, `poisson`, and the
in-place `uniform_`, `normal_`, `random_` …

The numbers are those of `sapwood.random`, and so PyTorch's. Where PyTorch records a node, one is recorded that sends
back zeros: a random number owes its parameters nothing that differentiation could see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import ArgumentError, DtypeError, GradError, MissingError, ShapeError, ValueRangeError
from ..random import arrays as streams
from ..state import GRAD, get_mode
from ..tensor import Tensor
from .declare import composite
from .filling import deliver, like_array
from .out import write_out
from .overwrite import forgetting, overwrite
from .record import is_differentiable
from .values import Array, check_place, integer, leaf, number, sequence_size, size_of


def _generator(op: str, generator: Any) -> Any:
    if generator is not None and not isinstance(generator, streams.Generator):
        raise ArgumentError(f"{op}: generator must be a Generator, got {type(generator).__name__}")
    return generator


class _NoKernelError(DtypeError, MissingError):
    """A type that cannot be drawn: PyTorch raises NotImplementedError for it."""


def _require_floating(op: str, dtype: dtypes.dtype) -> None:
    if dtype.category < dtypes.FLOAT:
        raise _NoKernelError(f"{op}: a floating-point or complex dtype is expected, got {dtype.name}")


# -- of a given size --------------------------------------------------------------------------------------------------


def _draw(
    op: str, fill: Callable[..., Any], shape: Any, generator: Any, layout: Any, device: Any
) -> Callable[..., Array]:
    if device is not None or layout is not None:
        check_place(op, device, layout)
    _generator(op, generator)

    def make(dtype: dtypes.dtype) -> Array:
        _require_floating(op, dtype)
        found: Array = fill(np.empty(shape, dtype.numpy), generator=generator)
        return found

    return make


@composite
def rand(
    *given: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False, names: Any = None,
) -> Tensor:  # fmt: skip
    """Return numbers uniform in [0, 1), of a size given as integers or as one sequence."""
    make = _draw("rand", streams.uniform_, size_of("rand", given, size), generator, layout, device)
    return deliver("rand", make, out, dtype, dtypes.get_default_dtype(), requires_grad)


@composite
def randn(
    *given: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False, names: Any = None,
) -> Tensor:  # fmt: skip
    """Return standard normal numbers, of a size given as integers or as one sequence."""
    make = _draw("randn", streams.normal_, size_of("randn", given, size), generator, layout, device)
    return deliver("randn", make, out, dtype, dtypes.get_default_dtype(), requires_grad)


@composite
def randint(
    *bounds: Any, low: Any = None, high: Any = None, size: Any = None, generator: Any = None, out: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return integers uniform in [low, high): randint(high, size) or randint(low, high, size), int64 by default.

    Raises:
        ValueRangeError: no integer lies in the range, or the dtype cannot hold it.
    """
    check_place("randint", device, layout)
    _generator("randint", generator)
    if size is None and bounds:
        bounds, size = bounds[:-1], bounds[-1]
    first, last = _bounds("randint", bounds, low, high)
    shape = sequence_size("randint", size)
    make = lambda t: streams.random_(np.empty(shape, t.numpy), first, last, generator=generator)
    return deliver("randint", make, out, dtype, dtypes.int64, requires_grad)


def _bounds(op: str, given: tuple[Any, ...], low: Any, high: Any) -> tuple[int, int]:
    names = ["high"] if len(given) == 1 and high is None else ["low", "high"]
    values = {"low": low, "high": high} | dict(zip(names, given))
    if values["high"] is None or len(given) > len(names):
        raise ArgumentError(f"{op}: high, or low and high, are expected, got {given}")
    return 0 if values["low"] is None else integer(op, "low", values["low"]), integer(op, "high", values["high"])


@composite
def randperm(
    n: int, *, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return the integers 0 … n - 1 in random order."""
    check_place("randperm", device, layout)
    count, _generated = integer("randperm", "n", n), _generator("randperm", generator)

    def make(dtype: dtypes.dtype) -> Array:
        if dtype.category == dtypes.COMPLEX or dtype is dtypes.bool_:
            raise _NoKernelError(f"randperm: an integer or floating-point dtype is expected, got {dtype.name}")
        if dtype.category == dtypes.INT and count - 1 > np.iinfo(dtype.numpy).max:
            raise ValueRangeError(f"randperm: {dtype.name} does not hold {count - 1}; use a wider dtype")
        return streams.randperm(count, dtype.numpy, generator=generator)

    return deliver("randperm", make, out, dtype, dtypes.int64, requires_grad)


def _like(op: str, input: Any, draw: Any, dtype: Any, layout: Any, device: Any, form: Any, grad: bool) -> Tensor:
    if not isinstance(input, Tensor):
        raise ArgumentError(f"{op}: input must be a tensor, got {type(input).__name__}")
    check_place(op, device, layout)
    return leaf(draw(like_array(input, dtype, form, op)), grad)


def _continuous(op: str, fill: Callable[..., Any], generator: Any) -> Callable[[Array], Array]:
    _generator(op, generator)

    def draw(a: Array) -> Array:
        _require_floating(op, dtypes.of_numpy(a.dtype))
        found: Array = fill(a, generator=generator)
        return found

    return draw


@composite
def rand_like(
    input: Tensor, *, generator: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Return numbers uniform in [0, 1) in the input's shape and dtype."""
    draw = _continuous("rand_like", streams.uniform_, generator)
    return _like("rand_like", input, draw, dtype, layout, device, memory_format, requires_grad)


@composite
def randn_like(
    input: Tensor, *, generator: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Return standard normal numbers in the input's shape and dtype."""
    draw = _continuous("randn_like", streams.normal_, generator)
    return _like("randn_like", input, draw, dtype, layout, device, memory_format, requires_grad)


@composite
def randint_like(
    input: Tensor, *bounds: Any, low: Any = None, high: Any = None, generator: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Return integers uniform in [low, high) in the input's shape and dtype: randint_like(input, [low,] high)."""
    _generator("randint_like", generator)
    first, last = _bounds("randint_like", bounds, low, high)
    draw = lambda a: streams.random_(a, first, last, generator=generator)
    return _like("randint_like", input, draw, dtype, layout, device, memory_format, requires_grad)


# -- with given parameters --------------------------------------------------------------------------------------------


def _drawn(op: str, array: Array, sources: tuple[Any, ...], node_name: str, out: Any) -> Tensor:
    """Return drawn numbers as a tensor that sends zeros back to `sources`, or write them into `out`."""
    wanted = [s for s in sources if isinstance(s, Tensor) and s._node is not None] if get_mode() & GRAD else []
    if out is not None:
        if wanted:
            raise GradError(f"{op}: with out= nothing is recorded, but an input requires grad; detach it or drop out=")
        write_out(op, out, array)
        return out
    t = leaf(array)
    if wanted and is_differentiable(array.dtype):
        t._node = forgetting(node_name, array, *wanted)
    return t


def _floats(op: str, name: str, input: Any) -> Array:
    if not isinstance(input, Tensor):
        raise ArgumentError(f"{op}: {name} must be a tensor, got {type(input).__name__}")
    if input.dtype.category < dtypes.FLOAT:
        raise _NoKernelError(f"{op}: {name} must be of a floating-point dtype, got {input.dtype.name}")
    return input._array


@composite
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return normal numbers, with the mean and the standard deviation of each given by tensors, or both by numbers.

    Args:
        mean, std: numbers or tensors that broadcast against each other.
        size: the result's size; needed, and allowed, only where both are numbers.

    Raises:
        ValueRangeError: a negative standard deviation.
        ShapeError: mean and std do not broadcast.
    """
    check_place("normal", device, layout)
    _generator("normal", generator)
    means, stds = isinstance(mean, Tensor), isinstance(std, Tensor)
    if not (means or stds):
        first, second = number("normal", "mean", mean), number("normal", "std", std)
        if size is None:
            raise ArgumentError("normal: a size is expected, as in normal(0., 1., (2, 3)), or a tensor for mean or std")
        shape = sequence_size("normal", size) if not isinstance(size, int) else size_of("normal", (size,))

        def make(t: dtypes.dtype) -> Array:
            _require_floating("normal", t)
            return streams.normal_(np.empty(shape, t.numpy), first, second, generator=generator)

        return deliver("normal", make, out, dtype, dtypes.get_default_dtype(), requires_grad)
    if size is not None:
        raise ArgumentError("normal: size goes with numbers; with a tensor for mean or std, drop it")
    m = _floats("normal", "mean", mean) if means else number("normal", "mean", mean)
    s = _floats("normal", "std", std) if stds else number("normal", "std", std)
    if not stds and not s >= 0:
        raise ValueRangeError(f"normal: std must be at least 0, got {s}")
    drawn = streams.normal(m, s, generator=generator)
    node = "NormalBackward3" if means and stds else "NormalBackward1" if means else "NormalBackward2"
    return _drawn("normal", drawn, (mean, std), node, out)


@composite(method=True)
def bernoulli(input: Tensor, p: Any = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """Return ones and zeros: ones with the probabilities in `input`, or each with the probability `p`.

    Raises:
        ValueRangeError: a probability outside [0, 1].
    """
    _generator("bernoulli", generator)
    if p is None:
        a = _floats("bernoulli", "input", input)
        return _drawn("bernoulli", streams.bernoulli(a, generator=generator), (input,), "BernoulliBackward0", out)
    if not isinstance(input, Tensor):
        raise ArgumentError(f"bernoulli: input must be a tensor, got {type(input).__name__}")
    chance = p._array if isinstance(p, Tensor) else number("bernoulli", "p", p)
    drawn = streams.bernoulli_(np.empty_like(input._array), chance, generator=generator)
    return _drawn("bernoulli", drawn, (input,), "NotImplemented", out)


@composite(method=True)
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None, out: Any = None
) -> Tensor:
    """Return indices drawn with probabilities proportional to `input`, or to each of its rows.

    Args:
        input: (K,) or (N, K), float, not negative; a row need not sum to 1.
        num_samples: S, at most K without replacement.

    Returns:
        (S,) or (N, S), int64.
    """
    _generator("multinomial", generator)
    if not isinstance(input, Tensor):
        raise ArgumentError(f"multinomial: input must be a tensor, got {type(input).__name__}")
    count = integer("multinomial", "num_samples", num_samples)
    drawn = streams.multinomial(input._array, count, bool(replacement), generator=generator)
    return _drawn("multinomial", drawn, (), "", out)


@composite
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Return Poisson counts with the means in `input`, in its shape and dtype."""
    _generator("poisson", generator)
    rate = _floats("poisson", "input", input)
    return _drawn("poisson", streams.poisson(rate, generator=generator), (input,), "PoissonBackward0", None)


@composite
def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Return the number of successes in `count` trials of probability `prob`, elementwise."""
    _generator("binomial", generator)
    n, p = _floats("binomial", "count", count), _floats("binomial", "prob", prob)
    try:
        n, p = np.broadcast_arrays(n, p)
    except ValueError:
        raise ShapeError(f"binomial: count {n.shape} and prob {p.shape} do not broadcast") from None
    return _drawn("binomial", streams.binomial(n, p, generator=generator), (count, prob), "NotImplemented", None)


# -- in place ---------------------------------------------------------------------------------------------------------


def _filler(name: str, node: str, generator: Any, fill: Callable[..., Any], *numbers: Any) -> Callable[[Any], Tensor]:
    _generator(name, generator)
    return lambda t: overwrite(t, name, node, lambda a: fill(a, *numbers, generator=generator))


@composite(name="uniform_", method=True, function_name=False)
def _uniform_(input: Tensor, *given: Any, generator: Any = None, **bounds: Any) -> Tensor:
    """Fill with numbers uniform in [from, to): uniform_(from=0, to=1).

    Raises:
        ValueRangeError: from > to, or a bound that the dtype cannot hold.
    """
    low, high = _from_to("uniform_", given, bounds, 0.0, 1.0)
    _require_floating("uniform_", input.dtype)
    first, last = float(number("uniform_", "from", low)), float(number("uniform_", "to", high))
    return _filler("uniform_", "UniformBackward0", generator, streams.uniform_, first, last)(input)


def _from_to(op: str, given: tuple[Any, ...], bounds: dict[str, Any], low: Any, high: Any) -> tuple[Any, Any]:
    """Return the bounds that PyTorch calls `from`, which is no name in Python, and `to`."""
    values = {"from": low, "to": high} | dict(zip(("from", "to"), given)) | bounds
    if len(values) > 2 or len(given) > 2:
        raise ArgumentError(f"{op}: only from and to are expected, got {given} and {bounds}")
    return values["from"], values["to"]


@composite(name="normal_", method=True, function_name=False)
def _normal_(input: Tensor, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with normal numbers of one mean and standard deviation."""
    _require_floating("normal_", input.dtype)
    m, s = number("normal_", "mean", mean), number("normal_", "std", std)
    return _filler("normal_", "NormalBackward0", generator, streams.normal_, m, s)(input)


@composite(name="random_", method=True, function_name=False)
def _random_(input: Tensor, *given: Any, generator: Any = None, **bounds: Any) -> Tensor:
    """Fill with uniform integers: all that the dtype holds, or random_(to) in [0, to), or random_(from, to).

    Raises:
        ValueRangeError: no integer lies between the bounds, or the dtype cannot hold one.
    """
    if len(given) == 1 and not bounds:
        low, high, node = 0, given[0], "RandomBackward1"
    else:
        low, high = _from_to("random_", given, bounds, None, None)
        if low is None and high is not None:
            low, node = 0, "RandomBackward1"
        else:
            node = "RandomBackward2" if low is None else "RandomBackward0"
    first, last = (None if v is None else integer("random_", n, v) for n, v in (("from", low), ("to", high)))
    return _filler("random_", node, generator, streams.random_, first, last)(input)


@composite(name="bernoulli_", method=True, function_name=False)
def _bernoulli_(input: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with ones, each with the probability `p` (a number or a tensor), and zeros."""
    if isinstance(p, Tensor):
        return _filler("bernoulli_", "BernoulliBackward1", generator, streams.bernoulli_, p._array)(input)
    chance = number("bernoulli_", "p", p)
    return _filler("bernoulli_", "BernoulliBackward2", generator, streams.bernoulli_, chance)(input)


@composite(name="exponential_", method=True, function_name=False)
def _exponential_(input: Tensor, lambd: Any = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with exponential numbers of rate `lambd`."""
    rate = number("exponential_", "lambd", lambd)
    return _filler("exponential_", "ExponentialBackward0", generator, streams.exponential_, rate)(input)


@composite(name="geometric_", method=True, function_name=False)
def _geometric_(input: Tensor, p: Any, *, generator: Any = None) -> Tensor:
    """Fill with the number of trials of probability `p` up to the first success."""
    chance = number("geometric_", "p", p)
    return _filler("geometric_", "GeometricBackward0", generator, streams.geometric_, chance)(input)


@composite(name="cauchy_", method=True, function_name=False)
def _cauchy_(input: Tensor, median: Any = 0.0, sigma: Any = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with Cauchy numbers; sigma is half the distance between the quartiles."""
    m, s = number("cauchy_", "median", median), number("cauchy_", "sigma", sigma)
    return _filler("cauchy_", "CauchyBackward0", generator, streams.cauchy_, m, s)(input)


@composite(name="log_normal_", method=True, function_name=False)
def _log_normal_(input: Tensor, mean: Any = 1.0, std: Any = 2.0, *, generator: Any = None) -> Tensor:
    """Fill with exp(z), z normal with the given mean and standard deviation."""
    m, s = number("log_normal_", "mean", mean), number("log_normal_", "std", std)
    return _filler("log_normal_", "LogNormalBackward0", generator, streams.log_normal_, m, s)(input)
