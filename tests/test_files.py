"""Every way to write a picture, a page or a model leaves the old file or the new one, never a part."""

import os
from pathlib import Path

import pytest

import sapwood
from sapwood import nn, viz
from sapwood.export import netron


def drawing():
    w = sapwood.tensor(1.0, requires_grad=True)
    return viz.draw(w * 2, names={"w": w})


def model():
    return nn.Linear(2, 2), sapwood.ones(1, 2)


def png(path):
    pytest.importorskip("matplotlib", reason="pixels are painted by matplotlib")
    drawing().save(path)


def onnx(path):
    pytest.importorskip("onnx", reason="models are written by the package onnx")
    from sapwood.export.onnx import export

    export(*model(), path)


WAYS = {
    "a.svg": lambda path: drawing().save(path),
    "a.json": lambda path: drawing().save(path),
    "a.png": png,
    "a.html": lambda path: viz.save(sapwood.ones((), requires_grad=True) * 2, path),
    "a.gv": lambda path: viz.make_dot(sapwood.ones((), requires_grad=True) * 2).save(path.name, path.parent),
    "b.html": lambda path: viz.diff(sapwood.ones(2), sapwood.ones(3)).save(path),
    "a.netron": lambda path: netron.save(model()[0], path, model()[1]),
    "a.onnx": onnx,
    "a.pt": lambda path: sapwood.save(model()[0].state_dict(), path),
}


@pytest.mark.parametrize("name", WAYS)
def test_whole_or_not_at_all(name, tmp_path, monkeypatch):
    path = tmp_path / name
    WAYS[name](path)
    first = path.read_bytes()
    assert first
    (tmp_path / "usual").touch()
    assert os.stat(path).st_mode == os.stat(tmp_path / "usual").st_mode
    path.write_bytes(b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        WAYS[name](path)
    assert path.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, "usual"])


def test_odd_names_become_text(tmp_path):
    """Half of a surrogate pair, as os.fsdecode makes of a foreign file name."""
    w = sapwood.tensor(1.0, requires_grad=True)
    viz.draw(w * 2, names={"\udcff": w}).save(tmp_path / "a.svg")
    viz.save(w * 2, tmp_path / "a.html", names={"\udcff": w})
    assert all(Path(p).read_text(encoding="utf-8") for p in tmp_path.iterdir())
