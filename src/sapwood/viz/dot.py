"""A drawing as text in the DOT language."""

from __future__ import annotations

from sapwood.viz.measure import STYLES
from sapwood.viz.model import Drawing, Group, Item

__all__ = ["dot_text", "quoted"]

FRAME = "#cbd5e1"


def dot_text(drawing: Drawing) -> str:
    """Return the drawing in the DOT language: one statement a line, items before links."""
    out = [
        "digraph {",
        f"  graph [rankdir={drawing.direction}]",
        '  node [style=filled, fontname="Helvetica", fontsize=11]',
        '  edge [fontname="Helvetica", fontsize=9, color="#64748b"]',
    ]
    for k, item in enumerate(drawing.items):
        if not item.scope:
            out.append(f"  n{k} [{item_attributes(item)}]")
    out += clusters(drawing)
    for link in drawing.links:
        attributes = [f"label={quoted(link.label)}"] if link.label else []
        if link.source > link.target:
            attributes.append("constraint=false")
        if link.dashed:
            attributes.append("style=dashed")
        out.append(f"  n{link.source} -> n{link.target}" + (f" [{', '.join(attributes)}]" if attributes else ""))
    out.append("}")
    return "\n".join(out) + "\n"


def clusters(drawing: Drawing) -> list[str]:
    """Return the items that belong to modules, each in the nested clusters of its scope."""
    groups = drawing.groups()
    inner: dict[tuple[str, ...], list[Group]] = {}
    for found in groups:
        inner.setdefault(found.path[:-1], []).append(found)
    numbers = {found.path: k for k, found in enumerate(groups)}
    out: list[str] = []
    stack: list[Group | str] = list(reversed(inner.get((), [])))
    while stack:
        group = stack.pop()
        if isinstance(group, str):
            out.append(group)
            continue
        pad = "  " * len(group.path)
        out.append(f"{pad}subgraph cluster{numbers[group.path]} {{")
        out.append(f'{pad}  graph [label={quoted(group.title)}, labeljust=l, style=rounded, color="{FRAME}"]')
        for k in group.items:
            if drawing.items[k].scope == group.path:
                out.append(f"{pad}  n{k} [{item_attributes(drawing.items[k])}]")
        stack.append(f"{pad}}}")
        stack += reversed(inner.get(group.path, []))
    return out


def item_attributes(item: Item) -> str:
    style = STYLES[item.kind]
    shape = "ellipse" if item.is_variable else "box"
    look = "filled,dashed" if style.dashed else "filled" if item.is_variable else "filled,rounded"
    label = "\n".join((item.title, *item.lines, *item.marks))
    return (
        f'shape={shape}, style="{look}", fillcolor="{style.fill}", color="{style.stroke}", label={quoted(label)}, '
        f"tooltip={quoted(item.tip or item.title)}"
    )


def quoted(text: str) -> str:
    """Return a DOT string. A backslash would start an escape, and line ends are written as one."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", " ").replace("\0", "\ufffd")
    return '"' + text.replace("\n", "\\n") + '"'
