"""ONNX models: checked in full, run by onnxruntime, compared with eager."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood
import sapwood.nn.functional as F
from sapwood import nn
from sapwood.errors import ArgumentError, CaptureError, ExportError
from sapwood.export.onnx import export

onnx = pytest.importorskip("onnx", reason="exports are read by the package onnx")
runtime = pytest.importorskip("onnxruntime", reason="exports are run by the package onnxruntime")
runtime.set_default_logger_severity(4)


def ran(model, *inputs):
    onnx.checker.check_model(model, full_check=True)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: t.numpy() for i, t in zip(model.graph.input, inputs)})


def compare(model, function, *inputs):
    wanted = function(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    found = ran(model, *inputs)
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted):
        w = w.detach().numpy()
        assert f.shape == w.shape
        assert f.dtype == w.dtype
        np.testing.assert_allclose(f, w, 1e-5, 1e-5)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.wide = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = (s.view(n, t, 2, 4).transpose(1, 2) for s in self.mix(self.norm(x)).split(8, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
        return x + self.wide(x)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)

    def forward(self, x):
        return F.avg_pool2d(F.max_pool2d((self.norm(self.first(x)) + x).relu(), 2), 2)


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layer = getattr(nn, kind)(4, 5, **options)

    def forward(self, x):
        return self.layer(x)[0]


def models():
    return {
        "mlp": (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3), nn.Softmax(-1)), (5, 4)),
        "residual": (Residual(), (2, 3, 8, 8)),
        "block": (Block(), (2, 5, 8)),
        "lstm": (Recurrent("LSTM", num_layers=2, bidirectional=True), (6, 2, 4)),
        "gru": (Recurrent("GRU", batch_first=True), (2, 6, 4)),
        "rnn": (Recurrent("RNN", nonlinearity="relu"), (6, 2, 4)),
        "pooled": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()), (2, 3, 8, 8)),
        "up": (
            nn.Sequential(nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), nn.GroupNorm(2, 4)),
            (1, 3, 4, 4),
        ),
        "transformer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8)),
    }


@pytest.mark.parametrize("name", models())
def test_models(name):
    sapwood.manual_seed(0)
    model, shape = models()[name]
    model.eval()
    x = sapwood.randn(*shape)
    made = export(model, x)
    compare(made, model, x)
    assert {i.name for i in made.graph.initializer} >= {
        n for n, _ in model.named_parameters() if any(n in node.input for node in made.graph.node)
    }
    assert any(
        "return" in node.doc_string or "model" in node.doc_string or ".py" in node.doc_string
        for node in made.graph.node
    )


@pytest.mark.parametrize("name", ["mlp", "block", "pooled", "lstm"])
def test_dynamic_sizes(name):
    sapwood.manual_seed(0)
    model, shape = models()[name]
    model.eval()
    axis = 1 if name == "lstm" else 0
    made = export(
        model, sapwood.randn(*shape), input_names=["x"], output_names=["y"], dynamic_axes={"x": {axis: "batch"}}
    )
    assert made.graph.input[0].type.tensor_type.shape.dim[axis].dim_param == "batch"
    assert made.graph.output[0].type.tensor_type.shape.dim[axis].dim_param == "batch"
    for n in (1, 3, 7):
        larger = list(shape)
        larger[axis] = n
        compare(made, model, sapwood.randn(*larger))


def test_names_shapes_and_files(tmp_path):
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    made = export(model, (sapwood.ones(2, 4),), tmp_path / "m.onnx", input_names=["image"], output_names=["scores"])
    assert onnx.load(tmp_path / "m.onnx") == made
    assert [i.name for i in made.graph.input] == ["image"]
    assert [o.name for o in made.graph.output] == ["scores"]
    assert [n.op_type for n in made.graph.node if n.op_type != "Identity"] == ["Gemm", "Relu"]
    assert made.opset_import[0].version == 21
    known = {v.name for v in made.graph.value_info} | {o.name for o in made.graph.output}
    assert all(o in known for n in made.graph.node for o in n.output)
    assert made.graph.node[0].metadata_props[0].value == "0 Linear"
    assert list(tmp_path.iterdir()) == [tmp_path / "m.onnx"]


def test_bad_input(tmp_path):
    x = sapwood.ones(2, 3)
    with pytest.raises(ExportError, match=r"igamma at .*test_onnx"):
        export(lambda a: sapwood.igamma(a, a), x, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ArgumentError, match="2 input_names for 1 inputs"):
        export(nn.ReLU(), x, input_names=["a", "b"])
    with pytest.raises(CaptureError, match="Linear"):
        export(nn.Linear(4, 2), x)
    with pytest.raises(ArgumentError, match="2 dimensions"):
        export(nn.ReLU(), x, dynamic_axes={"input": {5: "n"}})
    with pytest.raises(ExportError, match="complex"):
        export(lambda a: a * 1j, x)


def test_weights_beyond_one_file(tmp_path, monkeypatch):
    """What is too large for one file has its weights beside it, and loads as before; a failure leaves nothing."""
    from sapwood.export.onnx import model as model_writer

    monkeypatch.setattr(model_writer, "MOST", 1000)
    model, x, path = nn.Linear(40, 30), sapwood.randn(2, 40), tmp_path / "m.onnx"
    export(model, x, path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    assert path.stat().st_size < 1500
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"input": x.numpy()})[0], model(x).detach().numpy(), 1e-5, 1e-5)
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    monkeypatch.setattr(onnx, "save", lambda *a, **k: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        export(model, x, path)
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before
