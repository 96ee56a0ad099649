"""Every op, by family. Importing the package declares them all and installs Tensor's methods.

Formulas refer to ops as `ops.<name>`, so families need not import each other.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from . import (
    arith,
    cast,
    compare,
    complex_parts,
    create,
    expanding,
    extreme,
    filling,
    indexing,
    join,
    math,
    matmul_rank,
    matrix,
    matrix_view,
    movement,
    overwrite,
    power,
    query,
    ranges,
    reduce,
    sample,
    sample_fill,
    slices,
    slicing,
    splitting,
    strided,
    view_inplace,
    views,
)
from .declare import public as public
from .declare import registry as registry
from .filling import zeros_of as zeros_of
from .install import install, place_holders
from .later import METHODS

_complete = False


def complete() -> None:
    """Load the families that were left for later; from then on every op is in `registry`."""
    global _complete
    if not _complete:
        _complete = True
        for family in METHODS:
            importlib.import_module("." + family, __name__)
        _publish()


def _publish() -> None:
    """Install the methods of the families loaded so far and name their functions here."""
    install()
    globals().update({n: o.call for n, o in registry.items()})
    globals().update(public)
    package = sys.modules["sapwood"].__dict__
    package.update({n: f for n, f in public.items() if n not in package})


def __getattr__(name: str) -> Any:
    if not name.startswith("__") and not _complete:
        complete()
        if name in globals():
            return globals()[name]
    raise AttributeError(f"sapwood.ops has no op {name!r}")


_publish()
place_holders(METHODS, complete)
