"""Imports point down, and importing the package loads nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sapwood

ROOT = Path(sapwood.__file__).parent
LAYERS = [
    {"errors", "dtypes", "device", "state", "hook", "origin", "kernels", "warned", "deterministic", "files"},
    {"node", "alias", "cuts", "installed", "interop", "tensor", "printing"},
    {"ops", "random"},
    {"autograd", "func", "nn", "utils", "serialize", "serialization"},
    {"optim", "viz", "compat", "functional", "graph", "export", "native", "fusing"},
    {"__init__", "__main__", "demo", "testing", "commands"},
]
RANK = {name: i for i, names in enumerate(LAYERS) for name in names}
FILES = sorted(ROOT.rglob("*.py"))


def top(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Return the top-level parts of the package that a file imports at its own import (not inside functions)."""
    found = set()
    package = ["sapwood", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            full = [*base, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                parts = [*full, alias.name]
                if parts[0] == "sapwood" and len(parts) > 1:
                    found.add(parts[1])
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path):
    own = RANK[top(path)]
    for name in imported(path):
        if name in RANK and name != top(path):
            assert RANK[name] <= own, f"{path.relative_to(ROOT)} (layer {own}) imports {name} (layer {RANK[name]})"


def test_every_part_has_a_layer():
    assert {top(p) for p in FILES} <= set(RANK)


def test_import_is_light():
    heavy = ("llvmlite", "scipy", "matplotlib", "onnx", "sklearn", "ml_dtypes", "mpi4py", "IPython", "torch")
    code = f"import sys, sapwood; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_files_stay_small():
    numbers = {"kernels/coefficients.py"}  # tables that a script writes
    long = {str(p.relative_to(ROOT)): n for p in FILES if (n := len(p.read_text().splitlines())) > 500}
    long = {p: n for p, n in long.items() if p not in numbers}
    assert not long, f"split these files, or give the reason in docs/decisions.md: {long}"
