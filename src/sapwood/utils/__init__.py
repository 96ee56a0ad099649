"""Data loading, checkpointing, DLPack: what PyTorch keeps in torch.utils. Parts load at first use."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import GradError
from ..tensor import Tensor

_PARTS = {"checkpoint", "data", "dlpack", "hooks"}


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange what two tensors are: values, gradients, places in graphs, attributes; references stay valid.

    Raises:
        GradError: a graph, a view or a base would be left with the wrong one.
    """
    for t in (t1, t2):
        if t._base is not None or t._views or t._accumulator is not None or set(t._extra or ()) - {"off"}:
            raise GradError(
                "swap_tensors: a tensor is a view, has views, hooks or a gradient accumulator, which would then belong "
                "to the other one; swap before the tensors are used"
            )
    if type(t1) is not type(t2):
        t1.__class__, t2.__class__ = type(t2), type(t1)
    t1._array, t2._array = t2._array, t1._array
    t1._node, t2._node = t2._node, t1._node
    first, second = dict(t1.__dict__), dict(t2.__dict__)
    for t, attributes in (t1, second), (t2, first):
        t.__dict__.clear()
        t.__dict__.update(attributes)
        if t._extra:
            t._freeze()


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'sapwood.utils' has no attribute {name!r}")
