"""Draws as calls: what random functions do, declared, for those who watch calls and for graphs that draw again.

These ops stand in a table of their own, `draws`, and not in the registry: the laws of functions do not hold for them.
The random functions compute without them unless calls are observed; the numbers are the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes
from ..random import arrays as streams
from . import slow
from .declare import Op, draw, draws, todo, zero
from .inplace import in_place
from .values import Array

Order = tuple[int, ...] | None


def drawn(name: str, inputs: tuple[Any, ...], *attrs: Any) -> Any:
    """Draw by a declared op, seen by those who observe calls."""
    return slow.slow(draws[name], inputs, attrs)


def like(name: str, input: Any, a: Array, *numbers: Any) -> Any:
    """Draw numbers in the shape of `input`, in the type and memory order of `a`; they are no part of a graph."""
    from ..autograd.mode import no_grad

    dtype = dtypes.of_numpy(a.dtype)
    with no_grad():
        return drawn(name, (input,), *numbers[:-1], None if dtype is input.dtype else dtype, order_of(a), numbers[-1])


def fill_in_place(name: str, called: str, target: Any, others: tuple[Any, ...], *numbers: Any) -> Any:
    """Fill a tensor with what a declared op draws in its shape, seen by those who observe calls."""
    attrs = (*numbers[:-1], None, order_of(target._array), numbers[-1])
    return in_place(draws[name], target, others, attrs, called)


def order_of(a: Array) -> Order:
    """Return the dimensions from the outermost to the innermost in memory, in whose order numbers are filled in.

    None where that is the usual, row-major order.
    """
    order = tuple(sorted(range(a.ndim), key=lambda d: -abs(a.strides[d])))
    return None if a.flags.c_contiguous or order == tuple(range(a.ndim)) else order


def _blank(shape: Any, dtype: Any, order: Order) -> Array:
    if order is None:
        return np.empty(shape, dtype)
    return np.empty([shape[d] for d in order], dtype).transpose(np.argsort(order))


def _like(input: Array, dtype: dtypes.dtype | None, order: Order) -> Array:
    return _blank(input.shape, input.dtype if dtype is None else dtype.numpy, order)


class Draw(Op):
    """What all draws share."""

    function = method = False
    takes_out = False
    half = False
    kind = "draw"


# -- of a given size ----------------------------------------------------------------------------------------------


@draw
class rand(Draw):
    """Draw numbers uniform in [0, 1) of a given size."""

    forward = lambda size, dtype, generator: streams.uniform_(np.empty(size, dtype.numpy), generator=generator)


@draw
class randn(Draw):
    """Draw standard normal numbers of a given size."""

    forward = lambda size, dtype, generator: streams.normal_(np.empty(size, dtype.numpy), generator=generator)


@draw
class randint(Draw):
    """Draw integers uniform in [low, high) of a given size."""

    def forward(size, dtype, low, high, generator):
        return streams.random_(np.empty(size, dtype.numpy), low, high, generator=generator)


@draw
class normal(Draw):
    """Draw normal numbers of a given size, all with one mean and one standard deviation."""

    def forward(size, dtype, mean, std, generator):
        return streams.normal_(np.empty(size, dtype.numpy), mean, std, generator=generator)


@draw
class randperm(Draw):
    """Draw a permutation of 0 … n - 1."""

    forward = lambda n, dtype, generator: streams.randperm(n, dtype.numpy, generator=generator)


# -- in the shape of a tensor, whose values do not matter ---------------------------------------------------------


class Fill(Draw):
    """Numbers in the shape of the input, drawn in the order of memory that `order` says; they owe the input nothing."""

    inputs = ("input",)
    vjp_input = zero


@draw
class uniform(Fill):
    """Draw numbers uniform in [low, high) in the input's shape."""

    grad_fn = "UniformBackward0"

    def forward(input, low, high, dtype, order, generator):
        return streams.uniform_(_like(input, dtype, order), low, high, generator=generator)


@draw
class normal_fill(Fill):
    """Draw normal numbers in the input's shape."""

    grad_fn = "NormalBackward0"

    def forward(input, mean, std, dtype, order, generator):
        return streams.normal_(_like(input, dtype, order), mean, std, generator=generator)


@draw
class random_fill(Fill):
    """Draw integers uniform in [low, high) in the input's shape; without bounds all that its type holds."""

    grad_fn = "RandomBackward2 if low is None else RandomBackward0"

    def forward(input, low, high, dtype, order, generator):
        return streams.random_(_like(input, dtype, order), low, high, generator=generator)


@draw
class bernoulli_fill(Fill):
    """Draw ones of one probability, and zeros, in the input's shape."""

    grad_fn = "BernoulliBackward2"

    def forward(input, p, dtype, order, generator):
        return streams.bernoulli_(_like(input, dtype, order), p, generator=generator)


@draw
class bernoulli_each(Fill):
    """Draw ones of the probabilities `p`, and zeros, in the input's shape."""

    inputs = ("input", "p")
    vjp_p = zero
    grad_fn = "BernoulliBackward1"

    def forward(input, p, dtype, order, generator):
        return streams.bernoulli_(_like(input, dtype, order), p, generator=generator)


@draw
class bernoulli_as(Draw):
    """Draw ones of the probability `p`, a number or one for each, and zeros, in the input's shape: as a new tensor."""

    inputs = ("input", "p")
    scalars = True
    grad_fn = "NotImplemented"
    vjp_input = todo

    def forward(input, p, order, generator):
        return streams.bernoulli_(_like(input, None, order), p, generator=generator)


@draw
class exponential(Fill):
    """Draw exponential numbers in the input's shape."""

    grad_fn = "ExponentialBackward0"

    def forward(input, lambd, dtype, order, generator):
        return streams.exponential_(_like(input, dtype, order), lambd, generator=generator)


@draw
class geometric(Fill):
    """Draw numbers of trials up to the first success in the input's shape."""

    grad_fn = "GeometricBackward0"

    def forward(input, p, dtype, order, generator):
        return streams.geometric_(_like(input, dtype, order), p, generator=generator)


@draw
class cauchy(Fill):
    """Draw Cauchy numbers in the input's shape."""

    grad_fn = "CauchyBackward0"

    def forward(input, median, sigma, dtype, order, generator):
        return streams.cauchy_(_like(input, dtype, order), median, sigma, generator=generator)


@draw
class log_normal(Fill):
    """Draw exponentials of normal numbers in the input's shape."""

    grad_fn = "LogNormalBackward0"

    def forward(input, mean, std, dtype, order, generator):
        return streams.log_normal_(_like(input, dtype, order), mean, std, generator=generator)


# -- with parameters of their own for each element ----------------------------------------------------------------


@draw
class normal_of(Draw):
    """Draw a normal number for each mean and standard deviation."""

    inputs = ("mean", "std")
    scalars = "any"
    grad_fn = "NormalBackward3"
    vjp_mean = vjp_std = zero
    forward = lambda mean, std, generator: streams.normal(mean, std, generator=generator)


@draw
class bernoulli(Draw):
    """Draw a one with each probability in the input, else a zero."""

    inputs = ("input",)
    grad_fn = "BernoulliBackward0"
    vjp_input = zero
    forward = lambda input, generator: streams.bernoulli(input, generator=generator)


@draw
class multinomial(Draw):
    """Draw indices with probabilities proportional to each row."""

    inputs = ("input",)

    def forward(input, num_samples, replacement, generator):
        return streams.multinomial(input, num_samples, replacement, generator=generator)


@draw
class poisson(Draw):
    """Draw a Poisson count for each mean."""

    inputs = ("input",)
    grad_fn = "PoissonBackward0"
    vjp_input = zero
    forward = lambda input, generator: streams.poisson(input, generator=generator)


@draw
class binomial(Draw):
    """Draw a number of successes for each number of trials and probability."""

    inputs = ("count", "prob")
    grad_fn = "NotImplemented"
    vjp_count = vjp_prob = todo
    forward = lambda count, prob, generator: streams.binomial(
        *np.broadcast_arrays(count, prob), generator=generator
    )  # fmt: skip


# -- noise of layers ----------------------------------------------------------------------------------------------


def noise_shape(shape: tuple[int, ...], features: bool) -> tuple[int, ...]:
    """Return the shape of dropout's noise: the input's, or one element per channel."""
    return shape[:2] + (1,) * (len(shape) - 2) if features else shape


@draw
class dropout_noise(Draw):
    """Draw what dropout multiplies by: 0 with probability p, else 1 / (1 - p)."""

    inputs = ("input",)

    def forward(input, p, features, order):
        return streams.dropout_noise_(_blank(noise_shape(input.shape, features), input.dtype, order), p)


@draw
class alpha_dropout_noise(Draw):
    """Draw what alpha dropout multiplies by, and what it adds then."""

    inputs = ("input",)
    outs = ("noise", "shift")

    def forward(input, p, features, order, floor):
        noise = streams.bernoulli_(_blank(noise_shape(input.shape, features), input.dtype, order), 1 - p)
        return alpha_parts(noise, p, floor)


def alpha_parts(noise: Array, p: float, floor: float) -> tuple[Array, Array]:
    """Return factors and shifts of alpha dropout from ones (kept) and zeros (dropped), which are written over."""
    scale = 1 / math.sqrt((floor * floor * p + 1) * (1 - p))
    shift = np.asarray((noise - 1) * (floor * scale) + floor * scale * p, noise.dtype)
    noise *= scale
    return noise, shift


@draw
class rrelu_noise(Draw):
    """Draw slopes in [lower, upper] for elements that are not positive; 1 for the others."""

    inputs = ("input",)

    def forward(input, lower, upper, generator):
        noise = np.ones_like(input)
        below = input <= 0
        draws = (generator or streams.default_generator).uniform53(int(np.count_nonzero(below)))
        noise[below] = draws * (upper - lower) + lower
        return noise


__all__ = ["alpha_parts", "drawn", "fill_in_place", "like", "noise_shape", "order_of"]
