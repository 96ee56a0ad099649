"""The unpickler of `weights_only=False`: the standard library's, with PyTorch's names resolved to Sapwood's."""

from __future__ import annotations

import importlib
import pickle
from typing import IO, Any

from ..errors import LoadError, MissingError
from ..tensor import Parameter, Tensor
from . import storage
from .names import KNOWN, Constructor


class Unpickler(pickle.Unpickler):
    """Rebuilds any object. It runs code that the file chooses."""

    def __init__(self, file: IO[bytes], storages: Any, **options: Any) -> None:
        super().__init__(file, **options)
        self._storages = storages

    def persistent_load(self, pid: Any) -> Any:
        """Return a storage, or the class of a module, which the older format saved with its source text."""
        if isinstance(pid, tuple) and pid[:1] == ("module",):
            return pid[1]
        return self._storages.persistent(pid)

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name stands for, PyTorch's names in Sapwood."""
        full = f"{module}.{name}"
        if full == "torch._tensor._rebuild_from_type_v2":
            return _from_type
        if full in ("torch.Tensor", "torch.nn.parameter.Parameter"):
            return Tensor if full == "torch.Tensor" else Parameter
        if module.partition(".")[0] != "torch":
            return super().find_class(module, name)
        known = KNOWN.get(full)
        if known is not None:
            return known.call if isinstance(known, Constructor) else known
        return _counterpart(module, name)


def _from_type(function: Any, kind: type, args: tuple[Any, ...], state: Any) -> Any:
    return storage.with_attributes(function(*args), state)


def _counterpart(module: str, name: str) -> Any:
    """Return the object of that name in the part of Sapwood that answers to a module of PyTorch.

    Raises:
        MissingError: there is none.
    """
    parts = ["sapwood", *module.split(".")[1:]]
    # torch.nn.modules.linear.Linear is sapwood.nn.Linear: the file in which a class lives may differ.
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        if hasattr(found, name):
            return getattr(found, name)
    raise MissingError(f"load: the file holds an object of {module}.{name}, which Sapwood does not have")


__all__ = ["LoadError", "Unpickler"]
