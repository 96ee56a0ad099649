"""Changing the element type, and writing values: `to`, `float` …, `copy_`, `fill_`, `zero_`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy import ndarray

from .. import alias, dtypes, ops
from ..device import device as Device
from ..dtypes import dtype as Dtype
from ..errors import ArgumentError, DtypeError, ShapeError
from ..state import GRAD, get_mode
from ..tensor import Tensor
from .declare import Movement, Op, composite, op, zero
from .inplace import in_place
from .views import contiguous


def converted(a: ndarray, target: np.dtype[Any]) -> ndarray:
    """Return a copy of `a` as another NumPy type, without NumPy's warnings about what is lost."""
    kind = a.dtype.kind
    if kind == "c" and target.kind != "c":
        if target.kind == "b":
            return a.astype(target)
        a = a.real
        kind = "f"
    if kind in "fV" and target.kind in "iu":
        with np.errstate(invalid="ignore"):
            # C's conversions: to small signed types by way of int32, to unsigned ones by way of int64, then wrapped.
            if target.itemsize < 4 or target.kind == "u":
                a = a.astype(np.int32 if target.kind == "i" else np.int64)
            return a.astype(target)
    with np.errstate(over="ignore"):
        return a.astype(target)


@op
class to_copy(Movement):
    """Return a copy as another element type; the gradient comes back in the original one."""

    takes_out = False
    function = method = False
    casts = True
    # The engine converts a gradient to the type of the input.
    vjp_input = lambda g: g
    canon = lambda a, dtype, memory_format: (dtypes.as_dtype(dtype, "to").numpy, memory_format)
    samples = lambda rng: [(rng.standard_normal((2, 3)), dtypes.float64)]

    def forward(input, dtype, memory_format=None):
        out = converted(input, dtype)
        return out if memory_format in (None, "torch.preserve_format") else ops.clone(out, memory_format=memory_format)


def _cast(input: Any, dtype: Dtype, copy: bool = False, memory_format: Any = None) -> Any:
    """Return `input` as `dtype`: itself if nothing changes and no copy is asked for."""
    if input.dtype is not dtype:
        if input.dtype.is_complex and not dtype.is_complex and dtype is not dtypes.bool_:
            warnings.warn(
                f"to: converting {input.dtype.name} to {dtype.name} drops the imaginary part; use .real to say so",
                UserWarning,
                stacklevel=3,
            )
        return to_copy(input, dtype, memory_format)
    kept = not copy and (memory_format in (None, "torch.preserve_format") or contiguous(input, memory_format) is input)
    return input if kept else to_copy(input, dtype, memory_format)


@composite(method=True, function_name=False)
def to(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Return the tensor with another dtype, on a device, or with both of `other`; itself if nothing changes.

    Called as `to(dtype, non_blocking=False, copy=False)`, `to(device, dtype=None, …)` or `to(other, …)`. A conversion
    to an integer type ends the graph.
    """
    dtype, device, rest = None, None, list(args)
    if rest:
        first = rest.pop(0)
        if isinstance(first, Tensor):
            dtype = first.dtype
        elif isinstance(first, Dtype) or first in (float, int, bool, complex):
            dtype = first
        elif first is None or isinstance(first, str | int | Device):
            device = first
            if rest and not isinstance(rest[0], bool):
                dtype = rest.pop(0)
        else:
            raise ArgumentError(f"to: a dtype, a device or a tensor is expected, got {type(first).__name__}")
    if len(rest) > 2:
        raise ArgumentError(f"to: too many arguments, {len(args)} were given")
    named = dict(zip(("non_blocking", "copy"), rest)) | kwargs
    unknown = set(named) - {"dtype", "device", "other", "non_blocking", "copy", "memory_format"}
    if unknown:
        raise ArgumentError(f"to: unexpected arguments {sorted(unknown)}")
    if named.get("other") is not None:
        dtype = named["other"].dtype
    dtype = named.get("dtype") if dtype is None else dtype
    device = named.get("device") if device is None else device
    if device is not None:
        Device(device)
    target = self.dtype if dtype is None else dtypes.as_dtype(dtype, "to")
    return _cast(self, target, bool(named.get("copy", False)), named.get("memory_format"))


def _install_casts() -> None:
    """Make x.float(), x.long() … from the names of the dtypes."""
    names = {
        "float": dtypes.float32, "double": dtypes.float64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16,
        "int": dtypes.int32, "long": dtypes.int64, "short": dtypes.int16, "char": dtypes.int8, "byte": dtypes.uint8,
        "bool": dtypes.bool_, "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
    }  # fmt: skip

    def method(name: str, dtype: Dtype) -> Any:
        def cast(self: Tensor, memory_format: Any = "torch.preserve_format") -> Tensor:
            return _cast(self, dtype, memory_format=memory_format)

        cast.__doc__ = f"Return the tensor as {dtype.name}; itself if it is that already."
        cast.__name__ = cast.__qualname__ = name
        return cast

    for name, dtype in names.items():
        composite(name=name, method=True, function_name=False)(method(name, dtype))


_install_casts()


@composite(method=True, function_name=False)
def cpu(self: Tensor, memory_format: Any = "torch.preserve_format") -> Tensor:
    """Return the tensor itself: it is on the CPU."""
    return _cast(self, self.dtype, memory_format=memory_format)


@composite(name="type", method=True, function_name=False)
def _type_method(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the name of the tensor's type, e.g. "torch.FloatTensor", or the tensor as another type."""
    if dtype is None:
        return f"torch.{_CLASS_NAMES[self.dtype.name]}Tensor"
    if isinstance(dtype, str):
        short = dtype.removeprefix("torch.")
        found = next((n for n, c in _CLASS_NAMES.items() if short == c + "Tensor"), None)
        if found is None:
            raise ShapeError(f"type: {dtype!r} names no tensor type; use a dtype such as float32")
        return _cast(self, dtypes.by_name[found])
    return _cast(self, dtypes.as_dtype(dtype, "type"))


_CLASS_NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "uint8": "Byte",
    "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
}  # fmt: skip


@composite(method=True, function_name=False)
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """Return the tensor as the dtype of `other`."""
    return _cast(self, other.dtype)


# -- writing ----------------------------------------------------------------------------------------------------------


@op
class copy(Op):
    """Write `src`, broadcast and converted, over the tensor (as `copy_`)."""

    inputs = ("input", "src")
    function = method = False
    half = False
    grad_fn = "CopyBackwards"
    exempt = {"sharing": "only its in-place form is public, and that one copies what forward returns"}
    linear = True
    dtypes = "bifc"
    vjp_input = zero
    vjp_src = lambda g: g
    samples = lambda rng: [(rng.standard_normal((2, 3)), rng.standard_normal(3))]

    def forward(input, src, non_blocking=False):
        if src.ndim > input.ndim:
            raise ValueError
        out = np.empty_like(input)
        out[...] = src if src.dtype == input.dtype else converted(src, input.dtype)
        return out

    def infer(input, src, non_blocking=False):
        raise ShapeError(f"copy_: the source of shape {src.shape} does not broadcast to the target's {input.shape}")


@composite(name="copy_", method=True, function_name=False)
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Write `src`, broadcast and converted, over the tensor; gradients reach `src`, and not the old value.

    Raises:
        ShapeError: `src` does not broadcast to the tensor.
        GradError: the tensor must not be written to.
    """
    mode = get_mode()
    if not isinstance(src, Tensor):
        raise ArgumentError(f"copy_: the source must be a tensor, got {type(src).__name__}")
    base = self._base
    free = self._node is None and src._node is None and (base is None or base._node is None)
    if _takes_over(self) or _takes_over(src) or mode & ~GRAD or (mode and not free):
        return in_place(copy.op, self, (src,), (non_blocking,), "copy_")
    # Straight into the memory: the copy of a parameter or a buffer needs no array in between.
    alias.check_writable(self, "copy_", bool(mode), src)
    a, b = self._array, src._array
    if b.ndim > a.ndim:
        copy.op.infer(a, b)
    try:
        a[...] = b if b.dtype is a.dtype else converted(b, a.dtype)
    except ValueError:
        copy.op.infer(a, b)
    alias.stamp(self, "copy_")
    return self


@op
class fill(Op):
    """Return a tensor of the input's shape and dtype with every element equal to `value`, a number or 0-dim tensor."""

    inputs = ("input", "value")
    half = False
    scalars = True
    method = False
    takes_out = False
    grad_fn = "FillBackward1 if hasattr(value, 'dtype') else FillBackward0"
    linear = True
    dtypes = "bifc"
    vjp_input = zero
    vjp_value = lambda g: g
    samples = lambda rng: [(rng.standard_normal((2, 3)), 2.5), (rng.standard_normal((2, 3)), rng.standard_normal(()))]
    reference = lambda input, value: np.full_like(input, value)

    def forward(input, value):
        if np.ndim(value):
            raise ShapeError(f"fill: value must be a number or a 0-dim tensor, got shape {value.shape}")
        if isinstance(value, complex | np.complexfloating) and input.dtype.kind != "c":
            if value.imag:
                raise DtypeError(f"fill: {value} cannot be held by {input.dtype}")
            value = value.real
        out = np.empty_like(input)
        out[...] = converted(np.asarray(value), input.dtype)
        return out


@op
class fill_over(Op):
    """Write `value` over every element (as `fill_`)."""

    inputs = ("input", "value")
    function = method = False
    half = False
    scalars = True
    grad_fn = "FillBackward3 if hasattr(value, 'dtype') else FillBackward2"
    dtypes = "bifc"
    vjp_input = zero
    vjp_value = lambda g: g
    forward = fill.op.forward
    samples = fill.op.samples


def _takes_over(tensor: Any) -> bool:
    """Return whether calls on this operand are not for us to compute (batched and dual tensors)."""
    return hasattr(type(tensor), "__sapwood_op__")


@op
class zero_fill(Op):
    """Return zeros of the input's shape and dtype (as `zero_`)."""

    inputs = ("input",)
    function = method = False
    half = False
    grad_fn = "ZeroBackward0"
    dtypes = "bifc"
    vjp_input = zero
    forward = lambda input: np.zeros_like(input)
    samples = lambda rng: [(rng.standard_normal((2, 3)),)]


def _filled(name: str, input: Tensor, value: Any, declared: Any, others: tuple[Any, ...]) -> Tensor:
    """Write one value over every element; straight into the memory where no graph is concerned."""
    mode = get_mode()
    base = input._base
    free = input._node is None and (base is None or base._node is None)
    if _takes_over(input) or mode & ~GRAD or (mode and not free) or not isinstance(value, int | float):
        return in_place(declared.op, input, others, (), name)
    # An expanded tensor may be filled: all of its elements become the same.
    if alias.captured.get():
        alias.check_not_captured(input, name)
    a = input._array
    a[...] = value if a.dtype.kind in "fcV" else converted(np.asarray(value), a.dtype)
    alias.stamp(input, name)
    return input


@composite(method=True, name="zero_")
def zero_(input: Tensor) -> Tensor:
    """Set every element to zero."""
    return _filled("zero_", input, 0, zero_fill, ())


@composite(method=True, name="fill_")
def fill_(input: Tensor, value: Any) -> Tensor:
    """Set every element to `value`, a number or a 0-dim tensor."""
    return _filled("fill_", input, value, fill_over, (value,))


__all__ = ["converted", "copy", "fill", "to", "to_copy"]
