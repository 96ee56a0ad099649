"""What the engine's errors say: which op and line saved, wrote or freed a value, and what to do.

An exception that leaves a backward pass carries, as notes, the user's lines that made the node it happened in.
"""

from __future__ import annotations

from typing import Any

from ..node import Node, Output
from ..origin import at, origin_of, place


def overwritten(node: Any, what: str, array: Any, record: Any, since: int) -> str:
    """Return the text of the error about a saved value that was written over after number `since`."""
    later = [w for w in record.writes if w[0] > since]
    number = len(later)
    _, op, origin = later[0] if later else (0, record.op, None)
    several = "at least " if number == len(record.writes) < record.version else ""
    count = f"{several}{number} write{'' if number == 1 else 's'} since"
    if number > 1:
        count += f", the last by {record.op}{_line(later[-1][2])}"
    made = at(node, " when it was made at ")
    return (
        f"backward: {node.name()} saved {what}, {array.dtype} {array.shape},{made}{',' if made else ''} and {op}"
        f"{_line(origin)} has written over it ({count}; version {record.version} of its memory); use the out-of-place "
        f"form of {op.removesuffix('_')} there, or pass tensor.clone() to one of the two"
    )


def _line(origin: Any) -> str:
    found = place(origin)
    return f" at {found}" if found else ""


def freed(node: Any, by: Any) -> str:
    """Return the text of the error about a node whose saved values an earlier backward has freed."""
    return (
        f"backward: {node.name()}{at(node, ', made at ')}{',' if origin_of(node) else ''} has already been run, and "
        f"what it saved was freed by the earlier backward{at(by)}; build the graph anew for each "
        "backward (is a part of it made before the loop?), or pass retain_graph=True to the earlier call"
    )


def add_notes(problem: BaseException, roots: Any, run: Any) -> None:
    """Add to an exception what the node it happened in has to tell.

    Args:
        roots: the (edge, gradient) pairs of the pass.
        run: the engine's function; where it stood is read from its frame, so that the loop itself pays nothing.
    """
    trace = problem.__traceback__
    while trace is not None and trace.tb_frame.f_code is not run.__code__:
        trace = trace.tb_next
    node = None if trace is None else trace.tb_frame.f_locals.get("node")
    if not isinstance(node, Node):
        return
    from ..node import Freed

    made = place(origin_of(node))
    if made is not None:
        problem.add_note(
            f"In the backward of {node.name()}, recorded by the forward call\n"
            f'  File "{made.file}", line {made.line}, in {made.function}' + (f"\n    {made.text}" if made.text else "")
        )
    if isinstance(node.saved, Freed):
        text = shared_part(roots, node.saved)
        if text:
            problem.add_note(text)


def shared_part(roots: Any, by: Any) -> str:
    """Return which part of the graph under `roots` is older than the backward pass that freed it."""
    found = [edge for edge, _ in roots if isinstance(edge, (Node, Output))]
    seen: set[Any] = set()
    tops: list[Any] = []
    newer = 0
    while found:
        node = found.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.seq < by.seq:
            if isinstance(node, Node):
                tops.append(node)
                continue
            found.append(node.node)
            continue
        newer += 1
        edges = (node.node,) if isinstance(node, Output) else node.edges
        found.extend(e for e in edges if isinstance(e, (Node, Output)))
    if not tops:
        return ""
    if not newer:
        return (
            f"The whole graph was built before that backward{at(by)}: the same loss was differentiated twice. Run the "
            "forward pass again for each backward."
        )
    tops.sort(key=lambda n: -n.seq)
    parts = ", ".join(f"{n.name()}{at(n)}" for n in tops[:3])
    return (
        f"Older than that backward{at(by)}, and shared with the graph it went through: the part that ends in {parts}. "
        "Move that computation into the loop, or cut it off with detach() if no gradient has to go there."
    )
