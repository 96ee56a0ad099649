"""What notebooks show, through IPython's own machinery where it is installed."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import sapwood
from sapwood import nn, viz
from sapwood.errors import ValueRangeError


def test_tensors():
    assert sapwood.ones(3)._repr_html_() is None
    html = sapwood.randn(20, 30)._repr_html_()
    assert html.count("<rect") == 600
    assert "shape (20, 30)" in html
    assert "tensor([[" in html
    assert "<rect" not in sapwood.zeros(40, 1)._repr_html_()
    large = sapwood.zeros(1000, 1000, dtype=sapwood.bfloat16)
    assert large._repr_html_().count("<rect") <= 64 * 64
    broken = sapwood.full((5, 5), float("nan"))
    assert "25 not finite" in broken._repr_html_()
    broken[0, 0] = 1
    assert "#000" in broken._repr_html_()
    assert "grad_fn MulBackward0" in (sapwood.ones(5, 5, requires_grad=True) * 2)._repr_html_()
    assert sapwood.ones(5, 5, dtype=sapwood.complex64)._repr_html_() is None


def test_modules():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    html = model._repr_html_()
    ElementTree.fromstring(f"<div>{html.replace(' open', '')}</div>")
    assert "weight (3, 4)" in html
    assert "in_features=4" in html
    assert "15 parameters" in html


def test_themes():
    drawing = viz.draw(sapwood.ones(2, requires_grad=True) * 2)
    assert "prefers-color-scheme" in drawing.svg()
    assert "<style>" not in drawing.svg("light")
    assert "prefers-color-scheme" not in drawing.svg("dark")
    ElementTree.fromstring(drawing.svg("dark"))
    with pytest.raises(ValueRangeError, match="'light', 'dark' or 'auto'"):
        drawing.svg("blue")


def test_ipython():
    shell = pytest.importorskip("IPython.core.interactiveshell", reason="the display protocol is IPython's")
    formatter = shell.InteractiveShell.instance().display_formatter
    data, _ = formatter.format(sapwood.randn(20, 30))
    assert set(data) >= {"text/plain", "text/html"}
    data, _ = formatter.format(nn.Linear(2, 2))
    assert "text/html" in data
    data, _ = formatter.format(viz.draw(sapwood.ones(2, requires_grad=True) * 2))
    assert data["image/svg+xml"].startswith("<svg")
