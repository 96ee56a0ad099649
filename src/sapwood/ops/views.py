"""Views that change the shape, the order of dimensions or the element type: `view`, `transpose`, `expand` …"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from .. import dtypes, ops
from ..alias import owner
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from .declare import Op, View, composite, op
from .sizes import ints, one_dim, some_dims

# -- shape ------------------------------------------------------------------------------------------------------------


@op
class view(View):
    """Look at the same memory in another shape; one size may be -1 and is then computed."""

    function = method = False
    exempt = {"layout": "a view of memory that is not contiguous is refused; reshape copies"}
    vjp_input = lambda g, input_shape: ops.reshape(g, input_shape)
    samples = lambda rng: [
        (rng.standard_normal((2, 6)), (3, 4)),
        (rng.standard_normal((2, 6)), (-1,)),
        (rng.standard_normal(()), (1, 1)),
        (rng.standard_normal((0, 3)), (3, 0)),
    ]
    reference = lambda input, size: input.reshape(size)

    def canon(a, size):
        if type(size) is not tuple or (size and type(size[0]) is not int):
            size = ints("view", "size", size)
        if size and min(size) < -1:
            raise ShapeError(f"view: sizes must be at least 0, or -1 for one that is computed, got {size}")
        return (size,)

    def forward(input, size):
        out = input.reshape(size)
        if not input.flags.c_contiguous and input.size and owner(out) is not owner(input):
            raise ValueError
        return out

    def infer(input, size):
        _fits("view", input, size)
        raise ShapeError(
            f"view: a tensor of shape {input.shape} and strides {tuple(s // input.itemsize for s in input.strides)} "
            f"cannot be looked at as {size} without copying; use reshape(...), which copies where it must, or "
            "contiguous().view(...)"
        )


def _fits(name: str, a: ndarray, size: tuple[int, ...]) -> None:
    """Raise if `size` does not hold the elements of `a`."""
    if size.count(-1) > 1:
        raise ShapeError(f"{name}: only one size may be -1, got {size}")
    known = prod(n for n in size if n != -1)
    if -1 in size and not known:
        raise ShapeError(f"{name}: -1 in {size} cannot be computed, the other sizes hold no elements; write a number")
    if a.size % known if -1 in size else a.size != known:
        raise ShapeError(
            f"{name}: {size} holds {known}{' × n' if -1 in size else ''} elements, the tensor of shape {a.shape} "
            f"has {a.size}"
        )


@op
class reshape_alias(View):
    """Look at memory that is not contiguous in another shape: what `reshape` does where no copy is needed."""

    function = method = False
    exempt = {"layout": "it exists for the layouts in which the new shape is within reach"}
    canon = view.op.canon
    forward = view.op.forward
    vjp_input = lambda g, input_shape: ops.reshape(g, input_shape)
    samples = lambda rng: [(rng.standard_normal((4, 3)).T, (3, 2, 2))]
    reference = lambda input, size: input.reshape(size)


@op
class unsafe_view(Op):
    """Give a new shape to memory that nobody else holds: the second half of a reshape that copies."""

    inputs = ("input",)
    kind = "view"
    linear = True
    half = False
    dtypes = "bifc"
    takes_out = False
    function = method = False
    exempt = {"sharing": "it gives a shape to memory that its caller made and nobody else holds"}
    forward = lambda input, size: input.reshape(size)
    vjp_input = lambda g, input_shape: ops.reshape(g, input_shape)
    samples = lambda rng: [(rng.standard_normal((2, 6)), (3, 4))]


@op
class view_dtype(View):
    """Read the same memory as elements of another type; no gradient passes."""

    # Not a view to autograd: nothing flows back, so its base need not follow a write.
    view = False
    exempt = {
        "sharing": "the memory is shared, but it is no view to autograd",
        "layout": "elements of another size can be read only where the last dimension is contiguous",
    }
    function = method = False
    samples = lambda rng: [(rng.standard_normal((2, 3)).astype(np.float32), dtypes.int32)]

    def canon(a, dtype):
        return (dtypes.as_dtype(dtype, "view"),)

    def forward(input, dtype):
        return input.view(dtype.numpy)

    def infer(input, dtype):
        raise ShapeError(
            f"view: {input.dtype} elements can be read as {dtype.name} only if the last dimension is contiguous and "
            f"holds a whole number of them; the tensor has shape {input.shape}"
        )


@composite(name="view", method=True, function_name=False)
def _view_method(input: Any, *shape: Any, size: Any = None, dtype: Any = None) -> Any:
    """Look at the same memory in another shape, or as elements of another type.

    `x.view(2, 3)`, `x.view((2, -1))`, `x.view(sapwood.int32)`. Memory order is kept, so the shape must be reachable
    without a copy; `reshape` copies where it must.
    """
    if size is None and shape:
        size = shape
        if len(shape) == 1 and type(shape[0]) is not int:
            size = shape[0]
            if type(size) is dtypes.dtype:
                return view_dtype(input, size)
    if dtype is not None:
        return view_dtype(input, dtype)
    if size is None:
        raise ArgumentError("view: a shape or a dtype is missing; write x.view(2, 3), x.view(-1) or x.view(dtype)")
    return view(input, size)


def shaped(input: Any, size: Any, name: str = "reshape") -> Any:
    """Return `input` in another shape: a view where the memory order allows it, else a copy."""
    if type(input) is ndarray and type(size) is tuple:
        # The gradient of every reshape comes here: nothing is to be recorded, and only a failure to be explained.
        try:
            return input.reshape(size)
        except ValueError:
            pass
    a = input._array if isinstance(input, Tensor) else input
    if not isinstance(a, ndarray) or a.flags.c_contiguous:
        try:
            return view(input, size)
        except ShapeError as problem:
            raise ShapeError(str(problem).replace("view", name, 1)) from None
    if type(size) is not tuple:
        size = ints(name, "shape", size)
    try:
        whole = a.reshape(size)
    except ValueError:
        _fits(name, a, size)
        raise
    if a is input:
        return whole
    if not a.size or owner(whole) is owner(a):
        return reshape_alias(input, whole.shape)
    return unsafe_view(ops.clone(input, memory_format="torch.contiguous_format"), whole.shape)


@composite(method=False)
def reshape(input: Any, shape: Any) -> Any:
    """Return `input` in another shape; one size may be -1. A view if no copy is needed.

    Example:
        >>> import sapwood
        >>> sapwood.reshape(sapwood.arange(6), (2, -1))
        tensor([[0, 1, 2],
                [3, 4, 5]])
    """
    return shaped(input, shape)


@composite(name="reshape", method=True, function_name=False)
def _reshape_method(input: Any, *size: Any, shape: Any = None) -> Any:
    """Return the tensor in another shape, `x.reshape(2, -1)` or `x.reshape((2, -1))`."""
    if shape is None:
        shape = size[0] if len(size) == 1 and type(size[0]) is not int else size
    return shaped(input, shape)


@composite(method=True, function_name=False)
def view_as(input: Any, other: Tensor) -> Any:
    """Look at the same memory in the shape of `other`."""
    return view(input, tuple(other.shape))


@composite(method=True, function_name=False)
def reshape_as(input: Any, other: Tensor) -> Any:
    """Return the tensor in the shape of `other`."""
    return shaped(input, tuple(other.shape))


@composite(method=True)
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Merge dimensions `start_dim` to `end_dim` into one; the same tensor if there is nothing to merge."""
    shape = input._array.shape if isinstance(input, Tensor) else tuple(input.shape)
    if not shape:
        one_dim("flatten", start_dim, 0)
        return shaped(input, (1,))
    first, last = one_dim("flatten", start_dim, len(shape)), one_dim("flatten", end_dim, len(shape))
    if first > last:
        raise ShapeError(f"flatten: start_dim must not come after end_dim, got {start_dim} and {end_dim}")
    if first == last:
        return input
    return shaped(input, (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :]))


@composite(method=True)
def ravel(input: Any) -> Any:
    """Return all elements in one dimension; a view if they lie in order."""
    return view(contiguous(input), (-1,) if prod(input.shape) else (0,))


@composite(method=True)
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Split dimension `dim` into several; one of `sizes` may be -1."""
    shape = tuple(input.shape)
    d = one_dim("unflatten", dim, len(shape))
    sizes = ints("unflatten", "sizes", sizes)
    if not sizes:
        raise ShapeError("unflatten: sizes must hold at least one size")
    rest = prod(n for n in sizes if n != -1)
    whole = sizes.count(-1) == 1 and rest and shape[d] % rest == 0
    if not (whole or (-1 not in sizes and rest == shape[d])):
        raise ShapeError(f"unflatten: the product of {sizes} must be {shape[d]}, the size of dimension {d}")
    return view(input, (*shape[:d], *sizes, *shape[d + 1 :]))


@composite(method=True, function_name=False)
def contiguous(input: Any, memory_format: Any = "torch.contiguous_format") -> Any:
    """Return the tensor itself if its elements lie in memory in order without gaps, else a copy that does so."""
    if isinstance(input, ndarray):
        return input if input.flags.c_contiguous else input.copy()
    a = input._array
    if memory_format in ORDERS:
        a = in_order(memory_format, a)
    return input if a.flags.c_contiguous else ops.clone(input, memory_format=memory_format)


ORDERS = {"torch.channels_last": (0, 2, 3, 1), "torch.channels_last_3d": (0, 2, 3, 4, 1)}
"""Which order of dimensions is contiguous in the memory formats that move the channels to the end."""


def in_order(memory_format: str, a: ndarray) -> ndarray:
    """Return `a` with its dimensions in the memory format's order.

    Raises:
        ShapeError: the format is for another number of dimensions.
    """
    order = ORDERS[memory_format]
    if a.ndim != len(order):
        raise ShapeError(f"{memory_format}: {len(order)} dimensions are expected, got {a.ndim} {a.shape}")
    return a.transpose(order)


# -- order of dimensions ----------------------------------------------------------------------------------------------


@op
class transpose(View):
    """Swap two dimensions."""

    canon = lambda a, dim0, dim1: (one_dim("transpose", dim0, a.ndim), one_dim("transpose", dim1, a.ndim))
    vjp_input = lambda g, dim0, dim1: ops.transpose(g, dim0, dim1)
    samples = lambda rng: [(rng.standard_normal((2, 3, 4)), 0, -1), (rng.standard_normal((2, 3)), 1, 1)]
    reference = lambda input, dim0, dim1: np.swapaxes(input, dim0, dim1)

    def forward(input, dim0, dim1):
        # NumPy has no dimension to swap in a 0-d array, PyTorch accepts 0 and -1.
        return input.swapaxes(dim0, dim1) if input.ndim else input[...]


@composite(method=True, aliases=("swapdims",))
def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """Swap two dimensions; another name of `transpose`."""
    return transpose(input, axis0, axis1)


@op
class permute(View):
    """Put the dimensions into the order `dims`."""

    method = "(input, *dims)"
    forward = lambda input, dims: input.transpose(dims)
    vjp_input = lambda g, dims: ops.permute(g, tuple(sorted(range(len(dims)), key=dims.__getitem__)))
    samples = lambda rng: [(rng.standard_normal((2, 3, 4)), (2, 0, 1)), (rng.standard_normal(()), ())]
    reference = lambda input, dims: np.transpose(input, dims)

    def canon(a, dims):
        if type(dims) is tuple and sorted(dims) == list(range(a.ndim)):
            return (dims,)
        dims = ints("permute", "dims", dims)
        if len(dims) != a.ndim:
            raise ShapeError(f"permute: dims must name all {a.ndim} dimensions of the tensor, got {dims}")
        return (some_dims("permute", dims, a.ndim),)


@op
class t(View):
    """Transpose a matrix; a vector or a number stays as it is."""

    vjp_input = lambda g: ops.t(g)
    samples = lambda rng: [(rng.standard_normal((2, 3)),), (rng.standard_normal(3),)]
    reference = np.transpose

    def forward(input):
        if input.ndim > 2:
            raise ValueError
        return input.T

    def infer(input):
        raise ShapeError(
            f"t: a matrix is expected, got {input.ndim} dimensions {input.shape}; use .mT to transpose the last two"
        )


@composite(method=True, aliases=("moveaxis",))
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Move dimensions `source` to the places `destination`; the others keep their order."""
    ndim = input.ndim
    start, end = ints("movedim", "source", source), ints("movedim", "destination", destination)
    if len(start) != len(end):
        raise ShapeError(f"movedim: source and destination must have the same length, got {source} and {destination}")
    start, end = some_dims("movedim", start, ndim), some_dims("movedim", end, ndim)
    if not ndim:
        return ops.alias(input)
    rest = iter([d for d in range(ndim) if d not in start])
    return permute(input, tuple(start[end.index(d)] if d in end else next(rest) for d in range(ndim)))


# -- dimensions of size 1 ---------------------------------------------------------------------------------------------


@op
class squeeze(View):
    """Drop dimensions of size 1: all of them, or those in `dim` that have it."""

    grad_fn = "SqueezeBackward0 if dim is None else SqueezeBackward1 if type(dim) is int else SqueezeBackward2"
    vjp_input = lambda g, input_shape: ops.reshape(g, input_shape)
    samples = lambda rng: [
        (rng.standard_normal((1, 2, 1)),),
        (rng.standard_normal((1, 2, 1)), 0),
        (rng.standard_normal((1, 2, 1)), 1),
        (rng.standard_normal((1, 2, 1)), (0, -1)),
    ]
    reference = lambda input, dim=None: np.squeeze(
        input, None if dim is None else tuple(d for d in np.atleast_1d(dim) if input.shape[d] == 1)
    )

    def canon(a, dim):
        if dim is None or (type(dim) is int and 0 <= dim < a.ndim):
            return (dim,)
        if hasattr(dim, "__iter__") and not isinstance(dim, Tensor):
            return (some_dims("squeeze", dim, a.ndim),)
        return (one_dim("squeeze", dim, a.ndim),)

    def forward(input, dim=None):
        if dim is None:
            return input.squeeze()
        dims = (dim,) if type(dim) is int else dim
        return input.squeeze(tuple([d for d in dims if input.ndim and input.shape[d] == 1]))


@op
class unsqueeze(View):
    """Insert a dimension of size 1 at `dim`."""

    canon = lambda a, dim: (one_dim("unsqueeze", dim, a.ndim + 1),)
    forward = lambda input, dim: input[(slice(None),) * dim + (None, Ellipsis)]
    vjp_input = lambda g, dim: ops.squeeze(g, dim)
    samples = lambda rng: [(rng.standard_normal((2, 3)), 1), (rng.standard_normal(()), -1)]
    reference = lambda input, dim: np.expand_dims(input, dim)


@op
class alias(View):
    """Look at the same memory in the same way: what `x[...]` returns."""

    function = method = False
    forward = lambda input: input[...]
    vjp_input = lambda g: g
    samples = lambda rng: [(rng.standard_normal((2, 3)),)]


__all__ = ["alias", "contiguous", "permute", "reshape", "shaped", "squeeze", "t", "transpose", "unsqueeze", "view"]
