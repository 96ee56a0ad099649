"""`sapwood diff A B`: what differs between two graphs, saved or of scripts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from sapwood.commands.script import Problem, example_of, named_in, names_of

__all__ = ["add", "run"]


def add(parsers: Any) -> None:
    """Add the command to a parser."""
    p = parsers.add_parser("diff", help="compare two graphs: saved files, or tensors, modules and graphs of scripts")
    for name in ("first", "second"):
        p.add_argument(name, help="a file saved with sapwood.graph.save or as text; or script.py:name")
    p.add_argument("--input", metavar="SIZES", help="for modules: sizes of their inputs, such as 8,3,32,32")
    p.add_argument("--html", metavar="FILE", help="write the whole comparison as a page")
    p.add_argument("--context", type=int, default=2, help="lines around each change (default: 2)")
    p.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the comparison; like diff's, the exit status is 0 if the graphs are alike and 1 if not."""
    from sapwood import viz
    from sapwood.errors import SapwoodError

    if options.context < 0:
        raise Problem(f"--context takes a number of lines, got {options.context}")
    if options.html and not Path(options.html).resolve().parent.is_dir():
        raise Problem(f"there is no folder to write {options.html!r} to")
    if options.html and not options.html.lower().endswith(".html"):
        raise Problem(f"--html takes a name ending in .html, got {options.html!r}")
    targets = options.first, options.second
    things = [_thing(t) for t in targets]
    module = [hasattr(t, "named_parameters") for t in things]
    if any(module) and not options.input:
        which = targets[module.index(True)]
        raise Problem(f"{which} is a module; say what goes in with --input, such as --input 8,784")
    example = example_of(options.input) if any(module) else None
    try:
        found = viz.diff(*things, example=example, names=[names_of(t, x) for t, x in zip(targets, things)])
        found.names = targets
        if options.html:
            found.save(options.html)
    except (SapwoodError, OSError) as problem:
        raise Problem(str(problem)) from problem
    print(found.text(options.context))
    if options.html:
        print(f"written: {options.html}")
    return int(bool(found))


def _thing(target: str) -> Any:
    """Return what a target names: the graph of a file, or something of a script."""
    from sapwood import graph
    from sapwood.errors import SapwoodError

    path = Path(target)
    if not path.is_file():
        if ":" not in target:
            raise Problem(f"there is no file {target!r}; for a variable of a script write script.py:name")
        try:
            return named_in(target)
        except Problem as problem:
            raise Problem(str(problem)) from problem  # with the status of a failure, not of a difference
    if path.suffix == ".py":
        raise Problem(f"{target} is a script; say which of its variables is meant, as in {target}:model")
    try:
        if path.read_bytes()[:6] == b"graph ":
            return graph.parse(path.read_text(encoding="utf-8"))
        return graph.load(path)
    except (SapwoodError, OSError, ValueError) as problem:
        raise Problem(f"{target} cannot be read as a graph: {problem}") from problem
