"""The demonstration runs as a command: accuracy on real digits, two pictures, times."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from sapwood.__main__ import main


def test_demo(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "grad_fn=MulBackward0" in printed
    assert "is_leaf=True" in printed
    accuracy = float(re.search(r"test accuracy ([\d.]+) %", printed)[1])
    assert accuracy >= 97.0
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    svg = ElementTree.parse(tmp_path / "network.svg").getroot()
    assert svg.tag.endswith("svg")
    assert "training" in printed


def test_ops_lists_declarations(capsys):
    assert main(["ops", "softm"]) == 0
    assert "log_softmax" in capsys.readouterr().out
