"""Native functions as Python builtins: a call costs some 30 ns, and reads the arguments inside the array objects.

`pointwise` makes one from a formula over one element:

    >>> from sapwood.kernels import builtin, scalar
    >>> import numpy as np
    >>> multiply = builtin.pointwise("multiply", lambda x, y: x * y, 2, np.multiply)
    >>> multiply(np.array([1.0, 2.0]), 3)
    array([3., 6.])

Whatever a builtin does not cover (other dtypes, subclasses, shapes that do not fit …) goes to its fallback with the
same arguments, so it may take the fallback's place anywhere.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import ArgumentError, MissingError
from . import broadcast, emit, engine, front, layout, memory, nest, plan, threads
from .layout import ENV, TABLE
from .scalar import Scalar
from .writer import Module

FASTCALL_KEYWORDS = 0x0080 | 0x0002
_NUMPY_API = {"new_array": 94, "set_handler": 304}
_PYTHON_API = {
    "vectorcall": "PyObject_Vectorcall",
    "tuple": "PyTuple_New",
    "decref": "Py_DecRef",
    "malloc": "PyMem_RawMalloc",
    "free": "PyMem_RawFree",
    "as_double": "PyLong_AsDouble",
    "error": "PyErr_Occurred",
    "error_clear": "PyErr_Clear",
    "save_thread": "PyEval_SaveThread",
    "restore_thread": "PyEval_RestoreThread",
}

_kept: list[Any] = []
"""What all kernels' native code points to; never freed, as the code itself."""


class Definition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def why_not() -> str | None:
    """Return one line that says why there are no builtins here, or None if there are."""
    return engine.why_not() or _misfit()


def available() -> bool:
    """Return whether builtins can be made."""
    return why_not() is None


@functools.cache
def _misfit() -> str | None:
    return layout.probe()


def address_of(name: str) -> int:
    """Return the address of a function of Python's C API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@functools.cache
def runtime() -> dict[str, int]:
    """Compile the part that all kernels share, and return the addresses of its functions.

    Raises:
        MissingError: there are no builtins here; the text says why.
    """
    from . import multi

    reason = why_not()
    if reason is not None:
        raise MissingError(f"kernels: {reason}")
    module = Module()
    front.define_drop(module)
    threads.define(module)
    nest.define(module)
    memory.define(module)
    front.define(module)
    broadcast.define(module)
    plan.define(module)
    multi.define(module)
    return engine.load(
        module.text(), ["front", "run_plan", "run_update", "run_count", *memory.NAMES, "launch"], level=1
    )


@functools.cache
def environment() -> Any:
    """Return the table of addresses that every kernel reads."""
    found = runtime()
    table = (ctypes.c_int64 * len(ENV))()
    umath = sys.modules["numpy._core._multiarray_umath"]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api = ctypes.cast(pointer(umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    values = {name: api[index] or 0 for name, index in _NUMPY_API.items()}
    values |= {name: address_of(symbol) for name, symbol in _PYTHON_API.items()}
    dtypes = {name: np.dtype(word) for name, word in (("f32", "f4"), ("f64", "f8"), ("bool", "?"))}
    values |= {name: id(dtype) for name, dtype in dtypes.items()}
    values |= {"ndarray": id(np.ndarray), "float": id(float), "int": id(int), "list": id(list)}
    values |= {"tuple_type": id(tuple), "true": id(True), "false": id(False)}
    values |= threads.addresses() | {"threads": threads.count_address()}
    pool = memory.handler(found, values["set_handler"])
    values["pool"] = 0 if pool is None else id(pool)
    for name, offset in ENV.items():
        table[offset // 8] = values[name]
    _kept.append((table, dtypes, pool))
    return table


class Table(bytes):
    """What a builtin's native code reads, as the builtin's `self`; it keeps alive what its words point to."""

    kept: tuple[Any, ...] = ()
    address: int = 0
    """Of the C function that reads it."""


def make(name: str, address: int, self: Table, doc: str) -> Any:
    """Return a builtin that calls `ptr address(ptr self, ptr args, i64 nargs, ptr kwnames)`."""
    words = name.encode(), doc.encode()
    definition = Definition(words[0], address, FASTCALL_KEYWORDS, words[1])
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    # A builtin gives up its definition before its self.
    self.kept += (words, definition)
    self.address = address
    return new(ctypes.addressof(definition), self, "sapwood")


def table(size: int, values: Mapping[str, int], offsets: Mapping[str, int], *kept: Any) -> Table:
    """Return a table with the given words at their offsets, which keeps objects alive."""
    words = (ctypes.c_int64 * (size // 8))()
    for name, offset in offsets.items():
        words[offset // 8] = values[name]
    made = Table(words)
    made.kept = kept
    return made


def pointwise(
    name: str,
    body: Callable[..., Any],
    arity: int,
    fallback: Callable[..., Any],
    *,
    attrs: Mapping[str, Any] | None = None,
    inputs: tuple[str, ...] = ("input", "other", "third", "fourth", "fifth"),
    required: int = 0,
    least: int = 0,
) -> Any:
    """Return a builtin that applies a formula to each element of float32 and float64 arrays.

    The builtin takes `arity` operands, then the attributes, then perhaps an array for the result (which may be one of
    the operands). The first operand is an array; the others are arrays of its dtype, which broadcast, or Python
    numbers.

    Args:
        body: a function of Scalars, operands and then number attributes; its result is a float of the operands' dtype,
            or i1 for an array of bool.
        arity: number of operands, 1 to 5.
        fallback: called with the same arguments for everything else.
        attrs: default values of the attributes by name. A float or int is a number, handed to the body; any other value
            (a str, bool or None) is the only one that the kernel covers, and is not handed to the body.
        inputs: names of the operands, as keywords.
        required: how many attributes must be given.
        least: calls whose first operand has fewer elements go to the fallback.

    Raises:
        MissingError: there are no builtins here; the text says why.
    """
    attrs = dict(attrs or {})
    if not 1 <= arity <= front.MAX_ARITY or len(attrs) > front.MAX_ATTRS:
        raise ArgumentError(
            f"pointwise: {name} has {arity} operands and {len(attrs)} attributes; "
            f"1 to {front.MAX_ARITY} and up to {front.MAX_ATTRS} are possible"
        )
    env = environment()
    numbers = [n for n, v in attrs.items() if type(v) in (float, int)]
    if any(n not in numbers for n in list(attrs)[: len(numbers)]):
        raise ArgumentError(f"pointwise: the numbers of {name} must come before its other attributes, got {attrs}")
    traced: dict[str, tuple[Scalar, ...]] = {}
    for dtype in ("f32", "f64"):
        roots = traced[dtype] = emit.trace(body, dtype, arity, len(numbers))
        if len(roots) != 1 or roots[0].dtype not in (dtype, "i1"):
            raise ArgumentError(f"pointwise: {name} must return one {dtype} or i1, got {[r.dtype for r in roots]}")
    picoseconds = emit.work(traced["f32"])
    # A pass through a buffer would be felt, so one-element operands get loops of their own.
    masks = (0, 1, 2) if arity == 2 and picoseconds <= emit.LIGHT else (0,)
    own: list[Any] = []
    tables = {dtype: (ctypes.c_int64 * (1 << arity))() for dtype in traced}

    def late(*args: Any, **kwargs: Any) -> Any:
        """Compile the loops of one type at its first use: hardly a program uses both."""
        first = args[0] if args else next(iter(kwargs.values()))
        dtype = "f64" if first.dtype == np.float64 else "f32"
        loops = Module()
        for mask in masks:
            emit.pointwise_loop(loops, f"loop{mask}", traced[dtype], dtype, arity, len(numbers), mask)
        found = engine.load(loops.text(), [f"loop{mask}" for mask in masks])
        # Another thread takes the first one for a sign that all are there.
        for mask in reversed(masks):
            tables[dtype][mask] = found[f"loop{mask}"]
        return own[0]()(*args, **kwargs)

    values: dict[str, int] = {}
    for dtype, bits in (("f32", "32"), ("f64", "64")):
        result = traced[dtype][0].dtype
        values[f"loops{bits}"] = ctypes.addressof(tables[dtype])
        values[f"out_item{bits}"] = emit.SIZES[result]
        values[f"out_descr{bits}"] = env[ENV["bool" if result == "i1" else dtype] // 8]
    words = [sys.intern(n) for n in (*inputs[:arity], *attrs)]
    names = (ctypes.c_int64 * (len(words) + 1))(*map(id, words))
    expected = (ctypes.c_int64 * (len(attrs) + 1))(*[0 if n in numbers else id(v) for n, v in attrs.items()])
    defaults = (ctypes.c_double * (len(attrs) + 1))(*[float(v) if n in numbers else 0.0 for n, v in attrs.items()])
    values |= {
        "env": ctypes.addressof(env),
        "fallback": id(fallback),
        "names": ctypes.addressof(names),
        "arity": arity,
        "attrs": len(attrs),
        "required": required,
        "least": least,
        "cost": (80 * (arity + 1) + picoseconds) * 1024 // 1000,
        "late": id(late),
        "expected": ctypes.addressof(expected),
        "defaults": ctypes.addressof(defaults),
    }
    kept = (tables, words, names, expected, defaults, tuple(attrs.values()), fallback, late)
    self = table(8 * len(TABLE), values, TABLE, kept)
    made = make(name, runtime()["front"], self, fallback.__doc__ or "")
    # Weakly, so that a builtin dies with its last reference.
    own.append(weakref.ref(made))
    return made


__all__ = ["Table", "available", "environment", "make", "pointwise", "runtime", "table", "why_not"]
