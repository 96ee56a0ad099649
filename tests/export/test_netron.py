"""What Netron gets: the object, the files, and whether Netron itself reads them."""

import json
import os
import re

import pytest

import sapwood
from sapwood import nn
from sapwood.errors import ArgumentError
from sapwood.export import netron, onnx
from sapwood.graph import capture


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.out = nn.Linear(64, 3)

    def forward(self, x):
        h = self.norm(self.conv(x)).relu()
        return nn.functional.softmax(self.out(h.flatten(1)), -1)


@pytest.fixture(scope="module")
def net():
    sapwood.manual_seed(0)
    return Net().eval(), sapwood.randn(2, 1, 4, 4)


def names(made):
    return [node["type"]["name"] for node in made["modules"][0]["nodes"]]


def test_says_what_was_called(net):
    graph = capture(net[0], net[1])
    made = netron.model(graph)
    assert made["signature"] == "netron:sapwood"
    assert names(made) == [c.op.name for c in graph.calls]
    (module,) = made["modules"]
    values = module["values"]
    # Every number is a value's, and every value has its type.
    for node in module["nodes"]:
        for side in ("inputs", "outputs"):
            for argument in node[side]:
                assert all(0 <= i < len(values) for i in argument["value"])
    weight = next(v for v in values if v["name"] == "conv.weight")
    assert weight["type"] == {"dataType": "float32", "shape": {"dimensions": [4, 1, 3, 3]}}
    assert "initializer" in weight
    assert [values[i]["name"] for entry in module["inputs"] for i in entry["value"]] == ["x"]
    first = next(n for n in module["nodes"] if n["type"]["name"] == "convolution")
    assert first["type"]["category"] == "Layer"
    told = {a["name"]: a["value"] for a in first["attributes"]}
    assert told["padding"] == [1, 1]
    assert "conv Conv2d" in told["module"]
    assert "test_netron.py" in told["line"]
    assert "self.conv(x)" in told["line"]


def test_is_json_even_with_odd_attributes(tmp_path):
    def program(x):
        return sapwood.nan_to_num(x.masked_fill(x > 0, float("inf")), 1.5).clamp(min=-(2**60)).mean(())

    path = tmp_path / "odd.netron"
    netron.save(program, path, sapwood.ones(3))
    read = json.loads(path.read_text())
    assert read == netron.model(program, sapwood.ones(3))
    assert re.match(r'\{\s*"signature":\s*"netron:', path.read_text()[:64])


def test_bad_input_leaves_nothing(tmp_path, net):
    path = tmp_path / "net.json"
    with pytest.raises(ArgumentError, match=r"\.netron or \.dot"):
        netron.save(net[0], path, net[1])
    with pytest.raises(FileNotFoundError):
        netron.save(net[0], tmp_path / "none" / "net.dot", net[1])
    with pytest.raises(Exception, match="capture"):
        netron.save(net[0], tmp_path / "net.dot", sapwood.ones(2))
    assert list(tmp_path.iterdir()) == []


def test_files_are_as_readable_as_others(tmp_path, net):
    for name in ("net.netron", "net.dot"):
        netron.save(net[0], tmp_path / name, net[1])
    onnx.export(net[0], net[1], tmp_path / "net.onnx")
    (tmp_path / "other").touch()
    assert len({os.stat(p).st_mode for p in tmp_path.iterdir()}) == 1


def test_labels_stay_in_their_fields():
    """Signs that divide DOT's labels come in names and lines."""
    linear = nn.Linear(2, 2)
    text = netron.dot(netron.model(lambda x: {"a|b": linear(x)}["a|b"].clamp(0, 1), sapwood.ones(1, 2)))
    for label in re.findall(r'label="\{(.*)\}"', text):
        assert len(label.split("|")) in (2, 3)
        assert "{" not in label
        assert '"' not in label


@pytest.mark.parametrize("kind", ["onnx", "netron", "dot"])
def test_netron_itself_reads_the_file(kind, tmp_path, net, chromium):
    """Netron's own page shows every op, without an error, and without the network."""
    server = pytest.importorskip("netron", reason="netron is not installed")
    from selenium.webdriver.support.ui import WebDriverWait

    path = tmp_path / f"net.{kind}"
    if kind == "onnx":
        made = onnx.export(net[0], net[1], path)
        expected = [n.op_type for n in made.graph.node]
    else:
        netron.save(net[0], path, net[1])
        expected = names(netron.model(*net))
    address = server.start(str(path), address=("127.0.0.1", 0), browse=False)
    try:
        browser = chromium("host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1")
        browser.get("http://{}:{}/".format(*address))
        buttons = "[...document.querySelectorAll('button')]"
        accept = f"return {buttons}.filter(b => b.offsetParent && /Accept/.test(b.textContent))"
        WebDriverWait(browser, 30).until(lambda b: b.execute_script(accept) or shown(b))
        for button in browser.execute_script(accept):
            button.click()
        found = WebDriverWait(browser, 30).until(shown)
        message = (
            "return document.body.className + [...document.querySelectorAll('#message-text')].map(t => t.textContent)"
        )
        assert browser.execute_script(message) == "default"
    finally:
        server.stop(address)
    for name in set(expected):
        assert found.count(name) >= expected.count(name), (name, found)


def shown(browser):
    """Return the texts of Netron's picture, once it is there."""
    script = "return [...document.querySelectorAll('svg text')].map(t => t.textContent)"
    return (
        browser.execute_script(script) if "default" in browser.execute_script("return document.body.className") else []
    )
