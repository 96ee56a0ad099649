"""Registration: how a Module knows its parameters, buffers and submodules.

The three registries are the truth. Python looks into an instance's own dictionary before it would call
`__getattr__`, so every registered value is mirrored there: reading `self.weight` costs what any attribute costs.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, Self

from ..tensor import Parameter, Tensor
from .parameter import Buffer

_MISSING: Any = object()
_REGISTRIES = frozenset({"_parameters", "_buffers", "_modules"})
_ON_DEMAND: dict[str, type] = {
    "_forward_hooks": dict,
    "_forward_hooks_with_kwargs": dict,
    "_forward_hooks_always_called": dict,
    "_forward_pre_hooks": dict,
    "_forward_pre_hooks_with_kwargs": dict,
    "_backward_hooks": dict,
    "_backward_pre_hooks": dict,
    "_state_dict_hooks": dict,
    "_state_dict_pre_hooks": dict,
    "_load_state_dict_pre_hooks": dict,
    "_load_state_dict_post_hooks": dict,
}
"""Dictionaries of hooks: made when first looked at, so that a module without hooks carries none."""
_CALL_HOOKS = frozenset({"_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"})

registration_hooks: dict[str, dict[int, Any]] = {"parameter": {}, "buffer": {}, "module": {}}
"""Functions called as hook(module, name, value) at every registration; a result that is not None is registered."""


class Registry(dict[str, Any]):
    """The parameters, buffers or submodules of one module, by name; the module's attributes follow it."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any, content: Any = ()) -> None:
        super().__init__(content)
        # A weak reference: a module must die with its last reference, not when the collector finds a cycle.
        self._owner = weakref.ref(owner)
        owner.__dict__.update(self)

    def _mirror(self) -> dict[str, Any]:
        owner = self._owner()
        return {} if owner is None else owner.__dict__

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._mirror()[name] = value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._mirror().pop(name, None)

    def pop(self, name: str, default: Any = _MISSING) -> Any:
        """Remove `name` and return its value, or `default`."""
        if name in self or default is _MISSING:
            value = super().pop(name)
            self._mirror().pop(name, None)
            return value
        return default

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last (name, value)."""
        name, value = super().popitem()
        self._mirror().pop(name, None)
        return name, value

    def clear(self) -> None:
        """Remove everything."""
        for name in tuple(self):
            del self[name]

    def update(self, *others: Any, **named: Any) -> None:
        """Add or replace entries."""
        for name, value in dict(*others, **named).items():
            self[name] = value

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the value of `name`, registering `default` if there is none."""
        if name not in self:
            self[name] = default
        return self[name]

    def __ior__(self, other: Any) -> Self:  # type: ignore[override,misc]
        self.update(other)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Copied and pickled as a plain dictionary; the module that receives it makes it a Registry of its own.
        return dict, (dict(self),)

    __reduce_ex__ = lambda self, protocol: self.__reduce__()


class Registered:
    """The part of Module that registers attributes. Subclass Module, not this."""

    training: bool
    _parameters: Registry
    _buffers: Registry
    _modules: Registry
    _non_persistent_buffers_set: set[str]
    _hooked = False

    # -- attributes -------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        parameters = own.get("_parameters")
        if isinstance(value, Parameter):
            self._check_ready("parameter", name)
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"{type(self).__name__}.{name}: a parameter can be replaced by a Parameter or None, got "
                    f"{type(value).__name__}; wrap it in nn.Parameter, or write to {name}.data"
                )
            self.register_parameter(name, None)
        elif isinstance(value, Registered):
            self._check_ready("module", name)
            self._forget(name, keep="_modules")
            self._modules[name] = _hooked_value("module", self, name, value)
        elif parameters is None:
            self._set_plain(name, value)
        elif name in own["_modules"]:
            if value is not None:
                raise TypeError(
                    f"{type(self).__name__}.{name}: a submodule can be replaced by a Module or None, got "
                    f"{type(value).__name__}; delete the attribute first"
                )
            self._modules[name] = _hooked_value("module", self, name, value)
        elif name in own["_buffers"] or isinstance(value, Buffer):
            self._set_buffer(name, value)
        else:
            self._set_plain(name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"{type(self).__name__}.{name}: a buffer can be replaced by a Tensor or None, got "
                f"{type(value).__name__}; delete the attribute first"
            )
        if isinstance(value, Buffer):
            self._forget(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
        else:
            self._buffers[name] = _hooked_value("buffer", self, name, value)

    def _set_plain(self, name: str, value: Any) -> None:
        if name in _REGISTRIES:
            for old in self.__dict__.get(name, ()):
                self.__dict__.pop(old, None)
            value = Registry(self, value)
        elif name in _CALL_HOOKS:
            object.__setattr__(self, "_hooked", True)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name in _ON_DEMAND:
            if name in _CALL_HOOKS:
                own["_hooked"] = True
            made = own[name] = _ON_DEMAND[name]()
            return made
        for registry in ("_parameters", "_buffers", "_modules"):
            if name in own.get(registry, ()):
                return own[registry][name]
        hint = "; call super().__init__() first" if name in _REGISTRIES else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)

    def __delattr__(self, name: str) -> None:
        for registry in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(registry, ()):
                del self.__dict__[registry][name]
                self.__dict__.pop(name, None)
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def _forget(self, name: str, *, keep: str) -> None:
        """Remove what else bears the name, so that a name stands in one registry only."""
        for registry in ("_parameters", "_buffers", "_modules"):
            if registry != keep:
                self.__dict__[registry].pop(name, None)
        if keep != "_buffers":
            self._non_persistent_buffers_set.discard(name)
        if name not in self.__dict__[keep]:
            self.__dict__.pop(name, None)

    def _check_ready(self, what: str, name: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(
                f"{type(self).__name__}.{name}: a {what} was assigned before super().__init__() ran; call it first in "
                "your __init__"
            )

    def _check_name(self, what: str, name: Any, registry: dict[str, Any]) -> None:
        self._check_ready(what, name)
        if not isinstance(name, str):
            raise TypeError(f"register_{what}: the name must be a string, got {type(name).__name__}")
        if "." in name or not name:
            raise KeyError(
                f"register_{what}: the name must not be empty or contain a dot (dots separate modules), got {name!r}"
            )
        # Asked of the class, not of the instance: there a missing name would end in __getattr__ and its error text.
        if name not in registry and (name in self.__dict__ or hasattr(type(self), name)):
            raise KeyError(f"register_{what}: {type(self).__name__} already has an attribute {name!r}")

    # -- explicit registration ----------------------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Any) -> None:
        """Register `param` (a Parameter or None) under `name`.

        Raises:
            AttributeError: before super().__init__().
            KeyError: the name is taken, empty or has a dot.
            TypeError: `param` is something else.
            ValueError: `param` was made by an op, so it is not a leaf.
        """
        self._check_name("parameter", name, self.__dict__.get("_parameters", {}))
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"register_parameter: {name!r} must be a Parameter or None, got {type(param).__name__}; wrap it in "
                    "nn.Parameter"
                )
            if not param.is_leaf:
                raise ValueError(
                    f"register_parameter: {name!r} was made by an op; a parameter must be a leaf. To compute it from "
                    "other parameters, do so in forward"
                )
            param = _hooked_value("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Register a tensor (or None) that belongs to the module's state but is not trained.

        Args:
            name: the attribute's name.
            tensor: the buffer.
            persistent: whether it is part of the state_dict.
        """
        self._check_name("buffer", name, self.__dict__.get("_buffers", {}))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer: {name!r} must be a Tensor or None, got {type(tensor).__name__}")
        self._buffers[name] = _hooked_value("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Any) -> None:
        """Register a submodule (or None) under `name`."""
        if module is not None and not isinstance(module, Registered):
            raise TypeError(f"add_module: {name!r} must be a Module or None, got {type(module).__name__}")
        self._check_name("module", name, self.__dict__.get("_modules", {}))
        self._modules[name] = _hooked_value("module", self, name, module)

    def register_module(self, name: str, module: Any) -> None:
        """Register a submodule (or None) under `name`; the same as `add_module`."""
        self.add_module(name, module)

    # -- copies -------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        own = self.__dict__
        mirrored = {n for r in _REGISTRIES for n in own.get(r, ())}
        return {k: v for k, v in own.items() if k not in mirrored}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for registry in ("_parameters", "_buffers", "_modules"):
            if registry in state:
                self.__dict__[registry] = Registry(self, state[registry])

    def __dir__(self) -> Iterable[str]:
        return sorted(k for k in {*dir(type(self)), *self.__dict__, *_ON_DEMAND} if not k[0].isdigit())


def _hooked_value(what: str, module: Any, name: str, value: Any) -> Any:
    for hook in tuple(registration_hooks[what].values()):
        result = hook(module, name, value)
        if result is not None:
            value = result
    return value
