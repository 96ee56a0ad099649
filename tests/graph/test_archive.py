"""Graphs saved with their weights, and read without the program that made them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sapwood
from sapwood import nn
from sapwood.errors import CaptureError, LoadError


def test_a_module(tmp_path):
    sapwood.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh()), sapwood.randn(5, 4)
    model.eval()
    path = tmp_path / "m.pt"
    sapwood.save(model, path, example=x)
    graph = sapwood.graph.load(path)
    assert sapwood.equal(graph(x), model(x))
    assert graph(x).requires_grad
    assert [v.name for v in graph.parameters] == [n for n, _ in model.named_parameters()]
    sapwood.graph.save(graph, path)
    assert str(sapwood.graph.load(path)) == str(graph)


def test_another_process_runs_it(tmp_path):
    class Own(nn.Module):
        def forward(self, x):
            return x.exp() + 1

    path = tmp_path / "m.pt"
    sapwood.save(Own(), path, example=sapwood.zeros(2))
    code = f"import sapwood; print(sapwood.graph.load({str(path)!r})(sapwood.zeros(2)).tolist())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[2.0, 2.0]\n"


def test_bad_input(tmp_path):
    path = tmp_path / "m.pt"
    with pytest.raises(CaptureError):
        sapwood.save(nn.Linear(4, 3), path, example=sapwood.ones(2, 5))
    assert not path.exists()
    sapwood.save({"w": sapwood.ones(1)}, path)
    with pytest.raises(LoadError, match="no graph"):
        sapwood.graph.load(path)
    sapwood.save({"sapwood.graph": 99}, path)
    with pytest.raises(LoadError, match="version 99"):
        sapwood.graph.load(path)
