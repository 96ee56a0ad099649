"""What is kept of a run: curves and histograms in bounded memory, norms, and the pace of looking."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sapwood
from sapwood.viz.live.curve import BINS, Curve, Ridge
from sapwood.viz.live.norms import DRAWN, drawn, norm, odd
from sapwood.viz.live.pace import Pace
from sapwood.viz.live.record import METRICS, Record, told


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=12), st.integers(2, 60))
def test_many_values_at_once_are_the_same_as_one_by_one(sizes, limit):
    rng = np.random.default_rng(len(sizes))
    one, many = Curve(2 * limit), Curve(2 * limit)
    step = 0
    for version, size in enumerate(sizes, 1):
        values = rng.normal(size=size).tolist()
        steps = list(range(step, step + size))
        step += size
        for s, v in zip(steps, values):
            one.add(s, v, version)
        many.extend(steps, values, version)
    a, b = one.since(0), many.since(0)
    assert len(one) <= 2 * limit
    assert (a["steps"], a["low"], a["high"], a["latest"]) == (b["steps"], b["low"], b["high"], b["latest"])
    # Sums in another order differ in the last digits.
    assert a["mean"] == pytest.approx(b["mean"], rel=1e-5, abs=1e-6)


def test_a_long_curve_keeps_its_extremes_and_its_mean():
    curve = Curve(100)
    values = np.sin(np.arange(6400) / 50)
    values[3333] = 40.0
    curve.extend(list(range(6400)), values.tolist(), 1)
    told = curve.since(0)
    assert len(told["steps"]) <= 100
    assert max(told["high"]) == 40.0
    assert told["steps"] == sorted(told["steps"])
    assert np.mean(told["mean"]) == pytest.approx(values[: int(told["steps"][-1]) + 1].mean(), rel=1e-4)
    assert told["latest"] == [6399.0, pytest.approx(values[-1], rel=1e-5)]


def test_news_are_only_what_is_new_and_all_of_it():
    curve, kept = Curve(50), {"steps": [], "mean": []}
    for version in range(1, 400):
        curve.add(version, float(version), version)
        if version % 7:
            continue
        news = curve.since(version - 7)
        for key in kept:
            kept[key] = (kept[key] if not news["whole"] else []) + news[key]
        assert kept["steps"] == curve.since(0)["steps"]
        assert kept["mean"] == curve.since(0)["mean"]
    assert curve.since(399) is None


def test_values_that_are_not_finite():
    curve = Curve(10)
    for step, value in enumerate([1.0, math.nan, math.inf, 2.0], 1):
        curve.add(step, value, step)
    told = curve.since(0)
    json.dumps(told, allow_nan=False)
    assert told["mean"] == [1.0, None, None, 2.0]
    for step in range(5, 40):
        curve.add(step, 1.0, step)
    json.dumps(curve.since(0), allow_nan=False)
    assert curve.since(0)["mean"][0] is None
    assert curve.since(0)["mean"][-1] == 1.0


def test_histograms():
    ridge = Ridge(8)
    ridge.add(1, np.array([0.0, 1.0, 1.0, math.nan, math.inf], np.float32), 1)
    (row,) = ridge.since(0)["rows"]
    assert (row["low"], row["high"], row["odd"]) == (0.0, 1.0, 2)
    assert (row["counts"][0], row["counts"][-1], sum(row["counts"])) == (1, 2, 3)
    for values in ([3.0, 3.0], [], [math.nan], [-3e38, 3e38], [1e-45, 2e-45]):
        ridge.add(2, np.array(values, np.float32), 2)
    rows = ridge.since(1)["rows"]
    assert [sum(r["counts"]) for r in rows] == [2, 0, 0, 2, 2]
    assert all(len(r["counts"]) == BINS for r in rows)
    json.dumps(ridge.since(0), allow_nan=False)


def test_histograms_are_bounded_and_news_complete():
    ridge, kept = Ridge(8), []
    for version in range(1, 300):
        ridge.add(version, np.ones(3), version)
        assert len(ridge.rows) < 8
        news = ridge.since(version - 1)
        if news:
            kept = ([] if news["whole"] else kept) + news["rows"]
        assert [r["step"] for r in kept] == [r["step"] for r in ridge.rows]
    assert kept[0]["step"] == 1
    assert kept[-1]["step"] > 200


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_norm_of_every_dtype(name):
    x = sapwood.tensor([[3.0, 0.0], [0.0, 4.0]]).to(getattr(sapwood, name))
    assert norm(x._array) == 5.0
    assert norm(x._array[:, ::-1]) == 5.0
    assert norm(x._array[:0]) == 0.0


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-20, 1.0, 1e20, 1e37])
def test_norm_beyond_the_range_of_squares(scale):
    x = np.array([3 * scale, 4 * scale], np.float32)
    # As the hook does: overflow in the quick way is what leads to the other one.
    with np.errstate(all="ignore"):
        assert norm(x) == pytest.approx(5 * scale, rel=1e-4)


def test_norm_of_what_is_not_finite():
    with np.errstate(all="ignore"):
        assert math.isnan(norm(np.array([1, math.nan, 2], np.float32)))
        assert norm(np.array([1, -math.inf], np.float32)) == math.inf
    assert odd(np.array([1, math.nan, math.inf])) == ("NaN", 2)
    assert odd(np.array([1, math.inf])) == ("infinity", 1)
    assert odd(np.array([1, 2])) == ("", 0)


@pytest.mark.parametrize("size", [0, 1, DRAWN, DRAWN + 1, 10 * DRAWN + 7])
def test_what_is_drawn_is_a_small_copy(size):
    x = np.arange(size, dtype=np.float32)
    some = drawn(x)
    assert len(some) <= DRAWN
    assert len(some) == min(size, len(some)) and (size > DRAWN or len(some) == size)
    assert not np.shares_memory(some, x)


def test_pace_keeps_to_its_share():
    pace = Pace(0.01)
    assert pace.period(0.001, 0.0) == 1
    assert pace.period(0.001, 0.001) == 100
    # One pause and one interrupted look change nothing.
    assert pace.period(0.001, 0.001) == 100
    assert pace.period(0.001, 10.0) == 100
    assert pace.period(5.0, 0.001) == 100
    assert Pace(0.01).period(1e-6, 1.0) == 1
    assert Pace(0.01, every=7).period(1.0, 1.0) == 7


def test_a_record_is_bounded():
    record = Record("Net", ["w"], [(1,)], None)
    record.absorb([], [(i, {f"m{i}": 1.0}) for i in range(200)], 1, 0.0)
    assert len(record.metrics) == METRICS
    record.absorb([], [(i, {"m0": math.nan, f"m{i}": math.inf}) for i in range(64)], 2, 0.0)
    assert len(record.alarms) == 16
    assert json.dumps(record.since(0), allow_nan=False)


def test_alarms_in_words():
    assert told("gradient", "a.weight", "NaN", 3, 2, 8, 7) == (
        "NaN in the gradient of a.weight at step 8, in 3 elements, and in 2 more parameters."
    )
    assert told("weight", "b", "infinity", 1, 0, 8, 4) == "infinity in parameter b at step 8; at step 4 all was finite."
    assert told("metric", "loss", "NaN", 1, 0, 8, 0) == "NaN in loss at step 8."
    assert told("weight", "b", "NaN", 1, 1, 8, 0).endswith("in 1 more parameter; nobody had looked before.")
