"""Cut points: where a tensor that wants a gradient left the graph, so that its history ended there.

Cuts are rare (`detach`, `.data`, `item`, `numpy`, a conversion to integers, no_grad) and noted per source line, with
weak references to the leaves behind them: nothing is kept alive. `autograd.explain` reads them.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import deque
from typing import Any

from .node import LEAF, Output
from .origin import OWN, Origin, is_own, of_frame
from .state import OBSERVE, get_mode, next_seq

REACH = 64
"""Nodes to look through, behind a cut, for the leaves that it cuts off."""
SITES = 512
"""Source lines to remember; beyond, the oldest is dropped."""
_QUIET = tuple(OWN[0] + os.path.join(*parts) for parts in (("optim", ""), ("nn", "init")))
"""Where optimizers and initialisers are."""


class Cut:
    """The cuts made at one place of the program: what they cut off, and what they last gave."""

    __slots__ = ("kind", "leaves", "origin", "result", "seq", "whole")

    def __init__(self, kind: str, origin: Origin) -> None:
        self.kind = kind
        self.origin = origin
        self.seq = 0
        self.whole = True
        self.leaves: dict[int, Any] = {}
        self.result: Any = None

    def holds(self, leaf: Any) -> bool:
        """Return whether `leaf` was seen behind this cut."""
        found = self.leaves.get(id(leaf))
        return found is not None and found() is leaf

    def may_hide(self) -> bool:
        """Return whether leaves that nobody looked for may be behind this cut, which takes a graph too long to search.

        Once every leaf that was found there has died, so has the model they belonged to.
        """
        return not self.whole and (not self.leaves or any(r() is not None for r in self.leaves.values()))


_blocks: deque[Origin] = deque(maxlen=64)
entered = _blocks.append
"""Note that a no_grad block begins at an origin; what is used inside is not looked at, which would cost something."""

_sites: dict[tuple[int, int, str], Cut] = {}


def note(kind: str, tensor: Any, result: Any = None, *, up: int = 2) -> None:
    """Note that user code cuts `tensor` here by a method, `up` frames away; uses inside the package do not count."""
    frame = sys._getframe(up)
    if not is_own(frame.f_code.co_filename):
        _noted(kind, (tensor,), result, (frame.f_code, frame.f_lasti))


def read(what: str, tensor: Any) -> None:
    """Tell those who watch that Python or NumPy sees the elements of a tensor from here on."""
    if get_mode() & OBSERVE:
        from .autograd.observe import told_read

        told_read(what, tensor)


def unrecorded(op: Any, mode: int, inputs: tuple[Any, ...], result: Any = None) -> None:
    """Note a call whose inputs want gradients and that recorded nothing; called by the wrapper of `op`.

    What optimizers and initialisers do to parameters under no_grad is not a cut.
    """
    if not mode:
        kind = "no_grad"
    elif op.casts:
        kind = "integer"
    else:
        kind = "op " + op.name
    frame: Any = sys._getframe(2)
    while frame is not None and is_own(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith(_QUIET):
            return
        frame = frame.f_back
    origin = of_frame(frame)
    if origin is not None:
        _noted(kind, [t for t in inputs if getattr(t, "_node", None) is not None], result, origin)


def _noted(kind: str, tensors: Any, result: Any, origin: Origin) -> None:
    key = id(origin[0]), origin[1], kind
    cut = _sites.get(key)
    if cut is None:
        if len(_sites) >= SITES:
            del _sites[next(iter(_sites))]
        cut = _sites[key] = Cut(kind, origin)
    cut.seq = next_seq()
    cut.result = None if result is None else weakref.ref(result)
    if len(cut.leaves) > 4 * REACH:
        cut.leaves = {k: r for k, r in cut.leaves.items() if r() is not None}
    for tensor in tensors:
        for leaf in _behind(tensor, cut):
            if not cut.holds(leaf):
                cut.leaves[id(leaf)] = weakref.ref(leaf)


def _behind(tensor: Any, cut: Cut) -> list[Any]:
    """Return the leaves within REACH nodes behind a tensor."""
    if tensor._node is LEAF:
        return [tensor]
    leaves: list[Any] = []
    seen: set[Any] = set()
    waiting = [tensor._node]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        if len(seen) == REACH:
            cut.whole = False
            break
        seen.add(node)
        for edge in (node.node,) if type(node) is Output else node.edges:
            if edge is None:
                continue
            if hasattr(edge, "_array"):
                leaves.append(edge)
            else:
                waiting.append(edge)
    return leaves


def cuts() -> list[Cut]:
    """Return the cuts noted so far, the latest first."""
    return sorted(_sites.values(), key=lambda c: -c.seq)


def blocks() -> list[Origin]:
    """Return where the user's program entered no_grad of late, each place once, the latest first."""
    places = dict.fromkeys(reversed(_blocks))
    return [o for o in places if not is_own(o[0].co_filename)]
