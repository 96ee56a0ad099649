"""Wrappers that spread a module over devices."""

from __future__ import annotations

from typing import Any

from .module import Module


class DataParallel(Module):
    """Run `module` as it is: there is one device. The parameters get the prefix "module.", as in saved states.

    Args:
        module: what to run.
        device_ids: accepted.
        output_device: accepted.
        dim: accepted.
    """

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the module's output."""
        return self.module(*inputs, **kwargs)
