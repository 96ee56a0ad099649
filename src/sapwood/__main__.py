"""The command line: `sapwood demo`, `sapwood graph`, `sapwood ops`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status."""
    parser = argparse.ArgumentParser(prog="sapwood", description="Computation graphs you can see.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="print a graph, train a small network on handwritten digits, draw both")
    demo.add_argument("--out", default="out", help="folder for the pictures (default: out)")
    demo.add_argument("--epochs", type=int, default=10, help="passes over the training images (default: 10)")
    demo.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    ops = commands.add_parser("ops", help="list the declared ops")
    ops.add_argument("pattern", nargs="?", default="", help="only names that contain this")
    options = parser.parse_args(arguments)
    if options.command == "demo":
        from .demo import run

        return run(options.out, options.epochs, options.seed)
    return _list_ops(options.pattern)


def _list_ops(pattern: str) -> int:
    from . import ops

    ops.complete()
    for name, op in sorted(ops.registry.items()):
        if pattern in name:
            print(f"{name:32s}{op.kind:14s}{(op.__doc__ or '').strip().splitlines()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
