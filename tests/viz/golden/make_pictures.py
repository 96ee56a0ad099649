"""Write the pictures of the graphs that tutorials show, which the tests compare with what is drawn now.

    PYTHONPATH=src python tests/viz/golden/make_pictures.py

Look at every picture that changes before committing it.
"""

from __future__ import annotations

from pathlib import Path

import sapwood
from sapwood.viz import Drawing, draw

FOLDER = Path(__file__).parent
SUFFIXES = (".svg", ".dot", ".txt")


def seed() -> Drawing:
    """Draw y = (x + w)(w + 1) at x = 2, w = 1 after backward: the gradient of w is 5."""
    w = sapwood.tensor([1.0], requires_grad=True)
    x = sapwood.tensor([2.0], requires_grad=True)
    a = sapwood.add(w, x)
    b = sapwood.add(w, 1)
    y = sapwood.mul(a, b)
    y.backward()
    return draw(y, names={"w": w, "x": x, "a": a, "b": b, "y": y})


def retained() -> Drawing:
    """Draw the same graph with the gradient of a kept: that of b, which is no leaf either, is gone."""
    w = sapwood.tensor([1.0], requires_grad=True)
    x = sapwood.tensor([2.0], requires_grad=True)
    a = sapwood.add(w, x)
    a.retain_grad()
    b = sapwood.add(w, 1)
    y = sapwood.mul(a, b)
    y.backward()
    return draw(y, names={"w": w, "x": x, "a": a, "b": b, "y": y})


def regression() -> Drawing:
    """Draw the loss of a straight line through three points."""
    x = sapwood.tensor([1.0, 2.0, 3.0])
    y = sapwood.tensor([3.0, 5.0, 7.0])
    w = sapwood.tensor(0.0, requires_grad=True)
    b = sapwood.tensor(0.0, requires_grad=True)
    loss = (0.5 * (y - (w * x + b)) ** 2).mean()
    loss.backward(retain_graph=True)  # what is saved shows which x it was
    return draw(loss, names={"x": x, "y": y, "w": w, "b": b, "loss": loss})


def sine() -> Drawing:
    """Draw sin(ax + b)·x from left to right."""
    a = sapwood.tensor(1.5, requires_grad=True)
    b = sapwood.tensor(0.5, requires_grad=True)
    x = sapwood.tensor(2.0, requires_grad=True)
    y = sapwood.sin(a * x + b) * x
    return draw(y, names={"a": a, "b": b, "x": x, "y": y}, direction="LR")


PICTURES = {"seed": seed, "retained": retained, "regression": regression, "sine": sine}


def main() -> None:
    for name, picture in PICTURES.items():
        drawing = picture()
        for suffix in SUFFIXES:
            drawing.save(FOLDER / f"{name}{suffix}")


if __name__ == "__main__":
    main()
