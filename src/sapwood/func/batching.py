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

from .. import ops as _ops
from ..dtypes import of_numpy
from ..errors import GradError, ShapeError
from ..ops import slow
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
    return x.value.expand((size, *x.value.shape))


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
    return to(xs[0].value.reshape((size, -1)) if xs[0].value.numel() or not size else xs[0].value)


def _takes_several(op: Any) -> bool:
    return (op.kind == "reduction" and op.name not in ("prod", "aminmax", "nansum")) or op.name in (
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


def same(op: Any, size: int, xs: Xs, attrs: tuple[Any, ...]) -> Any:
    """Leave everything to the op, which works on the last dimensions or on every element."""
    return call(op, [x.value for x in xs], attrs)


KINDS: dict[str, Rule] = {
    "elementwise": elementwise,
    "reduction": reduction,
    "logical": reduction,
    "scan": along,
}
"""What the kind of an op says."""

RULES: dict[str, Rule] = {}
"""Rules of single ops, which come before those of kinds; `batch_rules` fills it."""


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
        target._value.copy_(value)
    return target
