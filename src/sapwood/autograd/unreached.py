"""Why no gradient reaches a tensor: which line cut it off, or that nothing of this loss used it."""

from __future__ import annotations

import gc
from typing import Any

from ..cuts import Cut, blocks, cuts
from ..node import LEAF, Node, Output
from ..origin import at, is_origin_tracking, place
from ..tensor import Parameter, Tensor

_LOGGING = ("item()", "tolist()", "numpy()", "float()", "int()", "complex()")
REPLAY = "pass a function that computes the loss, explain(model, lambda: …), to follow calls under no_grad too"


def why_none(tensor: Any, reached: set[Any], until: float = float("inf"), *, tracked: bool = False) -> tuple[str, str]:
    """Return the reason, as a word and as a sentence, why `tensor` is not behind the loss.

    reached: the nodes behind the loss; until: its sequence number, after which nothing could cut it any more; tracked:
    whether calls under no_grad were noted.
    """
    node = tensor._node
    if node is None:
        return _no_grad_wanted(tensor)
    leaves = [tensor] if node is LEAF else leaves_behind(node)
    since = 0 if node is LEAF else node.seq
    found = [
        c
        for c in cuts()
        if since < c.seq and (c.seq < until or c.kind == "cut()") and any(c.holds(leaf) for leaf in leaves)
    ]
    found.sort(key=lambda c: c.kind in _LOGGING)
    if found:
        return "cut", cut_text(found[0])
    users = [n for n in gc.get_objects() if isinstance(n, Node) and n not in reached and _uses(n, tensor)]
    if users:
        user = max(users, key=lambda n: n.seq)
        return "elsewhere", f"{user.name()}{at(user)} used it, but no path leads from there to this loss"
    if node is not LEAF:
        return "unused", "no recorded op used it, so this loss does not depend on it"
    partial = [c for c in cuts() if (c.seq < until or c.kind == "cut()") and c.may_hide()]
    text = "never used: no recorded op took it on the way to this loss"
    if partial:
        text += f"; or it lies far behind this cut: {cut_text(partial[0])}"
    # Calls under no_grad are noted with tracking on only; without it the blocks are known, not what happened in them.
    silent = [] if tracked or is_origin_tracking() else blocks()
    if silent:
        text += (
            f"; or it was used under no_grad, where nothing is recorded (the last such block is at {place(silent[0])})"
        )
    return "unused", text


def _uses(node: Node, tensor: Any) -> bool:
    target = tensor if tensor._node is LEAF else tensor._node
    try:
        return any(e is target for e in node.edges)
    except AttributeError:
        return False


def _no_grad_wanted(tensor: Tensor) -> tuple[str, str]:
    made = made_by(tensor)
    if made is not None:
        return "cut", cut_text(made)
    if isinstance(tensor, Parameter):
        return "frozen", "frozen: its requires_grad is False; call requires_grad_() to train it"
    if not tensor.dtype.is_differentiable:
        return "integer", f"{tensor.dtype.name} tensors carry no gradient; convert before the computation, not after"
    return "not wanted", (
        "it does not require grad: it was made from plain values or under no_grad; call requires_grad_() before it is "
        "used, and note that sapwood.tensor(t) copies values without their graph"
    )


def made_by(tensor: Any) -> Cut | None:
    """Return the cut that gave this very tensor."""
    return next((c for c in cuts() if c.result is not None and c.result() is tensor), None)


def cut_text(cut: Cut) -> str:
    """Return in words what a cut did, where, and what to write in its place."""
    where = f" at {place(cut.origin)}"
    kind = cut.kind
    if kind == "no_grad":
        return f"used under no_grad{where}, where nothing is recorded; move that computation out of the block"
    if kind == "integer":
        return f"converted to integers{where}, which carry no gradient; stay in floating point there"
    if kind.startswith("op "):
        return f"went into {kind[3:]}{where}, which has no derivative, and its gradient ends there"
    if kind == "cut()":
        return f"cut off by cut(){where}; let it keep more of the last states where its gradient is wanted"
    if kind in (".data", "detach()", "detach_()"):
        return f"cut off by {kind}{where}; use the tensor itself where its gradient is wanted"
    return f"left the graph through {kind}{where}; keep it a tensor where its gradient is wanted"


def leaves_behind(node: Any, reached: set[Any] | None = None) -> list[Any]:
    """Return the leaves behind a node; put the nodes on the way into `reached`."""
    seen: set[Any] = set() if reached is None else reached
    leaves: dict[Any, None] = {}
    waiting = [node]
    while waiting:
        n = waiting.pop()
        if isinstance(n, Tensor):
            leaves[n] = None
        elif n is not None and n not in seen:
            seen.add(n)
            waiting.extend((n.node,) if type(n) is Output else n.edges)
    return list(leaves)
