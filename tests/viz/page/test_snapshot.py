"""What a snapshot collects, what it leaves alone, and what it says of graphs that cannot be shown whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from programs import PROGRAMS

import sapwood
from sapwood import nn
from sapwood.errors import ArgumentError, ValueRangeError
from sapwood.viz import draw
from sapwood.viz.page import html
from sapwood.viz.page.figures import FULL, summary
from sapwood.viz.show import frame, save, show
from sapwood.viz.snapshot import Snapshot, snapshot


def named(taken: Snapshot, title: str) -> dict[str, Any]:
    place = next(i for i, item in enumerate(taken.data["items"]) if item["title"] == title)
    return taken.data["details"][place]


@pytest.mark.parametrize("name", ["seed", "sine", "mlp", "resnet", "gpt"])
def test_gradients_are_those_of_backward(name: str) -> None:
    loss, options = PROGRAMS[name]()
    taken = snapshot(loss, **options)
    named_leaves = dict(options["module"].named_parameters()) if "module" in options else options["names"]
    leaves = {k: t for k, t in named_leaves.items() if t.is_leaf}
    assert all(leaf.grad is None for leaf in leaves.values())
    (loss() if callable(loss) else loss).backward()
    # A second forward in training mode reads the same batch, so its gradients are the same.
    for title, leaf in leaves.items():
        gradient = named(taken, title)["gradient"]
        assert gradient["norm"] == pytest.approx(float(leaf.grad.norm()), rel=1e-5, abs=1e-7)
        assert gradient["shape"] == str(tuple(leaf.shape))


def test_graph_grad_hooks_and_random_numbers_are_left_alone() -> None:
    w = sapwood.ones(3, requires_grad=True)
    w.grad = sapwood.full((3,), 7.0)
    called = []
    w.register_hook(called.append)
    y = (w * w).sum()
    state = sapwood.get_rng_state()
    snapshot(y)
    assert called == []
    assert w.grad.tolist() == [7.0] * 3
    assert sapwood.equal(sapwood.get_rng_state(), state)
    y.backward()
    assert w.grad.tolist() == [9.0] * 3


def test_lives_end_with_the_last_use() -> None:
    x = sapwood.tensor(2.0, requires_grad=True)
    s = sapwood.sin(x)
    e = sapwood.exp(s)
    data = snapshot(e + 1).data
    spans = {data["items"][i]["title"]: data["live"][i] for i in data["forward"]}
    # sin is used by exp at step 1 alone; exp keeps its own result until its backward step, the second of the pass.
    assert spans == {"Sin": [0, 1], "Exp": [1, 4], "Add": [2, 7]}


def test_values_are_bounded_and_written_for_json() -> None:
    nan, inf = float("nan"), float("inf")
    told = summary(sapwood.tensor([nan, inf, -inf, 0.0, 1.0]).numpy())
    assert (told["nan"], told["inf"], told["zero"], told["norm"]) == (1, 2, 1, 1.0)
    assert told["values"] == ["nan", "inf", "-inf", 0.0, 1.0]
    assert "values" in summary(sapwood.ones(FULL).numpy())
    large = summary(sapwood.arange(1000.0).numpy())
    assert "values" not in large
    assert sum(large["bins"]) == 1000
    assert len(large["bins"]) == 32
    for odd in (sapwood.ones(0), sapwood.full((100,), nan), sapwood.full((100,), 3.0), sapwood.ones(100) > 0):
        json.dumps(summary(odd.numpy()), allow_nan=False)
    extremes = sapwood.tensor([1e308, -1e308] * 50, dtype=sapwood.float64)
    json.dumps(summary(extremes.numpy()), allow_nan=False)
    assert summary(sapwood.full((100,), 1e-200, dtype=sapwood.float64).numpy())["norm"] == pytest.approx(1e-199)


def test_text_cannot_leave_its_place_in_the_page() -> None:
    name = '</script><script>alert(1)</script>\u2028<!-- & "%DATA% %SCRIPT%'
    x = sapwood.tensor(1.0, requires_grad=True)
    page = snapshot(x * 2, names={name: x}).html()
    assert page.count("</script>") == 2
    assert "\u2028" not in page
    data = page.split('id="data">')[1].split("</script>")[0]
    assert json.loads(data)["items"][0]["title"] == name


def test_freed_graph_says_so() -> None:
    x = sapwood.tensor(2.0, requires_grad=True)
    y = (x * x).exp()
    y.backward()
    taken = snapshot(y)
    assert len(taken.data["items"]) == 4
    assert "freed" in taken.data["notes"][0]
    assert x.grad is not None
    taken.html()


def test_tensor_without_graph_is_one_circle() -> None:
    taken = snapshot(sapwood.ones(3))
    assert len(taken.data["items"]) == 1
    assert "No gradient" in taken.data["notes"][0]


def test_several_elements_start_with_ones() -> None:
    x = sapwood.ones(3, requires_grad=True)
    taken = snapshot(x * 2, names={"x": x})
    assert named(taken, "x")["gradient"]["values"] == [2.0, 2.0, 2.0]
    assert "ones" in taken.data["notes"][0]


def test_failing_backward_of_a_users_function_is_a_note() -> None:
    class Broken(sapwood.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise KeyError("lost")

    x = sapwood.ones((), requires_grad=True)
    taken = snapshot(Broken.apply(x))
    assert "KeyError" in taken.data["notes"][0]


def test_wrong_arguments() -> None:
    with pytest.raises(ArgumentError, match="snapshot: expected a tensor"):
        snapshot(3)
    with pytest.raises(ArgumentError, match="Module or None"):
        snapshot(sapwood.ones(()), module="model")
    with pytest.raises(ValueRangeError, match=r"save: expected a path ending in \.html"):
        save(sapwood.ones(()), "graph.png")


def test_modules_of_a_function() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    taken = snapshot(lambda: model(sapwood.ones(1, 2)).sum(), module=model)
    assert named(taken, "Relu")["scope"] == ["1"]
    assert named(taken, "0.weight")["scope"] == ["0"]
    assert named(taken, "Addmm")["value"]["shape"] == "(1, 3)"
    assert named(taken, "Addmm")["forward_time"] > 0


def test_huge_graph_is_refused_by_name_and_number() -> None:
    x = sapwood.ones((), requires_grad=True)
    y = x
    for _ in range(50):
        y = y * 2
    with pytest.raises(ValueRangeError, match="snapshot: expected a graph of at most 20 nodes, got 51"):
        snapshot(y, limit=20)
    assert len(snapshot(y, limit=51).data["items"]) == 52


def test_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[3] / "docs" / "explorer.md").read_text(encoding="utf-8")
    programs = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    assert len(programs) >= 3
    scope: dict[str, Any] = {"__name__": "__main__"}
    for program in programs:
        exec(program, scope)
    assert (tmp_path / "graph.html").exists()


def test_values_and_backward_can_be_left_out() -> None:
    x = sapwood.ones(3, requires_grad=True)
    bare = snapshot((x * x).sum(), values=False, backward=False).data
    assert bare["backward"] == []
    assert '"values": ' not in json.dumps(bare["details"])


def test_saving_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = sapwood.ones((), requires_grad=True)
    path = tmp_path / "graph.html"
    path.write_text("before")

    def refuse(*_: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", refuse)
        with pytest.raises(OSError, match="disk full"):
            save(x * 2, path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError, match="missing"):
        save(x * 2, tmp_path / "missing" / "graph.html")
    path.unlink()
    assert save(x * 2, path) == path
    beside = tmp_path / "beside"
    beside.touch()
    assert path.stat().st_mode == beside.stat().st_mode
    assert path.read_text().startswith("<!doctype html>")


def test_show_opens_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    path = show(sapwood.ones((), requires_grad=True) * 2)
    assert opened == [path.as_uri()]
    path.unlink()


def test_frame_and_drawing() -> None:
    x = sapwood.ones((), requires_grad=True)
    page = html(draw(x * 2))
    assert "default-src 'none'" in page
    assert 'sandbox="allow-scripts allow-downloads"' in frame(page)
    assert "<script>" not in frame(page)
