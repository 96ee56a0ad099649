"""The mode word: what every op call must know about its surroundings, in one integer.

The word lives in a context variable, the only one that an ordinary call reads, so it is local to the thread and to the
async task. Its two common values are plain: `GRAD` (1) records a graph, 0 does not. Any higher bit asks for something
unusual, and sends the call down the slow path with a single comparison (`mode > 1`).
"""

from __future__ import annotations

from contextvars import ContextVar
from itertools import count

GRAD = 1
"""Record a graph of differentiable calls."""
INFERENCE = 2
"""Outputs are inference tensors: no version counter, never saved for backward."""
PACK = 4
"""Saved values pass through hooks (`autograd.graph.saved_tensors_hooks`)."""
OBSERVE = 8
"""An observer wants to see every call (capture, profilers, guards)."""
ANOMALY = 16
"""Nodes keep the traceback of the call that made them."""
GUARD = 32
"""Somebody examines every gradient as it is made."""

mode: ContextVar[int] = ContextVar("sapwood_mode", default=GRAD)
get_mode = mode.get

next_seq = count(1).__next__
"""Draw the next sequence number. Nodes and in-place writes share the one counter, so "before" and "after" compare."""


class Last:
    """The sequence number of the latest in-place write; a node made after it needs no overwrite check."""

    write = 0


last = Last()
