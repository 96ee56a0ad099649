"""All parameters of a group in one native call, to the last bit as NumPy's functions change them one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ops import warm
from ..tensor import Tensor
from .groups import Group

if TYPE_CHECKING:
    from .elementwise import Elementwise

Scalars = tuple["float | bool | None", ...]
"""The scalars of a rule: numbers, and True or None, which choose between its forms."""
Change = tuple["float | None", "float | None", "bool | None"]
"""What happens before the rule: L2 added to the gradient, the factor parameters shrink by, whether to maximize."""


def together(optimizer: Elementwise, params: list[Tensor], group: Group, change: Change) -> bool:
    """Step all parameters of a group natively; return False, with nothing done, if there are too few elements for it.

    Parameters that kernels do not cover (other dtypes, strided memory …) are changed by NumPy among the others.
    """
    arrays = [p._array for p in params]
    total = 0
    for a in arrays:
        total += a.size
        if total >= warm.LEAST:
            break
    if not warm.serve(total):
        return False
    # Two parameters in one memory are changed one after the other, so that threads do not meet there.
    apart = len({id(a if a.base is None else a.base) for a in arrays}) == len(arrays)
    grads: list[Any] = [p._grad._array for p in params]  # type: ignore[union-attr]
    slots = optimizer._slots(group)
    found = _counted(optimizer, params, group, slots) if apart else None
    if found is not None:
        c, kept = found
        update, numbers = _chosen(optimizer, len(slots), c, change)
        if update(numbers, arrays, grads, *kept):
            return True
        for i, a in enumerate(arrays):
            _one(optimizer, a, grads[i], [column[i] for column in kept], c, change)
        return True
    buckets: dict[Any, list[tuple[Any, ...]]] = {}
    for i, p in enumerate(params):
        state, fresh = optimizer._state_of(p, group, slots)
        c = optimizer._coefficients(group, state, fresh)
        entry = arrays[i], grads[i], *[state[s]._array for s in slots]
        if apart:
            buckets.setdefault(c, []).append(entry)
        else:
            _one(optimizer, entry[0], entry[1], list(entry[2:]), c, change)
    for c, entries in buckets.items():
        update, numbers = _chosen(optimizer, len(slots), c, change)
        if not update(numbers, *map(list, zip(*entries))):
            for entry in entries:
                _one(optimizer, entry[0], entry[1], list(entry[2:]), c, change)
    return True


def _counted(
    optimizer: Elementwise, params: list[Tensor], group: Group, slots: tuple[str, ...]
) -> tuple[Scalars, list[list[Any]]] | None:
    """Count the step of parameters that have all taken the same number of steps; return the scalars and the slots.

    None: they have not, or scalars are kept for each.
    """
    if "_coefficients" in type(optimizer).__dict__:
        return None
    if not slots:
        return optimizer._scalars(group, 0.0, False), []
    states = [optimizer.state[p] for p in params]
    try:
        kept = [[s[slot]._array for s in states] for slot in slots]
        if "step" not in states[0]:
            return optimizer._scalars(group, 0.0, False), kept
        counters = [s["step"]._array for s in states]
    except (KeyError, AttributeError):
        return None
    if not _counter()(counters):
        return None
    return optimizer._scalars(group, float(counters[0]), False), kept


def _one(optimizer: Elementwise, p: Any, g: Any, slots: list[Any], c: Scalars, change: Change) -> None:
    update, numbers = _chosen(optimizer, len(slots), c, change)
    if not update(numbers, [p], [g], *[[s] for s in slots]):
        with np.errstate(all="ignore"):
            optimizer._apply(p, g, slots, c, change)


def _chosen(
    optimizer: Elementwise, slots: int, c: Scalars, change: Change
) -> tuple[Callable[..., bool], tuple[float, ...]]:
    """Return the builtin of the form of a rule that the types of its scalars choose, and the numbers among them."""
    cls: Any = type(optimizer)
    everything = change + c
    return _updater(cls, slots, tuple(map(type, everything))), tuple([x for x in everything if type(x) is float])


@functools.cache
def _counter() -> Callable[[list[Any]], bool]:
    from ..kernels import multi

    return multi.counter()


@functools.cache
def _updater(cls: Any, slots: int, form: tuple[type, ...]) -> Callable[..., bool]:
    """Return the builtin of one form of a rule."""
    from ..kernels import multi, rules

    def body(*scalars: Any) -> Any:
        p, g, *rest = map(rules.Cell, scalars)
        numbers: Any = iter(rest[slots:])
        l2, shrink, maximize, *c = [next(numbers) if f is float else True if f is bool else None for f in form]
        spare = rules.Cell(), [rules.Cell() for _ in range(cls._scratch)]
        cls._piece(p, g, rest[:slots], tuple(c), (l2, shrink, maximize), spare)
        return tuple([cell.value for cell in (p, *rest[:slots])])

    writes = (0, *range(2, 2 + slots))
    name = cls.__name__.lower()
    return multi.updater(name, body, arrays=2 + slots, writes=writes, coefficients=form.count(float))


__all__ = ["Change", "Scalars", "together"]
