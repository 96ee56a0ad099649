"""Pictures of computation graphs: text trees, DOT, SVG and an explorer page, without any system program."""

from sapwood.viz.build import draw
from sapwood.viz.diff import Difference, diff
from sapwood.viz.digraph import make_dot
from sapwood.viz.model import Drawing, Item, Link
from sapwood.viz.show import save, show
from sapwood.viz.snapshot import Snapshot, snapshot
from sapwood.viz.summary import Summary, summary
from sapwood.viz.text import graph_text

__all__ = [
    "Difference",
    "Drawing",
    "Item",
    "Link",
    "Snapshot",
    "Summary",
    "diff",
    "draw",
    "graph_text",
    "make_dot",
    "save",
    "show",
    "snapshot",
    "summary",
]
