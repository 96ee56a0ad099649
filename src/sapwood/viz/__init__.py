"""Pictures of computation graphs and of training: text trees, DOT, SVG, an explorer page and a live view, offline."""

from sapwood.viz.build import draw
from sapwood.viz.diff import Difference, diff
from sapwood.viz.digraph import make_dot
from sapwood.viz.live import Watch, watch
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
    "Watch",
    "diff",
    "draw",
    "graph_text",
    "make_dot",
    "save",
    "show",
    "snapshot",
    "summary",
    "watch",
]
