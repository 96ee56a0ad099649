"""Recording a call that did not take the flat path: its node, what that keeps, and an edge per output."""

from __future__ import annotations

from functools import cache
from sys import _getframe as getframe
from typing import Any
from weakref import ref

import numpy as np
from numpy import ndarray

from ..errors import GradError
from ..node import LEAF, Output, rare
from ..origin import of_frame
from ..state import ANOMALY, PACK, get_mode, next_seq
from ..tensor import InferenceTensor, Tensor
from .declare import Op, differentiable, input_names
from .nodes import keeps, node_class, node_expression, node_names, users


def is_differentiable(dtype: np.dtype[Any]) -> bool:
    """Return whether values of a NumPy type can carry a gradient."""
    return dtype.kind in "fc" or (dtype.kind == "V" and dtype.name == "bfloat16")


def record(op: type[Op], inputs: Any, arrays: Any, attrs: Any, results: tuple[Any, ...]) -> list[Any] | None:
    """Record a call; return the edge of each output (None for those without gradient), or None for no node."""
    if not differentiable(op):
        return None
    edges: list[Any] = []
    for x in inputs:
        for m in x if isinstance(x, tuple) else (x,):
            e = m._node if isinstance(m, Tensor) else None
            edges.append(m if e is LEAF else e)
    live = [i for i, r in enumerate(results) if is_differentiable(r.dtype)]
    if not live:
        return None
    names = input_names(op)
    if op.vjp is None and len(edges) == len(names):
        edges = [e if v is not None else None for e, v in zip(edges, op.vjps)]
    if all(e is None for e in edges):
        return None
    values = _values(op, arrays, attrs, results)
    node = _node_class(op, attrs, inputs)()
    node.edges = tuple(edges)
    node.extra = None
    node.origin = of_frame(getframe(3))
    if len(edges) == len(names):
        wanted = {n: e is not None for n, e in zip(names, edges)}
    else:
        wanted = dict.fromkeys(names, True)
    node.saved = tuple(
        [
            values[w] if needed is None or any(wanted[u] for u in needed) else None
            for w, needed in [(w, users(op, w)) for w in node.keeps]
        ]
    )
    _refuse_inference(op, inputs, node)
    mode = get_mode()
    if mode & (PACK | ANOMALY):
        observed(node, mode)
    return _outputs(node, results, live)


def observed(node: Any, mode: int) -> None:
    """Apply the modes that change what a recorded node keeps."""
    from ..autograd.observe import observed

    observed(node, mode)


def _outputs(node: Any, results: tuple[Any, ...], live: list[int]) -> list[Any]:
    """Give the node its shape and number; return the edge per output."""
    if len(live) == 1 and not node.op.many:
        node.shape = results[live[0]].shape
        node.dtype = results[live[0]].dtype
        node.seq = next_seq()
        return [node if i in live else None for i in range(len(results))]
    node.shape = tuple(r.shape for r in results)
    node.dtype = tuple(r.dtype for r in results)
    node.seq = next_seq()
    several = type(node)
    node.__class__ = _several(several, len(results))
    edges = [Output(node, i, r.shape, r.dtype) if i in live else None for i, r in enumerate(results)]
    if node.saves and any(w in node.out_names for w in node.keeps):
        # A differentiable pass puts saved outputs back at their edges, which the node must not keep alive.
        rare(node)["outputs"] = [(lambda: None) if e is None else ref(e) for e in edges]
    return edges


_several_classes: dict[tuple[Any, int], Any] = {}


def _several(cls: Any, outs: int) -> Any:
    """Return the node class that waits for `outs` gradients."""
    found = _several_classes.get((cls, outs))
    if found is None:
        found = type(cls.__name__, (cls,), {"__slots__": (), "__module__": cls.__module__, "outs": outs})
        _several_classes[cls, outs] = found
    return found


@cache
def _asked(op: type[Op]) -> tuple[tuple[str, str, int], ...]:
    """Return what the op's formulas ask for, each as (name, where it comes from, which one)."""
    names, found = input_names(op), []
    for n in keeps(op):
        if n in op.outs:
            found.append((n, "out", op.outs.index(n)))
        elif n in names:
            found.append((n, "input", names.index(n)))
        elif n in op.attrs:
            found.append((n, "attribute", op.attrs.index(n)))
        elif n == "out":
            found.append((n, "all" if op.many else "out", 0))
        else:
            of, _, what = n.rpartition("_")
            found.append((n, what, names.index(of)))
    return tuple(found)


def _values(op: type[Op], arrays: Any, attrs: Any, results: tuple[Any, ...]) -> dict[str, Any]:
    """Return everything the op's formulas ask for, by name."""
    values: dict[str, Any] = {}
    for name, source, i in _asked(op):
        if source == "input":
            values[name] = arrays[i]
        elif source == "attribute":
            values[name] = attrs[i]
        elif source == "out":
            values[name] = results[i]
        elif source == "all":
            values[name] = results
        else:
            values[name] = described_as(arrays[i], source)
    return values


def described_as(a: Any, what: str) -> Any:
    """Return the shape, dtype or memory order of an operand, of each member of a sequence."""
    if isinstance(a, tuple):
        return tuple(described_as(m, what) for m in a)
    if what == "shape":
        return a.shape if isinstance(a, ndarray) else ()
    if what == "dtype":
        return a.dtype if isinstance(a, ndarray) else None
    return "F" if isinstance(a, ndarray) and a.flags.f_contiguous and not a.flags.c_contiguous else "C"


def _node_class(op: type[Op], attrs: tuple[Any, ...], inputs: tuple[Any, ...]) -> Any:
    names, expression = _node_choice(op)
    if len(names) == 1:
        return node_class(op, names[0])
    scope = dict(zip(op.attrs, attrs)) | dict(zip(input_names(op), inputs)) | {n: n for n in names}
    return node_class(op, eval(expression, {"isinstance": isinstance, "type": type}, scope))


@cache
def _node_choice(op: type[Op]) -> tuple[list[str], Any]:
    """Return the names an op's node may have, and the compiled expression that picks one."""
    return node_names(op), compile(node_expression(op), f"<node of {op.name}>", "eval")


def _refuse_inference(op: type[Op], inputs: Any, node: Any) -> None:
    if not node.saves:
        return
    for n, x in zip(input_names(op), inputs):
        if type(x) is InferenceTensor and any(n == k and s is not None for k, s in zip(node.keeps, node.saved)):
            raise GradError(
                f"{op.name}: {n} is an inference tensor, which cannot be saved for backward; use {n}.clone() outside "
                "inference_mode to get an ordinary tensor"
            )
