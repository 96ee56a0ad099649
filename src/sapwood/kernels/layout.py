"""Where native code finds things: byte offsets in Python's and NumPy's objects, and in our own tables and jobs.

`probe` compares the offsets with real objects. Where one differs (a free-threaded Python, another NumPy) nothing native
may touch an object, and `builtin` says so.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig

import numpy as np

# PyObject, float, bytes and tuple of CPython with a global lock.
TYPE = 8
FLOAT_VALUE = 16
BYTES_DATA = bytes.__basicsize__ - 1
TUPLE_SIZE = 16
TUPLE_ITEMS = 24
LIST_ITEMS = 24

# PyArrayObject_fields, numpy/ndarraytypes.h.
DATA = 16
NDIM = 24
DIMS = 32
STRIDES = 40
DESCR = 56
FLAGS = 64

C_CONTIGUOUS, F_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x2, 0x100, 0x400

MAX_OPERANDS = 6
"""Outputs and inputs of a pointwise kernel."""
MAX_DIMS = 12
"""Dimensions native code deals with; arrays of more go to the fallback."""


def fields(*names: str, start: int = 0) -> dict[str, int]:
    """Return offsets for eight-byte fields, one after the other."""
    return {name: start + 8 * i for i, name in enumerate(names)}


ENV = fields(
    *("ndarray", "float", "int", "list", "tuple_type", "true", "false", "f32", "f64", "bool"),
    *("vectorcall", "tuple", "decref", "malloc", "free", "as_double", "error", "error_clear"),
    *("new_array", "set_handler", "pool", "save_thread", "restore_thread"),
    *("parallel", "thread_number", "threads_running", "threads"),
)
"""Addresses that every kernel needs, in one table for the whole process."""

TABLE = fields(
    "env", "fallback", "names", "arity", "attrs", "required", "cost",
    "out_descr32", "out_descr64", "out_item32", "out_item64",
    "loops32", "loops64", "expected", "defaults", "least", "late",
)  # fmt: skip
"""What a front needs to know about its kernel; lies in the bytes object that is the builtin's `self`."""

_OUTER = ("units", "grain", "run", "loops", "attrs", "operands", "outs", "mask", "cost", "items")
JOB = fields(*_OUTER)
JOB |= {"pointers": 80}
JOB |= fields("dims", "segment", "segments", start=80 + 8 * MAX_OPERANDS)
JOB |= {"kinds": 104 + 8 * MAX_OPERANDS}
JOB |= {"size": 104 + 16 * MAX_OPERANDS}
JOB |= {"strides": JOB["size"] + 8 * MAX_DIMS}
JOB_BYTES = JOB["strides"] + 8 * MAX_DIMS * MAX_OPERANDS
"""One call of a kernel, on the stack: pointers and, where operands differ in layout, sizes and strides."""


def _word(address: int) -> int:
    return ctypes.c_ssize_t.from_address(address).value


def probe() -> str | None:
    """Return what differs from the layout written here, or None if everything is as expected."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "native calls need CPython with a global lock"
    if sys.byteorder != "little":
        return "native calls need a little-endian machine"
    for array in (np.zeros((3, 5), np.float32), np.zeros((4, 6))[::2, ::3], np.asfortranarray(np.ones((2, 7)))):
        at = id(array)
        sizes = [_word(_word(at + DIMS) + 8 * i) for i in range(2)]
        steps = [_word(_word(at + STRIDES) + 8 * i) for i in range(2)]
        flags = ctypes.c_int.from_address(at + FLAGS).value
        same = (
            _word(at + TYPE) == id(np.ndarray)
            and _word(at + DATA) == array.__array_interface__["data"][0]
            and ctypes.c_int.from_address(at + NDIM).value == array.ndim
            and tuple(sizes) == array.shape
            and tuple(steps) == array.strides
            and _word(at + DESCR) == id(array.dtype)
            and bool(flags & C_CONTIGUOUS) == array.flags.c_contiguous
            and bool(flags & F_CONTIGUOUS) == array.flags.f_contiguous
            and bool(flags & ALIGNED) == array.flags.aligned
            and bool(flags & WRITEABLE) == array.flags.writeable
        )
        if not same:
            return f"NumPy {np.__version__} lays its arrays out in an unknown way"
    number, items, several = 1.5, (2.5, "x"), [3.5, "y", "z"]
    if (
        ctypes.c_double.from_address(id(number) + FLOAT_VALUE).value != number
        or ctypes.c_ssize_t.from_address(id(items) + TUPLE_SIZE).value != 2
        or ctypes.c_ssize_t.from_address(id(items) + TUPLE_ITEMS).value != id(items[0])
        or ctypes.c_ssize_t.from_address(id(several) + TUPLE_SIZE).value != 3
        or _word(_word(id(several) + LIST_ITEMS)) != id(several[0])
        or ctypes.string_at(id(b"sapwood") + BYTES_DATA, 7) != b"sapwood"
    ):
        return f"Python {sys.version.split()[0]} lays its objects out in an unknown way"
    return None


__all__ = [
    "ALIGNED",
    "BYTES_DATA",
    "C_CONTIGUOUS",
    "DATA",
    "DESCR",
    "DIMS",
    "ENV",
    "FLAGS",
    "FLOAT_VALUE",
    "F_CONTIGUOUS",
    "JOB",
    "JOB_BYTES",
    "LIST_ITEMS",
    "MAX_DIMS",
    "MAX_OPERANDS",
    "NDIM",
    "STRIDES",
    "TABLE",
    "TUPLE_ITEMS",
    "TUPLE_SIZE",
    "TYPE",
    "WRITEABLE",
    "fields",
    "probe",
]
