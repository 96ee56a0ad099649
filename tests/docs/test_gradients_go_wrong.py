"""The programs of docs/gradients-go-wrong.md give the messages that the page shows."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from pages import ROOT, blocks, output

from sapwood import cuts

PAGE = (Path(ROOT) / "docs" / "gradients-go-wrong.md").read_text()
BLOCKS = blocks(PAGE)
PROGRAMS = [
    (text, BLOCKS[i + 1][1] if i + 1 < len(BLOCKS) and BLOCKS[i + 1][0] == "text" else "")
    for i, (kind, text) in enumerate(BLOCKS)
    if kind == "python"
]


@pytest.fixture(autouse=True)
def as_in_a_process_of_its_own():
    gc.collect()
    cuts._blocks.clear()


@pytest.mark.parametrize(("program", "shown"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_program_prints_what_the_page_shows(program, shown):
    assert output(program) == shown


def test_page_has_every_kind():
    assert len(PROGRAMS) > 15
    assert sum(bool(shown) for _, shown in PROGRAMS) > 12
