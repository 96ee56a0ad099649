"""Recurrent layers as single ops: one direction of one layer over all its steps.

Steps are packed: rows of `input` are those of the first step, then of the second …, `lengths` rows each, which never
grow. What the inputs say to all gates is one product; the recurrence is a loop over the steps, native where there are
kernels. Outputs besides the states are what backward reads: the gates as planes (P, S, H), the cell states (S, H).
Backward is a loop too, after which the gradients of the weights are one product over all steps.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
from numpy import ndarray

from .. import ops
from ..dtypes import F32, F64
from . import warm
from .declare import Fused, op

Lengths = tuple[int, ...]


def walk(step: Any, order: Any, lengths: Lengths, initial: Any) -> Any:
    """Return the state after `step(t, state)` for every t in `order`; rows begin with `initial` and stay when done."""
    state, ended = tuple(s[: lengths[order[0]]] for s in initial), []
    for t in order:
        n, had = lengths[t], state[0].shape[0]
        if n < had:
            ended.append(tuple(s[n:] for s in state))
            state = tuple(s[:n] for s in state)
        elif n > had:
            state = tuple(ops.cat([s, first[had:n]], 0) for s, first in zip(state, initial))
        state = step(t, state)
    if ended:
        state = tuple(ops.cat(list(parts), 0) for parts in zip(state, *reversed(ended)))
    return state


def places(lengths: Lengths) -> list[slice]:
    """Return where the rows of each step lie."""
    return [slice(o, o + n) for o, n in zip(accumulate(lengths[:-1], initial=0), lengths)]


def before(out: Any, first: Any, lengths: Lengths, reverse: bool) -> Any:
    """Return for every row of every step the state before it, given those after each and the initial one."""
    if len(lengths) == 1:
        return first
    if lengths[0] == lengths[-1]:
        n = lengths[0]
        return ops.cat([out[n:], first] if reverse else [first, out[:-n]], 0)
    at, pieces = places(lengths), [first]
    if not reverse:
        return ops.cat([first, *[out[p.start : p.start + n] for p, n in zip(at, lengths[1:])]], 0)
    pieces = []
    for n, after, p in zip(lengths, lengths[1:], at[1:]):
        pieces += [out[p], first[after:n]]
    return ops.cat([*pieces, first[: lengths[-1]]], 0)


def times(lengths: Lengths, reverse: bool) -> range:
    """Return the steps in the order of the recurrence."""
    return range(len(lengths) - 1, -1, -1) if reverse else range(len(lengths))


def planes(input: Any, weight: Any, bias: Any, parts: int) -> Any:
    """Return input · weightᵀ + bias as (parts, S, H)."""
    size = weight.shape[0] // parts
    found = ops.matmul(input, ops.transpose(ops.reshape(weight, (parts, size, weight.shape[1])), 1, 2))
    return found if bias is None else found + ops.reshape(bias, (parts, 1, size))


def joined(steps: dict[int, Any], dim: int) -> Any:
    """Return what was computed step by step in one piece."""
    return ops.cat([steps[t] for t in range(len(steps))], dim)


def from_planes(d: Any, needs: Any, x: Any, past: Any) -> Any:
    """Return the gradients of weights and biases, given that of the planes, (parts, S, H).

    Args:
        needs: whether the gradients of w_ih, w_hh and the two biases are wanted.
        x: (S, I), the input.
        past: (S, H), the states before each step.
    """
    parts, _, size = d.shape
    weights = [
        ops.reshape(ops.matmul(ops.transpose(d, 1, 2), y), (parts * size, y.shape[-1])) if wanted else None
        for wanted, y in zip(needs, (x, past))
    ]
    # A product with ones adds up faster than a sum over rows does.
    ones = ops.ones_like(d[0, :, 0])
    return *weights, *[ops.reshape(ops.matmul(ones, d), (parts * size,)) if w else None for w in needs[2:]]


def native(elements: int, *operands: Any) -> bool:
    """Return whether kernels serve: plain float32 or float64 arrays of one type, and enough of them."""
    kind = operands[0].dtype
    if kind is not F32 and kind is not F64:
        return False
    return all(x is None or (type(x) is ndarray and x.dtype is kind) for x in operands) and warm.serve(elements)


def summed(a: Any, b: Any) -> Any:
    """Return the sum of two biases that are both there or not."""
    return None if a is None else a + b


def sweep(mode: str, lengths: Lengths, reverse: bool, back: bool = False, **arrays: Any) -> None:
    """Walk through the steps natively."""
    from ..kernels import cells

    made = {n: np.ascontiguousarray(a) for n, a in arrays.items()}
    cells.sweep(mode, lengths, reverse, back=back, **made)


def swept(
    mode: str, lengths: Lengths, reverse: bool, wanted: bool, input: Any, w_ih: Any, gates: Any, **arrays: Any
) -> tuple[Any, Any]:
    """Walk back natively; return the gradients of the planes and, if wanted, of the input."""
    d, g_input = np.empty_like(gates), None
    if wanted:
        g_input = np.empty(input.shape, input.dtype)
        arrays |= {"g_input": g_input, "w_ih": w_ih, "zero": np.zeros(input.shape[1], input.dtype)}
    sweep(mode, lengths, reverse, True, gates=gates, into=d, **arrays)
    return d, g_input


def summed_up(
    mode: str, lengths: Lengths, reverse: bool, needs: Any, d: Any, input: Any, h0: Any, out: Any
) -> list[Any]:
    """Return the gradients of weights and biases natively, as `from_planes` does."""
    from ..kernels import cells

    if not any(needs):
        return [None] * 4
    if lengths[0] != lengths[-1]:
        h0, out = before(out, h0, lengths, reverse), out[:0]
    return cells.weights(mode, d, *map(np.ascontiguousarray, (input, h0, out)), reverse, needs)


def by_input(d: Any, w_ih: Any) -> Any:
    """Return the gradient of the input, given that of the planes."""
    parts, _, size = d.shape
    return ops.sum(ops.matmul(d, ops.reshape(w_ih, (parts, size, w_ih.shape[1]))), 0)


def copied(a: Any) -> Any:
    """Return a contiguous copy."""
    return np.array(a, order="C")


def samples(gates: int, states: int) -> Any:
    """Return samples of a layer: three steps of two rows; steps of three, two and one row, and no biases."""

    def made(rng: Any) -> list[tuple[Any, ...]]:
        found = []
        for lengths, reverse in (((2, 2, 2), False), ((3, 2, 1), False), ((3, 1, 1), True)):
            x, *rest = [
                rng.standard_normal(s)
                for s in [(sum(lengths), 3), *[(lengths[0], 2)] * states, (gates * 2, 3), (gates * 2, 2)]
            ]
            b = [None, None] if lengths[1] == 1 else [rng.standard_normal(gates * 2) for _ in range(2)]
            found.append((x, *rest, *b, lengths, reverse))
        return found

    return made


@op
class lstm_layer(Fused):
    """Run one direction of a layer of long short-term memory; planes are the input, forget, cell and output gates.

    Reference: Hochreiter and Schmidhuber, Neural Computation 9 (1997).
    """

    inputs = ("input", "h0", "c0", "w_ih", "w_hh", "b_ih", "b_hh")
    optional = ("b_ih", "b_hh")
    outs = ("out", "hn", "cn", "gates", "cells")
    promote = "given"
    function = method = False
    takes_none = True
    kernel = "its forward function runs native code of its own"
    half = False
    grad_fn = "MkldnnRnnLayerBackward0"
    samples = samples(4, 2)

    def formula(input, h0, c0, w_ih, w_hh, b_ih, b_hh, lengths, reverse):
        inputs, at = planes(input, w_ih, summed(b_ih, b_hh), 4), places(lengths)
        weight = ops.transpose(ops.reshape(w_hh, (4, h0.shape[1], h0.shape[1])), 1, 2)
        outs, gates, cells = {}, {}, {}

        def step(t, state):
            h, c = state
            x = inputs[:, at[t]] + ops.matmul(h, weight)
            i, f, g, o = ops.sigmoid(x[0]), ops.sigmoid(x[1]), ops.tanh(x[2]), ops.sigmoid(x[3])
            c = f * c + i * g
            h = o * ops.tanh(c)
            outs[t], gates[t], cells[t] = h, ops.stack([i, f, g, o], 0), c
            return h, c

        hn, cn = walk(step, times(lengths, reverse), lengths, (h0, c0))
        return joined(outs, 0), hn, cn, joined(gates, 1), joined(cells, 0)

    def forward(input, h0, c0, w_ih, w_hh, b_ih, b_hh, lengths, reverse):
        rows, size = input.shape[0], h0.shape[1]
        if not native(rows * size, input, h0, c0, w_ih, w_hh, b_ih, b_hh):
            return lstm_layer.op.formula(input, h0, c0, w_ih, w_hh, b_ih, b_hh, lengths, reverse)
        gates, hn, cn = np.empty((4, rows, size), input.dtype), copied(h0), copied(c0)
        out, cells = np.empty_like(gates[0]), np.empty_like(gates[0])
        bias = np.zeros((4, size), input.dtype) if b_ih is None else b_ih + b_hh
        given = {"input": input, "bias": bias, "w_ih": w_ih, "w_hh": w_hh}
        sweep("LSTM", lengths, reverse, gates=gates, out=out, h=hn, c=cn, cells=cells, **given)
        return out, hn, cn, gates, cells

    def vjp(g, needs, input, h0, c0, w_ih, w_hh, out, gates, cells, lengths, reverse):
        g_out, g_hn, g_cn, g_gates, g_cells = g
        g_out, g_hn, g_cn = (ops.zeros_like(x) if y is None else y for x, y in ((out, g_out), (h0, g_hn), (c0, g_cn)))
        plain = g_gates is None and g_cells is None
        if plain and native(out.shape[0] * out.shape[1], gates, g_out, g_hn, g_cn, w_hh, cells, h0, c0):
            g_h0, g_c0 = copied(g_hn), copied(g_cn)
            given = {"grad": g_out, "out": out, "h0": h0, "cells": cells, "c0": c0, "w_hh": w_hh}
            d, g_input = swept("LSTM", lengths, reverse, needs[0], input, w_ih, gates, h=g_h0, c=g_c0, **given)
            rest = summed_up("LSTM", lengths, reverse, needs[3:], d, input, h0, out)
        else:
            d, g_h0, g_c0 = _lstm_back(g_out, g_hn, g_cn, g_gates, g_cells, c0, w_hh, gates, cells, lengths, reverse)
            g_input = by_input(d, w_ih) if needs[0] else None
            rest = from_planes(d, needs[3:], input, before(out, h0, lengths, reverse))
        return g_input, g_h0, g_c0, *rest


def _lstm_back(g_out, g_hn, g_cn, g_gates, g_cells, c0, w_hh, gates, cells, lengths, reverse):
    """Return the gradients of the planes before the gates and of the initial states."""
    at, d = places(lengths), {}
    weight = ops.reshape(w_hh, (4, w_hh.shape[1], w_hh.shape[1]))
    past = before(cells, c0, lengths, reverse)

    def step(t, state):
        dh, dc = state
        i, f, g, o = (gates[k][at[t]] for k in range(4))
        tanh, dh = ops.tanh(cells[at[t]]), dh + g_out[at[t]]
        dc = dc + dh * o * (1 - tanh * tanh)
        if g_cells is not None:
            dc = dc + g_cells[at[t]]
        each = [dc * g, dc * past[at[t]], dc * i, dh * tanh]
        if g_gates is not None:
            each = [x + g_gates[k][at[t]] for k, x in enumerate(each)]
        each = [x * (1 - y * y) if y is g else x * y * (1 - y) for x, y in zip(each, (i, f, g, o))]
        d[t] = ops.stack(each, 0)
        return ops.sum(ops.matmul(d[t], weight), 0), dc * f

    g_h0, g_c0 = walk(step, times(lengths, not reverse), lengths, (g_hn, g_cn))
    return joined(d, 1), g_h0, g_c0


@op
class gru_layer(Fused):
    """Run one direction of a layer of gated recurrent units.

    Planes are the state's share of the new gate, the reset, the update and the new gate.

    Reference: Cho et al., arXiv:1406.1078.
    """

    inputs = ("input", "h0", "w_ih", "w_hh", "b_ih", "b_hh")
    optional = ("b_ih", "b_hh")
    outs = ("out", "hn", "gates")
    promote = "given"
    function = method = False
    takes_none = True
    kernel = "its forward function runs native code of its own"
    half = False
    samples = samples(3, 1)

    def formula(input, h0, w_ih, w_hh, b_ih, b_hh, lengths, reverse):
        inputs, at = planes(input, w_ih, b_ih, 3), places(lengths)
        outs, gates = {}, {}

        def step(t, state):
            (h,) = state
            x, y = inputs[:, at[t]], planes(h, w_hh, b_hh, 3)
            r, z = ops.sigmoid(x[0] + y[0]), ops.sigmoid(x[1] + y[1])
            n = ops.tanh(x[2] + r * y[2])
            h = n + z * (h - n)
            outs[t], gates[t] = h, ops.stack([y[2], r, z, n], 0)
            return (h,)

        (hn,) = walk(step, times(lengths, reverse), lengths, (h0,))
        return joined(outs, 0), hn, joined(gates, 1)

    def forward(input, h0, w_ih, w_hh, b_ih, b_hh, lengths, reverse):
        rows, size = input.shape[0], h0.shape[1]
        if not native(rows * size, input, h0, w_ih, w_hh, b_ih, b_hh):
            return gru_layer.op.formula(input, h0, w_ih, w_hh, b_ih, b_hh, lengths, reverse)
        gates, hn, bias = np.empty((4, rows, size), input.dtype), copied(h0), np.zeros((4, size), input.dtype)
        out = np.empty_like(gates[0])
        if b_ih is not None:
            of_input, of_state = b_ih.reshape(3, size), b_hh.reshape(3, size)
            bias[0], bias[1:] = of_state[2], of_input
            bias[1:3] += of_state[:2]
        given = {"input": input, "bias": bias, "w_ih": w_ih, "w_hh": w_hh}
        sweep("GRU", lengths, reverse, gates=gates, out=out, h=hn, **given)
        return out, hn, gates

    def vjp(g, needs, input, h0, w_ih, w_hh, out, gates, lengths, reverse):
        g_out, g_hn, g_gates = g
        g_out, g_hn = (ops.zeros_like(x) if y is None else y for x, y in ((out, g_out), (h0, g_hn)))
        if g_gates is None and native(out.shape[0] * out.shape[1], gates, g_out, g_hn, w_hh, out, h0):
            g_h0 = copied(g_hn)
            given = {"grad": g_out, "out": out, "h0": h0, "w_hh": w_hh}
            d, g_input = swept("GRU", lengths, reverse, needs[0], input, w_ih, gates, h=g_h0, **given)
            rest = summed_up("GRU", lengths, reverse, needs[2:], d, input, h0, out)
        else:
            past = before(out, h0, lengths, reverse)
            d, g_h0 = _gru_back(g_out, g_hn, g_gates, past, w_hh, gates, lengths, reverse)
            g_input = by_input(d[1:], w_ih) if needs[0] else None
            of_input = from_planes(d[1:], (needs[2], False, needs[4], False), input, past)
            of_state = from_planes(ops.cat([d[1:3], d[:1]], 0), (False, needs[3], False, needs[5]), input, past)
            rest = of_input[0], of_state[1], of_input[2], of_state[3]
        return g_input, g_h0, *rest


def _gru_back(g_out, g_hn, g_gates, past, w_hh, gates, lengths, reverse):
    """Return the gradients of the planes before the gates and of the initial state."""
    at, d = places(lengths), {}
    weight = ops.reshape(w_hh, (3, w_hh.shape[1], w_hh.shape[1]))

    def step(t, state):
        dh = state[0] + g_out[at[t]]
        hidden, r, z, n = (gates[k][at[t]] for k in range(4))
        extra = (0, 0, 0, 0) if g_gates is None else [g_gates[k][at[t]] for k in range(4)]
        dn = (dh * (1 - z) + extra[3]) * (1 - n * n)
        dr = (dn * hidden + extra[1]) * r * (1 - r)
        dz = (dh * (past[at[t]] - n) + extra[2]) * z * (1 - z)
        hidden = dn * r + extra[0]
        d[t] = ops.stack([hidden, dr, dz, dn], 0)
        return (dh * z + ops.sum(ops.matmul(ops.stack([dr, dz, hidden], 0), weight), 0),)

    (g_h0,) = walk(step, times(lengths, not reverse), lengths, (g_hn,))
    return joined(d, 1), g_h0


@op
class rnn_layer(Fused):
    """Run one direction of a plain recurrent layer, h' = nonlinearity(W x + b + U h + c), "tanh" or "relu"."""

    inputs = ("input", "h0", "w_ih", "w_hh", "b_ih", "b_hh")
    optional = ("b_ih", "b_hh")
    outs = ("out", "hn")
    promote = "given"
    function = method = False
    takes_none = True
    kernel = "its forward function runs native code of its own"
    half = False
    samples = lambda rng: [
        (*s, n) for s, n in zip(samples(1, 1)(rng) + samples(1, 1)(rng)[:1], ("tanh", "tanh", "tanh", "relu"))
    ]

    def formula(input, h0, w_ih, w_hh, b_ih, b_hh, lengths, reverse, nonlinearity):
        inputs, at, outs = planes(input, w_ih, summed(b_ih, b_hh), 1)[0], places(lengths), {}
        weight, function = ops.transpose(w_hh, 0, 1), ops.tanh if nonlinearity == "tanh" else ops.relu

        def step(t, state):
            outs[t] = function(inputs[at[t]] + ops.matmul(state[0], weight))
            return (outs[t],)

        (hn,) = walk(step, times(lengths, reverse), lengths, (h0,))
        return joined(outs, 0), hn

    def forward(input, h0, w_ih, w_hh, b_ih, b_hh, lengths, reverse, nonlinearity):
        rows, size = input.shape[0], h0.shape[1]
        if not native(rows * size, input, h0, w_ih, w_hh, b_ih, b_hh):
            return rnn_layer.op.formula(input, h0, w_ih, w_hh, b_ih, b_hh, lengths, reverse, nonlinearity)
        gates, hn = np.empty((1, rows, size), input.dtype), copied(h0)
        out = np.empty_like(gates[0])
        bias = np.zeros((1, size), input.dtype) if b_ih is None else b_ih + b_hh
        given = {"input": input, "bias": bias, "w_ih": w_ih, "w_hh": w_hh}
        sweep(f"RNN_{nonlinearity.upper()}", lengths, reverse, gates=gates, out=out, h=hn, **given)
        return out, hn

    def vjp(g, needs, input, h0, w_ih, w_hh, out, lengths, reverse, nonlinearity):
        g_out, g_hn = (ops.zeros_like(x) if y is None else y for x, y in zip((out, h0), g))
        if native(out.shape[0] * out.shape[1], out, g_out, g_hn, w_hh, h0):
            g_h0, mode = copied(g_hn), f"RNN_{nonlinearity.upper()}"
            given = {"grad": g_out, "out": out, "h0": h0, "w_hh": w_hh}
            d, g_input = swept(mode, lengths, reverse, needs[0], input, w_ih, out[None], h=g_h0, **given)
            rest = summed_up(mode, lengths, reverse, needs[2:], d, input, h0, out)
        else:
            d, g_h0 = _rnn_back(g_out, g_hn, w_hh, out, lengths, reverse, nonlinearity)
            g_input = by_input(d, w_ih) if needs[0] else None
            rest = from_planes(d, needs[2:], input, before(out, h0, lengths, reverse))
        return g_input, g_h0, *rest


def _rnn_back(g_out, g_hn, w_hh, out, lengths, reverse, nonlinearity):
    """Return the gradients of the sums before the nonlinearity and of the initial state."""
    at, d = places(lengths), {}

    def step(t, state):
        dh, h = state[0] + g_out[at[t]], out[at[t]]
        d[t] = dh * (1 - h * h) if nonlinearity == "tanh" else ops.masked_fill(dh, h <= 0, 0)
        return (ops.matmul(d[t], w_hh),)

    (g_h0,) = walk(step, times(lengths, not reverse), lengths, (g_hn,))
    return ops.unsqueeze(joined(d, 0), 0), g_h0


__all__ = ["gru_layer", "lstm_layer", "rnn_layer"]
