"""A watched training: what is collected, who may read it, and that nothing is left when it ends."""

from __future__ import annotations

import gc
import http.client
import json
import math
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import weakref
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
import pytest

import sapwood
from sapwood import nn
from sapwood.errors import ArgumentError, ValueRangeError
from sapwood.viz import watch

x = sapwood.arange(12.0).reshape(4, 3) / 12
y = sapwood.tensor([0, 1, 0, 1])


def net():
    sapwood.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    return model, sapwood.optim.SGD(model.parameters(), lr=0.1)


def step(model, optimizer, factor=1.0):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y) * factor
    loss.backward()
    optimizer.step()
    return loss


def fetch(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read(), answer.headers


def news(seen, since=0):
    return json.loads(fetch(f"{seen.url}data?since={since}")[0])


def final(seen):
    """Return what the page would know at the end."""
    seen.close()
    return seen._record.since(0)


def refused(url, **headers):
    with pytest.raises(urllib.error.HTTPError) as found:
        urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20)
    with found.value as answer:
        assert answer.read().count(b"\n") == 1
        return answer.code


def raw(seen, text):
    """Return the status line and headers that answer a request sent as it is."""
    with socket.create_connection(("127.0.0.1", urlsplit(seen.url).port), timeout=20) as connection:
        connection.sendall(text.encode())
        return b"".join(iter(lambda: connection.recv(4096), b"")).decode()


@pytest.fixture
def seen():
    model, optimizer = net()
    with watch(model, optimizer) as opened:
        yield opened


# -- what is collected ------------------------------------------------------------------------------------------


def test_every_step_exactly():
    model, optimizer = net()
    expected = []
    with watch(model, optimizer, total=6, every=1) as seen:
        for _ in range(6):
            before = [p.detach().clone() for p in model.parameters()]
            seen.log(loss=step(model, optimizer))
            after = [p.detach() for p in model.parameters()]
            expected.append(
                [
                    (float(p.grad.norm()), float(w.norm()), float((w - b).norm() / w.norm()))
                    for p, w, b in zip(model.parameters(), after, before)
                ]
            )
        assert seen.progress[:2] == (6, 6)
        told = final(seen)
    assert told["names"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert told["shapes"] == [(5, 3), (5,), (2, 5), (2,)]
    assert told["metrics"]["loss"]["steps"] == [1, 2, 3, 4, 5, 6]
    for i in range(4):
        layer = told["layers"][str(i)]
        for k, kind in enumerate(("gradient", "weight", "ratio")):
            assert layer[kind]["steps"] == [1, 2, 3, 4, 5, 6]
            assert layer[kind]["mean"] == pytest.approx([e[i][k] for e in expected], rel=1e-4)
    assert (told["step"], told["total"], told["alarms"], told["ended"]) == (6, 6, [], "Training ended.")


def test_watching_changes_no_number():
    def trained(watched):
        model, optimizer = net()
        seen = watch(model, optimizer, every=1, histogram_every=1) if watched else None
        for _ in range(5):
            loss = step(model, optimizer)
            if seen:
                seen.log(loss=loss)
        if seen:
            seen.close()
        return [p.detach().numpy().tobytes() for p in model.parameters()], sapwood.rand(3).tolist()

    assert trained(True) == trained(False)


def test_histograms_when_they_are_due():
    model, optimizer = net()
    with watch(model, optimizer, every=2, histogram_every=4) as seen:
        for _ in range(12):
            step(model, optimizer)
        told = final(seen)
    rows = told["histograms"]["0"]
    assert [r["step"] for r in rows["weight"]["rows"]] == [4, 8, 12]
    assert [sum(r["counts"]) for r in rows["gradient"]["rows"]] == [15, 15, 15]
    assert rows["weight"]["rows"][-1]["low"] == pytest.approx(model[0].weight.min().item(), rel=1e-4)
    assert told["layers"]["0"]["weight"]["steps"] == [2, 4, 6, 8, 10, 12]


def test_the_first_look_is_at_the_first_step(seen):
    model, optimizer = net()
    with watch(model, optimizer) as other:
        step(model, optimizer)
        assert final(other)["layers"]["0"]["weight"]["steps"] == [1]
    assert seen.progress.step == 0


@pytest.mark.parametrize("make", ["SGD", "Adam", "AdamW", "RMSprop", "LBFGS", "Adagrad"])
def test_optimizers(make):
    model, _ = net()
    optimizer = getattr(sapwood.optim, make)(model.parameters(), lr=0.01)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    with watch(model, optimizer, every=1) as seen:
        for _ in range(3):
            if make != "LBFGS":
                closure()
            optimizer.step(closure)
        told = final(seen)
    assert told["layers"]["0"]["ratio"]["steps"] == [1, 2, 3]
    assert all(r is not None and r > 0 for r in told["layers"]["0"]["ratio"]["mean"])
    assert all(g is not None and g > 0 for g in told["layers"]["0"]["gradient"]["mean"])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "complex64"])
def test_parameters_of_other_dtypes(dtype):
    p = nn.Parameter(sapwood.ones(3, dtype=getattr(sapwood, dtype)))
    model = nn.Module()
    model.register_parameter("p", p)
    optimizer = sapwood.optim.SGD(model.parameters(), lr=0.5)
    with watch(model, optimizer, every=1, histogram_every=1) as seen:
        p.grad = sapwood.ones(3, dtype=getattr(sapwood, dtype))
        optimizer.step()
        told = final(seen)
    layer = told["layers"]["0"]
    assert layer["gradient"]["mean"] == [pytest.approx(math.sqrt(3), rel=1e-4)]
    assert layer["ratio"]["mean"] == [pytest.approx(1.0, rel=1e-4)]
    assert sum(told["histograms"]["0"]["weight"]["rows"][0]["counts"]) == 3


def test_a_parameter_without_gradient_is_no_alarm():
    model, optimizer = net()
    model[0].requires_grad_(False)
    with watch(model, optimizer, every=1, histogram_every=1) as seen:
        for _ in range(2):
            step(model, optimizer)
        told = final(seen)
    assert told["alarms"] == []
    assert told["layers"]["0"]["gradient"]["mean"] == [None, None]
    assert told["layers"]["0"]["ratio"]["mean"] == [0.0, 0.0]
    assert "gradient" not in told["histograms"]["0"]


def test_without_an_optimizer_those_of_the_model_are_followed():
    model, optimizer = net()
    stranger, other = net()
    second = sapwood.optim.SGD(model[2].parameters(), lr=0.1)
    with watch(model, every=2) as seen:
        for _ in range(8):
            step(model, optimizer)
            second.step()
            step(stranger, other)
        told = final(seen)
    assert told["step"] == 8
    # The first step of each shows that there is an optimizer.
    assert told["layers"]["0"]["weight"]["steps"] == [2, 4, 6, 8]
    assert told["layers"]["2"]["weight"]["steps"] == [2, 2, 4, 4, 6, 6, 8, 8]


def test_looks_become_rare_when_they_cost_much():
    model, optimizer = net()
    with watch(model, optimizer) as seen:
        for _ in range(400):
            step(model, optimizer)
        assert 1 <= seen._collector.looks < 400
        assert seen.progress.step == 400
        assert 0 < seen.cost < 1


# -- alarms -----------------------------------------------------------------------------------------------------


def test_nan_in_a_weight_is_named():
    model, optimizer = net()
    with watch(model, optimizer, every=1) as seen:
        for i in range(5):
            if i == 3:
                with sapwood.no_grad():
                    model[2].weight[1, 2] = math.nan
            seen.log(loss=step(model, optimizer))
        told = final(seen)
    # Written between steps 3 and 4: what was there before step 4, and not finite then.
    weight, loss = sorted(told["alarms"], key=lambda a: a["what"], reverse=True)
    assert (weight["what"], weight["name"], weight["value"], weight["elements"], weight["step"], weight["healthy"]) == (
        "weight", "2.weight", "NaN", 1, 3, 3,
    )  # fmt: skip
    assert loss["text"] == "NaN in loss at step 4."
    assert "NaN in parameter 2.weight at step 3." in seen.alarms


def test_infinity_in_a_gradient_is_named():
    model, optimizer = net()
    model[0].bias.register_hook(lambda g: g * math.inf if seen.progress.step == 2 else g)
    with watch(model, optimizer, every=1) as seen:
        for _ in range(5):
            step(model, optimizer)
        told = final(seen)
    (alarm,) = told["alarms"]
    assert (alarm["what"], alarm["name"], alarm["value"], alarm["step"]) == ("gradient", "0.bias", "infinity", 3)


def test_a_step_that_overflows_is_named():
    model, optimizer = net()
    with watch(model, optimizer, every=1) as seen:
        for i in range(3):
            if i == 2:
                optimizer.param_groups[0]["lr"] = 1e39
            step(model, optimizer, 1e3)
        told = final(seen)
    (alarm,) = told["alarms"]
    assert (alarm["what"], alarm["step"], alarm["healthy"]) == ("weight", 3, 2)


def test_an_alarm_between_looks_says_when_all_was_well():
    model, optimizer = net()
    with watch(model, optimizer, every=4) as seen:
        for i in range(12):
            if i == 9:
                with sapwood.no_grad():
                    model[0].weight[0, 0] = math.nan
            step(model, optimizer)
        seen.close()
    (text,) = seen.alarms
    assert "at step 11" in text
    assert text.endswith("at step 8 all was finite.")


# -- log --------------------------------------------------------------------------------------------------------


def test_log_takes_numbers_and_tensors_of_one_element(seen):
    seen.log(a=1, b=sapwood.tensor([[2.0]], requires_grad=True), c=np.float32(3), d=True, e=np.array([5]))
    seen.log(a=sapwood.tensor(2, dtype=sapwood.bfloat16), step=40)
    told = final(seen)["metrics"]
    assert [told[n]["mean"] for n in "abcde"] == [[1.0, 2.0], [2.0], [3.0], [1.0], [5.0]]
    assert told["a"]["steps"] == [0, 40]


@pytest.mark.parametrize("value", ["1.0", None, sapwood.ones(2), np.ones(2), 1j, sapwood.tensor(1j), [1.0]])
def test_log_refuses_what_is_no_number(seen, value):
    with pytest.raises(ArgumentError, match=r"log: loss is a .*, expected a number or a tensor of one element"):
        seen.log(loss=value)


def test_log_keeps_no_graph(seen):
    w = sapwood.ones(3, requires_grad=True)
    loss = (w * 2).sum()
    node = weakref.ref(loss.grad_fn)
    seen.log(loss=loss)
    del loss
    assert node() is None


# -- bad input --------------------------------------------------------------------------------------------------


def test_bad_input():
    model, optimizer = net()
    stranger, other = net()
    with pytest.raises(ArgumentError, match="watch: expected a module, got list"):
        watch([])
    with pytest.raises(ArgumentError, match="watch: expected an optimizer, got Sequential"):
        watch(model, model)
    with pytest.raises(ArgumentError, match="watch: this SGD changes no parameter of this Sequential"):
        watch(model, other)
    with pytest.raises(ArgumentError, match="watch: ReLU has no parameters"):
        watch(nn.ReLU())
    with pytest.raises(ValueRangeError, match="watch: every is a number of steps, at least 1, got 0"):
        watch(model, optimizer, every=0)
    with pytest.raises(ArgumentError, match="watch: total is a number of steps, got float"):
        watch(model, optimizer, total=1.5)
    with pytest.raises(ValueRangeError, match="watch: port 70000 cannot be had"):
        watch(model, optimizer, port=70000)
    assert stranger is not None
    assert own_threads() == []
    assert not optimizer._post


def test_a_port_that_is_taken(seen):
    model, optimizer = net()
    with pytest.raises(ValueRangeError, match="cannot be had"):
        watch(model, optimizer, port=urlsplit(seen.url).port)
    assert not optimizer._post


# -- the server -------------------------------------------------------------------------------------------------


def test_page_and_its_policy(seen):
    body, headers = fetch(seen.url)
    assert body.startswith(b"<!doctype html>")
    assert b"%STYLE%" not in body and b"%SCRIPT%" not in body
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert headers["Access-Control-Allow-Origin"] is None
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert b"http://" not in body and b"https://" not in body


def test_only_the_token_opens(seen):
    root = f"http://127.0.0.1:{urlsplit(seen.url).port}"
    token = urlsplit(seen.url).path.strip("/")
    assert len(token) >= 32
    for path in (
        "/",
        "",
        "/favicon.ico",
        f"/{token[:-1]}/",
        f"/{token}x/data",
        "/%00/",
        "//",
        "/%C3%A9",
        f"/x/{token}/",
    ):
        assert refused(root + path) == 403
    assert refused(seen.url + "nothing") == 404
    assert refused(f"{root}/{token}") == 404
    assert refused(seen.url + "../data") == 404
    for since in ("x", "-1", "1e3", "²", "9" * 30):
        assert refused(f"{seen.url}data?since={quote(since)}") == 400


def test_only_this_machine_s_names_are_hosts(seen):
    port = urlsplit(seen.url).port
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1",
        f"127.0.0.1:{port + 1}",
        f"127.0.0.1.evil.example:{port}",
    ):
        assert refused(seen.url, Host=host) == 403
    assert fetch(seen.url.replace("127.0.0.1", "localhost"))[0].startswith(b"<!doctype")
    path = urlsplit(seen.url).path
    assert raw(seen, f"GET {path} HTTP/1.0\r\n\r\n").split()[1] == "403"
    two = f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\n\r\n"
    assert raw(seen, two).split()[1] == "403"


def test_it_listens_on_the_loopback_interface_alone(seen):
    server = next(s for s in alive() if s.url == seen.url)
    assert server.socket.getsockname()[0] == "127.0.0.1"


def test_other_methods_and_broken_requests(seen):
    host = f"Host: 127.0.0.1:{urlsplit(seen.url).port}\r\n"
    path = urlsplit(seen.url).path
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
        answer = raw(seen, f"{method} {path} HTTP/1.1\r\n{host}\r\n")
        assert answer.split()[1] == "501"
        assert "Access-Control" not in answer
    assert "400" in raw(seen, "nonsense of several words\r\n\r\n")
    assert fetch(seen.url)[0]


def test_news_wait_until_there_are_some():
    model, optimizer = net()
    with watch(model, optimizer, every=1) as seen:
        step(model, optimizer)
        first = news(seen, 1)
        found = []
        asking = threading.Thread(target=lambda: found.append(news(seen, first["version"])))
        asking.start()
        step(model, optimizer)
        asking.join(20)
    assert found[0]["version"] > first["version"]
    assert found[0]["layers"]["0"]["weight"]["steps"] == [2.0]
    assert "names" not in found[0]


def test_a_page_that_waits_hears_of_the_end():
    model, optimizer = net()
    seen = watch(model, optimizer)
    version = news(seen)["version"]
    found = []
    asking = threading.Thread(target=lambda: found.append(news(seen, version)))
    asking.start()
    server = next(s for s in alive() if s.url == seen.url)
    while not server.asked or not server._open:
        pass
    seen.close()
    asking.join(20)
    assert found[0]["ended"] == "Training ended."


def test_many_connections_are_bounded_and_silent_ones_do_not_hold_up_the_end():
    model, optimizer = net()
    seen = watch(model, optimizer)
    port = urlsplit(seen.url).port
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
    try:
        # Those that are too many are closed, which is all they hear.
        silent[-1].settimeout(20)
        assert silent[-1].recv(1) == b""
    finally:
        seen.close()
        for connection in silent:
            connection.close()
    assert own_threads() == []


# -- the end ----------------------------------------------------------------------------------------------------


def own_threads():
    return [t.name for t in threading.enumerate() if t.name.startswith("sapwood-watch")]


def alive():
    return list(sys.modules["sapwood.viz.live.watching"]._alive)


def test_close_leaves_nothing():
    model, optimizer = net()
    seen = watch(model, optimizer)
    port = urlsplit(seen.url).port
    step(model, optimizer)
    fetch(seen.url)
    assert own_threads()
    seen.close()
    seen.close()
    assert seen.closed
    assert own_threads() == []
    assert not optimizer._pre and not optimizer._post
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=20)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))
    assert repr(seen) == "Watch(ended, step 1)"
    step(model, optimizer)
    seen.log(loss=1.0)
    assert seen.progress.step == 1


def test_close_from_within_a_step():
    model, optimizer = net()
    with watch(model, optimizer, every=1) as seen:
        optimizer.register_step_pre_hook(lambda *_: seen.close())
        step(model, optimizer)
        step(model, optimizer)
    assert not seen._record.alarms


def test_two_at_once():
    (model, optimizer), (other, second) = net(), net()
    with watch(model, optimizer, every=1) as a, watch(other, second, every=1) as b:
        for _ in range(3):
            step(model, optimizer)
        step(other, second)
        assert a.url != b.url
        token = urlsplit(a.url).path
        assert refused(f"http://127.0.0.1:{urlsplit(b.url).port}{token}") == 403
        assert (final(a)["step"], final(b)["step"]) == (3, 1)


def test_two_of_one_training():
    model, optimizer = net()
    with watch(model, optimizer, every=1) as a:
        with watch(model, optimizer, every=1) as b:
            step(model, optimizer)
        step(model, optimizer)
        assert (final(a)["step"], final(b)["step"]) == (2, 1)


def test_an_exception_is_told():
    model, optimizer = net()
    seen = watch(model, optimizer)

    def train():
        with seen:
            step(model, optimizer)
            raise ZeroDivisionError("no batches")

    with pytest.raises(ZeroDivisionError):
        train()
    assert seen._record.ended == "Training was stopped by ZeroDivisionError: no batches"
    assert own_threads() == []


def test_it_ends_with_the_optimizer():
    model, optimizer = net()
    seen = watch(model, optimizer)
    step(model, optimizer)
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert gone() is None
    assert seen.closed
    assert own_threads() == []


def test_it_lives_without_a_name():
    model, optimizer = net()
    url = watch(model, optimizer).url
    gc.collect()
    assert fetch(url)[0]
    del model, optimizer
    gc.collect()
    assert own_threads() == []


PROGRAM = """
import sapwood, sys
from sapwood import nn
from sapwood.viz import watch
model = nn.Linear(2, 1)
optimizer = sapwood.optim.SGD(model.parameters(), lr=0.1)
seen = watch(model, optimizer)
print(seen.url, flush=True)
for _ in range(3):
    model(sapwood.ones(1, 2)).sum().backward()
    optimizer.step()
"""


def last_words(program):
    """Run a program, ask its watch for news until it has ended, and return the end, exit code and error output."""
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    url, version, ended = child.stdout.readline().strip(), 0, None
    first = json.loads(fetch(f"{url}data?since=0")[0])
    version = first["version"]
    child.stdin.write("go\n")
    child.stdin.close()
    while ended is None:
        answer = json.loads(fetch(f"{url}data?since={version}")[0])
        version, ended = answer["version"], answer["ended"]
    error = child.stderr.read()
    child.stdout.close()
    child.stderr.close()
    return ended, child.wait(60), error


def test_the_end_of_the_program_is_told():
    ended, code, error = last_words(PROGRAM + "sys.stdin.readline()\n")
    assert (ended, code, error) == ("Training ended.", 0, "")


def test_the_exception_that_ends_the_program_is_told():
    ended, code, error = last_words(PROGRAM + "sys.stdin.readline()\nraise ValueError('bad batch')\n")
    assert (ended, code) == ("Training was stopped by ValueError: bad batch", 1)
    assert error.rstrip().endswith("ValueError: bad batch")
    assert error.count("Traceback") == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_neither_serves_nor_hangs():
    program = PROGRAM + (
        "import os, socket\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    model(sapwood.ones(1, 2)).sum().backward(); optimizer.step(); optimizer.step()\n"
        "    seen.close()\n"
        "    sys.exit(7 if seen.progress.step == 5 else 8)\n"
        "code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "assert not seen.closed\n"
        "seen.close()\n"
        "port = int(seen.url.split(':')[2].split('/')[0])\n"
        "try: socket.create_connection(('127.0.0.1', port)); print('open')\n"
        "except ConnectionRefusedError: print('free', code, seen.progress.step)\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.split()[1:] == ["free", "7", "3"]


def test_importing_it_loads_no_server():
    code = "import sys, sapwood.viz.live; print([m for m in ('http.server', 'socketserver') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_open_shows_the_page(monkeypatch):
    import webbrowser

    shown = []
    monkeypatch.setattr(webbrowser, "open", shown.append)
    model, optimizer = net()
    with watch(model, optimizer, open=True) as seen:
        assert shown == [seen.url]
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(seen.url).port, timeout=20)
        connection.request("GET", urlsplit(seen.url).path)
        assert connection.getresponse().status == 200
        connection.close()


def test_the_program_of_the_docs():
    page = (Path(__file__).parents[3] / "docs" / "watch.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    names = {}
    exec(compile(program, "watch.md", "exec"), names)
    assert names["seen"].closed
    assert names["seen"].progress.step == 100
