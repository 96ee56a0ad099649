"""Tensors filled with random numbers in place: `uniform_`, `normal_`, `random_`, `bernoulli_` …"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError
from ..random import arrays as streams
from ..state import OBSERVE, get_mode
from ..tensor import Tensor
from .declare import composite
from .overwrite import overwrite
from .sample import checked_generator, require_floating
from .values import integer, number


def _filler(
    name: str, node: str, generator: Any, fill: Callable[..., Any], *numbers: Any, op: str = ""
) -> Callable[[Any], Tensor]:
    """Return what fills a tensor; `op` is the declared draw, where it is not called like the method."""
    checked_generator(name, generator)
    if get_mode() & OBSERVE:

        def seen(t: Any) -> Any:
            from .drawing import fill_in_place

            others = tuple(x for x in numbers if isinstance(x, Tensor))
            given = [x for x in numbers if not isinstance(x, Tensor)]
            return fill_in_place(op or name[:-1], name, t, others, *given, generator)

        return seen
    given = [x._array if isinstance(x, Tensor) else x for x in numbers]
    return lambda t: overwrite(t, name, node, lambda a: fill(a, *given, generator=generator))


@composite(name="uniform_", method=True, function_name=False)
def _uniform_(input: Tensor, *given: Any, generator: Any = None, **bounds: Any) -> Tensor:
    """Fill with numbers uniform in [from, to): uniform_(from=0, to=1).

    Raises:
        ValueRangeError: from > to, or a bound that the dtype cannot hold.
    """
    low, high = _from_to("uniform_", given, bounds, 0.0, 1.0)
    require_floating("uniform_", input.dtype)
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
    require_floating("normal_", input.dtype)
    m, s = number("normal_", "mean", mean), number("normal_", "std", std)
    return _filler("normal_", "NormalBackward0", generator, streams.normal_, m, s, op="normal_fill")(input)


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
    return _filler("random_", node, generator, streams.random_, first, last, op="random_fill")(input)


@composite(name="bernoulli_", method=True, function_name=False)
def _bernoulli_(input: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with ones, each with the probability `p` (a number or a tensor), and zeros."""
    if isinstance(p, Tensor):
        return _filler("bernoulli_", "BernoulliBackward1", generator, streams.bernoulli_, p, op="bernoulli_each")(input)
    chance = number("bernoulli_", "p", p)
    return _filler("bernoulli_", "BernoulliBackward2", generator, streams.bernoulli_, chance, op="bernoulli_fill")(
        input
    )


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
