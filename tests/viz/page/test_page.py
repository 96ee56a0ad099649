"""The explorer in a real browser, from disk: every control, and what each program looks like."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import sapwood
from sapwood.viz.show import save


def by_id(browser: Any, name: str) -> Any:
    return browser.find_element("id", name)


def run(browser: Any, script: str, *arguments: Any) -> Any:
    return browser.execute_script(script, *arguments)


def select(browser: Any, title: str, kind: str | None = None) -> None:
    """Click on the item of a title, where the canvas shows it."""
    spot = run(
        browser,
        "const n = scene.nodes.find(v => v.title === arguments[0] && (!arguments[1] || v.kind === arguments[1]));"
        "return [n.x * view.scale + view.x - canvas.clientWidth / 2,"
        " n.y * view.scale + view.y - canvas.clientHeight / 2]",
        title,
        kind,
    )
    ActionChains(browser).move_to_element_with_offset(
        by_id(browser, "canvas"), round(spot[0]), round(spot[1])
    ).click().perform()


def press(browser: Any, *keys: str) -> None:
    run(browser, "canvas.focus()")
    ActionChains(browser).send_keys(*keys).perform()


def slide(browser: Any, step: int) -> None:
    run(browser, "const s = $('step'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))", step)


@pytest.mark.parametrize("name", ["seed", "sine", "mlp", "resnet", "gpt"])
def test_programs_show_every_item_and_fit(page: Any, name: str) -> None:
    browser = page.program(name)
    page.picture(name)
    run(browser, "foldAll(false)")
    assert run(browser, "return scene.nodes.length === DATA.items.length && scene.nodes.length > 5")
    assert run(
        browser,
        "return view.y >= 0 && view.x >= 0 && view.x + scene.width * view.scale <= canvas.clientWidth + 1"
        " && view.y + scene.height * view.scale <= canvas.clientHeight + 1",
    )
    page.picture(f"{name}-unfolded")


def test_click_shows_values_gradient_formula_and_source(page: Any) -> None:
    browser = page.program("seed")
    select(browser, "w")
    text = by_id(browser, "node").text
    assert "Value" in text
    assert "[1]" in text
    assert "Gradient" in text
    assert "[5]" in text
    select(browser, "Mul")
    text = by_id(browser, "node").text
    assert "MulBackward0" in text
    assert "vjp_input = lambda g, other: g * other" in text
    assert "y = a * b" in text
    assert "programs.py:" in text
    page.picture("seed-details")
    press(browser, Keys.ESCAPE)
    assert "Nothing selected" in by_id(browser, "node").text


def test_views(page: Any) -> None:
    browser = page.program("seed")
    for view in ("forward", "backward", "side", "over"):
        button = browser.find_element("css selector", f"[data-view={view}]")
        button.click()
        assert button.get_attribute("aria-checked") == "true"
        assert run(browser, "return view.mode") == view
        time.sleep(0.1)
        page.picture(f"seed-{view}")
    # In the second picture of two, a click selects the same item.
    run(browser, "setView('side')")
    at = run(
        browser,
        "const n = scene.nodes.find(v => v.title === 'y'); return nodeAt((n.x + scene.width + SPACE) * view.scale"
        " + view.x, n.y * view.scale + view.y) === scene.nodes.indexOf(n)",
    )
    assert at
    run(browser, "document.querySelector('[data-view=side]').focus()")
    ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
    assert run(browser, "return view.mode") == "over"


def test_steps_fill_in_values_then_gradients(page: Any) -> None:
    browser = page.program("seed")
    lines = "return state.lines(scene.nodes.findIndex(n => n.title === arguments[0]), 'forward')"
    slide(browser, 0)
    assert run(browser, lines, "w") == ["value 1."]
    assert run(browser, lines, "y") == []
    slide(browser, 3)
    assert run(browser, lines, "y") == ["value 6."]
    assert by_id(browser, "phase").text == "forward 3 of 3 · Mul"
    slide(browser, 4)
    assert run(browser, lines, "a") == ["value 3.", "grad 2."]
    assert run(browser, lines, "w") == ["value 1."]
    assert "backward 1 of 5" in by_id(browser, "phase").text
    page.picture("seed-step")
    slide(browser, 8)
    assert run(browser, lines, "w") == ["value 1.", "grad 5."]
    assert "complete" in by_id(browser, "phase").text


def test_play_and_pause(page: Any) -> None:
    browser = page.program("seed")
    by_id(browser, "play").click()
    assert by_id(browser, "play").get_attribute("aria-label") == "Pause"
    WebDriverWait(browser, 20).until(lambda b: run(b, "return step") >= 2)
    by_id(browser, "play").click()
    assert by_id(browser, "play").get_attribute("aria-label") == "Play"
    press(browser, " ")
    assert by_id(browser, "play").get_attribute("aria-label") == "Pause"
    press(browser, " ")
    assert run(browser, "return timer") is None


def test_search_takes_any_text(page: Any) -> None:
    browser = page.program("gpt")
    press(browser, "/")
    box = by_id(browser, "search")
    assert browser.switch_to.active_element == box
    box.send_keys("(.*[\\")
    assert by_id(browser, "matches").text == "0"
    box.clear()
    box.send_keys("layernorm")
    assert int(by_id(browser, "matches").text) >= 2
    box.send_keys(Keys.ENTER)
    first = run(browser, "return state.selected")
    box.send_keys(Keys.ENTER)
    assert first >= 0
    assert run(browser, "return state.selected") != first
    page.picture("gpt-search")
    box.send_keys(Keys.ESCAPE)
    assert run(browser, "return state.matches.size") == 0


def test_modules_fold_and_unfold(page: Any) -> None:
    browser = page.program("gpt")
    # Larger models open folded.
    assert run(browser, "return scene.nodes.filter(n => n.kind === 'group').length") == 4
    everything = run(browser, "return DATA.items.length")
    by_id(browser, "tab-modules").click()
    by_id(browser, "unfold-all").click()
    assert run(browser, "return scene.nodes.length") == everything
    by_id(browser, "fold-all").click()
    assert run(browser, "return scene.nodes.filter(n => n.kind === 'group').map(n => n.title).sort()") == [
        "attn", "ln1", "ln2", "mlp",
    ]  # fmt: skip
    assert run(browser, OVERLAPS) == 0
    page.picture("gpt-folded")
    select(browser, "mlp")
    assert "module, folded" in by_id(browser, "node").text
    by_id(browser, "unfold-this").click()
    assert run(browser, "return scene.nodes.filter(n => n.kind === 'group').length") == 3
    assert run(browser, OVERLAPS) == 0
    page.picture("gpt-half-folded")
    by_id(browser, "tab-modules").click()
    browser.find_elements("css selector", ".module")[0].click()
    assert run(browser, "return scene.nodes.filter(n => n.kind === 'group').length") == 2
    by_id(browser, "unfold-all").click()
    assert run(browser, "return scene.nodes.length") == everything


OVERLAPS = """
let n = 0;
scene.nodes.forEach((a, i) => scene.nodes.forEach((b, j) => {
  if (i < j && Math.abs(a.x - b.x) < (a.w + b.w) / 2 && Math.abs(a.y - b.y) < (a.h + b.h) / 2) n++;
}));
return n;
"""


def test_gradient_flow_and_its_limits(page: Any) -> None:
    browser = page.program("mlp")
    by_id(browser, "tab-flow").click()
    bars = browser.find_elements("css selector", ".bar")
    assert [b.find_element("css selector", ".name").text for b in bars][:2] == ["0.weight", "0.bias"]
    assert "within the limits" in by_id(browser, "verdict").text
    page.picture("mlp-flow")
    for name, value, word in (("explode", "1", "exploding"), ("vanish", "1", "vanishing")):
        by_id(browser, name).clear()
        by_id(browser, name).send_keys(value)
        assert word in by_id(browser, "verdict").text
    browser.find_elements("css selector", ".bar")[0].click()
    assert "0.weight" in by_id(browser, "node").text


def test_zoom_pan_and_fit(page: Any) -> None:
    browser = page.program("mlp")
    scale = "return view.scale"
    before = run(browser, scale)
    by_id(browser, "in").click()
    assert run(browser, scale) > before
    by_id(browser, "out").click()
    by_id(browser, "out").click()
    assert run(browser, scale) < before
    press(browser, "+")
    press(browser, "-")
    by_id(browser, "fit").click()
    assert run(browser, scale) == pytest.approx(before)
    x = run(browser, "return view.x")
    ActionChains(browser).drag_and_drop_by_offset(by_id(browser, "canvas"), 80, 30).perform()
    assert run(browser, "return view.x") == pytest.approx(x + 80, abs=2)
    run(browser, "canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -100, cancelable: true}))")
    assert run(browser, scale) > before
    press(browser, "f")
    assert run(browser, scale) == pytest.approx(before)


def test_arrows_follow_links(page: Any) -> None:
    browser = page.program("sine")
    title = "return scene.nodes[state.selected].title"
    press(browser, Keys.ARROW_UP)
    assert run(browser, title) == "y"
    press(browser, Keys.ARROW_UP)
    assert run(browser, title) == "Mul"
    assert "operation" in by_id(browser, "status").get_attribute("textContent")
    press(browser, Keys.ARROW_DOWN)
    assert run(browser, title) == "y"
    press(browser, Keys.ARROW_UP, Keys.ARROW_UP)
    before = run(browser, title)
    press(browser, Keys.ARROW_LEFT)
    press(browser, Keys.ARROW_RIGHT)
    assert run(browser, title)
    assert before


def test_help_theme_and_names_for_readers(page: Any) -> None:
    browser = page.program("mlp")
    press(browser, "?")
    assert by_id(browser, "keys").is_displayed()
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert not by_id(browser, "keys").is_displayed()
    by_id(browser, "help").click()
    browser.find_element("css selector", "#keys button").click()
    was = run(browser, "return document.documentElement.dataset.theme")
    by_id(browser, "theme").click()
    assert run(browser, "return document.documentElement.dataset.theme") != was
    page.picture("mlp-dark")
    nameless = run(
        browser,
        "return [...document.querySelectorAll('button,input,canvas,[role=tabpanel]')].filter("
        "e => !(e.getAttribute('aria-label')"
        " || e.textContent.trim() || e.labels && e.labels.length || e.getAttribute('aria-labelledby'))).length",
    )
    assert nameless == 0
    by_id(browser, "theme").click()


def test_dark_when_the_system_is(page: Any) -> None:
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        browser = page.program("resnet")
        assert run(browser, "return document.documentElement.dataset.theme") == "dark"
        page.picture("resnet-dark")
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_exports(page: Any, downloads: Path) -> None:
    browser = page.program("seed")
    for kind in ("svg", "png"):
        by_id(browser, kind).click()
        WebDriverWait(browser, 20).until(lambda _, kind=kind: (downloads / f"graph.{kind}").exists())
    root = ElementTree.parse(downloads / "graph.svg").getroot()
    texts = {e.text for e in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"w", "x", "a", "b", "y", "Add", "Mul", "grad 5."} <= texts
    assert (downloads / "graph.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_five_thousand_nodes_open_folded(page: Any) -> None:
    """A recurrence has no modules: runs of operations fold instead, and open one by one."""
    browser = page.program("rnn")
    assert run(browser, "return scene.nodes.filter(n => n.kind === 'group').length") == 50
    assert run(browser, "return scene.nodes.length") < 70
    assert run(browser, OVERLAPS) == 0
    page.picture("rnn-folded")
    frames = browser.execute_async_script(FRAMES)
    print(f"panning, folded: {len(frames)} frames, median {sorted(frames)[len(frames) // 2]:.1f} ms")
    by_id(browser, "tab-modules").click()
    names = [m.text for m in browser.find_elements("css selector", ".module")]
    assert len(names) == 50
    assert "operations 1–100" in names[0]
    assert "operations 4901–5000" in names[49]
    browser.find_elements("css selector", ".module")[2].click()
    assert run(browser, "return scene.nodes.filter(n => n.kind === 'group').length") == 49
    assert 100 <= run(browser, "return scene.nodes.length") < 270
    page.picture("rnn-one-run")
    slide(browser, 2000)
    assert "forward 2000 of 5000" in by_id(browser, "phase").text
    page.picture("rnn-step")
    press(browser, "/")
    by_id(browser, "search").send_keys("tanh")
    by_id(browser, "search").send_keys(Keys.ENTER)
    assert run(browser, "return scene.nodes[state.selected].title") == "Tanh"


# The intervals between animation frames while the picture moves.
FRAMES = """
const done = arguments[0], took = [];
let last = null;
function next(now) {
  if (last !== null) took.push(now - last);
  last = now;
  if (took.length === 30) { fit(); done(took); return; }
  view.y -= 12; repaint(); requestAnimationFrame(next);
}
requestAnimationFrame(next);
"""


def test_five_thousand_nodes_stay_responsive(page: Any) -> None:
    browser = page.program("rnn")
    took = run(browser, "const t = performance.now(); foldAll(false); return performance.now() - t")
    print(f"layout of all: {took:.0f} ms")
    assert run(browser, "return scene.nodes.length") > 4500
    times = browser.execute_async_script(
        """
        const done = arguments[0], out = {};
        for (const [name, scale] of [["close", 0.7], ["far", 0.02]]) {
          const took = [];
          const first = scene.nodes[scene.where[DATA.forward[0]]];
          view.scale = scale; view.x = 500 - first.x * scale; view.y = 300 - first.y * scale;
          for (let i = 0; i < 40; i++) {
            view.y -= 60;
            const t = performance.now();
            paint();
            took.push(performance.now() - t);
          }
          took.sort((a, b) => a - b); out[name] = [took[20], took[39]];
        }
        fit();
        requestAnimationFrame(() => done(out));
        """
    )
    for name, (median, worst) in times.items():
        print(f"pan frame, {name}: median {median:.1f} ms, worst {worst:.1f} ms")
    # Links to far away are stubs, whole when one of their ends is selected.
    assert run(browser, "return scene.routes.filter(r => r.stub).length") > 1000
    slide(browser, 2000)
    assert run(browser, "return step") == 2000
    page.picture("rnn")


def test_names_are_text_wherever_they_are_shown(page: Any, folder: Path) -> None:
    name = "<img src=x onerror=alert(1)></script><script>window.owned=1</script>\"'`${1}&amp;"
    x = sapwood.tensor([1.0, float("nan"), float("inf"), -float("inf"), 0.0], requires_grad=True)
    path = save(x * 2, folder / "hostile.html", names={name: x})
    browser = page.file(path)
    run(browser, "select(scene.nodes.findIndex(n => n.kind === 'leaf'), true)")
    text = by_id(browser, "node").text
    assert name in text
    assert "1 NaN, 2 infinite" in text
    assert "[1, nan, inf, -inf, 0]" in text
    by_id(browser, "tab-flow").click()
    assert browser.find_element("css selector", ".bar .name").text == name
    assert not browser.find_elements("css selector", "img")
    assert run(browser, "return window.owned") is None
    ElementTree.fromstring(run(browser, "return svgText()"))
    page.picture("hostile")


def test_tab_key_reaches_every_control_in_order(page: Any) -> None:
    browser = page.program("seed")
    run(browser, "document.activeElement.blur()")
    reached = []
    for _ in range(20):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        reached.append(run(browser, "const e = document.activeElement; return e.id || e.dataset.view || e.tagName"))
    order = ["forward", "search", "out", "fit", "in", "png", "svg", "theme", "help", "canvas", "tab-node", "node"]
    assert [r for r in reached if r in order][: len(order)] == order
    assert {"play", "step"} <= set(reached)
    by_id(browser, "search").send_keys(Keys.TAB)
    outline = "const e = document.activeElement; return [e.id, getComputedStyle(e).outlineStyle]"
    assert run(browser, outline) == ["out", "solid"]


def test_a_graph_that_was_freed_says_so_on_the_page(page: Any, folder: Path) -> None:
    x = sapwood.tensor(2.0, requires_grad=True)
    y = (x * x).exp()
    y.backward()
    browser = page.file(save(y, folder / "freed.html", names={"x": x}))
    assert "retain_graph=True" in by_id(browser, "notes").text
    browser = page.file(save(sapwood.ones(3), folder / "alone.html"))
    assert "No gradient" in by_id(browser, "notes").text
    assert by_id(browser, "play").get_attribute("disabled")
    page.picture("alone")
