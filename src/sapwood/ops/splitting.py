"""Cutting a tensor into several views: `split`, `chunk`, `tensor_split`, `unbind` …"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import ArgumentError, DimError, ShapeError
from ..tensor import Tensor
from .declare import View, composite, op
from .sizes import ints, one_dim, one_int
from .slicing import ALL, slice_


def _cuts(input, sizes, dim):
    """Return consecutive pieces of the given sizes as views."""
    head, start, pieces = (ALL,) * dim, 0, []
    for n in sizes:
        pieces.append(input[(*head, slice(start, start + n))])
        start += n
    return tuple(pieces)


@op
class split_(View):
    """Cut a tensor into pieces of `split_size` along `dim`, the last one smaller if it must be."""

    many = True
    function = method = False
    vjp = lambda g, needs, dim: (ops.cat(g, dim),)
    samples = lambda rng: [(rng.standard_normal((5, 2)), 2, 0), (rng.standard_normal((2, 4)), 2, -1)]

    def canon(a, split_size, dim):
        if not a.ndim:
            raise ShapeError("split: a 0-dim tensor cannot be split")
        dim = one_dim("split", dim, a.ndim)
        size = one_int("split", "split_size", split_size)
        if size < 0 or (not size and a.shape[dim]):
            raise ShapeError(f"split: split_size must be at least 1 for a dimension of size {a.shape[dim]}, got {size}")
        return size, dim

    def forward(input, split_size, dim):
        extent = input.shape[dim]
        count = max(-(-extent // split_size), 1) if split_size else 1
        last = extent - split_size * (count - 1)
        return _cuts(input, [split_size] * (count - 1) + [last], dim)


@op
class split_with_sizes_(View):
    """Cut a tensor into pieces of the given sizes along `dim`."""

    many = True
    function = method = False
    vjp = lambda g, needs, dim: (ops.cat(g, dim),)
    samples = lambda rng: [(rng.standard_normal((5, 2)), (1, 0, 4), 0)]

    def canon(a, split_sizes, dim):
        if not a.ndim:
            raise ShapeError("split_with_sizes: a 0-dim tensor cannot be split")
        dim = one_dim("split_with_sizes", dim, a.ndim)
        sizes = ints("split_with_sizes", "split_sizes", split_sizes)
        if any(n < 0 for n in sizes) or sum(sizes) != a.shape[dim]:
            raise ShapeError(
                f"split_with_sizes: sizes must not be negative and add up to {a.shape[dim]}, the size of dimension "
                f"{dim}, got {sizes} with sum {sum(sizes)}"
            )
        return sizes, dim

    forward = lambda input, split_sizes, dim: _cuts(input, split_sizes, dim)


@composite
def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Cut a tensor into views along `dim`.

    Args:
        split_size_or_sections: the size of every piece but perhaps the last, or the list of all sizes.
    """
    if hasattr(split_size_or_sections, "__iter__") and not isinstance(split_size_or_sections, Tensor):
        return split_with_sizes_(tensor, split_size_or_sections, dim)
    return split_(tensor, split_size_or_sections, dim)


@composite(name="split", method=True, function_name=False)
def _split_method(self: Any, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
    """Cut the tensor into views of `split_size` (or of the listed sizes) along `dim`."""
    return split(self, split_size, dim)


@composite(method=True)
def split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """Cut a tensor into views of the given sizes along `dim`."""
    return split_with_sizes_(input, split_sizes, dim)


@composite(method=True)
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Cut a tensor into at most `chunks` views of equal size along `dim`, the last one smaller if it must be.

    The size is rounded up, so there may be fewer pieces than asked for; `tensor_split` gives exactly that many.
    """
    if not input.ndim:
        raise ShapeError("chunk: a 0-dim tensor cannot be cut")
    chunks = one_int("chunk", "chunks", chunks)
    if chunks < 1:
        raise ShapeError(f"chunk: chunks must be at least 1, got {chunks}")
    extent = input.shape[one_dim("chunk", dim, input.ndim)]
    size = -(-extent // chunks)
    return split_(input, size, dim) if size else split_with_sizes_(input, (0,) * chunks, dim)


@composite(method=True)
def tensor_split(
    input: Any, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> tuple[Any, ...]:
    """Cut a tensor into views along `dim`: into so many pieces of nearly equal size, or before the listed indices.

    Example:
        >>> import sapwood
        >>> [len(p) for p in sapwood.arange(7).tensor_split(3)]
        [3, 2, 2]
    """
    given = next((x for x in (indices_or_sections, indices, sections) if x is not None), None)
    if given is None:
        raise ArgumentError("tensor_split: the number of sections, or the indices to cut at, is missing")
    if not input.ndim:
        raise ShapeError("tensor_split: a 0-dim tensor cannot be split")
    d = one_dim("tensor_split", dim, input.ndim)
    extent = input.shape[d]
    if isinstance(given, Tensor):
        if given.dtype.name != "int64" or given.ndim > 1:
            raise ShapeError(f"tensor_split: a split tensor must be int64 of at most one dimension, got {given!r}")
        given = given.tolist()
    if hasattr(given, "__iter__"):
        ends = [*ints("tensor_split", "indices", given), extent]
    else:
        count = one_int("tensor_split", "sections", given)
        if count < 1:
            raise ShapeError(f"tensor_split: at least 1 section is expected, got {count}")
        least, more = divmod(extent, count)
        ends = [(i + 1) * least + min(i + 1, more) for i in range(count)]
    return tuple(slice_(input, d, start, end, 1) for start, end in zip([0, *ends], ends))


def _along(name: str, input: Any, given: Any, dim: int, least: int) -> tuple[Any, ...]:
    if input.ndim < least:
        raise ShapeError(f"{name}: at least {least} dimension{'s' * (least > 1)} are expected, got shape {input.shape}")
    if not hasattr(given, "__iter__"):
        count = one_int(name, "sections", given)
        if count < 1 or input.shape[dim] % count:
            raise ShapeError(
                f"{name}: {input.shape[dim]}, the size of dimension {dim}, cannot be cut into {count} equal pieces"
            )
    return tensor_split(input, given, dim)


def _given(name: str, both: Any, indices: Any, sections: Any) -> Any:
    for x in (both, indices, sections):
        if x is not None:
            return x
    raise ArgumentError(f"{name}: the number of sections, or the indices to cut at, is missing")


@composite(method=True)
def hsplit(input: Any, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> Any:
    """Cut a tensor along its second dimension (the only one of a vector)."""
    given = _given("hsplit", indices_or_sections, indices, sections)
    return _along("hsplit", input, given, 0 if input.ndim == 1 else 1, 1)


@composite(method=True)
def vsplit(input: Any, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> Any:
    """Cut a tensor along its first dimension."""
    return _along("vsplit", input, _given("vsplit", indices_or_sections, indices, sections), 0, 2)


@composite(method=True)
def dsplit(input: Any, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> Any:
    """Cut a tensor along its third dimension."""
    return _along("dsplit", input, _given("dsplit", indices_or_sections, indices, sections), 2, 3)


@op
class unbind(View):
    """Return the slices along `dim` as a tuple, without that dimension."""

    many = True
    vjp = lambda g, needs, dim: (ops.stack(g, dim),)
    samples = lambda rng: [(rng.standard_normal((3, 2)),), (rng.standard_normal((3, 2)), -1)]

    def canon(a, dim):
        if not a.ndim:
            raise DimError("unbind: a 0-dim tensor has no dimension to take apart")
        return (one_dim("unbind", dim, a.ndim),)

    def forward(input, dim=0):
        head = (ALL,) * dim
        return tuple([input[(*head, i, Ellipsis)] for i in range(input.shape[dim])])


@composite(name="__iter__", method=True, function_name=False)
def _iterate(self: Any) -> Any:
    """Iterate over the slices along the first dimension."""
    if not self.ndim:
        raise ArgumentError("iter: a 0-dim tensor cannot be iterated over; use .item() for its value")
    return iter(unbind(self))


__all__ = ["chunk", "split", "tensor_split", "unbind"]
