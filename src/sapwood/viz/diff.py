"""`diff`: two graphs compared by structure and shapes."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from html import escape
from pathlib import Path
from typing import Any, Literal

from sapwood.errors import ArgumentError, ValueRangeError
from sapwood.graph.ir import Call, Graph, Value

__all__ = ["Change", "Difference", "diff"]

Kind = Literal["same", "added", "removed", "changed"]
MARKS: dict[Kind, str] = {"same": " ", "added": "+", "removed": "-", "changed": "~"}


@dataclass(slots=True)
class Change:
    """One line of a comparison: a call or a value that goes in, in one graph or in both, and what differs."""

    kind: Kind
    what: str
    details: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{MARKS[self.kind]} {self.what}" + (f"  [{'; '.join(self.details)}]" if self.details else "")


class Difference:
    """What `diff` found: `changes` in order; false where the graphs are alike."""

    def __init__(self, names: tuple[str, str], changes: list[Change]) -> None:
        self.names = names
        self.changes = changes

    def __bool__(self) -> bool:
        return any(c.kind != "same" for c in self.changes)

    def count(self, kind: Kind) -> int:
        """Return how many lines are of a kind."""
        return sum(c.kind == kind for c in self.changes)

    def text(self, context: int = 2) -> str:
        """Return the changes as text, with some lines of what is alike around them.

        Args:
            context: lines before and after each change; the others are left out.
        """
        head = f"{self.names[0]} → {self.names[1]}: "
        if not self:
            return head + f"alike, {len(self.changes)} values and calls"
        head += ", ".join(f"{self.count(k)} {k}" for k in ("added", "removed", "changed") if self.count(k))
        near = [
            any(c.kind != "same" for c in self.changes[max(0, i - context) : i + context + 1])
            for i in range(len(self.changes))
        ]
        lines = [head]
        skipped = 0
        for change, shown in zip(self.changes, near):
            if shown:
                if skipped:
                    lines.append(f"  … {skipped} alike")
                skipped = 0
                lines.append(str(change))
            else:
                skipped += 1
        return "\n".join([*lines, *([f"  … {skipped} alike"] if skipped else [])])

    __str__ = text

    def __repr__(self) -> str:
        return f"Difference({self.text(0).splitlines()[0]})"

    def html(self) -> str:
        """Return the whole comparison as a self-contained HTML page."""
        rows = "\n".join(
            f'<div class="{c.kind}">{escape(MARKS[c.kind])} {escape(c.what)}'
            + "".join(f" <i>{escape(d)}</i>" for d in c.details)
            + "</div>"
            for c in self.changes
        )
        title = escape(f"{self.names[0]} → {self.names[1]}")
        summary = escape(self.text(0).splitlines()[0])
        head = f'<meta charset="utf-8"><title>{title}</title>\n{_STYLE}'
        return f'<!doctype html>\n<html lang="en">{head}<h1>{title}</h1><p>{summary}</p>\n<pre>{rows}</pre></html>\n'

    def _repr_html_(self) -> str:
        return self.html()

    def save(self, path: str | Path) -> Path:
        """Write the comparison as .html or .txt, whole or not at all.

        Raises:
            ValueRangeError: another suffix.
        """
        path = Path(path)
        if path.suffix.lower() not in (".html", ".txt"):
            raise ValueRangeError(f"Difference.save: expected a path ending in .html or .txt, got {str(path)!r}")
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(self.html() if path.suffix.lower() == ".html" else self.text() + "\n")
        os.replace(name, path)
        return path


_STYLE = """<style>
:root { color-scheme: light dark; } body { font: 14px/1.5 system-ui, sans-serif; margin: 24px; }
h1 { font-size: 18px; } pre { font: 12.5px/1.6 ui-monospace, Consolas, monospace; }
pre div { white-space: pre-wrap; padding: 0 8px; border-left: 3px solid transparent; }
.added { background: #2f9e5522; border-color: #2f9e55; } .removed { background: #d1453b22; border-color: #d1453b; }
.changed { background: #d9a11b22; border-color: #d9a11b; } .same { opacity: .65; } i { opacity: .8; }
</style>
"""


def diff(a: Any, b: Any, *, example: Any = None) -> Difference:
    """Compare two graphs by what they call, where, with which attributes, and the shapes that come out.

    Args:
        a, b: captured graphs; or, with `example`, modules or functions.
        example: what they are run on: a tensor, or a tuple of arguments.

    Raises:
        ArgumentError: something that is neither.
    """
    graphs = []
    for thing in (a, b):
        if isinstance(thing, Graph):
            graphs.append(thing)
        elif example is not None and callable(thing):
            from sapwood.viz.from_graph import captured

            graphs.append(captured(thing, example))
        else:
            raise ArgumentError(
                f"diff: expected a captured Graph, or a module together with example=, got {type(thing).__name__}"
            )
    first, second = graphs
    return Difference((first.name, second.name), [*_sources(first, second), *_calls(first, second)])


def _sources(a: Graph, b: Graph) -> list[Change]:
    """Compare what goes in, by name."""
    old, new = ({f"{v.role} {v.name}": v for v in g.sources()} for g in (a, b))
    changes = []
    for name in [*old, *(n for n in new if n not in old)]:
        if name not in new:
            changes.append(Change("removed", f"{name}: {old[name].type}"))
        elif name not in old:
            changes.append(Change("added", f"{name}: {new[name].type}"))
        else:
            x, y = old[name], new[name]
            details = [f"{x.type} → {y.type}"] if x.type != y.type else []
            if x.requires_grad != y.requires_grad:
                details.append("now requires grad" if y.requires_grad else "no longer requires grad")
            changes.append(Change("changed" if details else "same", name, details))
    return changes


def _calls(a: Graph, b: Graph) -> list[Change]:
    """Align the calls by op and module, then compare those that face each other."""
    keys = [[(c.op.name, tuple(s.path for s in c.scope)) for c in g.calls] for g in (a, b)]
    matcher: SequenceMatcher[Any] = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    changes: list[Change] = []
    facing: dict[str, str] = {v.name: v.name for v in a.sources()}
    for how, i, j, k, n in matcher.get_opcodes():
        if how == "equal":
            for old, new in zip(a.calls[i:j], b.calls[k:n]):
                changes.append(_compare(old, new, facing))
                facing |= {x.name: y.name for x, y in zip(old.results, new.results)}
            continue
        changes += [Change("removed", _said(c)) for c in a.calls[i:j]]
        changes += [Change("added", _said(c)) for c in b.calls[k:n]]
    outputs = [", ".join(v.type for v in g.outputs) for g in (a, b)]
    details = [] if outputs[0] == outputs[1] else [f"{outputs[0]} → {outputs[1]}"]
    return [*changes, Change("changed" if details else "same", "return", details)]


def _compare(old: Call, new: Call, facing: dict[str, str]) -> Change:
    details = []
    for name in dict.fromkeys([*old.attrs, *new.attrs]):
        x, y = (repr(c.attrs.get(name)) for c in (old, new))
        if x != y:
            details.append(f"{name}: {x} → {y}")
    for made, now in zip(old.results, new.results):
        if made.type != now.type:
            details.append(f"{made.type} → {now.type}")
    reads = [[v.name for v in c.values()] for c in (old, new)]
    if [facing.get(n) for n in reads[0]] != reads[1]:
        details.append(f"reads {', '.join(reads[1])} instead of {', '.join(reads[0])}")
    numbers = [[x for x in c.inputs if not isinstance(x, Value | tuple)] for c in (old, new)]
    if repr(numbers[0]) != repr(numbers[1]):
        details.append(f"numbers: {numbers[0]} → {numbers[1]}")
    return Change("changed" if details else "same", _said(new), details)


def _said(call: Call) -> str:
    made = ", ".join(f"{r.name}: {r.type}" for r in call.results)
    where = f"  in {call.scope[-1]}" if call.scope else ""
    return f"{made} = {call.op.name}({', '.join(v.name for v in call.values())}){where}"
