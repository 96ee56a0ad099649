"""The README's program prints what the README shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import sapwood

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_first_program(tmp_path):
    program, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL).groups()
    said = [line.split("#")[1].strip() for line in program.splitlines() if line.startswith("print(") and "#" in line]
    env = os.environ | {"PYTHONPATH": str(Path(sapwood.__file__).parents[1])}
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, env=env
    ).stdout.splitlines()
    assert out[: len(said)] == said
    assert out[len(said) :] == shown.splitlines()
    assert (tmp_path / "graph.svg").stat().st_size > 1000
