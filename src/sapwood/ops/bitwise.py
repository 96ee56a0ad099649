"""Operations on the bits of integers; on bools they are the logical ones."""

from __future__ import annotations

import numpy as np

from .declare import Binary, Unary, op


class Bits(Binary):
    """Two integers or bools that broadcast, element by element; no gradient."""

    scalars = "any"
    half = False
    dtypes = "bi"


@op
class bitwise_and(Bits):
    """Return the bits that both integers have."""

    forward = np.bitwise_and


@op
class bitwise_or(Bits):
    """Return the bits that one or both integers have."""

    forward = np.bitwise_or


@op
class bitwise_xor(Bits):
    """Return the bits that exactly one of two integers has."""

    forward = np.bitwise_xor


@op
class bitwise_not(Unary):
    """Flip the bits of each integer; of bools, the truth."""

    promote = None
    half = False
    forward = np.invert
    dtypes = "bi"


@op
class bitwise_left_shift(Bits):
    """Shift the bits of each integer to the left by `other` places."""

    forward = np.left_shift
    dtypes = "i"
    samples = lambda rng: [(np.array([[1, -3], [7, 0]]), np.array([2, 5])), (np.array([1, 5]), 3)]


@op
class bitwise_right_shift(Bits):
    """Shift the bits of each integer to the right by `other` places; negative numbers stay negative."""

    forward = np.right_shift
    dtypes = "i"
    samples = lambda rng: [(np.array([[1, -3], [7, 0]]), np.array([2, 5])), (np.array([1, 50]), 3)]
