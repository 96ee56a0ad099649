"""Which modules are running, and what the parameters, buffers and tensors around a captured function are called."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import alias
from ..origin import is_own
from ..tensor import Tensor
from .ir import Role, Scope


class Slot(NamedTuple):
    """An attribute that holds a tensor: of a module, or of the object whose method is captured."""

    holder: Any
    attribute: str
    tensor: Any


class Surroundings:
    """The names of the modules and tensors that a function reaches besides its arguments.

    Those of a module are named as it names them. A function's are named after the variables that hold them, in its
    closure, among its globals, and in the object it is a method of.
    """

    def __init__(self) -> None:
        self.modules: dict[int, str] = {}
        self.tensors: dict[int, tuple[Role, str]] = {}
        self.memory: dict[int, Any] = {}
        """By what owns their memory: one tensor of each piece."""
        self.stamps: dict[int, int] = {}
        """By what owns their memory: how many writes to it were counted at the beginning."""
        self.slots: dict[str, Slot] = {}
        """By name: where a tensor was found that an assignment may replace."""
        self._kept: list[Any] = []
        self._functions: set[int] = set()

    def add_function(self, function: Any, depth: int = 3) -> None:
        """Look around a function, and around those that it calls by name."""
        self._functions.add(id(function))
        while isinstance(function, functools.partial):
            for i, thing in enumerate((*function.args, *function.keywords.values())):
                self.add(f"given{i}", thing)
            function = function.func
        holder = getattr(function, "__self__", None)
        if hasattr(holder, "named_parameters"):
            self.add_module("", holder)
        elif holder is not None and not inspect.ismodule(holder):
            self.add_object("self.", holder)
        elif not inspect.isroutine(function) and not hasattr(function, "named_parameters"):
            self.add_object("self.", function)
            function = type(function).__call__
        try:
            found = inspect.getclosurevars(inspect.unwrap(function))
        except TypeError:
            return
        for name, thing in (*found.nonlocals.items(), *found.globals.items()):
            self.add(name, thing)
            own = inspect.isfunction(thing) and not is_own(thing.__code__.co_filename)
            if own and depth and id(thing) not in self._functions:
                self.add_function(thing, depth - 1)

    def add_object(self, prefix: str, holder: Any) -> None:
        """Look among the attributes of an object that is no module."""
        for name, thing in getattr(holder, "__dict__", {}).items():
            if isinstance(thing, Tensor):
                self.slots.setdefault(prefix + name, Slot(holder, name, thing))
            self.add(prefix + name, thing)

    def add(self, name: str, thing: Any, depth: int = 3) -> None:
        """Note a thing, and the modules and tensors in it, under a name."""
        if inspect.ismodule(thing):
            return
        if isinstance(thing, Tensor):
            self._name(thing, "constant", name)
        elif hasattr(thing, "named_parameters") and not isinstance(thing, type):
            self.add_module(name + ".", thing)
        elif isinstance(getattr(thing, "param_groups", None), list):
            for i, p in enumerate(p for group in thing.param_groups for p in group["params"]):
                self.add(f"{name}.{i}", p)
        elif isinstance(thing, list | tuple | dict) and depth and len(thing) <= 1000:
            entries = thing.items() if isinstance(thing, dict) else enumerate(thing)
            for key, part in entries:
                self.add(f"{name}.{key}", part, depth - 1)

    def add_module(self, prefix: str, module: Any) -> None:
        """Note a module's submodules, parameters, buffers, and tensors that are plain attributes."""
        self._kept.append(module)
        for path, part in module.named_modules():
            self.modules.setdefault(id(part), (prefix + path).rstrip("."))
            inner = f"{prefix}{path}." if path else prefix
            roles: tuple[tuple[Role, Any], ...] = (
                ("parameter", part._parameters),
                ("buffer", part._buffers),
                ("constant", {k: v for k, v in vars(part).items() if isinstance(v, Tensor)}),
            )
            for role, things in roles:
                for name, tensor in things.items():
                    if tensor is not None:
                        self._name(tensor, role, inner + name)
                        self.slots.setdefault(inner + name, Slot(part, name, tensor))

    def _name(self, tensor: Any, role: Role, name: str) -> None:
        self.tensors.setdefault(id(tensor), (role, name.replace(" ", "_")))
        owner = alias.owner(tensor._array)
        self.memory.setdefault(id(owner), tensor)
        record = alias.stamp_of(owner)
        self.stamps.setdefault(id(owner), 0 if record is None else record.version)
        self._kept.append((tensor, owner))

    def rebound(self) -> Iterator[tuple[str, Slot, Any]]:
        """Yield the slots that hold another thing now, with it."""
        for name, slot in self.slots.items():
            now = getattr(slot.holder, slot.attribute, None)
            if now is not slot.tensor:
                yield name, slot, now


class Scopes:
    """Inside, knows which modules are running."""

    def __init__(self, root: Any, names: dict[int, str]) -> None:
        self._root = root
        self._names = names
        self._running: list[tuple[Any, Scope]] = []
        self._calls: Counter[int] = Counter()
        self._handles: list[Any] = []
        self._failed = ""

    def __enter__(self) -> Scopes:
        from ..nn import hooks

        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._handles:
            handle.remove()

    def now(self) -> tuple[Scope, ...]:
        """Return the running modules, outermost first, the captured one itself left out."""
        return tuple(scope for module, scope in self._running if module is not self._root)

    def path(self) -> str:
        """Return the innermost module that was running when something failed."""
        return self._failed

    def _enter(self, module: Any, args: Any) -> None:
        kind = type(module).__name__
        path = self._names.get(id(module), kind)
        self._failed = f"{path} ({kind})" if path else kind
        self._running.append((module, Scope(path, kind, self._calls[id(module)])))
        self._calls[id(module)] += 1

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        while self._running:
            if self._running.pop()[0] is module:
                break


__all__ = ["Scopes", "Slot", "Surroundings"]
