"""What type checkers should know of Tensor's installed methods: that they exist.

Arithmetic and every other op is put on Tensor from the op declarations when `sapwood.ops` is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Installed:
    """Stands for the methods and operators that the declarations install."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

        __add__: Any
        __radd__: Any
        __iadd__: Any
        __sub__: Any
        __rsub__: Any
        __isub__: Any
        __mul__: Any
        __rmul__: Any
        __imul__: Any
        __truediv__: Any
        __rtruediv__: Any
        __itruediv__: Any
        __floordiv__: Any
        __rfloordiv__: Any
        __mod__: Any
        __rmod__: Any
        __pow__: Any
        __rpow__: Any
        __matmul__: Any
        __rmatmul__: Any
        __and__: Any
        __or__: Any
        __xor__: Any
        __lshift__: Any
        __rshift__: Any
        __lt__: Any
        __le__: Any
        __gt__: Any
        __ge__: Any
        __neg__: Any
        __pos__: Any
        __invert__: Any
        __abs__: Any
        __getitem__: Any
        __setitem__: Any
        __iter__: Any
