"""Modules whose parameters get their shapes from the first input."""

from __future__ import annotations

import warnings
from typing import Any

from .hooks import Hooked
from .parameter import is_lazy


class LazyModuleMixin(Hooked):
    """Makes a module lazy: its `initialize_parameters(input)` runs before its first forward.

    A subclass names the class it turns into afterwards in `cls_to_become`.
    """

    cls_to_become: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(_take_shapes, with_module=True)
        self._initialize_hook = self.register_forward_pre_hook(_infer, with_kwargs=True)
        warnings.warn(
            "lazy modules are new in PyTorch's interface and may still change; run the module once on an example "
            "input before its parameters are used",
            UserWarning,
            stacklevel=3,
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in [*self._parameters.items(), *self._buffers.items()]:
            if value is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = value if is_lazy(value) or keep_vars else value.detach()

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes, seen from the arguments of the first call."""
        raise NotImplementedError(f"{type(self).__name__}: a lazy module must define initialize_parameters")

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer has no shape yet."""
        return any(is_lazy(v) for v in [*self._parameters.values(), *self._buffers.values()])


def _infer(module: Any, args: Any, kwargs: Any) -> None:
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"{type(module).__name__}: initialize_parameters left parameters without a shape")
    module._initialize_hook.remove()
    module._load_hook.remove()
    del module._initialize_hook, module._load_hook
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


def _take_shapes(
    module: Any, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: Any, unexpected: Any, errors: Any
) -> None:
    """Give parameters the shapes of the values that are about to be loaded into them."""
    for name, value in [*module._parameters.items(), *module._buffers.items()]:
        given = state_dict.get(prefix + name)
        if is_lazy(value) and given is not None and not is_lazy(given):
            value.materialize(given.shape)
