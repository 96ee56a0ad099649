"""Checkpointing: trade time for memory by computing again in backward what forward did not keep.

The names and signatures are PyTorch's; `checkpoint_to_budget` is Sapwood's own.
"""

from __future__ import annotations

from .budget import BudgetReport as BudgetReport
from .budget import ChildReport as ChildReport
from .budget import checkpoint_to_budget as checkpoint_to_budget
from .call import checkpoint as checkpoint
from .call import checkpoint_sequential as checkpoint_sequential
from .call import noop_context_fn as noop_context_fn
from .call import set_checkpoint_debug_enabled as set_checkpoint_debug_enabled
from .call import set_checkpoint_early_stop as set_checkpoint_early_stop
from .devices import DefaultDeviceType as DefaultDeviceType
from .devices import get_device_states as get_device_states
from .devices import set_device_states as set_device_states
from .frame import CheckpointError as CheckpointError
from .frame import GraphExecGroup as GraphExecGroup
from .reentrant import CheckpointFunction as CheckpointFunction
from .reentrant import check_backward_validity as check_backward_validity
from .reentrant import detach_variable as detach_variable
from .selective import SAC_IGNORED_OPS as SAC_IGNORED_OPS
from .selective import CheckpointPolicy as CheckpointPolicy
from .selective import SelectiveCheckpointContext as SelectiveCheckpointContext
from .selective import create_selective_checkpoint_contexts as create_selective_checkpoint_contexts

__all__ = [
    "SAC_IGNORED_OPS",
    "BudgetReport",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "ChildReport",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "checkpoint_to_budget",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]
