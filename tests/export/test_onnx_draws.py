"""Random numbers in models: shape, type and moments, and others in every run."""

import numpy as np
import pytest

import sapwood
import sapwood.nn.functional as F
from sapwood import nn
from sapwood.errors import ExportError
from sapwood.export.onnx import export

onnx = pytest.importorskip("onnx", reason="exports are read by the package onnx")
runtime = pytest.importorskip("onnxruntime", reason="exports are run by the package onnxruntime")

N = 40_000
PROGRAMS = {
    "rand": (lambda a: a + sapwood.rand(N), 1.5, 1 / 12),
    "randn": (lambda a: a * sapwood.randn(N), 0, 1),
    "randn_like": (lambda a: a * sapwood.randn_like(a), 0, 1),
    "rand_like": (lambda a: a * sapwood.rand_like(a), 0.5, 1 / 12),
    "normal": (lambda a: sapwood.normal(a * 3, a * 2), 3, 4),
    "normal_": (lambda a: sapwood.empty_like(a).normal_(1, 2) * a, 1, 4),
    "uniform_": (lambda a: sapwood.empty_like(a).uniform_(-1, 3) * a, 1, 16 / 12),
    "bernoulli": (lambda a: sapwood.bernoulli(a * 0.3), 0.3, 0.21),
    "exponential_": (lambda a: sapwood.empty_like(a).exponential_(2) * a, 0.5, 0.25),
    "dropout": (lambda a: F.dropout(a, 0.2, True), 1, 0.25),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_moments(name):
    program, mean, variance = PROGRAMS[name]
    made = export(program, sapwood.ones(N))
    onnx.checker.check_model(made, full_check=True)
    runtime.set_seed(1)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    one, two = (session.run(None, {"a": np.ones(N, np.float32)})[0] for _ in range(2))
    assert one.shape == (N,)
    assert one.dtype == np.float32
    assert not np.array_equal(one, two)
    # Six standard errors of the mean; the variance's own is below 3 % of it for all of these.
    assert abs(one.mean() - mean) < 6 * (variance / N) ** 0.5
    assert abs(one.var() - variance) < 0.1 * variance


def test_dropout_in_training_with_a_dynamic_batch():
    made = export(nn.Dropout(0.5).train(), sapwood.ones(2, 50), dynamic_axes={"input": {0: "batch"}})
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"input": np.ones((7, 50), np.float32)})
    assert found.shape == (7, 50)
    assert set(np.unique(found)) == {0.0, 2.0}


def test_other_distributions_are_refused():
    with pytest.raises(ExportError, match=r"poisson at .*random numbers"):
        export(lambda a: sapwood.poisson(a), sapwood.ones(3))
