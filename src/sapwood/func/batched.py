"""`BatchedTensor`: one example of a batch, as the function under `vmap` sees it.

It holds a tensor whose first dimension is the batch. It has the shape, strides and dtype of one example, and no values:
whatever asks for a number raises, because every example has its own.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy import ndarray

from ..errors import GradError
from ..tensor import Tensor
from .level import Level, Wrapper, running

_QUESTIONS = {np.empty_like, np.shape, np.ndim, np.size, np.zeros_like, np.ones_like, np.may_share_memory}


def _refuse(name: str) -> Any:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise GradError(
            f"vmap: {name} needs the values of a tensor, and inside vmap each example has its own; "
            "compute with tensor operations (where, index_select, …), or do this outside vmap"
        )

    return refuse


class Described(ndarray[Any, Any]):
    """An array that answers for shape, strides and dtype only."""

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in _QUESTIONS:
            _refuse(f"numpy.{function.__name__}")(self)
        made = super().__array_function__(function, types, args, kwargs)
        return made.view(ndarray) if type(made) is Described else made

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        _refuse(f"numpy.{ufunc.__name__}")(self)


for _name in (
    "item", "tolist", "astype", "copy", "tobytes", "sum", "mean", "min", "max", "any", "all", "take", "fill", "nonzero",
    "__getitem__", "__setitem__", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__iter__",
    "__contains__",
):  # fmt: skip
    setattr(Described, _name, _refuse(_name))


def described(like: ndarray[Any, Any]) -> ndarray[Any, Any]:
    """Return the description of one example of a batch of arrays, without memory of its own."""
    if not len(like):
        one: Any = np.empty(like.shape[1:], like.dtype)
    elif type(like) is Described:
        one = np.lib.stride_tricks.as_strided(like.view(ndarray), like.shape[1:], like.strides[1:], writeable=False)
    else:
        one = like[:1].reshape(like.shape[1:]) if 0 in like.shape else like[0:1][0, ...]
    return np.asarray(one).view(Described)


class BatchedTensor(Wrapper):
    """One example of the batch `value`, whose first dimension counts the examples of `level`."""

    __slots__ = ()

    _value: Tensor

    def __new__(cls, value: Tensor, level: Level) -> BatchedTensor:
        made: BatchedTensor = object.__new__(cls)
        made._value = value
        made._level = level
        return made

    @property
    def _array(self) -> ndarray[Any, Any]:
        return described(self._value._array)

    @_array.setter
    def _array(self, array: Any) -> None:
        raise GradError("vmap: this operation replaces a tensor's memory, which one example of a batch does not have")

    @property
    def _node(self) -> Any:
        return self._value._node

    @_node.setter
    def _node(self, node: Any) -> None:
        self._value._node = node

    @classmethod
    def __sapwood_op__(cls, op: Any, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
        """Compute `op` for all examples at once."""
        from .batching import batch_call

        return batch_call(op, inputs, attrs)

    @classmethod
    def __sapwood_write__(cls, op: Any, target: Tensor, others: tuple[Any, ...], attrs: tuple[Any, ...]) -> Tensor:
        """Write the result over `target`, which must be batched where another operand is."""
        from .batching import batch_write

        return batch_write(op, target, others, attrs)

    def detach(self) -> Tensor:
        """Return the same example outside every graph."""
        return BatchedTensor(self._value.detach(), self._level)

    @property  # type: ignore[misc]
    def data(self) -> Tensor:
        """The same example outside every graph."""
        return self.detach()

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Raise, unless nothing changes: it would stay on the whole batch after vmap has ended."""
        if bool(requires_grad) is not self.requires_grad:
            raise GradError(
                "requires_grad_: it would change the tensor outside vmap, of which this is one example; use func.grad "
                "or func.vjp inside, or call it before vmap"
            )
        return self

    def _per_example(self, made: Any) -> Tensor:
        return BatchedTensor(made.expand((self._level.size, *made.shape)).clone(), self._level)

    def new_zeros(self, *size: Any, **options: Any) -> Tensor:
        """Return zeros in this tensor's dtype, one tensor per example."""
        return self._per_example(_unbatched("new_zeros")(self, *size, **options))

    def new_ones(self, *size: Any, **options: Any) -> Tensor:
        """Return ones in this tensor's dtype, one tensor per example."""
        return self._per_example(_unbatched("new_ones")(self, *size, **options))

    def new_empty(self, *size: Any, **options: Any) -> Tensor:
        """Return an uninitialised tensor in this tensor's dtype, one per example."""
        return self._per_example(_unbatched("new_empty")(self, *size, **options))

    def new_full(self, size: Any, fill_value: Any, **options: Any) -> Tensor:
        """Return a tensor of one value in this tensor's dtype, one per example."""
        return self._per_example(_unbatched("new_full")(self, size, fill_value, **options))

    def zero_(self) -> Tensor:
        """Set every element to zero."""
        self._value.zero_()
        return self

    def fill_(self, value: Any) -> Tensor:
        """Set every element to `value`, a number or a 0-dim tensor."""
        if isinstance(value, Tensor):
            return self.copy_(value)
        self._value.fill_(value)
        return self

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __repr__(self) -> str:
        inside = "\n".join("    " + line for line in repr(self._value).splitlines())
        depth = [*running(), self._level].index(self._level) + 1
        return f"BatchedTensor(lvl={depth}, bdim=0, value=\n{inside}\n)"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return BatchedTensor(self._value.detach().clone(), self._level)

    def backward(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: gradients inside vmap are values, not side effects."""
        raise GradError("backward: it cannot run inside vmap; use func.grad or func.vjp, whose gradients are values")


def _unbatched(name: str) -> Any:
    return getattr(Tensor, name)


for _name in ("item", "numpy", "tolist", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__array__",
              "__contains__", "__dlpack__"):  # fmt: skip
    setattr(BatchedTensor, _name, _refuse(_name.strip("_")))


def _turned(name: str) -> Any:
    view = name[:-1]

    def turn(self: BatchedTensor, *args: Any, **kwargs: Any) -> BatchedTensor:
        self._value = getattr(self, view)(*args, **kwargs)._value
        return self

    return turn


for _name in ("t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_"):
    setattr(BatchedTensor, _name, _turned(_name))
