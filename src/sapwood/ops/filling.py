"""Tensors of a given size: `zeros`, `ones`, `full`, `empty`, their `_like` and `new_` forms, `eye`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes, ops
from ..dtypes import dtype as Dtype
from ..errors import ArgumentError, DtypeError, ShapeError, ValueRangeError
from ..state import OBSERVE, get_mode
from ..tensor import Tensor, wrap
from .declare import Movement, composite, methods, op, registry
from .out import write_out
from .values import Array, check_place, element_type, from_numbers, leaf, number, sequence_size, size_of


def zeros_of(like: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros of a shape, of the kind (array or Tensor) and dtype of `like`."""
    if isinstance(like, Tensor):
        return wrap(np.zeros(shape, like._array.dtype))
    return np.zeros(shape, like.dtype)


# -- ready ------------------------------------------------------------------------------------------------------------


def deliver(
    op: str,
    make: Callable[[Dtype], Array],
    out: Any,
    dtype: Any,
    default: Dtype,
    requires_grad: bool,
    seen: Callable[[Dtype], Tensor] | None = None,
) -> Tensor:
    """Return make(dtype) as a new leaf, or write it into `out`, whose dtype then decides.

    Args:
        seen: does what `make` does by a call, for those who observe calls.

    Raises:
        DtypeError: `dtype` is not that of `out`.
    """
    told = seen if seen is not None and get_mode() & OBSERVE else None
    if out is None:
        if told is not None:
            t = told(element_type(op, dtype, default))
            return t.requires_grad_() if requires_grad else t
        return leaf(make(element_type(op, dtype, default)), requires_grad)
    if not isinstance(out, Tensor):
        raise ArgumentError(f"{op}: out must be a tensor, got {type(out).__name__}")
    if dtype is not None and element_type(op, dtype, default) is not out.dtype:
        raise DtypeError(
            f"{op}: out is {out.dtype.name} and dtype={element_type(op, dtype, default).name}; drop one of them"
        )
    drawn = None if told is None else told(out.dtype)
    a = make(out.dtype) if drawn is None else drawn._array
    if out._array.shape != a.shape:
        # A constructor resizes `out` without the warning that an op gives.
        out._array = np.empty(a.shape, a.dtype)
    if drawn is not None:
        methods["copy_"](out, drawn)
    else:
        write_out(op, out, a)
    return out.requires_grad_() if requires_grad else out


def arranged(shape: tuple[int, ...], dtype: Dtype, memory_format: Any = None) -> Array:
    """Return an uninitialised array, its last-but-channel dimensions innermost under channels_last."""
    if memory_format is None or not str(memory_format).startswith("torch.channels_last"):
        return np.empty(shape, dtype.numpy)
    if len(shape) != (5 if str(memory_format).endswith("3d") else 4):
        raise ShapeError(
            f"empty: {memory_format} needs {'5' if '3d' in str(memory_format) else '4'} dimensions, got {shape}"
        )
    return np.moveaxis(np.empty((shape[0], *shape[2:], shape[1]), dtype.numpy), -1, 1)


def _filled(shape: tuple[int, ...], value: Any, dtype: Dtype, op: str = "full") -> Array:
    return np.full(shape, from_numbers(op, [value], dtype)[0], dtype.numpy)


@composite
def zeros(
    *given: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, names: Any = None,
) -> Tensor:  # fmt: skip
    """Return zeros of a size given as integers or as one sequence."""
    if device is not None or layout is not None:
        check_place("zeros", device, layout)
    shape = size_of("zeros", given, size)
    return deliver("zeros", lambda t: np.zeros(shape, t.numpy), out, dtype, dtypes.get_default_dtype(), requires_grad)


@composite
def ones(
    *given: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, names: Any = None,
) -> Tensor:  # fmt: skip
    """Return ones of a size given as integers or as one sequence."""
    if device is not None or layout is not None:
        check_place("ones", device, layout)
    shape = size_of("ones", given, size)
    return deliver("ones", lambda t: np.ones(shape, t.numpy), out, dtype, dtypes.get_default_dtype(), requires_grad)


@composite
def empty(
    *given: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None, names: Any = None,
) -> Tensor:  # fmt: skip
    """Return a tensor whose elements are whatever the memory held."""
    if device is not None or layout is not None:
        check_place("empty", device, layout)
    shape = size_of("empty", given, size)
    make = lambda t: arranged(shape, t, memory_format)
    return deliver("empty", make, out, dtype, dtypes.get_default_dtype(), requires_grad)


@composite
def full(
    size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, names: Any = None,
) -> Tensor:  # fmt: skip
    """Return a tensor of one value; its type is the value's unless `dtype` says otherwise.

    Raises:
        ArgumentError: `size` is no sequence, `fill_value` no number.
        ValueRangeError: the type cannot hold the value.
    """
    check_place("full", device, layout)
    shape = sequence_size("full", size)
    value = number("full", "fill_value", fill_value)
    return deliver("full", lambda t: _filled(shape, value, t), out, dtype, dtypes.of_number(value), requires_grad)


@composite
def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return an uninitialised tensor with given steps, in elements, between neighbours.

    Raises:
        ShapeError: `size` and `stride` differ in length.
        ValueRangeError: a negative stride.
    """
    check_place("empty_strided", device, layout)
    made = element_type("empty_strided", dtype, dtypes.get_default_dtype())
    return leaf(_strided(size, stride, made), requires_grad)


def _strided(size: Any, stride: Any, dtype: Dtype) -> Array:
    shape = sequence_size("empty_strided", size)
    steps = tuple(s.__index__() for s in stride)
    if len(shape) != len(steps):
        raise ShapeError(f"empty_strided: size has {len(shape)} dimensions and stride {len(steps)}; they must agree")
    if any(s < 0 for s in steps):
        raise ValueRangeError(f"empty_strided: strides must not be negative, got {steps}")
    span = 1 + sum((n - 1) * s for n, s in zip(shape, steps)) if 0 not in shape else 0
    a: Array = np.ndarray(shape, dtype.numpy, np.empty(span, dtype.numpy), 0, tuple(s * dtype.itemsize for s in steps))
    return a


@composite
def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return an uninitialised tensor whose dimensions lie in memory in the order `physical_layout`, outermost first."""
    check_place("empty_permuted", device, layout)
    shape, order = sequence_size("empty_permuted", size), tuple(physical_layout)
    if sorted(order) != list(range(len(shape))):
        raise ValueRangeError(f"empty_permuted: physical_layout must permute 0 … {len(shape) - 1}, got {order}")
    made = element_type("empty_permuted", dtype, dtypes.get_default_dtype())
    return leaf(np.empty([shape[d] for d in order], made.numpy).transpose(np.argsort(order)), requires_grad)


@composite
def scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return a tensor of no dimensions, of the default floating-point type unless `dtype` says otherwise."""
    check_place("scalar_tensor", device, layout)
    made = element_type("scalar_tensor", dtype, dtypes.get_default_dtype())
    return leaf(from_numbers("scalar_tensor", [number("scalar_tensor", "s", s)], made).reshape(()), requires_grad)


@composite
def eye(
    n: int, m: int | None = None, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return ones on the diagonal of an (n, m) matrix of zeros; m is n by default."""
    check_place("eye", device, layout)
    rows, columns = size_of("eye", (n, n if m is None else m))
    return deliver(
        "eye", lambda t: np.eye(rows, columns, dtype=t.numpy), out, dtype, dtypes.get_default_dtype(), requires_grad
    )


# -- like -------------------------------------------------------------------------------------------------------------


def like_array(input: Any, dtype: Any, memory_format: Any, op: str) -> Array:
    """Return an uninitialised array of the input's shape and, where it has no gaps, its strides."""
    made = element_type(op, dtype, input.dtype)
    if memory_format is None or str(memory_format) == "torch.preserve_format":
        return np.empty_like(input._array, made.numpy, order="K", subok=False)
    return arranged(input._array.shape, made, memory_format)


def _like(op: str, input: Any, value: Any, dtype: Any, layout: Any, device: Any, memory_format: Any) -> Any:
    """Return the result of a `_like` function: an array for an array, what a foreign operand makes of it, a tensor."""
    kind = type(input)
    takes_over = getattr(kind, "__sapwood_op__", None)
    if takes_over is not None:
        attrs = (dtype,) if op != "full_like" else (value, dtype)
        return takes_over(registry[op], (input,), attrs)
    if isinstance(input, np.ndarray | np.generic):
        return np.full_like(input, value, dtype if dtype is None else dtype.numpy)
    if not isinstance(input, Tensor):
        raise ArgumentError(f"{op}: input must be a tensor, got {kind.__name__}")
    if device is not None or layout is not None:
        check_place(op, device, layout)
    a = like_array(input, dtype, memory_format, op)
    if value is not None:
        a[...] = value if type(value) is int and value < 2 else from_numbers(op, [value], dtypes.of_numpy(a.dtype))[0]
    return a


def _made_like(
    op: str, input: Any, value: Any, dtype: Any, layout: Any, device: Any, memory_format: Any, grad: bool
) -> Any:
    a = _like(op, input, value, dtype, layout, device, memory_format)
    return leaf(a, grad) if isinstance(input, Tensor) and type(a) is np.ndarray else a


@composite(name="zeros_like")
def _zeros_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """Return zeros of the input's shape, and of its dtype unless `dtype` says otherwise."""
    if type(input) is np.ndarray and dtype is None:
        # Formulas of a backward pass come here.
        return np.zeros_like(input)
    return _made_like("zeros_like", input, 0, dtype, layout, device, memory_format, requires_grad)


@composite(name="ones_like")
def _ones_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """Return ones of the input's shape, and of its dtype unless `dtype` says otherwise."""
    return _made_like("ones_like", input, 1, dtype, layout, device, memory_format, requires_grad)


@composite(name="empty_like")
def _empty_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """Return an uninitialised tensor of the input's shape, and of its dtype unless `dtype` says otherwise."""
    value = 0 if isinstance(input, np.ndarray | np.generic) else None
    return _made_like("empty_like", input, value, dtype, layout, device, memory_format, requires_grad)


@composite(name="full_like")
def _full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """Return one value in the input's shape, and in its dtype unless `dtype` says otherwise."""
    value = number("full_like", "fill_value", fill_value)
    return _made_like("full_like", input, value, dtype, layout, device, memory_format, requires_grad)


class _Like(Movement):
    """The declared form of a `_like` function, for operands of foreign kinds, graphs and export."""

    function = method = False
    takes_out = False


@op
class zeros_like(_Like):
    """Return zeros of the input's shape."""

    samples = lambda rng: [(rng.standard_normal((2, 3)),)]
    forward = lambda input, dtype=None: np.zeros_like(input, dtype and dtype.numpy)


@op
class ones_like(_Like):
    """Return ones of the input's shape."""

    samples = lambda rng: [(rng.standard_normal((2, 3)),)]
    forward = lambda input, dtype=None: np.ones_like(input, dtype and dtype.numpy)


@op
class empty_like(_Like):
    """Return a tensor of the input's shape; its values are not defined, and zero in this form."""

    samples = lambda rng: [(rng.standard_normal((2, 3)),)]
    forward = lambda input, dtype=None: np.zeros_like(input, dtype and dtype.numpy)


@op
class full_like(_Like):
    """Return one value in the input's shape."""

    samples = lambda rng: [(rng.standard_normal((2, 3)), 2.0)]
    forward = lambda input, fill_value, dtype=None: np.full_like(input, fill_value, dtype and dtype.numpy)


# -- new --------------------------------------------------------------------------------------------------------------


@composite(method=True, function_name=False)
def new_tensor(
    input: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return a copy of `data` in this tensor's dtype."""
    made = element_type("new_tensor", dtype, input.dtype)
    found: Tensor = ops.tensor(data, dtype=made, device=device, requires_grad=requires_grad)
    return found


@composite(method=True, function_name=False)
def new_zeros(input: Tensor, *given: Any, dtype: Any = None, **others: Any) -> Tensor:
    """Return zeros in this tensor's dtype; arguments as of `zeros`."""
    return zeros(*given, dtype=dtype or input.dtype, **others)


@composite(method=True, function_name=False)
def new_ones(input: Tensor, *given: Any, dtype: Any = None, **others: Any) -> Tensor:
    """Return ones in this tensor's dtype; arguments as of `ones`."""
    return ones(*given, dtype=dtype or input.dtype, **others)


@composite(method=True, function_name=False)
def new_empty(input: Tensor, *given: Any, dtype: Any = None, **others: Any) -> Tensor:
    """Return an uninitialised tensor in this tensor's dtype; arguments as of `empty`."""
    return empty(*given, dtype=dtype or input.dtype, **others)


@composite(method=True, function_name=False)
def new_full(input: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, **others: Any) -> Tensor:
    """Return a tensor of one value in this tensor's dtype; arguments as of `full`."""
    return full(size, fill_value, dtype=dtype or input.dtype, **others)


@composite(method=True, function_name=False)
def new_empty_strided(input: Tensor, size: Any, stride: Any, *, dtype: Any = None, **others: Any) -> Tensor:
    """Return an uninitialised tensor with given strides in this tensor's dtype."""
    return empty_strided(size, stride, dtype=dtype or input.dtype, **others)


@composite(method=True, function_name=False)
def new(input: Tensor, *args: Any, device: Any = None) -> Tensor:
    """Return a tensor of this tensor's dtype, built as `Tensor(…)` builds one."""
    from .legacy import legacy_constructor

    return legacy_constructor(Tensor, *args, device=device, dtype=input.dtype)
