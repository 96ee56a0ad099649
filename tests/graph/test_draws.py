"""Random numbers in captured graphs: drawn again at every run, those of the program under its seed."""

from __future__ import annotations

import pytest
from agreement import agrees, identical, read_back

import sapwood
import sapwood.nn.functional as F
from sapwood import nn
from sapwood.errors import CaptureError
from sapwood.graph import capture, load, save
from sapwood.ops import drawing  # noqa: F401 - fills the table
from sapwood.ops.declare import draws

PROGRAMS = {
    "rand": lambda x: x + sapwood.rand(3, 4),
    "randn": lambda x: x + sapwood.randn(3, 4),
    "randint": lambda x: x + sapwood.randint(2, 9, (3, 4)),
    "normal": lambda x: x + sapwood.normal(1.0, 2.0, (3, 4)),
    "randperm": lambda x: x[:, sapwood.randperm(4)],
    "uniform": lambda x: (sapwood.rand_like(x), x.t().clone().t().uniform_(1, 2)),
    "normal_fill": lambda x: (sapwood.randn_like(x), sapwood.empty(4, 3).t().normal_(1, 2)),
    "random_fill": lambda x: (sapwood.randint_like(x, 5), x.clone().random_(2, 9), x.clone().random_()),
    "bernoulli_fill": lambda x: x.clone().bernoulli_(0.5),
    "bernoulli_each": lambda x: x.clone().bernoulli_(x.sigmoid()),
    "bernoulli_as": lambda x: (sapwood.bernoulli(x, 0.3), sapwood.bernoulli(x, x.sigmoid())),
    "exponential": lambda x: x.clone().exponential_(2),
    "geometric": lambda x: x.clone().geometric_(0.3),
    "cauchy": lambda x: x.clone().cauchy_(1, 2),
    "log_normal": lambda x: x.clone().log_normal_(),
    "normal_of": lambda x: (sapwood.normal(x, x.exp()), sapwood.normal(x, 2.0), sapwood.normal(0.0, x.exp())),
    "bernoulli": lambda x: sapwood.bernoulli(x.sigmoid()),
    "multinomial": lambda x: (sapwood.multinomial(x.exp(), 2), sapwood.multinomial(x.exp(), 6, True)),
    "poisson": lambda x: sapwood.poisson(x.exp()),
    "binomial": lambda x: sapwood.binomial(x.exp().ceil(), x.sigmoid()),
    "dropout_noise": lambda x: (
        F.dropout(x),
        F.dropout(x.t(), 0.3),
        F.dropout1d(x),
        F.dropout(x.clone(), inplace=True),
    ),
    "alpha_dropout_noise": lambda x: (F.alpha_dropout(x, training=True), F.feature_alpha_dropout(x, training=True)),
    "rrelu_noise": lambda x: (F.rrelu(x, training=True), F.rrelu_(x.clone(), training=True)),
}


def test_every_draw_has_a_program():
    assert PROGRAMS.keys() == draws.keys()


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_programs_numbers(name):
    graph = agrees(PROGRAMS[name], sapwood.ones(3, 4))
    assert name in {c.op.name for c in graph.calls}
    assert graph.warnings == []


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_with_gradients(name):
    agrees(PROGRAMS[name], sapwood.ones(3, 4, requires_grad=True))


def test_numbers_written_into_out():
    def program(x):
        y, z, small = sapwood.zeros(2, 3), sapwood.zeros(2, 3, dtype=sapwood.int64), sapwood.empty(0)
        sapwood.randn(2, 3, out=y)
        sapwood.randint(0, 9, (2, 3), out=z)
        sapwood.rand(4, out=small)
        sapwood.bernoulli(x.sigmoid(), out=x)
        return y, z, small

    agrees(program, sapwood.ones(2, 3))


def test_generators_of_the_program(tmp_path):
    generator = sapwood.Generator().manual_seed(5)

    def program(x):
        return x + sapwood.rand(2, generator=generator) + sapwood.rand(2)

    before = generator.get_state()
    graph = capture(program, sapwood.zeros(2))
    generator.set_state(before)
    sapwood.manual_seed(1)
    expected = program(sapwood.zeros(2))
    generator.set_state(before)
    sapwood.manual_seed(1)
    identical(read_back(graph)(sapwood.zeros(2)), expected)
    generator.set_state(before)
    save(graph, tmp_path / "g.pt")
    sapwood.manual_seed(1)
    identical(load(tmp_path / "g.pt")(sapwood.zeros(2)), expected)
    graph.generators.clear()
    with pytest.raises(CaptureError, match="no generator generator"):
        graph(sapwood.zeros(2))


def test_capture_draws_once():
    sapwood.manual_seed(0)
    capture(lambda x: x + sapwood.rand(2), sapwood.zeros(2))
    after = sapwood.rand(1)
    sapwood.manual_seed(0)
    sapwood.rand(2)
    identical(after, sapwood.rand(1))


def test_a_seed_set_inside_is_refused():
    def program(x):
        sapwood.manual_seed(3)
        return x + sapwood.rand(2)

    with pytest.raises(CaptureError, match="after a seed was set inside"):
        capture(program, sapwood.ones(2))


def test_layers():
    agrees(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3), nn.RReLU(), nn.AlphaDropout(0.2)), sapwood.ones(3, 4))
    agrees(nn.Sequential(nn.Dropout2d(0.5), nn.FractionalMaxPool2d(2, output_size=2)), sapwood.ones(2, 3, 5, 5))
    agrees(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), sapwood.ones(2, 5, 8, requires_grad=True))
    agrees(nn.MultiheadAttention(8, 2, dropout=0.2), *(sapwood.ones(5, 2, 8) for _ in range(3)))
    agrees(nn.LSTM(4, 3, num_layers=2, dropout=0.4), sapwood.ones(6, 2, 4))
