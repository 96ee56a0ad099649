"""Graphs captured from a run: they compute what the program computed, print, and read back."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood
import sapwood.nn.functional as F
from sapwood import nn
from sapwood.errors import ArgumentError, CaptureError, ShapeError
from sapwood.graph import Graph, capture, parse, run
from sapwood.ops.declare import registry
from sapwood.testing import laws
from sapwood.testing.sampling import recall

sapwood.ops.complete()


def flat(result):
    found = []
    from sapwood.graph.ir import flatten

    flatten(result, found, lambda x: isinstance(x, sapwood.Tensor))
    return found


def same(a, b):
    a, b = flat(a), flat(b)
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert x.dtype is y.dtype
        assert np.array_equal(x.detach()._array, y.detach()._array, equal_nan=x.dtype.is_floating_point)


def reads_back(graph):
    again = parse(str(graph), {v.name: v.data for v in graph.sources() if v.data is not None})
    assert str(again) == str(graph)
    return again


def collected(sample):
    found = []

    def take(array):
        found.append(sapwood.tensor(array.copy()))
        return array

    sample.map(take)
    return found


@pytest.mark.parametrize("name", sorted(registry))
def test_every_op(name):
    op = registry[name]
    for sample in laws.samples(op)[:4]:
        tensors = collected(sample)

        def program(*given, sample=sample):
            return recall(op, sample, dict(enumerate(given)))

        sapwood.manual_seed(0)
        graph = capture(program, *tensors)
        assert [c.op.name for c in graph.calls] == [name]
        sapwood.manual_seed(0)
        expected = program(*tensors)
        sapwood.manual_seed(0)
        same(reads_back(graph)(*tensors), expected)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.out, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        q, k, v = (s.view(2, 5, 2, 4).transpose(1, 2) for s in self.mix(self.norm(x)).split(8, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.drop(self.out(y.transpose(1, 2).reshape(2, 5, 8)))


def models():
    image = sapwood.randn(2, 3, 8, 8)
    return {
        "mlp": (nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), (sapwood.randn(5, 4),)),
        "cnn": (
            nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            (image,),
        ),
        "attention": (Attention(), (sapwood.randn(2, 5, 8),)),
        "lstm": (nn.LSTM(4, 3, num_layers=2, batch_first=True), (sapwood.randn(2, 6, 4),)),
        "transformer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (sapwood.randn(2, 5, 8),)),
    }


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", ["mlp", "cnn", "attention", "lstm", "transformer"])
def test_modules(name, train):
    sapwood.manual_seed(0)
    model, example = models()[name]
    model.train(train)
    sapwood.manual_seed(1)
    graph = capture(model, *example)
    assert [v.name for v in graph.parameters] == [n for n, _ in model.named_parameters()]
    sapwood.manual_seed(1)
    expected = model(*example)
    sapwood.manual_seed(1)
    again = reads_back(graph)
    result = again(*example)
    same(result, expected)
    leaf = next(model.parameters())
    got, want = (sapwood.autograd.grad(flat(r)[0].sum(), leaf)[0] for r in (result, expected))
    assert sapwood.allclose(got, want)


def test_scopes_and_lines():
    model = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    graph = capture(model, sapwood.ones(1, 4))
    by_name = {c.results[0].name: c for c in graph.calls}
    assert [str(s) for s in by_name["addmm_2"].scope] == ["1 Sequential", "1.1 Linear"]
    assert by_name["addmm"].line.text.startswith("graph = capture(model")
    assert by_name["t"].view
    shared = nn.Linear(2, 2)
    twice = capture(nn.Sequential(shared, shared), sapwood.ones(1, 2))
    assert [c.scope[0].number for c in twice.calls if c.op.name == "addmm"] == [0, 1]


def test_writes_in_place_give_new_values():
    def program(x, y):
        base = sapwood.zeros(4)
        view = base[:2]
        view.add_(x)
        base.mul_(y)
        other = base[1:3]
        other[0] = 7
        return {"a": view * 2, "b": [base.sum(), other], "c": None}

    x, y = sapwood.ones(2), sapwood.full((4,), 3.0)
    graph = capture(program, x, y)
    same(reads_back(graph)(x, y), program(x, y))
    same(graph(x * 5, y - 1), program(x * 5, y - 1))
    assert graph(x, y)["c"] is None
    assert [c.results[0].name for c in graph.calls if c.in_place] == [
        "add", "copy_slices", "mul", "fill_over", "copy_slices_2"
    ]  # fmt: skip


def test_an_input_written_over():
    def program(x):
        x.exp_()
        return x + 1

    graph = capture(program, sapwood.zeros(2))
    given = sapwood.zeros(2)
    assert graph(given).tolist() == [2.0, 2.0]
    assert given.tolist() == [0.0, 0.0]


def test_an_input_that_is_not_used_stays():
    graph = capture(lambda x, y, *, z: x + z["k"], sapwood.ones(2), sapwood.ones(3), z={"k": sapwood.ones(2)})
    assert [v.name for v in graph.inputs] == ["x", "y", "z"]
    assert graph(sapwood.ones(2), sapwood.ones(3), sapwood.zeros(2)).tolist() == [1.0, 1.0]


def test_bad_input():
    with pytest.raises(ArgumentError, match="a module or a function, got int"):
        capture(3)
    with pytest.raises(ArgumentError, match="no tensor"):
        capture(lambda x: 3, sapwood.ones(2))
    with pytest.raises(CaptureError, match=r"ShapeError in 1 \(Linear\)") as problem:
        capture(nn.Sequential(nn.ReLU(), nn.Linear(4, 3)), sapwood.ones(2, 5))
    assert isinstance(problem.value.__cause__, ShapeError)
    graph = capture(lambda x: x + 1, sapwood.ones(2))
    with pytest.raises(ShapeError, match=r"captured as float32\[2\], got float32\[3\]"):
        graph(sapwood.ones(3))
    with pytest.raises(ArgumentError, match=r"takes 1 inputs \(x\), got 2"):
        graph(sapwood.ones(2), 1)
    with pytest.raises(ArgumentError, match="must be a tensor, got list"):
        graph([1, 2])
    module = capture(nn.Linear(2, 2), sapwood.ones(1, 2))
    with pytest.raises(CaptureError, match="no data for parameter weight"):
        parse(str(module))(sapwood.ones(1, 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph g\nreturn %x", "line 2"),
        ("graph g\ninput x: float32[2]", "ends without"),
        ("graph g\ninput x: float33[2]\nreturn %x", "line 2"),
        ("graph g\ninput x: float32[2]\nrelu: float32[2] = relo(%x)\nreturn %relu", "relo"),
        ("graph g\ninput x: float32[2]\ninput x: float32[2]\nreturn %x", "two values"),
    ],
)
def test_text_that_is_no_graph(text, message):
    with pytest.raises(CaptureError, match=message):
        parse(text)


def test_data_given_to_run():
    graph = capture(nn.Linear(2, 1, bias=False), sapwood.ones(1, 2))
    assert isinstance(graph, Graph)
    result = run(graph, sapwood.ones(1, 2), data={"weight": sapwood.full((1, 2), 3.0)})
    assert result.tolist() == [[6.0]]


def test_one_tensor_as_two_arguments():
    x = sapwood.ones(2)
    graph = capture(lambda a, b: a - b * 2, x, x)
    assert [v.name for v in graph.inputs] == ["a", "b"]
    assert graph(sapwood.ones(2), sapwood.zeros(2)).tolist() == [1.0, 1.0]


def test_random_numbers_are_drawn_again():
    graph = capture(lambda x: x + sapwood.rand(2), sapwood.ones(2))
    assert [c.op.name for c in graph.calls] == ["rand", "add"]
    assert graph.warnings == []
    sapwood.manual_seed(3)
    first = reads_back(graph)(sapwood.ones(2))
    assert not sapwood.equal(first, graph(sapwood.ones(2)))
    sapwood.manual_seed(3)
    assert sapwood.equal(first, 1 + sapwood.rand(2))


def test_backward_inside_is_refused():
    w = sapwood.ones(2, requires_grad=True)

    def program(x):
        return sapwood.autograd.grad((w * x).sum(), w)[0]

    with pytest.raises(CaptureError, match=r"runs grad\(\) at .*test_capture"):
        capture(program, sapwood.ones(2))
    program(sapwood.ones(2))
    (w * 2).sum().backward()

    def step(x):
        (w * x).sum().backward()
        return w.grad

    with pytest.raises(CaptureError, match=r"runs backward\(\) at .*test_capture"):
        capture(step, sapwood.ones(2))


def test_writes_past_the_ops_are_refused():
    def by_array(x):
        y = x * 1
        y.numpy()[0] = 7
        return y * 2

    def by_numpy(x):
        y = x * 1
        np.add(x, 1, out=y)
        return y * 2

    x = sapwood.tensor([1.0, 2.0])
    with pytest.raises(CaptureError, match="no call shows"):
        capture(by_array, x)
    with pytest.raises(CaptureError, match=r"np\.add at .*test_capture\.py.*wrote to mul"):
        capture(by_numpy, x)
