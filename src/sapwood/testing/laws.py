"""The laws: what every op obeys, checked from its declaration alone.

    for sample in samples(op): pure(op, sample); layout(op, sample); pullback(op, sample); order_two(op, sample) …

Each law raises AssertionError naming the op and the sample. They apply to third-party declarations just as well.
"""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import dtypes
from ..autograd.check import gradgradcheck
from ..autograd.mode import no_grad
from ..autograd.run import grad
from ..errors import ArgumentError, GradError, MissingError, SapwoodError
from ..ops.declare import Op, differentiable, input_names, todo
from ..tensor import Tensor, wrap
from .sampling import Sample, call, cotangent, cotangents, graded, gradient_samples, recall, samples, varied
from .traced import Traced, replay

Array = np.ndarray[Any, Any]


def holds(law: str, op: type[Op]) -> bool:
    """Return whether the law applies to the op: its declaration may name a reason why not."""
    return law not in op.exempt


def pure(op: type[Op], sample: Sample) -> None:
    """Inputs are unchanged; an output shares memory with an input exactly if the op is a view."""
    given, outs = call(op, sample)
    for before, after in zip(sample.arrays(), given, strict=True):
        assert np.array_equal(before, after._array, equal_nan=before.dtype.kind in "fc"), (
            f"{op.name} {sample}: an input was changed"
        )
    if not holds("sharing", op):
        return
    for out in outs:
        shared = any(np.shares_memory(out._array, t._array) for t in given)
        if out._array.size:
            assert shared == op.view, f"{op.name} {sample}: the output {'shares' if shared else 'has its own'} memory"


def layout(op: type[Op], sample: Sample) -> None:
    """Transposed, sliced and repeated memory gives the same result as contiguous memory."""
    _, expected = call(op, sample)
    for change in (_strided, _reversed_order):
        _, outs = call(op, sample.map(change))
        for got, want in zip(outs, expected, strict=True):
            assert got._array.shape == want._array.shape, f"{op.name} {sample}: the shape depends on the layout"
            same = np.allclose(got._array, want._array, rtol=1e-12, atol=1e-12, equal_nan=True)
            assert same, f"{op.name} {sample}: the values depend on the layout"


def _strided(x: Array) -> Array:
    """Return the same values with every other element of a wider, transposed buffer under them."""
    if x.ndim == 0:
        return x
    buffer = np.zeros(tuple(2 * n for n in reversed(x.shape)), x.dtype)
    view = buffer.T[tuple(slice(None, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def _reversed_order(x: Array) -> Array:
    """Return the same values with the first dimension fastest in memory."""
    return x.copy(order="F")


def pullback(op: type[Op], sample: Sample, eps: float = 1e-6, tolerance: float = 2e-5) -> None:
    """⟨g, J t⟩ by central difference equals ⟨Jᵀ g, t⟩ from backward, for a random direction t.

    The inner product of complex numbers is Re(conj(g)·t), so that both sides are the change of one real number.
    """
    asked = varied(op, sample)
    given, outs = call(op, sample, asked)
    live = [i for i, o in enumerate(outs) if o.requires_grad]
    if not any(asked) or not live:
        return
    gs = cotangents(op, [outs[i] for i in live])
    grads = grad([outs[i] for i in live], [t for t, a in zip(given, asked) if a], gs, allow_unused=True)
    rng = np.random.default_rng(1)
    ts = [cotangent(rng, a.shape, a.dtype) for a, m in zip(sample.arrays(), asked) if m]
    analytic = sum(_inner(g._array, t) for g, t in zip(grads, ts) if g is not None)
    values = []
    for sign in (1, -1):
        steps = iter(ts)
        marks = iter(asked)
        moved = sample.map(lambda a: np.asarray(a + sign * eps * next(steps)) if next(marks) else a)  # noqa: B023
        with no_grad():
            results = call(op, moved)[1]
        values.append(sum(_inner(g._array, results[i]._array) for i, g in zip(live, gs)))
    numeric = (values[0] - values[1]) / (2 * eps)
    scale = 1 + max(abs(analytic), abs(numeric))
    assert abs(analytic - numeric) <= tolerance * scale, (
        f"{op.name} {sample}: backward gives {analytic}, the difference quotient {numeric}"
    )


def _inner(g: Array, x: Array) -> float:
    return float((np.conj(g) * x).real.sum())


def order_two(op: type[Op], sample: Sample) -> None:
    """The derivative of the derivative agrees with difference quotients, in a random direction."""
    asked = varied(op, sample)
    given, outs = call(op, sample, asked)
    inputs = {i: t for i, t in enumerate(given) if t.requires_grad}
    outs = tuple(o for o in outs if o.requires_grad)
    if not inputs or not outs:
        return

    def again(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(o for o in recall(op, sample, dict(zip(inputs, tensors))) if o.requires_grad)

    gs = tuple(c.requires_grad_() for c in cotangents(op, outs))
    try:
        assert gradgradcheck(again, tuple(inputs.values()), gs, fast_mode=True), f"{op.name} {sample}"
    except MissingError:
        return  # a second derivative that is not written says so, which is all that can be asked of it


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
    if op.outs or op.many or not holds("captured", op):
        return
    inputs, outs = graded(op, sample)
    node = outs[0].grad_fn if outs else None
    if node is None or not inputs or node.saved is None:
        return
    g = cotangents(op, outs)[0]._array
    formulas = [op.vjp] if op.vjp is not None else op.vjps
    needs = (tuple(e is not None for e in node.edges),) if op.vjp is not None else ()
    kept = dict(zip(node.keeps, node.saved))
    for formula, wanted, edge in zip(formulas, node.wants, node.edges if op.vjp is None else (node,)):
        if formula in (None, todo) or edge is None:
            continue
        saved = [kept[n] for n in wanted]
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
    if not differentiable(op) or not holds("thrift", op):
        return
    on = gc.isenabled()
    gc.disable()
    try:
        inputs, outs = graded(op, sample)
        if not outs:
            return
        node = outs[0].grad_fn
        assert node is not None
        dies = weakref.ref(node)
        held = weakref.ref(outs[0])
        names = input_names(op)
        if op.vjp is None and len(node.edges) == len(names):
            needed = {n for e, ws in zip(node.edges, op.wants) if e is not None for n in ws}
            for n, value in zip(node.keeps, node.saved):
                idle = n not in needed and isinstance(value, np.ndarray)
                assert not idle, f"{op.name} {sample}: {n} is saved for an input without gradient"
        del node, outs, inputs
        assert held() is None, f"{op.name} {sample}: the output outlives its last reference"
        assert dies() is None, f"{op.name} {sample}: the node outlives its output"
    finally:
        if on:
            gc.enable()


def inplace(op: type[Op], sample: Sample) -> None:
    """`x.op_(…)` writes what `op(x, …)` returns, records the same gradient, and refuses a leaf that requires grad."""
    first = sample.args[0] if op.params[0][0] == input_names(op)[0] else None
    if not isinstance(first, np.ndarray):
        return
    name = op.name + "_"
    method = getattr(Tensor, name)
    wanted = varied(op, sample)
    given, (expected,) = call(op, sample, wanted)
    rest = _tensors(sample, wanted)
    if expected._array.shape != first.shape or dtypes.of_numpy(first.dtype).category < expected.dtype.category:
        with _refused(name):
            method(wrap(first.copy()), *rest.args[1:], **rest.kwargs)
        return
    x = wrap(first.copy())
    base = x.requires_grad_() if wanted[0] else x
    written = method(base.clone() if wanted[0] else x, *rest.args[1:], **rest.kwargs)
    same = np.allclose(written._array, expected._array.astype(first.dtype), rtol=1e-12, atol=1e-12, equal_nan=True)
    assert same and written._array.dtype == first.dtype, f"{name} {sample}: it differs from {op.name}"
    assert wanted[0] or written is x, f"{name} {sample}: it returns another tensor"
    if expected.requires_grad and written.requires_grad and wanted[0] and expected._array.dtype == first.dtype:
        g = cotangents(op, [expected])
        (want,) = grad([expected], [given[0]], g, allow_unused=True)
        (got,) = grad([written], [base], g, allow_unused=True)
        same = (want is None) == (got is None) and (
            want is None or np.allclose(got._array, want._array, rtol=1e-10, atol=1e-10, equal_nan=True)
        )
        assert same, f"{name} {sample}: the gradient differs from that of {op.name}"
    if first.dtype.kind in "fc":
        leaf = wrap(first.copy()).requires_grad_()
        try:
            method(leaf, *rest.args[1:], **rest.kwargs)
        except GradError:
            assert np.array_equal(leaf._array, first, equal_nan=True), (
                f"{name}: the leaf was written before the refusal"
            )
        else:
            raise AssertionError(f"{name} {sample}: a leaf that requires grad was written over")


def _tensors(sample: Sample, wanted: tuple[bool, ...]) -> Sample:
    """Return the sample with fresh Tensors in place of the arrays."""
    marks = iter(wanted)
    return sample.map(lambda a: wrap(a.copy()).requires_grad_(next(marks)))


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """Require an error of ours."""
    try:
        yield
    except SapwoodError:
        return
    raise AssertionError(f"{what}: a result that the tensor cannot hold was written")


def out(op: type[Op], sample: Sample) -> None:
    """`op(…, out=o)` fills and returns `o`, resizes an empty one, and refuses where a gradient would be lost."""
    _, expected = call(op, sample)
    several = bool(op.outs or op.many)
    for fresh in (lambda e: np.zeros_like(e), lambda e: np.zeros(0, e.dtype)):
        targets = tuple(wrap(fresh(e._array)) for e in expected)
        made = sample.map(lambda a: wrap(a.copy()))
        result = op.call(*made.args, **made.kwargs, out=targets if several else targets[0])
        results = tuple(result) if several else (result,)
        assert all(r is t for r, t in zip(results, targets)), f"{op.name} {sample}: out is not what is returned"
        for t, e in zip(targets, expected):
            same = t._array.shape == e._array.shape and np.array_equal(
                t._array, e._array, equal_nan=_is_float(e._array)
            )
            assert same, f"{op.name} {sample}: out holds other values than the result"
    wanted = varied(op, sample)
    if any(wanted):
        made = _tensors(sample, wanted)
        try:
            op.call(*made.args, **made.kwargs, out=targets if several else targets[0])
        except GradError:
            return
        raise AssertionError(f"{op.name} {sample}: out= was accepted although an input requires grad")


def errors(op: Any) -> None:
    """A tensor argument that is no tensor is refused by name, and the text names the op."""
    names = input_names(op)
    if not names:
        return
    sample = samples(op)[0].map(wrap)
    order = [n for n, _, _ in op.params]
    for at, name in enumerate(order[: len(sample.args)]):
        if name not in names:
            continue
        args = [*sample.args[:at], "text", *sample.args[at + 1 :]]
        try:
            op.call(*args, **sample.kwargs)
        except ArgumentError as problem:
            text = str(problem)
        else:
            raise AssertionError(f"{op.name}: a text was accepted as {name}")
        assert op.name in text and name in text, f"{op.name}: the error names too little: {text}"


def words(op: type[Op]) -> None:
    """The docstring begins with one imperative sentence."""
    first = inspect.cleandoc(op.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    assert first.endswith("."), f"{op.name}: the docstring's first paragraph must be a sentence: {first!r}"
    assert first[0].isupper() and not first.split()[0].endswith("s"), f"{op.name}: not imperative: {first!r}"


__all__ = [
    "Sample",
    "captured",
    "errors",
    "generic",
    "graded",
    "gradient_samples",
    "holds",
    "inplace",
    "layout",
    "no_numpy_in_formulas",
    "order_two",
    "out",
    "pullback",
    "pure",
    "samples",
    "thrift",
    "words",
]  # fmt: skip
