"""The page in a headless Chromium, on a training that runs, fails and ends."""

from __future__ import annotations

import math
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import sapwood
from sapwood import nn
from sapwood.viz import watch

pytest.importorskip("selenium", reason="selenium is not installed")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

SHOTS = Path(__file__).parents[3] / "out" / "screenshots"
STEPS = 60


@pytest.fixture(scope="module")
def browser(chromium):
    return chromium("window-size=1400,1200")


class Training:
    """A small classification; `train` makes steps of it."""

    def __init__(self):
        sapwood.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 3))
        self.optimizer = sapwood.optim.Adam(self.model.parameters(), lr=1e-2)
        self.x = sapwood.randn(64, 8)
        self.y = self.x[:, :3].argmax(1)

    def train(self, seen, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            out = self.model(self.x)
            loss = nn.functional.cross_entropy(out, self.y)
            loss.backward()
            self.optimizer.step()
            seen.log(loss=loss, accuracy=(out.argmax(1) == self.y).float().mean())


@pytest.fixture
def training():
    return Training()


@pytest.fixture
def seen(training, browser):
    """A watch whose page is open and shows the first steps; the console must have stayed empty."""
    browser.get_log("browser")
    with watch(training.model, training.optimizer, total=2 * STEPS, every=1, histogram_every=5) as opened:
        browser.get(opened.url)
        training.train(opened, STEPS)
        until(
            browser,
            f"return run.version > 0 && metrics.has('loss') && metrics.get('loss').curve.latest[0] === {STEPS}",
        )
        yield opened
    assert browser.get_log("browser") == []


def until(browser, script, *args):
    return WebDriverWait(browser, 60).until(lambda b: b.execute_script(script, *args))


def painted(browser):
    """Return when what was asked to be drawn has been."""
    browser.execute_async_script("const d = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(d))")


def picture(browser, name):
    painted(browser)
    SHOTS.mkdir(parents=True, exist_ok=True)
    browser.save_screenshot(str(SHOTS / f"watch-{name}.png"))


def by_id(browser, name):
    return browser.find_element("id", name)


def press(browser, key):
    ActionChains(browser).send_keys(key).perform()


# On a copy: Chromium complains about canvases that are drawn and read in turn.
INK = """
const c = document.querySelectorAll(arguments[0])[arguments[1]], copy = new OffscreenCanvas(c.width, c.height);
const g = copy.getContext('2d', {willReadFrequently: true});
g.drawImage(c, 0, 0);
const d = g.getImageData(0, 0, c.width, c.height).data;
let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n;
"""


def test_curves_and_progress(seen, browser):
    facts = by_id(browser, "facts").text.replace("\n", " ")
    assert "Step 60 of 120" in facts
    assert "steps/s" in facts
    assert "Cost of watching" in facts
    assert by_id(browser, "track").get_attribute("aria-valuenow") == "50"
    assert by_id(browser, "state").text == "Live"
    assert browser.title.startswith("50 % · Sequential")
    painted(browser)
    names = [e.text for e in browser.find_elements("css selector", "#metrics .name")]
    assert names == ["loss", "accuracy"]
    assert len(browser.execute_script("return metrics.get('loss').curve.mean")) == STEPS
    assert browser.execute_script(INK, "#metrics canvas", 0) > 500
    shown = [e.text for e in browser.find_elements("css selector", "#layers .name")]
    assert shown == ["0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"]
    assert "loss: 0." in by_id(browser, "metrics").find_element("css selector", "canvas").get_attribute("aria-label")
    picture(browser, "gradient")


def test_news_arrive_while_it_runs(seen, browser, training):
    training.train(seen, 10)
    until(browser, f"return metrics.get('loss').curve.steps.length === {STEPS + 10}")
    steps = browser.execute_script("return metrics.get('loss').curve.steps")
    assert steps == list(range(1, STEPS + 11))
    assert browser.execute_script("return layers[0].curves.gradient.steps") == steps


def test_views_of_the_parameters(seen, browser):
    for view, word in (
        ("gradient", "gradient norm"), ("weight", "weight norm"), ("ratio", "update ratio"), ("weights", "weights"),
        ("gradients", "gradients"),
    ):  # fmt: skip
        button = browser.find_element("css selector", f"[data-view={view}]")
        button.click()
        assert button.get_attribute("aria-checked") == "true"
        painted(browser)
        label = browser.find_element("css selector", "#layers canvas").get_attribute("aria-label")
        assert word in label
        assert "none yet" not in label
        assert browser.execute_script(INK, "#layers canvas", 0) > 200
        picture(browser, view)
    assert not by_id(browser, "shared").is_displayed()
    press(browser, "3")
    assert browser.execute_script("return view.kind") == "ratio"
    assert "healthy" in by_id(browser, "hint").text
    assert browser.switch_to.active_element.get_attribute("data-view") == "gradients"
    browser.execute_script("document.querySelector('[data-view=ratio]').focus()")
    press(browser, Keys.ARROW_LEFT)
    assert browser.execute_script("return view.kind") == "weight"
    by_id(browser, "shared").click()
    assert by_id(browser, "shared").get_attribute("aria-pressed") == "false"


def test_scale_and_smoothing(seen, browser):
    by_id(browser, "log").click()
    assert browser.execute_script("return view.log")
    press(browser, "l")
    assert not browser.execute_script("return view.log")
    press(browser, "l")
    by_id(browser, "smooth").send_keys(Keys.END)
    assert by_id(browser, "smoothed").text == "0.99"
    raw, smooth = browser.execute_script("const c = metrics.get('loss').curve; return [c.mean, smoothed(c, 0.5)]")
    assert smooth[0] == pytest.approx(raw[0])
    expected, mass = 0.0, 0.0
    for value in raw:
        expected, mass = 0.5 * expected + 0.5 * value, 0.5 * mass + 0.5
    assert smooth[-1] == pytest.approx(expected / mass)
    picture(browser, "smooth")


def test_pause_keeps_what_comes(seen, browser, training):
    press(browser, " ")
    assert by_id(browser, "pause").get_attribute("aria-pressed") == "true"
    training.train(seen, 10)
    until(browser, "return waiting.length > 0")
    assert browser.execute_script("return metrics.get('loss').curve.steps.length") == STEPS
    assert "paused" in by_id(browser, "state").text
    by_id(browser, "pause").click()
    until(browser, f"return metrics.get('loss').curve.steps.length === {STEPS + 10}")
    assert by_id(browser, "state").text == "Live"


def test_reading_values(seen, browser):
    canvas = browser.find_element("css selector", "#metrics canvas")
    painted(browser)
    ActionChains(browser).move_to_element(canvas).perform()
    painted(browser)
    assert browser.find_element("css selector", "#metrics .at").text.startswith("step ")
    assert browser.find_element("css selector", "#layers .at").text.startswith("step ")
    picture(browser, "reading")
    ActionChains(browser).move_to_element(by_id(browser, "title")).perform()
    assert browser.execute_script("return cross") is None
    canvas.send_keys(Keys.ARROW_LEFT)
    assert browser.execute_script("return cross") == STEPS
    canvas.send_keys(Keys.ARROW_LEFT)
    assert by_id(browser, "status").get_attribute("textContent").endswith(f"at step {STEPS - 1}")
    press(browser, Keys.ESCAPE)
    assert browser.execute_script("return cross") is None


def test_filter_takes_any_text(seen, browser):
    press(browser, "/")
    box = by_id(browser, "filter")
    assert browser.switch_to.active_element == box
    shown = "return layers.filter(l => !l.element.hidden).map(l => l.name)"
    box.send_keys("BIAS")
    assert browser.execute_script(shown) == ["0.bias", "1.bias", "3.bias"]
    box.clear()
    box.send_keys("(.*[\\")
    assert browser.execute_script(shown) == []
    assert by_id(browser, "no-layers").text == "No parameter has this in its name."
    box.send_keys(Keys.ESCAPE)
    assert len(browser.execute_script(shown)) == 6
    assert browser.execute_script("return view.paused") is False


def test_light_and_dark_and_help(seen, browser):
    theme = "return document.documentElement.dataset.theme"
    first = browser.execute_script(theme)
    by_id(browser, "theme").click()
    assert browser.execute_script(theme) != first
    picture(browser, browser.execute_script(theme))
    press(browser, "t")
    assert browser.execute_script(theme) == first
    press(browser, "?")
    assert by_id(browser, "keys").is_displayed()
    press(browser, Keys.ESCAPE)
    assert not by_id(browser, "keys").is_displayed()
    browser.set_window_size(500, 900)
    painted(browser)
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    picture(browser, "narrow")
    browser.set_window_size(1400, 1200)


def test_the_first_nan_is_named(seen, browser, training):
    assert not by_id(browser, "alarm").is_displayed()
    with sapwood.no_grad():
        training.model[3].weight[1, 4] = math.nan
    training.train(seen, 12)
    until(browser, "return document.querySelectorAll('#alarm li').length === 2")
    text = by_id(browser, "alarm").text
    assert f"NaN in parameter 3.weight at step {STEPS}." in text
    assert f"NaN in loss at step {STEPS + 1}." in text
    assert by_id(browser, "alarm").get_attribute("role") == "alert"
    until(browser, "return document.querySelector('#metrics .value').textContent === 'not finite'")
    assert [
        e.find_element("css selector", ".name").text for e in browser.find_elements("css selector", ".alarmed")
    ] == ["3.weight"]
    picture(browser, "nan")


def test_the_end(seen, browser):
    seen.close()
    until(browser, "return run.ended !== null")
    assert by_id(browser, "state").text == "Training ended."
    assert by_id(browser, "state").get_attribute("data-is") == "ended"
    assert not by_id(browser, "pause").is_displayed()
    by_id(browser, "log").click()
    painted(browser)
    assert browser.execute_script(INK, "#metrics canvas", 0) > 500
    picture(browser, "ended")


def test_an_exception_in_training(training, browser):
    seen = watch(training.model, training.optimizer)
    browser.get(seen.url)
    until(browser, "return run.version > 0")

    def train():
        with seen:
            training.train(seen, 3)
            raise RuntimeError("<b>no more batches</b>")

    with pytest.raises(RuntimeError):
        train()
    until(browser, "return run.ended !== null")
    assert by_id(browser, "state").text == "Training was stopped by RuntimeError: <b>no more batches</b>"
    assert by_id(browser, "state").get_attribute("data-is") == "stopped"


def test_it_asks_again_when_the_program_does_not_answer(training, browser, monkeypatch):
    from sapwood.viz.live import server

    with watch(training.model, training.optimizer, every=1) as seen:
        browser.get(seen.url)
        until(browser, "return run.version > 0")
        with monkeypatch.context() as broken:
            broken.setattr(server.Handler, "_news", lambda handler, since: handler._send(500, b"broken\n"))
            training.train(seen, 1)
            until(browser, "return document.getElementById('state').dataset.is === 'lost'")
            assert "asking again" in by_id(browser, "state").text
        training.train(seen, 2)
        until(browser, "return metrics.has('loss') && metrics.get('loss').curve.steps.length === 3")
        assert by_id(browser, "state").text == "Live"
    browser.get_log("browser")


def test_names_are_text(browser):
    model = nn.Module()
    evil = "<img src=x onerror=alert(1)>"
    model.register_parameter(evil, nn.Parameter(sapwood.ones(2)))
    optimizer = sapwood.optim.SGD(model.parameters(), lr=0.1)
    browser.get_log("browser")
    with watch(model, optimizer, every=1) as seen:
        browser.get(seen.url)
        next(model.parameters()).grad = sapwood.ones(2)
        optimizer.step()
        seen.log(**{"</script><script>alert(1)</script>": 1.0, "__proto__": 2.0})
        until(browser, "return metrics.size === 2")
        assert browser.find_element("css selector", "#layers .name").text == evil
        assert browser.find_elements("css selector", "#layers img") == []
        assert browser.get_log("browser") == []


def test_the_page_asks_nobody_else(seen, browser):
    asked = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    own = f"http://127.0.0.1:{urlsplit(seen.url).port}/"
    assert asked
    assert all(name.startswith(own) and "/data?since=" in name for name in asked)
