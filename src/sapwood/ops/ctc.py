"""Connectionist temporal classification: the likelihood of a label sequence under frame-wise predictions.

Reference: Graves et al., Connectionist temporal classification, ICML 2006.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..errors import ShapeError, ValueRangeError
from .declare import Fused, op, todo


def _extended(targets: Any, lengths: Any, blank: int) -> tuple[Any, Any]:
    """Return the labels with blanks between them (N, 2S + 1), and where a path may skip the blank before a label."""
    n, longest = len(lengths), int(max(lengths, default=0))
    if targets.ndim == 2:
        rows = [targets[i, :s] for i, s in enumerate(lengths)]
    else:
        ends = np.cumsum(lengths)
        rows = [targets[e - s : e] for e, s in zip(ends, lengths)]
    labels = np.full((n, 2 * longest + 1), blank, np.int64)
    for i, row in enumerate(rows):
        labels[i, 1 : 2 * len(row) : 2] = row
    skip = np.zeros(labels.shape, bool)
    skip[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    return labels, skip


def _shift(a: Any, by: int) -> Any:
    """Return `a` moved along its last dimension by `by`, filled with -inf."""
    out = np.full_like(a, -np.inf)
    if by > 0:
        out[:, by:] = a[:, :-by]
    else:
        out[:, :by] = a[:, -by:]
    return out


def _sweep(emit: Any, skip: Any) -> Any:
    """Return log alpha[t, n, s]: the likelihood of all path beginnings that end in state s at time t."""
    alpha = np.full(emit.shape, -np.inf, emit.dtype)
    alpha[0, :, :2] = emit[0, :, :2]
    for t in range(1, len(emit)):
        before = np.logaddexp(alpha[t - 1], _shift(alpha[t - 1], 1))
        before = np.logaddexp(before, np.where(skip, _shift(alpha[t - 1], 2), -np.inf))
        alpha[t] = before + emit[t]
    return alpha


def _likelihood(alpha: Any, input_lengths: Any, target_lengths: Any) -> Any:
    """Return the log likelihood of each example: paths that end in the last label or the blank after it."""
    out = np.empty(alpha.shape[1], alpha.dtype)
    for i, (t, s) in enumerate(zip(input_lengths, target_lengths)):
        if t == 0:
            out[i] = 0 if s == 0 else -np.inf
            continue
        last = alpha[t - 1, i, 2 * s]
        out[i] = np.logaddexp(last, alpha[t - 1, i, 2 * s - 1]) if s else last
    return out


def _samples(rng: Any) -> list[tuple[Any, ...]]:
    x = rng.standard_normal((5, 2, 4))
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    return [(x, np.array([[1, 2], [3, 3]]), (5, 5), (2, 2), 0, False)]


@op
class ctc_negative_log(Fused):
    """Return minus the log likelihood of each target sequence."""

    inputs = ("log_probs", "targets")
    promote = "given"
    function = method = False
    grad_fn = "CtcLossBackward0"
    samples = _samples
    exempt = {
        "pullback": "the gradient is that of the loss after log_softmax, as in PyTorch, and not that of free inputs"
    }

    def canon(log_probs, input_lengths, target_lengths, blank, zero_infinity):
        inputs, targets = tuple(map(int, input_lengths)), tuple(map(int, target_lengths))
        frames, n, classes = log_probs.shape
        if not 0 <= blank < classes:
            raise ValueRangeError(f"ctc_loss: blank must lie in [0, {classes - 1}], got {blank}")
        if len(inputs) != n or len(targets) != n:
            raise ShapeError(f"ctc_loss: input_lengths and target_lengths must have {n} entries, one per example")
        if any(not 0 <= t <= frames for t in inputs):
            raise ValueRangeError(f"ctc_loss: input_lengths must lie in [0, {frames}], the number of frames")
        return inputs, targets, blank, zero_infinity

    def forward(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
        labels, skip = _extended(targets, target_lengths, blank)
        with np.errstate(all="ignore"):
            emit = np.take_along_axis(log_probs, labels[None], 2)
            loss = -_likelihood(_sweep(emit, skip), input_lengths, target_lengths)
        return np.where(np.isinf(loss), 0, loss) if zero_infinity else loss

    def vjp_log_probs(g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
        occupied = ops.ctc_occupancy(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
        return occupied * ops.reshape(g, (1, -1, 1))


@op
class ctc_occupancy(Fused):
    """Return the gradient of the loss by `log_probs`, as PyTorch defines it for normalised log probabilities.

    exp(log_probs) minus the probability that a path is in that class in that frame, given the target
    """

    inputs = ("log_probs", "targets")
    promote = "given"
    function = method = False
    samples = _samples
    vjp_log_probs = todo

    def forward(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
        labels, skip = _extended(targets, target_lengths, blank)
        out = np.zeros(log_probs.shape, log_probs.dtype)
        with np.errstate(all="ignore"):
            for i, (t, s) in enumerate(zip(input_lengths, target_lengths)):
                if not t:
                    continue
                states = labels[i, : 2 * s + 1]
                emit = log_probs[:t, i][:, states][:, None]
                alpha = _sweep(emit, skip[i : i + 1, : 2 * s + 1])
                # Reversed in time and state, a path is a path again: the skips belong to the state reached.
                back = np.zeros((1, len(states)), bool)
                back[0, 2:] = skip[i, : 2 * s + 1][2:][::-1]
                beta = _sweep(emit[::-1, :, ::-1], back)[::-1, :, ::-1]
                total = _likelihood(alpha, (t,), (s,))[0]
                if zero_infinity and np.isinf(total):
                    continue
                share = np.exp(alpha[:, 0] + beta[:, 0] - emit[:, 0] - total)
                row = np.exp(log_probs[:t, i])
                np.subtract.at(row, (slice(None), states), share)
                out[:t, i] = row
        return out


__all__ = ["ctc_negative_log", "ctc_occupancy"]
