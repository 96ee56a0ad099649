"""`diff`: two graphs compared by structure and shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal

from sapwood.errors import ArgumentError, ValueRangeError
from sapwood.files import write_text
from sapwood.graph.ir import Graph
from sapwood.viz.alignment import alignment
from sapwood.viz.rows import CONSTANT, Listing, Row, of_graph, of_tensors

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
        write_text(path, self.html() if path.suffix.lower() == ".html" else self.text() + "\n")
        return path


_STYLE = """<style>
:root { color-scheme: light dark; } body { font: 14px/1.5 system-ui, sans-serif; margin: 24px; }
h1 { font-size: 18px; } pre { font: 12.5px/1.6 ui-monospace, Consolas, monospace; }
pre div { white-space: pre-wrap; padding: 0 8px; border-left: 3px solid transparent; }
.added { background: #2f9e5522; border-color: #2f9e55; } .removed { background: #d1453b22; border-color: #d1453b; }
.changed { background: #d9a11b22; border-color: #d9a11b; } .same { opacity: .65; } i { opacity: .8; }
</style>
"""


def diff(a: Any, b: Any, *, example: Any = None, names: Any = None, module: Any = None) -> Difference:
    """Compare two graphs by what they call, where, with which attributes, and the shapes that come out.

    Args:
        a, b: captured graphs; or, with `example`, modules or functions; or tensors, or sequences of them, whose
            autograd graphs are compared.
        example: what modules are run on: a tensor, or a tuple of arguments.
        names: of tensors: a mapping for both, or one for each. Leaves without a name are numbered.
        module: names parameters of autograd graphs, for both or one for each.

    Raises:
        ArgumentError: something else, or a captured graph and an autograd graph.
    """
    names = names if isinstance(names, tuple | list) else (names, names)
    module = module if isinstance(module, tuple | list) else (module, module)
    listings = []
    kinds = []
    for i, thing in enumerate((a, b)):
        live = hasattr(thing, "grad_fn") or (isinstance(thing, list | tuple) and not isinstance(thing, Graph))
        kinds.append(live)
        if isinstance(thing, Graph):
            listings.append(of_graph(thing))
        elif live:
            listings.append(of_tensors(thing, names[i], module[i]))
        elif example is not None and callable(thing):
            from sapwood.viz.from_graph import captured

            listings.append(of_graph(captured(thing, example)))
        else:
            raise ArgumentError(
                "diff: expected a captured Graph, a tensor, or a module together with example=, got "
                f"{type(thing).__name__}"
            )
    if kinds[0] != kinds[1]:
        raise ArgumentError(
            "diff: a captured graph holds calls, an autograd graph their derivatives; give two of the same kind"
        )
    first, second = listings
    return Difference((first.name, second.name), [*_sources(first, second), *_rows(first, second)])


def _sources(a: Listing, b: Listing) -> list[Change]:
    """Compare what goes in, by name."""
    changes = []
    for name in [*a.sources, *(n for n in b.sources if n not in a.sources)]:
        if name not in b.sources:
            changes.append(Change("removed", f"{name}: {a.sources[name][0]}"))
        elif name not in a.sources:
            changes.append(Change("added", f"{name}: {b.sources[name][0]}"))
        else:
            (old, before), (new, now) = a.sources[name], b.sources[name]
            details = [f"{old} → {new}"] if old != new else []
            if before != now:
                details.append("now requires grad" if now else "no longer requires grad")
            changes.append(Change("changed" if details else "same", name, details))
    return changes


def _rows(a: Listing, b: Listing) -> list[Change]:
    """Align the rows by what they are and the modules they are in, then compare those that face each other."""
    changes: list[Change] = []
    facing = {name: name for name in (*a.names, CONSTANT)}
    i = j = 0
    for k, n in [*alignment([r.key for r in a.rows], [r.key for r in b.rows]), (len(a.rows), len(b.rows))]:
        changes += [Change("removed", str(r)) for r in a.rows[i:k]]
        changes += [Change("added", str(r)) for r in b.rows[j:n]]
        if k < len(a.rows):
            changes.append(_compare(a.rows[k], b.rows[n], facing))
            facing |= {x[0]: y[0] for x, y in zip(a.rows[k].results, b.rows[n].results)}
        i, j = k + 1, n + 1
    for name in dict.fromkeys([*a.writes, *b.writes]):
        if name not in b.writes or name not in a.writes:
            changes.append(Change("added" if name in b.writes else "removed", f"write {name}"))
        else:
            other = facing.get(a.writes[name]) != b.writes[name]
            details = [f"{b.writes[name]} instead of {a.writes[name]}"] if other else []
            changes.append(Change("changed" if details else "same", f"write {name}", details))
    return [*changes, _returns(a, b, facing)]


def _returns(a: Listing, b: Listing, facing: dict[str, str]) -> Change:
    old, new = (", ".join(kind for _, kind in g.returns) for g in (a, b))
    details = [] if old == new else [f"{old} → {new}"]
    before, now = [n for n, _ in a.returns], [n for n, _ in b.returns]
    if [facing.get(n) for n in before] != now:
        details.append(f"{', '.join(now)} instead of {', '.join(before)}")
    return Change("changed" if details else "same", "return", details)


def _compare(old: Row, new: Row, facing: dict[str, str]) -> Change:
    details = []
    for name in dict.fromkeys([*old.attrs, *new.attrs]):
        x, y = (r.attrs.get(name, "none") for r in (old, new))
        if x != y:
            details.append(f"{name}: {x} → {y}")
    for (_, made), (_, now) in zip(old.results, new.results):
        if made != now:
            details.append(f"{made} → {now}")
    if len(old.results) != len(new.results):
        details.append(f"{len(old.results)} results → {len(new.results)}")
    if [facing.get(n) for n in old.reads] != new.reads:
        details.append(f"reads {', '.join(new.reads)} instead of {', '.join(old.reads)}")
    if old.numbers != new.numbers:
        details.append(f"numbers: {old.numbers or 'none'} → {new.numbers or 'none'}")
    return Change("changed" if details else "same", str(new), details)
