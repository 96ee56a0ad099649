"""Names of torch.utils.checkpoint about accelerators. There is one device, so that they have nothing to keep."""

from __future__ import annotations

from typing import Any


class DefaultDeviceType:
    """The accelerator whose random state a checkpoint would preserve besides the CPU's."""

    _default = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set the device type."""
        DefaultDeviceType._default = device

    @staticmethod
    def get_device_type() -> str:
        """Return the device type."""
        return DefaultDeviceType._default


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Return the accelerators of the tensors in `args` and their random states: none."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Set random states that `get_device_states` returned: none."""
