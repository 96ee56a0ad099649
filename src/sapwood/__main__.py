"""The command line: `sapwood demo`, `sapwood graph`, `sapwood diff`, `sapwood summary`, `sapwood ops`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from sapwood.commands import demo, diff, graph, ops, summary
from sapwood.commands.script import Problem


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0, 1 if a script failed, 2 if the command could not be followed."""
    parser = argparse.ArgumentParser(prog="sapwood", description="Computation graphs you can see.")
    parsers = parser.add_subparsers(dest="command", required=True)
    for command in (demo, graph, diff, summary, ops):
        command.add(parsers)
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except Problem as problem:
        print(f"sapwood {options.command}: {problem}", file=sys.stderr)
        return problem.status


if __name__ == "__main__":
    sys.exit(main())
