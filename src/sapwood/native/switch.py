"""Turning native calls on: which ops have them, and where they take the place of printed functions.

An operator such as `Tensor.__mul__` becomes a method descriptor of a C function. A named function or method stays the
Python function it is, with its signature and documentation; its body becomes one call of a builtin. Their fallbacks are
copies of the printed functions.
"""

from __future__ import annotations

import ctypes
import types
from functools import cache
from typing import Any

import numpy as np

from .. import origin
from ..autograd import engine
from ..kernels import builtin, vocabulary
from ..kernels import engine as compiler
from ..kernels.writer import Module
from ..node import Unusual, unusual
from ..ops import call, nodes, serving, source
from ..ops.declare import Op, differentiable, input_names
from ..tensor import Tensor
from . import calls, lines, objects, sweep

ORDERS = ("C", "F")

_installed: dict[str, tuple[Any, Any]] = {}
"""Operator -> (the descriptor, the printed function)."""
_bodies: dict[Any, Any] = {}
"""Named function -> its native body."""
_stubs: list[str] = []


def why_not() -> str | None:
    """Return one line that says why there are no native calls here, or None if there are."""
    return builtin.why_not() or objects.misfit()


@cache
def start() -> bool:
    """Switch native calls on; answer whether they are."""
    if why_not() is not None:
        return False
    for function, op, method in list(call.printed):
        install(function, op, method)
    call.printers.append(install)
    serving.listeners.append(_adopt)
    engine.sweep = _builtin("sweep", _code()["sweep"], ctypes.addressof(_world()))
    origin.Tracking.listeners.append(_tracked)
    return True


@cache
def _code() -> dict[str, int]:
    module = Module()
    objects.define(module)
    lines.define(module)
    calls.define(module)
    calls.define_stubs(module)
    sweep.define(module)
    names = ["call_op", "builtin_op", "sweep", "tables", *(f"stub{k}" for k in range(calls.STUBS))]
    return compiler.load(module.text() + calls.TABLES + lines.GLOBALS + sweep.GLOBALS, names, level=2)


@cache
def _world() -> Any:
    from heapq import heappop, heappush

    add = builtin.pointwise("add", vocabulary.ARITHMETIC["add"], 2, np.add)
    redone = (Unusual, RuntimeWarning)
    explained = (TypeError, ValueError, RuntimeWarning)
    things = (
        unusual,
        heappush,
        heappop,
        engine.repair_at,
        add.__self__,
        str.startswith,
        origin.OWN,
        redone,
        explained,
        add,
    )
    objects.keep(things)
    names = ("unusual", "heappush", "heappop", "repair", "add_self", "startswith", "own", "redone", "explained")
    return objects.world(**dict(zip(names, map(id, things))))


def install(function: Any, op: Any, method: str | None) -> None:
    """Let an eager function that was just printed make native calls, if its op can."""
    if method not in (None, "operator") or (kernel := _kernel(op)) is None:
        return
    if method == "operator" and len(_stubs) == calls.STUBS:
        return
    node, plan = _recorded(op)
    python = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    python.__kwdefaults__ = function.__kwdefaults__
    table = _table(op, kernel, node, plan, python)
    name = function.__name__
    if method == "operator":
        _installed[name] = _descriptor(name, table), function
    else:
        native = _builtin(name, _code()["builtin_op"], ctypes.addressof(table))
        _bodies[function] = _body(op, function, native, python)
    if not origin.Tracking.on:
        _put(name, function)


def _kernel(op: Any) -> Any:
    """Return the kernel of an op that can be called natively, else None."""
    if _plan(op) is None or len(nodes.node_names(op)) > 1:
        return None
    if op.name not in serving.EXACT:
        made = serving.kernel_of(op)
        return made if isinstance(made, types.BuiltinFunctionType) and len(input_names(op)) <= 2 else None
    return builtin.pointwise(op.name, vocabulary.ARITHMETIC[op.name], len(input_names(op)), serving.plain_of(op))


def _adopt(op: type[Op]) -> None:
    """Make native calls of an op that just got its kernel."""
    for function, its, method in call.printed:
        if its is op:
            install(function, op, method)


@cache
def _recorded(op: Any) -> tuple[Any, list[tuple[int, Any, int]]]:
    """Return the op's node class, None without gradient, and what its nodes keep."""
    if not differentiable(op):
        return None, []
    if op.vjp is None and op.name in serving.EXACT:
        _formulas(op)
    return nodes.node_class(op, nodes.node_names(op)[0]), _plan(op) or []


def _plan(op: type[Op]) -> list[tuple[int, Any, int]] | None:
    """Return (kind, object, users) per kept value, or None if native calls cannot make one of them."""
    names = input_names(op)
    found: list[tuple[int, Any, int]] = []
    defaults = {n: d for n, d, _ in op.params}
    for kept in nodes.keeps(op):
        users = nodes.users(op, kept)
        bits = sum(1 << names.index(u) for u in users) if users is not None else 0
        if kept in names:
            found.append((names.index(kept), None, bits))
        elif kept == "out":
            found.append((calls.OUT, None, bits))
        elif kept in op.attrs:
            found.append((calls.CONSTANT, defaults[kept], bits))
        elif kept.endswith("_order") and kept.removesuffix("_order") in names:
            found.append((calls.ORDER + names.index(kept.removesuffix("_order")), ORDERS, bits))
        else:
            return None
    return found


def _table(op: type[Op], kernel: Any, node: Any, plan: list[tuple[int, Any, int]], fallback: Any) -> Any:
    """Return the table of one native call."""
    entries = (ctypes.c_int64 * (len(calls.KEEP) * len(plan) + 1))()
    for k, (kind, thing, bits) in enumerate(plan):
        first, other = thing if kind >= calls.ORDER else (thing, None)
        known = kind >= calls.CONSTANT
        entries[4 * k : 4 * k + 4] = [kind, id(first) if known else 0, bits, id(other) if known else 0]
    table = (ctypes.c_int64 * len(calls.OP))()
    values = {
        "call": _code()["call_op"],
        "world": ctypes.addressof(_world()),
        "fallback": id(fallback),
        "front": kernel.__self__.address,
        "kernel": id(kernel.__self__),
        "arity": len(input_names(op)),
        "node": 0 if node is None else id(node),
        "able": sum(1 << i for i, v in enumerate(op.vjps) if v is not None),
        "keeps": len(plan),
        "plan": ctypes.addressof(entries),
        "scalars": int(bool(op.scalars)),
    }
    for name, place in calls.OP.items():
        table[place // 8] = values[name]
    objects.keep((table, entries, plan, kernel, node, fallback))
    return table


def _builtin(name: str, address: int, pointer: int) -> Any:
    """Return a builtin whose `self` holds a pointer."""
    return builtin.make(name, address, builtin.Table(pointer.to_bytes(8, "little")), "")


def _descriptor(name: str, table: Any) -> Any:
    """Return a method descriptor of Tensor for a native call."""
    number = len(_stubs)
    _stubs.append(name)
    tables_of = ctypes.CFUNCTYPE(ctypes.c_void_p)(_code()["tables"])
    tables = ctypes.cast(tables_of() or 0, ctypes.POINTER(ctypes.c_void_p))
    tables[number] = ctypes.addressof(table)
    definition = builtin.Definition(name.encode(), _code()[f"stub{number}"], builtin.FASTCALL_KEYWORDS, None)
    objects.keep(definition)
    new = ctypes.pythonapi.PyDescr_NewMethod
    new.restype, new.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return new(Tensor, ctypes.addressof(definition))


def _body(op: type[Op], function: Any, native: Any, python: Any) -> Any:
    """Return the code of a named function: the native call, unless an attribute or `out` is given."""
    code = function.__code__
    count = code.co_argcount
    names, rest = code.co_varnames[:count], code.co_varnames[count : count + code.co_kwonlyargcount]
    inputs = input_names(op)
    defaults = {n: d for n, d, _ in op.params}
    others = [n for n in (*names, *rest) if n not in inputs]
    tests = [f"{n} is None" if defaults.get(n) is None else f"{n} == {defaults[n]!r}" for n in others]
    head = ", ".join([*names, *(["*", *rest] if rest else [])])
    passed = ", ".join([*names, *(f"{n}={n}" for n in rest)])
    text = f"def {function.__name__}({head}):\n"
    if tests:
        text += f"    if {' and '.join(tests)}:\n        return native_{function.__name__}({', '.join(inputs)})\n"
        text += f"    return python_{function.__name__}({passed})\n"
    else:
        text += f"    return native_{function.__name__}({', '.join(inputs)})\n"
    function.__globals__[f"native_{function.__name__}"] = native
    function.__globals__[f"python_{function.__name__}"] = python
    return source.run(text, f"native {op.name}", {})[function.__name__].__code__


def _formulas(op: type[Op]) -> None:
    """Let the op's node classes compute their formulas by kernels, at any size: they give NumPy's results."""
    scope = nodes.puller(op).__globals__
    for n, formula, wanted in zip(input_names(op), op.vjps, op.wants):
        kernel = serving.formula_kernel(op, n, formula, wanted, 0)
        if kernel is not None:
            scope[f"vjp_{n}"] = kernel


def _put(name: str, function: Any) -> None:
    """Put the native call in the place of a printed function."""
    if function in _bodies:
        function.__code__ = _bodies[function]
    else:
        setattr(Tensor, name, _installed[name][0])


def _tracked(on: bool) -> None:
    """Follow origin tracking: while it is on, the printed functions note calls under no_grad, as native ones do not."""
    for name, (_, function) in _installed.items():
        if on:
            setattr(Tensor, name, function)
        else:
            _put(name, function)
    for function in () if on else _bodies:
        _put(function.__name__, function)


__all__ = ["install", "start", "why_not"]
