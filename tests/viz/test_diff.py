"""Graphs compared."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood
from sapwood import nn, viz
from sapwood.errors import ArgumentError, ValueRangeError
from sapwood.graph import capture
from sapwood.viz.alignment import alignment

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


def deep(n, at=None):
    def program(x):
        for i in range(n):
            x = (x * 2).tanh() if i != at else x.exp()
        return x

    return program


def test_large_graphs():
    found = viz.diff(capture(deep(500), X), capture(deep(501), X))
    assert found.count("added") == 2
    assert found.count("removed") == 0
    w = sapwood.ones(2, requires_grad=True)
    found = viz.diff(deep(500)(w), deep(500, at=250)(w))
    assert (found.count("added"), found.count("removed")) == (1, 2)


def test_autograd_graphs():
    w, b = (sapwood.ones(3, requires_grad=True) for _ in range(2))
    one = ((w * 2).sum(0) + b).exp()
    other = ((w + 2).sum(0, keepdim=True) + b).exp()
    text = viz.diff(one, other, names={"w": w, "b": b, "y": one}).text()
    assert text.splitlines()[0].startswith("y → Exp: ")
    assert "- Mul 1: float32(3,) = Mul(w, a constant)" in text
    assert "+ Add 1: float32(3,) = Add(w, a constant)" in text
    assert "keepdim: False → True" in text
    assert "float32() → float32(1,)" in text
    assert not viz.diff(one, one)
    assert not viz.diff([one, w], [one, w])
    assert "return  [w, Exp 5 instead of Exp 5, w" in viz.diff([one, w], [w, one], names={"w": w, "b": b}).text(0)
    assert "removed" in viz.diff(one, w).text()
    assert viz.diff(X, X).text() == "a tensor → a tensor: alike, 1 values and calls"


def test_names_of_each_side():
    a, b = nn.Linear(4, 3), nn.Linear(4, 5)
    text = viz.diff(a(X), b(X), module=(a, b)).text()
    assert "~ weight  [float32(3, 4) → float32(5, 4)]" in text
    p, q = sapwood.ones(2, requires_grad=True), sapwood.ones(2, requires_grad=True)
    assert not viz.diff(p * 2, q * 2, names=({"p": p}, {"p": q}))
    assert viz.diff(p * 2, q * 2, names=({"p": p}, {"q": q})).count("added") == 1


def test_what_is_drawn_and_written():
    a = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.BatchNorm1d(3))
    b = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.3), nn.BatchNorm1d(3).eval())
    text = viz.diff(a, b, example=X).text(0)
    assert "[p: 0.5 → 0.3]" in text
    assert "- write 2.running_mean" in text


def test_a_swap_shows():
    def one(x):
        a, b = x.exp(), x.sin()
        return a, b

    def other(x):
        a, b = x.exp(), x.sin()
        return b, a

    assert "return  [sin, exp instead of exp, sin]" in viz.diff(capture(one, X), capture(other, X)).text()


@given(st.lists(st.integers(0, 2), max_size=12), st.lists(st.integers(0, 2), max_size=12))
def test_alignments_are_longest(a, b):
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    found = alignment(a, b)
    assert all(a[i] == b[j] for i, j in found)
    assert all(p < r and q < s for (p, q), (r, s) in pairwise(found))
    assert len(found) == table[-1][-1]


def test_alignments_too_large_to_be_longest(monkeypatch):
    monkeypatch.setattr("sapwood.viz.alignment.LARGEST", 3)
    assert alignment("xabcdy", "zabcdw") == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_bad_input():
    with pytest.raises(ArgumentError, match="example="):
        viz.diff(nn.ReLU(), nn.ReLU())
    with pytest.raises(ArgumentError, match="two of the same kind"):
        viz.diff(capture(deep(1), X), X)
    with pytest.raises(ArgumentError, match="got int among them"):
        viz.diff([X, 3], X)
