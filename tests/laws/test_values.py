"""The value law: every op gives PyTorch's values, types, shapes and gradients, stored in tests/golden/ops.npz.

An op that PyTorch has no counterpart for is checked against its own `reference`, or is on the list of internal ops with
the reason beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import sapwood
from sapwood.autograd import grad
from sapwood.errors import MissingError
from sapwood.ops.declare import registry
from sapwood.tensor import wrap
from sapwood.testing import laws, sampling

sapwood.ops.complete()
GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))
from op_cases import cases, fingerprint  # noqa: E402
from ops_format import Reader  # noqa: E402
from ops_internal import INTERNAL  # noqa: E402

STORED = Reader(GOLDEN / "ops.npz")
BUILTIN = {c.__name__: c for c in (IndexError, TypeError, ValueError, RuntimeError)}

# Relative to the largest element. float64 and complex128: a sum of a few hundred terms in another order loses about
# 1e-14, special functions are accurate to about 1e-11 in either library. float32: 2^-23 per operation, some dozen of
# them in a row. Half precision: one rounding, 2^-11.
TOLERANCE = {"float64": 1e-10, "complex128": 1e-10, "float32": 4e-6, "complex64": 4e-6, "float16": 2e-3}

# PyTorch's own value is less exact than the type; ours agrees with SciPy or the exact constant.
LOOSE = {
    "digamma": 1e-8,  # the derivative: PyTorch's trigamma is an asymptotic series cut early
    "polygamma": 1e-8,
    "hardsigmoid": 1e-7,  # PyTorch's gradient holds 1/6 as float32
    "hardsigmoid_backward": 1e-7,
}

# Where PyTorch's answer is not taken over: the beginning of "op case", or "op gradient".
DIFFERS = {
    "addcmul 1.int64": "a fraction as value of integer tensors is an error here; PyTorch drops the fraction silently",
    "affine_grid_generator empty": "a shape that does not fit is a ShapeError; PyTorch misses a dimension",
    "affine_grid_generator 0d": "a shape that does not fit is a ShapeError; PyTorch misses a dimension",
    "as_strided_scatter gradient": "PyTorch's gradient by input contradicts the difference quotient",
    "cummax 1.complex128": "complex numbers have no order, also a single one",
    "cummin 1.complex128": "complex numbers have no order, also a single one",
    "mode 2.complex128": "complex numbers have no order, also a single one",
    "mm 2.bool": "bool matrices are an error also where there are no elements",
    "cummax empty": "a dimension out of range is an error also where there are no elements",
    "cummin empty": "a dimension out of range is an error also where there are no elements",
    "roll empty": "a dimension out of range is an error also where there are no elements",
}


def differs(op, label):
    """Return whether the stored answer is deliberately another one."""
    return any(f"{op.name} {label}".startswith(key) for key in DIFFERS)


def close(got, want, loose=0.0):
    """Return whether two arrays agree within the tolerance of their type; infinities and NaN must be the same."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    tolerance = TOLERANCE.get(want.dtype.name)
    if tolerance is None:
        return np.array_equal(got, want)
    tolerance = max(tolerance, loose)
    finite = want[np.isfinite(want)]
    scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
    return np.allclose(got, want, rtol=tolerance, atol=tolerance * min(scale, 1e3), equal_nan=True)


def check(op, label, sample, stored):
    """Return what is wrong with one call, as a text; "" if nothing is."""
    wanted = tuple(stored.get("asked") or (a.dtype.kind in "fc" for a in sample.arrays()))
    if "refused" in stored:
        return refusal(op, label, sample, wanted, stored["refused"])
    try:
        given, outs = sampling.call(op, sample, wanted)
    except Exception as problem:
        return f"raises {type(problem).__name__}: {problem}"
    outs = outs[: len(stored["outs"])]
    if len(outs) != len(stored["outs"]):
        return f"{len(outs)} outputs, expected {len(stored['outs'])}"
    for i, (o, reference) in enumerate(zip(outs, stored["outs"])):
        want = STORED.get(reference)
        if not close(o._array, want, LOOSE.get(op.name, 0.0)):
            return f"output {i} is {o.dtype} {tuple(o.shape)} {brief(o._array)}, expected {want.dtype} {brief(want)}"
    return gradients(op, given, outs, stored)


def refusal(op, label, sample, wanted, expected):
    """Check that a public function refuses what PyTorch refuses; more element types than PyTorch's are welcome."""
    if not (op.function or op.method) or not label.startswith(("0d", "empty")):
        return ""
    try:
        sampling.call(op, sample, wanted)
    except BUILTIN[expected]:
        return ""
    except Exception as problem:
        return f"raises {type(problem).__name__}, which is no {expected}: {problem}"
    return f"is accepted, PyTorch raises {expected}"


def gradients(op, given, outs, stored):
    """Compare the gradients of one call with the stored ones."""
    if "unwritten" in stored or differs(op, "gradient"):
        return ""
    references = stored.get("grads")
    if references is None:
        flows = op.function and any(o.requires_grad for o in outs)
        return "a gradient flows where PyTorch has none" if flows else ""
    live = [o for o, lives in zip(outs, stored["live"]) if lives]
    if not all(o.requires_grad for o in live):
        return "an output carries no gradient"
    rng = np.random.default_rng(len(op.name))
    gs = [wrap(sampling.cotangent(rng, tuple(o.shape), o._array.dtype)) for o in live]
    asked = [t for t in given if t.requires_grad]
    try:
        found = iter(grad(live, asked, gs, allow_unused=True))
    except MissingError:
        return ""
    for i, (t, reference) in enumerate(zip(given, references)):
        got = next(found) if t.requires_grad else None
        if reference is None and got is not None and np.any(got._array):
            return f"gradient {i} is {brief(got._array)}, expected none"
        if reference is not None:
            want = STORED.get(reference)
            if got is None and not np.any(want):
                continue
            if got is None or not close(got._array, want, LOOSE.get(op.name, 0.0)):
                return (
                    f"gradient {i} is {None if got is None else brief(got._array)}, expected {want.dtype} {brief(want)}"
                )
    return ""


def brief(a):
    """Return an array in one short line."""
    return f"{a.dtype}{list(a.shape)} " + np.array2string(a.ravel()[:12], precision=9, separator=",").replace("\n", "")


@pytest.mark.parametrize("name", sorted(STORED.index))
def test_values_are_those_of_pytorch(name):
    op, entries = registry[name], STORED.index[name]
    wrong = []
    for label, sample in cases(op):
        stored = entries.get(label)
        assert stored is not None and np.allclose(stored["print"], fingerprint(sample), rtol=1e-6), (
            f"{name} {label}: the samples have changed; run tests/golden/make_ops.py"
        )
        problem = "" if differs(op, label) else check(op, label, sample, stored)
        if problem:
            wrong.append(f"{name} {label} {sample}: {problem}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted(n for n, o in registry.items() if o.reference is not None))
def test_values_are_those_of_the_reference(name):
    op = registry[name]
    for sample in laws.samples(op):
        _, outs = sampling.call(op, sample)
        want = op.reference(*sample.args, **sample.kwargs)
        for o, w in zip(outs, want if isinstance(want, tuple) else (want,)):
            same = np.shape(w) == o._array.shape and np.allclose(o._array, w, rtol=1e-10, atol=1e-10, equal_nan=True)
            assert same, f"{name} {sample}: {brief(o._array)}, the reference gives {brief(np.asarray(w))}"


def test_every_op_has_values_or_a_reason():
    known = STORED.index.keys() | INTERNAL.keys() | {n for n, o in registry.items() if o.reference is not None}
    assert not registry.keys() - known
    assert not INTERNAL.keys() - registry.keys()
    assert not [n for n, e in STORED.index.items() if all("refused" in c for c in e.values())]
