"""PyTorch's format before version 1.6: pickles one after the other, then the bytes of the storages. Read only.

magic number · protocol · facts about the machine · the object · keys of storages     (five pickles)
per key: the number of elements as 8 bytes, the elements
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import LoadError
from .machine import Machine
from .storage import Storage, StorageType
from .trusting import Unpickler

MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_COUNT = 8


class Storages:
    """The storages of such a file: their bytes come last, after the tensors that lie on them."""

    def __init__(self, data: bytes, where: Callable[[Any, str], Any]) -> None:
        self.left = len(data)
        self.where = where
        self.found: dict[str, Storage] = {}
        self.items: dict[str, int] = {}

    def persistent(self, pid: Any) -> Storage:
        """Return the storage that a pickle refers to, to be filled later.

        Raises:
            LoadError: the reference is malformed, or the file is too short for the storage.
        """
        if not (isinstance(pid, tuple) and len(pid) == 6 and pid[0] == "storage" and pid[5] is None):
            raise LoadError("load: the pickle refers to something that is not a storage, or to a view of one")
        _, kind, key, location, count, _ = pid
        if not (isinstance(kind, StorageType) and isinstance(key, str) and type(count) is int and count >= 0):
            raise LoadError("load: a reference to a storage is malformed")
        found = self.found.get(key)
        if found is None:
            self.items[key] = 1 if kind.dtype is None else kind.dtype.itemsize
            size = count * self.items[key]
            if size > self.left:
                raise LoadError(f"load: storage {key!r} claims {size} bytes, the file has {self.left}; it is torn")
            self.left -= size
            found = self.found[key] = Storage(np.empty(size, np.uint8), kind.dtype, str(location), False)
            self.where(found, found.location)
        return found

    def fill(self, file: io.BytesIO, keys: Any, swapped: bool) -> None:
        """Read the bytes of the storages, in the order of `keys`."""
        if not isinstance(keys, list) or set(self.found) - set(map(str, keys)):
            raise LoadError("load: the file does not list its storages")
        for key in keys:
            storage = self.found.get(str(key))
            head = file.read(_COUNT)
            if storage is None or len(head) != _COUNT:
                raise LoadError(f"load: the bytes of storage {key!r} are missing; the file is torn")
            data = storage.array.view(np.uint8)
            count = int.from_bytes(head, "big" if swapped and sys.byteorder == "little" else "little")
            if count * self.items[str(key)] != data.size or file.readinto(data.data) != data.size:
                raise LoadError(f"load: storage {key!r} is shorter or longer than the file says; it is torn")
            if swapped:
                storage.array.byteswap(inplace=True)


def load(data: bytes, where: Callable[[Any, str], Any], weights_only: bool, options: dict[str, Any]) -> Any:
    """Return the object in the bytes of such a file."""
    file = io.BytesIO(data)
    storages = Storages(data, where)

    def following() -> Any:
        return Machine(storages).run(file)

    if following() != MAGIC or following() != _PROTOCOL:
        raise LoadError(
            "load: this is a pickle, but not one of torch.save; read it with the module pickle if you trust it"
        )
    facts = following()
    swapped = isinstance(facts, dict) and facts.get("little_endian", True) != (sys.byteorder == "little")
    result = following() if weights_only else Unpickler(file, storages, **options).load()
    storages.fill(file, following(), swapped)
    return result
