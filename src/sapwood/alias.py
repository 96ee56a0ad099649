"""Memory that tensors share: storages, their writes, and views.

The storage of a tensor is the ndarray that owns its memory. The first write to a storage gives it a `Record`; an
in-place op stamps the record with the current sequence number. A value that a node saved is intact as long as the
stamp of its storage is smaller than the node's own number, so saving costs nothing and no counter is read on the way.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from sys import _getframe as getframe
from typing import Any

import numpy as np
from numpy import ndarray

from .errors import GradError, OverwrittenError
from .origin import of_frame
from .state import INFERENCE, get_mode, last, next_seq
from .warned import warn

Array = ndarray[Any, Any]


class Record:
    """The writes to one storage: how many, the number and the name of the latest, and the last few with their lines."""

    __slots__ = ("op", "seq", "version", "writes")

    def __init__(self) -> None:
        self.version = 0
        self.seq = 0
        self.op = ""
        self.writes: list[tuple[int, str, Any]] = []
        """(sequence number, op, origin) of the last writes, oldest first."""


_REMEMBERED = 8
"""So many last writes are remembered at least, and fewer than twice as many."""


_records: dict[int, tuple[Record, Any]] = {}
moved: dict[int, tuple[Any, Any]] = {}
"""id of an array that `.data = …` took from a leaf -> (weak reference to the array, weak reference to the leaf)."""
guards: list[Callable[[Any], None]] = []
"""Called with every tensor that is about to be written to in place."""
captured: ContextVar[tuple[dict[int, Array], ...]] = ContextVar("sapwood_captured", default=())
"""Per running transform, the owners of the memory its function captured, by id: not to be written to."""
follow: Any = None
"""Called after a write with a tensor that has views or is one, so that their histories follow; set by `inplace`."""


def owner(array: Array) -> Array:
    """Return the ndarray that owns the memory of `array`."""
    base = array.base
    while base is not None:
        if isinstance(base, ndarray):
            array = base
        elif not hasattr(base, "base"):
            break
        base = base.base
    return array


def record_of(tensor: Any) -> Record | None:
    """Return the record of the tensor's storage, None if it was never written to."""
    if tensor._record is not None:
        found: Record = tensor._record
        return found
    entry = _records.get(id(owner(tensor._array)))
    return None if entry is None else entry[0]


def _forget(table: dict[int, Any], key: int, _: Any) -> None:
    table.pop(key, None)


def version(tensor: Any) -> int:
    """Return how often the storage was written to in place."""
    record = record_of(tensor)
    return 0 if record is None else record.version


def _record(tensor: Any) -> Record:
    """Return the record of the tensor's storage, made now if there is none."""
    found: Record | None = tensor._record
    if found is not None:
        return found
    array = owner(tensor._array)
    key = id(array)
    entry = _records.get(key)
    if entry is None:
        entry = _records[key] = Record(), weakref.ref(array, partial(_forget, _records, key))
    return entry[0]


def stamp(tensor: Any, op: str) -> None:
    """Note an in-place write to the tensor's storage."""
    record = tensor._record
    if record is None:
        entry = _records.get(id(owner(tensor._array)))
        record = _record(tensor) if entry is None else entry[0]
    record.version += 1
    record.op = op
    last.write = record.seq = seq = next_seq()
    writes = record.writes
    writes.append((seq, op, of_frame(getframe(2))))
    if len(writes) == 2 * _REMEMBERED:
        del writes[:_REMEMBERED]
    if tensor._base is not None or tensor._views is not None:
        follow(tensor)


def stamp_all(tensors: list[Any], op: str) -> None:
    """Note one write in place to the storages of several tensors, as `stamp` does for one."""
    last.write = seq = next_seq()
    write = seq, op, of_frame(getframe(2))
    for tensor in tensors:
        record = tensor._record
        if record is None:
            array = tensor._array
            entry = _records.get(id(array)) if array.base is None else None
            record = _record(tensor) if entry is None else entry[0]
        record.version += 1
        record.op = op
        record.seq = seq
        record.writes.append(write)
        if len(record.writes) == 2 * _REMEMBERED:
            del record.writes[:_REMEMBERED]
        if tensor._base is not None or tensor._views is not None:
            follow(tensor)


def stamp_of(array: Array) -> Record | None:
    """Return the record of the memory under a saved array."""
    entry = _records.get(id(owner(array)))
    return None if entry is None else entry[0]


def check_saved(node: Any) -> None:
    """Raise if a value that `node` saved was written over since.

    Raises:
        OverwrittenError: naming the op that saved, the op that wrote, and the way out.
    """
    # What hooks packed is theirs to keep intact; the arrays beside it are checked.
    for name, value in zip(node.keeps, getattr(node.saved, "saved", node.saved)):
        check_intact(node, name, value)


def check_intact(node: Any, name: str, value: Any) -> None:
    """Raise if one saved value, an array or a tuple of them, was written over since `node` saved it."""
    for array in value if type(value) is tuple else (value,):
        record = stamp_of(array) if type(array) is ndarray else None
        if record is None or record.seq <= node.seq:
            continue
        from .autograd.told import overwritten

        what = "its own result" if name in node.out_names else f"its argument {name!r}"
        raise OverwrittenError(overwritten(node, what, array, record, node.seq))


def replace_data(tensor: Any, array: Array) -> None:
    """Give a tensor other memory, as `tensor.data = value` does; graphs that saved the leaf see the new values."""
    old = tensor._array
    if tensor._node is not None and old.shape == array.shape and old.dtype == array.dtype:
        key = id(old)
        moved[key] = weakref.ref(old, partial(_forget, moved, key)), weakref.ref(tensor)
    tensor._array = array


def current(value: Any) -> Any:
    """Return a saved array, or what replaced it through `.data = …`."""
    entry = moved.get(id(value))
    if entry is None:
        return value
    leaf = entry[1]()
    return value if leaf is None else current(leaf._array)


def address(array: Array) -> int:
    """Return the address of the first element."""
    pointer: int = array.__array_interface__["data"][0]
    return pointer


def element_strides(array: Array) -> tuple[int, ...]:
    """Return strides in elements; NumPy's arbitrary strides of size-1 and empty dimensions are made contiguous."""
    item = array.itemsize
    if array.flags.c_contiguous:
        strides, step = [], 1
        for n in reversed(array.shape):
            strides.append(step)
            step *= max(n, 1)
        return tuple(reversed(strides))
    return tuple(s // item for s in array.strides)


def offset_in_storage(array: Array) -> int:
    """Return the distance of the first element from the start of the storage, in elements."""
    whole = owner(array)
    return 0 if whole is array or not array.size else (address(array) - address(whole)) // array.itemsize


def overlaps_itself(array: Array) -> bool:
    """Return whether two indices reach the same memory, as after expand."""
    return bool(array.size) and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape))


def register_view(view: Any, of: Any, kind: str = "") -> None:
    """Note that `view` shares the storage of `of`, so that in-place ops on one reach the graph of the other.

    Args:
        kind: why the view cannot follow a change of its base: "" (it can), "multiple", "no_grad", "inference",
            "function". A view made where nothing is recorded wants a gradient of its own if its base does.
    """
    base = of._base
    if base is None:
        base = of
        if kind:
            view._view_kind = kind
    elif kind or of._view_kind:
        view._view_kind = kind or of._view_kind
    view._base = base
    if base._record is not None:
        view._record = base._record  # a view of `.data` counts its writes there, too
    if kind and view._node is None and base._node is not None and view._array.dtype.kind in "fcV":
        from .node import LEAF

        view._node = LEAF
    views = base._views
    if views is None:
        base._views = [weakref.ref(view)]
        return
    views.append(weakref.ref(view))
    if len(views) & 63 == 0:
        # Amortised: a data set sliced a million times must not keep a million dead references.
        views[:] = [r for r in views if r() is not None]


def live_views(base: Any) -> list[Any]:
    """Return the views of `base` that still exist."""
    return [] if base._views is None else [v for r in base._views if (v := r()) is not None]


def check_writable(
    tensor: Any, op: str, recording: bool, *sources: Any, takes: bool = False, fills: bool = False
) -> None:
    """Raise, before anything is written, if `op` must not write to `tensor` in place.

    Args:
        recording: whether the write would be recorded if something wants a gradient.
        sources: the other operands; they must be the same memory as `tensor` or none of it.
        takes: whether what is written requires grad; known from the sources where they are given.
        fills: whether some elements are given one value, so that elements that share memory are no nonsense.

    Raises:
        GradError: the graph could not follow the write, or elements share memory.
    """
    from .node import LEAF

    array = tensor._array
    if overlaps_itself(array):
        _check_expanded(tensor, op, fills, recording and (takes or any(map(_wants_grad, (tensor, *sources)))))
    for source in sources:
        other = getattr(source, "_array", None)
        if other is not None:
            takes = takes or source._node is not None
            if other is not array and partly_overlap(array, other):
                raise GradError(
                    f"{op}: an operand lies partly in the memory that is written, so it would be read after it was "
                    "written over; call clone() on it first"
                )
    if tensor._inference and not get_mode() & INFERENCE:
        raise GradError(f"{op}: an inference tensor cannot be changed in place outside inference_mode; clone it first")
    if recording and (takes or tensor.requires_grad):
        _check_graph(tensor, op, LEAF)
    if captured.get():
        check_not_captured(tensor, op)
    for guard in guards:
        guard(tensor)


def check_not_captured(tensor: Any, op: str) -> None:
    """Raise if a transform is running whose function took `tensor`, or other memory of its storage, from around it."""
    number = id(owner(tensor._array))
    if any(number in owners for owners in captured.get()):
        raise GradError(
            f"{op}: this tensor was made outside the function that a transform (grad, vjp, jvp, …) is "
            "differentiating, which must not change it; pass it as an argument, or write to tensor.clone()"
        )


def _wants_grad(x: Any) -> bool:
    return getattr(x, "requires_grad", False) is True


def _check_expanded(tensor: Any, op: str, fills: bool, records: bool) -> None:
    """Refuse a write to a tensor whose elements share memory, or warn where it is only doubtful."""
    if records or not fills:
        raise GradError(
            f"{op}: several elements of this tensor share one memory location (it was expanded), so writing in place "
            "is ambiguous; call tensor.clone() first"
        )
    warn(
        f"{op}: this tensor was expanded, so what is written to one of its elements shows in others too; call "
        "tensor.clone() first"
    )


def _check_graph(tensor: Any, op: str, leaf: Any) -> None:
    """Raise if a recorded write to `tensor` could not become part of the graph."""
    base = tensor._base
    if tensor._view_kind and base is not None:
        why = {
            "multiple": "comes from an op that returns several views (unbind, split, chunk, iteration)",
            "no_grad": "was made under no_grad and would be changed with grad mode on",
            "inference": "was made under inference_mode and would be changed with grad mode on",
            "function": "was returned by a custom Function",
        }[tensor._view_kind]
        raise GradError(f"{op}: this view {why}, so its base cannot follow the change; call .clone() on it first")
    if tensor._node is leaf:
        raise GradError(
            f"{op}: this tensor is a leaf that requires grad, and writing over it in place would lose the value its "
            "gradient belongs to; use the out-of-place form, or write inside `with no_grad():`"
        )
    if base is not None and (base._node is leaf or (base._node is None and tensor._node is not None)):
        # The base of a view requires no grad where one between the two was made a leaf.
        raise GradError(
            f"{op}: this tensor is a view of a leaf that requires grad; write inside `with no_grad():`, or to a view "
            "of leaf.clone()"
        )


def partly_overlap(a: Array, b: Array) -> bool:
    """Return whether two arrays without gaps share some memory without being the same elements in the same order."""
    if (a.base is None and b.base is None) or not a.size or not b.size or owner(a) is not owner(b):
        return False
    if not (is_dense(a) and is_dense(b)):
        return False
    start, other = address(a), address(b)
    if start == other and a.nbytes == b.nbytes:
        return a.shape == b.shape and a.strides != b.strides
    return start < other + b.nbytes and other < start + a.nbytes


def is_dense(array: Array) -> bool:
    """Return whether the elements fill a stretch of memory, each place once, in whatever order."""
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return True
    expected = array.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(array.strides, array.shape) if n != 1):
        if stride != expected:
            return False
        expected *= n
    return True


def strided_over(base: Array, view: Array) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return the geometry of `view` within `base`: shape, strides and offset, in elements."""
    item = view.itemsize
    return view.shape, tuple(s // item for s in view.strides), (address(view) - address(base)) // item


def flat_storage(array: Array) -> Array:
    """Return the whole storage under `array` as one dimension, sharing memory."""
    whole = owner(array)
    if not (whole.flags.c_contiguous or whole.flags.f_contiguous):
        order = np.argsort([-abs(s) for s in whole.strides], kind="stable")
        whole = whole.transpose(order)
    return whole.reshape(-1, order="A")
