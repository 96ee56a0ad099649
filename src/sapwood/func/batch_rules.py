"""Batch rules of single ops: views, movements, indices, products, convolutions: whatever a loop is too slow for."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops as _ops
from ..errors import GradError, ShapeError
from ..ops import slow
from ..ops.declare import registry
from ..tensor import Tensor
from .batching import (
    RULES,
    Operand,
    Rule,
    Xs,
    _on_each,
    _shifted,
    along,
    each,
    elementwise,
    folded,
    loop,
    onto,
    raised,
    reduction,
    same,
    unfolded,
)
from .structure import call

ops: Any = _ops

# -- views and movements ----------------------------------------------------------------------------------------------


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
    if any(i.batched for i in indices) and any(i.value.dtype.name == "bool" for i in indices):
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


# -- images: ops whose first dimension counts independent samples ----------------------------------------------------


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
_MADE: dict[str, Rule | None] = {
    "mm": _product, "bmm": _product, "mv": _product, "matmul": _product, "dot": _inner, "vdot": _inner,
    "addmm": _added, "addmv": _added, "baddbmm": _added, "addbmm": _added, "addr": _added,
    "view": _viewed, "reshape_alias": _viewed, "unsafe_view": _viewed, "permute": _permuted, "t": _transposed,
    "transpose": _swapped, "expand": _expanded, "squeeze": _squeezed, "unsqueeze": _unsqueezed,
    "restore_dims": _restored, "as_strided": _strided, "as_strided_scatter": _by_copies,
    "rrelu_with_noise": lambda op, size, xs, attrs: call(op, [each(x, size) for x in xs], attrs),
    "rrelu_over": lambda op, size, xs, attrs: call(op, [each(x, size) for x in xs], attrs),
    "alias": same, "view_as_real": same, "view_as_complex": same,
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
    "pixel_unshuffle": same, "channel_shuffle": _FOLDED, "gather_image": images("indices"),
}  # fmt: skip
ops.complete()
unknown = set(_MADE) - set(registry)
assert not unknown, f"batch rules for ops that do not exist: {sorted(unknown)}"
RULES.update({name: rule for name, rule in _MADE.items() if rule is not None})
