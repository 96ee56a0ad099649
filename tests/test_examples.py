"""The examples run, and their figures are the tutorial's."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_first_graph(capsys):
    assert load("first_graph").main() == {"y": 6.0, "w": 5.0, "x": 2.0, "a": 2.0, "b": None}
    printed = capsys.readouterr().out
    assert "is_leaf: True True False False False" in printed
    assert "None None AddBackward0 AddBackward0 MulBackward0" in printed


def test_sine_graph():
    inner = 3.5
    found = load("sine_graph").main()
    assert found["a"] == pytest.approx(math.cos(inner) * 2.25, rel=1e-5)
    assert found["b"] == pytest.approx(math.cos(inner) * 1.5, rel=1e-5)
    assert found["x"] == pytest.approx(math.cos(inner) * 3 + math.sin(inner), rel=1e-5)


def test_leaves_and_roots():
    rows = {name: (leaf, grad, made_by) for name, leaf, grad, made_by in load("leaves_and_roots").main()}
    assert rows["w"] == (True, True, "-")
    assert rows["x"] == rows["x * 2"] == rows["h.detach()"] == (True, False, "-")
    assert rows["h = w * x"] == (False, True, "MulBackward0")
    assert rows["loss = h.sum()"] == (False, True, "SumBackward0")
    assert rows["w.double()"] == (False, True, "ToCopyBackward0")
    assert rows["w * 2 under no_grad"] == (True, False, "-")


def test_grad_fn_names():
    names = load("grad_fn_names").main()
    assert list(names.values()) == [
        "CatBackward0",
        "MmBackward0",
        "AddBackward0",
        "AddmmBackward0",
        "DivBackward0",
        "ReluBackward0",
    ]


def test_quadratic_regression(tmp_path):
    picture = tmp_path / "fit.png"
    assert load("quadratic_regression").main(str(picture)) == (2.9668, 2.1138)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_training_loop():
    losses = load("training_loop").main()
    assert losses[-1] < 0.05 < losses[0]


def test_examples_are_short():
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text().splitlines()) <= 100, path.name
