"""Draws of indices: permutations and samples with given probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.errors import ShapeError, ValueRangeError
from sapwood.random.draws import exponential_, require_floating
from sapwood.random.generator import Generator, default_generator, native

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    Array = NDArray[Any]

__all__ = ["multinomial", "randperm"]


def randperm(n: int, dtype: DTypeLike = np.int64, *, generator: Generator | None = None) -> Array:
    """Return the numbers 0 … n-1 in random order: (n,).

    Reference: the shuffle of Fisher and Yates from the front, element i exchanged with element i + word mod (n - i).
    """
    if n < 0:
        raise ValueRangeError(f"randperm: n must not be negative, got {n}")
    g = generator or default_generator
    draw = g.words if n < (2**32 - 1) // 20 else g.words64  # above, a 32-bit word mod n would be visibly uneven
    targets = (draw(max(n - 1, 0)) % np.arange(n, 1, -1, dtype=np.uint64)).view(np.int64)
    targets += np.arange(targets.size)
    return _exchange(targets, n).astype(dtype, copy=False)


def _exchange(targets: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Exchange element i with element targets[i] for i = 0 … n-2, starting from 0 … n-1: (n,)."""
    kernels = native(n)
    if kernels is not None:
        made = np.arange(n)
        kernels.exchange(made, targets)
        return made
    if n < 1000:
        order = list(range(n))
        for i, j in enumerate(targets.tolist()):
            order[i], order[j] = order[j], order[i]
        return np.array(order, dtype=np.int64)
    # The same without a loop. Position j holds, at time i, what the last earlier exchange with j put there: the value
    # that this exchange found in its own place. So places form a forest, each pointing to an earlier one.
    times = np.arange(n)
    targets = np.append(targets, n - 1)
    keys = np.sort((targets << 32) | times)
    by_target, time = keys >> 32, keys & 0xFFFFFFFF
    same = by_target[1:] == by_target[:-1]
    earlier = np.full(n, -1)  # the last earlier exchange with the same target
    earlier[time[1:][same]] = time[:-1][same]
    ends = np.append(np.flatnonzero(~same), n - 1)
    place, last = by_target[ends], time[ends]
    source = np.where(last == place, earlier[last], last)
    found = times.copy()
    found[place] = np.where(source < 0, place, source)
    while not np.array_equal(further := found[found], found):
        found = further
    return np.where(earlier < 0, targets, found[earlier])


def multinomial(
    p: Array, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> NDArray[np.int64]:
    """Draw indices with probabilities proportional to the rows of p.

    Args:
        p: (K,) or (N, K), real, not negative; a row need not sum to 1.
        num_samples: S, at most K without replacement.

    Returns:
        (S,) or (N, S), int64. Without replacement the S largest of p / e, e exponential: in the order drawn.

    Raises:
        ShapeError: p has neither one nor two dimensions.
        ValueRangeError: p has a negative, infinite or NaN element or a row of zeros, or S does not fit.
    """
    require_floating("multinomial", p.dtype)
    if p.ndim not in (1, 2):
        raise ShapeError(f"multinomial: p must have 1 or 2 dimensions, got {p.ndim}")
    k = p.shape[-1]
    if num_samples <= 0 or not (replacement or num_samples <= k):
        raise ValueRangeError(
            f"multinomial: num_samples must be positive and, without replacement, at most {k}, got {num_samples}"
        )
    if p.size == 0:
        return np.empty((*p.shape[:-1], num_samples), np.int64)
    if not ((p >= 0) & (p < np.inf)).all():
        raise ValueRangeError("multinomial: probabilities must be finite and not negative; use softmax or clamp")
    if (p.max(-1) <= 0).any():
        raise ValueRangeError("multinomial: a row of probabilities sums to 0; give some index a positive one")
    if replacement and num_samples > 1:  # for one sample PyTorch takes the other way in either case
        return _with_replacement(p, num_samples, generator or default_generator)
    keys = exponential_(np.empty_like(p), generator=generator)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(p, keys, out=keys)
    if num_samples == 1:
        best: NDArray[np.int64] = keys.argmax(-1, keepdims=True)
        return best
    return np.argsort(-keys, axis=-1, kind="stable")[..., :num_samples]


def _with_replacement(p: Array, num_samples: int, g: Generator) -> NDArray[np.int64]:
    rows = np.atleast_2d(p).astype(np.float64 if p.dtype == np.float64 else np.float32)
    u = g.uniform53(len(rows) * num_samples).reshape(len(rows), num_samples)
    out = np.empty(u.shape, np.int64)
    for row, wanted, found in zip(rows, u, out):
        total = np.cumsum(row, dtype=row.dtype)  # summed one by one, in the dtype of p
        total /= total[-1]
        total[-1] = 1
        found[:] = np.searchsorted(total.astype(np.float64), wanted)
    return out.reshape((*p.shape[:-1], num_samples))
