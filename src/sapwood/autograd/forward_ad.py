"""Forward-mode differentiation. The names are PyTorch's; the mode itself is not there yet and says so."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import MissingError


def _missing(name: str) -> NoReturn:
    raise MissingError(
        f"{name}: forward-mode differentiation is not available yet; use autograd.grad, twice if a Jacobian-vector "
        "product is wanted"
    )


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Raise MissingError: forward mode is not available yet."""
    _missing("make_dual")


def unpack_dual(tensor: Any, *, level: int | None = None) -> Any:
    """Raise MissingError: forward mode is not available yet."""
    _missing("unpack_dual")


class dual_level:
    """Raise MissingError when entered: forward mode is not available yet."""

    def __enter__(self) -> None:
        _missing("dual_level")

    def __exit__(self, *exception: object) -> None:
        pass
