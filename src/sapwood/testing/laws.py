"""The laws: what every op obeys, checked from its declaration alone.

    for sample in samples(op): pure(op, sample); layout(op, sample); pullback(op, sample); order_two(op, sample) …

Each law raises AssertionError naming the op and the sample. They apply to third-party declarations just as well.
"""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..autograd.check import gradgradcheck
from ..autograd.mode import no_grad
from ..autograd.run import grad
from ..errors import ArgumentError
from ..ops.declare import Binary, Comparison, Op, Unary, differentiable, input_names
from ..tensor import Tensor, wrap
from .traced import Traced, replay

Array = np.ndarray[Any, Any]


class Sample(NamedTuple):
    """Arguments of one call: arrays stand for tensors."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __repr__(self) -> str:
        return f"({', '.join(map(_brief, self.args))}, **{ {k: _brief(v) for k, v in self.kwargs.items()} })"


def _brief(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{list(x.shape)}"
    return f"[{', '.join(map(_brief, x))}]" if isinstance(x, list | tuple) else repr(x)


def samples(op: type[Op]) -> list[Sample]:
    """Return the op's sample calls: its own, or those of its kind.

    Raises:
        AssertionError: a declaration without samples of a kind that has no default.
    """
    rng = np.random.default_rng(sum(map(ord, op.name)))
    if op.samples is not None:
        made = list(op.samples(rng))
    elif issubclass(op, Unary):
        made = [(_values(op, rng, shape),) for shape in ((), (5,), (2, 3), (0,), (2, 1, 3))]
    elif issubclass(op, Binary | Comparison):
        pairs = (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (3,)), ((0, 3), (3,)), ((), ()))
        made = [(_values(op, rng, a), _values(op, rng, b)) for a, b in pairs]
    else:
        raise AssertionError(f"{op.name}: the declaration has no samples, and its kind has no default ones")
    return [Sample(tuple(s[:-1]), s[-1]) if s and isinstance(s[-1], dict) else Sample(tuple(s), {}) for s in made]


def _values(op: type[Op], rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    if op.domain is None:
        values = rng.standard_normal(shape)
    else:
        values = rng.uniform(max(op.domain[0], -4.0) + 0.05, min(op.domain[1], 4.0) - 0.05, shape)
    return np.asarray(values if "f" in op.dtypes else rng.integers(0, 5, shape))


def call(op: type[Op], sample: Sample, requires_grad: bool = False) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Call the op on Tensors; return the Tensors it was given and its output Tensors."""
    given: list[Tensor] = []

    def convert(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            t = wrap(x.copy(order="K"))
            if requires_grad and x.dtype.kind in "fc":
                t.requires_grad_()
            given.append(t)
            return t
        if isinstance(x, list) or (isinstance(x, tuple) and any(isinstance(m, np.ndarray) for m in x)):
            return type(x)(map(convert, x))
        return x

    names = set(input_names(op))
    order = [n for n, _, _ in op.params]
    args = [convert(a) if n in names else a for n, a in zip(order, sample.args)]
    kwargs = {k: convert(v) if k in names else v for k, v in sample.kwargs.items()}
    result = op.call(*args, **kwargs)
    return given, tuple(result) if isinstance(result, tuple) else (result,)


def graded(op: type[Op], sample: Sample) -> tuple[list[Tensor], list[Tensor]]:
    """Call the op with every float input requiring grad; return these inputs and the outputs with a gradient."""
    given, outs = call(op, sample, requires_grad=True)
    return [t for t in given if t.requires_grad], [o for o in outs if o.requires_grad]


def cotangents(op: type[Op], outs: list[Tensor]) -> list[Tensor]:
    """Return fixed random cotangents for outputs."""
    rng = np.random.default_rng(len(op.name))
    return [wrap(np.asarray(rng.standard_normal(o._array.shape)).astype(o._array.dtype)) for o in outs]


def pure(op: type[Op], sample: Sample) -> None:
    """Inputs are unchanged; an output shares memory with an input exactly if the op is a view."""
    given, outs = call(op, sample)
    originals = [a for a in _arrays(sample) if isinstance(a, np.ndarray)]
    for before, after in zip(originals, given):
        assert np.array_equal(before, after._array, equal_nan=before.dtype.kind in "fc"), (
            f"{op.name} {sample}: an input was changed"
        )
    for out in outs:
        shared = any(np.shares_memory(out._array, t._array) for t in given)
        if out._array.size and not op.on_memory:
            assert shared == op.view, f"{op.name} {sample}: the output {'shares' if shared else 'has its own'} memory"


def _arrays(sample: Sample) -> Iterator[Any]:
    for x in (*sample.args, *sample.kwargs.values()):
        if isinstance(x, list | tuple):
            yield from x
        else:
            yield x


def layout(op: type[Op], sample: Sample) -> None:
    """Transposed, sliced and reversed memory gives the same result as contiguous memory."""
    if op.on_memory:
        return
    _, expected = call(op, sample)
    strided = Sample(tuple(_strided(a) for a in sample.args), {k: _strided(v) for k, v in sample.kwargs.items()})
    _, outs = call(op, strided)
    for got, want in zip(outs, expected, strict=True):
        assert got._array.shape == want._array.shape, f"{op.name} {sample}: the shape depends on the layout"
        same = np.allclose(got._array, want._array, rtol=1e-12, atol=1e-12, equal_nan=True)
        assert same, f"{op.name} {sample}: the values depend on the layout"


def _strided(x: Any) -> Any:
    if isinstance(x, list):
        return [_strided(m) for m in x]
    if not isinstance(x, np.ndarray) or x.ndim == 0:
        return x
    # The same values with every other element of a wider, transposed buffer under them.
    buffer = np.zeros(tuple(2 * n for n in reversed(x.shape)), x.dtype)
    view = buffer.T[tuple(slice(None, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def pullback(op: type[Op], sample: Sample, eps: float = 1e-6, tolerance: float = 2e-6) -> None:
    """⟨g, J t⟩ by central difference equals ⟨Jᵀ g, t⟩ from backward, for a random direction t."""
    inputs, outs = graded(op, sample)
    if not inputs or not outs:
        return
    gs = cotangents(op, outs)
    grads = grad(outs, inputs, gs, allow_unused=True)
    rng = np.random.default_rng(1)
    # An input without a derivative (a loss's weight) stays where it is.
    ts = [np.asarray(rng.standard_normal(t._array.shape) * (g is not None)) for t, g in zip(inputs, grads)]
    analytic = sum(float((g._array * t).sum()) for g, t in zip(grads, ts) if g is not None)
    values = []
    for sign in (1, -1):
        moved = _moved(sample, ts, sign * eps)
        with no_grad():
            results = [o for o in call(op, moved)[1] if o._array.dtype.kind == "f"]
        values.append(sum(float((o._array * g._array).sum()) for o, g in zip(results, gs)))
    numeric = (values[0] - values[1]) / (2 * eps)
    scale = 1 + max(abs(analytic), abs(numeric))
    assert abs(analytic - numeric) <= tolerance * scale * 10, (
        f"{op.name} {sample}: backward gives {analytic}, the difference quotient {numeric}"
    )


def _moved(sample: Sample, directions: list[Array], step: float) -> Sample:
    rest = iter(directions)

    def move(x: Any) -> Any:
        if isinstance(x, list | tuple) and any(isinstance(m, np.ndarray) for m in x):
            return type(x)(map(move, x))
        return np.asarray(x + step * next(rest)) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x

    return Sample(tuple(map(move, sample.args)), {k: move(v) for k, v in sample.kwargs.items()})


def order_two(op: type[Op], sample: Sample) -> None:
    """The derivative of the derivative agrees with difference quotients, in a random direction."""
    inputs, outs = graded(op, sample)
    if not inputs or not outs or sum(t.numel() for t in inputs) > 60:
        return
    reached = grad(outs, inputs, cotangents(op, outs), allow_unused=True, retain_graph=True)
    if any(g is None for g in reached):
        return

    def again(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(o for o in _recall(op, sample, tensors) if o.requires_grad)

    gs = tuple(c.requires_grad_() for c in cotangents(op, outs))
    assert gradgradcheck(again, tuple(inputs), gs, fast_mode=True), f"{op.name} {sample}"


def _recall(op: type[Op], sample: Sample, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Call the op on given Tensors in place of the sample's float arrays."""
    rest = iter(tensors)

    def place(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return next(rest) if x.dtype.kind in "fc" else wrap(x)
        if isinstance(x, list) or (isinstance(x, tuple) and any(isinstance(m, np.ndarray) for m in x)):
            return type(x)(map(place, x))
        return x

    names = set(input_names(op))
    order = [n for n, _, _ in op.params]
    args = [place(a) if n in names else a for n, a in zip(order, sample.args)]
    result = op.call(*args, **{k: place(v) if k in names else v for k, v in sample.kwargs.items()})
    return tuple(result) if isinstance(result, tuple) else (result,)


def generic(op: type[Op], sample: Sample) -> None:
    """A formula gives the same on arrays (ordinary backward) as on Tensors (create_graph)."""
    inputs, outs = graded(op, sample)
    if not inputs or not outs:
        return
    gs = cotangents(op, outs)
    plain = grad(outs, inputs, gs, retain_graph=True, allow_unused=True)
    recorded = grad(outs, inputs, gs, create_graph=True, allow_unused=True)
    for p, r in zip(plain, recorded):
        assert (p is None) == (r is None), f"{op.name} {sample}: a gradient is None in one mode only"
        if p is not None and r is not None:
            same = np.allclose(p._array, r._array, rtol=1e-12, atol=1e-12, equal_nan=True)
            assert same and p.dtype is r.dtype, f"{op.name} {sample}: formulas differ on arrays and Tensors"


def captured(op: type[Op], sample: Sample) -> None:
    """A formula runs on recording operands, and what it recorded gives the right values for other operands too."""
    if op.outs or op.many:
        return
    inputs, outs = graded(op, sample)
    node = outs[0].grad_fn if outs else None
    if node is None or not inputs or node.saved is None:
        return
    g = cotangents(op, outs)[0]._array
    formulas = [op.vjp] if op.vjp is not None else op.vjps
    needs = (tuple(e is not None for e in node.edges),) if op.vjp is not None else ()
    for formula, saved in zip(formulas, node.saved):
        if formula is None or saved is None:
            continue
        other = [np.asarray(a * 0.9 + 0.01) if _is_float(a) else a for a in (g, *saved)]
        calls: list[Any] = []
        traced = [Traced(a, calls) if isinstance(a, np.ndarray) else a for a in (g, *saved)]
        result = formula(traced[0], *needs, *traced[1:])
        values = replay(calls, {t: a for t, a in zip(traced, other) if isinstance(t, Traced)})
        expected = formula(other[0], *needs, *other[1:])
        several = isinstance(result, tuple)
        for r, e in zip(result if several else (result,), expected if several else (expected,)):
            got = values[r] if isinstance(r, Traced) else r
            same = (got is None and e is None) or np.allclose(got, e, rtol=1e-12, atol=1e-12, equal_nan=True)
            assert same, f"{op.name} {sample}: the captured formula gives other values"


def _is_float(a: Any) -> bool:
    return isinstance(a, np.ndarray) and a.dtype.kind == "f"


def no_numpy_in_formulas(op: type[Op]) -> None:
    """No formula names NumPy: it would not run on Tensors or symbols."""
    for formula in (*op.vjps, op.vjp, op.formula):
        code = getattr(formula, "__code__", None)
        if code is not None:
            assert not {"np", "numpy"} & set(code.co_names), f"{op.name}: a formula uses NumPy"


def thrift(op: type[Op], sample: Sample) -> None:
    """Nothing is kept for inputs without gradient, and a graph dies with its last reference, collector off."""
    if not differentiable(op):
        return
    on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        inputs, outs = graded(op, sample)
        if not outs:
            return
        node = outs[0].grad_fn
        assert node is not None
        dies = weakref.ref(node)
        held = weakref.ref(outs[0])
        for edge, saved in zip(node.edges, node.saved or ()):
            if edge is None and op.vjp is None and op.wants and len(node.edges) == len(input_names(op)):
                assert not saved, f"{op.name} {sample}: something is saved for an input without gradient"
        del node, outs, inputs
        assert held() is None, f"{op.name} {sample}: the output outlives its last reference"
        assert dies() is None, f"{op.name} {sample}: the node outlives its output"
    finally:
        if on:
            gc.enable()


def errors(op: type[Op]) -> None:
    """A first argument that is no tensor is refused by name, and the text names the op."""
    if not op.inputs:
        return
    rest = list(samples(op)[0].args[1:])
    try:
        op.call("text", *[wrap(a) if isinstance(a, np.ndarray) else a for a in rest], **samples(op)[0].kwargs)
    except ArgumentError as problem:
        text = str(problem)
    else:
        raise AssertionError(f"{op.name}: a text was accepted as a tensor")
    assert op.name in text and input_names(op)[0] in text, f"{op.name}: the error names too little: {text}"


def words(op: type[Op]) -> None:
    """The docstring begins with one imperative sentence."""
    first = inspect.cleandoc(op.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    assert first.endswith("."), f"{op.name}: the docstring's first paragraph must be a sentence: {first!r}"
    assert first[0].isupper() and not first.split()[0].endswith("s"), f"{op.name}: not imperative: {first!r}"


__all__ = [
    "Sample", "call", "cotangents", "errors", "generic", "graded", "layout", "no_numpy_in_formulas",
    "order_two", "pullback", "pure", "samples", "thrift", "words",
]  # fmt: skip
