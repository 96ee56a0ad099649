"""The programs of docs/capture.md print what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import ROOT, blocks, output

BLOCKS = blocks((Path(ROOT) / "docs" / "capture.md").read_text())
PROGRAMS = [(text, BLOCKS[i + 1][1]) for i, (kind, text) in enumerate(BLOCKS) if kind == "python"]


@pytest.mark.parametrize(("program", "shown"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_program_prints_what_the_page_shows(program, shown):
    assert output(program) == shown


def test_page_has_programs():
    assert len(PROGRAMS) > 5
