"""Differentiation: the engine, grad modes, custom functions, checks and explanations."""

from ..tensor import Tensor as Variable
from .mode import (
    enable_grad as enable_grad,
)
from .mode import (
    inference_mode as inference_mode,
)
from .mode import (
    is_grad_enabled as is_grad_enabled,
)
from .mode import (
    is_inference_mode_enabled as is_inference_mode_enabled,
)
from .mode import (
    no_grad as no_grad,
)
from .mode import (
    set_grad_enabled as set_grad_enabled,
)
from .run import backward as backward
from .run import grad as grad
