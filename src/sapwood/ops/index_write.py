"""Writing `x[key] = value`: through a view where the key is basic, else by `index_put_`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import alias, ops
from ..dtypes import F32, F64
from ..errors import ArgumentError, DtypeError, ShapeError
from ..state import GRAD, OBSERVE, get_mode
from ..tensor import Tensor, wrap
from . import slow
from .declare import Op, composite, op
from .indexing import Indices, add_at, applied, explained, numpy_key
from .inplace import in_place, rebase
from .record import record


def _put(out, indices, dims, values, accumulate):
    """Write values into the array `out`, or add them, at the indices."""
    if not accumulate:
        out[numpy_key(indices, dims)] = values
    elif alias.overlaps_itself(out):
        # Elements that share memory: each addition must find what the ones before it made.
        np.add.at(out, numpy_key(indices, dims), values)
    else:
        add_at(out, indices, dims, values)


@op
class index_put_at(Op):
    """Return a copy of `input` with `values` written, or added, at the indices."""

    inputs = ("input", "values", "*indices")
    function = method = False
    takes_out = False
    half = False
    linear = True
    kind = "movement"
    dtypes = "bifc"
    grad_fn = "IndexPutBackward0"
    samples = lambda rng: [
        (rng.standard_normal((3, 4)), rng.standard_normal(4), [np.array([0, 2])], (0,), False),
        (rng.standard_normal((3, 4)), rng.standard_normal((3, 4)), [np.array([0, 2, 2])], (0,), True),
    ]

    def forward(input, values, indices, dims, accumulate):
        out = input.copy()
        _put(out, indices, dims, values, accumulate)
        return out

    def infer(input, values, indices, dims, accumulate):
        _explain("index_put", input, values, indices, dims)

    def vjp(g, needs, indices, dims, accumulate):
        gi = gv = None
        if needs[0]:
            gi = g if accumulate else ops.index_put_at(g, ops.zeros_of(g, ()), indices, dims, False)
        if needs[1]:
            gv = ops.index(g, indices, dims)
        return gi, gv


def _explain(name, input, values, indices, dims):
    explained(name, input, indices, dims)
    shape = input[numpy_key(indices, dims)].shape
    raise ShapeError(f"{name}: values of shape {values.shape} do not broadcast to the {shape} that the indices name")


def _put_in_place(
    self: Tensor, values: Tensor, indices: Indices, dims: tuple[int, ...], accumulate: bool, name: str
) -> Tensor:
    """Write values over the tensor's elements at the indices, and record it."""
    if slow.owner_of((self, values, *indices)) is not None:
        return self.copy_(index_put_at(self, values, indices, dims, accumulate))
    recording = bool(get_mode() & GRAD)
    alias.check_writable(self, name, recording, takes=values._node is not None, fills=True)
    if values.dtype is not self.dtype:
        raise DtypeError(
            f"{name}: the values are {values.dtype.name}, the tensor is {self.dtype.name}; convert the values first"
        )
    if get_mode() & OBSERVE:
        written: Tensor = in_place(index_put_at.op, self, (values, indices), (dims, accumulate), name)
        return written
    arrays = (self._array, values._array, tuple(i._array for i in indices))
    if alias.owner(arrays[0]) is alias.owner(arrays[1]):
        arrays = (arrays[0], arrays[1].copy(), arrays[2])
    try:
        _put(arrays[0], arrays[2], dims, arrays[1], accumulate)
    except (ValueError, IndexError):
        _explain(name, *arrays, dims)
    alias.stamp(self, name)
    if recording and (self._node is not None or values._node is not None):
        checked = (self, values, indices)
        edges = record(index_put_at.op, checked, arrays, (dims, accumulate), (self._array,))
        if edges is not None:
            rebase(self, edges[0])
    return self


def _placed(name: str, input: Tensor, indices: Any) -> tuple[Indices, tuple[int, ...]]:
    if isinstance(indices, Tensor) or not hasattr(indices, "__iter__"):
        raise ArgumentError(f"{name}: indices must be a tuple of tensors, got {type(indices).__name__}")
    view, tensors, dims = applied(input.detach(), tuple(slice(None) if i is None else _kept(i) for i in indices))
    if view.shape != input.shape:
        raise ShapeError(f"{name}: indices must be integer or bool tensors")
    return tensors, dims


def _kept(i: Any) -> Any:
    # A 0-dim index would be taken as a number; one of shape (1,) broadcasts the same way.
    return i.reshape(1) if isinstance(i, Tensor) and not i.ndim and i.dtype.category == 1 else i


@composite(method=True, name="index_put_")
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write `values` at the indices, in place; with `accumulate` add them, several to one place all counting."""
    tensors, dims = _placed("index_put_", input, indices)
    return _put_in_place(input, values, tensors, dims, bool(accumulate), "index_put_")


@composite(method=True)
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    """Return a copy of `input` with `values` written at the indices; with `accumulate` they are added."""
    tensors, dims = _placed("index_put", input, indices)
    if values.dtype is not input.dtype:
        raise DtypeError(
            f"index_put: the values are {values.dtype.name}, the tensor is {input.dtype.name}; convert the values first"
        )
    return index_put_at(input, values, tensors, dims, bool(accumulate))


_BASIC = (int, slice, type(None), type(Ellipsis))


def _is_basic(key: Any) -> bool:
    kind = type(key)
    return kind in _BASIC if kind is not tuple else all(type(k) in _BASIC for k in key)


def _write_plain(self: Tensor, key: Any, value: Any) -> bool:
    """Write where no graph is concerned and NumPy's basic indexing does the same; return whether it was done."""
    if type(self) is not Tensor or self._node is not None or get_mode() > 1 or not _is_basic(key):
        return False
    if alias.captured.get():
        return False
    base = self._base
    if base is not None and base._node is not None:
        return False
    a = self._array
    kind = type(value)
    if kind is Tensor:
        if value._node is not None or value._array.dtype is not a.dtype:
            return False
        value = value._array
        if value.base is not None and alias.owner(value) is alias.owner(a):
            return False
    elif not (kind in (float, int) and (a.dtype is F32 or a.dtype is F64)):
        return False
    keys = key if type(key) is tuple else (key,)
    if any(type(k) is slice and k.step is not None and k.step < 1 for k in keys) or alias.overlaps_itself(a):
        return False
    try:
        a[key] = value
    except (ValueError, IndexError, TypeError, OverflowError):
        # The full path says what is wrong; nothing has been written.
        return False
    alias.stamp(self, "__setitem__")
    return True


@composite(name="__setitem__", method=True, function_name=False)
def setitem(self: Any, key: Any, value: Any) -> None:
    """Write `value`, a number or a tensor that broadcasts, over a part of the tensor."""
    if _write_plain(self, key, value):
        return
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, Tensor | int | float | complex):
        raise ArgumentError(
            f"__setitem__: a tensor or a number can be assigned, got {type(value).__name__}; use from_numpy()"
        )
    if key is False:
        return
    target, tensors, dims = applied(self, key)
    if not tensors:
        if isinstance(value, Tensor):
            if not value._array.ndim and target._array.ndim and alias.partly_overlap(target._array, value._array):
                # One number is read before anything is written.
                value = value.clone()
            target.copy_(_without_leading_ones(value, target.ndim))
        else:
            # fill_ accepts an expanded tensor, an assignment does not.
            alias.check_writable(target, "__setitem__", bool(get_mode() & GRAD))
            target.fill_(value)
        return
    if not isinstance(value, Tensor):
        value = wrap(_number(value, target))
    _put_in_place(target, _without_leading_ones(value, 1 << 30), tensors, dims, False, "__setitem__")


def _number(value: Any, target: Tensor) -> Any:
    from .cast import converted

    kind = target._array.dtype
    if isinstance(value, complex) and kind.kind != "c":
        raise DtypeError(f"__setitem__: {value} cannot be held by a tensor of type {target.dtype.name}")
    return converted(np.asarray(value), kind)


def _without_leading_ones(value: Any, ndim: int) -> Any:
    """Return `value` without leading dimensions of size 1, which an assignment ignores."""
    shape = value._array.shape
    extra = 0
    while extra < len(shape) and shape[extra] == 1:
        extra += 1
    if not extra or (ndim != 1 << 30 and len(shape) <= ndim):
        return value
    return ops.view(value, shape[extra:])


__all__ = ["index_put_at", "setitem"]
