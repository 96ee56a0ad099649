"""The command line, as a user calls it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sapwood
from sapwood.__main__ import main

SCRIPT = """
import sys
import sapwood
from sapwood import nn
w = sapwood.tensor([1.0], requires_grad=True)
y = (w + 2) * w
plain = sapwood.ones(2)
model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
size = sys.argv[1:]
class Holder:
    inner = y
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_graph_as_text(script, capsys):
    assert main(["graph", f"{script}:y"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("y = [3.]")
    assert main(["graph", f"{script}:Holder.inner"]) == 0


def test_the_scripts_own_names(script, capsys):
    """Tensors are called what the script calls them, parameters as in the module that has most of them."""
    assert main(["graph", f"{script}:y"]) == 0
    assert "w = [1.]" in capsys.readouterr().out
    script.write_text(f"{SCRIPT}\nother = nn.Linear(1, 1)\nloss = model(sapwood.ones(2, 4)).sum()\n")
    assert main(["graph", f"{script}:loss"]) == 0
    assert "0.weight = " in capsys.readouterr().out


def test_graph_as_files(script, tmp_path, capsys):
    page, picture = tmp_path / "g.html", tmp_path / "g.svg"
    assert main(["graph", f"{script}:y", "--html", str(page), "--save", str(picture)]) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert picture.read_text().startswith("<svg")
    assert main(["graph", f"{script}:model", "--input", "2,4", "--html", str(page)]) == 0
    assert "0.weight" in page.read_text()


def test_graph_of_a_module(script, capsys):
    assert main(["graph", f"{script}:model", "--input", "2,4"]) == 0
    assert "relu" in capsys.readouterr().out


def test_summary(script, capsys):
    assert main(["summary", f"{script}:model", "--input", "2,4", "--time"]) == 0
    assert "0 (Linear)" in capsys.readouterr().out


def test_diff(script, tmp_path, capsys):
    saved, text, page = tmp_path / "g.pt", tmp_path / "g.txt", tmp_path / "d.html"
    model = sapwood.nn.Sequential(sapwood.nn.Linear(4, 3), sapwood.nn.Tanh())
    graph = sapwood.graph.capture(model, sapwood.ones(2, 4))
    sapwood.graph.save(graph, saved)
    text.write_text(str(graph))
    assert main(["diff", str(saved), str(text)]) == 0
    assert "alike" in capsys.readouterr().out
    assert main(["diff", f"{script}:model", str(saved), "--input", "2,4", "--html", str(page)]) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{script}:model → {saved}: 1 added, 1 removed")
    assert "- relu: float32[2, 3] = relu(addmm)  in 1 ReLU" in out
    assert 'class="removed"' in page.read_text()
    assert main(["diff", f"{script}:y", f"{script}:w", "--context", "0"]) == 1
    assert "- y: float32(1,) = Mul(" in capsys.readouterr().out


def test_ops(capsys):
    assert main(["ops", "softmax"]) == 0
    assert capsys.readouterr().out.startswith("softmax_of(input, dim)")
    assert main(["ops"]) == 0
    assert "softmax" in capsys.readouterr().out
    assert main(["ops", "tanh", "--kernel"]) == 0
    out = capsys.readouterr().out
    for part in ("tanh(input", "derivative by input", "keeps for it: out", "define", "a call"):
        assert part in out
    assert main(["ops", "mul"]) == 0
    assert "keeps for it: other" in capsys.readouterr().out


def test_every_card(capsys):
    import sapwood
    from sapwood.commands.ops import card, kernel_text

    sapwood.ops.complete()
    for op in sapwood.ops.registry.values():
        assert op.name in card(op)
        assert kernel_text(op)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["graph", "{script}"], 2, "say which variable"),
        (["graph", "none.py:y"], 2, "there is no script"),
        (["graph", "{script}:z"], 2, "nothing called 'z'; it has"),
        (["graph", "{script}:y.z"], 2, "no attribute 'z'"),
        (["graph", "{script}:size"], 2, "is list, neither"),
        (["graph", "{script}:y", "--html", "{tmp}/none/g.html"], 2, "no folder"),
        (["graph", "{script}:y", "--save", "{tmp}/g.jpg"], 2, "ending in .svg"),
        (["graph", "{script}:model"], 2, "--input"),
        (["graph", "{script}:model", "--input", "2,x"], 2, "sizes like"),
        (["graph", "{script}:model", "--input", "2,7"], 2, "raised"),
        (["summary", "{script}:y", "--input", "2"], 2, "a module, got"),
        (["diff", "{script}", "{script}:y"], 2, "say which of its variables"),
        (["diff", "none", "{script}:y"], 2, "there is no file"),
        (["diff", "{tmp}/other.txt", "{script}:y"], 2, "cannot be read as a graph"),
        (["diff", "{script}:model", "{script}:y"], 2, "--input"),
        (["diff", "{script}:y", "{script}:size"], 2, "at least one tensor"),
        (["diff", "{script}:y", "{script}:y", "--html", "{tmp}/d.txt"], 2, "ending in .html"),
        (["diff", "{script}:y", "{script}:y", "--html", "{tmp}/none/d.html"], 2, "no folder"),
        (["diff", "{script}:y", "{script}:y", "--context", "-1"], 2, "a number of lines"),
        (["ops", "nothing_like_it"], 2, "no op's name"),
    ],
)
def test_what_cannot_be_followed(script, tmp_path, capsys, arguments, status, message):
    (tmp_path / "other.txt").write_text("graph g\nno line of one\n")
    given = [a.format(script=script, tmp=tmp_path) for a in arguments]
    assert main(given) == status
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert not list(tmp_path.glob("*.html"))


def test_a_script_that_fails(tmp_path, capsys):
    path = tmp_path / "bad.py"
    path.write_text("x = 1\nx / 0\n")
    assert main(["graph", f"{path}:x"]) == 1
    err = capsys.readouterr().err
    assert "ZeroDivisionError" in err
    assert "runpy" not in err
    assert main(["diff", f"{path}:x", f"{path}:x"]) == 2
    path.write_text("import sys\nsys.exit(3)\n")
    assert main(["graph", f"{path}:x"]) == 1


def test_as_a_module(script):
    command = [sys.executable, "-m", "sapwood", "graph", f"{script}:size", "--", "a"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert "is list" in result.stderr
