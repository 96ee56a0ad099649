"""Pictures as a whole: text stays in its outline, nothing overlaps, links keep off what they do not belong to."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sapwood
from sapwood import nn
from sapwood.viz import draw
from sapwood.viz.measure import LEADING, LINE_SIZE, plain, rows_of, shape_of, text_width
from sapwood.viz.model import Drawing, Item, Link
from sapwood.viz.plan import Box, Layout
from sapwood.viz.svg import arrange, label_size

sys.path.insert(0, str(Path(__file__).parent / "page"))
from programs import PROGRAMS, Block, Residual

TEXTS = [
    "w", "layers.0.attn.in_proj_weight", "value [-1.234e-05, 2., 3., 4.]", "WWWWMMMM@@@@%%%%", "ШЩЮЖ весы", "Ωμέγα",
    "権重と偏り", "가중치", "ｗｉｄｅ", "e\u0301a\u0308o\u0302",
    "🙂🚀", "👩‍👩‍👧‍👦", "משקל", "الوزن والانحياز", "a\u200bb\u200dc\ufeff",
    '<b> & "x" \'y\'', "two\nlines\tand\rmore", "\x00\x1b\x7f", "\ud800", "", " ", "…" * 9, "x" * 500,
    "ก็ํา", "\u202eabc",     "½ × ∂L/∂w → ∞", "हिन्दी भार", "Ǆ Ŵ Ǽ", "𝐖₁", "ﷺ", "𓂀 𒈙",
]  # fmt: skip


def lstm() -> tuple[Any, dict[str, Any]]:
    w, u = (sapwood.tensor(v, requires_grad=True) for v in (0.9, 0.1))
    c = h = sapwood.zeros(())
    for step in range(200):
        gate = sapwood.sigmoid(u * step + w * h)
        c = gate * c + (1 - gate) * sapwood.tanh(w * h)
        h = gate * sapwood.tanh(c)
    return h, {"names": {"w": w, "u": u}}


def drawing_of(name: str) -> Drawing:
    if name == "module of a residual block":
        return draw(Residual(), example=sapwood.randn(2, 4, 6, 6))
    if name == "module of a transformer":
        return draw(Block(), example=sapwood.randn(2, 5, 16))
    if name == "module sideways":
        return draw(nn.Sequential(nn.Linear(8, 16), nn.ReLU()), example=sapwood.randn(4, 8), direction="LR")
    result, options = lstm() if name == "lstm" else PROGRAMS[name]()
    return draw(result() if not hasattr(result, "grad_fn") else result, **options)


NAMES = ["seed", "sine", "mlp", "resnet", "gpt", "lstm"]
NAMES += ["module of a residual block", "module of a transformer", "module sideways"]


@st.composite
def drawings(take: st.DrawFn) -> Drawing:
    """Draw a random graph with odd names, in random modules that may be left and entered again."""
    text = st.sampled_from(TEXTS) | st.text(max_size=12)
    count = take(st.integers(1, 14))
    paths = [(), ("a",), ("a", "b"), ("a", "c"), ("d",), ("a", "b", "權"), ("<d>", 'e"')]
    kinds = ["leaf", "parameter", "input", "constant", "nonleaf", "root", "buffer", "op", "op", "op", "module", "more"]
    scopes = [take(st.sampled_from(paths)) for _ in range(count)]
    # In every other graph links lead forward and modules come one after the other, so that all have frames.
    forward = take(st.booleans())
    if forward:
        scopes.sort()
    items = [
        Item(
            take(st.sampled_from(kinds)),
            take(text),
            tuple(take(st.lists(text, max_size=3))),
            marks=take(st.sampled_from([(), ("in place",), ("view", "freed")])),
            scope=scope,
        )
        for scope in scopes
    ]
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] != pair[1])
    chosen = take(st.lists(ends, max_size=24, unique=True)) if count > 1 else []
    links = [Link(*(sorted(pair) if forward else pair), take(st.just("") | text)) for pair in chosen]
    return Drawing(items, links, take(st.sampled_from(["TB", "LR"])), modules={("a",): "Module", ("d",): "漢字"})


def fits(width: float, top: float, bottom: float, box: Box, radius: float) -> bool:
    """Tell whether a centred rectangle of text, given relative to the middle, lies in a rounded outline."""
    if max(-top, bottom) > box.height / 2 or width / 2 > box.width / 2:
        return False
    radius = min(radius, box.width / 2, box.height / 2)
    x, y = width / 2 - (box.width / 2 - radius), max(-top, bottom) - (box.height / 2 - radius)
    return x <= 0 or y <= 0 or math.hypot(x, y) <= radius + 1e-6


def within(x: float, y: float, box: Box, radius: float) -> bool:
    """Tell whether a point lies inside a rounded outline, not on it."""
    return fits(2 * abs(x - box.x) + 0.1, min(y - box.y, 0.0) - 0.05, max(y - box.y, 0.0) + 0.05, box, radius)


def overlap(a: Box, b: Box, slack: float = 0.01) -> bool:
    return abs(a.x - b.x) < (a.width + b.width) / 2 - slack and abs(a.y - b.y) < (a.height + b.height) / 2 - slack


def contains(outer: Box, inner: Box) -> bool:
    across = abs(outer.x - inner.x) + inner.width / 2 <= outer.width / 2 + 1e-6
    return across and abs(outer.y - inner.y) + inner.height / 2 <= outer.height / 2 + 1e-6


def points_along(points: tuple[tuple[float, float], ...], *, sideways: bool) -> Iterator[tuple[float, float]]:
    for k, ((x, y), (a, b)) in enumerate(pairwise(points)):
        for step in range(9):
            t = step / 8
            across = along = t
            if k % 2:  # a cubic with its inner controls half way along the flow
                along = 1.5 * t * (1 - t) ** 2 + 1.5 * t**2 * (1 - t) + t**3
                across = 3 * t**2 * (1 - t) + t**3
            if sideways:
                along, across = across, along
            yield x + (a - x) * across, y + (b - y) * along


def check_text(drawing: Drawing, plan: Layout) -> None:
    for item, box in zip(drawing.items, plan.boxes):
        shape, rows = shape_of(item), rows_of(item)
        assert (shape.width, shape.height) == pytest.approx((box.width, box.height))
        top = -sum(row.size for row in rows) * LEADING / 2
        for row in rows:
            bottom = top + row.size * LEADING
            assert fits(text_width(row.text, row.size, bold=row.bold), top, bottom, box, shape.radius)
            top = bottom
    for box, wire in plan.labels:
        assert (box.width, box.height) == pytest.approx(label_size(drawing.links[wire].label))


def check_places(drawing: Drawing, plan: Layout) -> None:
    things = [*plan.boxes, *(box for box, _ in plan.labels)]
    for a, b in combinations(things, 2):
        assert not overlap(a, b)
    whole = Box(plan.width / 2, plan.height / 2, plan.width, plan.height)
    assert all(contains(whole, box) for box in things)
    groups = {group.path: group for group in drawing.groups()}
    for frame in plan.frames:
        assert contains(whole, frame.box)
        group = groups[frame.path]
        for k, box in enumerate(plan.boxes):
            if k in group.items:
                assert contains(frame.box, box)
            else:
                assert not overlap(frame.box, box)
        width = text_width(plain(group.title), LINE_SIZE, bold=True)
        title = Box(frame.title[0] + width / 2, frame.title[1], width, LINE_SIZE)
        assert contains(frame.box, title)
        assert not any(overlap(title, box) for box in things)
        for other in plan.frames:
            if other.path[: len(frame.path)] == frame.path:
                assert contains(frame.box, other.box)
            elif frame.path[: len(other.path)] != other.path:
                assert not overlap(frame.box, other.box)
    framed = {frame.path for frame in plan.frames}
    tabs = dict(plan.tabs)
    for k, item in enumerate(drawing.items):  # each item shows each of its modules of several items
        inner = [item.scope[:d] for d in range(len(item.scope), 0, -1) if len(groups[item.scope[:d]].items) > 1]
        assert not inner or inner[0] in framed or k in tabs


def check_links(drawing: Drawing, plan: Layout) -> None:
    sideways = drawing.direction == "LR"
    radii = [shape_of(item).radius for item in drawing.items]
    titles = {g.path: text_width(plain(g.title), LINE_SIZE, bold=True) for g in drawing.groups()}
    for route in plan.routes:
        ends = {k for wire in route.wires for k in (drawing.links[wire].source, drawing.links[wire].target)}
        around = {drawing.items[k].scope[:depth] for k in ends for depth in range(1, 9)}
        foreign = [frame.box for frame in plan.frames if frame.path not in around]
        strips = [
            Box(f.title[0] + titles[f.path] / 2, f.title[1], titles[f.path], LINE_SIZE)
            for f in plan.frames
            if f.path in around and not sideways
        ]
        for x, y in points_along(route.points, sideways=sideways):
            assert not any(within(x, y, box, radius) for box, radius in zip(plan.boxes, radii))
            assert not any(overlap(Box(x, y, 0.0, 0.0), box) for box in (*foreign, *strips))
    for route in plan.routes:  # pieces of a link that crosses frames join on their borders
        starts = [r.points[0] for r in plan.routes if set(r.wires) & set(route.wires)]
        assert route.ends or any(math.dist(route.points[-1], start) < 1e-6 for start in starts)
    arrivals = [drawing.links[route.wires[-1]].target for route in plan.routes if route.ends]
    assert sorted(arrivals) == sorted(link.target for link in drawing.links)


def check(drawing: Drawing) -> None:
    _, plan = arrange(drawing)
    check_text(drawing, plan)
    check_places(drawing, plan)
    check_links(drawing, plan)


@pytest.mark.parametrize("name", NAMES)
def test_of_programs(name: str) -> None:
    drawing = drawing_of(name)
    if name != "lstm":
        check(drawing)
        return
    # All pairs of 2,000 boxes are too many: neighbours in their layer are the ones that can meet.
    _, plan = arrange(drawing)
    check_text(drawing, plan)
    by_layer = sorted(plan.boxes, key=lambda b: (round(b.y, 3), b.x))
    assert not any(overlap(a, b) for a, b in pairwise(by_layer))


@settings(max_examples=150, deadline=None)
@given(drawings())
def test_of_random_graphs_with_odd_names(drawing: Drawing) -> None:
    check(drawing)


@settings(max_examples=40, deadline=None)
@given(drawings())
def test_every_format_takes_random_graphs_with_odd_names(drawing: Drawing) -> None:
    import json
    from xml.etree import ElementTree

    root = ElementTree.fromstring(drawing.svg().encode("utf-8", "replace"))
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert not any("\n" in (text or "") for text in texts)
    assert drawing.dot().count("tooltip=") == len(drawing.items)
    data = json.loads(json.dumps(drawing.json(), allow_nan=False))
    assert len(data["items"]) == len(drawing.items)
    assert drawing.svg() == drawing.svg()


@pytest.fixture(scope="module")
def browser(chromium: Any) -> Any:
    return chromium()


MEASURE = """
return [...document.querySelectorAll('g.leaf, g.op, g.root, g.parameter, g.input, g.buffer, g.nonleaf')].map(g => {
  const shape = (g.querySelector('circle') || [...g.querySelectorAll('rect')].pop()).getBBox();
  return [[shape.x, shape.y, shape.width, shape.height], ...[...g.querySelectorAll('text')].map(t => {
    const b = t.getBBox(); return [b.x, b.y, b.width, b.height, t.textContent]; })];
});
"""


def test_text_as_the_browser_sets_it_stays_in_its_outline(browser: Any, tmp_path: Path) -> None:
    chance = random.Random(0)
    items = [Item(chance.choice(["leaf", "op"]), a, (b,)) for a in TEXTS for b in chance.sample(TEXTS, 2)]
    odd = Drawing(items, [])
    seen = 0
    outside = []
    for k, drawing in enumerate([odd, *map(drawing_of, [n for n in NAMES if n != "lstm"])]):
        browser.get(drawing.save(tmp_path / f"{k}.svg").as_uri())
        for (left, top, across, down), *texts in browser.execute_script(MEASURE):
            for x, y, width, height, text in texts:
                # The box of a line reaches above and below its letters.
                upright = top <= y + height / 4 and y + height * 0.75 <= top + down
                if width and not (left <= x and x + width <= left + across and upright):
                    outside.append((text, width, across))
                seen += 1
    assert outside == []
    assert seen > 200
