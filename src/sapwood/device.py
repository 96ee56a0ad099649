"""`device`: where a tensor lives. There is one device, the CPU; "meta" tensors have a shape and no data."""

from __future__ import annotations

from typing import Any

from .errors import MissingError, ValueRangeError

_KNOWN = ("cpu", "meta")
_FOREIGN = ("cuda", "mps", "xpu", "xla", "hip", "mkldnn", "hpu", "ipu", "mtia", "vulkan", "privateuseone")


class device:
    """A place for tensors, written `device("cpu")` or `device("cpu", 0)`.

    Raises:
        MissingError: a device of another engine, such as "cuda", was asked for where data would have to live on it.
    """

    __slots__ = ("index", "type")

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index if index is None else index
        elif isinstance(type, int):
            type, index = "cuda", type
        elif isinstance(type, str) and ":" in type:
            type, _, number = type.partition(":")
            if not number.isdecimal():
                raise ValueRangeError(f"device: the index after ':' must be a number, got {number!r}")
            index = int(number)
        if type not in _KNOWN + _FOREIGN:
            raise ValueRangeError(f"device: type must be one of {', '.join(_KNOWN)}, got {type!r}")
        self.type: str = type
        self.index: int | None = index

    def require_cpu(self, op: str) -> None:
        """Raise unless tensors can live here."""
        if self.type != "cpu":
            raise MissingError(f"{op}: tensors live on the CPU here, got device={str(self)!r}; use device='cpu'")

    def __repr__(self) -> str:
        tail = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{tail})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type, self.index)


CPU = device("cpu")
