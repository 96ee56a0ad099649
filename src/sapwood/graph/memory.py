"""What is known of pieces of memory while a program is captured: the values of the tensors that lie in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import alias
from ..errors import CaptureError
from ..origin import place
from .ir import Value

Place = tuple[Any, ...]

_TURNS = {"t_", "transpose_", "squeeze_", "unsqueeze_", "as_strided_", "set_", "resize_"}
"""Writes of these names change how a tensor looks at memory, not what is in it."""


def place_of(array: Any) -> Place:
    """Return what two arrays have in common that show the same elements in the same order."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


class Store:
    """A piece of memory: what its tensors stand for now, and the root that the others can be read from."""

    def __init__(self, array: Any, value: Value, stamps: int | None = None) -> None:
        self.owner = alias.owner(array)
        self.version = 0
        self.history = value
        """What the root was after the last write that is the graph's: its gradient is the root's."""
        self.turns = 0
        """How many such writes there were."""
        self.members: dict[Place, Value] = {}
        self._stamps = 0
        self.set_root(array, value)
        self.synchronise()
        if stamps is not None:
            # Counted when the program began.
            self._stamps = stamps

    def set_root(self, array: Any, value: Value) -> None:
        """Let a tensor be the one that all others are read from."""
        self.root, self.root_place, self.root_value = array, place_of(array), value
        self.members[self.root_place] = value

    def written(self, array: Any, value: Value, root: Value, *, hidden: bool) -> None:
        """Note a write that gave one tensor and the root new values; all others are out of date.

        Args:
            hidden: whether the write is none of the graph's.
        """
        self.version += 1
        if not hidden:
            self.history = root
            self.turns += 1
        self.root_value = root
        self.members = {self.root_place: root, place_of(array): value}
        self.synchronise()

    def synchronise(self) -> None:
        """Take the writes that were counted so far as known."""
        record = alias.stamp_of(self.owner)
        self._stamps = 0 if record is None else record.version

    def check(self, name: str) -> None:
        """Raise if the memory was written to by something that no call shows.

        Raises:
            CaptureError: naming what wrote, and where.
        """
        record = alias.stamp_of(self.owner)
        if record is None or record.version == self._stamps:
            return
        unknown = record.version - self._stamps
        found = [w for w in record.writes[-unknown:] if w[1] not in _TURNS]
        if unknown <= len(record.writes) and not found:
            self.synchronise()
            return
        _, op, origin = found[0] if found else record.writes[0]
        where = place(origin)
        raise CaptureError(
            f"capture: {op}{f' at {where}' if where else ''} wrote to {name} in a way that no call shows; write a new "
            "value instead, e.g. with where(), index_put() or a clone"
        )

    def covers(self, array: Any) -> bool:
        """Return whether all elements of an array lie in the root."""
        root = self.root
        if root.dtype != array.dtype and (root.dtype.kind == "c") == (array.dtype.kind == "c"):
            return False
        if not array.size:
            return True
        start, other = alias.address(root), alias.address(array)
        end = other + sum((n - 1) * s for n, s in zip(array.shape, array.strides)) + array.itemsize
        if alias.is_dense(root):
            return start <= other and end <= start + root.nbytes
        return bool(np.isin(_addresses(array), _addresses(root)).all())

    def region(self, array: Any) -> tuple[Any, ...]:
        """Return the attributes of copy_slices and slice_of: where an array lies within the root."""
        a = self.root
        layout = a.shape, tuple(s // a.itemsize for s in a.strides)
        part = "" if a.dtype.kind == array.dtype.kind else "real" if a.dtype.kind == "c" else "complex"
        return layout, *alias.strided_over(a, array), part


def _addresses(array: Any) -> Any:
    found = np.asarray(alias.address(array))
    for n, s in zip(array.shape, array.strides):
        found = found[..., None] + np.arange(n) * s
    return found.reshape(-1)


__all__ = ["Store", "place_of"]
