"""`summary`: what a module consists of and what it costs on an example: shapes, parameters, work, bytes, time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any

from sapwood.autograd.held import in_bytes, saved
from sapwood.autograd.mode import enable_grad, no_grad
from sapwood.autograd.observe import watch_calls
from sapwood.errors import ArgumentError, CaptureError
from sapwood.graph.ir import flatten
from sapwood.tensor import Tensor
from sapwood.viz.flops import flops_of

__all__ = ["Row", "Summary", "summary"]


@dataclass(slots=True)
class Row:
    """One module, with what happened in all its calls, submodules included.

    path, kind: its dotted name and class. depth: how many modules it lies in. calls: how often it ran.
    shapes: of the last call's outputs. parameters, frozen: numbers that are trained, and that are not; a parameter that
    several modules share counts at the first. flops: floating-point operations (see `flops`). saved: bytes kept for
    backward. seconds: of its fastest pass, None unless timed.
    """

    path: str
    kind: str
    depth: int
    calls: int = 0
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    parameters: int = 0
    frozen: int = 0
    buffers: int = 0
    flops: int = 0
    saved: int = 0
    seconds: float | None = None


class Summary:
    """What `summary` found; prints as a table. `rows` holds a Row for each module, in order, the whole one first."""

    def __init__(self, rows: list[Row], depth: int | None) -> None:
        self.rows = rows
        self.depth = depth

    @property
    def total(self) -> Row:
        """The row of the whole module."""
        return self.rows[0]

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return the rows as plain data, by path."""
        names = ("kind", "calls", "shapes", "parameters", "frozen", "buffers", "flops", "saved", "seconds")
        return {r.path: {n: getattr(r, n) for n in names} for r in self.rows}

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        timed = self.total.seconds is not None
        head = ["module", "output", "parameters", "FLOPs", "saved", *(["time"] if timed else [])]
        rows = []
        for r in self.rows:
            if self.depth is not None and r.depth > self.depth:
                continue
            name = r.path.rpartition(".")[2]
            title = (
                "  " * r.depth + (f"{name} ({r.kind})" if name else r.kind) + (f" ×{r.calls}" if r.calls > 1 else "")
            )
            shape = ", ".join(map(str, r.shapes)) if r.calls else "not called"
            cells = [title, shape, f"{r.parameters + r.frozen:,}" if r.parameters + r.frozen else "–"]
            cells += [_short(r.flops), in_bytes(r.saved) if r.saved else "–"]
            rows.append(cells + ([_time(r.seconds)] if timed else []))
        return head, rows

    def __str__(self) -> str:
        head, rows = self._cells()
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

        def line(cells: list[str]) -> str:
            left = [c.ljust(w) for c, w in zip(cells[:2], widths[:2])]
            return "  ".join([*left, *(c.rjust(w) for c, w in zip(cells[2:], widths[2:]))]).rstrip()

        t = self.total
        rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
        foot = [
            f"parameters: {t.parameters + t.frozen:,} ({t.parameters:,} trained, {t.frozen:,} frozen), "
            f"numbers in buffers: {t.buffers:,}",
            f"one forward pass: {_short(t.flops) if t.flops else 0} FLOPs, {in_bytes(t.saved)} kept for backward",
        ]
        return "\n".join([line(head), rule, *map(line, rows), rule, *foot])

    __repr__ = __str__

    def html(self) -> str:
        """Return the table as HTML."""
        head, rows = self._cells()
        cell = '<td style="text-align:{};padding:2px 10px;white-space:pre">{}</td>'
        top = "".join(f'<th style="text-align:left;padding:2px 10px">{escape(h)}</th>' for h in head)
        body = "".join(
            "<tr>" + "".join(cell.format("left" if i < 2 else "right", escape(c)) for i, c in enumerate(r)) + "</tr>"
            for r in rows
        )
        foot = "<br>".join(escape(x) for x in str(self).splitlines()[-2:])
        return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table><p>{foot}</p>"

    _repr_html_ = html


def _short(n: float) -> str:
    if not n:
        return "–"
    for unit in ("", "k", "M", "G", "T"):
        if n < 1000:
            return f"{n:.4g} {unit}".rstrip() if unit else f"{n:.0f}"
        n /= 1000
    return f"{n:.4g} P"


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1e6 * seconds:.0f} µs" if seconds < 1e-3 else f"{1e3 * seconds:.2f} ms"


def summary(
    module: Any, *example: Any, depth: int | None = None, timed: bool = False, backward: bool = True, **named: Any
) -> Summary:
    """Run a module on an example and report shapes, parameters, work and memory, submodule by submodule.

    The module is left as it was: mode, buffers, gradients and the random state.

    Args:
        module: the module.
        example: its arguments.
        depth: how many levels of submodules are printed; None: all.
        timed: measure the time of each submodule too: the fastest of five passes without gradients.
        backward: find out what is kept for backward, which takes one more pass.
        named: keyword arguments of the module.

    Raises:
        ArgumentError: `module` is no module.
        CaptureError: it raised an exception on the example; the message names the submodule and what it was given.
    """
    if not hasattr(module, "named_modules"):
        raise ArgumentError(f"summary: expected a module, got {type(module).__name__}")
    rows = _rows(module)
    with _unchanged(module):
        watch = _Watch(module, rows)
        with watch, no_grad(), watch_calls(watch.called):
            _run(module, example, named, watch)
        if timed:
            for _ in range(5):
                with watch, no_grad():
                    watch.timing = True
                    _run(module, example, named, watch)
        if backward:
            _saved_bytes(module, rows, example, named)
    return Summary(list(rows.values()), depth)


def _rows(module: Any) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    seen: set[int] = set()
    for path, m in module.named_modules():
        row = rows[path] = Row(path, type(m).__name__, path.count(".") + 1 if path else 0)
        above = [rows[p] for p in _ancestors(path)]
        for p in m.parameters(recurse=False):
            if id(p) not in seen:
                seen.add(id(p))
                for r in (*above, row):
                    if p.requires_grad:
                        r.parameters += p.numel()
                    else:
                        r.frozen += p.numel()
        for b in m.buffers(recurse=False):
            for r in (*above, row):
                r.buffers += b.numel()
    return rows


def _ancestors(path: str) -> list[str]:
    """Return the paths of the modules that a path lies in, the outermost first."""
    parts = path.split(".") if path else []
    return ([""] if parts else []) + [".".join(parts[:k]) for k in range(1, len(parts))]


class _Watch:
    """Inside, notes calls, shapes, work and times of submodules."""

    def __init__(self, module: Any, rows: dict[str, Row]) -> None:
        self.module, self.rows, self.timing = module, rows, False
        self._running: list[tuple[str, float]] = []
        self._handles: list[Any] = []
        self.given = ""
        self._failed: tuple[BaseException | None, str, str] = (None, "", "")
        self.spent: dict[str, float] = {}

    def __enter__(self) -> _Watch:
        self.spent = {}
        self._running = []
        # What the caller is handling already, such as in an `except` block, is no failure of the module.
        self._before = sys.exc_info()[1]
        for path, m in self.module.named_modules():
            self._handles.append(m.register_forward_pre_hook(self._entering(path), prepend=True))
            self._handles.append(m.register_forward_hook(self._leaving(path), always_call=True))
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._failed = None, "", ""
        for path, seconds in self.spent.items() if self.timing else ():
            row = self.rows[path]
            row.seconds = seconds if row.seconds is None else min(row.seconds, seconds)

    def _entering(self, path: str) -> Any:
        def enter(module: Any, args: Any) -> None:
            found: list[Any] = []
            flatten(args, found, lambda x: isinstance(x, Tensor))
            self.given = ", ".join(f"{t.dtype.name} {tuple(t.shape)}" for t in found)
            self._running.append((path, time.perf_counter()))

        return enter

    def _leaving(self, path: str) -> Any:
        def leave(module: Any, args: Any, output: Any) -> None:
            at, begin = self._running.pop()
            problem = sys.exc_info()[1]
            if output is None and problem is not None and problem is not self._before:
                # Called although forward failed; the innermost module is the first to be.
                if self._failed[0] is not problem:
                    self._failed = problem, at, self.given
                return
            if self.timing:
                if any(path == at for path, _ in self._running):
                    return  # a module that calls itself: its outermost call includes this one
                self.spent[at] = self.spent.get(at, 0.0) + time.perf_counter() - begin
                return
            found: list[Any] = []
            flatten(output, found, lambda x: isinstance(x, Tensor))
            row = self.rows[path]
            row.calls += 1
            row.shapes = [tuple(t.shape) for t in found]

        return leave

    def called(self, op: Any, inputs: Any, outputs: Any) -> None:
        """Count an op's work for every module that is running."""
        work = flops_of(op, inputs, outputs)
        for path in {p for p, _ in self._running}:
            self.rows[path].flops += work

    def where(self, problem: BaseException) -> str:
        """Return the innermost module that a problem came from, and what it was given."""
        found, path, given = self._failed
        path, given = (path, given) if found is problem else ("", self.given)
        what = f"{path or 'the module'} ({self.rows[path].kind})"
        return f"{what} raised {type(problem).__name__} on {given or 'no tensors'}"


def _run(module: Any, example: Any, named: Any, watch: _Watch) -> Any:
    try:
        return module(*example, **named)
    except Exception as problem:
        raise CaptureError(f"summary: {watch.where(problem)}: {problem}") from problem


def _saved_bytes(module: Any, rows: dict[str, Row], example: Any, named: Any) -> None:
    def loss() -> Any:
        found: list[Any] = []
        with enable_grad():
            flatten(module(*example, **named), found, lambda x: isinstance(x, Tensor))
        return tuple(t for t in found if t.requires_grad)

    for held in saved(loss, module):
        path = held.module.split(" ")[0] if " " in held.module else ""
        path = path if path in rows else ""
        for at in dict.fromkeys((*_ancestors(path), path)):
            rows[at].saved += held.bytes


@contextmanager
def _unchanged(module: Any) -> Iterator[None]:
    """Restore buffers and the random state afterwards."""
    from sapwood.random import get_rng_state, set_rng_state

    state = get_rng_state()
    kept = [(b, b.detach().clone()) for b in module.buffers()]
    try:
        yield
    finally:
        with no_grad():
            for buffer, old in kept:
                buffer.copy_(old)
        set_rng_state(state)
