"""`summary`: counts against numbers worked out by hand, and a module that is left as it was."""

from __future__ import annotations

import pytest

import sapwood
from sapwood import nn, viz
from sapwood.errors import ArgumentError, CaptureError


def test_a_perceptron():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2, bias=False))
    model[2].weight.requires_grad_(False)
    s = viz.summary(model, sapwood.ones(5, 4))
    assert [r.path for r in s.rows] == ["", "0", "1", "2"]
    assert [r.shapes for r in s.rows] == [[(5, 2)], [(5, 3)], [(5, 3)], [(5, 2)]]
    assert (s.total.parameters, s.total.frozen) == (4 * 3 + 3, 6)
    assert [r.flops for r in s.rows] == [120 + 15 + 15 + 60, 2 * 5 * 4 * 3 + 15, 15, 2 * 5 * 3 * 2]
    # The input of the first layer, the result of the second; a frozen weight needs no input kept.
    assert s.rows[1].saved == 5 * 4 * 4
    text = str(s)
    assert "0 (Linear)" in text
    assert "15 trained, 6 frozen" in text
    assert "time" not in text
    assert "<table>" in s._repr_html_()


def test_layers():
    conv = viz.summary(nn.Conv2d(3, 8, 3, padding=1), sapwood.ones(2, 3, 5, 5)).total
    assert conv.flops == 2 * 2 * 8 * 5 * 5 * 3 * 9 + 2 * 8 * 5 * 5
    up = viz.summary(nn.ConvTranspose2d(3, 8, 2, stride=2, bias=False), sapwood.ones(2, 3, 5, 5)).total
    assert up.flops == 2 * (2 * 3 * 5 * 5) * 8 * 4
    lstm = viz.summary(nn.LSTM(4, 6), sapwood.ones(7, 2, 4)).total
    assert lstm.shapes[0] == (7, 2, 6)
    assert lstm.flops == 7 * 2 * (2 * 24 * (4 + 6) + 6 * 24)
    norm = viz.summary(nn.BatchNorm1d(3), sapwood.ones(5, 3)).total
    assert norm.buffers == 3 + 3 + 1


def test_shared_and_repeated_and_unused():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.unused = nn.Linear(2, 2), nn.Linear(5, 5)
            self.b = nn.Linear(2, 2)
            self.b.weight = self.a.weight

        def forward(self, x, *, scale):
            return {"out": self.b(self.a(self.a(x))) * scale["by"]}

    s = viz.summary(Model(), sapwood.ones(1, 2), scale={"by": sapwood.ones(1)})
    rows = s.to_dict()
    assert rows["a"]["calls"] == 2
    assert rows["unused"]["calls"] == 0
    assert rows["b"]["parameters"] == 2
    assert rows[""]["parameters"] == 4 + 2 + 2 + 30
    assert "not called" in str(s)
    assert "×2" in str(s)


def test_the_module_is_left_as_it_was():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    before = {n: b.clone() for n, b in model.named_buffers()}
    state = sapwood.get_rng_state()
    s = viz.summary(model, sapwood.randn(4, 3), timed=True)
    assert s.total.seconds > 0
    assert model.training
    assert all(sapwood.equal(b, before[n]) for n, b in model.named_buffers())
    assert all(p.grad is None for p in model.parameters())
    assert not model[0]._forward_hooks
    sapwood.set_rng_state(state)


def test_depth():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.ReLU())
    assert "Linear" not in str(viz.summary(model, sapwood.ones(1, 2), depth=1))
    assert "Linear" in str(viz.summary(model, sapwood.ones(1, 2)))


def test_bad_input():
    with pytest.raises(ArgumentError, match="a module, got int"):
        viz.summary(3)
    model = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(4, 3)))
    with pytest.raises(CaptureError, match=r"1\.0 \(Linear\) raised ShapeError on float32 \(2, 5\)"):
        viz.summary(model, sapwood.ones(2, 5))
    assert not model[0]._forward_hooks
