"""The laws of transforms: what `vmap` and forward mode owe every op, checked from its declaration alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..autograd.run import grad
from ..errors import DtypeError, GradError
from ..func.dual import DualTensor
from ..func.level import level
from ..func.structure import batch, split, unbatch
from ..ops.declare import Op, input_names
from ..tensor import Tensor, wrap
from .laws import Sample

Array = np.ndarray[Any, Any]
COUNT = 3
_BY_VALUE = {"index", "masked_select", "nonzero", "runs", "unique2"}


def arrays_of(sample: Sample, op: type[Op]) -> list[Array]:
    """Return the arrays of a sample in order."""
    found: list[Array] = []
    _placed(op, sample, lambda a: found.append(a))
    return found


def _placed(op: type[Op], sample: Sample, place: Callable[[Array], Any]) -> Any:
    """Call `op` with place(array) for every array of the sample that is an input."""

    def convert(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return place(x)
        if isinstance(x, list) or (isinstance(x, tuple) and any(isinstance(m, np.ndarray) for m in x)):
            return type(x)(map(convert, x))
        return x

    names = set(input_names(op))
    order = [n for n, _, _ in op.params]
    args = [convert(a) if n in names else a for n, a in zip(order, sample.args)]
    kwargs = {k: convert(v) if k in names else v for k, v in sample.kwargs.items()}
    return args, kwargs


def _called(op: type[Op], sample: Sample, tensors: list[Any]) -> list[Tensor]:
    rest = iter(tensors)
    args, kwargs = _placed(op, sample, lambda a: next(rest))
    result = op.call(*args, **kwargs)
    return list(result) if isinstance(result, tuple) else [result]


def _varied(a: Array, rng: np.random.Generator) -> Array:
    """Return a batch of arrays like `a`, floats moved a little so that every example is another."""
    whole = np.stack([a] * COUNT)
    if a.dtype.kind in "fc":
        whole = whole * (1 - 0.05 * rng.random(whole.shape))
    return whole.astype(a.dtype)


def _which(count: int) -> Iterator[tuple[bool, ...]]:
    """Yield which operands are batched: all of them, and each alone."""
    yield (True,) * count
    if count > 1:
        for i in range(count):
            yield tuple(k == i for k in range(count))


def batched(op: type[Op], sample: Sample) -> None:
    """`vmap` of an op equals its results for one example after the other, stacked."""
    arrays = arrays_of(sample, op)
    if not arrays:
        return
    rng = np.random.default_rng(5)
    wholes = [_varied(a, rng) for a in arrays]
    for chosen in _which(len(arrays)):
        rows = [
            _called(op, sample, [wrap(np.asarray(w[i] if c else a).copy()) for w, a, c in zip(wholes, arrays, chosen)])
            for i in range(COUNT)
        ]
        if any(len({o._array.shape for o in column}) > 1 for column in zip(*rows)):
            continue
        with level(COUNT) as own:
            given = [batch(wrap(w.copy()), own) if c else wrap(a.copy()) for w, a, c in zip(wholes, arrays, chosen)]
            try:
                outs = [unbatch(o, own) for o in _called(op, sample, given)]
            except GradError:
                # A result whose shape depends on values is refused even where all examples agree.
                if op.name not in _BY_VALUE:
                    raise
                continue
        for got, column in zip(outs, zip(*rows), strict=True):
            want = np.stack([o._array for o in column])
            assert got._array.shape == want.shape and got._array.dtype == want.dtype, (
                f"{op.name} {sample} {chosen}: vmap gives {got._array.dtype} {got._array.shape}, the loop "
                f"{want.dtype} {want.shape}"
            )
            assert np.allclose(got._array, want, rtol=1e-10, atol=1e-12, equal_nan=True), (
                f"{op.name} {sample} {chosen}: vmap and the loop differ"
            )


def nested(op: type[Op], sample: Sample) -> None:
    """A vmap inside a vmap equals the two loops."""
    arrays = arrays_of(sample, op)
    if not arrays:
        return
    rng = np.random.default_rng(6)
    wholes = [np.stack([_varied(a, rng) for _ in range(2)]) for a in arrays]
    rows = [
        [_called(op, sample, [wrap(np.asarray(w[i, j]).copy()) for w in wholes]) for j in range(COUNT)]
        for i in range(2)
    ]
    flat = [r for row in rows for r in row]
    if any(len({o._array.shape for o in column}) > 1 for column in zip(*flat)):
        return
    with level(2) as outer, level(COUNT) as inner:
        # The inner batch of every other operand lies first in memory.
        given = [batch(batch(wrap(w.copy()), outer), inner) for w in wholes]
        try:
            outs = [unbatch(unbatch(o, inner), outer) for o in _called(op, sample, given)]
        except GradError:
            if op.name not in _BY_VALUE:
                raise
            return
    for k, got in enumerate(outs):
        want = np.stack([np.stack([rows[i][j][k]._array for j in range(COUNT)]) for i in range(2)])
        assert got._array.shape == want.shape and np.allclose(
            got._array, want, rtol=1e-10, atol=1e-12, equal_nan=True
        ), f"{op.name} {sample}: nested vmap and the loops differ"


def batched_pullback(op: type[Op], sample: Sample) -> None:
    """The gradients for a batch of cotangents equal those for one after the other."""
    given = [wrap(a.copy(order="K")) for a in arrays_of(sample, op)]
    for t in given:
        if t.dtype.is_differentiable:
            t.requires_grad_()
    outs = [o for o in _called(op, sample, given) if o.requires_grad]
    inputs = [t for t in given if t.requires_grad]
    if not inputs or not outs:
        return
    rng = np.random.default_rng(8)
    cots = [np.stack([_random(o._array, rng) for _ in range(COUNT)]) for o in outs]
    rows = [
        grad(outs, inputs, [wrap(np.asarray(c[i]).copy()) for c in cots], retain_graph=True, allow_unused=True)
        for i in range(COUNT)
    ]
    together = grad(outs, inputs, [wrap(c) for c in cots], retain_graph=True, allow_unused=True, is_grads_batched=True)
    for got, column in zip(together, zip(*rows), strict=True):
        assert (got is None) == (column[0] is None), f"{op.name} {sample}: a batched gradient is None"
        if got is not None:
            want = np.stack([g._array for g in column])
            assert got._array.shape == want.shape, f"{op.name} {sample}: {got._array.shape} for {want.shape}"
            assert np.allclose(got._array, want, rtol=1e-10, atol=1e-12, equal_nan=True), (
                f"{op.name} {sample}: batched gradients differ from those one by one"
            )


def forward(op: type[Op], sample: Sample) -> None:
    """⟨J t, g⟩ from forward mode equals ⟨t, Jᵀ g⟩ from backward, for a random direction and a random cotangent."""
    arrays = arrays_of(sample, op)
    rng = np.random.default_rng(7)
    given = [wrap(a.copy(order="K")) for a in arrays]
    for t in given:
        if t.dtype.is_differentiable:
            t.requires_grad_()
    outs = _called(op, sample, given)
    live = [i for i, o in enumerate(outs) if o.requires_grad]
    inputs = [t for t in given if t.requires_grad]
    if not inputs or not live:
        return
    cots = {i: _random(outs[i]._array, rng) for i in live}
    try:
        grads = grad([outs[i] for i in live], inputs, [wrap(cots[i]) for i in live], allow_unused=True)
    except DtypeError:
        if not any(a.dtype.kind == "c" for a in arrays):
            raise
        return
    directions = {id(t): _random(t._array, rng) for t in inputs}
    backward = sum(_dot(directions[id(t)], g._array) for t, g in zip(inputs, grads) if g is not None)
    with level() as own:
        duals = [DualTensor(t.detach(), wrap(directions[id(t)].copy()), own) if t.requires_grad else t for t in given]
        results = _called(op, sample, duals)
        total = 0.0
        for i in live:
            value, tangent = split(results[i], own)
            assert np.allclose(value._array, outs[i]._array, rtol=1e-12, atol=1e-12, equal_nan=True), (
                f"{op.name} {sample}: forward mode gives another value"
            )
            if tangent is not None:
                assert tangent._array.shape == outs[i]._array.shape, f"{op.name} {sample}: a tangent's shape differs"
                assert not tangent.requires_grad, f"{op.name} {sample}: a tangent requires grad though nothing does"
                total += _dot(tangent._array, cots[i])
    scale = 1 + abs(backward)
    assert abs(total - backward) <= 1e-9 * scale or (np.isnan(total) and np.isnan(backward)), (
        f"{op.name} {sample}: ⟨J t, g⟩ is {total} forward and {backward} backward"
    )


def _random(a: Array, rng: np.random.Generator) -> Array:
    values = np.asarray(rng.standard_normal(a.shape))
    if a.dtype.kind == "c":
        values = values + 1j * rng.standard_normal(a.shape)
    return np.asarray(values).astype(a.dtype)


def _dot(a: Array, b: Array) -> float:
    return float(np.sum((np.conj(a) * b).real))


def complex_sample(op: type[Op], sample: Sample) -> Sample | None:
    """Return the sample with complex values in place of real ones, None for an op that takes no complex numbers."""
    if "c" not in op.dtypes:
        return None
    rng = np.random.default_rng(11)

    def turn(x: Any) -> Any:
        if isinstance(x, list | tuple) and any(isinstance(m, np.ndarray) for m in x):
            return type(x)(map(turn, x))
        if isinstance(x, np.ndarray) and x.dtype.kind == "f":
            return np.asarray(x + 0.3j * rng.standard_normal(x.shape))
        return x

    return Sample(tuple(map(turn, sample.args)), {k: turn(v) for k, v in sample.kwargs.items()})


__all__ = ["arrays_of", "batched", "batched_pullback", "complex_sample", "forward", "nested"]
