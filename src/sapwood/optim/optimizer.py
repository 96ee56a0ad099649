"""The base of all optimizers: parameter groups, state, hooks, saving and loading."""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from ..alias import stamp
from ..errors import GradError, MissingError, ValueRangeError
from ..hook import RemovableHandle, add_hook
from ..tensor import Tensor, wrap
from .groups import Group, admit, listed, required

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook", "required"]

Hooks = dict[int, Callable[..., Any]]

_all_pre: Hooks = {}
_all_post: Hooks = {}


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer."""
    return add_hook(_all_pre, hook)


def register_optimizer_step_post_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return add_hook(_all_post, hook)


def _hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return `step` with the hooks around it; the step of a base class, called from within, has none."""

    @functools.wraps(step)
    def wrapper(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = True
        if self._inside or not (self._pre or self._post or _all_pre or _all_post):
            return step(self, *args, **kwargs)
        self._inside = True
        try:
            for hook in (*_all_pre.values(), *self._pre.values()):
                # The arguments that a hook sees begin with the optimizer, as those of the method do.
                changed = hook(self, (self, *args), kwargs)
                if changed is None:
                    continue
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise GradError(
                        f"step: a pre-hook returns None or (args, kwargs), got {type(changed).__name__} from {hook}"
                    )
                (_, *args), kwargs = changed
            result = step(self, *args, **kwargs)
            for hook in (*self._post.values(), *_all_post.values()):
                hook(self, (self, *args), kwargs)
            return result
        finally:
            self._inside = False

    wrapper._hooked = True  # type: ignore[attr-defined]
    return wrapper


class Optimizer:
    """Hold parameters in groups with options, state per parameter, and change the parameters in `step`.

    A subclass passes its options to this constructor and writes `step`.

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dicts {"params": such an iterable, option: …}.
        defaults: the options of a group that does not state its own.

    Raises:
        ArgumentError: params is a tensor, or holds something else than tensors.
        ValueRangeError: params is empty, holds a non-leaf, or one parameter in two groups.
    """

    state: defaultdict[Any, dict[str, Any]]
    param_groups: list[Group]
    defaults: dict[str, Any]

    _counters: ClassVar[tuple[str, ...]] = ("step",)
    """State that is a 0-dim tensor; old files hold it as a number."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if callable(step) and not hasattr(step, "_hooked"):
            cls.step = _hooked(step)  # type: ignore[method-assign]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        self._make_hooks()
        for group in listed(params):
            self._add(group, stacklevel=5)

    def _make_hooks(self) -> None:
        self._pre: Hooks = {}
        self._post: Hooks = {}
        self._state_hooks: dict[str, Hooks] = {"save_pre": {}, "save_post": {}, "load_pre": {}, "load_post": {}}
        self._inside = False
        self._opt_called = False

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_pre" not in self.__dict__:
            self._make_hooks()
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)
        for values in self.state.values():
            for name in self._counters:
                if isinstance(values, dict) and isinstance(values.get(name), (int, float)):
                    values[name] = wrap(np.array(values[name], np.float32))

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            lines = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            text += f"\nParameter Group {i}\n" + "".join(lines)
        return text + ")"

    # -- what a training loop calls -----------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient; a parameter whose gradient is None is left alone.

        Args:
            closure: computes the loss and its gradients anew; called with grad mode on.

        Returns:
            What closure returned (its first result), else None.
        """
        raise MissingError(f"{type(self).__name__}: a subclass of Optimizer writes its own step()")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters.

        Args:
            set_to_none: gradients become None, so that a parameter without a new one is skipped by `step`; with False
                they are filled with zeros, and such a parameter still moves by momentum and weight decay.
        """
        for group in self.param_groups:
            for p in group["params"]:
                grad = p._grad
                if grad is None:
                    continue
                if set_to_none:
                    p._grad = None
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad._array[...] = 0
                stamp(grad, "zero_grad")

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters, with options of its own where the dict states them.

        Raises:
            ArgumentError, ValueRangeError: as the constructor does.
        """
        self._add(param_group, stacklevel=4)

    def _add(self, group: Any, stacklevel: int) -> None:
        self.param_groups.append(admit(group, self.defaults, self.param_groups, stacklevel))

    # -- saving and loading -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the options as plain containers: {"state": …, "param_groups": …}.

        Parameters are numbered in the order of the groups. The tensors are the optimizer's own, not copies.
        """
        for hook in self._state_hooks["save_pre"].values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        start = 0
        for group in self.param_groups:
            for i, p in enumerate(group["params"], start):
                numbers.setdefault(id(p), i)
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            start += len(packed["params"])
            groups.append(packed)
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._state_hooks["save_post"].values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over state and options that `state_dict` returned, here or in PyTorch; tensors are copied.

        Raises:
            ValueRangeError: the groups differ in number or size from this optimizer's.
        """
        given = state_dict.copy()
        for hook in self._state_hooks["load_pre"].values():
            changed = hook(self, given)
            if changed is not None:
                given = changed
        groups, saved = self.param_groups, copy.deepcopy(given["param_groups"])
        sizes, saved_sizes = [len(g["params"]) for g in groups], [len(g["params"]) for g in saved]
        if sizes != saved_sizes:
            raise ValueRangeError(
                f"load_state_dict: this optimizer has parameter groups of sizes {sizes}, the saved one {saved_sizes}; "
                "construct it with the same groups first"
            )
        owner = {n: p for new, old in zip(groups, saved) for n, p in zip(old["params"], new["params"])}
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, value in given["state"].items():
            if key in owner:
                state[owner[key]] = _adopted(value, owner[key], None)
            else:
                state[key] = value
        for new, old in zip(groups, saved):
            old["params"] = new["params"]
            if "param_names" in new:
                old.setdefault("param_names", new["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._state_hooks["load_post"].values():
            hook(self)

    # -- hooks --------------------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; a returned (args, kwargs) replaces the arguments."""
        return add_hook(self._pre, hook)

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._post, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., None], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` collects."""
        return add_hook(self._state_hooks["save_pre"], hook, first=prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` on the result of `state_dict`; a returned dict replaces it."""
        return add_hook(self._state_hooks["save_post"], hook, first=prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; a returned dict is loaded instead."""
        return add_hook(self._state_hooks["load_pre"], hook, first=prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after loading."""
        return add_hook(self._state_hooks["load_post"], hook, first=prepend)


def _adopted(value: Any, p: Tensor, key: str | None) -> Any:
    """Return a copy of saved state, its floating-point tensors in the dtype of the parameter (but for the counter)."""
    if isinstance(value, Tensor):
        array = value._array
        cast = key != "step" and p._array.dtype.kind not in "biuc"
        return wrap(array.astype(p._array.dtype if cast else array.dtype, copy=True))
    if isinstance(value, dict):
        return {k: _adopted(v, p, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_adopted(v, p, None) for v in value)  # type: ignore[call-arg]
    return value
