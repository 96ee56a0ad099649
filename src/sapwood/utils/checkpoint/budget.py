"""`checkpoint_to_budget`: make a model's saved bytes fit a budget by recomputing some of its children."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ...autograd import run
from ...autograd.mode import enable_grad
from ...errors import GradError, ValueRangeError
from ...node import LEAF
from ...random import fork_rng
from ...state import next_seq
from ...tensor import Tensor, wrap
from .call import _record, noop_context_fn
from .frame import Frame
from .live import Storages, live_bytes, nodes_under, saved_arrays
from .plan import Problem, Unit, cheapest, smallest


@dataclass(frozen=True)
class ChildReport:
    """One child of a budgeted module."""

    name: str
    kind: str
    saved_bytes: int
    """What it saves for backward and no child before it saved, in bytes."""
    seconds: float
    """Its forward time, which recomputing it costs again, in seconds."""
    recomputed: bool


@dataclass(frozen=True)
class BudgetReport:
    """What `checkpoint_to_budget` measured, chose and got. Printing it gives a table, `as_dict()` plain data."""

    children: tuple[ChildReport, ...]
    budget_bytes: int
    before_bytes: int
    """Saved bytes at the peak with nothing recomputed."""
    predicted_bytes: int
    measured_bytes: int
    """The same as planned, and as measured in a forward and backward of the wrapped module."""
    forward_seconds: float
    recompute_seconds: float
    exact: bool
    """Whether the choice is known to cost the least time; without SciPy it is a greedy one."""
    _undo: Callable[[], None] = field(repr=False, compare=False, default=lambda: None)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as dictionaries, lists and numbers."""
        data = {k: v for k, v in self.__dict__.items() if k not in ("_undo", "children")}
        return {**data, "children": [asdict(c) for c in self.children]}

    def undo(self) -> None:
        """Give the children their own forward back."""
        self._undo()

    def __str__(self) -> str:
        head = ("child", "module", "saved", "forward", "")
        rows = [
            (
                c.name,
                c.kind,
                _bytes(c.saved_bytes),
                f"{c.seconds * 1e3:.2f} ms",
                "recomputed" if c.recomputed else "kept",
            )
            for c in self.children
        ]
        widths = [max(len(r[i]) for r in (head, *rows)) for i in range(5)]
        lines = [
            f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}  {e}".rstrip()
            for a, b, c, d, e in (head, *rows)
        ]
        more = 100 * self.recompute_seconds / self.forward_seconds if self.forward_seconds else 0.0
        return "\n".join(
            [
                *lines,
                f"peak of saved bytes: {_bytes(self.before_bytes)} before, {_bytes(self.predicted_bytes)} predicted, "
                f"{_bytes(self.measured_bytes)} measured, budget {_bytes(self.budget_bytes)}",
                f"time: {self.recompute_seconds * 1e3:.2f} ms recomputed per backward, {more:.0f} % of forward"
                + ("" if self.exact else " (a greedy choice; with SciPy it would be the cheapest)"),
            ]
        )


def checkpoint_to_budget(
    module: Any,
    example_input: Any,
    budget_bytes: int,
    *,
    children: Sequence[str] | None = None,
    repeats: int = 3,
) -> BudgetReport:
    """Make what `module` keeps for backward fit a budget, recomputing the children for which that costs the least time.

    A dry run on `example_input` measures which bytes each child saves and how long its forward takes. The chosen
    children then recompute: their `forward` runs under `checkpoint`. Parameters, names and results stay the same;
    buffers such as running statistics are updated once per step, not again by the recomputation.

    Args:
        module: a Module.
        example_input: what it is called with, a tensor or a tuple of arguments, of the size that training will use.
        budget_bytes: the most bytes that may be kept for backward at any time, parameters and inputs not counted.
        children: names of the submodules to choose from; by default the direct children, and in place of a ModuleList
            or ModuleDict its members.
        repeats: dry runs; the shortest time of each child counts.

    Returns:
        What was measured, chosen and reached. Print it.

    Raises:
        ValueRangeError: not even recomputing meets the budget; the text says what is possible. Nothing is changed.
        GradError: the output does not depend on anything that requires grad.

    Example:
        >>> import sapwood
        >>> from sapwood.utils.checkpoint import checkpoint_to_budget
        >>> model = sapwood.nn.Sequential(*[sapwood.nn.Sequential(sapwood.nn.Linear(64, 64), sapwood.nn.Tanh(),
        ...     sapwood.nn.Linear(64, 64), sapwood.nn.Tanh()) for _ in range(4)])
        >>> report = checkpoint_to_budget(model, sapwood.randn(256, 64), 400_000)
        >>> report.measured_bytes <= 400_000 < report.before_bytes
        True

    Reference: Jain et al., Checkmate, arXiv:1910.02653, poses the choice as an integer program.
    """
    args = example_input if isinstance(example_input, tuple) else (example_input,)
    names, parts = _candidates(module, children)
    budget_bytes = int(budget_bytes)
    with _unchanged(module), enable_grad():
        problem, firsts, before = _dry_run(module, args, parts, max(1, repeats))
    plan = cheapest(problem, budget_bytes)
    if plan is None:
        least = smallest(problem)
        chosen = ", ".join(n for n, again in zip(names, least.again) if again) or "nothing"
        raise ValueRangeError(
            f"checkpoint_to_budget: {budget_bytes} bytes cannot be met; the least possible peak is {least.peak} bytes "
            f"(recomputing {chosen}). Give at least that, smaller children, or a smaller batch"
        )
    chosen_parts = [p for p, again in zip(parts, plan.again) if again]
    for part in chosen_parts:
        part.__dict__["forward"] = Recomputed(part)

    def undo() -> None:
        for part in chosen_parts:
            wrapped = part.__dict__.get("forward")
            if isinstance(wrapped, Recomputed):
                del part.__dict__["forward"]
                if wrapped.own is not None:
                    part.__dict__["forward"] = wrapped.own

    try:
        with _unchanged(module), enable_grad():
            measured = _measure(module, args)
    except BaseException:
        undo()
        raise
    seconds = problem.seconds
    return BudgetReport(
        tuple(
            ChildReport(n, type(p).__name__, b, t, again)
            for n, p, b, t, again in zip(names, parts, firsts, seconds, plan.again)
        ),
        budget_bytes,
        before,
        plan.peak,
        measured,
        sum(seconds),
        sum(t for t, again in zip(seconds, plan.again) if again),
        plan.exact,
        undo,
    )


class Recomputed:
    """The forward of a module whose inner values are recomputed in backward."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.own = module.__dict__.get("forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        keeps = self.module.training and any(True for _ in self.module.buffers())
        context = (lambda: (nullcontext(), _unchanged_buffers(self.module))) if keeps else noop_context_fn
        return _record(self.forward, args, kwargs, True, context, "default", False, True)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module's own forward."""
        if self.own is not None:
            return self.own(*args, **kwargs)
        return type(self.module).forward(self.module, *args, **kwargs)


def _candidates(module: Any, names: Sequence[str] | None) -> tuple[list[str], list[Any]]:
    """Return the submodules to choose from, by name."""
    if names is not None:
        found = {n: module.get_submodule(n) for n in names}
    else:
        found = dict(_expanded(module, ""))
    if not found:
        raise ValueRangeError(f"checkpoint_to_budget: {type(module).__name__} has no children that could be recomputed")
    inner = {id(m) for part in found.values() for m in part.modules() if m is not part}
    for n, part in found.items():
        if id(part) in inner:
            raise ValueRangeError(f"checkpoint_to_budget: {n!r} lies inside another of the children; name only one")
    unique = {id(part): (n, part) for n, part in reversed(found.items())}
    pairs = list(reversed(unique.values()))
    return [n for n, _ in pairs], [p for _, p in pairs]


def _expanded(module: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, child in module.named_children():
        if type(child).__name__ in ("ModuleList", "ModuleDict"):
            yield from _expanded(child, f"{prefix}{name}.")
        else:
            yield prefix + name, child


def _dry_run(module: Any, args: tuple[Any, ...], parts: list[Any], repeats: int) -> tuple[Problem, list[int], int]:
    """Run forward; return the problem, the bytes that each child is the first to save, and the peak as it is."""
    times = np.full((repeats, len(parts)), 0.0)
    for r in range(repeats):
        calls: list[tuple[int, int, int, list[Any]]] = []
        with _watched(parts, calls, times[r]):
            outputs = _roots(module(*args))
    storages = Storages(_alive_anyhow(module, args))
    units = [Unit(None)]
    nodes = nodes_under(outputs)
    at = 0
    for start, end, child, arguments in sorted(calls, key=lambda c: c[0]):
        for seq, following in ((start, Unit(child, arguments=storages.add(arguments))), (end, Unit(None))):
            while at < len(nodes) and nodes[at].seq < seq:
                units[-1].saved |= storages.add(saved_arrays(nodes[at]))
                at += 1
            units.append(following)
    for node in nodes[at:]:
        units[-1].saved |= storages.add(saved_arrays(node))
    nbytes = {k: o.nbytes for k, o in storages.owners.items()}
    firsts = [0] * len(parts)
    seen: set[int] = set()
    for unit in units:
        if unit.child is not None:
            firsts[unit.child] += sum(nbytes[s] for s in unit.saved - seen)
        seen |= unit.saved
    problem = Problem([u for u in units if u.saved or u.arguments], nbytes, times.min(axis=0).tolist())
    return problem, firsts, problem.peak([False] * len(parts))


@contextmanager
def _watched(parts: list[Any], calls: list[Any], seconds: Any) -> Iterator[None]:
    """Note for every call of a child where it lies in the order of recording, its arguments, and its time."""
    own = [p.__dict__.get("forward") for p in parts]

    def watch(i: int, forward: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            start = next_seq()
            began = time.perf_counter()
            result = forward(*args, **kwargs)
            seconds[i] += time.perf_counter() - began
            arrays = [a._array for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
            calls.append((start, next_seq(), i, arrays))
            return result

        return watched

    for i, p in enumerate(parts):
        p.__dict__["forward"] = watch(i, p.forward)
    try:
        yield
    finally:
        for p, before in zip(parts, own):
            del p.__dict__["forward"]
            if before is not None:
                p.__dict__["forward"] = before


def _measure(module: Any, args: tuple[Any, ...]) -> int:
    """Run forward and backward; return the most bytes that the graph kept alive."""
    outputs = _roots(module(*args))
    anyhow = _alive_anyhow(module, args)
    samples = [live_bytes(outputs, anyhow)]
    leaves = [p for p in module.parameters() if p.requires_grad]
    leaves += [a for a in args if isinstance(a, Tensor) and a._node is LEAF]
    # Between two recomputations memory is only given up, so that these are the peaks.
    before, Frame.observer = Frame.observer, lambda frame: samples.append(live_bytes(outputs, anyhow))
    try:
        run.grad(outputs, leaves, [wrap(np.ones_like(o._array)) for o in outputs], allow_unused=True)
    finally:
        Frame.observer = before
    return max(samples)


def _roots(result: Any) -> list[Tensor]:
    """Return the tensors of a result that require grad."""
    found: list[Tensor] = []
    stack = [result]
    while stack:
        value = stack.pop()
        if isinstance(value, Tensor):
            found += [value] if value._node is not None else []
        elif isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list | tuple):
            stack.extend(value)
    if not found:
        raise GradError("checkpoint_to_budget: the module's output requires no grad, so nothing is kept for backward")
    return found


def _alive_anyhow(module: Any, args: tuple[Any, ...]) -> list[Any]:
    tensors = [*module.parameters(), *module.buffers(), *(a for a in args if isinstance(a, Tensor))]
    return [t._array for t in tensors]


@contextmanager
def _unchanged(module: Any) -> Iterator[None]:
    """Give random numbers and buffers their state back at the end."""
    with fork_rng(), _unchanged_buffers(module):
        yield


@contextmanager
def _unchanged_buffers(module: Any) -> Iterator[None]:
    kept = [
        (m._buffers, name, b, b._array.copy())
        for m in module.modules()
        for name, b in m._buffers.items()
        if b is not None
    ]
    try:
        yield
    finally:
        for buffers, name, b, values in kept:
            # The values are those from before, so that no node that saved them has to be told.
            b._array[...] = values
            buffers[name] = b


def _bytes(n: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if n >= size:
            return f"{n / size:.2f} {unit}"
    return f"{n} B"
