"""class Module: a layer or model, that is, parameters, submodules and a forward computation.

Its parts are separate classes, one mechanism each: `registry` (attributes), `traverse` (names and trees), `convert`
(dtypes), `state_dict` (saving), `hooks`.
"""

from __future__ import annotations

from typing import Any, Self

from .hooks import Hooked, any_global
from .hooks import register_module_backward_hook as register_module_backward_hook
from .hooks import register_module_buffer_registration_hook as register_module_buffer_registration_hook
from .hooks import register_module_forward_hook as register_module_forward_hook
from .hooks import register_module_forward_pre_hook as register_module_forward_pre_hook
from .hooks import register_module_full_backward_hook as register_module_full_backward_hook
from .hooks import register_module_full_backward_pre_hook as register_module_full_backward_pre_hook
from .hooks import register_module_module_registration_hook as register_module_module_registration_hook
from .hooks import register_module_parameter_registration_hook as register_module_parameter_registration_hook
from .registry import Registered, Registry
from .state_dict import _IncompatibleKeys as _IncompatibleKeys


class Module(Hooked):
    """The base class of layers and models.

    A subclass calls `super().__init__()`, assigns Parameters and Modules to attributes, which registers them, and
    defines `forward`. Calling the module runs `forward` and the hooks around it.

    Example:
        >>> from sapwood import nn
        >>> class Model(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.hidden = nn.Linear(4, 8)
        ...     def forward(self, x):
        ...         return self.hidden(x).relu()
    """

    call_super_init: bool = False
    """Whether Module.__init__ passes its arguments on, for classes with several bases."""
    dump_patches: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            what = f"{len(args)} positional" if args else f"keyword {next(iter(kwargs))!r}"
            raise TypeError(f"Module.__init__: no argument is taken, got {what}; keep them in your own __init__")
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = Registry(self)
        own["_buffers"] = Registry(self)
        own["_non_persistent_buffers_set"] = set()
        own["_modules"] = Registry(self)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *input: Any) -> Any:
        """Compute the output; every subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__}: define forward(self, …); calling a module runs it")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # One flag says whether to look for hooks: their dictionaries are made, and the flag set, at first use.
        if self._hooked:
            if not any_global():
                Registered._hooked = False
            return self._run_hooked(args, kwargs)
        return self.forward(*args, **kwargs)

    _call_impl = __call__
    _wrapped_call_impl = __call__

    def train(self, mode: bool = True) -> Self:
        """Set this module and all below it to training (or, with False, evaluation); return it.

        Raises:
            ValueError: `mode` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: the mode must be True or False, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set this module and all below it to evaluation; return it."""
        return self.train(False)

    # -- printing -----------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return what stands between the parentheses of the module's printed form."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        own = extra.split("\n") if extra else []
        below = [f"({name}): {indent(repr(module), 2)}" for name, module in self._modules.items()]
        lines = own + below
        if len(own) == 1 and not below:
            inside = own[0]
        elif lines:
            inside = "\n  " + "\n  ".join(lines) + "\n"
        else:
            inside = ""
        return f"{self._get_name()}({inside})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a tree that folds."""
        from ..viz.notebook import module_html

        return module_html(self)


def indent(text: str, spaces: int) -> str:
    """Return `text` with every line but the first moved to the right."""
    return text.replace("\n", "\n" + " " * spaces)


_addindent = indent
