"""`summary`: counts against numbers worked out by hand, and a module that is left as it was."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

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


def test_a_network_of_convolutions():
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 13 * 13, 10))
    rows = viz.summary(model, sapwood.ones(4, 1, 28, 28)).to_dict()
    assert [rows[str(i)]["shapes"] for i in range(3)] == [[(4, 8, 26, 26)], [(4, 8, 26, 26)], [(4, 8, 13, 13)]]
    image = 4 * 8 * 26 * 26
    assert rows["0"]["flops"] == image * (2 * 9 + 1)
    assert rows["1"]["flops"] == image
    assert rows["3"]["flops"] == 0
    assert rows["4"]["flops"] == 4 * 10 * (2 * 8 * 13 * 13 + 1)
    assert rows[""]["parameters"] == 8 * 9 + 8 + 10 * 8 * 13 * 13 + 10
    # The image for the filters' gradient; its batch of rows for the last weight.
    assert rows["0"]["saved"] == 4 * 28 * 28 * 4
    assert rows["4"]["saved"] >= 4 * 8 * 13 * 13 * 4


@pytest.mark.parametrize("batch_first", [False, True])
def test_attention(batch_first):
    """Four projections and, per head, two products; queries come with a batch, which takes `matmul`."""
    model = nn.MultiheadAttention(16, 2, batch_first=batch_first)
    x = sapwood.ones(2, 5, 16)
    n, length = (2, 5) if batch_first else (5, 2)
    s = viz.summary(model, x, x, x, need_weights=False).total
    projections = n * length * (2 * 16 * 48 + 48) + n * length * (2 * 16 * 16 + 16)
    pairs = n * 2 * length * length
    assert s.flops == projections + pairs * (2 * 8 + 2 * 8 + 5)
    assert s.parameters == 4 * (16 * 16 + 16)


def test_a_transformer():
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    rows = viz.summary(layer, sapwood.ones(2, 5, 16)).to_dict()
    assert rows["linear1"]["flops"] == 10 * (2 * 16 * 32 + 32)
    assert rows["linear2"]["flops"] == 10 * (2 * 32 * 16 + 16)
    assert rows["self_attn"]["flops"] > 10 * 2 * 16 * 16 * 4
    assert rows[""]["parameters"] == 4 * (16 * 16 + 16) + (16 * 32 + 32) + (32 * 16 + 16) + 2 * 32
    assert rows[""]["flops"] >= sum(r["flops"] for path, r in rows.items() if path and "." not in path)


@pytest.mark.parametrize(
    ("product", "flops"),
    [
        (lambda: sapwood.ones(3, 4, 5) @ sapwood.ones(5, 2), 2 * 3 * 4 * 5 * 2),
        (lambda: sapwood.ones(3, 4, 5) @ sapwood.ones(3, 5, 2), 2 * 3 * 4 * 5 * 2),
        (lambda: sapwood.ones(2, 1, 4, 5) @ sapwood.ones(3, 5, 2), 2 * 2 * 3 * 4 * 5 * 2),
        (lambda: sapwood.ones(4, 5) @ sapwood.ones(5), 2 * 4 * 5),
        (lambda: sapwood.ones(5) @ sapwood.ones(5), 2 * 5),
        (lambda: sapwood.ones(5) @ sapwood.ones(5, 2), 2 * 5 * 2),
        (lambda: sapwood.einsum("ij,jk->ik", sapwood.ones(4, 5), sapwood.ones(5, 2)), 2 * 4 * 5 * 2),
        (lambda: sapwood.vdot(sapwood.ones(5), sapwood.ones(5)), 2 * 5),
        (lambda: sapwood.cdist(sapwood.ones(4, 5), sapwood.ones(2, 5)), 3 * 4 * 5 * 2),
    ],
)
def test_products(product, flops):
    class Product(nn.Module):
        def forward(self):
            return product()

    assert viz.summary(Product()).total.flops == flops


def test_a_failure_that_the_module_deals_with():
    class Second(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(3, 2)

        def forward(self, x):
            try:
                return self.first(x)
            except RuntimeError:
                return self.second(x)

    s = viz.summary(Second(), sapwood.ones(1, 3), timed=True)
    rows = s.to_dict()
    assert rows["first"]["calls"] == rows["first"]["flops"] == 0
    assert rows["second"]["flops"] == rows[""]["flops"] == 14
    assert rows[""]["seconds"] > rows["second"]["seconds"] > 0


def test_a_module_that_calls_itself():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x, times):
            return self(x, times - 1) if times else self.inner(x)

    rows = viz.summary(Again(), sapwood.ones(1, 2), 3).to_dict()
    assert (rows[""]["calls"], rows["inner"]["calls"]) == (4, 1)
    assert rows[""]["flops"] == rows["inner"]["flops"] == 10


def test_what_is_saved_is_known_without_gradients_too():
    with sapwood.no_grad():
        assert viz.summary(nn.Linear(2, 2), sapwood.ones(1, 2)).total.saved == 8


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


def test_the_page_about_summaries():
    """Its programs run, and its first one prints what stands below it."""
    text = (Path(__file__).parents[2] / "docs" / "summary.md").read_text(encoding="utf-8")
    programs = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    assert len(programs) >= 4
    names = {"__name__": "__main__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for program in programs:
            exec(program, names)
    assert printed.getvalue() == text.split("```text\n")[1].split("```")[0]


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
    try:
        raise KeyError("being handled")
    except KeyError:
        assert viz.summary(nn.ReLU(), sapwood.ones(1)).total.calls == 1
    assert str(viz.summary(nn.Identity(), sapwood.ones(1))).endswith("0 FLOPs, 0 B kept for backward")
