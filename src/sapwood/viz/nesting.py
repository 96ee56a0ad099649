"""Modules as nested frames: each module is laid out by itself and is one big item in the layout around it.

A frame therefore holds its own items and nothing else, and links from outside enter it at ports on its border. A module
that is left and entered again cannot be drawn that way; its items are drawn outside and get a tab with its colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sapwood.viz.layout import MARGIN, layout
from sapwood.viz.plan import Box, Frame, Layout, Route, Wire
from sapwood.viz.ranking import closing, on_cycles

__all__ = ["nested"]

Path = tuple[str, ...]
# The strip along the top of a frame that its title stands in, and the room on both sides of the title.
STRIP, BESIDE = 18.0, 10.0
# Above the items of a frame the strip takes the place of most of the margin.
SAVED = 8.0
# Radius of the corners of frames.
CORNER = 8.0


@dataclass(slots=True)
class Part:
    """A module, or at the empty path the whole drawing.

    chain: the modules around it and itself. children: what lies directly in it: items, and paths of modules.
    wires: links between two of these, however deep their ends. crossing: links with one end in it, however deep.
    entries, exits: where links cross its border, from the middle of that side, by the item the link comes from.
    plan: where the children are, from the corner of the frame. inside: the links behind each wire of the plan.
    """

    path: Path
    chain: list[Path]
    children: list[int | Path] = field(default_factory=list)
    wires: list[int] = field(default_factory=list)
    crossing: list[int] = field(default_factory=list)
    entries: dict[int, float] = field(default_factory=dict)
    exits: dict[int, float] = field(default_factory=dict)
    plan: Layout = field(default_factory=lambda: Layout(0.0, 0.0, (), (), (), ()))
    inside: list[list[int]] = field(default_factory=list)
    title: tuple[float, float] = (0.0, 0.0)

    def child(self, chain: Sequence[Path], item: int) -> int | Path | None:
        """Return which child an item is or lies in, given the modules around it; None for an item outside."""
        depth = len(self.chain)
        if depth and (len(chain) < depth or chain[depth - 1] != self.path):
            return None
        return chain[depth] if len(chain) > depth else item


@dataclass(frozen=True, slots=True)
class Content:
    """What there is to lay out, as `layout` takes it; chains: the modules with a frame around each item."""

    sizes: Sequence[tuple[float, float]]
    wires: Sequence[Wire]
    radii: Sequence[float]
    direction: str
    chains: list[list[Path]]


def nested(
    sizes: Sequence[tuple[float, float]],
    wires: Sequence[Wire],
    scopes: Sequence[Path],
    titles: Mapping[Path, float],
    *,
    radii: Sequence[float],
    direction: str = "TB",
) -> Layout:
    """Place items and links, with a frame around each module of two items and more.

    Args:
        sizes, wires, radii, direction: as `layout` takes them.
        scopes: the module of each item: its name and those of the modules around it, outermost first.
        titles: width of each module's title, in pixels.
    """
    scopes = without_small(scopes)
    if not any(scopes):
        return layout(sizes, wires, radii=radii, direction=direction)
    parts, chains, dissolved = divide(wires, scopes)
    content = Content(sizes, wires, radii, direction, chains)
    for part in reversed(parts.values()):
        lay_out(part, parts, content, titles.get(part.path, 0.0))
    tabs = []
    for item, scope in enumerate(scopes):
        path = next((p for p in reversed(borders(scope)) if p in dissolved), ())
        if len(path) > len(chains[item][-1] if chains[item] else ()):
            tabs.append((item, path))
    return replace(assembled(parts, len(sizes)), tabs=tuple(tabs))


def borders(path: Path) -> list[Path]:
    """Return the paths of the modules around a module and its own, outermost first."""
    return [path[:depth] for depth in range(1, len(path) + 1)]


def without_small(scopes: Sequence[Path]) -> list[Path]:
    """Return the scopes without modules of a single item, which need no frame."""
    count: dict[Path, int] = {}
    for scope in scopes:
        for path in borders(scope):
            count[path] = count.get(path, 0) + 1
    kept = []
    for scope in scopes:
        while scope and count[scope] < 2:
            scope = scope[:-1]
        kept.append(scope)
    return kept


def divide(wires: Sequence[Wire], scopes: Sequence[Path]) -> tuple[dict[Path, Part], list[list[Path]], set[Path]]:
    """Return the parts, outer ones first, the parts around each item, and the modules that cannot have a frame.

    A module cannot if it lies on a cycle of modules and items, which is to say that it was left and entered again.
    """
    dissolved: set[Path] = set()
    while True:
        parts: dict[Path, Part] = {(): Part((), [])}
        chains = [[path for path in borders(scope) if path not in dissolved] for scope in scopes]
        for item, chain in enumerate(chains):
            around = parts[()]
            for path in chain:
                if path not in parts:
                    parts[path] = Part(path, [*around.chain, path])
                    around.children.append(path)
                around = parts[path]
            around.children.append(item)
        for i, wire in enumerate(wires):
            a, b = chains[wire.source], chains[wire.target]
            shared = 0
            while shared < min(len(a), len(b)) and a[shared] == b[shared]:
                shared += 1
            parts[a[shared - 1] if shared else ()].wires.append(i)
            for path in (*a[shared:], *b[shared:]):
                parts[path].crossing.append(i)
        found = {path for part in parts.values() for path in entered_again(part, wires, chains)}
        if not found:
            return dict(sorted(parts.items(), key=lambda pair: len(pair[0]))), chains, dissolved
        dissolved |= found


def entered_again(part: Part, wires: Sequence[Wire], chains: list[list[Path]]) -> list[Path]:
    """Return the modules directly in a part that lie on a cycle."""
    place = {thing: k for k, thing in enumerate(part.children)}
    bridges: dict[tuple[int, int], None] = {}
    for i in part.wires:
        a, b = wires[i].source, wires[i].target
        bridges[place[part.child(chains[a], a)], place[part.child(chains[b], b)]] = None  # type: ignore[index]
    quotient = [Wire(a, b) for a, b in bridges]
    if not closing(len(place), quotient):
        return []
    return [part.children[k] for k in on_cycles(len(place), quotient) if isinstance(part.children[k], tuple)]  # type: ignore[misc]


def lay_out(part: Part, parts: Mapping[Path, Part], content: Content, title: float) -> None:
    """Lay out the children of a part, with ports for the links that cross its border."""
    wires, chains = content.wires, content.chains
    sizes, radii = [], []
    for thing in part.children:
        plan = None if isinstance(thing, int) else parts[thing].plan
        sizes.append(content.sizes[thing] if isinstance(thing, int) else (plan.width, plan.height))  # type: ignore[union-attr]
        radii.append(content.radii[thing] if isinstance(thing, int) else CORNER)
    place: dict[object, int] = {thing: k for k, thing in enumerate(part.children)}
    ports: dict[tuple[str, int], int] = {}
    found: dict[tuple[int, ...], int] = {}
    inner: list[Wire] = []
    ends: list[bool] = []
    for i in sorted((*part.wires, *part.crossing)):
        a, b = wires[i].source, wires[i].target
        source, target = part.child(chains[a], a), part.child(chains[b], b)
        if source is None:
            start = ports.setdefault(("in", a), len(sizes) + len(ports))
        else:
            start = place[source]
        end = ports.setdefault(("out", a), len(sizes) + len(ports)) if target is None else place[target]
        direct = isinstance(target, int)
        key = (start, end, a, i if direct else -1)
        if key in found:
            part.inside[found[key]].append(i)
            continue
        found[key] = len(inner)
        label = wires[i].label if source is not None and target is not None else None
        leave = parts[source].exits[a] if isinstance(source, tuple) else None
        enter = parts[target].entries[a] if isinstance(target, tuple) else None
        inner.append(Wire(start, end, label, leave, enter))
        ends.append(direct)
        part.inside.append([i])
    plan = layout(
        sizes + [(0.0, 0.0)] * len(ports),
        inner,
        radii=radii + [0.0] * len(ports),
        direction=content.direction,
        first=[k for (side, _), k in ports.items() if side == "in"],
        last=[k for (side, _), k in ports.items() if side == "out"],
    )
    plan = replace(plan, routes=tuple(replace(r, ends=ends[r.wires[-1]]) for r in plan.routes))
    part.plan = framed(part, plan, ports, inner, title, sideways=content.direction == "LR") if part.path else plan


def framed(
    part: Part,
    plan: Layout,
    ports: Mapping[tuple[str, int], int],
    inner: Sequence[Wire],
    title: float,
    *,
    sideways: bool,
) -> Layout:
    """Return a part's layout with room for its title, the ends of its links on its border; note the ports' places."""
    entries = [] if sideways else [plan.boxes[k].x for (side, _), k in ports.items() if side == "in"]
    needed = title + 2 * BESIDE
    width, right = max(plan.width, needed), 0.0
    left = (width - plan.width) / 2
    # Links enter from above; the title stands to their left, or to their right, or makes room for itself.
    if entries and min(entries) + left < needed:
        if max(entries) + left <= width - needed:
            right = width - needed
        else:
            more = needed - min(entries) - left
            left, width = left + more, width + more
    plan = moved(plan, left, STRIP - SAVED)
    height = plan.height + STRIP - SAVED
    part.title = (right + BESIDE, STRIP / 2 + 3)
    for (side, item), k in ports.items():
        box = plan.boxes[k]
        offset = box.y - height / 2 if sideways else box.x - width / 2
        (part.entries if side == "in" else part.exits)[item] = offset
    first = {k for (side, _), k in ports.items() if side == "in"}
    last = {k for (side, _), k in ports.items() if side == "out"}
    routes = []
    for r in plan.routes:
        points = list(r.points)
        wire = inner[r.wires[-1]]
        if wire.source in first and at_port(points[0], plan.boxes[wire.source]):
            points[0] = (0.0, points[0][1]) if sideways else (points[0][0], 0.0)
        if wire.target in last:
            points[-1] = (width, points[-1][1]) if sideways else (points[-1][0], height)
        routes.append(replace(r, points=tuple(points)))
    return replace(plan, width=width, height=height, routes=tuple(routes))


def at_port(point: tuple[float, float], port: Box) -> bool:
    return abs(point[0] - port.x) + abs(point[1] - port.y) < 1e-6


def moved(plan: Layout, x: float, y: float) -> Layout:
    """Return a layout shifted to the right and down."""

    def box(b: Box) -> Box:
        return Box(b.x + x, b.y + y, b.width, b.height)

    return replace(
        plan,
        boxes=tuple(map(box, plan.boxes)),
        routes=tuple(replace(r, points=tuple((a + x, b + y) for a, b in r.points)) for r in plan.routes),
        labels=tuple((box(b), wire) for b, wire in plan.labels),
    )


def assembled(parts: Mapping[Path, Part], count: int) -> Layout:
    """Return one layout of all parts."""
    corners: dict[Path, tuple[float, float]] = {(): (0.0, 0.0)}
    boxes = [Box(MARGIN, MARGIN, 0.0, 0.0)] * count
    routes: list[Route] = []
    labels: list[tuple[Box, int]] = []
    frames: list[Frame] = []
    for path, part in parts.items():
        x, y = corners[path]
        plan = moved(part.plan, x, y)
        if path:
            box = Box(x + plan.width / 2, y + plan.height / 2, plan.width, plan.height)
            frames.append(Frame(path, box, (x + part.title[0], y + part.title[1])))
        for thing, box in zip(part.children, plan.boxes):
            if isinstance(thing, int):
                boxes[thing] = box
            else:
                corners[thing] = (box.x - box.width / 2, box.y - box.height / 2)
        for r in plan.routes:
            routes.append(replace(r, wires=tuple(i for wire in r.wires for i in part.inside[wire])))
        labels += [(box, part.inside[wire][0]) for box, wire in plan.labels]
    root = parts[()].plan
    return replace(root, boxes=tuple(boxes), routes=tuple(routes), labels=tuple(labels), frames=tuple(frames))
