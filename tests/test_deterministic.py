"""The switches for determinism keep what was asked for."""

from __future__ import annotations

import pytest

import sapwood as torch


@pytest.fixture(autouse=True)
def reset():
    yield
    torch.use_deterministic_algorithms(False)


def test_switches():
    assert not torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert torch.get_deterministic_debug_mode() == 2
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    for given, number in (("default", 0), ("warn", 1), ("error", 2), (0, 0), (1, 1), (2, 2)):
        torch.set_deterministic_debug_mode(given)
        assert torch.get_deterministic_debug_mode() == number


def test_refuses():
    with pytest.raises(TypeError, match="mode and warn_only must be True or False"):
        torch.use_deterministic_algorithms(1)
    with pytest.raises(TypeError, match=r"a name or a number is expected, got 1\.5"):
        torch.set_deterministic_debug_mode(1.5)
    for wrong in "loud", 3:
        with pytest.raises(RuntimeError, match="one of default, warn, error or 0 to 2 is expected"):
            torch.set_deterministic_debug_mode(wrong)
