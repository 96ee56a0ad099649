"""SVG documents: words for those who hear them, themes that keep to themselves, and the other forms of a drawing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from standins import tutorial

import sapwood
from sapwood import nn
from sapwood.errors import ValueRangeError
from sapwood.viz import Drawing, draw
from sapwood.viz.measure import MARKS, STYLES
from sapwood.viz.model import Item, Link
from sapwood.viz.svg import DARK

SVG = "{http://www.w3.org/2000/svg}"


def picture() -> Drawing:
    tensors = tutorial()
    return draw(tensors["y"], names=tensors)


def test_title_description_and_role() -> None:
    root = ElementTree.fromstring(picture().svg())
    assert root.get("role") == "img"
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert root[0].text == "Computation graph of y"
    assert root[1].text == "5 variables (x, w, a, b, y), 3 operations, 8 links."


def test_every_colour_has_one_for_a_dark_ground() -> None:
    colors = {s.fill for s in STYLES.values()} | {s.stroke for s in STYLES.values()} | set(MARKS.values())
    assert colors <= set(DARK)
    assert len(set(DARK.values())) == len(DARK)
    used = set(re.findall(r'(?:fill|stroke)="(#\w+)"', draw(nn.Linear(2, 2), example=sapwood.ones(1, 2)).svg()))
    assert used <= set(DARK)


def test_rules_hold_inside_the_picture_alone() -> None:
    one, other = picture().svg("dark"), picture().svg("auto")
    for svg in (one, other):
        scope = re.search(r'class="(sapwood-\w+)"', svg)
        assert scope
        rules = re.search(r"<style>(.*)</style>", svg, re.DOTALL)
        assert rules
        selectors = re.findall(r"([^{}]+)\{(?:fill|stroke):", rules[1])
        assert len(selectors) > 10
        assert all(selector.startswith(f".{scope[1]} ") for selector in selectors)
    assert re.findall(r"sapwood-\w+", one)[0] != re.findall(r"sapwood-\w+", other)[0]
    assert "<style>" not in picture().svg("light")
    assert picture().svg("auto") == other
    assert "prefers-color-scheme" in other
    assert "prefers-color-scheme" not in one
    assert " id=" not in one
    with pytest.raises(ValueRangeError, match="'auto', got 'blue'"):
        picture().svg("blue")  # type: ignore[arg-type]


def test_the_legend_is_optional(tmp_path: Path) -> None:
    with_legend, without = picture().svg(), picture().svg(legend=False)
    heights = [float(ElementTree.fromstring(svg).get("height", 0)) for svg in (with_legend, without)]
    assert heights[0] == heights[1] + 30
    assert ">non-leaf</text>" in with_legend
    assert ">non-leaf</text>" not in without
    saved = picture().save(tmp_path / "bare.svg", legend=False, theme="light")
    assert saved.read_text(encoding="utf-8") == picture().svg("light", legend=False)


def test_plain_data_has_everything_with_its_place(tmp_path: Path) -> None:
    drawing = draw(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), example=sapwood.ones(1, 2))
    data = json.loads(drawing.save(tmp_path / "model.json").read_text(encoding="utf-8"))
    assert data == json.loads(json.dumps(drawing.json()))
    assert [(i["kind"], i["title"]) for i in data["items"]] == [(i.kind, i.title) for i in drawing.items]
    assert len(data["links"]) == len(drawing.links)
    assert {i["scope"][0] for i in data["items"] if i["scope"]} == {"0", "1"}
    (group,) = [g for g in data["groups"] if g["frame"]]
    assert (group["path"], group["kind"]) == (["0"], "Linear")
    for item in data["items"]:
        assert 0 < item["x"] - item["width"] / 2 < item["x"] + item["width"] / 2 < data["width"]
        assert 0 < item["y"] - item["height"] / 2 < item["y"] + item["height"] / 2 < data["height"]
    (line,) = [i["line"] for i in data["items"] if i["title"] == "addmm"]
    assert "test_svg.py" in line
    assert "drawing = draw(" in line


def test_a_page_by_itself(tmp_path: Path) -> None:
    drawing = draw(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), example=sapwood.ones(1, 2))
    page = drawing.save(tmp_path / "model.html").read_text(encoding="utf-8")
    assert page == drawing.html()
    assert page.startswith("<!")
    assert "0.weight" in page
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)


def test_an_arrow_that_leads_back_points_up() -> None:
    drawing = Drawing([Item("op", "a"), Item("op", "b")], [Link(0, 1), Link(1, 0, dashed=True)])
    svg = drawing.svg()
    heads = [
        [float(p.split(",")[1]) for p in points.split(" ")] for points in re.findall(r'<polygon points="([^"]+)"', svg)
    ]
    assert sorted(tip < left for tip, left, _ in heads) == [False, True]
    assert "constraint=false" in drawing.dot()


def test_modules_are_clusters_in_dot() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
    dot = draw(model, example=sapwood.ones(1, 2)).dot()
    assert re.findall(r'label="([^"]+)", labeljust', dot) == [
        "0 · Linear", "1 · Sequential", "0 · ReLU", "1 · Linear"
    ]  # fmt: skip
    assert dot.count("{") == dot.count("}") == 5
    assert len(re.findall(r"^ +n\d+ \[", dot, re.MULTILINE)) == len(draw(model, example=sapwood.ones(1, 2)).items)


@pytest.fixture(scope="module")
def browser(chromium: Any) -> Any:
    return chromium()


def test_pictures_on_one_page_do_not_repaint_each_other(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    svgs = [picture().svg(theme) for theme in ("light", "dark", "auto")]
    page.write_text("<!doctype html><meta charset=utf-8>" + "".join(svgs), encoding="utf-8")
    browser.get(page.as_uri())
    ask = "return [...document.querySelectorAll('svg > rect')].map(r => getComputedStyle(r).fill)"
    light, dark = "rgb(255, 255, 255)", "rgb(23, 29, 26)"
    for preferred, expected in (("light", [light, dark, light]), ("dark", [light, dark, dark])):
        features = [{"name": "prefers-color-scheme", "value": preferred}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        assert browser.execute_script(ask) == expected
