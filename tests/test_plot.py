"""Tensors in Matplotlib, as they are."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import sapwood
from sapwood import nn

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture
def axes():
    figure, made = plt.subplots()
    yield made
    figure.canvas.draw()
    plt.close(figure)


def test_lines_and_points(axes):
    x = sapwood.linspace(0, 1, 5)
    (line,) = axes.plot(x, x**2)
    np.testing.assert_array_equal(line.get_xdata(), x.numpy())
    np.testing.assert_allclose(line.get_ydata(), x.numpy() ** 2)
    points = axes.scatter(x, x + 1, c=x, s=20 * x)
    np.testing.assert_allclose(points.get_offsets(), np.stack([x, x + 1], 1))
    np.testing.assert_allclose(points.get_array(), x.numpy())


def test_a_fitted_line(axes):
    """The picture at the end of the tutorial: data, and the model's line after training."""
    sapwood.manual_seed(0)
    x = sapwood.linspace(-1, 1, 20).unsqueeze(1)
    y = 2 * x + 1
    model = nn.Linear(1, 1)
    optimizer = sapwood.optim.SGD(model.parameters(), lr=0.3)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    axes.scatter(x, y)
    (line,) = axes.plot(x, model(x).detach().flatten())
    np.testing.assert_allclose(line.get_ydata(), y.flatten().numpy(), atol=1e-2)
    (curve,) = axes.plot(losses)
    assert curve.get_ydata()[-1] < 1e-3


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "uint8", "bool"])
def test_dtypes(axes, dtype):
    y = sapwood.tensor([0, 1, 1, 0]).to(getattr(sapwood, dtype))
    (line,) = axes.plot(y)
    assert [float(v) for v in line.get_ydata()] == [0, 1, 1, 0]


def test_views_and_sizes(axes):
    table = sapwood.arange(12.0).reshape(3, 4)
    lines = axes.plot(table.t())
    assert len(lines) == 3
    np.testing.assert_array_equal(lines[1].get_ydata(), [4, 5, 6, 7])
    (every,) = axes.plot(table[:, ::2].flatten())
    assert len(every.get_ydata()) == 6
    axes.axhline(table.mean())
    axes.set_xlim(table.min(), table.max())


def test_histograms_bars_and_areas(axes):
    sapwood.manual_seed(0)
    x = sapwood.randn(1000)
    counts, edges, _ = axes.hist(x, bins=20)
    assert counts.sum() == 1000
    assert edges[0] == pytest.approx(x.min().item())
    bars = axes.bar(sapwood.arange(3), sapwood.tensor([1.0, 2.0, 3.0]))
    assert [b.get_height() for b in bars] == [1, 2, 3]
    axes.fill_between(sapwood.arange(3), sapwood.zeros(3), sapwood.ones(3))
    axes.errorbar(sapwood.arange(3), sapwood.ones(3), yerr=sapwood.full((3,), 0.1))
    axes.boxplot([sapwood.randn(10), sapwood.randn(12)])


def test_images(axes):
    image = sapwood.rand(8, 6)
    np.testing.assert_array_equal(axes.imshow(image).get_array(), image.numpy())
    colours = sapwood.rand(3, 8, 6).permute(1, 2, 0)
    np.testing.assert_array_equal(axes.imshow(colours).get_array(), colours.numpy())
    axes.contourf(sapwood.rand(5, 5))
    axes.pcolormesh(sapwood.rand(4, 5))
    x = sapwood.linspace(-1, 1, 5)
    gx, gy = sapwood.meshgrid(x, x, indexing="xy")
    axes.quiver(gx, gy, gx, -gy)


def test_a_tensor_that_needs_a_gradient_says_what_to_do(axes):
    """As in PyTorch nothing is detached behind one's back. Matplotlib tries single elements too, which warns."""
    warnings.simplefilter("ignore", UserWarning)
    x = sapwood.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        axes.plot(x)
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        axes.scatter(sapwood.arange(3), x * 2)
    axes.plot(x.detach())
    with sapwood.no_grad():
        (line,) = axes.plot(x * 2)
    assert list(line.get_ydata()) == [2, 2, 2]
