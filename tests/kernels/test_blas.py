"""Products of matrices called from native code."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from sapwood.kernels import blas, engine
from sapwood.kernels.writer import Module

found = blas.find()
pytestmark = pytest.mark.skipif(found is None or not engine.available(), reason="no BLAS that native code knows")

KINDS = {"f32": (np.float32, "sgemm"), "f64": (np.float64, "dgemm")}


def sources():
    """Return every BLAS there is, each with its calling convention."""
    return [b for b in (found, blas._beside_scipy(), blas._cython()) if b is not None]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("source", sources(), ids=lambda b: f"{b.source}-{b.style}-{b.integer}")
def test_gemm(source, dtype):
    kind, name = KINDS[dtype]
    rng = np.random.default_rng(0)
    m, n, k = 5, 7, 3
    for transposed_a in (False, True):
        for transposed_b in (False, True):
            module = Module()
            with module.function("void", "product", "ptr %gemm", "ptr %a", "ptr %b", "ptr %c") as f:
                lda, ldb = (m if transposed_a else k), (k if transposed_b else n)
                sides = ("%a", lda, transposed_a), ("%b", ldb, transposed_b)
                blas.write_gemm(f, source, dtype, "%gemm", (m, n, k), *sides, ("%c", n), alpha="2.0", beta="1.0")
            address = engine.load(module.text(), ["product"])["product"]
            a = rng.standard_normal((k, m) if transposed_a else (m, k)).astype(kind)
            b = rng.standard_normal((n, k) if transposed_b else (k, n)).astype(kind)
            c = rng.standard_normal((m, n)).astype(kind)
            expected = c + 2 * (a.T if transposed_a else a) @ (b.T if transposed_b else b)
            pointers = [array.ctypes.data for array in (a, b, c)]
            ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(address)(getattr(source, name), *pointers)
            np.testing.assert_allclose(c, expected, rtol=0, atol=16 * np.finfo(kind).eps)


def test_single_thread():
    before = blas.threads()
    with blas.single():
        assert blas.threads() == 1
    assert blas.threads() == before
