"""Pictures of modules and captured graphs."""

from __future__ import annotations

import pytest

import sapwood
from sapwood import nn, viz
from sapwood.errors import ArgumentError
from sapwood.graph import capture


def test_a_module():
    model = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    drawing = viz.draw(model, example=sapwood.ones(5, 4))
    titles = [item.title for item in drawing.items]
    assert {"input", "0.weight", "1.1.bias", "t", "addmm", "relu", "output"} <= set(titles)
    assert all(link.source < link.target for link in drawing.links)
    relu = titles.index("relu")
    assert next(k.label for k in drawing.links if k.target == relu) == "(5, 3)"
    assert drawing.text().startswith("graph Sequential")
    assert "digraph" in drawing.dot()


def test_depth_folds_modules():
    model = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    folded = viz.draw(model, example=sapwood.ones(5, 4), depth=0)
    assert [i.title for i in folded.items if i.kind == "op"] == ["Linear", "Sequential"]
    deeper = viz.draw(model, example=sapwood.ones(5, 4), depth=1)
    # The Linear of depth 0 is drawn from the inside: its transpose and its product.
    assert [i.title for i in deeper.items if i.kind == "op"] == ["t", "addmm", "ReLU", "Linear"]


def test_in_place_writes_and_views_are_marked():
    def program(x):
        y = x * 1
        y[0].add_(1)
        return y

    drawing = viz.draw(capture(program, sapwood.ones(3)))
    marks = {i.title: i.lines for i in drawing.items if i.kind == "op"}
    assert marks["add_"] == ("in place",)
    assert marks["select"] == ("view",)


def test_a_module_that_is_entered_again():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.a(self.b(self.a(x)))

    viz.draw(Twice(), example=sapwood.ones(1, 2), depth=0).svg()


def test_bad_input():
    with pytest.raises(ArgumentError, match="example="):
        viz.draw(nn.Linear(2, 2))
