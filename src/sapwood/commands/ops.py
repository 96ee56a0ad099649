"""`sapwood ops`: the declared ops, or one op's card."""

from __future__ import annotations

import argparse
import inspect
import textwrap
import time
from typing import Any

from sapwood.commands.script import Problem

__all__ = ["add", "card", "run"]


def add(parsers: Any) -> None:
    """Add the command to a parser."""
    p = parsers.add_parser("ops", help="list the declared ops, or print one op's card")
    p.add_argument("name", nargs="?", default="", help="an op; or part of a name, which lists those that contain it")
    p.add_argument("--kernel", action="store_true", help="print the LLVM text of the op's kernel as well")
    p.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the card of an op, or the list of ops."""
    from sapwood import ops

    ops.complete()
    # `softmax` is a function over the op `softmax_of`.
    for name in (options.name, f"{options.name}_of"):
        if name in ops.registry:
            print(card(ops.registry[name], kernel=options.kernel))
            return 0
    found = [(n, op) for n, op in sorted(ops.registry.items()) if options.name in n]
    if not found:
        raise Problem(f"no op's name contains {options.name!r}; `sapwood ops` lists them all")
    for name, op in found:
        print(f"{name:32s}{op.kind:14s}{first_line(op)}")
    return 0


def first_line(op: Any) -> str:
    """Return the first line of an op's docstring."""
    return (op.__doc__ or "").strip().splitlines()[0]


def card(op: Any, *, kernel: bool = False) -> str:
    """Return what there is to know of an op: signature, words, formulas, what is saved, kernel, cost."""
    from sapwood.ops.declare import REQUIRED

    params = []
    star = False
    for name, default, keyword_only in op.params:
        if keyword_only and not star:
            star = True
            params.append("*")
        params.append(name if default is REQUIRED else f"{name}={default!r}")
    lines = [f"{op.name}({', '.join(params)})", "", inspect.cleandoc(op.__doc__ or ""), ""]
    lines.append(f"kind            {op.kind or 'plain'}")
    lines.append(f"element types   {', '.join(_TYPES[c] for c in op.dtypes)}")
    if op.outs:
        lines.append(f"results         {', '.join(op.outs)}")
    also = [w for w, holds in (("a function", op.function), ("a method of Tensor", op.method),
                               (f"in place as {op.name}_", op.inplace), ("out=", op.takes_out)) if holds]  # fmt: skip
    lines.append(f"reached as      {', '.join(also) or 'part of other functions'}")
    if op.aliases:
        lines.append(f"also called     {', '.join(op.aliases)}")
    formulas = formulas_of(op)
    lines.append("" if formulas else "derivative      none")
    for (name, text), wanted in zip(formulas, [w for w in op.wants if w is not None]):
        lines += [f"derivative by {name}", *(f"    {t}" for t in text.splitlines())]
        lines.append(f"    keeps for it: {', '.join(wanted) or 'nothing'}")
    lines += ["", f"forward mode    {'written' if op.jvp is not None else 'derived from the kind or by two pullbacks'}"]
    lines.append(f"kernel          {_kernel(op)}")
    lines.append(f"ONNX            {op.onnx if isinstance(op.onnx, str) else 'not named'}")
    cost = overhead(op)
    if cost is not None:
        lines.append(f"a call          {cost[0]:.2f} µs on a sample, of which {cost[1]:.2f} on NumPy")
    if kernel:
        lines += ["", kernel_text(op)]
    return "\n".join(lines)


def formulas_of(op: Any) -> list[tuple[str, str]]:
    """Return the sources of an op's derivatives: (input, text) for each."""
    names = [n.lstrip("*") for n in op.inputs]
    formulas = [("all inputs", op.vjp)] if op.vjp is not None else list(zip(names, op.vjps))
    return [(name, _source(f)) for name, f in formulas if f is not None]


def _source(function: Any) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(function)).strip()
    except (OSError, TypeError):
        return str(getattr(function, "__name__", function))
    return text.partition(" = ")[2] if text.startswith("vjp") and "lambda" in text else text


_TYPES = {"b": "bool", "i": "integers", "f": "floating point", "c": "complex"}


def _kernel(op: Any) -> str:
    from sapwood.ops import serving

    if op.kernel is not None:
        return f"none: {op.kernel}"
    if op.name in serving.EXACT:
        return "a loop whose results are NumPy's to the last bit"
    return "native code from 256 elements on" if serving.served(op) else "none: NumPy does the work"


def overhead(op: Any, rounds: int = 200) -> tuple[float, float] | None:
    """Return microseconds of a call on the op's first sample, and of its forward function on the arrays."""
    from sapwood.ops import serving
    from sapwood.tensor import wrap
    from sapwood.testing.sampling import invoke, samples

    try:
        sample = samples(op)[0]
        tensors = sample.map(wrap)
        forward = serving.plain_of(op)

        def best(function: Any) -> float:
            function()
            least = float("inf")
            for _ in range(rounds):
                begin = time.perf_counter()
                function()
                least = min(least, time.perf_counter() - begin)
            return 1e6 * least

        return best(lambda: invoke(op, tensors)), best(lambda: forward(*sample.args, **sample.kwargs))
    except Exception:
        # A card has no figure where a forward function wants more than a sample gives.
        return None


def kernel_text(op: Any) -> str:
    """Return the LLVM text of an elementwise op's loop over float32; or why there is none."""
    from sapwood.kernels import emit, fuse, vocabulary
    from sapwood.kernels.symbols import Unfusable
    from sapwood.kernels.writer import Module
    from sapwood.ops.declare import input_names

    names = input_names(op)
    attrs = {n: d for n, d, _ in op.params if n in op.attrs} | op.usual
    if op.kind != "elementwise" or not vocabulary.knows(op):
        return "; no loop of one element: the kernel of a reduction or composition depends on shapes"
    try:
        body = fuse.elementwise(lambda *s: vocabulary.of_op(op, tuple(s), tuple(attrs.values())), len(names))
        roots = emit.trace(body, "f32", len(names), 0)
        module = Module()
        sources = [emit.Source(f"%x{i}", "f32") for i in range(len(names))]
        emit.define_loop(module, op.name, sources, roots, [])
        return module.text()
    except (Unfusable, TypeError, ValueError) as problem:
        return f"; no loop of one element: {problem}"
