"""The geometry of layouts, over random directed acyclic graphs."""

from __future__ import annotations

import math
import random
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood.errors import ValueRangeError
from sapwood.viz.layout import Box, Layout, Wire, layout
from sapwood.viz.ordering import count_crossings, order
from sapwood.viz.placing import settle


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[Wire]]:
    count = draw(st.integers(1, 24))
    size = st.tuples(st.floats(20, 160), st.floats(20, 90))
    sizes = draw(st.lists(size, min_size=count, max_size=count))
    pairs = [(u, v) for v in range(count) for u in range(v)]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=40, unique=True)) if pairs else []
    label = st.none() | st.just((50.0, 14.0))
    return sizes, [Wire(u, v, draw(label)) for u, v in chosen]


def overlap(a: Box, b: Box) -> bool:
    return abs(a.x - b.x) < (a.width + b.width) / 2 - 0.01 and abs(a.y - b.y) < (a.height + b.height) / 2 - 0.01


def curve(points: tuple[tuple[float, float], ...], *, sideways: bool) -> list[tuple[float, float]]:
    """Return points along a route, drawn as the pictures draw it."""
    out = list(points)
    for k, ((x, y), (a, b)) in enumerate(pairwise(points)):
        for step in range(1, 8):
            t = step / 8
            along, across = t, t
            if k % 2:  # a cubic with its inner controls half way along the flow
                along = 1.5 * t * (1 - t) ** 2 + 1.5 * t**2 * (1 - t) + t**3
                across = 3 * t**2 * (1 - t) + t**3
            if sideways:
                out.append((x + (a - x) * along, y + (b - y) * across))
            else:
                out.append((x + (a - x) * across, y + (b - y) * along))
    return out


def check(plan: Layout, wires: list[Wire], *, sideways: bool) -> None:
    things = [*plan.boxes, *(box for box, _ in plan.labels)]
    for a, b in combinations(things, 2):
        assert not overlap(a, b)
    for box in things:
        assert 0 <= box.x - box.width / 2 <= box.x + box.width / 2 <= plan.width
        assert 0 <= box.y - box.height / 2 <= box.y + box.height / 2 <= plan.height
    for wire in wires:
        source, target = plan.boxes[wire.source], plan.boxes[wire.target]
        assert source.x < target.x if sideways else source.y < target.y
    for route in plan.routes:
        for x, y in curve(route.points, sideways=sideways):
            for box in plan.boxes:
                inside = abs(x - box.x) < box.width / 2 - 0.01 and abs(y - box.y) < box.height / 2 - 0.01
                assert not inside


@settings(max_examples=60, deadline=None)
@given(graphs(), st.sampled_from(["TB", "LR"]))
def test_nothing_overlaps_and_links_pass_beside_items(
    graph: tuple[list[tuple[float, float]], list[Wire]], direction: str
) -> None:
    sizes, wires = graph
    plan = layout(sizes, wires, direction=direction)
    assert [(b.width, b.height) for b in plan.boxes] == sizes
    check(plan, wires, sideways=direction == "LR")


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_every_link_arrives_at_its_target_once(graph: tuple[list[tuple[float, float]], list[Wire]]) -> None:
    sizes, wires = graph
    plan = layout(sizes, wires)
    arrivals = []
    for route in plan.routes:
        x, y = route.points[-1]
        at = [
            v for v, b in enumerate(plan.boxes) if math.isclose(y, b.y - b.height / 2) and abs(x - b.x) <= b.width / 2
        ]
        assert len(at) == 1
        arrivals.append(at[0])
    assert sorted(arrivals) == sorted(wire.target for wire in wires)


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_crossings_never_grow_and_the_same_graph_gives_the_same_layout(
    graph: tuple[list[tuple[float, float]], list[Wire]],
) -> None:
    sizes, wires = graph
    plan = layout(sizes, wires)
    assert list(plan.crossings) == sorted(plan.crossings, reverse=True)
    assert layout(sizes, wires) == plan


def test_a_crossing_that_need_not_be_is_removed() -> None:
    rank, edges = [0, 0, 1, 1], [(0, 3), (1, 2)]
    layers, crossings = order(rank, edges, [0.0, 1.0, 2.0, 3.0])
    assert crossings[0] == 1
    assert crossings[-1] == 0
    assert len(layers) == 2


@pytest.mark.parametrize("seed", range(5))
def test_the_best_order_seen_is_the_one_returned(seed: int) -> None:
    chance = random.Random(seed)
    rank = [layer for layer in range(6) for _ in range(12)]
    edges = [(u, v) for u in range(60) for v in chance.sample(range(12 * (u // 12 + 1), 12 * (u // 12 + 2)), 3)]
    layers, crossings = order(rank, edges, [float(v) for v in range(72)])
    below = [[v for u, v in edges if u == k] for k in range(72)]
    assert sum(count_crossings(upper, lower, below) for upper, lower in pairwise(layers)) == crossings[-1]
    assert crossings == sorted(crossings, reverse=True)
    assert crossings[-1] < crossings[0]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20))
def test_crossings_are_counted_as_pair_by_pair(edges: list[tuple[int, int]]) -> None:
    below = [[v for u, v in edges if u == k] for k in range(6)]
    pairs = sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(edges, 2))
    assert count_crossings(range(6), range(6), below) == pairs


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0.1, 10), st.floats(0, 30)), min_size=1, max_size=8))
def test_settling_keeps_gaps_and_no_shift_of_a_vertex_is_better(rows: list[tuple[float, float, float]]) -> None:
    wanted, weight = [r[0] for r in rows], [r[1] for r in rows]
    gaps = [r[2] for r in rows[1:]]
    places = settle(wanted, weight, gaps)

    def fits(at: list[float]) -> bool:
        return all(b - a >= gap - 1e-9 for a, b, gap in zip(at, at[1:], gaps))

    def cost(at: list[float]) -> float:
        return sum(w * (a - b) ** 2 for a, b, w in zip(at, wanted, weight))

    assert fits(places)
    # The problem is convex: no better place near by means no better place at all. Shifts of runs span all moves.
    for start in range(len(rows)):
        for stop in range(start + 1, len(rows) + 1):
            for shift in (-0.01, 0.01):
                moved = [at + shift * (start <= k < stop) for k, at in enumerate(places)]
                assert not fits(moved) or cost(moved) >= cost(places) - 1e-6


def test_a_source_with_many_targets_shares_one_trunk() -> None:
    wires = [Wire(0, k, (40.0, 14.0)) for k in range(1, 8)] + [Wire(k, k + 1) for k in range(1, 7)]
    plan = layout([(50.0, 30.0)] * 8, wires)
    assert sum(wire < 7 for _, wire in plan.labels) == 1
    check(plan, wires, sideways=False)


def test_a_long_chain_with_far_links_stays_small() -> None:
    count = 1500
    wires = [Wire(k, k + 1) for k in range(count - 1)] + [Wire(0, k) for k in range(2, count)]
    plan = layout([(50.0, 30.0)] * count, wires)
    assert len(plan.boxes) == count
    assert sum(len(route.points) for route in plan.routes) < 20 * count


def test_links_end_on_the_rounded_outline() -> None:
    plan = layout([(40.0, 40.0)] * 3, [Wire(0, 2), Wire(1, 2)], radii=[20.0] * 3)
    target = plan.boxes[2]
    for route in plan.routes:
        x, y = route.points[-1]
        assert math.hypot(x - target.x, y - target.y) == pytest.approx(20.0)


def test_a_link_to_itself_and_an_unknown_direction_are_refused() -> None:
    with pytest.raises(ValueRangeError, match="from item 0 to itself"):
        layout([(1.0, 1.0)], [Wire(0, 0)])
    with pytest.raises(ValueRangeError, match="'TB' or 'LR', got 'BT'"):
        layout([], [], direction="BT")


def test_an_empty_graph_has_a_layout() -> None:
    assert layout([], []).boxes == ()
