"""Walking a tree of modules: by name, in order, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from ..tensor import Parameter, Tensor
from .registry import Registered


class Traversed(Registered):
    """The part of Module that finds and lists what it contains."""

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Yield (name, module) for this module and all below it, parents first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """Yield this module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, module) for the direct submodules, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Any]:
        """Yield the direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for at, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{at}.{name}" if at else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield (name, parameter), those of submodules too with `recurse`."""
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, buffer), those of submodules too with `recurse`."""
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call `fn(module)` on every submodule, then on this module; return it."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # -- by dotted name -----------------------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Any:
        """Return the submodule at a dotted name; the module itself for "".

        Raises:
            AttributeError: there is none at that name.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(
                    f"get_submodule: {type(module).__name__} has no attribute {name!r} (in {target!r})"
                )
            module = getattr(module, name)
            if not isinstance(module, Registered):
                raise AttributeError(f"get_submodule: {name!r} (in {target!r}) is not a Module")
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put `module` at a dotted name; with `strict` there must be a submodule already.

        Raises:
            ValueError: `target` is empty or `module` is not a Module.
            AttributeError: no module on the way, or (strict) at the end.
        """
        if not target:
            raise ValueError("set_submodule: the target must name a submodule, got an empty string")
        if not isinstance(module, Registered):
            raise ValueError(f"set_submodule: a Module is expected, got {type(module).__name__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"set_submodule: {type(parent).__name__} has no attribute {name!r}")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Registered):
            raise AttributeError(f"set_submodule: {name!r} of {type(parent).__name__} is not a Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a dotted name."""
        found: Parameter = self._at("parameter", target, "_parameters")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a dotted name."""
        found: Tensor = self._at("buffer", target, "_buffers")
        return found

    def _at(self, what: str, target: str, registry: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"get_{what}: {type(module).__name__} has no attribute {name!r}")
        found = getattr(module, name)
        if name not in getattr(module, registry) and not (what == "parameter" and isinstance(found, Parameter)):
            raise AttributeError(f"get_{what}: {target!r} is not a {what}")
        return found
