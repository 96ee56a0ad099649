"""Special functions far from where the laws' samples lie: large and small arguments, poles, infinities."""

import numpy as np
import pytest

import sapwood
from sapwood import ops
from sapwood.export.onnx import export

pytest.importorskip("onnx", reason="exports are read by the package onnx")
pytest.importorskip("scipy", reason="scipy computes the special functions")
runtime = pytest.importorskip("onnxruntime", reason="exports are run by the package onnxruntime")
sapwood.ops.complete()

NAMES = (
    "special_i0e", "special_i1e", "i0", "special_i1", "erfinv", "special_ndtri", "special_erfcx", "special_log_ndtr",
    "lgamma", "digamma",
)  # fmt: skip
POINTS = [0.0, -0.0, 1, 2, -1, -2, 1e-6, -1e-6, 1e-30, 30, 60, 90, -90, 200, 1e4, 1e10, -1e10, 1 - 1e-7, 1e-38]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_everywhere(name, dtype):
    x = np.concatenate([np.linspace(-12.3, 12.3, 501), np.linspace(-1, 1, 201), POINTS, [np.inf, -np.inf, np.nan]])
    x = sapwood.tensor(x, dtype=getattr(sapwood, dtype))
    model = export(lambda a: getattr(ops, name)(a), x)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = getattr(ops, name)(x).numpy()
    np.testing.assert_allclose(session.run(None, {"a": x.numpy()})[0], wanted, 1e-5, 1e-5)
