"""The benchmarks: every workload of ours runs, and the page is written from whatever was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import sapwood

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def run(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import run

    return run


def test_every_case_is_a_workload(run):
    import kernels
    import training
    import workloads

    known = {w.__name__ for w in (*workloads.WORKLOADS, *kernels.WORKLOADS, *training.WORKLOADS)}
    assert set(run.CASES) <= known
    assert set(run.BARS) <= set(run.CASES)
    import peers

    for peer in peers.PEERS.values():
        assert {n for n in vars(peer) if not n.startswith("_")} <= set(run.CASES)


@pytest.mark.parametrize("name", ["adam_100x10k", "lstm_40", "gpt_4x128", "resnet_32", "cnn_28", "cross_entropy"])
def test_workloads_run(run, name):
    import kernels
    import training

    step = {w.__name__: w for w in (*kernels.WORKLOADS, *training.WORKLOADS)}[name](sapwood)
    step()
    step()


def test_the_page(run, tmp_path):
    found = {
        "machine": "a machine", "rounds": 3, "peers": ["sapwood", "torch", "mlx"],
        "versions": {"sapwood": "1", "torch": "2"},
        "times": {"softmax": {"sapwood": 1e-4, "torch": 2e-4, "mlx": "not installed"},
                  "matmul_1024": {"sapwood": "Error: a | b", "torch": 1e-2, "mlx": "–"}},
        "others": {"import": (90.0, 900.0, "ms"), "memory": ("not measured", 3.0, "MiB")},
    }  # fmt: skip
    page = run.table(found)
    assert "| 100.0 | 200.0 (2.00) | not installed |" in page
    assert "90 ms | 900 ms | 10.00 |" in page
    pytest.importorskip("matplotlib")
    run.chart(found, tmp_path / "b.svg")
    assert "2.00" in (tmp_path / "b.svg").read_text()


def test_a_run(tmp_path):
    command = [
        sys.executable,
        str(FOLDER / "run.py"),
        "plain_multiply",
        "--peers",
        "--rounds",
        "1",
        "--seconds",
        "0.01",
    ]
    subprocess.run([*command, "--out", str(tmp_path / "b.md")], check=True, capture_output=True, timeout=120)
    assert json.loads((tmp_path / "b.json").read_text())["times"]["plain_multiply"]["sapwood"] > 0
    wrong = subprocess.run([command[0], command[1], "speed"], capture_output=True, text=True, timeout=120)
    assert wrong.returncode == 2
    assert "no such case: speed" in wrong.stderr
