"""How an op runs over a batch: rules that follow from its kind, and a loop over the examples where none does.

Every batch is the first dimension of what a BatchedTensor holds. A rule is called as rule(op, batch, xs, attrs) with

    xs     one Operand per input, a tuple of them for a sequence of tensors
    attrs  the attributes, canonical for one example

and returns the op's result with the batch as its first dimension. A declaration's slot `batch` overrides what the kind
says; `None` from a rule means that it does not apply, and the next one is tried: the op's formula over examples where
it has one, and last the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import ops as _ops
from ..dtypes import of_numpy
from ..errors import GradError, ShapeError
from ..ops import slow
from ..ops.declare import registry
from ..ops.returns import return_type
from ..tensor import Tensor
from .batched import BatchedTensor
from .level import Level, newest, without
from .structure import call, live

ops: Any = _ops


class Operand(NamedTuple):
    """One input: its value, and whether the value's first dimension is the batch."""

    value: Any
    batched: bool

    @property
    def rank(self) -> int:
        """The number of dimensions of one example, 0 for a number."""
        return len(self.value.shape) - self.batched if isinstance(self.value, Tensor) else 0


Xs = tuple[Any, ...]
Rule = Callable[..., Any]


def batch_call(op: Any, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """Call `op` for every example of the newest level among its inputs."""
    inputs = tuple(tuple(map(live, x)) if isinstance(x, list | tuple) else live(x) for x in inputs)
    level = newest(y for x in inputs for y in (x if isinstance(x, tuple) else (x,)))
    if level is None or level.size is None:
        return call(op, inputs, attrs)
    if not level.alive:
        raise GradError("vmap: a tensor of a vmap that has ended is used; return it from the function instead")
    # What the checks of an ordinary call would say about one example, and the attributes in canonical form.
    made = slow.canonical(op, tuple(map(described, inputs[:1])), attrs)
    # Some canonical forms are tuples where only one dimension is allowed.
    attrs = tuple(c[0] if type(a) is int and type(c) is tuple and len(c) == 1 else c for a, c in zip(attrs, made))
    xs = tuple(tuple(_operand(y, level) for y in x) if isinstance(x, tuple) else _operand(x, level) for x in inputs)
    with without(level):
        result = _apply(op, level, xs, attrs)
    if isinstance(result, Whole):
        return result.value
    if not (op.outs or op.many):
        return BatchedTensor(result, level)
    made = [BatchedTensor(r, level) for r in result]
    return tuple(made) if op.many else return_type(op)(made)


def described(x: Any) -> Any:
    """Return the description of one example's operand, for checks."""
    return tuple(map(described, x)) if isinstance(x, tuple) else x._array if isinstance(x, Tensor) else x


class Whole(NamedTuple):
    """A result that is on the examples' own level already."""

    value: Any


def _operand(x: Any, level: Level) -> Operand:
    if isinstance(x, BatchedTensor) and x._level is level:
        return Operand(x._value, True)
    return Operand(x, False)


def _apply(op: Any, level: Level, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    size: Any = level.size
    for rule in (op.batch, RULES.get(op.name), KINDS.get(op.kind)):
        if rule is not None:
            result = rule(op, size, xs, attrs)
            if result is not None:
                return result
    if op.kind == "fused" and op.formula is not None:
        return Whole(_formula(op, level, xs, attrs))
    return loop(op, size, xs, attrs)


def _formula(op: Any, level: Level, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    values = dict(zip(slow.input_names(op), (BatchedTensor(x.value, level) if x.batched else x.value for x in xs)))
    values |= dict(zip(op.attrs, attrs))
    positional = [values[n] for n, _, keyword in op.params if not keyword]
    made = op.formula(*positional, **{n: values[n] for n, _, keyword in op.params if keyword})
    return return_type(op)(list(made)) if op.outs else made


# -- pieces of rules --------------------------------------------------------------------------------------------------


def each(x: Operand, size: int) -> Any:
    """Return a value with the batch as first dimension, repeated where it had none."""
    if x.batched or not isinstance(x.value, Tensor):
        return x.value
    return x.value.expand((size, *x.value.shape))  # type: ignore[attr-defined]


def raised(value: Any, rank: int) -> Any:
    """Return a batch whose examples have `rank` dimensions, new ones of size 1 in front."""
    shape = tuple(value.shape)
    extra = rank - len(shape) + 1
    return value.reshape((shape[0],) + (1,) * extra + shape[1:]) if extra > 0 else value


def folded(value: Any) -> Any:
    """Return a batch of batches as one batch."""
    shape = tuple(value.shape)
    return value.reshape((shape[0] * shape[1], *shape[2:]))


def unfolded(value: Any, size: int) -> Any:
    """Return one batch as a batch of batches; the reverse of `folded`."""
    shape = tuple(value.shape)
    return value.reshape((size, shape[0] // size if size else 0, *shape[1:]))


def _on_each(op: Any, result: Any, change: Callable[[Any], Any]) -> Any:
    return [change(r) for r in result] if op.outs or op.many else change(result)


def loop(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...], copies: bool = False) -> Any:
    """Call the op for one example after the other and stack the results."""
    if not size:
        return _empty(op, xs, attrs)
    rows = [call(op, [_row(x, i, copies) for x in xs], attrs) for i in range(size)]
    columns = list(zip(*rows)) if op.outs or op.many else [rows]
    for column in columns:
        if len({tuple(r.shape) for r in column}) > 1:
            raise ShapeError(
                f"vmap: {op.name} gives results of different shapes for different examples, which cannot be stacked; "
                "use an operation whose result's shape does not depend on values (where instead of a mask)"
            )
    stacked = [ops.stack(list(column)) for column in columns]
    return stacked if op.outs or op.many else stacked[0]


def _row(x: Any, i: int, copies: bool) -> Any:
    if not isinstance(x, Operand):
        return tuple(_row(y, i, copies) for y in x)
    if not x.batched:
        return x.value
    row = ops.select(x.value, 0, i)
    return row.clone() if copies else row


def _empty(op: Any, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    def one(x: Any) -> Any:
        if not isinstance(x, Operand):
            return tuple(map(one, x))
        if not x.batched:
            return x.value
        return ops.ones(tuple(x.value.shape)[1:], dtype=of_numpy(x.value._array.dtype))

    return _on_each(op, call(op, [one(x) for x in xs], attrs), lambda r: r.expand((0, *r.shape)))


# -- elementwise ------------------------------------------------------------------------------------------------------


def elementwise(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Align the ranks of examples, so that they broadcast as one example's operands do."""
    rank = max(x.rank for x in xs)
    return call(op, [raised(v, rank) if x.batched else v for x, v in zip(xs, promoted(op, xs))], attrs)


def promoted(op: Any, xs: Xs) -> list[Any]:
    """Return the operands in the type that one example's have together: a batch of 0-dim tensors has a dimension."""
    tensors = [x.value for x in xs if isinstance(x.value, Tensor)]
    if op.promote not in ("same", "float", "bool") or len({t._array.dtype for t in tensors}) == 1:
        return [x.value for x in xs]
    examples = tuple(
        ops.empty((1,) * x.rank, dtype=of_numpy(x.value._array.dtype)) if isinstance(x.value, Tensor) else x.value
        for x in xs
    )
    common = slow.common_dtype(op, examples)
    return [x.value.to(common) if isinstance(x.value, Tensor) else x.value for x in xs]


# -- along dimensions -------------------------------------------------------------------------------------------------

_DIMS = ("dim", "dims", "dim0", "dim1", "dim2", "dimension")
_SIZES = ("size", "input_size", "shape")


def _shifted(attrs: tuple[Any, ...], names: tuple[str, ...], size: int, rank: int) -> tuple[Any, ...]:
    """Return attributes that name dimensions and sizes as the batch has them."""
    made = []
    for name, value in zip(names, attrs):
        if name in _DIMS:
            if value is None:
                value = tuple(range(1, rank + 1))
            else:
                value = tuple(d + 1 for d in value) if isinstance(value, tuple) else value + 1
        elif name in _SIZES and isinstance(value, tuple):
            value = (size, *value)
        made.append(value)
    return tuple(made)


def along(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Move every named dimension one to the right; every operand gets the batch."""
    rank = max(x.rank for x in xs)
    values = [each(x, size) for x in xs]
    if rank:
        return call(op, values, _shifted(attrs, op.attrs, size, rank))
    # A number has one place along "its dimension 0".
    values = [v.unsqueeze(1) if isinstance(v, Tensor) else v for v in values]
    attrs = tuple(0 if n == "dim" and a in (None, ()) else a for n, a in zip(op.attrs, attrs))
    result = call(op, values, _shifted(attrs, op.attrs, size, 1))
    return _on_each(op, result, lambda r: r.reshape((size,)))


def onto(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Move every named dimension and size one to the right; they are those of the result, of which there are more."""
    shape = next((a for n, a in zip(op.attrs, attrs) if n in _SIZES and isinstance(a, tuple)), ())
    if not shape or any(n == "dim" and not isinstance(a, int) for n, a in zip(op.attrs, attrs)):
        return None
    return call(op, [each(x, size) for x in xs], _shifted(attrs, op.attrs, size, len(shape)))


def reduction(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Reduce along the examples' own dimensions; all of them where no dimension can be named."""
    if "dim" in op.attrs:
        i = op.attrs.index("dim")
        if attrs[i] is None and not _takes_several(op):
            return _flat(op, size, xs, attrs, i)
        return along(op, size, xs, attrs)
    to = _ALL.get(op.name)
    if to is None:
        return None
    made = to(xs[0].value.reshape((size, -1)) if xs[0].value.numel() or not size else xs[0].value)
    return made


def _takes_several(op: Any) -> bool:
    return op.kind == "reduction" and op.name not in ("prod", "aminmax", "nansum") or op.name in (
        "all", "any", "count_nonzero", "nansum"
    )  # fmt: skip


def _flat(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...], i: int) -> Any:
    """Reduce everything with an op that takes one dimension."""
    rank = max(x.rank for x in xs)
    values = [each(x, size).reshape((size, -1)) for x in xs]
    result = call(op, values, (*attrs[:i], 1, *attrs[i + 1 :]))
    keep = "keepdim" in op.attrs and attrs[op.attrs.index("keepdim")]
    return _on_each(op, result, lambda r: r.reshape((size,) + (1,) * (rank if keep else 0)))


_ALL: dict[str, Any] = {
    "max_all": lambda x: ops.amax(x, 1),
    "min_all": lambda x: ops.amin(x, 1),
    "median_all": lambda x: ops.median(x, 1)[0],
    "nanmedian_all": lambda x: ops.nanmedian(x, 1)[0],
}


# -- views and movements ----------------------------------------------------------------------------------------------


def same(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Leave everything to the op, which works on the last dimensions or on every element."""
    return call(op, [x.value for x in xs], attrs)


def _viewed(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    value = xs[0].value
    shape = tuple(attrs[0])
    if -1 in shape:
        rest = int(np.prod([n for n in shape if n >= 0], dtype=int))
        whole = int(np.prod(tuple(value.shape)[1:], dtype=int))
        shape = tuple((whole // rest if rest else 0) if n == -1 else n for n in shape)
    if np.prod(shape, dtype=int) != np.prod(tuple(value.shape)[1:], dtype=int):
        raise ShapeError(f"{op.name}: {shape} does not hold the elements of a tensor of shape {value.shape[1:]}")
    return call(op, [value], ((size, *shape),)) if op.name == "view" else value.reshape((size, *shape))


def _permuted(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    return ops.permute(xs[0].value, (0, *(d + 1 for d in attrs[0])))


def _transposed(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    x = xs[0]
    if x.rank > 2:
        return None
    return ops.transpose(x.value, 1, 2) if x.rank == 2 else ops.alias(x.value)


def _swapped(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    return along(op, size, xs, attrs) if xs[0].rank else ops.alias(xs[0].value)


def _expanded(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    shape, implicit = attrs
    return call(op, [raised(xs[0].value, len(shape))], ((size, *shape), implicit))


def _squeezed(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    value, dim = xs[0].value, attrs[0]
    shape = tuple(value.shape)
    dims = range(xs[0].rank) if dim is None else (dim,) if isinstance(dim, int) else dim
    return ops.squeeze(value, tuple(d + 1 for d in dims if xs[0].rank and shape[d + 1] == 1))


def _unsqueezed(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    return ops.unsqueeze(xs[0].value, attrs[0] + 1)


def _restored(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    shape, dim, keepdim = attrs
    dims = tuple(range(len(shape))) if dim is None else dim
    return call(op, [xs[0].value], ((size, *shape), tuple(d + 1 for d in dims), keepdim))


def _strided(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    shape, stride, offset, _ = attrs
    value = xs[0].value
    if value._array.strides and value._array.strides[0] == 0 and size > 1:
        return _by_copies(op, size, xs, attrs)
    start = value.storage_offset() if offset is None else value.storage_offset() + offset
    return value.as_strided((size, *shape), (value.stride(0), *stride), start)


def _by_copies(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Loop over copies: the op speaks of places in the memory of one example."""
    return loop(op, size, xs, attrs, copies=True)


def _unbound(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    return call(op, [xs[0].value], tuple(v + 1 if n == "dim" else v for n, v in zip(op.attrs, attrs)))


def _joined(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    members, (dim,) = xs[0], attrs
    if op.name == "cat":
        # Empty vectors join anything.
        if len({x.rank for x in members}) > 1:
            members = tuple(x for x in members if x.rank != 1 or 0 not in tuple(x.value.shape)[x.batched :])
        dim = dim if dim >= 0 else dim + members[0].rank
        if not members[0].rank:
            return None
    elif dim < 0:
        dim += members[0].rank + 1
    return call(op, [tuple(each(x, size) for x in members)], (dim + 1,))


def _repeated(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    repeats = tuple(attrs[0])
    return call(op, [raised(xs[0].value, len(repeats))], ((1, *repeats),))


def _like(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    return call(op, [xs[0].value], attrs)


def _cloned(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    # An order of dimensions for four of them says nothing of the batch.
    ordered = str(attrs[-1]).startswith("torch.channels_last")
    return call(op, [xs[0].value], (*attrs[:-1], "torch.contiguous_format" if ordered else attrs[-1]))


def _index(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Read at indices of each example, with the number of the example as one more index."""
    x, indices = xs
    dims = attrs[-1]
    if any(i.batched and i.value.dtype.name == "bool" for i in indices):
        raise GradError(
            "vmap: indexing with a mask gives results whose shapes depend on values; use where(mask, input, 0)"
        )
    if not any(i.batched for i in indices):
        out = call(op, [x.value, tuple(i.value for i in indices)], (tuple(d + 1 for d in dims),))
        return out if _adjacent(indices, dims) else ops.movedim(out, _index_rank(indices), 0)
    if any(i.value.dtype.name == "bool" for i in indices):
        return None
    rank = max(i.rank for i in indices)
    value = each(x, size)
    adjacent = _adjacent(indices, dims)
    out = call(op, [value, (_rows(size, rank), *_raised(indices, rank))], ((0, *(d + 1 for d in dims)),))
    before = dims[0] if adjacent else 0
    # The examples' index has moved to the front unless it follows the batch directly.
    return ops.movedim(out, tuple(range(1, 1 + rank)), tuple(range(1 + before, 1 + before + rank))) if before else out


def _adjacent(indices: Any, dims: tuple[int, ...]) -> bool:
    """Return whether the indexed dimensions follow each other, so that the index takes their place."""
    at = dims[0]
    for i, d in zip(indices, dims):
        if d != at:
            return False
        at += i.rank if i.value.dtype.name == "bool" else 1
    return True


def _index_rank(indices: Any) -> int:
    """Return the number of dimensions that the index tensors broadcast to."""
    return max(1 if i.value.dtype.name == "bool" else i.rank for i in indices)


def _rows(size: int, rank: int) -> Any:
    return ops.arange(size).reshape((size,) + (1,) * rank)


def _raised(indices: Any, rank: int) -> list[Any]:
    return [raised(i.value, rank) if i.batched else i.value for i in indices]


def _index_back(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Add at indices of each example: the reverse of `_index`."""
    x, indices = xs
    shape, dims = attrs
    if any(i.value.dtype.name == "bool" for i in indices):
        if any(i.batched for i in indices):
            return None
    if not any(i.batched for i in indices):
        value = x.value if _adjacent(indices, dims) else ops.movedim(x.value, 0, _index_rank(indices))
        return call(op, [value, tuple(i.value for i in indices)], ((size, *shape), tuple(d + 1 for d in dims)))
    rank = max(i.rank for i in indices)
    value = each(x, size)
    before = dims[0] if _adjacent(indices, dims) else 0
    if before:
        value = ops.movedim(value, tuple(range(1 + before, 1 + before + rank)), tuple(range(1, 1 + rank)))
    return call(
        op, [value, (_rows(size, rank), *_raised(indices, rank))], ((size, *shape), (0, *(d + 1 for d in dims)))
    )


def _index_put(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    x, values, indices = xs
    dims, accumulate = attrs
    if any(i.value.dtype.name == "bool" for i in indices):
        return None
    rank = max(i.rank for i in indices)
    if not _adjacent(indices, dims) or dims[0] != 0:
        return None
    written = raised(values.value, rank + x.rank - len(dims)) if values.batched else values.value
    key = (_rows(size, rank), *_raised(indices, rank))
    return call(op, [each(x, size), written, key], ((0, *(d + 1 for d in dims)), accumulate))


def _one_index(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Shift the dimension where all examples share one vector of indices."""
    i = slow.input_names(op).index("index")
    if xs[i].batched or not xs[0].rank:
        return None
    values = [x.value if n == i or not isinstance(x.value, Tensor) else each(x, size) for n, x in enumerate(xs)]
    return call(op, values, _shifted(attrs, op.attrs, size, xs[0].rank))


def _scattered(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Shift the dimension where input, index and source have one rank."""
    if not xs[0].rank or len({x.rank for x in xs if isinstance(x.value, Tensor)}) > 1:
        return None
    return along(op, size, xs, attrs)


def _padded(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Pad the last dimensions; the batch is not among them."""
    return call(op, [xs[0].value], attrs)


# -- products ---------------------------------------------------------------------------------------------------------


def product(a: Operand, b: Operand, ranks: tuple[int, int] | None = None) -> Any:
    """Return the matrix product of examples."""
    (m, n), (x, y) = ranks or (a.rank, b.rank), (a.value, b.value)
    if m == n == 1:
        if not (a.batched and b.batched):
            return ops.mv(x, y) if a.batched else ops.mv(y, x)
        return ops.matmul(x.unsqueeze(1), y.unsqueeze(2)).reshape((len(x),))
    if m == 1 and n == 2 and not b.batched:
        return ops.mm(x, y)
    if m == 2 and n == 1 and not a.batched:
        return ops.mm(y, ops.t(x))
    if m == 1:
        x = x.unsqueeze(-2)
    if n == 1:
        y = y.unsqueeze(-1)
    rank = max(m, n, 2)
    x, y = raised(x, rank) if a.batched else x, raised(y, rank) if b.batched else y
    out = ops.matmul(x, y)
    return out.squeeze(-2) if m == 1 else out.squeeze(-1) if n == 1 else out


def _product(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    return product(xs[0], xs[1])


def _inner(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    a, b = xs
    return product(Operand(ops.conj(a.value), a.batched) if op.name == "vdot" else a, b)


def _added(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Return beta · input + alpha · (product of the other two)."""
    x, a, b = xs
    beta, alpha = attrs
    if op.name == "addr":
        both = product(Operand(a.value.unsqueeze(-1), a.batched), Operand(b.value.unsqueeze(-2), b.batched))
    elif a.batched or b.batched:
        both = product(a, b)
    else:
        both = ops.matmul(a.value, b.value).unsqueeze(0)
    if op.name == "addbmm":
        both = both.sum(1)
    rank = len(both.shape) - 1
    both = both if alpha == 1 else both * alpha
    if beta == 0:
        return both if len(both) == size else both.expand((size, *both.shape[1:]))
    first = raised(x.value, rank) if x.batched else x.value
    return both + (first if beta == 1 else first * beta)


# -- images: ops whose first dimension counts independent samples -------------------------------------------------------


def _spatial(op: Any, attrs: tuple[Any, ...]) -> int | None:
    """Return how many spatial dimensions the attributes speak of."""
    for name in ("kernel_size", "output_size"):
        if name in op.attrs:
            return len(attrs[op.attrs.index(name)])
    return None


def images(*also: str) -> Rule:
    """Return a rule that makes samples of a batch of samples; `also` names further inputs that hold samples."""

    def rule(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
        names = slow.input_names(op)
        taken = [i == 0 or n in also for i, n in enumerate(names)]
        if any(isinstance(x.value, Tensor) and x.batched and not ok for x, ok in zip(xs, taken)):
            return None
        spatial = _spatial(op, attrs)
        values = [each(x, size) if ok else x.value for x, ok in zip(xs, taken)]
        unbatched = 2 if op.name == "col2im" else None if spatial is None else spatial + 1
        if xs[0].rank == unbatched:
            return call(op, values, attrs)
        result = call(op, [folded(v) if ok and isinstance(v, Tensor) else v for v, ok in zip(values, taken)], attrs)
        return _on_each(op, result, lambda r: unfolded(r, size))

    return rule


def _convolution(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Convolve all examples at once: as samples under one bank of filters, as groups under a bank each."""
    x, weight, bias = xs
    if not weight.batched and (bias.value is None or not bias.batched):
        return unfolded(call(op, [folded(each(x, size)), weight.value, bias.value], attrs), size)
    if not size:
        return None
    groups = attrs[-1]
    transposed = attrs[op.attrs.index("transposed")]
    value = ops.movedim(each(x, size), 0, 1)
    n, _, c = tuple(value.shape)[:3]
    value = value.reshape((n, size * c, *value.shape[3:]))
    out = call(op, [value, folded(each(weight, size)), None], (*attrs[:-1], groups * size))
    channels = tuple(weight.value.shape)[weight.batched + (1 if transposed else 0)] * (groups if transposed else 1)
    out = ops.movedim(out.reshape((n, size, channels, *out.shape[2:])), 0, 1)
    if bias.value is None:
        return out
    b = bias.value.reshape(((size,) if bias.batched else (1,)) + (1, channels) + (1,) * (len(out.shape) - 3))
    return out + b


def _filter_gradient(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Take every example as a group of channels."""
    if not size:
        return None
    x, g = (ops.movedim(each(y, size), 0, 1) for y in xs)
    n, c, o = x.shape[0], x.shape[2], g.shape[2]
    x, g = x.reshape((n, size * c, *x.shape[3:])), g.reshape((n, size * o, *g.shape[3:]))
    return unfolded(call(op, [x, g], (*attrs[:-1], attrs[-1] * size)), size)


def _bias_gradient(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    g = each(xs[0], size)
    return g.sum((1, *range(3, g.ndim)))


def _tied(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    return call(op, [each(xs[0], size), xs[1].value], attrs)


def _copied(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    x, source = xs
    return call(op, [each(x, size), raised(source.value, x.rank) if source.batched else source.value], attrs)


def _masked(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    x, mask, value = xs
    rank = max(x.rank, mask.rank)
    a, m, v = (raised(y.value, rank) if y.batched else y.value for y in (x, mask, value))
    out = ops.where(m, v.to(a.dtype), a)
    return out if len(out.shape) > rank else out.expand((size, *out.shape))


def _embedding(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Look up rows of one table, or of a table per example laid one after another."""
    weight, indices = xs
    padding, by_frequency = attrs[0], attrs[1]
    if by_frequency:
        return None
    if not weight.batched:
        return call(op, [weight.value, indices.value], attrs)
    rows = tuple(weight.value.shape)[1]
    at = each(indices, size)
    shape = tuple(at.shape)
    places = at + (ops.arange(size) * rows).reshape((size,) + (1,) * (len(shape) - 1))
    out = call(op, [folded(weight.value), places], (-1, *attrs[1:]))
    if padding is None or padding < 0:
        return out
    return ops.where((at == padding).unsqueeze(-1), out.detach(), out)


def _embedding_gradient(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    grad, indices = xs
    rows, padding, scale = attrs
    if scale or not size:
        return None
    at, g = each(indices, size), each(grad, size)
    places = at + (ops.arange(size) * rows).reshape((size,) + (1,) * (len(at.shape) - 1))
    if padding is not None and padding >= 0:
        g = ops.where((at == padding).unsqueeze(-1), 0, g)
    return unfolded(call(op, [g, places], (rows * size, -1, scale)), size)


def _nll(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Take the loss of all samples of all examples, then reduce each example's."""
    x, target, weight = xs
    reduced, ignored = attrs
    if weight.batched or x.rank > 2 or not size:
        return None
    value, index = each(x, size), each(target, size)
    if x.rank == 2:
        value, index = folded(value), index.reshape((-1,))
    terms = call(op, [value, index, weight.value], ("none", ignored))
    terms = terms.reshape((size, -1))
    if reduced == "none":
        return terms if x.rank == 2 else terms.reshape((size,))
    total = terms.sum(1)
    if reduced == "sum":
        return total
    kept = index != ignored
    if weight.value is None:
        return total / kept.reshape((size, -1)).sum(1)
    chosen = ops.where(kept, weight.value[ops.where(kept, index, 0)], 0)
    return total / chosen.reshape((size, -1)).sum(1)


def _dynamic(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    if op.name == "masked_select" and not xs[1].batched:
        return None
    if size <= 1:
        return None
    raise GradError(
        f"vmap: the shape of {op.name}'s result depends on values, so examples differ; use where(…) or a fixed size"
    )


def _traced(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    return ops.diagonal(xs[0].value, 0, 1, 2).sum(-1)


_FOLDED = images()
RULES: dict[str, Rule] = {
    "mm": _product, "bmm": _product, "mv": _product, "matmul": _product, "dot": _inner, "vdot": _inner,
    "addmm": _added, "addmv": _added, "baddbmm": _added, "addbmm": _added, "addr": _added,
    "view": _viewed, "reshape_alias": _viewed, "unsafe_view": _viewed, "permute": _permuted, "t": _transposed,
    "transpose": _swapped, "expand": _expanded, "squeeze": _squeezed, "unsqueeze": _unsqueezed,
    "restore_dims": _restored, "as_strided": _strided, "as_strided_scatter": _by_copies,
    "rrelu_with_noise": lambda op, size, xs, attrs: call(op, [each(x, size) for x in xs], attrs), "alias": same, "view_as_real": same, "view_as_complex": same,
    "squeeze_product": lambda op, size, xs, attrs: ops.squeeze(xs[0].value, 1),
    "split": _unbound, "split_with_sizes": _unbound, "unbind": _unbound,
    "cat": _joined, "stack": _joined, "repeat": _repeated,
    "clone": _cloned, "to_copy": _cloned, "zeros_like": same, "ones_like": same, "empty_like": same, "full_like": same,
    "tril": lambda op, size, xs, attrs: same(op, size, xs, attrs) if xs[0].rank > 1 else None,
    "triu": lambda op, size, xs, attrs: same(op, size, xs, attrs) if xs[0].rank > 1 else None,
    "flip": along, "roll": lambda op, size, xs, attrs: along(op, size, xs, attrs) if attrs[1] else None,
    "select": along, "slice": along, "diagonal": along, "unfold": lambda *a: along(*a) if a[2][0].rank else None,
    "select_backward": onto, "slice_backward": onto, "diagonal_backward": onto, "unfold_backward": onto,
    "place_reduced": onto, "embedded": onto,
    "select_scatter": along, "slice_scatter": along, "diagonal_scatter": along,
    "constant_pad_nd": _padded,
    "index": _index, "index_backward": _index_back, "index_put_at": _index_put,
    "gather": _scattered, "scatter_add": _scattered, "scatter_src": _scattered, "scatter_value": _scattered,
    "scatter_combine": _scattered, "scatter_reduce": _scattered,
    "index_select": _one_index, "index_add": _one_index, "index_copy": _one_index, "index_fill_value": _one_index,
    "masked_fill_value": elementwise,
    "softmax_of": along, "log_softmax_of": along, "safe_softmax": along, "logsumexp": along, "glu": along,
    "select_reduced": along,
    "real": same, "imag": same, "zero_fill": same,
    "sort": along, "topk": along, "argsort": along, "argmax": reduction, "argmin": reduction,
    "convolution": _convolution, "embedding": _embedding, "embedding_gradient": _embedding_gradient, "nll_loss": _nll,
    "filter_gradient": _filter_gradient, "bias_gradient": _bias_gradient, "tied": _tied, "copy": _copied,
    "masked_fill_tensor": _masked, "trace": _traced, "rot90": along, "cdist": elementwise, "linalg_cross": along,
    "recurrence": along, "resample": _FOLDED, "resample_back": _FOLDED, "index_pad": _FOLDED, "circular_pad": _FOLDED,
    "nonzero": _dynamic, "masked_select": _dynamic, "unique2": _dynamic, "runs": _dynamic,
    "avg_pool": _FOLDED, "adaptive_avg_pool": _FOLDED, "adaptive_max_pool": _FOLDED, "max_pool_with_indices": _FOLDED,
    "max_of_windows": _FOLDED, "adaptive_avg_pool_gradient": images("input"), "avg_pool_gradient": images("input"),
    "im2col": _FOLDED, "col2im": _FOLDED, "max_unpool": images("indices"), "pixel_shuffle": same,
    "pixel_unshuffle": same, "channel_shuffle": _FOLDED, "affine_grid_generator": None, "gather_image": images("indices"),
}  # fmt: skip
RULES = {name: rule for name, rule in RULES.items() if rule is not None}

KINDS: dict[str, Rule] = {
    "elementwise": elementwise,
    "reduction": reduction,
    "logical": reduction,
    "scan": along,
}


# -- writing in place -------------------------------------------------------------------------------------------------


def batch_write(op: Any, target: Tensor, others: tuple[Any, ...], attrs: tuple[Any, ...]) -> Tensor:
    """Write op(target, …) over the batch that `target` is an example of.

    Raises:
        ShapeError: `target` is one tensor for all examples, which each would write differently.
    """
    level = newest((target, *others))
    assert level is not None
    if not (isinstance(target, BatchedTensor) and target._level is level):
        raise ShapeError(
            f"vmap: {op.name}_ writes a value that differs between examples into a tensor that all of them share; use "
            f"{op.name}, or make the tensor batched first, e.g. with batched.new_zeros(…)"
        )
    made = call(op, (target, *others), attrs)
    if made.shape != target.shape:
        raise ShapeError(f"{op.name}_: the result has shape {tuple(made.shape)} and the tensor {tuple(target.shape)}")
    if made.dtype.category > target.dtype.category:
        from ..errors import DtypeError

        raise DtypeError(f"{op.name}_: the result is {made.dtype.name}, which {target.dtype.name} cannot hold")
    value = made._value if isinstance(made, BatchedTensor) and made._level is level else made
    with without(level):
        target._value.copy_(value)  # type: ignore[attr-defined]
    return target


ops.complete()
assert set(RULES) <= set(registry), sorted(set(RULES) - set(registry))
