"""Pictures of computation graphs: text trees, DOT and SVG, without any system program."""

from sapwood.viz.build import draw
from sapwood.viz.digraph import make_dot
from sapwood.viz.model import Drawing, Item, Link
from sapwood.viz.text import graph_text

__all__ = ["Drawing", "Item", "Link", "draw", "graph_text", "make_dot"]
