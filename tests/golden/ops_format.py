"""How ops.npz is laid out: one long array per element type, and an index of where each value begins."""

from __future__ import annotations

import json

import numpy as np


class Writer:
    """Collects arrays and the index."""

    def __init__(self):
        self.pools = {}
        self.sizes = {}
        self.index = {}

    def put(self, array):
        """Append an array; return its reference: type, shape, offset."""
        name = array.dtype.name
        at = self.sizes.get(name, 0)
        self.pools.setdefault(name, []).append(np.ascontiguousarray(array).ravel())
        self.sizes[name] = at + array.size
        return [name, list(array.shape), at]

    def save(self, path):
        """Write the file."""
        text = json.dumps(self.index, separators=(",", ":"), sort_keys=True).encode()
        pools = {name: np.concatenate(parts) for name, parts in self.pools.items()}
        np.savez_compressed(path, index=np.frombuffer(text, np.uint8), **pools)


class Reader:
    """Gives the arrays back."""

    def __init__(self, path):
        with np.load(path) as file:
            self.pools = {name: file[name] for name in file.files}
        self.index = json.loads(self.pools.pop("index").tobytes())

    def get(self, reference):
        """Return the array that `put` stored."""
        name, shape, at = reference
        size = int(np.prod(shape))
        return self.pools[name][at : at + size].reshape(shape)
