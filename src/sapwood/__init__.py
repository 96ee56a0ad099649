"""Sapwood: tensors, dynamic computation graphs, differentiation, neural networks, and pictures of all of it.

The public names are PyTorch's. Importing the package loads NumPy and the core; everything else loads at first use.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

from . import autograd as autograd
from . import ops as ops
from . import random as random
from .autograd.anomaly import (
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
)
from .autograd.anomaly import (
    is_anomaly_enabled as is_anomaly_enabled,
)
from .autograd.anomaly import (
    set_anomaly_enabled as set_anomaly_enabled,
)
from .autograd.mode import (
    enable_grad as enable_grad,
)
from .autograd.mode import (
    inference_mode as inference_mode,
)
from .autograd.mode import (
    is_grad_enabled as is_grad_enabled,
)
from .autograd.mode import (
    is_inference_mode_enabled as is_inference_mode_enabled,
)
from .autograd.mode import (
    no_grad as no_grad,
)
from .autograd.mode import (
    set_grad_enabled as set_grad_enabled,
)
from .device import device as device
from .dtypes import (
    bfloat16 as bfloat16,
)
from .dtypes import (
    bool_ as bool_,
)
from .dtypes import (
    complex64 as complex64,
)
from .dtypes import (
    complex128 as complex128,
)
from .dtypes import (
    dtype as dtype,
)
from .dtypes import (
    finfo as finfo,
)
from .dtypes import (
    float16 as float16,
)
from .dtypes import (
    float32 as float32,
)
from .dtypes import (
    float64 as float64,
)
from .dtypes import (
    get_default_dtype as get_default_dtype,
)
from .dtypes import (
    iinfo as iinfo,
)
from .dtypes import (
    int8 as int8,
)
from .dtypes import (
    int16 as int16,
)
from .dtypes import (
    int32 as int32,
)
from .dtypes import (
    int64 as int64,
)
from .dtypes import (
    promote_types as promote_types,
)
from .dtypes import (
    set_default_dtype as set_default_dtype,
)
from .dtypes import (
    uint8 as uint8,
)
from .dtypes import (
    uint16 as uint16,
)
from .dtypes import (
    uint32 as uint32,
)
from .dtypes import (
    uint64 as uint64,
)
from .ops.create import tensor as tensor
from .printing import set_printoptions as set_printoptions
from .random import (
    Generator as Generator,
)
from .random import (
    default_generator as default_generator,
)
from .random import (
    get_rng_state as get_rng_state,
)
from .random import (
    initial_seed as initial_seed,
)
from .random import (
    manual_seed as manual_seed,
)
from .random import (
    seed as seed,
)
from .random import (
    set_rng_state as set_rng_state,
)
from .tensor import Parameter as _Parameter
from .tensor import Size as Size
from .tensor import Tensor as Tensor
from .warned import (
    is_warn_always_enabled as is_warn_always_enabled,
)
from .warned import (
    set_warn_always as set_warn_always,
)

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
    "graph",
    "export",
    "linalg",
    "fft",
    "special",
    "func",
    "functional",
    "testing",
    "distributions",
    "compat",
    "serialization",
}
_LAZY_NAMES = {"load": "serialization", "save": "serialization", "fuse": "fusing"} | dict.fromkeys(
    (
        "are_deterministic_algorithms_enabled",
        "get_deterministic_debug_mode",
        "is_deterministic_algorithms_warn_only_enabled",
        "set_deterministic_debug_mode",
        "use_deterministic_algorithms",
    ),
    "deterministic",
)
_LAZY_NAMES |= dict.fromkeys(
    ("get_num_interop_threads", "get_num_threads", "set_num_interop_threads", "set_num_threads"), "kernels.threads"
)


def __getattr__(name: str) -> Any:
    if name == "vmap":
        return importlib.import_module(".func", __name__).vmap
    if name in _LAZY:
        try:
            return importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as problem:
            if problem.name != f"{__name__}.{name}":
                raise
    if name in _LAZY_NAMES:
        return getattr(importlib.import_module("." + _LAZY_NAMES[name], __name__), name)
    if not name.startswith("__"):
        ops.complete()
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module 'sapwood' has no attribute {name!r}")


def __dir__() -> list[str]:
    ops.complete()
    return sorted(n for n in {*globals(), *_LAZY, *_LAZY_NAMES} if not n.startswith("_") or n == "__version__")


del sys
