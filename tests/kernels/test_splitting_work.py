"""The number of threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sapwood.errors import ValueRangeError
from sapwood.kernels import threads


def test_the_number_can_be_set():
    before = threads.get_num_threads()
    try:
        threads.set_num_threads(3)
        assert threads.get_num_threads() == 3
    finally:
        threads.set_num_threads(before)


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "2", None])
def test_other_numbers_are_refused(n):
    with pytest.raises(ValueRangeError, match="positive int"):
        threads.set_num_threads(n)


@pytest.mark.parametrize(("value", "expected"), [("3", "3"), ("4,2", "4"), ("", None), ("zero", None), ("0", None)])
def test_the_environment_is_asked_first(value, expected):
    code = "from sapwood.kernels import threads; print(threads.get_num_threads(), threads.available_cores())"
    import os

    env = {**os.environ, "OMP_NUM_THREADS": value}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
    number, cores = out.split()
    assert number == (expected or cores)


def test_the_number_of_threads_reaches_every_blas_that_is_loaded():
    code = "import scipy.linalg; from sapwood.kernels import threads; threads.set_num_threads(2)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
