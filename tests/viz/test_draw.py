"""Drawings, SVG, DOT and make_dot over stand-in graphs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from standins import Module, Tensor, call, chain, tutorial

from sapwood.errors import ArgumentError, ValueRangeError
from sapwood.viz import Drawing, draw, make_dot

SVG = "{http://www.w3.org/2000/svg}"


def named(drawing: Drawing) -> dict[str, str]:
    return {item.title: item.kind for item in drawing.items if item.kind != "op"}


def ends(drawing: Drawing) -> list[tuple[str, str]]:
    return sorted((drawing.items[link.source].title, drawing.items[link.target].title) for link in drawing.links)


def shapes(svg: str) -> Counter[str]:
    """Return how many items of each kind an SVG document shows."""
    root = ElementTree.fromstring(svg)
    kinds = [g.get("class") for g in root.iter(f"{SVG}g") if g.find(f"{SVG}title") is not None]
    return Counter(kind for kind in kinds if kind)


def test_the_tutorial_graph() -> None:
    tensors = tutorial()
    drawing = draw(tensors["y"], names=tensors)
    assert named(drawing) == {"x": "leaf", "w": "leaf", "a": "nonleaf", "b": "nonleaf", "y": "root"}
    assert Counter(item.title for item in drawing.items if item.kind == "op") == {"Add": 2, "Mul": 1}
    assert ends(drawing) == sorted(
        [("x", "Add"), ("w", "Add"), ("w", "Add"), ("Add", "a"), ("Add", "b"), ("a", "Mul"), ("b", "Mul"), ("Mul", "y")]
    )
    lines = {item.title: item.lines for item in drawing.items}
    assert lines["w"] == ("value 1.", "grad 5.")
    assert lines["a"] == ("value 3.", "grad 2.")
    assert lines["b"] == ("value 2.",)
    assert "grad_fn MulBackward0" in next(item.tip for item in drawing.items if item.title == "y")
    assert shapes(drawing.svg()) == {"leaf": 2, "nonleaf": 2, "root": 1, "op": 3}


def test_operations_connect_directly_when_results_have_no_name() -> None:
    tensors = tutorial()
    drawing = draw(tensors["y"], params={"w": tensors["w"], "x": tensors["x"]})
    assert ends(drawing) == sorted(
        [("x", "Add"), ("w", "Add"), ("w", "Add"), ("Add", "Mul"), ("Add", "Mul"), ("Mul", "output")]
    )
    assert {link.label for link in drawing.links} == {"(1,)"}


def test_values_can_be_left_out_and_large_tensors_show_their_shape() -> None:
    tensors = tutorial()
    small = draw(tensors["y"], names=tensors, show_values=False)
    assert {item.lines for item in small.items if item.is_variable} == {("(1,)",)}
    assert not any(link.label for link in small.links if small.items[link.source].is_variable)
    large = draw(call("Relu", Tensor([[0.5] * 6] * 2, requires_grad=True), value=[[0.5] * 6] * 2))
    leaf = large.items[0]
    assert leaf.lines == ("(2, 6)",)
    assert "value [0.5, 0.5, 0.5, …]" in leaf.tip


def test_an_argument_given_twice_is_one_link_with_a_count() -> None:
    x = Tensor([2.0], requires_grad=True)
    drawing = draw(call("Mul", x, x))
    assert [link.label for link in drawing.links] == ["(1,) ×2", "(1,)"]


def test_outputs_of_one_node_are_told_apart() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    first = call("Split", x, value=[1.0])
    second = Tensor([2.0], grad_fn=first.grad_fn, output_nr=1)
    drawing = draw(call("Mul", first, second), names={"first": first, "second": second})
    assert ends(drawing) == sorted(
        [
            ("leaf", "Split"),
            ("Split", "first"),
            ("Split", "second"),
            ("first", "Mul"),
            ("second", "Mul"),
            ("Mul", "output"),
        ]
    )


def test_names_from_a_module_and_tensors_without_gradient() -> None:
    weight, table, unused = Tensor([3.0], requires_grad=True), Tensor([4.0]), Tensor([5.0])
    y = call("Mul", weight, table)
    y.grad_fn._saved_other = table
    y.grad_fn._saved_self = weight
    drawing = draw(y, module=Module({"layer.weight": weight}, {"table": table, "unused": unused}))
    assert named(drawing) == {"layer.weight": "leaf", "table": "buffer", "output": "root"}


def test_several_roots_share_their_graph() -> None:
    tensors = tutorial()
    drawing = draw([tensors["a"], tensors["y"]], names=tensors)
    assert named(drawing)["a"] == "root"
    assert len(drawing.items) == 8


def test_a_leaf_alone_is_a_drawing() -> None:
    leaf = Tensor([1.0], requires_grad=True)
    assert named(draw(leaf, names={"w": leaf})) == {"w": "root"}
    assert shapes(draw(leaf).svg()) == {"root": 1}


def test_a_user_node_may_keep_something_called_variable() -> None:
    y = call("Mine", Tensor([1.0], requires_grad=True))
    y.grad_fn.variable = 3
    assert "Mine" in {item.title for item in draw(y).items}


def test_names_that_xml_does_not_allow_are_cleaned() -> None:
    tensors = tutorial()
    svg = draw(tensors["y"], names={'<a> & "b"\x00\x1b\ud800': tensors["w"]}).svg()
    texts = [t.text for t in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert '<a> & "b"\ufffd\ufffd\ufffd' in texts


def test_output_is_deterministic() -> None:
    first, second = tutorial(), tutorial()
    one, two = draw(first["y"], names=first), draw(second["y"], names=second)
    assert one.svg() == two.svg() == one._repr_svg_()
    assert one.dot() == two.dot()
    assert one.text() == two.text()


def test_a_thousand_nodes_and_a_deep_chain() -> None:
    assert shapes(draw(chain(1000)).svg())["op"] == 1000
    assert len(draw(chain(100_000), limit=None).items) == 100_002


@pytest.mark.parametrize("direction", ["TB", "LR"])
def test_links_point_along_the_flow(direction: str) -> None:
    tensors = tutorial()
    drawing = draw(tensors["y"], names=tensors, direction=direction)
    root = ElementTree.fromstring(drawing.svg())
    assert (float(root.get("width", 0)) > float(root.get("height", 0))) == (direction == "LR")
    assert len(root.findall(f".//{SVG}polygon")) == len(drawing.links)


@pytest.mark.parametrize("suffix", [".svg", ".dot", ".txt"])
def test_saving_by_suffix(tmp_path: Path, suffix: str) -> None:
    tensors = tutorial()
    drawing = draw(tensors["y"], names=tensors)
    path = drawing.save(tmp_path / f"graph{suffix}")
    expected = {".svg": drawing.svg(), ".dot": drawing.dot(), ".txt": drawing.text() + "\n"}[suffix]
    assert path.read_text(encoding="utf-8") == expected


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_saving_through_matplotlib(tmp_path: Path, suffix: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    tensors = tutorial()
    path = draw(tensors["y"], names=tensors).save(tmp_path / f"graph{suffix}")
    assert path.read_bytes().startswith(start)


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    tensors = tutorial()
    with pytest.raises(ValueRangeError, match=r"expected a path ending in \.svg"):
        draw(tensors["y"]).save(tmp_path / "graph.bmp")
    with pytest.raises(ArgumentError, match="draw: expected a tensor or several, got int"):
        draw(3)
    with pytest.raises(ArgumentError, match="draw: expected at least one tensor, got none"):
        draw([])
    with pytest.raises(ArgumentError, match="draw: expected tensors, got str"):
        draw(["y"])


STATEMENT = re.compile(
    r'  (graph|node|edge|n\d+)( -> n\d+)?( \[\w+=("(\\.|[^"\\\n])*"|[\w]+)(, \w+=("(\\.|[^"\\\n])*"|[\w]+))*\])?'
)


def check_dot(text: str) -> tuple[int, int]:
    """Return the numbers of nodes and edges in DOT text, after checking every line of it."""
    first, *body, last = text.rstrip("\n").split("\n")
    assert (first, last) == ("digraph {", "}")
    assert [line for line in body if not STATEMENT.fullmatch(line)] == []
    edges = [line for line in body if " -> " in line.split("[")[0]]
    nodes = [line for line in body if re.match(r"  n\d+ \[", line)]
    return len(nodes), len(edges)


def test_dot_has_every_item_and_link() -> None:
    tensors = tutorial()
    assert check_dot(draw(tensors["y"], names=tensors).dot()) == (8, 8)
    odd = draw(tensors["y"], names={'back\\slash "quoted"\nline]': tensors["w"]})
    assert check_dot(odd.dot()) == (6, 6)
    assert r'label="back\\slash \"quoted\"\nline]\nvalue 1.\ngrad 5."' in odd.dot()


def test_make_dot_shows_every_node_by_class_name(tmp_path: Path) -> None:
    tensors = tutorial()
    graph = make_dot(tensors["y"], params={"w": tensors["w"], "x": tensors["x"]})
    titles = Counter(item.title for item in graph.drawing.items)
    assert titles == {"w": 1, "x": 1, "AccumulateGrad": 2, "AddBackward0": 2, "MulBackward0": 1, "(1,)": 1}
    assert check_dot(graph.source) == (8, 8)
    assert str(graph) == graph.source
    assert Path(graph.save(tmp_path / "g.gv")).read_text(encoding="utf-8") == graph.source
    picture = graph.render("g", directory=tmp_path / "new")
    assert picture == str(tmp_path / "new" / "g.svg")
    assert shapes(Path(picture).read_text(encoding="utf-8")) == {"leaf": 2, "root": 1, "op": 5}
    assert (tmp_path / "new" / "g").read_text(encoding="utf-8") == graph.source
    graph.render("only", directory=tmp_path, cleanup=True)
    assert not (tmp_path / "only").exists()
    with pytest.raises(ValueRangeError, match="got 'jpeg'"):
        graph.render("g", directory=tmp_path, format="jpeg")


def test_make_dot_shows_what_nodes_keep() -> None:
    x = Tensor([2.0], requires_grad=True)
    y = call("Pow", x)
    y.grad_fn._saved_self = x
    y.grad_fn._saved_exponent = "7" * 60
    node = next(i for i in make_dot(y, show_attrs=True, max_attr_chars=10).drawing.items if i.title == "PowBackward0")
    assert node.lines == ("exponent: 777777777…", "self: (1,)")
    kinds = Counter(item.kind for item in make_dot(y, show_saved=True).drawing.items)
    assert kinds == {"leaf": 1, "saved": 1, "op": 2, "root": 1}
    with pytest.raises(ValueRangeError, match="at least 3, got 2"):
        make_dot(y, max_attr_chars=2)


def test_make_dot_shows_the_base_of_a_view() -> None:
    base = call("Mul", Tensor([[1.0]], requires_grad=True), value=[[1.0]])
    view = call("View", base)
    view._base = base  # type: ignore[attr-defined]
    drawing = make_dot(view).drawing
    assert Counter(item.kind for item in drawing.items) == {"leaf": 1, "op": 3, "root": 1, "base": 1}
    assert sum(link.dashed for link in drawing.links) == 1


def test_links_carry_shape_and_dtype():
    """Of a tensor's graph and of a captured one; the usual dtype is not written."""
    import sapwood
    from sapwood import viz

    x = sapwood.ones(2, 3, dtype=sapwood.float64, requires_grad=True)
    drawing = viz.draw((x * 2).exp().to(sapwood.float32).sum())
    assert ("(2, 3) float64", "float64") in [(k.label, k.dtype) for k in drawing.links]
    assert ("(2, 3)", "float32") in [(k.label, k.dtype) for k in drawing.links]
    drawing = viz.draw(lambda x: (x.argmax(1) + 1).exp(), example=sapwood.ones(2, 3))
    assert ("(2,) int64", "int64") in [(k.label, k.dtype) for k in drawing.links]
