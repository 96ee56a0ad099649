"""The functions that PyTorch keeps in `torch.functional`; all are names of the package as well."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = [  # noqa: F822 - found in the package when asked for
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "einsum",
    "meshgrid",
    "norm",
    "split",
    "tensordot",
    "unique",
    "unique_consecutive",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("sapwood"), name)
    raise AttributeError(f"module 'sapwood.functional' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
