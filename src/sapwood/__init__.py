"""Sapwood: tensors, dynamic computation graphs, differentiation, neural networks, and pictures of all of it.

The public names are PyTorch's. Importing the package loads NumPy and the core; everything else loads at first use.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

from . import autograd, ops, random
from .autograd.mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .device import device
from .dtypes import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .printing import set_printoptions
from .random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from .tensor import Parameter as _Parameter
from .tensor import Size, Tensor

__version__ = "0.1.0"

# NumPy reports divisions by zero and overflows as warnings; here they are values, inf and nan, as in PyTorch.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"sapwood(\.|$)")

bool = bool_
half, float, double = float16, float32, float64
cfloat, cdouble = complex64, complex128
short, int, long = int16, int32, int64
inf, nan, pi, e = (importlib.import_module("math").__dict__[n] for n in ("inf", "nan", "pi", "e"))
newaxis = None
strided = "torch.strided"
contiguous_format, preserve_format, channels_last = (
    "torch.contiguous_format",
    "torch.preserve_format",
    "torch.channels_last",
)

globals().update(ops.public)

_LAZY = {
    "nn",
    "optim",
    "utils",
    "viz",
    "linalg",
    "fft",
    "special",
    "func",
    "testing",
    "distributions",
    "compat",
    "serialization",
}
_LAZY_NAMES = {"load": "serialization", "save": "serialization"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        try:
            return importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as problem:
            if problem.name != f"{__name__}.{name}":
                raise
    if name in _LAZY_NAMES:
        return getattr(importlib.import_module("." + _LAZY_NAMES[name], __name__), name)
    raise AttributeError(f"module 'sapwood' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(n for n in {*globals(), *_LAZY, *_LAZY_NAMES} if not n.startswith("_") or n == "__version__")


del sys
