"""Every op of the registry as an ONNX model: run by onnxruntime and compared, or refused with its reason."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import sapwood
from sapwood.errors import ExportError
from sapwood.export.onnx import export
from sapwood.export.onnx.reasons import NOT_EXPORTED
from sapwood.ops.declare import registry
from sapwood.testing import laws
from sapwood.testing.sampling import recall

onnx = pytest.importorskip("onnx", reason="exports are read by the package onnx")
runtime = pytest.importorskip("onnxruntime", reason="exports are run by the package onnxruntime")
runtime.set_default_logger_severity(4)
sapwood.ops.complete()

PARTLY = {
    "lstm_layer": "packed sequences", "gru_layer": "packed sequences", "rnn_layer": "packed sequences",
    "index": "a mask together", "scatter_reduce": "of a number", "scatter_src": "of a number",
    "scatter_value": "of a number", "scatter_add": "of a number",
}  # fmt: skip
"""Ops of which some samples are refused, and what the error says."""
VISIBLE = {"lstm_layer": 3, "gru_layer": 2, "rnn_layer": 2}
"""Results that programs see, where an op has others for its gradient alone."""


def samples(name):
    """Yield the samples of an op in single precision that the op itself takes: a program and its inputs."""
    op = registry[name]
    for sample in laws.samples(op):
        inputs = []

        def take(a, inputs=inputs):
            inputs.append(sapwood.tensor(a.astype(np.float32) if a.dtype == np.float64 else a.copy()))
            return a

        sample.map(take)

        def program(*given, sample=sample):
            made = recall(op, sample, dict(enumerate(given)))
            return made[: VISIBLE[name]] if name in VISIBLE else made

        try:
            program(*inputs)
        except Exception:
            continue
        yield program, inputs


def is_complex(tensors):
    return any(t.is_complex() for t in tensors)


@pytest.mark.parametrize("name", sorted(registry))
def test_op(name):
    tried = 0
    for program, inputs in samples(name):
        wanted = program(*inputs)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        tried += 1
        if is_complex([*inputs, *wanted]) or name in NOT_EXPORTED:
            reason = "complex" if is_complex([*inputs, *wanted]) else re.escape(NOT_EXPORTED[name])
            with pytest.raises(ExportError, match=reason):
                export(program, tuple(inputs))
            continue
        try:
            model = export(program, tuple(inputs))
        except ExportError as problem:
            if name not in PARTLY or PARTLY[name] not in str(problem):
                raise
            continue
        onnx.checker.check_model(model, full_check=True)
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        found = session.run(None, {i.name: t.numpy() for i, t in zip(model.graph.input, inputs)})
        assert len(found) == len(wanted)
        for f, w in zip(found, wanted):
            w = w.detach().numpy()
            assert (f.shape, f.dtype) == (w.shape, w.dtype)
            np.testing.assert_allclose(f, w, 1e-5, 1e-5)
    assert tried, "no sample was tried"


def test_reasons_are_those_of_ops():
    assert set(NOT_EXPORTED) <= set(registry)
    assert len(NOT_EXPORTED) < 30


def test_docs_list_the_reasons():
    """docs/export.md names every op that is not exported, under its reason."""
    text = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    rows = dict(re.findall(r"^\| (.+) \| (.+) \|$", text, re.M))
    told = {name.strip("` "): reason for names, reason in rows.items() for name in names.split(",")}
    assert {n: r for n, r in told.items() if n in registry} == NOT_EXPORTED
