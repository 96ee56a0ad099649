"""When native code starts, as programs ask for it by SAPWOOD_JIT."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sapwood
from sapwood.ops import warm
before = warm._State.done
x = sapwood.ones(3, requires_grad=True)
(x * x).sum().backward()
print(before, warm._State.done, x.grad.tolist())
"""


@pytest.mark.parametrize(("value", "started"), [("0", False), ("1", True), ("", False)])
def test_starts_when_asked(value, started):
    """With 1 at the first op, without the variable after enough of them, with 0 never; results are the same."""
    if os.environ.get("SAPWOOD_JIT") == "0" and value != "0":
        pytest.skip("the suite runs without native code")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | {"SAPWOOD_JIT": value}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"False {started} [2.0, 2.0, 2.0]"
