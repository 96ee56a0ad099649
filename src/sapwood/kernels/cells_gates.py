"""The gates of recurrent cells: formulas of one element, forward and back, and the arrays they read and write."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from . import formulas
from .scalar import Scalar, const, select


class Sweep(NamedTuple):
    """The loop of one step. Operands are arrays by name: "gates2" a plane, "h*" a state, "cells-" the step before."""

    arrays: tuple[str, ...]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    formula: Callable[..., tuple[Scalar, ...]]


def _lstm(i: Scalar, f: Scalar, g: Scalar, o: Scalar, c: Scalar) -> tuple[Scalar, ...]:
    i, f, g, o = formulas.sigmoid(i), formulas.sigmoid(f), formulas.tanh(g), formulas.sigmoid(o)
    c = f * c + i * g
    h = o * formulas.tanh(c)
    return i, f, g, o, c, c, h, h


def _lstm_back(
    grad: Scalar, dh: Scalar, dc: Scalar, i: Scalar, f: Scalar, g: Scalar, o: Scalar, c: Scalar, before: Scalar
) -> tuple[Scalar, ...]:
    t, dh = formulas.tanh(c), dh + grad
    dc = dc + dh * o * (1.0 - t * t)
    gates = dc * g * i * (1.0 - i), dc * before * f * (1.0 - f), dc * i * (1.0 - g * g), dh * t * o * (1.0 - o)
    return *gates, dc * f, const(0.0, c.dtype)


def _gru(hidden: Scalar, r: Scalar, z: Scalar, n: Scalar, h: Scalar) -> tuple[Scalar, ...]:
    r, z = formulas.sigmoid(r), formulas.sigmoid(z)
    n = formulas.tanh(n + r * hidden)
    h = n + z * (h - n)
    return r, z, n, h, h


def _gru_back(
    grad: Scalar, dh: Scalar, hidden: Scalar, r: Scalar, z: Scalar, n: Scalar, before: Scalar
) -> tuple[Scalar, ...]:
    dh = dh + grad
    dn = dh * (1.0 - z) * (1.0 - n * n)
    return dn * r, dn * hidden * r * (1.0 - r), dh * (before - n) * z * (1.0 - z), dn, dh * z


def _plain(x: Scalar) -> tuple[Scalar, ...]:
    h = formulas.tanh(x)
    return h, h


def _plain_back(grad: Scalar, dh: Scalar, h: Scalar) -> tuple[Scalar, ...]:
    return (dh + grad) * (1.0 - h * h), const(0.0, h.dtype)


def _relu(x: Scalar) -> tuple[Scalar, ...]:
    h = formulas.relu(x)
    return h, h


def _relu_back(grad: Scalar, dh: Scalar, h: Scalar) -> tuple[Scalar, ...]:
    return select(h > 0.0, dh + grad, 0.0), const(0.0, h.dtype)


_PLANES = ("gates0", "gates1", "gates2", "gates3")
_FORWARD = ("gates", "out", "h", "input", "bias", "w_ih", "w_hh")
FORWARD = {
    "LSTM": Sweep((*_FORWARD, "c", "cells"), (*_PLANES, "cells", "c*", "out", "h*"), (*_PLANES, "c*"), _lstm),
    "GRU": Sweep(_FORWARD, (*_PLANES[1:], "out", "h*"), (*_PLANES, "h*"), _gru),
    "RNN_TANH": Sweep(_FORWARD, ("out", "h*"), ("gates0",), _plain),
    "RNN_RELU": Sweep(_FORWARD, ("out", "h*"), ("gates0",), _relu),
}
_INTO = ("into0", "into1", "into2", "into3")
_BACK = ("into", "gates", "grad", "out", "h", "h0", "w_hh")
_LSTM_BACK = ("grad", "h*", "c*", *_PLANES, "cells", "cells-")
BACK = {
    "LSTM": Sweep((*_BACK, "c", "cells", "c0"), (*_INTO, "c*", "h*"), _LSTM_BACK, _lstm_back),
    "GRU": Sweep(_BACK, (*_INTO, "h*"), ("grad", "h*", *_PLANES, "out-"), _gru_back),
    "RNN_TANH": Sweep(_BACK, ("into0", "h*"), ("grad", "h*", "out"), _plain_back),
    "RNN_RELU": Sweep(_BACK, ("into0", "h*"), ("grad", "h*", "out"), _relu_back),
}
INPUT = ("g_input", "w_ih", "zero")
"""What a sweep back has besides if it computes the gradient of the input."""


class Part(NamedTuple):
    """Which planes belong to which rows of a weight, H each: planes first … first + planes, from row `row` on."""

    first: int
    planes: int
    row: int


class Gates(NamedTuple):
    """The planes of a kind of cell, and their parts in the products with the input and the state."""

    planes: int
    by_input: tuple[Part, ...]
    by_state: tuple[Part, ...]


GATES = {
    "LSTM": Gates(4, (Part(0, 4, 0),), (Part(0, 4, 0),)),
    # The state's share of the new gate lies in plane 0, that of the input in plane 3.
    "GRU": Gates(4, (Part(1, 3, 0),), (Part(1, 2, 0), Part(0, 1, 2))),
    "RNN_TANH": Gates(1, (Part(0, 1, 0),), (Part(0, 1, 0),)),
    "RNN_RELU": Gates(1, (Part(0, 1, 0),), (Part(0, 1, 0),)),
}


__all__ = ["BACK", "FORWARD", "GATES", "INPUT", "Gates", "Part", "Sweep"]
