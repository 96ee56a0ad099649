"""The negative log likelihood and its gradient in native code, against NumPy's way."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood import ops
from sapwood.errors import DimError, ShapeError
from sapwood.kernels import builtin
from sapwood.ops import registry, serving

if not builtin.available():
    pytest.skip(f"no native code here: {builtin.why_not()}", allow_module_level=True)

ops.complete()
SHAPES = [(64, 10), (300, 3), (4, 5, 20), (2, 3, 11, 13), (1, 300), (64, 10, 0), (3, 2)]


def cases(shape, weighted, dtype="f"):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(dtype)
    target = rng.integers(0, shape[1], (shape[0], *shape[2:]))
    target[rng.random(target.shape) < 0.2] = -100
    return x, target, rng.random(shape[1]).astype(dtype) if weighted else None


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.filterwarnings("ignore:invalid value")  # the mean of no targets, in NumPy's way
def test_agrees(shape, reduction, weighted, dtype):
    x, target, weight = cases(shape, weighted, dtype)
    loss, spread = registry["nll_loss"], registry["nll_spread"]
    native, plain = loss.native(refuse, 0), loss.forward
    result, expected = (f(x, target, weight, reduction, -100) for f in (native, plain))
    # The native sums are in double precision, NumPy's in x's own: one rounding for each of their levels.
    tolerance = 2e-6 if dtype == "f" else 1e-14
    np.testing.assert_allclose(result, expected, tolerance, tolerance)
    g = np.random.default_rng(1).standard_normal(np.shape(expected)).astype(dtype)
    native, plain = spread.native(refuse, 0), spread.forward
    result, expected = (f(np.asarray(g), target, weight, shape, reduction, -100) for f in (native, plain))
    assert result.dtype == x.dtype
    np.testing.assert_allclose(result, expected, tolerance, tolerance)


def refuse(*args):
    raise AssertionError("handed on")


@pytest.mark.parametrize("wrong", [10, -1, 1 << 40])
def test_a_wrong_target_is_explained(wrong):
    x, target, _ = cases((64, 10), False)
    target[7] = wrong
    for f in (registry["nll_loss"], registry["nll_spread"]):
        given = (
            (x, target)
            if f is registry["nll_loss"]
            else (np.float32(1).reshape(()), target, None, x.shape, "mean", -100)
        )
        with pytest.raises(DimError, match=str(wrong)):
            f.native(f.forward, 0)(*given)


def test_what_native_code_does_not_know_is_handed_on():
    x, target, _ = cases((64, 10), False)
    forward = registry["nll_loss"].native(registry["nll_loss"].forward, 0)
    assert forward(np.asfortranarray(x), target) == forward(x, target)
    assert forward(x, target.astype("u1").clip(0, 9)) > 0
    with pytest.raises(ShapeError, match="target"):
        forward(x, target[:5])
    assert serving.served(registry["nll_loss"])
