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


def from_planes(d: Any, needs: Any, input: Any, w_ih: Any, past: Any, hidden: Any = None) -> Any:
    """Return the gradients of input, weights and biases, given that of the planes, (parts, S, H).

    Args:
        needs: which are wanted, in the order of the result.
        past: (S, H), the states before each step.
        hidden: the planes of the recurrent weights, where they are others.
    """
    hidden = d if hidden is None else hidden
    parts, _, size = d.shape

    def weight(d: Any, x: Any) -> Any:
        return ops.reshape(ops.matmul(ops.transpose(d, 1, 2), x), (parts * size, x.shape[-1]))

    def bias(d: Any) -> Any:
        return ops.reshape(ops.sum(d, 1), (parts * size,))

    g_input = None
    if needs[0]:
        g_input = ops.sum(ops.matmul(d, ops.reshape(w_ih, (parts, size, w_ih.shape[1]))), 0)
    return (
        g_input,
        weight(d, input) if needs[1] else None,
        weight(hidden, past) if needs[2] else None,
        bias(d) if needs[3] else None,
        bias(hidden) if needs[4] else None,
    )


def native(elements: int, *operands: Any) -> bool:
    """Return whether kernels serve: plain float32 or float64 arrays of one type, and enough of them."""
    kind = operands[0].dtype
    if kind is not F32 and kind is not F64:
        return False
    return all(x is None or (type(x) is ndarray and x.dtype is kind) for x in operands) and warm.serve(elements)


def summed(a: Any, b: Any) -> Any:
    """Return the sum of two biases that are both there or not."""
    return None if a is None else a + b


def sweep(mode: str, w_hh: Any, lengths: Lengths, reverse: bool, back: bool = False, **arrays: Any) -> None:
    """Walk through the steps natively."""
    from ..kernels import cells

    made = {n: np.ascontiguousarray(a) for n, a in arrays.items()}
    cells.sweep(mode, np.ascontiguousarray(w_hh), lengths, reverse, back=back, **made)


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
        gates = planes(input, w_ih, summed(b_ih, b_hh), 4)
        hn, cn, out, cells = copied(h0), copied(c0), np.empty((rows, size), gates.dtype), np.empty_like(gates[0])
        sweep("LSTM", w_hh, lengths, reverse, gates=gates, out=out, h=hn, c=cn, cells=cells)
        return out, hn, cn, gates, cells

    def vjp(g, needs, input, h0, c0, w_ih, w_hh, out, gates, cells, lengths, reverse):
        g_out, g_hn, g_cn, g_gates, g_cells = g
        g_out, g_hn, g_cn = (ops.zeros_like(x) if y is None else y for x, y in ((out, g_out), (h0, g_hn), (c0, g_cn)))
        plain = g_gates is None and g_cells is None
        if plain and native(out.shape[0] * out.shape[1], gates, g_out, g_hn, g_cn, w_hh, cells, h0, c0):
            d, g_h0, g_c0 = np.empty_like(gates), copied(g_hn), copied(g_cn)
            given = {"gates": gates, "grad": g_out, "out": out, "h0": h0, "cells": cells, "c0": c0}
            sweep("LSTM", w_hh, lengths, reverse, True, into=d, h=g_h0, c=g_c0, **given)
        else:
            d, g_h0, g_c0 = _lstm_back(g_out, g_hn, g_cn, g_gates, g_cells, c0, w_hh, gates, cells, lengths, reverse)
        past = before(out, h0, lengths, reverse) if needs[4] else None
        g_input, *rest = from_planes(d, (needs[0], *needs[3:]), input, w_ih, past)
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

    Planes are the new gate, reset gate, update gate, and the state's share of the new gate.

    Reference: Cho et al., arXiv:1406.1078.
    """

    inputs = ("input", "h0", "w_ih", "w_hh", "b_ih", "b_hh")
    optional = ("b_ih", "b_hh")
    outs = ("out", "hn", "gates")
    promote = "given"
    function = method = False
    takes_none = True
    half = False
    samples = samples(3, 1)

    def formula(input, h0, w_ih, w_hh, b_ih, b_hh, lengths, reverse):
        inputs, at, size = planes(input, w_ih, b_ih, 3), places(lengths), h0.shape[1]
        outs, gates = {}, {}

        def step(t, state):
            (h,) = state
            x, y = inputs[:, at[t]], planes(h, w_hh, b_hh, 3)
            r, z = ops.sigmoid(x[0] + y[0]), ops.sigmoid(x[1] + y[1])
            n = ops.tanh(x[2] + r * y[2])
            h = n + z * (h - n)
            outs[t], gates[t] = h, ops.stack([n, r, z, y[2]], 0)
            return (h,)

        (hn,) = walk(step, times(lengths, reverse), lengths, (h0,))
        return joined(outs, 0), hn, joined(gates, 1)

    def forward(input, h0, w_ih, w_hh, b_ih, b_hh, lengths, reverse):
        rows, size = input.shape[0], h0.shape[1]
        if not native(rows * size, input, h0, w_ih, w_hh, b_ih, b_hh):
            return gru_layer.op.formula(input, h0, w_ih, w_hh, b_ih, b_hh, lengths, reverse)
        gates, out, hn = np.empty((4, rows, size), input.dtype), np.empty((rows, size), input.dtype), copied(h0)
        weight = w_ih.reshape(3, size, -1).swapaxes(1, 2)
        np.matmul(input, weight[:2], out=gates[1:3])
        np.matmul(input, weight[2], out=gates[0])
        gates[3] = 0 if b_hh is None else b_hh[2 * size :]
        if b_ih is not None:
            gates[1:3] += (b_ih + b_hh)[: 2 * size].reshape(2, 1, size)
            gates[0] += b_ih[2 * size :]
        sweep("GRU", w_hh, lengths, reverse, gates=gates, out=out, h=hn)
        return out, hn, gates

    def vjp(g, needs, input, h0, w_ih, w_hh, out, gates, lengths, reverse):
        g_out, g_hn, g_gates = g
        g_out, g_hn = (ops.zeros_like(x) if y is None else y for x, y in ((out, g_out), (h0, g_hn)))
        past = before(out, h0, lengths, reverse)
        if g_gates is None and native(out.shape[0] * out.shape[1], gates, g_out, g_hn, w_hh, out, h0):
            d, g_h0 = np.empty_like(gates), copied(g_hn)
            given = {"gates": gates, "grad": g_out, "out": out, "h0": h0}
            sweep("GRU", w_hh, lengths, reverse, True, into=d, h=g_h0, **given)
        else:
            d, g_h0 = _gru_back(g_out, g_hn, g_gates, past, w_hh, gates, lengths, reverse)
        x = ops.cat([d[1:3], d[:1]], 0)
        g_input, *rest = from_planes(x, (needs[0], *needs[2:]), input, w_ih, past, d[1:])
        return g_input, g_h0, *rest


def _gru_back(g_out, g_hn, g_gates, past, w_hh, gates, lengths, reverse):
    """Return the gradients of the planes before the gates and of the initial state."""
    at, d = places(lengths), {}
    weight = ops.reshape(w_hh, (3, w_hh.shape[1], w_hh.shape[1]))

    def step(t, state):
        dh = state[0] + g_out[at[t]]
        n, r, z, hidden = (gates[k][at[t]] for k in range(4))
        extra = (0, 0, 0, 0) if g_gates is None else [g_gates[k][at[t]] for k in range(4)]
        dn = (dh * (1 - z) + extra[0]) * (1 - n * n)
        dr = (dn * hidden + extra[1]) * r * (1 - r)
        dz = (dh * (past[at[t]] - n) + extra[2]) * z * (1 - z)
        d[t] = ops.stack([dn, dr, dz, dn * r + extra[3]], 0)
        return (dh * z + ops.sum(ops.matmul(d[t][1:], weight), 0),)

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
        gates, hn = planes(input, w_ih, summed(b_ih, b_hh), 1), copied(h0)
        out = np.empty_like(gates[0])
        sweep(f"RNN_{nonlinearity.upper()}", w_hh, lengths, reverse, gates=gates, out=out, h=hn)
        return out, hn

    def vjp(g, needs, input, h0, w_ih, w_hh, out, lengths, reverse, nonlinearity):
        g_out, g_hn = (ops.zeros_like(x) if y is None else y for x, y in zip((out, h0), g))
        if native(out.shape[0] * out.shape[1], out, g_out, g_hn, w_hh, h0):
            d, g_h0 = np.empty((1, *out.shape), out.dtype), copied(g_hn)
            given = {"gates": d, "grad": g_out, "out": out, "h0": h0}
            sweep(f"RNN_{nonlinearity.upper()}", w_hh, lengths, reverse, True, into=d, h=g_h0, **given)
        else:
            d, g_h0 = _rnn_back(g_out, g_hn, w_hh, out, lengths, reverse, nonlinearity)
        past = before(out, h0, lengths, reverse) if needs[3] else None
        g_input, *rest = from_planes(d, (needs[0], *needs[2:]), input, w_ih, past)
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
