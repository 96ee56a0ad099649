"""Pictures of modules and captured graphs."""

from __future__ import annotations

import pytest

import sapwood
from sapwood import nn, viz
from sapwood.errors import ArgumentError
from sapwood.graph import capture
from sapwood.viz.folding import fold_modules
from sapwood.viz.model import Drawing, Item, Link


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
    assert [i.title for i in folded.items if not i.is_variable] == ["Linear", "Sequential"]
    assert folded.groups() == []
    deeper = viz.draw(model, example=sapwood.ones(5, 4), depth=1)
    boxes = [(i.kind, i.title, i.scope) for i in deeper.items if not i.is_variable]
    assert boxes == [
        ("op", "t", ("0",)),
        ("op", "addmm", ("0",)),
        ("module", "ReLU", ("1",)),
        ("module", "Linear", ("1",)),
    ]
    assert [(g.path, g.kind) for g in deeper.groups()] == [(("0",), "Linear"), (("1",), "Sequential")]


def test_in_place_writes_and_views_are_marked():
    def program(x):
        y = x * 1
        y[0].add_(1)
        return y

    drawing = viz.draw(capture(program, sapwood.ones(3)))
    marks = {i.title: i.marks for i in drawing.items if i.kind == "op"}
    assert marks["add_"] == ("in place",)
    assert marks["select"] == ("view",)
    assert marks["mul"] == ()
    assert ">in place</text>" in drawing.svg()


def test_what_is_written_to_buffers_is_named():
    drawing = viz.draw(nn.BatchNorm1d(3), example=sapwood.randn(4, 3))
    written = {line: i.marks for i in drawing.items if i.kind == "op" for line in i.lines}
    assert written == {
        "writes running_mean": ("in place",),
        "writes running_var": ("in place",),
        "writes num_batches_tracked": ("in place",),
    }


def test_kinds_scopes_lines_and_dtypes():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 2)
            self.register_buffer("scale", sapwood.ones(2))

        def forward(self, x):
            return self.inner(x) * self.scale + sapwood.tensor([1.0, 2.0])

    drawing = viz.draw(Scaled(), example=sapwood.ones(5, 3))
    kinds = {i.title: i.kind for i in drawing.items if i.is_variable}
    assert kinds == {
        "x": "input",
        "inner.weight": "parameter",
        "inner.bias": "parameter",
        "scale": "buffer",
        "constant": "constant",
        "output": "root",
    }
    scopes = {i.title: i.scope for i in drawing.items}
    assert scopes["inner.weight"] == scopes["addmm"] == ("inner",)
    assert scopes["x"] == scopes["mul"] == scopes["output"] == ()
    assert drawing.modules == {("inner",): "Linear"}
    lines = [i.line for i in drawing.items if i.title == "mul"]
    assert "return self.inner(x) * self.scale" in lines[0]
    assert {k.dtype for k in drawing.links} == {"float32"}


def test_every_call_of_a_shared_module_has_its_frame():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Tanh()

        def forward(self, x):
            return self.a(self.b(self.a(x)))

    drawing = viz.draw(Shared(), example=sapwood.ones(1, 2))
    assert [g.path for g in drawing.groups()] == [("a",), ("b",), ("a #2",)]
    frames = {tuple(g["path"]): g["frame"] for g in drawing.json()["groups"]}
    assert frames["a",] is not None
    assert frames["a #2",] is not None
    assert frames["b",] is None  # a single item needs none


def test_a_module_that_is_entered_again():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.a(self.b(self.a(x)))

    drawing = viz.draw(Twice(), example=sapwood.ones(1, 2), depth=0)
    boxes = [k for k, item in enumerate(drawing.items) if item.kind == "module"]
    assert [drawing.items[k].lines[0] for k in boxes] == ["a", "b", "a #2"]
    weight = [item.title for item in drawing.items].index("a.weight")
    assert [k.target for k in drawing.links if k.source == weight] == [boxes[0], boxes[2]]


def test_links_that_close_a_cycle_of_folded_modules_are_dashed_and_lead_back():
    # What a module is left and entered again by, such as a hook, makes a cycle of the folded boxes.
    inside, outside = ("m",), ()
    items = [Item("input", "x"), Item("op", "first", scope=inside), Item("op", "hook", scope=outside),
             Item("op", "second", scope=inside), Item("root", "y")]  # fmt: skip
    drawing = Drawing(items, [Link(k, k + 1, "(3,)") for k in range(4)], modules={("m",): "Module"})
    assert drawing.svg().count("<polygon") == 4
    assert drawing.json()["groups"][0]["frame"] is None  # a frame would have to hold the hook
    assert drawing.svg().count("<title>m · Module</title>") == 2  # tabs on both operations
    folded = fold_modules(drawing, 0)
    assert [(i.kind, i.title) for i in folded.items] == [
        ("input", "x"), ("module", "Module"), ("op", "hook"), ("root", "y")
    ]  # fmt: skip
    back = [k for k in folded.links if k.source > k.target]
    assert [(k.source, k.target, k.label, k.dashed) for k in back] == [(2, 1, "(3,)", True)]
    assert sum(k.dashed for k in folded.links) == 1
    assert folded.svg().count('stroke-dasharray="5 4"') == 1
    assert folded.svg().count("<polygon") == 4
    assert folded.dot().count("style=dashed") == 1
    routes = folded.json()["routes"]
    (route,) = [r for r in routes if r["back"]]
    box = folded.json()["items"][1]
    assert route["points"][-1][1] == pytest.approx(box["y"] + box["height"] / 2, abs=0.02)


def test_bad_input():
    with pytest.raises(ArgumentError, match="example="):
        viz.draw(nn.Linear(2, 2))
