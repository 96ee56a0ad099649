"""The text tree over stand-in graphs."""

from __future__ import annotations

from standins import Module, Tensor, call, chain, tutorial

from sapwood.viz import graph_text


def test_the_tutorial_graph() -> None:
    tensors = tutorial()
    assert graph_text(tensors["y"], names=tensors).splitlines() == [
        "y = [6.]  shape=(1,)  is_leaf=False  grad=None (not retained)  grad_fn=MulBackward0",
        "├─ a = [3.]  shape=(1,)  is_leaf=False  grad=[2.]  grad_fn=AddBackward0",
        "│  ├─ x = [2.]  shape=(1,)  is_leaf=True  grad=[2.]  grad_fn=None",
        "│  └─ w = [1.]  shape=(1,)  is_leaf=True  grad=[5.]  grad_fn=None",
        "└─ b = [2.]  shape=(1,)  is_leaf=False  grad=None (not retained)  grad_fn=AddBackward0",
        "   └─ w  (see above)",
    ]


def test_without_names_shared_nodes_get_numbers() -> None:
    x = Tensor([2.0], requires_grad=True)
    square = call("Mul", x, x, value=[4.0])
    assert graph_text(call("Add", square, square, value=[8.0]), show_values=False).splitlines() == [
        "output  shape=(1,)  is_leaf=False  grad=None (not retained)  grad_fn=AddBackward0",
        "├─ MulBackward0 #1  shape=(1,)",
        "│  ├─ leaf #2  shape=(1,)  is_leaf=True  grad=None  grad_fn=None",
        "│  └─ leaf #2  (see above)",
        "└─ MulBackward0 #1  (see above)",
    ]


def test_a_second_output_is_described_before_it_refers_to_the_first() -> None:
    first = call("Split", Tensor([1.0, 2.0], requires_grad=True), value=[1.0])
    second = Tensor([2.0], grad_fn=first.grad_fn, output_nr=1)
    lines = graph_text(call("Mul", first, second), names={"p": first, "q": second}).splitlines()
    assert lines[1].startswith("├─ p = [1.]  shape=(1,)")
    assert lines[3] == (
        "└─ q = [2.]  shape=(1,)  is_leaf=False  grad=None (not retained)  grad_fn=SplitBackward0  (see above)"
    )


def test_several_roots_and_leaves() -> None:
    tensors = tutorial()
    lines = graph_text([tensors["w"], tensors["b"], tensors["a"]], names=tensors).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["w", "b", "└─", "a", "├─", "└─"]
    assert graph_text(Tensor([1.0])) == "leaf = [1.]  shape=(1,)  is_leaf=True  grad=None  grad_fn=None"


def test_a_root_inside_the_graph_of_another_is_shown_once() -> None:
    tensors = tutorial()
    lines = graph_text([tensors["y"], tensors["a"]], names=tensors).splitlines()
    assert sum("a = [3.]" in line for line in lines) == 1
    assert sum("x = [2.]" in line for line in lines) == 1


def test_names_from_a_module() -> None:
    weight = Tensor([3.0], requires_grad=True)
    assert "fc.weight = [3.]" in graph_text(call("T", weight), module=Module({"fc.weight": weight}, {}))


def test_large_and_odd_values_are_short() -> None:
    leaf = Tensor([0.123456789, float("nan"), float("-inf"), 1e-9, 1e9, 0.0, -0.0, 5.0], requires_grad=True)
    assert "[0.1235, nan, -inf, 1e-09, 1e+09, 0., -0., 5.]" in graph_text(leaf)
    assert "= [0., 0., 0., …]  shape=(3, 3)" in graph_text(Tensor([[0.0] * 3] * 3))
    assert "leaf = 2.5  shape=()" in graph_text(Tensor(2.5))
    assert "leaf = []  shape=(0,)" in graph_text(Tensor([]))


def test_long_graphs_are_elided_with_a_count() -> None:
    lines = graph_text(chain(100), max_nodes=10).splitlines()
    assert len(lines) == 11
    assert lines[-1] == "… 91 more nodes"
    assert "more nodes" not in graph_text(chain(5), max_nodes=6)


def test_a_chain_of_100000_nodes() -> None:
    out = chain(100_000)
    assert graph_text(out).splitlines()[-1].endswith("more nodes")
    lines = graph_text(out, max_nodes=None).splitlines()
    assert sum(line.lstrip(" └─").startswith("MulBackward0") and "see below" not in line for line in lines) == 99_999
    assert max(len(line) for line in lines) < 200
    assert "is_leaf=True" in lines[-1]


def test_every_continued_branch_is_shown_below() -> None:
    lines = graph_text(chain(100), max_nodes=None).splitlines()
    continued = [line.strip(" └─").removesuffix("  (see below)") for line in lines if "see below" in line]
    assert len(continued) == len(set(continued)) > 0
    for name in continued:
        assert sum(line.startswith(name + "  shape") for line in lines) == 1
