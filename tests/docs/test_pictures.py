"""The programs of docs/pictures.md print what the page shows."""

from __future__ import annotations

from pages import ROOT, blocks, output


def test_the_page():
    found = blocks((ROOT / "docs" / "pictures.md").read_text(encoding="utf-8"))
    program, shown = "", ""
    for kind, text in found:
        if kind == "python":
            program += text
        else:
            shown += text
    assert len(found) == 8
    assert output(program) == shown
