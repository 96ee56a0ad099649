"""The explorer in a real browser: it opens from disk, every control works, and nothing is asked of the network."""

from __future__ import annotations

import json

import pytest

import sapwood
import sapwood.nn.functional as F
from sapwood import nn, viz
from sapwood.errors import GradError, ValueRangeError


def seed_graph():
    w, x = sapwood.tensor([1.0], requires_grad=True), sapwood.tensor([2.0], requires_grad=True)
    a, b = w + x, w + 1
    y = a * b
    return y, {"names": {"w": w, "x": x, "a": a, "b": b, "y": y}}


def sine():
    a, b, x = (sapwood.tensor(v, requires_grad=True) for v in (1.0, 2.0, 3.0))
    return sapwood.sin(a * x + b) * x, {"names": {"a": a, "b": b, "x": x}}


def mlp():
    sapwood.manual_seed(0)
    model = nn.Sequential(nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 3))
    x, y = sapwood.randn(5, 8), sapwood.arange(5) % 3
    return (lambda: F.cross_entropy(model(x), y)), {"module": model}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.norm2 = nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x):
        return (self.norm2(self.second(self.norm(self.first(x)).relu())) + x).relu()


def resnet():
    model, x = Block(), sapwood.randn(2, 4, 6, 6)
    return (lambda: model(x).mean()), {"module": model}


def gpt():
    model, x = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0), sapwood.randn(2, 5, 8)
    return (lambda: model(x).mean()), {"module": model, "direction": "LR"}


def rnn():
    h, w = sapwood.zeros(4, requires_grad=True), sapwood.randn(4, 4, requires_grad=True)
    state = h
    for _ in range(830):
        state = sapwood.tanh(state @ w + h) * 0.5
    return state.sum(), {"names": {"h": h, "w": w}}


PROGRAMS = {f.__name__: f for f in (seed_graph, sine, mlp, resnet, gpt, rnn)}


@pytest.fixture
def opened(browser, tmp_path):
    def open_(name, **more):
        loss, options = PROGRAMS[name]()
        browser.open(viz.save(loss, tmp_path / "graph.html", **options, **more))
        return browser

    return open_


@pytest.mark.parametrize("name", PROGRAMS)
def test_opens_from_disk(opened, name):
    page = opened(name)
    page.picture(name)
    count = page.run("return [DATA.items.length, document.querySelectorAll('.item').length, scene.items.length]")
    assert count[0] == count[2] > 3
    assert count[1] > 0
    if name != "rnn":
        assert count[1] == count[0]
        inside = page.run(
            "const s = stage.getBoundingClientRect(); return [...document.querySelectorAll('.item')].every(e => {"
            "const r = e.getBoundingClientRect(); return r.left >= s.left - 1 && r.right <= s.right + 1 && "
            "r.top >= s.top - 1 && r.bottom <= s.bottom + 1; })"
        )
        assert inside
    assert page.complaints() == ([], [])


def test_details(opened):
    page = opened("seed_graph")
    page.click("[data-id='0'] .box")
    assert page.find("#panel h3").text == "w"
    assert "[5]" in page.find("#panel").text
    mul = page.run("return DATA.items.findIndex(i => i.title === 'Mul')")
    page.run(f"choose({mul}, true)")
    text = page.find("#panel").text
    assert "MulBackward0" in text
    assert "lambda g, other: g * other" in text
    assert "y = a * b" in page.find("#panel pre b").text
    page.picture("details")


def test_views_and_zoom(opened):
    page = opened("seed_graph")
    whole = len(page.all(".item"))
    for view, items, back in (
        ("backward", whole, True),
        ("both", 2 * whole, True),
        ("over", whole, True),
        ("forward", whole, False),
    ):
        page.click(f"[data-view='{view}']")
        assert len(page.all(".item")) == items
        assert bool(page.all(".link.back")) is back
        assert page.find(f"[data-view='{view}']").get_attribute("aria-pressed") == "true"
    before = page.run("return scale")
    page.click("#in")
    assert page.run("return scale") > before
    page.click("#out")
    page.keys("+")
    page.keys("f")
    assert page.run("return scale") == pytest.approx(before)
    page.run(
        "const r = stage.getBoundingClientRect(), e = (t, x, y) => stage.dispatchEvent(new PointerEvent(t, "
        "{clientX: x, clientY: y, buttons: 1, bubbles: true})); e('pointerdown', 300, 300); e('pointermove', 340, 330);"
        "e('pointermove', 360, 350); e('pointerup', 360, 350);"
    )
    moved = page.run("return [dx, dy]")
    page.click("#fit")
    assert page.run("return [dx, dy]") != moved
    assert page.complaints() == ([], [])


def test_search(opened):
    page = opened("mlp")
    page.keys("/")
    page.keys("0.0.w(eight[", "#search")
    assert page.find("#hits").text == "0 found"
    page.keys("\ue003" * 20, "#search")
    page.keys("weight", "#search")
    assert page.find("#hits").text == "2 found"
    assert len(page.all(".hit")) == 2
    page.keys("\ue007", "#search")
    assert "weight" in page.find("#panel h3").text
    page.keys("\ue00c", "#search")
    assert not page.all(".hit")


def test_folding(opened):
    page = opened("mlp")
    whole = page.run("return scene.items.length")
    page.click("#fold")
    page.picture("folded")
    assert {e.get_attribute("aria-label").split(",")[0] for e in page.all(".item.module")} == {"0", "1"}
    assert page.run("return scene.items.length") < whole
    page.run("choose('m:0')")
    page.keys("m")
    assert len(page.all(".item.module")) == 1
    page.click("#unfold")
    assert page.run("return scene.items.length") == whole
    assert not page.all(".item.module")
    assert page.complaints() == ([], [])


def test_stepping(opened):
    page = opened("seed_graph")
    forward, backward = page.run("return [FORWARD.length, BACKWARD.length]")
    assert (forward, backward) == (3, 5)
    page.click("#next")
    assert "forward 1 of 3" in page.find("#where").text
    assert len(page.all(".item.pale")) > 0
    for _ in range(forward):
        page.keys(".")
    assert page.find("#where").text == "backward 1 of 5: MulBackward0"
    assert any("∂ 1" in e.text for e in page.all(".item.now text"))
    page.picture("backward_step")
    page.keys(",")
    assert "forward 3 of 3" in page.find("#where").text
    page.run("go(LAST)")
    assert "gradient of" in page.find("#where").text
    page.click("#play")
    assert page.find("#play").get_attribute("aria-label") == "Stop"
    page.click("#play")
    page.run("$('slider').value = 2; $('slider').oninput({target: $('slider')})")
    assert "forward 2 of 3" in page.find("#where").text
    page.keys("\ue00c")
    assert page.find("#where").text == "whole graph"


def test_moving_by_keys(opened):
    page = opened("seed_graph")
    page.keys("\ue013")
    titles = []
    for key in ("\ue013", "\ue013", "\ue012", "\ue014", "\ue015"):
        page.keys(key)
        titles.append(page.find("#panel h3").text)
    assert titles[0] == "Mul"
    assert titles[1] in ("a", "b")
    page.keys("?")
    assert page.find("#keys").get_attribute("open") is not None
    page.click("#keys button")


def test_gradient_flow(browser, tmp_path):
    small, large = (sapwood.ones(9, requires_grad=True) for _ in range(2))
    middle = [sapwood.ones(9, requires_grad=True) for _ in range(3)]
    broken = sapwood.zeros(9, requires_grad=True)
    loss = (small * 1e-9).sum() + (large * 1e9).sum() + sum(m.sum() for m in middle) + broken.sqrt().sum() * 0
    names = {"small": small, "large": large, "broken": broken}
    browser.open(viz.save(loss, tmp_path / "g.html", names=names))
    browser.click("#flow")
    rows = {e.text.split("\n")[0]: e.text.split("\n")[-1] for e in browser.all("#flowpanel .row")}
    assert (rows["small"], rows["large"], rows["broken"]) == ("vanishing", "exploding", "NaN")
    browser.picture("flow")
    browser.click("#flowpanel .row")
    browser.click("#flow")
    assert not browser.find("#flowpanel").is_displayed()


def test_export_and_theme(opened):
    page = opened("mlp")
    text = page.run("return standalone()")
    assert text.startswith("<svg")
    assert "var(--" not in text
    assert text.count('class="box"') == page.run("return scene.items.length")
    page.click("#svg")
    assert page.run("return window.lastDownload") == "graph.svg"
    page.click("#png")
    page.driver.implicitly_wait(1)
    page.run("return new Promise(r => setTimeout(r, 800))")
    assert page.run("return window.lastDownload") == "graph.png"
    first = page.run("return document.documentElement.dataset.theme")
    page.click("#theme")
    assert page.run("return document.documentElement.dataset.theme") != first
    page.picture("theme")
    assert page.complaints() == ([], [])


def test_large_graphs_stay_responsive(opened, capsys):
    page = opened("rnn")
    frame = page.driver.execute_async_script(
        "const done = arguments[0]; let n = 0; const t = performance.now();"
        "const tick = () => { dx += 3; paint();"
        "if (++n < 20) requestAnimationFrame(tick); else done((performance.now() - t) / n); };"
        "requestAnimationFrame(tick);"
    )
    with capsys.disabled():
        print(f"\n{page.run('return DATA.items.length')} items, a frame of panning takes {frame:.1f} ms")
    assert page.complaints() == ([], [])


def test_text_is_only_text(browser, tmp_path):
    x = sapwood.ones(2, requires_grad=True)
    names = {"</script><script>window.broken = 1</script>": x}
    browser.open(viz.save((x * 2).sum(), tmp_path / "g.html", names=names))
    assert browser.run("return window.broken") is None
    assert browser.run("return DATA.items.some(i => i.title.includes('</script>'))")


def test_the_graph_is_left_as_it_was():
    x = sapwood.ones(3, requires_grad=True)
    called = []
    y = (x * 2).exp()
    y.register_hook(lambda g: called.append(1))
    state = sapwood.get_rng_state()
    data = viz.snapshot(y.sum())
    json.dumps(data, allow_nan=False)
    assert x.grad is None
    assert not called
    assert sapwood.equal(state, sapwood.get_rng_state())
    y.sum().backward()
    assert called


def test_bad_input(tmp_path):
    with pytest.raises(GradError, match="no graph"):
        viz.show(sapwood.ones(2), open=False)
    with pytest.raises(ValueRangeError, match=r"\.html"):
        viz.save(seed_graph()[0], tmp_path / "graph.png")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueRangeError, match="more than the 2 that are shown"):
        viz.snapshot(seed_graph()[0], limit=2)
    y, _ = seed_graph()
    y.backward()
    data = viz.snapshot(y)
    assert any(i.get("freed") for i in data["items"])
    assert "stopped" in data["notes"][0]


def test_notebook():
    page = viz.show(seed_graph()[0], open=False)
    assert page.path.read_text() == page.text
    assert page._repr_html_().startswith('<iframe srcdoc="&lt;!doctype')
