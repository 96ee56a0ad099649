"""Selective checkpointing: a policy says, op by op, what is kept and what is computed again."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ...autograd.observe import observing
from ...errors import ArgumentError, GradError, ValueRangeError
from ...ops.declare import Op, registry
from ...state import next_seq
from ...tensor import Tensor, wrap
from .frame import CheckpointError, check_intact

SAC_IGNORED_OPS: set[Any] = set()
"""Ops that policies are not asked about. Here detaching and reading sizes are no ops, so there are none."""


class CheckpointPolicy(enum.Enum):
    """What happens to the result of an op: kept for backward, or computed again. MUST and PREFER act alike."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told beside the op and its arguments.

    Args:
        is_recompute: whether this is the run in backward.
        op_output: what the op returned.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


_SAVED = (
    CheckpointPolicy.MUST_SAVE,
    CheckpointPolicy.PREFER_SAVE,
    CheckpointPolicy.MUST_CPU_OFFLOAD,
    CheckpointPolicy.PREFER_CPU_OFFLOAD,
)
_RECOMPUTE, _USED = object(), object()


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Sequence[Any], allow_cache_entry_mutation: bool = False
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """Return the contexts for `checkpoint(…, context_fn=…)` that keep the results of chosen ops.

    Args:
        policy_fn_or_list: a list of ops whose results are kept, each an op function such as `sapwood.mm` or its name;
            or a function `policy(ctx, op, *inputs, **attributes)` that returns a CheckpointPolicy, or True to keep.
        allow_cache_entry_mutation: do not check that kept results were left unchanged.

    Writes in place and views are always computed again.

    Raises:
        ValueRangeError: a list entry is no op, such as a function made of several.

    Example:
        >>> import functools, sapwood
        >>> from sapwood.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        >>> keep = functools.partial(create_selective_checkpoint_contexts, [sapwood.mm])
        >>> x = sapwood.ones(2, 2, requires_grad=True)
        >>> y = checkpoint(lambda x: (x @ x).exp(), x, use_reentrant=False, context_fn=keep)
        >>> y.sum().backward()
    """
    if isinstance(policy_fn_or_list, list | tuple | set):
        policy = _keep_listed({_op_of(entry).name for entry in policy_fn_or_list})
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise ArgumentError(
            "create_selective_checkpoint_contexts: a policy function or a list of ops is needed, got "
            f"{type(policy_fn_or_list).__name__}"
        )
    storage = _Storage(policy, allow_cache_entry_mutation)
    return _Counted(storage.first, storage), _Counted(storage.again, storage)


def _keep_listed(names: set[str]) -> Callable[..., CheckpointPolicy]:
    def policy(ctx: SelectiveCheckpointContext, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE if op.op.name in names else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


def _op_of(entry: Any) -> type[Op]:
    found: Any = registry.get(entry) if isinstance(entry, str) else getattr(entry, "op", entry)
    if not (isinstance(found, type) and issubclass(found, Op)):
        name = entry if isinstance(entry, str) else getattr(entry, "__name__", repr(entry))
        raise ValueRangeError(
            f"create_selective_checkpoint_contexts: {name!r} is no op; give ops such as sapwood.mm, or names of ops. "
            "A function made of several ops, such as matmul, runs mm, bmm, …: the grad_fn of its result tells which"
        )
    return found


class _Counted(observing):
    """An observing context that counts calls per op anew at each entry."""

    def __init__(self, observer: Callable[..., Any], storage: _Storage) -> None:
        super().__init__(observer)
        self._storage = storage

    def __enter__(self) -> _Counted:
        self._storage.counts.clear()
        super().__enter__()
        return self


class _Storage:
    """The kept results by op and call number, written by the first run and read by the recomputation."""

    def __init__(self, policy: Callable[..., Any], mutable: bool) -> None:
        self.policy = policy
        self.mutable = mutable
        self.entries: dict[tuple[str, int], Any] = {}
        self.counts: defaultdict[str, int] = defaultdict(int)

    def _key(self, name: str) -> tuple[str, int]:
        number = self.counts[name]
        self.counts[name] = number + 1
        return name, number

    def first(self, op: type[Op], name: str, inputs: Any, attrs: Any, compute: Callable[[], Any]) -> Any:
        """Compute, ask the policy, keep."""
        result = compute()
        if op.view or name.endswith("_"):
            return result
        several = isinstance(result, tuple)
        shown = tuple(map(_shown, result)) if several else _shown(result)
        ctx = SelectiveCheckpointContext(is_recompute=False, op_output=shown)
        flat = [list(x) if isinstance(x, tuple) else x for x in inputs]
        answer = self.policy(ctx, op.call, *flat, **dict(zip(op.attrs, attrs)))
        keep = answer if isinstance(answer, bool) else answer in _SAVED
        self.entries[self._key(name)] = (result, next_seq()) if keep else _RECOMPUTE
        return result

    def again(self, op: type[Op], name: str, inputs: Any, attrs: Any, compute: Callable[[], Any]) -> Any:
        """Return what was kept, or compute."""
        if op.view or name.endswith("_"):
            return compute()
        key = self._key(name)
        entry = self.entries.get(key)
        if entry is None:
            raise CheckpointError(
                f"checkpoint: the recomputation calls {name} for the {key[1] + 1}. time, the first run did not; the "
                "function must do the same at every run"
            )
        if entry is _RECOMPUTE:
            return compute()
        if entry is _USED:
            raise GradError(
                "checkpoint: with a selective policy a region can be differentiated once, because kept results are "
                "given up as they are used"
            )
        result, seq = entry
        self.entries[key] = _USED
        if not self.mutable:
            for array in result if isinstance(result, tuple) else (result,):
                if isinstance(array, np.ndarray):
                    check_intact(array, seq, f"the kept result of {name}")
        return result


def _shown(result: Any) -> Tensor:
    return wrap(np.asarray(result))
