"""`saved`: what a graph keeps alive for its backward pass, in bytes by op, by module and by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from numpy import ndarray

from .. import alias
from ..errors import ArgumentError
from ..node import LEAF, Freed, Node, Output
from ..origin import origin_of, place, set_origin_tracking
from ..tensor import Parameter, Tensor
from .keeping import Packed, PackedValue
from .modules import Paths
from .observe import watch_calls


class Held(NamedTuple):
    """One saved array, counted where it was saved first."""

    op: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    """Of the memory under it, as far as nothing counted before holds it; 0 for parameters, which live anyway."""
    module: str
    line: str


class SavedReport:
    """What `saved` found: `total` bytes, `rows`, and sums by op, module or line."""

    def __init__(self, rows: list[Held], nodes: int) -> None:
        self.rows = rows
        self.nodes = nodes

    def __iter__(self) -> Iterator[Held]:
        return iter(self.rows)

    @property
    def total(self) -> int:
        """Bytes kept alive, each memory block counted once."""
        return sum(r.bytes for r in self.rows)

    def by(self, what: str) -> dict[str, int]:
        """Return bytes by "op", "module" or "line", the largest first."""
        if what not in ("op", "module", "line"):
            raise ArgumentError(f"saved: by takes 'op', 'module' or 'line', got {what!r}")
        sums: dict[str, int] = {}
        for r in self.rows:
            key = getattr(r, what) or "(unknown)"
            sums[key] = sums.get(key, 0) + r.bytes
        return dict(sorted(sums.items(), key=lambda e: -e[1]))

    def __str__(self) -> str:
        lines = [f"saved for backward: {in_bytes(self.total)} by {self.nodes} nodes"]
        for what in ("op", "module", "line"):
            sums = {k: v for k, v in self.by(what).items() if v}
            if set(sums) <= {"(unknown)"}:
                continue
            lines.append(f"  by {what}")
            lines += [f"    {in_bytes(v):>10}  {k}" for k, v in list(sums.items())[:10]]
            if len(sums) > 10:
                lines.append(f"    {in_bytes(sum(list(sums.values())[10:])):>10}  {len(sums) - 10} more")
        return "\n".join(lines)

    __repr__ = __str__


def saved(loss: Any, module: Any = None) -> SavedReport:
    """Report what the graph behind `loss` keeps alive for backward.

    Args:
        loss: a tensor, a sequence of them, or a function that computes one; with a function every line is known, and
            with `module` the submodule of every op.
        module: names the submodules; for a finished graph those whose parameters an op used.

    Raises:
        ArgumentError: `loss` is something else.

    Example:
        >>> import sapwood
        >>> x = sapwood.ones(1000, requires_grad=True)
        >>> report = sapwood.autograd.saved(x.exp().sum())
        >>> report.total, report.by("op")
        (4000, {'ExpBackward0': 4000})
    """
    if not isinstance(loss, Tensor) and callable(loss):
        loss = recorded(loss, module)
    roots = (loss,) if isinstance(loss, Tensor) else tuple(loss)
    for i, t in enumerate(roots):
        if not isinstance(t, Tensor):
            raise ArgumentError(f"saved: root {i} must be a tensor, got {type(t).__name__}")
    nodes = graph_of([t._node for t in roots])
    owners = _owners(module)
    # Parameters live whether or not a graph holds them.
    counted = {id(alias.owner(e._array)) for n in nodes for e in n.edges if isinstance(e, Parameter)}
    rows = [row for node in nodes for row in _held(node, owners, counted)]
    return SavedReport(rows, len(nodes))


saved_report = saved


def recorded(function: Callable[[], Any], module: Any) -> Any:
    """Run the forward pass with lines and modules noted in every node."""
    paths = Paths(module)

    def note(op: Any, inputs: Any, outputs: Any) -> None:
        path = paths.now()
        for t in outputs:
            node = t._node.node if type(t._node) is Output else t._node
            if path and isinstance(node, Node):
                node.extra = (node.extra or {}) | {"module": path}

    with set_origin_tracking(True), paths, watch_calls(note):
        return function()


def graph_of(edges: list[Any]) -> list[Node]:
    """Return the nodes behind some edges, the newest first."""
    seen: set[Any] = set()
    waiting = [e for e in edges if e is not None and e is not LEAF]
    while waiting:
        n = waiting.pop()
        if n in seen or isinstance(n, Tensor):
            continue
        seen.add(n)
        waiting.extend(e for e in ((n.node,) if type(n) is Output else n.edges) if e is not None)
    return sorted((n for n in seen if isinstance(n, Node)), key=lambda n: -n.seq)


def _owners(module: Any) -> dict[int, str]:
    """Return the submodule of every parameter, by the parameter's id."""
    if module is None:
        return {}
    found: dict[int, str] = {}
    for path, m in module.named_modules():
        for p in m.parameters(recurse=False):
            found[id(p)] = f"{path} ({type(m).__name__})" if path else type(m).__name__
    return found


def saved_arrays_of(node: Node) -> Iterator[tuple[str, Any]]:
    """Yield what a node has saved: (name, array)."""
    saved = node.saved
    if saved is None or isinstance(saved, Freed):
        return
    if isinstance(saved, Packed):
        saved = saved.saved
    if node.op is None:
        # A custom function keeps (leaf, array, place, number) of each tensor.
        yield from (("saved tensor", entry[1]) for entry in saved if entry is not None)
        return
    for name, value in zip(node.keeps, saved):
        for a in value if type(value) is tuple else (value,):
            a = a.value if type(a) is PackedValue else a
            a = a._array if isinstance(a, Tensor) else a
            if isinstance(a, ndarray):
                yield {"input": "self", "out": "result"}.get(name, name), a


def _held(node: Node, owners: dict[int, str], counted: set[int]) -> Iterator[Held]:
    module = (node.extra or {}).get("module") or next((owners[id(e)] for e in node.edges if id(e) in owners), "")
    found = place(origin_of(node))
    for name, a in saved_arrays_of(node):
        owner = alias.owner(a)
        size = 0 if id(owner) in counted else owner.nbytes
        counted.add(id(owner))
        yield Held(node.name(), name, a.shape, str(a.dtype), size, module, str(found) if found else "")


def in_bytes(n: int) -> str:
    """Return a number of bytes with its unit, thousands as in kB."""
    if n < 1000:
        return f"{n} B"
    power = 1 if n < 1e6 else 2 if n < 1e9 else 3
    return f"{n / 1000**power:.1f} {('kB', 'MB', 'GB')[power - 1]}"


__all__ = ["Held", "SavedReport", "saved", "saved_report"]
