"""The value law: every op gives PyTorch's values, types, shapes and gradients, stored in tests/golden/ops.npz.

An op that PyTorch has no counterpart for is checked against its own `reference`, or is on the list of internal ops with
the reason beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import sapwood  # noqa: F401 - declares the ops
from sapwood.autograd import grad
from sapwood.errors import MissingError
from sapwood.ops.declare import registry
from sapwood.tensor import wrap
from sapwood.testing import laws, sampling

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


def close(got, want):
    """Return whether two arrays agree within the tolerance of their type; infinities and NaN must be the same."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    tolerance = TOLERANCE.get(want.dtype.name)
    if tolerance is None:
        return np.array_equal(got, want)
    finite = want[np.isfinite(want)]
    scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
    return np.allclose(got, want, rtol=tolerance, atol=tolerance * min(scale, 1e3), equal_nan=True)


def check(op, label, sample, stored):
    """Return what is wrong with one call, as a text; "" if nothing is."""
    wanted = tuple(stored.get("asked") or (a.dtype.kind in "fc" for a in sample.arrays()))
    if "refused" in stored:
        return ""
    try:
        given, outs = sampling.call(op, sample, wanted)
    except Exception as problem:
        return f"raises {type(problem).__name__}: {problem}"
    outs = [o for o in outs][: len(stored["outs"])]
    if len(outs) != len(stored["outs"]):
        return f"{len(outs)} outputs, expected {len(stored['outs'])}"
    for i, (o, reference) in enumerate(zip(outs, stored["outs"])):
        want = STORED.get(reference)
        if not close(o._array, want):
            return f"output {i} is {o.dtype} {tuple(o.shape)} {brief(o._array)}, expected {want.dtype} {brief(want)}"
    return gradients(op, given, outs, stored)


def gradients(op, given, outs, stored):
    """Compare the gradients of one call with the stored ones."""
    references = stored.get("grads")
    live = [o for o in outs if o.requires_grad]
    if references is None:
        return "" if not live or not op.function else "a gradient flows where PyTorch has none"
    rng = np.random.default_rng(len(op.name))
    gs = [wrap(sampling.cotangent(rng, tuple(o.shape), o._array.dtype)) for o in live]
    asked = [t for t in given if t.requires_grad]
    if not live:
        return "no output carries a gradient"
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
            if got is None or not close(got._array, want):
                return f"gradient {i} is {None if got is None else brief(got._array)}, expected {want.dtype} {brief(want)}"
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
        problem = check(op, label, sample, stored)
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
