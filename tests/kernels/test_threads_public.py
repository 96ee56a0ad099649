"""The number of threads under PyTorch's names."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sapwood


def test_the_number_of_threads_is_kept():
    before = sapwood.get_num_threads()
    try:
        sapwood.set_num_threads(3)
        assert sapwood.get_num_threads() == 3
    finally:
        sapwood.set_num_threads(before)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", True, None])
def test_wrong_numbers_are_refused(wrong):
    for function in (sapwood.set_num_threads, sapwood.set_num_interop_threads):
        with pytest.raises(RuntimeError, match=f"{function.__name__}: expected a positive int"):
            function(wrong)


def test_interop_threads_can_be_set_once():
    code = """
import sapwood
sapwood.set_num_interop_threads(3)
print(sapwood.get_num_interop_threads())
try:
    sapwood.set_num_interop_threads(4)
except RuntimeError as e:
    print(e)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "3"
    assert "it can be set once" in done.stdout


def test_numpys_products_follow():
    code = """
import ctypes
from pathlib import Path
import numpy
import sapwood
paths = list(Path(numpy.__file__).parents[1].glob("numpy.libs/*openblas*"))
sapwood.set_num_threads(1)
if paths:
    library = ctypes.CDLL(str(paths[0]))
    names = ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads64_", "openblas_get_num_threads")
    print(next(getattr(library, n)() for n in names if hasattr(library, n)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if not done.stdout:
        pytest.skip("NumPy has no OpenBLAS of its own here")
    assert done.stdout.strip() == "1"


def test_scipys_products_follow():
    code = "import scipy.linalg, sapwood; sapwood.set_num_threads(1); print(sapwood.get_num_threads())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
