"""`strict`: refuse what broadcasting and promotion do silently."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..errors import DtypeError, ShapeError
from ..origin import here, is_own, place
from ..tensor import Tensor
from .observe import observing

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_WRAPPERS = ("<sapwood ", _PACKAGE + "ops" + os.sep)
_OWN = (_PACKAGE + "autograd" + os.sep + "observe.py", __file__)


class strict(observing):
    """Raise, inside, where an elementwise operation of the user's own code mixes shapes or types.

    What layers and losses of the package do within is left alone. Numbers and tensors of no dimensions always fit.

    Args:
        ranks: operands with different numbers of dimensions are refused, as (n,) and (n, 1).
        sizes: a size 1 that is repeated is refused, too.
        dtypes: tensors of different element types are refused.

    Raises:
        ShapeError, DtypeError: naming the operands and the line.

    Example:
        >>> import sapwood
        >>> with sapwood.autograd.strict():
        ...     y = sapwood.ones(3, 1) - sapwood.ones(3)
        Traceback (most recent call last):
        ...
        sapwood.errors.ShapeError: strict: sub at ...
    """

    def __init__(self, *, ranks: bool = True, sizes: bool = False, dtypes: bool = False) -> None:
        super().__init__(self._called)
        self.ranks, self.sizes, self.dtypes = ranks, sizes, dtypes

    def _called(self, op: Any, name: str, inputs: Any, attrs: Any, compute: Any) -> Any:
        if op.kind == "elementwise":
            tensors = [t for t in inputs if isinstance(t, Tensor) and t.ndim]
            if len(tensors) > 1:
                self._check(name, tensors)
        return compute()

    def _check(self, name: str, tensors: list[Tensor]) -> None:
        shapes = {tuple(t.shape) for t in tensors}
        types = {t.dtype for t in tensors}
        ranks = self.ranks and len({len(s) for s in shapes}) > 1
        sizes = self.sizes and len(shapes) > 1
        mixed = self.dtypes and len(types) > 1
        if not (ranks or sizes or mixed) or not _by_the_user():
            return
        where = place(here())
        head = f"strict: {name}{f' at {where}' if where else ''} has operands"
        if ranks or sizes:
            given = " and ".join(str(tuple(t.shape)) for t in tensors)
            raise ShapeError(
                f"{head} of shapes {given}, which would be broadcast; give them one shape, e.g. with unsqueeze(), "
                "squeeze() or expand(), so that it is seen what is meant"
            )
        given = " and ".join(t.dtype.name for t in tensors)
        raise DtypeError(f"{head} of types {given}, which would be promoted; convert one of them with to()")


def _by_the_user() -> bool:
    """Return whether the running operation was called by the user's program, and not by the package."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((*_WRAPPERS, *_OWN)):
        frame = frame.f_back
    return frame is None or not is_own(frame.f_code.co_filename)


__all__ = ["strict"]
