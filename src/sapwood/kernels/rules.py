"""Rules that NumPy's functions write over arrays in place, read as formulas of one element.

    >>> import numpy as np
    >>> from sapwood.kernels import multi, rules
    >>> def rule(p, g, lr, spare):
    ...     np.subtract(p, np.multiply(g, lr, out=spare), out=p)
    >>> def body(p, g, lr):
    ...     cells = [rules.Cell(x) for x in (p, g, lr)]
    ...     rule(*cells, rules.Cell())
    ...     return (cells[0].value,)
    >>> step = multi.updater("sgd", body, arrays=2, writes=(0,), coefficients=1)
    >>> p = np.ones(2)
    >>> step((0.5,), [p], [np.ones(2)]), p
    (True, array([0.5, 0.5]))

The rule computes the same operations in the same order either way, so both give the same results to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .scalar import Scalar, select
from .vocabulary import ARITHMETIC, COMPARISONS, NUMPY_NAMES


class Cell:
    """One element of an array, which NumPy's elementwise functions read and write."""

    __slots__ = ("value",)

    value: Any
    """A Scalar once it was written."""

    def __init__(self, value: Scalar | None = None) -> None:
        self.value = value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), where: Any = True) -> Any:
        name = ufunc.__name__
        function = _OTHERS.get(name) or (ARITHMETIC | COMPARISONS).get(NUMPY_NAMES.get(name, name))
        if method != "__call__" or function is None:
            return NotImplemented
        result = function(*[x.value if isinstance(x, Cell) else x for x in inputs])
        target: Cell = out[0] if out else Cell()
        target.value = result if where is True else select(where.value, result, target.value)
        return target


_OTHERS: dict[str, Callable[..., Any]] = {
    "positive": lambda x: x,
    "sign": lambda x: select(x > 0.0, 1.0, select(x < 0.0, -1.0, x)),
}

__all__ = ["Cell"]
