"""Functions of functions: gradients, Jacobians and batches of any function of tensors, nested to any depth.

grad, grad_and_value, vjp, jvp, linearize     derivatives
jacrev, jacfwd, hessian                       whole Jacobians
vmap                                          one example -> a batch
functional_call, stack_module_state           modules as functions of their parameters
"""

from __future__ import annotations

from . import batch_rules
from .jacobians import hessian, jacfwd, jacrev
from .modules import functional_call, functionalize, replace_all_batch_norm_modules_, stack_module_state
from .reverse import install
from .transforms import grad, grad_and_value, jvp, linearize, vjp
from .vmap import vmap

install()

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
