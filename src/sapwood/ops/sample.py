"""Random tensors: `rand`, `randn`, `randint`, `randperm`, `normal`, `bernoulli`, `multinomial`, `poisson` …

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
from . import slow
from .declare import composite, methods
from .filling import deliver, like_array
from .out import write_out
from .overwrite import forgetting
from .record import is_differentiable
from .values import Array, check_place, integer, leaf, number, sequence_size, size_of


def checked_generator(op: str, generator: Any) -> Any:
    if generator is not None and not isinstance(generator, streams.Generator):
        raise ArgumentError(f"{op}: generator must be a Generator, got {type(generator).__name__}")
    return generator


class _NoKernelError(DtypeError, MissingError):
    """A type that cannot be drawn: PyTorch raises NotImplementedError for it."""


def require_floating(op: str, dtype: dtypes.dtype) -> None:
    if dtype.category < dtypes.FLOAT:
        raise _NoKernelError(f"{op}: a floating-point or complex dtype is expected, got {dtype.name}")


# -- of a given size --------------------------------------------------------------------------------------------------


def _draw(
    op: str, fill: Callable[..., Any], shape: Any, generator: Any, layout: Any, device: Any
) -> Callable[..., Array]:
    if device is not None or layout is not None:
        check_place(op, device, layout)
    checked_generator(op, generator)

    def make(dtype: dtypes.dtype) -> Array:
        require_floating(op, dtype)
        found: Array = fill(np.empty(shape, dtype.numpy), generator=generator)
        return found

    return make


def _called(name: str, shape: Any, *rest: Any, needs_float: bool = True) -> Callable[[dtypes.dtype], Any]:
    """Return what draws by a declared op, for those who observe calls."""

    def seen(dtype: dtypes.dtype) -> Any:
        from .drawing import drawn

        if needs_float:
            require_floating(name, dtype)
        return drawn(name, (), tuple(shape), dtype, *rest)

    return seen


@composite
def rand(
    *given: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False, names: Any = None,
) -> Tensor:  # fmt: skip
    """Return numbers uniform in [0, 1), of a size given as integers or as one sequence."""
    shape = size_of("rand", given, size)
    make = _draw("rand", streams.uniform_, shape, generator, layout, device)
    seen = _called("rand", shape, generator)
    return deliver("rand", make, out, dtype, dtypes.get_default_dtype(), requires_grad, seen)


@composite
def randn(
    *given: Any, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False, names: Any = None,
) -> Tensor:  # fmt: skip
    """Return standard normal numbers, of a size given as integers or as one sequence."""
    shape = size_of("randn", given, size)
    make = _draw("randn", streams.normal_, shape, generator, layout, device)
    seen = _called("randn", shape, generator)
    return deliver("randn", make, out, dtype, dtypes.get_default_dtype(), requires_grad, seen)


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
    checked_generator("randint", generator)
    if size is None and bounds:
        bounds, size = bounds[:-1], bounds[-1]
    first, last = _bounds("randint", bounds, low, high)
    shape = sequence_size("randint", size)
    make = lambda t: streams.random_(np.empty(shape, t.numpy), first, last, generator=generator)
    seen = _called("randint", shape, first, last, generator, needs_float=False)
    return deliver("randint", make, out, dtype, dtypes.int64, requires_grad, seen)


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
    count, _generated = integer("randperm", "n", n), checked_generator("randperm", generator)

    def check(dtype: dtypes.dtype) -> None:
        if dtype.category == dtypes.COMPLEX or dtype is dtypes.bool_:
            raise _NoKernelError(f"randperm: an integer or floating-point dtype is expected, got {dtype.name}")
        if dtype.category == dtypes.INT and count - 1 > np.iinfo(dtype.numpy).max:
            raise ValueRangeError(f"randperm: {dtype.name} does not hold {count - 1}; use a wider dtype")

    def make(dtype: dtypes.dtype) -> Array:
        check(dtype)
        return streams.randperm(count, dtype.numpy, generator=generator)

    def seen(dtype: dtypes.dtype) -> Any:
        from .drawing import drawn

        check(dtype)
        return drawn("randperm", (), count, dtype, generator)

    return deliver("randperm", make, out, dtype, dtypes.int64, requires_grad, seen)


def _like(
    op: str, input: Any, draw: Any, seen: tuple[Any, ...], dtype: Any, layout: Any, device: Any, form: Any, grad: bool
) -> Tensor:
    """Return what `draw` fills an array like `input` with; `seen` names the op that does it, and its numbers."""
    if not isinstance(input, Tensor):
        raise ArgumentError(f"{op}: input must be a tensor, got {type(input).__name__}")
    check_place(op, device, layout)
    blank = like_array(input, dtype, form, op)
    if slow.watched(input):
        from .drawing import like

        if op != "randint_like":
            require_floating(op, dtypes.of_numpy(blank.dtype))
        t: Tensor = like(seen[0], input, blank, *seen[1:])
        return t.requires_grad_() if grad else t
    return leaf(draw(blank), grad)


def _continuous(op: str, fill: Callable[..., Any], generator: Any) -> Callable[[Array], Array]:
    checked_generator(op, generator)

    def draw(a: Array) -> Array:
        require_floating(op, dtypes.of_numpy(a.dtype))
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
    seen = ("uniform", 0.0, 1.0, generator)
    return _like("rand_like", input, draw, seen, dtype, layout, device, memory_format, requires_grad)


@composite
def randn_like(
    input: Tensor, *, generator: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Return standard normal numbers in the input's shape and dtype."""
    draw = _continuous("randn_like", streams.normal_, generator)
    seen = ("normal_fill", 0.0, 1.0, generator)
    return _like("randn_like", input, draw, seen, dtype, layout, device, memory_format, requires_grad)


@composite
def randint_like(
    input: Tensor, *bounds: Any, low: Any = None, high: Any = None, generator: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Return integers uniform in [low, high) in the input's shape and dtype: randint_like(input, [low,] high)."""
    checked_generator("randint_like", generator)
    first, last = _bounds("randint_like", bounds, low, high)
    draw = lambda a: streams.random_(a, first, last, generator=generator)
    seen = ("random_fill", first, last, generator)
    return _like("randint_like", input, draw, seen, dtype, layout, device, memory_format, requires_grad)


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


def _seen(op: str, name: str, inputs: tuple[Any, ...], out: Any, *attrs: Any) -> Tensor:
    """Draw by a declared op, seen by those who observe calls."""
    from .drawing import drawn

    if out is None:
        t: Tensor = drawn(name, inputs, *attrs)
        return t
    if get_mode() & GRAD and any(isinstance(s, Tensor) and s._node is not None for s in inputs):
        raise GradError(f"{op}: with out= nothing is recorded, but an input requires grad; detach it or drop out=")
    t = drawn(name, inputs, *attrs)
    if isinstance(out, Tensor) and out._array.shape == t._array.shape and out.dtype is t.dtype:
        methods["copy_"](out, t)
    else:
        write_out(op, out, t._array)
    filled: Tensor = out
    return filled


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
    checked_generator("normal", generator)
    means, stds = isinstance(mean, Tensor), isinstance(std, Tensor)
    if not (means or stds):
        first, second = number("normal", "mean", mean), number("normal", "std", std)
        if size is None:
            raise ArgumentError("normal: a size is expected, as in normal(0., 1., (2, 3)), or a tensor for mean or std")
        shape = sequence_size("normal", size) if not isinstance(size, int) else size_of("normal", (size,))

        def make(t: dtypes.dtype) -> Array:
            require_floating("normal", t)
            return streams.normal_(np.empty(shape, t.numpy), first, second, generator=generator)

        seen = _called("normal", shape, first, second, generator)
        return deliver("normal", make, out, dtype, dtypes.get_default_dtype(), requires_grad, seen)
    if size is not None:
        raise ArgumentError("normal: size goes with numbers; with a tensor for mean or std, drop it")
    m = _floats("normal", "mean", mean) if means else number("normal", "mean", mean)
    s = _floats("normal", "std", std) if stds else number("normal", "std", std)
    if not stds and not s >= 0:
        raise ValueRangeError(f"normal: std must be at least 0, got {s}")
    if slow.watched(mean, std):
        return _seen("normal", "normal_of", (mean if means else m, std if stds else s), out, generator)
    drawn = streams.normal(m, s, generator=generator)
    node = "NormalBackward3" if means and stds else "NormalBackward1" if means else "NormalBackward2"
    return _drawn("normal", drawn, (mean, std), node, out)


@composite(method=True)
def bernoulli(input: Tensor, p: Any = None, *, generator: Any = None, out: Any = None) -> Tensor:
    """Return ones and zeros: ones with the probabilities in `input`, or each with the probability `p`.

    Raises:
        ValueRangeError: a probability outside [0, 1].
    """
    checked_generator("bernoulli", generator)
    if p is None:
        a = _floats("bernoulli", "input", input)
        if slow.watched(input):
            return _seen("bernoulli", "bernoulli", (input,), out, generator)
        return _drawn("bernoulli", streams.bernoulli(a, generator=generator), (input,), "BernoulliBackward0", out)
    if not isinstance(input, Tensor):
        raise ArgumentError(f"bernoulli: input must be a tensor, got {type(input).__name__}")
    chance = p._array if isinstance(p, Tensor) else number("bernoulli", "p", p)
    if slow.watched(input, p):
        from .drawing import order_of

        order = order_of(np.empty_like(input._array))
        return _seen(
            "bernoulli", "bernoulli_as", (input, p if isinstance(p, Tensor) else chance), out, order, generator
        )
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
    checked_generator("multinomial", generator)
    if not isinstance(input, Tensor):
        raise ArgumentError(f"multinomial: input must be a tensor, got {type(input).__name__}")
    count = integer("multinomial", "num_samples", num_samples)
    if slow.watched(input):
        return _seen("multinomial", "multinomial", (input,), out, count, bool(replacement), generator)
    drawn = streams.multinomial(input._array, count, bool(replacement), generator=generator)
    return _drawn("multinomial", drawn, (), "", out)


@composite
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Return Poisson counts with the means in `input`, in its shape and dtype."""
    checked_generator("poisson", generator)
    rate = _floats("poisson", "input", input)
    if slow.watched(input):
        return _seen("poisson", "poisson", (input,), None, generator)
    return _drawn("poisson", streams.poisson(rate, generator=generator), (input,), "PoissonBackward0", None)


@composite
def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Return the number of successes in `count` trials of probability `prob`, elementwise."""
    checked_generator("binomial", generator)
    n, p = _floats("binomial", "count", count), _floats("binomial", "prob", prob)
    try:
        n, p = np.broadcast_arrays(n, p)
    except ValueError:
        raise ShapeError(f"binomial: count {n.shape} and prob {p.shape} do not broadcast") from None
    if slow.watched(count, prob):
        return _seen("binomial", "binomial", (count, prob), None, generator)
    return _drawn("binomial", streams.binomial(n, p, generator=generator), (count, prob), "NotImplemented", None)
