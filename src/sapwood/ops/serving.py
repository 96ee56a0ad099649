"""How ops compute on arrays: on NumPy, or by kernels where the work is large.

An op whose declaration a kernel can follow has its forward function and its formulas served: a call on enough elements
makes the kernel, which from then on stands in the function's place. Which of the two does a piece of work depends on
the sizes alone (see `warm.serve`).

An elementwise op becomes a builtin with loops for its attributes' defaults; other attributes, reductions and
compositions are fused for each kind of arguments they meet. Everything a kernel does not cover goes back to NumPy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, wraps
from math import prod
from typing import Any

from numpy import ndarray

from . import warm
from .declare import REQUIRED, Op, input_names, todo, zero

KINDS = ("elementwise", "reduction", "fused")
EXACT = ("add", "sub", "mul", "div", "neg", "sqrt", "square", "reciprocal", "relu", "maximum", "minimum", "abs")
"""Ops whose kernels give NumPy's results to the last bit: `native` switches them over at any size and any moment."""

_lock = threading.RLock()
_places: dict[type[Op], list[dict[str, Any]]] = {}
_kernels: dict[type[Op], Callable[..., Any]] = {}
listeners: list[Callable[[type[Op]], None]] = []
"""Called with each op that got its kernel."""


def plain_of(op: type[Op]) -> Any:
    """Return the array-level function on NumPy: forward, or the formula, which runs on arrays just as well."""
    return op.forward if op.forward is not None else op.formula


def forward_of(op: type[Op]) -> Any:
    """Return what computes the op's result from arrays now."""
    return (_kernels.get(op) or _server(op)) if served(op) else plain_of(op)


def place(op: type[Op], namespace: dict[str, Any]) -> None:
    """Put the op's function into a namespace as `forward`, and its kernel when there is one."""
    if not served(op):
        namespace["forward"] = warm.counted(namespace, plain_of(op))
        return
    with _lock:
        _places.setdefault(op, []).append(namespace)
        namespace["forward"] = forward_of(op)


@cache
def served(op: type[Op]) -> bool:
    """Return whether kernels may do the op's work."""
    if op.kernel is not None or op.many or warm.never():
        return False
    return op.native is not None or (op.kind in KINDS and op.name not in EXACT)


@cache
def _server(op: type[Op]) -> Callable[..., Any]:
    """Return the op's function until it has a kernel: NumPy, which a call on enough elements replaces."""
    plain = plain_of(op)
    first_only = op.kind == "elementwise"
    counted = warm.counted({}, plain)

    def forward(*args: Any, **named: Any) -> Any:
        first = args[0]
        size = first.size if type(first) is ndarray else 0
        if not first_only:
            for a in args[1:]:
                if type(a) is ndarray and a.size > size:
                    size = a.size
                elif type(a) is tuple and a and type(a[0]) is int:
                    # A shape says how large the result will be.
                    size = max(size, prod(a))
        if size >= warm.LEAST and warm.serve(size):
            return _made(op)(*args, **named)
        return counted(*args, **named)

    return forward


def kernel_of(op: type[Op]) -> Any:
    """Return the op's kernel if it was made, else None."""
    return _kernels.get(op)


def _made(op: type[Op]) -> Callable[..., Any]:
    """Return the op's kernel, made and put in place at the first call."""
    with _lock:
        found = _kernels.get(op)
        if found is None:
            found = _kernels[op] = kernel(op)
            for namespace in _places.get(op, ()):
                namespace["forward"] = found
            for told in listeners:
                told(op)
    return found


def kernel(op: type[Op], least: int = warm.LEAST) -> Callable[..., Any]:
    """Return what computes the op's result by kernels, and on NumPy what they do not cover.

    Args:
        least: elements below which NumPy does the work.
    """
    from ..kernels import vocabulary

    if op.native is not None:
        return op.native(plain_of(op), least)  # type: ignore[no-any-return]
    if not vocabulary.knows(op):
        return plain_of(op)  # type: ignore[no-any-return]
    return _pointwise(op, least) or _fused(op, least)  # type: ignore[no-any-return]


def _fused(op: type[Op], least: int) -> Any:
    """Return the op's function fused for each kind of arguments."""
    from ..kernels import fuse, vocabulary

    order = [n for n, _, keyword in op.params if not keyword and n not in op.usual]
    names = input_names(op)
    attrs = {n: d for n, d, _ in op.params if n in op.attrs}

    def on_symbols(*args: Any, **named: Any) -> Any:
        given = attrs | dict(zip(order, args)) | named | op.usual
        return vocabulary.of_op(op, tuple([given[n] for n in names]), tuple([given[n] for n in op.attrs]))

    return fuse.Fused(on_symbols, plain_of(op), least)


def _pointwise(op: type[Op], least: int) -> Any:
    """Return a builtin for an op of elements; None where it takes more than one, or no formula is found."""
    from ..kernels import builtin, fuse, vocabulary
    from ..kernels.front import MAX_ARITY, MAX_ATTRS
    from ..kernels.symbols import Unfusable

    names = input_names(op)
    params = [(n, d, k) for n, d, k in op.params if n not in op.usual]
    attrs = {n: d for n, d, _ in params if n in op.attrs}
    numbers = [n for n, d in attrs.items() if type(d) in (int, float)]
    if op.kind != "elementwise" or op.outs or len(names) > MAX_ARITY or len(attrs) > MAX_ATTRS:
        return None
    if [n for n, _, _ in params] != [*names, *numbers, *(n for n in attrs if n not in numbers)]:
        return None
    settings = {n: d for n, d in attrs.items() if n not in numbers}
    if any(type(d) not in (str, bool, type(None)) for d in settings.values()):
        return None

    def formula(*symbols: Any) -> Any:
        given = dict(zip([*names, *numbers], symbols)) | settings | op.usual
        return vocabulary.of_op(op, tuple([given[n] for n in names]), tuple([given[n] for n in op.attrs]))

    try:
        return builtin.pointwise(
            op.name,
            fuse.elementwise(formula, len(names)),
            len(names),
            _fused(op, least) if attrs else plain_of(op),
            attrs={n: attrs[n] for n in [*numbers, *settings]},
            inputs=names,
            least=least,
        )
    except Unfusable:
        return None


# -- formulas ----------------------------------------------------------------------------------------------------------


def formula(op: type[Op], name: str, function: Any, scope: dict[str, Any]) -> Any:
    """Return a derivative's formula as `pull` calls it: on arrays, until a call on enough elements makes its kernel.

    Args:
        name: what the formula is called in `scope`, the namespace of `pull`.
    """
    if function in (None, zero, todo) or op.kind not in KINDS or not served(op):
        return function

    def served_formula(*args: Any) -> Any:
        size = 0
        for a in args:
            if type(a) is ndarray:
                if a.size > size:
                    size = a.size
            elif type(a) is not tuple and hasattr(a, "_array"):
                return function(*args)
        if size < warm.LEAST or not warm.serve(size):
            return function(*args)
        with _lock:
            found = scope[name]
            if found is served_formula:
                found = scope[name] = _kernel_of_formula(op, name, function)
        return found(*args)

    return served_formula


def shared(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that formulas call with arrays of other shapes than their own, served like a formula."""
    kernels: list[Any] = []

    @wraps(function)
    def call(*args: Any) -> Any:
        size = 0
        for a in args:
            if type(a) is ndarray:
                size = max(size, a.size)
            elif a is not None and type(a) not in (int, float, tuple):
                return function(*args)
        if size < warm.LEAST or not warm.serve(size):
            return function(*args)
        if not kernels:
            from ..kernels.fuse import Fused

            kernels.append(Fused(function, None, warm.LEAST))
        return kernels[0](*args)

    return call


def _kernel_of_formula(op: type[Op], name: str, function: Any) -> Any:
    from ..kernels.fuse import Fused

    if name == "vjp" and op.native_vjp is not None:
        return op.native_vjp(Fused(function, None, warm.LEAST), warm.LEAST)
    if op.kind == "elementwise" and name != "vjp":
        i = input_names(op).index(name.removeprefix("vjp_"))
        found = formula_kernel(op, input_names(op)[i], function, op.wants[i], warm.LEAST)
        if found is not None:
            return found
    return Fused(function, None, warm.LEAST)


def formula_kernel(op: type[Op], name: str, function: Any, wanted: tuple[str, ...], least: int) -> Any:
    """Return a builtin for the formula of one derivative, or None if it is no formula of one element.

    The builtin knows number attributes as operands and the others at their defaults.
    """
    if function in (None, zero, todo):
        return None
    from ..kernels import builtin, emit, fuse
    from ..kernels.front import MAX_ARITY, MAX_ATTRS
    from ..kernels.symbols import Unfusable

    tensors = {*input_names(op), "out"}
    defaults = {n: d for n, d, _ in op.params if n in op.attrs and d is not REQUIRED}
    operands = [w for w in wanted if w in tensors]
    attrs = {w: defaults.get(w) for w in wanted if w not in tensors}
    numbers = [w for w, d in attrs.items() if type(d) in (int, float)]
    fixed = [w for w in attrs if w not in numbers]
    known = all(w in defaults and type(attrs[w]) in (str, bool, type(None)) for w in fixed)
    if not known or list(wanted) != [*operands, *numbers, *fixed]:
        return None
    arity = 1 + len(operands)
    if arity > MAX_ARITY or len(attrs) > MAX_ATTRS:
        return None

    def on_elements(*values: Any) -> Any:
        return function(*values, *(attrs[w] for w in fixed))

    fallback = fuse.Fused(function, None, least) if attrs else function
    try:
        body = fuse.elementwise(on_elements, arity)
        (root,) = emit.trace(body, "f32", arity, len(numbers))
    except Unfusable:
        return None
    if root.op == "var":
        return None
    return builtin.pointwise(
        f"{op.name}_{name}", body, arity, fallback, attrs=attrs, inputs=("g", "a", "b", "c", "d")[:arity], least=least
    )


__all__ = [
    "EXACT",
    "KINDS",
    "formula",
    "formula_kernel",
    "forward_of",
    "kernel",
    "kernel_of",
    "listeners",
    "place",
    "plain_of",
    "served",
    "shared",
]
