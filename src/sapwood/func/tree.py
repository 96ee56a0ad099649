"""Nested tuples, lists and dictionaries of tensors: taken apart and put together again."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple


class Spec(NamedTuple):
    """The shape of a nest: the container's type, what else it needs (keys), and the specs of its members."""

    kind: Any
    context: Any
    members: tuple[Spec, ...]

    @property
    def leaves(self) -> int:
        """How many leaves the nest has."""
        return 1 if self.kind is None else sum(m.leaves for m in self.members)

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        inside = ", ".join(map(repr, self.members))
        if self.kind is list:
            return f"[{inside}]"
        if self.context is None:
            return f"({inside}{',' if len(self.members) == 1 else ''})"
        return "{" + ", ".join(f"{k!r}: {m!r}" for k, m in zip(self.context, self.members)) + "}"


LEAF = Spec(None, None, ())


def _is_named(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(x, "_fields")


def _parts(x: Any) -> tuple[Any, Any, list[Any]] | None:
    """Return (type, context, members) of a container, None for a leaf."""
    kind = type(x)
    if kind in (tuple, list) or _is_named(x):
        return kind, None, list(x)
    if kind in (dict, OrderedDict, defaultdict):
        return kind, tuple(x), list(x.values())
    return None


def flatten(x: Any) -> tuple[list[Any], Spec]:
    """Return the leaves of a nest in order, and its spec."""
    parts = _parts(x)
    if parts is None:
        return [x], LEAF
    leaves: list[Any] = []
    specs = []
    for member in parts[2]:
        found, spec = flatten(member)
        leaves += found
        specs.append(spec)
    return leaves, Spec(parts[0], parts[1], tuple(specs))


def unflatten(leaves: Any, spec: Spec) -> Any:
    """Return the nest of a spec with these leaves."""
    return _built(iter(leaves), spec)


def _built(leaves: Any, spec: Spec) -> Any:
    if spec.kind is None:
        return next(leaves)
    members = [_built(leaves, m) for m in spec.members]
    if spec.context is not None:
        pairs = zip(spec.context, members)
        return defaultdict(None, pairs) if spec.kind is defaultdict else spec.kind(pairs)
    return spec.kind._make(members) if hasattr(spec.kind, "_make") else spec.kind(members)


def map_leaves(function: Callable[..., Any], x: Any, *others: Any) -> Any:
    """Return the nest of function(leaf, …); `others` are nests of the same spec."""
    leaves, spec = flatten(x)
    return unflatten([function(*group) for group in zip(leaves, *(flatten(o)[0] for o in others))], spec)


def spread(x: Any, spec: Spec) -> list[Any] | None:
    """Return one value per leaf of `spec` from a nest that may stop early, None if the two do not fit."""
    if spec.kind is None:
        return [x] if _parts(x) is None else None
    parts = _parts(x)
    if parts is None:
        return [x] * spec.leaves
    kind, context, members = parts
    same = kind is spec.kind or {kind, spec.kind} == {tuple, list}
    if not same or len(members) != len(spec.members):
        return None
    if context is not None:
        if set(context) != set(spec.context or ()):
            return None
        members = [x[k] for k in spec.context]
    found: list[Any] = []
    for member, inner in zip(members, spec.members):
        below = spread(member, inner)
        if below is None:
            return None
        found += below
    return found
