"""A notebook that a Jupyter kernel runs: what each cell shows, from tensors to the explorer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

CELLS = {
    "tensor": "import sapwood\nfrom sapwood import nn, viz\nsapwood.manual_seed(0)\nt = sapwood.randn(20, 30)\nt",
    "number": "sapwood.tensor([1.0, 2.0], requires_grad=True)",
    "module": "model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))\nmodel",
    "drawing": "x = sapwood.ones(2, 4)\nviz.draw(model(x).sum())",
    "summary": "viz.summary(model, x)",
    "graph": "from sapwood.graph import capture\nviz.draw(capture(lambda a: a * 2, x))",
    "explorer": "path = viz.show(lambda: model(x).sum(), module=model)",
    "hostile": "x = sapwood.ones((), requires_grad=True)\nviz.draw(x * 2, names={'<script>alert(1)</script>': x})",
    "error": "sapwood.ones(2, 3) @ sapwood.ones(2, 3)",
    "after": "path.unlink()\nprint(sapwood.ones(2))",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the notebook once; return the outputs of each cell."""
    folder = tmp_path_factory.mktemp("notebook")
    patch = pytest.MonkeyPatch()
    source = str(Path(__file__).parents[2] / "src")
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")])))
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        patch.setenv(name, str(folder / name.lower()))
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(text) for text in CELLS.values()]
    try:
        nbclient.NotebookClient(
            book, timeout=120, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(folder)}}
        ).execute()
    finally:
        patch.undo()
    nbformat.validate(book)
    return {name: cell.outputs for name, cell in zip(CELLS, book.cells)}


def data(shown: dict[str, Any], name: str) -> Any:
    (output,) = shown[name]
    assert output.output_type in ("execute_result", "display_data"), output
    return output.data


def test_tensors(shown: dict[str, Any]) -> None:
    large = data(shown, "tensor")
    assert large["text/plain"].startswith("tensor([[-1.12")
    assert large["text/html"].count("<rect") == 600
    assert "shape (20, 30)" in large["text/html"]
    assert data(shown, "number") == {"text/plain": "tensor([1., 2.], requires_grad=True)"}


def test_modules(shown: dict[str, Any]) -> None:
    module = data(shown, "module")
    assert "19 parameters" in module["text/html"]
    assert "(0): Linear(in_features=4, out_features=3, bias=True)" in module["text/plain"]


@pytest.mark.parametrize("name", ["drawing", "graph", "hostile"])
def test_drawings(shown: dict[str, Any], name: str) -> None:
    drawing = data(shown, name)
    root = ElementTree.fromstring(drawing["image/svg+xml"])
    assert root.tag.endswith("svg")
    assert drawing["text/plain"].startswith("Drawing(")
    assert not [e for e in root.iter() if e.tag.endswith("script")]


def test_summary(shown: dict[str, Any]) -> None:
    told = data(shown, "summary")
    assert "2 (Linear)" in told["text/plain"]
    assert told["text/html"].count("<tr>") == 5


def test_explorer(shown: dict[str, Any]) -> None:
    """One output, and no warning beside it."""
    page = data(shown, "explorer")
    assert page["text/html"].startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts allow-downloads"' in page["text/html"]
    assert "<script" not in page["text/html"]
    assert "Graph explorer" in page["text/plain"]


def test_an_error_names_the_sizes_and_the_kernel_goes_on(shown: dict[str, Any]) -> None:
    (problem,) = shown["error"]
    assert (problem.ename, problem.output_type) == ("ShapeError", "error")
    assert "(2, 3)" in problem.evalue
    assert [o.text for o in shown["after"]] == ["tensor([1., 1.])\n"]
