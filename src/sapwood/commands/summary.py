"""`sapwood summary script.py:model --input 8,784`: what a module of a script consists of and costs."""

from __future__ import annotations

import argparse
from typing import Any

from sapwood.commands.script import Problem, example_of, named_in

__all__ = ["add", "run"]


def add(parsers: Any) -> None:
    """Add the command to a parser."""
    p = parsers.add_parser("summary", help="layers, shapes, parameters, work and memory of a module of a script")
    p.add_argument("target", help="script.py:name, the name of a module")
    p.add_argument("arguments", nargs="*", help="arguments of the script, after --")
    p.add_argument("--input", metavar="SIZES", required=True, help="sizes of its inputs, such as 8,784")
    p.add_argument("--depth", type=int, help="levels of submodules to print")
    p.add_argument("--time", action="store_true", help="measure each submodule's time")
    p.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    from sapwood import viz
    from sapwood.errors import SapwoodError

    module = named_in(options.target, options.arguments)
    try:
        print(viz.summary(module, *example_of(options.input), depth=options.depth, timed=options.time))
    except SapwoodError as problem:
        raise Problem(str(problem)) from problem
    return 0
