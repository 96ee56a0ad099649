"""`sapwood graph script.py:loss`: the graph behind a variable of a script."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sapwood.commands.script import Problem, example_of, module_of, named_in, names_of

__all__ = ["add", "run"]


def add(parsers: Any) -> None:
    """Add the command to a parser."""
    p = parsers.add_parser("graph", help="show the graph behind a tensor or module of a script")
    p.add_argument("target", help="script.py:name, the name of a tensor or a module")
    p.add_argument("arguments", nargs="*", help="arguments of the script, after --")
    p.add_argument("--html", metavar="FILE", help="write the explorer page")
    p.add_argument("--save", metavar="FILE", help="write a picture: .svg, .dot, .txt, and with matplotlib .png, .pdf")
    p.add_argument("--show", action="store_true", help="open the explorer page in the browser")
    p.add_argument("--input", metavar="SIZES", help="for a module: sizes of its inputs, such as 8,3,32,32")
    p.add_argument("--depth", type=int, help="for a module: levels of submodules to draw from the inside")
    p.add_argument(
        "--direction", choices=["TB", "LR"], default="TB", help="of a picture: top to bottom or left to right"
    )
    p.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Draw what was asked for; without a file print the graph as text."""
    from sapwood import viz
    from sapwood.errors import SapwoodError

    for file in (options.html, options.save):
        if file and not Path(file).resolve().parent.is_dir():
            raise Problem(f"there is no folder to write {file!r} to")
    thing = named_in(options.target, options.arguments)
    is_module = hasattr(thing, "named_parameters")
    if is_module and not options.input:
        raise Problem(f"{options.target} is a module; say what goes in with --input, such as --input 8,784")
    if not is_module and not hasattr(thing, "grad_fn"):
        raise Problem(f"{options.target} is {type(thing).__name__}, neither a tensor nor a module")
    try:
        if is_module:
            example = example_of(options.input)
            drawing = viz.draw(thing, example=example, depth=options.depth, direction=options.direction)
            roots: Any = lambda: _tensors(thing(*example))
            more = {"module": thing}
        else:
            more = {"names": names_of(options.target, thing), "module": module_of(options.target, thing)}
            drawing = viz.draw(thing, **more, direction=options.direction)
            roots = thing
        if options.save:
            drawing.save(options.save)
        if options.html:
            viz.save(roots, options.html, **more)
        if options.show:
            viz.show(roots, **more)
    except (SapwoodError, OSError) as problem:
        raise Problem(str(problem)) from problem
    if not (options.save or options.html or options.show):
        print(drawing.text())
    for file in (options.save, options.html):
        if file:
            print(f"written: {file}")
    return 0


def _tensors(result: Any) -> Any:
    from sapwood.graph.ir import flatten

    found: list[Any] = []
    flatten(result, found, lambda x: hasattr(x, "grad_fn"))
    return [t for t in found if t.requires_grad] or found
