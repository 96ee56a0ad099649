"""Smaller drawings of large graphs."""

from __future__ import annotations

from typing import Any

import pytest
from standins import Tensor, call, chain

import sapwood
from sapwood import nn
from sapwood.errors import ArgumentError, CaptureError, ValueRangeError
from sapwood.viz import Drawing, draw, make_dot
from sapwood.viz.folding import cut, fold_repeats, ordered
from sapwood.viz.model import Item, Link


class Deep(nn.Module):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(blocks))

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = x + block(x)
        return x


def forward_only(drawing: Drawing) -> bool:
    return all(link.source < link.target for link in drawing.links)


def test_modules_are_folded_first_the_deepest_before_the_outer_ones() -> None:
    whole = draw(Deep(5), example=sapwood.ones(1, 4))
    assert len(whole.items) == 1 + 5 * 6 + 1
    inner = draw(Deep(5), example=sapwood.ones(1, 4), limit=22)
    assert len(inner.items) == 1 + 5 * 3 + 1
    assert {item.title for item in inner.items if item.kind == "module"} == {"Linear", "Tanh"}
    assert inner.groups()[0].path == ("blocks.0",)
    outer = draw(Deep(5), example=sapwood.ones(1, 4), limit=12)
    assert [item.title for item in outer.items if item.kind == "module"] == ["Sequential"] * 5
    assert outer.items[1].lines == ("blocks.0", "3 operations")
    assert outer.groups() == []
    assert forward_only(outer)
    assert {link.label for link in outer.links if outer.items[link.source].kind == "module"} == {"(1, 4)"}


def test_then_repetitions_with_the_variables_of_their_steps() -> None:
    drawing = draw(Deep(40), example=sapwood.ones(1, 4), limit=10)
    module = next(item for item in drawing.items if item.kind == "module" and "×" in item.title)
    assert (module.title, module.lines) == ("40 ×", ("Sequential, add",))
    y = Deep(40)(sapwood.ones(1, 4)).sum()
    live = draw(y, limit=30)
    module = next(item for item in live.items if item.kind == "module")
    assert (module.title, module.lines) == ("40 ×", ("T, Addmm, Tanh, Add", "80 variables inside"))
    assert len(live.items) <= 30


def test_a_shared_variable_stays_outside_of_a_repetition() -> None:
    w = Tensor([1.0], requires_grad=True)
    h = w
    for _ in range(100):
        h = call("Tanh", call("Mul", h, w))
    drawing = draw(h, names={"w": w}, limit=50)
    assert [(item.kind, item.title) for item in drawing.items] == [
        ("leaf", "w"), ("module", "100 ×"), ("root", "output")
    ]  # fmt: skip
    assert [link.label for link in drawing.links] == ["(1,) ×101", "(1,)"]


def test_a_deep_chain_takes_one_box() -> None:
    drawing = draw(chain(20_000))
    assert [item.title for item in drawing.items] == ["leaf", "20,000 ×", "output"]
    assert len(drawing.svg()) < 10_000


def test_the_rest_is_left_out_and_counted() -> None:
    x = Tensor([1.0], requires_grad=True)
    tensors = [x, x]
    for k in range(300):  # no two operations are alike
        tensors.append(call(f"Op{'abcdefghij'[k % 10]}{'klmnopqrst'[k // 10 % 10]}{'uvw'[k // 100]}", *tensors[-2:]))
    drawing = draw(tensors[-1], limit=20)
    assert len(drawing.items) == 20
    (more,) = [item for item in drawing.items if item.kind == "more"]
    assert more.title == "… 283 more"
    assert forward_only(drawing)
    assert drawing.items[-1].kind == "root"
    assert "… 283 more" in drawing.svg()


def test_cutting_keeps_what_is_nearest_to_the_outputs() -> None:
    items = [Item("op", str(k)) for k in range(10)]
    drawing = cut(Drawing(items, [Link(k, k + 1) for k in range(9)]), 4)
    assert [item.title for item in drawing.items] == ["… 7 more", "7", "8", "9"]
    assert [(link.source, link.target) for link in drawing.links] == [(0, 1), (1, 2), (2, 3)]


def test_repetitions_of_repetitions_and_none_at_all() -> None:
    titles = "x" + "aab" * 10 + "y" + "cd" * 5 + "z"
    items = [Item("leaf", "first"), *(Item("op", title) for title in titles)]
    links = [Link(k, k + 1) for k in range(len(titles))]
    folded = fold_repeats(Drawing(items, links))
    assert [(i.title, i.lines) for i in folded.items] == [
        ("first", ()), ("x", ()), ("10 ×", ("a, a, b",)), ("y", ()), ("5 ×", ("c, d",)), ("z", ())
    ]  # fmt: skip
    plain = Drawing([Item("op", t) for t in "abcdef"], [Link(k, k + 1) for k in range(5)])
    assert [i.title for i in fold_repeats(plain).items] == list("abcdef")


def test_ordering_keeps_the_order_where_it_can() -> None:
    items = [Item("op", str(k)) for k in range(4)]
    kept = Drawing(items, [Link(0, 3), Link(1, 2)])
    assert ordered(kept) == kept
    turned = ordered(Drawing(items, [Link(3, 0), Link(0, 1)]))
    assert [item.title for item in turned.items] == ["2", "3", "0", "1"]
    cycle = ordered(Drawing(items, [Link(0, 1), Link(1, 2), Link(2, 0)]))
    assert [link.dashed for link in cycle.links] == [False, False, True]


@pytest.mark.parametrize("limit", [1, 0, -5])
def test_a_limit_that_leaves_nothing(limit: int) -> None:
    with pytest.raises(ValueRangeError, match=f"limit of at least 2 items, got {limit}"):
        draw(chain(3), limit=limit)


def test_no_limit() -> None:
    assert len(draw(chain(3000), limit=None).items) == 3002


def test_a_graph_freed_by_backward_is_drawn_and_marked() -> None:
    w = sapwood.tensor([2.0], requires_grad=True)
    y = w.exp() + w
    assert {item.marks for item in draw(y).items} == {()}
    y.backward()
    assert {item.title: item.marks for item in draw(y).items if item.kind == "op"} == {"Exp": ("freed",), "Add": ()}
    draw(y).svg()


def test_a_tensor_without_a_graph_and_a_module_that_fails() -> None:
    drawing = draw(sapwood.ones(2))
    assert [(item.kind, item.lines) for item in drawing.items] == [("root", ("value [1., 1.]",))]
    with pytest.raises(CaptureError, match=r"0 \(Linear\)"):
        draw(nn.Sequential(nn.Linear(3, 2)), example=sapwood.ones(1, 4))
    with pytest.raises(ArgumentError, match="a module has a graph only on an input"):
        draw(nn.Linear(2, 2))
    with pytest.raises(ArgumentError, match="a function has a graph only on an input"):
        draw(lambda x: x)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"direction": "up"}, ValueRangeError, "'TB' or 'LR', got 'up'"),
        ({"depth": -1}, ValueRangeError, "at least 0 levels, got -1"),
        ({"depth": 1.5}, ArgumentError, "integer or None as depth, got float"),
        ({"limit": "few"}, ArgumentError, "integer or None as limit, got str"),
        ({"names": ["w"]}, ArgumentError, "mapping from names to tensors as names, got list"),
        ({"params": 3}, ArgumentError, "as params, got int"),
        ({"module": 3}, ArgumentError, "expected a module, got int"),
    ],
)
def test_arguments_of_the_wrong_kind(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        draw(chain(2), **options)


def test_links_to_nowhere() -> None:
    with pytest.raises(ValueRangeError, match="between items 0 to 0, got one from 0 to 5"):
        Drawing([Item("op", "a")], [Link(0, 5)]).svg()
    with pytest.raises(ValueRangeError, match="from item 0 to itself"):
        Drawing([Item("op", "a")], [Link(0, 0)]).svg()


def test_make_dot_folds_its_picture_and_not_its_text() -> None:
    graph = make_dot(chain(3000))
    assert graph.source.count("tooltip=") == 3003
    assert len(graph._repr_svg_()) < 20_000
