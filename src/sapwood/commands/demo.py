"""`sapwood demo`: a graph printed and drawn, a network trained."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add", "run"]


def add(parsers: Any) -> None:
    """Add the command to a parser."""
    p = parsers.add_parser("demo", help="print a graph, train a small network on handwritten digits, draw both")
    p.add_argument("--out", default="out", help="folder for the pictures (default: out)")
    p.add_argument("--epochs", type=int, default=10, help="passes over the training images (default: 10)")
    p.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    p.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the demo."""
    from sapwood.demo import run as demo

    return demo(options.out, options.epochs, options.seed)
