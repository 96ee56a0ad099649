"""Models with dynamic sizes: every one runs on sizes that no example had, and gives what the program gives."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sapwood
import sapwood.nn.functional as F
from sapwood import nn
from sapwood.errors import ArgumentError, ExportError
from sapwood.export.onnx import export

onnx = pytest.importorskip("onnx", reason="exports are read by the package onnx")
runtime = pytest.importorskip("onnxruntime", reason="exports are run by the package onnxruntime")
runtime.set_default_logger_severity(4)


def compare(model, function, *inputs):
    onnx.checker.check_model(model, full_check=True)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {i.name: t.numpy() for i, t in zip(model.graph.input, inputs)})
    wanted = function(*inputs)
    for f, w in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        w = w.detach().numpy()
        assert (f.shape, f.dtype) == (w.shape, w.dtype)
        np.testing.assert_allclose(f, w, 1e-5, 1e-5)


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


class Words(nn.Module):
    """Words and places looked up, attention over earlier ones."""

    def __init__(self):
        super().__init__()
        self.words, self.places, self.mix = nn.Embedding(11, 8), nn.Embedding(16, 8), nn.Linear(8, 24)

    def forward(self, x):
        n, t = x.shape
        h = self.words(x) + self.places(sapwood.arange(t))
        q, k, v = (s.view(n, t, 2, 4).transpose(1, 2) for s in self.mix(h).split(8, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(n, t, 8)


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
    )


def images(n):
    return sapwood.randn(n, 3, 8, 8)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3), nn.Softmax(-1)),
            lambda n: sapwood.randn(n, 4)),
    "convolutional": (convolutional, images),
    "residual": (Residual, images),
    "group norm": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4)), images),
    "instance norm": (lambda: nn.InstanceNorm2d(3, affine=True), images),
    "pooled": (lambda: nn.AdaptiveAvgPool2d((3, 5)), images),
    "up": (lambda: nn.Sequential(nn.ConvTranspose2d(3, 4, 3, stride=2), nn.Upsample(scale_factor=2)), images),
    "lstm": (lambda: Recurrent("LSTM", num_layers=2, bidirectional=True, batch_first=True),
             lambda n: sapwood.randn(n, 6, 4)),
    "gru": (lambda: Recurrent("GRU", batch_first=True), lambda n: sapwood.randn(n, 6, 4)),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), lambda n: sapwood.randn(n, 5, 8)),
    "embedding": (lambda: nn.Sequential(nn.Embedding(11, 4), nn.Flatten(), nn.Linear(20, 3)),
                  lambda n: sapwood.randint(0, 11, (n, 5))),
    "words": (Words, lambda n: sapwood.randint(0, 11, (n, 5))),
}  # fmt: skip


@pytest.mark.parametrize("functions", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_batch(name, functions):
    sapwood.manual_seed(0)
    make, example = MODELS[name]
    model = make().eval()
    made = export(
        model, example(2), input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}}, functions=functions
    )
    for side in (made.graph.input, made.graph.output):
        assert side[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    for n in (1, 3, 7):
        compare(made, model, example(n))


@pytest.mark.parametrize("name", ["convolutional", "residual"])
def test_batch_in_training_mode(name):
    """The batch's own statistics are used, whatever the batch; exporting counts as one run of the program."""
    sapwood.manual_seed(0)
    model = MODELS[name][0]().train()
    made = export(model, images(2), dynamic_axes={"input" if name == "convolutional" else "x": {0: "batch"}})
    assert [int(b) for n, b in model.named_buffers() if n.endswith("num_batches_tracked")] == [1]
    for n in (2, 5):
        compare(made, model, images(n))


PROGRAMS = {
    "heads": lambda a: a.view(a.shape[0], a.shape[1], 2, 3).transpose(1, 2).reshape(a.shape[0], a.shape[1], 6),
    "rows": lambda a: a.view(a.shape[0] * a.shape[1], 6),
    "grown": lambda a: a[:1, :1].expand(a.shape[0], a.shape[1], 6),
    "counted": lambda a: a.sum((0, 1)) / (a.shape[0] * a.shape[1]) * a.shape[1],
    "repeated": lambda a: a[0, :1].repeat(a.shape[1], a.shape[0] + 1),
    "spread": lambda a: (a.std((0, 1)), a.var(1)),
    "last": lambda a: (a[:, -1], a[:, 1:-1], a[-1]),
    "half": lambda a: (a[:, : a.shape[1] // 2], a[:, a.shape[1] // 2 + 1 :]),
    "turned": lambda a: (a.flip(1), a.roll(1, 1), a.roll(-3, 0)),
    "sorted": lambda a: (a.sort(1)[0], a.argsort(0), a.topk(2, 1)[0]),
    "made": lambda a: sapwood.cat([a, sapwood.zeros(a.shape[0], a.shape[1], 2)], 2) + sapwood.ones(a.shape[1], 1),
    "places": lambda a: a + sapwood.arange(a.shape[1])[:, None] + sapwood.arange(3, 3 + a.shape[0]).view(-1, 1, 1),
    "masked": lambda a: (a @ a.mT).masked_fill(sapwood.ones(a.shape[1], a.shape[1]).tril() == 0, -9.0).softmax(-1),
    "loss": lambda a: F.cross_entropy(a[0], a[0].softmax(1)),
    "attention": lambda a: F.scaled_dot_product_attention(a, a, a, is_causal=True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_sizes(name):
    program = PROGRAMS[name]
    made = export(program, sapwood.randn(2, 4, 6), input_names=["x"], dynamic_axes={"x": {0: "batch", 1: "time"}})
    for n, t in ((2, 4), (5, 4), (3, 9), (4, 2)):
        compare(made, program, sapwood.randn(n, t, 6))


def test_windows_of_a_batch():
    def program(a):
        return F.unfold(a.unsqueeze(1), 2), a.unfold(1, 2, 1), a.logcumsumexp(1), a.cumprod(2)

    made = export(program, sapwood.rand(2, 4, 6), dynamic_axes={"a": [0]})
    compare(made, program, sapwood.rand(5, 4, 6))


def test_sizes_that_must_be_multiples():
    def program(a):
        return a.view(a.shape[0] // 4, 4, 3).sum(1)

    made = export(program, sapwood.ones(8, 3), dynamic_axes={"a": {0: "n"}})
    compare(made, program, sapwood.randn(20, 3))


def test_what_cannot_follow():
    x = sapwood.ones(4, 3)
    axes = {"a": {0: "n"}}
    with pytest.raises(ExportError, match=r"constant.*otherwise for other sizes"):
        export(lambda a: a * sapwood.tensor(math.sqrt(a.shape[0])), x, dynamic_axes=axes)
    with pytest.raises(ExportError, match=r"mul at .*test_dynamic.*follows a dynamic size"):
        export(lambda a: a * math.sqrt(a.shape[0]), x, dynamic_axes=axes)
    with pytest.raises(ExportError, match="other calls"):
        export(lambda a: a.exp() if a.shape[0] > 4 else a, x, dynamic_axes=axes)
    with pytest.raises(ExportError, match=r"other sizes of its dynamic_axes; it said: .*4"):
        export(lambda a: a.view(4, 3), x, dynamic_axes=axes)
    with pytest.raises(ArgumentError, match="n is 4 and 3"):
        export(lambda a: a, x, dynamic_axes={"a": {0: "n", 1: "n"}})


def test_a_model_that_does_not_follow_is_found():
    """A builder that takes a dynamic size for a fixed one is not believed."""
    from sapwood.export.onnx.exporter import BUILDERS

    old = BUILDERS["relu"]
    for shape, said in (((2, 3), r"fails in Reshape at .*test_dynamic"), ((-1, 3), "another")):
        BUILDERS["relu"] = lambda x, call, shape=shape: str(
            x.op(
                "Reshape",
                x.op(
                    "Mul",
                    x.operand(call.inputs[0]),
                    np.float32(len(call.inputs[0].shape) - int(call.inputs[0].shape[0])),
                ),
                x.ints(*shape),
            )
        )
        try:
            with pytest.raises(ExportError, match=said):
                export(lambda a: a.relu(), sapwood.ones(2, 3) * 2, dynamic_axes={"a": {0: "n"}})
        finally:
            BUILDERS["relu"] = old
