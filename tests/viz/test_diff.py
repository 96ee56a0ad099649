"""Graphs compared."""

from __future__ import annotations

import pytest

import sapwood
from sapwood import nn, viz
from sapwood.errors import ArgumentError, ValueRangeError
from sapwood.graph import capture

X = sapwood.ones(2, 4)


def test_alike():
    a, b = (nn.Sequential(nn.Linear(4, 3), nn.ReLU()) for _ in range(2))
    found = viz.diff(a, b, example=X)
    assert not found
    assert "alike" in found.text()


def test_a_layer_more_and_another_width():
    a = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    b = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2), nn.Tanh())
    found = viz.diff(capture(a, X), capture(b, X))
    text = found.text()
    assert "~ parameter 0.weight  [float32[3, 4] → float32[5, 4]]" in text
    assert "+ tanh: float32[2, 2] = tanh(addmm_2)  in 3 Tanh" in text
    assert found.count("removed") == 0
    assert found.count("added") == 1


def test_attributes_numbers_and_operands():
    a = capture(lambda x: (x.sum(0) * 2) + x.mean(0), X)
    b = capture(lambda x: (x.sum(1, keepdim=True) * 3) + x.mean(0), X)
    text = viz.diff(a, b).text(0)
    assert "dim: (0,) → (1,)" in text or "dim: 0 → 1" in text
    assert "numbers: [2] → [3]" in text
    c = capture(lambda x, y: x - y, X, X)
    d = capture(lambda x, y: y - x, X, X)
    assert "reads y, x instead of x, y" in viz.diff(c, d).text()


def test_files(tmp_path):
    found = viz.diff(capture(lambda x: x + 1, X), capture(lambda x: (x + 1).exp(), X))
    page = found.save(tmp_path / "d.html").read_text()
    assert page.startswith("<!doctype html>")
    assert 'class="added"' in page
    assert found.save(tmp_path / "d.txt").read_text().startswith("function → function: 1 added")
    with pytest.raises(ValueRangeError, match=r"\.html or \.txt"):
        found.save(tmp_path / "d.png")
    assert found._repr_html_() == page


def test_large_graphs():
    def deep(n):
        def program(x):
            for _ in range(n):
                x = (x * 2).tanh()
            return x

        return capture(program, X)

    assert viz.diff(deep(500), deep(501)).count("added") == 2


def test_bad_input():
    with pytest.raises(ArgumentError, match="example="):
        viz.diff(nn.ReLU(), nn.ReLU())
