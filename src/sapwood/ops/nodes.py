"""The node classes of ops, made from their declarations: names, what they keep, and `pull`.

A node keeps a flat tuple: every value that some formula asks for, once, in the order of first mention (`keeps`). `pull`
is printed from the declaration as the flat wrappers are: it unpacks the tuple and calls the formula of every input
that wants a gradient, without loops or tables at run time. It runs on arrays and on Tensors alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from ..node import Node, Unusual
from . import serving, source
from .declare import Op, input_names


@cache
def node_names(op: type[Op]) -> list[str]:
    """Return the names of the node classes that the op may record."""
    if op.grad_fn is None:
        camel = "".join(part[:1].upper() + part[1:] for part in op.name.split("_"))
        return [f"{camel}Backward0"]
    return re.findall(r"\b[A-Z]\w*Backward\w*|\bNotImplemented\b", op.grad_fn) or [op.grad_fn]


def node_expression(op: type[Op]) -> str:
    """Return the expression over the attributes that gives the node class."""
    return op.grad_fn or node_names(op)[0]


def node_class(op: type[Op], name: str) -> type[Node]:
    """Return the op's node class of that name, making it at first use."""
    found = op.nodes.get(name)
    if found is None:
        names = input_names(op)
        kept = keeps(op)
        found = op.nodes[name] = type(
            name,
            (Node,),
            {
                "__slots__": (),
                "__module__": "sapwood.autograd",
                "op": op,
                "inputs": names,
                "pull": staticmethod(puller(op)),
                "wants": op.wants,
                "keeps": kept,
                "saves": any(w in names or w in op.outs or w == "out" for w in kept),
                "out_names": op.outs or ("out",),
                "takes_none": op.takes_none,
                "holomorphic": op.holomorphic,
            },
        )
    node: type[Node] = found
    return node


@cache
def keeps(op: type[Op]) -> tuple[str, ...]:
    """Return the names of what the op's nodes keep, each once."""
    return tuple(dict.fromkeys(n for names in op.wants for n in names))


@cache
def users(op: type[Op], kept: str) -> tuple[str, ...] | None:
    """Return the inputs whose gradients need a kept value; None where it is kept whatever is wanted.

    Only tensors are worth dropping; sizes, types and attributes stay.
    """
    names = input_names(op)
    if kept not in (*names, *op.outs, "out"):
        return None
    if op.vjp is not None:
        return op.needed_by.get(kept)
    found = tuple(n for n, wanted in zip(names, op.wants) if kept in wanted)
    able = sum(v is not None for v in op.vjps)
    return None if len(found) == able else found


@cache
def puller(op: type[Op]) -> Callable[..., Any]:
    """Return the function `pull` of an op's nodes."""
    scope: dict[str, Any] = {"Unusual": Unusual}
    for name, function in (*((f"vjp_{n}", v) for n, v in zip(input_names(op), op.vjps)), ("vjp", op.vjp)):
        scope[name] = serving.formula(op, name, function, scope)
    function: Callable[..., Any] = source.run(pull_text(op), f"pull {op.name}", scope)["pull"]
    return function


def pull_text(op: type[Op]) -> str:
    """Return the source of `pull(g, saved, edges)`: the gradient of every input, None where none is wanted."""
    lines = ["def pull(g, saved, edges):"]
    if op.outs or op.many:
        lines += ["    if type(g) is list:", "        raise Unusual"]
    if op.vjp is not None:
        return "\n".join([*lines, "    return vjp(g, tuple([e is not None for e in edges]), *saved)", ""])
    names, kept = input_names(op), keeps(op)
    if kept:
        lines += [f"    {''.join(f'k_{n}, ' for n in kept)}= saved"]
    able = [n for n, v in zip(names, op.vjps) if v is not None]
    if len(able) > 1:
        lines += [f"    {''.join(f'e_{n}, ' for n in names)}= edges"]
    parts = []
    for n, v, wanted in zip(names, op.vjps, op.wants):
        call = f"vjp_{n}({', '.join(['g', *(f'k_{w}' for w in wanted)])})"
        parts.append("None" if v is None else call if len(able) == 1 else f"{call} if e_{n} is not None else None")
    return "\n".join([*lines, f"    return {''.join(p + ', ' for p in parts)}", ""])


__all__ = ["keeps", "node_class", "node_expression", "node_names", "pull_text", "users"]
