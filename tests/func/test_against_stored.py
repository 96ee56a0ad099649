"""Transforms against PyTorch's: values to 1e-10 in float64, shapes, dtypes, what requires grad, classes of errors.

func.json was written by tests/golden/make_func.py with torch 2.13.
"""

from __future__ import annotations

import builtins
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import sapwood

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))
from func_cases import programs  # noqa: E402
from make_func import recorded  # noqa: E402

CASES = json.loads((GOLDEN / "func.json").read_text())
PROGRAMS = programs(sapwood)


def same(got, want, where):
    if isinstance(want, dict):
        assert isinstance(got, dict) and list(got) == list(want), where
        for k in want:
            same(got[k], want[k], f"{where}.{k}")
    elif isinstance(want, list) and want[0] == "T":
        assert got[:4] == want[:4], f"{where}: {got[:4]} instead of {want[:4]}"
        np.testing.assert_allclose(got[4], want[4], rtol=1e-10, atol=1e-10, err_msg=where)
    elif isinstance(want, list):
        assert got[0] == want[0] and len(got[1]) == len(want[1]), where
        for i, (g, w) in enumerate(zip(got[1], want[1])):
            same(g, w, f"{where}[{i}]")
    else:
        assert got == want, where


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(CASES))
def test_program(name):
    want = CASES[name]
    if isinstance(want, list) and want[0] == "error":
        with pytest.raises(getattr(builtins, want[1])):
            PROGRAMS[name]()
    else:
        same(recorded(PROGRAMS[name](), sapwood), want, name)


def test_every_program_is_stored():
    assert set(CASES) == set(PROGRAMS)
