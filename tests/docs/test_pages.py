"""The programs of further pages run, one after the other, and print what stands behind their lines."""

from __future__ import annotations

import contextlib
import io
import linecache
from pathlib import Path

import pytest
from pages import ROOT, blocks

PAGES = {"export": ["onnx"]}
"""Pages, and the packages that their programs need."""


@pytest.mark.parametrize("name", PAGES)
def test_page(name, tmp_path, monkeypatch):
    for package in PAGES[name]:
        pytest.importorskip(package, reason=f"docs/{name}.md needs {package}")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    text = (Path(ROOT) / "docs" / f"{name}.md").read_text()
    programs = [program for kind, program in blocks(text) if kind == "python"]
    assert programs
    for number, program in enumerate(programs):
        file = f"{name}-{number}.py"
        linecache.cache[file] = len(program), None, program.splitlines(True), file
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, file, "exec"), names)
        said = [
            line.split("#", 1)[1].strip() for line in program.splitlines() if line.startswith("print(") and "#" in line
        ]
        assert printed.getvalue().splitlines() == said
