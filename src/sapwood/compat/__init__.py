"""Running PyTorch programs: inside `install()`, the name `torch` means Sapwood.

    import sapwood.compat
    sapwood.compat.install()
    import torch.nn as nn        # sapwood.nn

Every `torch.…` import resolves to the Sapwood module of the same path, the very same object; what Sapwood does not have
raises ModuleNotFoundError naming the missing piece.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any


class _Loader(importlib.abc.Loader):
    """Loads `torch.x` as the module `sapwood.x` that exists already."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.spec: Any = None

    def create_module(self, spec: Any) -> ModuleType:
        module = importlib.import_module(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has written the alias's spec onto the shared module; its own goes back.
        module.__spec__ = self.spec


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `torch` and everything below it in Sapwood."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        own = "sapwood" + fullname[len("torch") :]
        try:
            importlib.import_module(own)
        except ModuleNotFoundError as problem:
            if problem.name is None or not own.startswith(problem.name):
                raise
            raise ModuleNotFoundError(
                f"{fullname}: Sapwood has no counterpart of this part of PyTorch yet", name=fullname
            ) from None
        return importlib.machinery.ModuleSpec(fullname, _Loader(own), is_package=True)


_finder = _Finder()
_RENAMED = {"gradcheck": "check", "grad_mode": "mode", "anomaly_mode": "anomaly"}
"""Modules of torch.autograd that are called otherwise here. Their names there may be those of functions as well."""


def install() -> None:
    """Make `import torch` give Sapwood in this process.

    Raises:
        RuntimeError: PyTorch itself has been imported already.
    """
    present = sys.modules.get("torch")
    if present is not None and present is not sys.modules["sapwood"]:
        raise RuntimeError(
            "compat.install: PyTorch has been imported in this process; install before that, or not at all"
        )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    importlib.import_module("torch")
    for theirs, own in _RENAMED.items():
        sys.modules["torch.autograd." + theirs] = importlib.import_module("sapwood.autograd." + own)


def uninstall() -> None:
    """Give the name `torch` back."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [n for n in sys.modules if n == "torch" or n.startswith("torch.")]:
        del sys.modules[name]
