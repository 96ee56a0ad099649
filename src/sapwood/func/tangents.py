"""How a tangent passes through an op: what a declaration says about backward says it about forward, too.

    elementwise   Σ t · f'(x): the backward formula, applied to the tangent
    linear        the op itself, applied to the tangents
    products      the product rule
    formula       the op's composition of primitives, on dual numbers
    otherwise     two pullbacks: g ↦ gᵀJ is linear in g, and its own pullback is t ↦ J t

A declaration's `jvp(tangents, …)` or `jvp_<input>(t, …)`, with parameters named like those of a backward formula,
overrides them all.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import ops as _ops
from ..dtypes import of_numpy
from ..ops import slow
from ..ops.declare import differentiable, input_names, todo, zero
from ..ops.record import described_as
from ..ops.returns import return_type
from ..state import GRAD, get_mode, mode
from ..tensor import Tensor
from .dual import DualTensor
from .level import Level, newest
from .structure import batches_in, call, fresh, live, ones_like, plain, pull, settled, split, zeros_like

ops: Any = _ops


def dual_call(op: Any, inputs: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """Call `op` on dual operands of the newest level among them."""
    inputs = tuple(tuple(map(live, x)) if isinstance(x, list | tuple) else live(x) for x in inputs)
    level = newest(y for x in inputs for y in (x if isinstance(x, tuple) else (x,)))
    if level is None or level.size is not None:
        return call(op, inputs, attrs)
    primals, tangents = zip(*(_parts(x, level) for x in inputs))
    if not differentiable(op) or not any(_any(t) for t in tangents):
        return call(op, primals, attrs)
    if op.kind == "fused" and op.formula is not None and not _declares(op) and op.name not in _PARTLY:
        return _by_formula(op, inputs, primals, attrs)
    out = call(op, primals, attrs)
    outs = out if isinstance(out, tuple) else (out,)
    if not any(o.dtype.is_differentiable for o in outs):
        return out
    moved = derivative(op, primals, tangents, attrs, outs)
    made = [o if t is None else _dual(o, t, level) for o, t in zip(outs, moved)]
    return made[0] if not isinstance(out, tuple) else tuple(made) if op.many else return_type(op)(made)


def _dual(out: Tensor, tangent: Any, level: Level) -> DualTensor:
    a, t = out._array, tangent._array
    if t.dtype is not a.dtype:
        tangent = tangent.real if t.dtype.kind == "c" and a.dtype.kind != "c" else tangent
        tangent = tangent.to(of_numpy(a.dtype))
    if t.shape != a.shape:
        tangent = tangent.expand(a.shape)
    return DualTensor(out, tangent, level)


def _parts(x: Any, level: Level) -> tuple[Any, Any]:
    if isinstance(x, tuple):
        pairs = [split(m, level) for m in x]
        return tuple(p for p, _ in pairs), tuple(t for _, t in pairs)
    return split(x, level)


def _any(t: Any) -> bool:
    return any(map(_any, t)) if isinstance(t, tuple) else t is not None


_PARTLY = {"batch_norm_of"}
"""Ops with an output that the formula would differentiate and backward does not (running statistics)."""


def _by_formula(op: Any, inputs: tuple[Any, ...], primals: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    attrs = slow.canonical(op, tuple(map(_arrays, primals[:1])), attrs)
    # What backward does not differentiate by (weights of classes, targets) is a constant here, too.
    operands = [x if op.vjp is not None or v is not None else p for x, p, v in zip(inputs, primals, op.vjps)]
    values = dict(zip(input_names(op), operands)) | dict(zip(op.attrs, attrs))
    positional = [values[n] for n, _, keyword in op.params if not keyword]
    made = op.formula(*positional, **{n: values[n] for n, _, keyword in op.params if keyword})
    return return_type(op)(list(made)) if op.outs else made


def derivative(op: Any, primals: Any, tangents: Any, attrs: Any, outs: tuple[Any, ...]) -> Any:
    """Return the tangent of each output, None where it has none."""
    for rule in (_declared, _elementwise, _linear, _product):
        found = rule(op, primals, tangents, attrs, outs)
        if found is not None:
            return found
    return _two_pullbacks(op, primals, tangents, attrs, outs)


# -- rules ------------------------------------------------------------------------------------------------------------


def _values(op: Any, primals: Any, attrs: Any, outs: tuple[Any, ...]) -> dict[str, Any]:
    """Return whatever a formula may ask for, by name."""
    attrs = slow.canonical(op, tuple(map(_arrays, primals[:1])), attrs)
    values: dict[str, Any] = dict(zip(op.attrs, attrs)) | dict(zip(op.outs, outs))
    values["out"] = outs if op.many else outs[0]
    for name, x in zip(input_names(op), primals):
        values[name] = x
        for what in ("shape", "dtype", "order"):
            values[f"{name}_{what}"] = described_as(_arrays(x), what)
    return values


def _arrays(x: Any) -> Any:
    return tuple(map(_arrays, x)) if isinstance(x, tuple) else x._array if isinstance(x, Tensor) else x


def _asked(formula: Any, skip: int, values: dict[str, Any]) -> list[Any]:
    code = formula.__code__
    return [values[n] for n in code.co_varnames[skip : code.co_argcount]]


@cache
def _declares(op: Any) -> bool:
    return op.jvp is not None or any(hasattr(op, "jvp_" + n) for n in input_names(op))


def _declared(op: Any, primals: Any, tangents: Any, attrs: Any, outs: tuple[Any, ...]) -> Any:
    if not _declares(op):
        return None
    each = [getattr(op, "jvp_" + n, None) for n in input_names(op)]
    values = _values(op, primals, attrs, outs)
    if op.jvp is not None:
        made = op.jvp(tangents, *_asked(op.jvp, 1, values))
        return made if isinstance(made, tuple) else (made,)
    parts = [f(t, *_asked(f, 1, values)) for f, t in zip(each, tangents) if f is not None and t is not None]
    return (_sum(parts),)


def _sum(parts: list[Any]) -> Any:
    total = None
    for p in parts:
        total = p if total is None else total + p
    return total


def _elementwise(op: Any, primals: Any, tangents: Any, attrs: Any, outs: tuple[Any, ...]) -> Any:
    if op.kind != "elementwise" or op.vjp is not None:
        return None
    if not op.holomorphic and any(x._array.dtype.kind == "c" for x in (*outs, *primals) if isinstance(x, Tensor)):
        return None
    values = _values(op, primals, attrs, outs)
    parts = []
    for formula, t in zip(op.vjps, tangents):
        if t is None or formula is None or formula is zero:
            continue
        if formula is todo:
            todo(t)
        parts.append(formula(t, *_asked(formula, 1, values)))
    return (_sum(parts) if parts else zeros_like(outs[0]),)


_CONSTANT = {"constant_pad_nd": {"value": 0}, "shifted": {"fill": 0}}
"""Attributes by which a linear op adds a constant, and their value without one."""


def _linear(op: Any, primals: Any, tangents: Any, attrs: Any, outs: tuple[Any, ...]) -> Any:
    if not op.linear:
        return None
    can = [op.vjp is not None or v is not None for v in op.vjps]
    operands = [_moved(x, t, ok) for x, t, ok in zip(primals, tangents, can)]
    fixed = _CONSTANT.get(op.name, {})
    attrs = tuple(fixed.get(n, a) for n, a in zip(op.attrs, attrs))
    made = call(op, operands, attrs)
    return made if isinstance(made, tuple) else (made,)


def _moved(x: Any, t: Any, differentiable_by: bool) -> Any:
    """Return what a linear op gets in place of an operand: its tangent, zero for a constant, itself for an index."""
    if isinstance(x, tuple):
        return tuple(_moved(m, s, differentiable_by) for m, s in zip(x, t))
    if not differentiable_by:
        return x
    if t is not None:
        return t
    if isinstance(x, int | float | complex):
        return 0
    return zeros_like(x) if _is_float(x) else x


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.is_differentiable


_PRODUCTS = {
    "addmm": lambda a, b: ops.mm(a, b),
    "addmv": lambda a, b: ops.mv(a, b),
    "baddbmm": lambda a, b: ops.bmm(a, b),
    "addbmm": lambda a, b: ops.bmm(a, b).sum(0),
    "addr": lambda a, b: ops.outer(a, b),
}


def _product(op: Any, primals: Any, tangents: Any, attrs: Any, outs: tuple[Any, ...]) -> Any:
    if op.kind == "bilinear":
        (a, b), (s, t) = primals, tangents
        parts = [] if s is None else [call(op, (s, b), attrs)]
        return (_sum(parts if t is None else [*parts, call(op, (a, t), attrs)]),)
    if op.name in _PRODUCTS:
        (_, a, b), (r, s, t), (beta, alpha) = primals, tangents, attrs
        multiply: Any = _PRODUCTS[op.name]
        parts = [multiply(x, y) for x, y in ((s, b), (a, t)) if x is not None and y is not None]
        moved = _sum(parts)
        if moved is not None and alpha != 1:
            moved = moved * alpha
        if r is None or beta == 0:
            return (moved if moved is not None else zeros_like(outs[0]),)
        first = r if beta == 1 else r * beta
        return (first if moved is None else moved + first,)
    if op.name == "convolution":
        (x, w, b), (s, t, r) = primals, tangents
        parts = [] if s is None else [call(op, (s, w, None), attrs)]
        parts += [] if t is None else [call(op, (x, t, None), attrs)]
        if r is not None:
            parts.append(r.reshape((-1,) + (1,) * (x.ndim - 2)))
        return (_sum(parts),)
    return None


def _two_pullbacks(op: Any, primals: Any, tangents: Any, attrs: Any, outs: tuple[Any, ...]) -> Any:
    """Return the tangents as the pullback of the pullback, which is linear in the cotangent."""
    flat = [x for p in primals for x in (p if isinstance(p, tuple) else (p,))]
    moves = [t for s in tangents for t in (s if isinstance(s, tuple) else (s,))]
    levels = batches_in([*flat, *(t for t in moves if t is not None)])
    word = get_mode()
    recorded = any(y._node is not None for x in (*flat, *moves) if isinstance(x, Tensor) for y in plain(x))
    create = bool(word & GRAD) and recorded
    token = mode.set(word | GRAD)
    try:
        # What has no tangent is a constant here, but it may belong to a graph of its own.
        own = [x if t is None else fresh(x, levels) for x, t in zip(flat, moves)]
        given = iter(own)
        nested = [tuple(next(given) for _ in p) if isinstance(p, tuple) else next(given) for p in primals]
        made = call(op, nested, attrs)
        results = made if isinstance(made, tuple) else (made,)
        where = [
            i for i, r in enumerate(results) if r.dtype.is_differentiable and any(p._node is not None for p in plain(r))
        ]
        wanted = [(x, t) for x, t in zip(own, moves) if t is not None]
        cots = [fresh(ones_like(results[i]), levels) for i in where]
        rows = pull([results[i] for i in where], [x for x, _ in wanted], cots, True)
        pairs = [(r, t) for r, (_, t) in zip(rows, wanted) if r is not None]
        found = pull([r for r, _ in pairs], cots, [t for _, t in pairs], create) if pairs else [None] * len(where)
    finally:
        mode.reset(token)
    tangents_out: list[Any] = [None] * len(outs)
    for i, t in zip(where, found):
        tangents_out[i] = zeros_like(outs[i]) if t is None else t if create else settled(t)
    return tangents_out
