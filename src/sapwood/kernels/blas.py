"""Where the product of matrices is, for native code: NumPy's own BLAS, else SciPy's.

`find()` looks for the library that NumPy's wheel brings along (OpenBLAS with 64-bit integers), then for the pointers
SciPy publishes for Cython. `write_gemm` writes a call into native code, whatever the calling convention:

    >>> from sapwood.kernels import blas
    >>> found = blas.find()
    >>> found is None or found.integer in ("i32", "i64")
    True

`threads` and `set_threads` speak to the library's own pool; native code that shares work out among threads itself asks
for products on one thread meanwhile, or the machine runs more threads than it has cores.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .writer import Function, Operand, Value

_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112


class Blas(NamedTuple):
    """A BLAS library as native code sees it: addresses of functions, 0 where there is none."""

    source: str
    """Where it was found: "numpy" or "scipy"."""
    style: str
    """Calling convention: "cblas" (values, any order) or "fortran" (pointers, columns first)."""
    integer: str
    """Type of sizes, "i32" or "i64"."""
    sgemm: int
    dgemm: int
    get_threads: int = 0
    """`int get()`, the size of the library's pool."""
    set_threads: int = 0
    """`void set(int)`, for the whole process."""


@functools.cache
def find() -> Blas | None:
    """Return the BLAS that native code can call, or None if there is none that we know."""
    return _beside("numpy", np.__file__) or _beside_scipy() or _cython()


def _beside(source: str, file: str) -> Blas | None:
    """Look into the folder of libraries that a package's wheel brought along."""
    package = Path(file).parent
    folders = (package.parent / f"{package.name}.libs", package / ".libs", package / ".dylibs")
    for path in sorted(p for folder in folders for p in folder.glob("*openblas*")):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for prefix, suffix in (("scipy_", "64_"), ("", "64_"), ("scipy_", ""), ("", "")):
            gemms = [_address(library, f"{prefix}cblas_{t}gemm{suffix}") for t in "sd"]
            if all(gemms):
                pool = [_address(library, f"{prefix}openblas_{w}_num_threads{suffix}") for w in ("get", "set")]
                return Blas(source, "cblas", "i64" if suffix else "i32", *gemms, *pool)
    return None


def _beside_scipy() -> Blas | None:
    try:
        scipy = importlib.import_module("scipy")
    except ImportError:
        return None
    return _beside("scipy", str(scipy.__file__))


def _cython() -> Blas | None:
    """Take the pointers that SciPy publishes for Cython; their C signature tells the type of sizes."""
    try:
        capsules = importlib.import_module("scipy.linalg.cython_blas").__pyx_capi__
    except (ImportError, AttributeError):
        return None
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found, integer = [], ""
    for word in ("sgemm", "dgemm"):
        capsule = capsules.get(word)
        if capsule is None:
            return None
        signature = name_of(capsule)
        arguments = signature.decode().partition("(")[2].split(",")
        # The third argument, the number of rows, is an int, or some name for a 64-bit one.
        integer = "i32" if arguments[2].strip().startswith("int *") else "i64"
        found.append(pointer_of(capsule, signature) or 0)
    return Blas("scipy", "fortran", integer, *found)


def _address(library: ctypes.CDLL, name: str) -> int:
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def threads() -> int:
    """Return the number of threads of the library's pool, 1 if it does not say."""
    found = find()
    if found is None or not found.get_threads:
        return 1
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(found.get_threads)())


def set_threads(n: int) -> None:
    """Set the number of threads of the library's pool, for the whole process; nothing where it cannot be set."""
    found = find()
    if found is not None and found.set_threads:
        ctypes.CFUNCTYPE(None, ctypes.c_int)(found.set_threads)(n)


@contextmanager
def single() -> Iterator[None]:
    """Run the block with products on the calling thread alone."""
    before = threads()
    set_threads(1)
    try:
        yield
    finally:
        set_threads(before)


def write_gemm(
    f: Function,
    found: Blas,
    dtype: str,
    address: Value,
    sizes: tuple[Operand, Operand, Operand],
    a: tuple[Value, Operand, bool | Value],
    b: tuple[Value, Operand, bool | Value],
    c: tuple[Value, Operand],
    *,
    alpha: str = "1.0",
    beta: str = "0.0",
) -> None:
    """Write the call c = alpha · a @ b + beta · c of matrices whose rows follow each other.

    Args:
        dtype: "f32" or "f64".
        address: the function's address as a value of native code (a constant would not survive in the disk cache).
        sizes: rows of c, columns of c, and the length of the sums, i64.
        a, b: pointer, elements from one row in memory to the next, and whether it is transposed in memory,
            known now or at run time (i1).
        c: pointer, and elements from one row to the next.
        alpha, beta: constants or values of the dtype.
    """
    kind = {"f32": "float", "f64": "double"}[dtype]
    m, n, k = (_integer(f, found, s) for s in sizes)
    lda, ldb, ldc = (_integer(f, found, x[1]) for x in (a, b, c))
    if found.style == "cblas":
        flags = [f"i32 {_either(f, 'i32', x[2], _TRANSPOSED, _PLAIN)}" for x in (a, b)]
        numbers = [f"{found.integer} {s}" for s in (m, n, k)]
        rest = [f"{kind} {alpha}", f"ptr {a[0]}", f"{found.integer} {lda}", f"ptr {b[0]}", f"{found.integer} {ldb}"]
        rest += [f"{kind} {beta}", f"ptr {c[0]}", f"{found.integer} {ldc}"]
        f.call("void", address, f"i32 {_ROW_MAJOR}", *flags, *numbers, *rest)
        return
    # Columns first, the same memory is the transposed matrix: cᵀ = bᵀ @ aᵀ.
    place = _holder(f)
    letters = [place("i8", _either(f, "i8", x[2], ord("T"), ord("N"))) for x in (b, a)]
    numbers = [place(found.integer, s) for s in (n, m, k)]
    leads = [place(found.integer, s) for s in (ldb, lda, ldc)]
    scales = [place(kind, s) for s in (alpha, beta)]
    order = [*letters, *numbers, scales[0], b[0], leads[0], a[0], leads[1], scales[1], c[0], leads[2]]
    f.call("void", address, *[f"ptr {p}" for p in order])


def _either(f: Function, kind: str, condition: bool | Value, a: int, b: int) -> Operand:
    return f.choose(condition, a, b, kind) if isinstance(condition, str) else a if condition else b


def _integer(f: Function, found: Blas, size: Operand) -> Operand:
    return size if found.integer == "i64" else f.v(f"trunc i64 {size} to i32")


def _holder(f: Function) -> Callable[[str, Any], Value]:
    def place(kind: str, value: Any) -> Value:
        cell = f.space(kind, 1)
        f.store(kind, value, cell)
        return cell

    return place


__all__ = ["Blas", "find", "set_threads", "single", "threads", "write_gemm"]
