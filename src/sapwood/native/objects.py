"""What native code knows of Python's objects and of ours: offsets of slots, addresses, and counted references.

Everything is read from the running interpreter (a slot's offset from its member descriptor) and compared with real
objects before anything is switched on.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from ..kernels import builtin
from ..kernels.front import incref
from ..kernels.layout import TUPLE_ITEMS, fields
from ..kernels.writer import Function, Module, Operand, Value
from ..node import LEAF, Node, Output
from ..state import GRAD, mode, next_seq
from ..tensor import Parameter, Tensor

_API = {
    "alloc": "PyType_GenericAlloc",
    "tuple": "PyTuple_New",
    "from_long": "PyLong_FromLongLong",
    "as_long": "PyLong_AsLongLong",
    "iter_next": "PyIter_Next",
    "get_context": "PyContextVar_Get",
    "dealloc": "_Py_Dealloc",
    "vectorcall": "PyObject_Vectorcall",
    "getattr": "PyObject_GetAttr",
    "error": "PyErr_Occurred",
    "clear": "PyErr_Clear",
    "dict_get": "PyDict_GetItemWithError",
    "dict_set": "PyDict_SetItem",
    "dict_del": "PyDict_DelItem",
    "list_size": "PyList_Size",
    "is_instance": "PyObject_IsInstance",
    "frame": "PyEval_GetFrame",
    "frame_code": "PyFrame_GetCode",
    "frame_back": "PyFrame_GetBack",
    "frame_lasti": "PyFrame_GetLasti",
    "matches": "PyErr_ExceptionMatches",
}
_SLOTS = {
    "tensor_array": (Tensor, "_array"),
    "tensor_node": (Tensor, "_node"),
    **{f"node_{n}": (Node, n) for n in ("edges", "saved", "shape", "dtype", "extra", "seq", "origin")},
    **{f"output_{n}": (Output, n) for n in ("shape", "dtype", "seq")},
}
WORLD = fields(
    *_API, *_SLOTS, "tensor", "parameter", "ndarray", "float", "int", "tuple_type", "output_type", "leaf", "none",
    "true", "mode", "zero", "one", "counter", "f32", "f64", "c64", "c128", "word_pull", "word_saves", "unusual",
    "heappush", "heappop", "repair", "startswith", "own", "word_filename", "add_self", "front", "redone", "explained",
)  # fmt: skip
"""One table of addresses and offsets for all native code that deals with tensors and nodes."""

_kept: list[Any] = []


def offset(owner: type, slot: str) -> int:
    """Return where in an instance a slot lies."""
    # PyMemberDescrObject: five words of a descriptor, then the address of name, type and offset.
    member = ctypes.c_ssize_t.from_address(id(vars(owner)[slot]) + 40).value
    return ctypes.c_ssize_t.from_address(member + 16).value


def misfit() -> str | None:
    """Return what is not as expected, or None if native code may touch our objects."""
    if not (3, 11) <= sys.version_info < (3, 14):
        return f"native calls were not tried on Python {sys.version_info.major}.{sys.version_info.minor}"
    tensor = Tensor([1.0])
    at = id(tensor) + offset(Tensor, "_array")
    node = object.__new__(Node)
    node.seq = 1234567
    there = id(node) + offset(Node, "seq")
    if (
        ctypes.c_ssize_t.from_address(at).value != id(tensor._array)
        or ctypes.c_ssize_t.from_address(there).value != id(node.seq)
        or Tensor.__basicsize__ != Parameter.__basicsize__
    ):
        return f"Python {sys.version.split()[0]} lays its objects out in an unknown way"
    return None


def world(**more: int) -> Any:
    """Return the table of addresses; the engine's are given by the caller."""
    table = (ctypes.c_int64 * len(WORLD))()
    values: dict[str, int] = {n: builtin.address_of(symbol) for n, symbol in _API.items()}
    values |= {n: offset(*where) for n, where in _SLOTS.items()}
    counter = next_seq.__self__  # type: ignore[attr-defined] # of the bound __next__
    words = [sys.intern("pull"), sys.intern("saves"), sys.intern("co_filename")]
    dtypes = [np.dtype(k) for k in ("f4", "f8", "c8", "c16")]
    values |= dict(zip(("f32", "f64", "c64", "c128"), map(id, dtypes)))
    values |= {
        "tensor": id(Tensor), "parameter": id(Parameter), "ndarray": id(np.ndarray), "float": id(float), "int": id(int),
        "tuple_type": id(tuple), "leaf": id(LEAF), "none": id(None), "true": id(True), "mode": id(mode), "zero": id(0),
        "one": id(GRAD), "counter": id(counter), "word_pull": id(words[0]), "word_saves": id(words[1]),
        "word_filename": id(words[2]),
        "front": builtin.runtime()["front"], "output_type": id(Output),
    }  # fmt: skip
    values |= more
    for name, place in WORLD.items():
        table[place // 8] = values[name]
    _kept.append((table, counter, words, dtypes))
    return table


def keep(thing: Any) -> None:
    """Keep what native code points to."""
    _kept.append(thing)


# -- references -------------------------------------------------------------------------------------------------------


def define(module: Module) -> None:
    """Define `hold(object)` and `drop(world, object)`, which take and give back one reference."""
    with module.function("void", "hold", "ptr %x", internal=True) as f:
        incref(f, "%x")
    with module.function("void", "drop", "ptr %world", "ptr %x", internal=True) as f:
        incref(f, "%x", -1)
        with f.when(f.compare("eq", f.load("i64", "%x"), 0), seldom=True):
            f.call("void", at(f, "dealloc"), "ptr %x")


def at(f: Function, name: str) -> Value:
    """Load an address from the world."""
    return f.field("ptr", "%world", WORLD[name])


def place(f: Function, name: str) -> Value:
    """Load an offset from the world."""
    return f.field("i64", "%world", WORLD[name])


def slot(f: Function, thing: Value, name: str) -> Value:
    """Return what lies in a slot, a borrowed reference or null."""
    return f.load("ptr", f.at(thing, place(f, name)))


def give(f: Function, value: Value, thing: Value, name: str) -> None:
    """Put a reference of our own into an empty slot."""
    f.store("ptr", value, f.at(thing, place(f, name)))


def hold(f: Function, thing: Value) -> Value:
    """Take one more reference."""
    f.call("void", "@hold", f"ptr {thing}")
    return thing


def drop(f: Function, thing: Value) -> None:
    """Give a reference back."""
    f.call("void", "@drop", "ptr %world", f"ptr {thing}")


def same(f: Function, a: Value, b: Value) -> Value:
    """Return whether two pointers are equal."""
    return f.compare("eq", a, b, "ptr")


def forgive(f: Function, kinds: str) -> None:
    """Clear the error that is set if Python will judge the same call again; any other, an interrupt say, stays."""
    known = f.call("i32", at(f, "matches"), f"ptr {at(f, kinds)}")
    with f.when(f.compare("ne", known, 0, "i32")):
        f.call("void", at(f, "clear"))


def item(f: Function, sequence: Value, i: Operand) -> Value:
    """Return the address of an item of a tuple."""
    return f.element("ptr", f.at(sequence, TUPLE_ITEMS), i)


__all__ = [
    "WORLD",
    "at",
    "define",
    "drop",
    "forgive",
    "give",
    "hold",
    "item",
    "keep",
    "misfit",
    "offset",
    "place",
    "same",
    "slot",
    "world",
]
