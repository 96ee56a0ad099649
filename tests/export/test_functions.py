"""Modules as functions of an ONNX model."""

import numpy as np
import pytest

import sapwood
from sapwood import nn
from sapwood.export.onnx import export
from sapwood.export.onnx.functions import DOMAIN

onnx = pytest.importorskip("onnx", reason="exports are read by the package onnx")
runtime = pytest.importorskip("onnxruntime", reason="exports are run by the package onnxruntime")


class Block(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.linear, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(self.linear(x)).relu() * 2 + x


def ran(model, **inputs):
    onnx.checker.check_model(model, full_check=True)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {k: v.numpy() for k, v in inputs.items()})


def close(found, wanted):
    np.testing.assert_allclose(found, wanted.detach().numpy(), 1e-5, 1e-5)


def test_equal_modules_share_a_function():
    model = nn.Sequential(Block(), Block(), nn.Linear(3, 2))
    x = sapwood.randn(4, 3)
    made = export(model, x, functions=True)
    assert [n.op_type for n in made.graph.node] == ["Block", "Block", "Gemm"]
    assert [n.domain for n in made.graph.node] == [DOMAIN, DOMAIN, ""]
    assert [f.name for f in made.functions] == ["Block"]
    (block,) = made.functions
    assert list(block.input) == ["input", "linear.weight", "linear.bias", "norm.weight", "norm.bias"]
    # Every edge inside has its type and shape, every node the user's line and its module as seen from the function.
    typed = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in block.value_info}
    edges = {n for node in block.node for n in (*node.input, *node.output)} - {"constant"}
    assert edges <= set(typed)
    assert typed["linear.weight"] == [3, 3]
    assert all("test_functions.py" in n.doc_string for n in block.node if n.op_type != "Constant")
    assert {n.metadata_props[0].value for n in block.node if n.metadata_props} == {
        ". Block",
        "linear Linear",
        "norm LayerNorm",
    }
    close(ran(made, input=x)[0], model(x))


def test_other_sizes_make_another_function():
    model = nn.Sequential(Block(3), nn.Linear(3, 5), Block(5))
    made = export(model, sapwood.randn(2, 3), functions=True)
    assert [n.op_type for n in made.graph.node] == ["Block", "Gemm", "Block_2"]
    close(ran(made, input=sapwood.ones(2, 3))[0], model(sapwood.ones(2, 3)))


def test_functions_nest():
    model = nn.Sequential(nn.Sequential(Block(), Block()), nn.Sequential(Block(), Block()))
    made = export(model, sapwood.randn(2, 3), functions=True)
    assert [n.op_type for n in made.graph.node] == ["Sequential", "Sequential"]
    assert [f.name for f in made.functions] == ["Block", "Sequential"]
    assert [n.op_type for n in made.functions[1].node] == ["Block", "Block"]
    x = sapwood.randn(2, 3)
    close(ran(made, input=x)[0], model(x))


def test_a_module_called_twice():
    block = Block()
    made = export(lambda x: block(block(x)), sapwood.randn(2, 3), functions=True)
    assert [n.op_type for n in made.graph.node] == ["Block", "Block"]
    assert len(made.functions) == 1
    x = sapwood.randn(2, 3)
    close(ran(made, **{made.graph.input[0].name: x})[0], block(block(x)))


def test_several_results_and_what_is_read_later():
    class Two(nn.Module):
        def forward(self, x):
            a = x.exp()
            b = a + 1
            return a * 2, b, b * a

    two = Two()

    def program(x):
        a, b, c = two(x)
        return a - b, c

    x = sapwood.randn(2, 3)
    made = export(program, x, functions=True)
    assert [n.op_type for n in made.graph.node] == ["Two", "Sub"]
    assert len(made.functions[0].output) == 3
    for f, w in zip(ran(made, x=x), program(x)):
        close(f, w)


def test_a_module_whose_result_is_its_input():
    class Same(nn.Module):
        def forward(self, x):
            y = x + 1
            return x, y * y

    same = Same()
    made = export(lambda x: same(x)[1] + same(x)[0], sapwood.ones(2), functions=True)
    close(ran(made, x=sapwood.ones(2))[0], sapwood.full((2,), 5.0))


@pytest.mark.parametrize("batch", [1, 4, 7])
def test_dynamic_sizes(batch):
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2, enable_nested_tensor=False
    )
    model.eval()
    made = export(model, sapwood.randn(2, 5, 16), functions=True, dynamic_axes={"src": {0: "batch"}})
    assert [n.op_type for n in made.graph.node] == ["TransformerEncoderLayer", "TransformerEncoderLayer"]
    x = sapwood.randn(batch, 5, 16)
    close(ran(made, src=x)[0], model(x))


def test_convolutional_network_in_training_mode():
    sapwood.manual_seed(0)
    model = nn.Sequential(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2)), nn.Flatten(), nn.Linear(36, 3))
    x = sapwood.randn(2, 1, 8, 8)
    made = export(model, x, functions=True)
    assert [f.name for f in made.functions] == ["Sequential"]
    close(ran(made, input=x)[0], model(x))


def test_without_modules_nothing_changes():
    made = export(lambda x: x.exp() + 1, sapwood.ones(2), functions=True)
    assert not made.functions
    assert [o.domain for o in made.opset_import] == [""]
