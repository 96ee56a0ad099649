"""The pictures of the graphs that tutorials show, compared to the character."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "golden"


def made() -> Any:
    spec = importlib.util.spec_from_file_location("make_pictures", FOLDER / "make_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MADE = made()


@pytest.mark.parametrize("name", MADE.PICTURES)
@pytest.mark.parametrize("suffix", MADE.SUFFIXES)
def test_the_picture_is_the_committed_one(name: str, suffix: str, tmp_path: Path) -> None:
    drawn = MADE.PICTURES[name]().save(tmp_path / f"{name}{suffix}").read_text(encoding="utf-8")
    assert drawn == (FOLDER / f"{name}{suffix}").read_text(encoding="utf-8")


def test_every_committed_picture_is_drawn() -> None:
    names = {path.name for path in FOLDER.iterdir() if path.suffix in MADE.SUFFIXES}
    assert names == {f"{name}{suffix}" for name in MADE.PICTURES for suffix in MADE.SUFFIXES}
