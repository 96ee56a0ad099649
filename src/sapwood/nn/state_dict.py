"""The state of a module as a dictionary of tensors by dotted name, and back."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from ..autograd.mode import no_grad
from ..errors import LoadError
from ..hook import RemovableHandle, add_hook
from ..tensor import Parameter, Tensor
from .convert import Converted
from .parameter import is_lazy

_EXTRA = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict(strict=False) found: keys of the module without a value, values without a key."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys!r}, unexpected_keys={self.unexpected_keys!r})"

    __str__ = __repr__


class Stateful(Converted):
    """The part of Module that saves and loads its state."""

    _version: int = 1

    def get_extra_state(self) -> Any:
        """Return further state to save; define it together with `set_extra_state`."""
        raise NotImplementedError("get_extra_state: define it in the module that defines set_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` returned."""
        raise NotImplementedError("set_extra_state: define it in the module that defines get_extra_state")

    # -- saving -------------------------------------------------------------------------------------------------------

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Return parameters and persistent buffers by dotted name, sharing memory with the module.

        Args:
            destination: a dictionary to fill.
            prefix: put before every name.
            keep_vars: give the parameters themselves, not detached tensors.
        """
        if args:
            given = dict(zip(("destination", "prefix", "keep_vars"), args))
            destination = given.get("destination", destination)
            prefix = given.get("prefix", prefix)
            keep_vars = given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in tuple(self._state_dict_hooks.values()):
            result = hook(self, destination, prefix, metadata)
            if result is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict: a post-hook changes the dictionary it is given and returns None")
            destination = result
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in self._parameters.items():
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        for name, value in self._buffers.items():
            if value is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before the state is collected."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after the state was collected."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "_register_state_dict_hook: this hook was already given to register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    # -- loading ------------------------------------------------------------------------------------------------------

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy values by name into the module's parameters and buffers.

        Args:
            state_dict: values by dotted name.
            strict: whether missing and unexpected names are errors.
            assign: put the given tensors in place of the module's own.

        Returns:
            A named tuple (missing_keys, unexpected_keys).

        Raises:
            TypeError: `state_dict` is not a mapping.
            LoadError: names (if strict) or shapes do not fit; it lists all of them.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"load_state_dict: a mapping of names to tensors is expected, got {type(state_dict).__name__}"
            )
        missing: list[str] = []
        unexpected: list[str] = []
        problems: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state: Any = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata

        def load(module: Any, part: Any, prefix: str) -> None:
            local = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local["assign_to_params_buffers"] = assign
            module._load_from_state_dict(part, prefix, local, True, missing, unexpected, problems)
            for name, child in module._modules.items():
                if child is not None:
                    inner = f"{prefix}{name}."
                    load(child, {k: v for k, v in part.items() if k.startswith(inner)}, inner)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in tuple(module._load_state_dict_post_hooks.values()):
                if hook(module, keys) is not None:
                    raise RuntimeError("load_state_dict: a post-hook changes the lists it is given and returns None")

        load(self, state, "")
        if strict:
            if unexpected:
                problems.insert(0, f"unexpected keys: {', '.join(map(repr, unexpected))}")
            if missing:
                problems.insert(0, f"missing keys: {', '.join(map(repr, missing))}")
        if problems:
            raise LoadError(
                f"load_state_dict: the state does not fit {type(self).__name__}:\n\t" + "\n\t".join(problems)
            )
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        skipped = self._non_persistent_buffers_set
        persistent = [(n, b) for n, b in self._buffers.items() if n not in skipped]
        for name, own in itertools.chain(self._parameters.items(), persistent):
            if own is None:
                continue
            key = prefix + name
            if key in state_dict:
                problem = self._load_one(name, own, state_dict[key], assign)
                if problem:
                    error_msgs.append(f"{key}: {problem}")
            elif strict:
                missing_keys.append(key)
        key = prefix + _EXTRA
        if type(self).set_extra_state is not Stateful.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)
        if strict:
            unexpected_keys.extend(k for k in state_dict if self._is_foreign(k, prefix))

    def _load_one(self, name: str, own: Any, value: Any, assign: bool) -> str:
        """Put `value` into one parameter or buffer; return what is wrong with it, if anything."""
        if not isinstance(value, Tensor):
            return f"a tensor is expected, got {type(value).__name__}"
        if not is_lazy(own):
            # Values saved before 0-dim tensors existed come as one-element vectors.
            if own.dim() == 0 and value.dim() == 1 and value.numel() == 1:
                value = value[0]
            if value.shape != own.shape:
                return f"shapes differ: the module has {tuple(own.shape)}, the state {tuple(value.shape)}"
        try:
            with no_grad():
                if not assign:
                    own.copy_(value)
                elif isinstance(own, Parameter):
                    if not isinstance(value, Parameter):
                        value = Parameter(value, requires_grad=own.requires_grad)
                    else:
                        value.requires_grad_(own.requires_grad)
                    setattr(self, name, value)
                else:
                    setattr(self, name, value)
        except Exception as problem:
            return f"copying failed: {problem}"
        return ""

    def _is_foreign(self, key: str, prefix: str) -> bool:
        """Return whether a key under `prefix` names neither a submodule nor a value of this module."""
        if not key.startswith(prefix) or key == prefix + _EXTRA:
            return False
        name, *below = key[len(prefix) :].split(".", 1)
        if below:
            return name not in self._modules
        return name not in self._parameters and (
            name not in self._buffers or name in self._non_persistent_buffers_set or self._buffers[name] is None
        )

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)` before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return add_hook(self._load_state_dict_pre_hooks, _WithModule(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may change the lists of keys."""
        return add_hook(self._load_state_dict_post_hooks, hook)


class _WithModule:
    """A load hook that is told which module it runs for; it does not keep the module alive."""

    def __init__(self, hook: Callable[..., Any], module: Any) -> None:
        self.hook = hook
        self.module = weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        return self.hook(self.module(), *args)

    def __getstate__(self) -> tuple[Any, Any]:
        return self.hook, self.module()

    def __setstate__(self, state: tuple[Any, Any]) -> None:
        self.hook, self.module = state[0], weakref.ref(state[1])
