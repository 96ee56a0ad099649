"""Grad modes as contexts, statements and decorators of functions, generators and classes."""

from __future__ import annotations

import pytest

import sapwood as torch
from sapwood import autograd


def on():
    return torch.is_grad_enabled()


DECORATORS = {
    "no_grad": (torch.no_grad(), False),
    "enable_grad": (torch.enable_grad(), True),
    "set_grad_enabled": (torch.set_grad_enabled, False),
    "inference_mode": (torch.inference_mode(), False),
}


@pytest.mark.parametrize("name", DECORATORS)
def test_decorated_functions(name):
    mode, expected = DECORATORS[name]
    with torch.set_grad_enabled(not expected):
        decorated = (mode(expected) if name == "set_grad_enabled" else mode)(on)
        assert on() is not expected
        assert decorated() is expected
        assert decorated() is expected
        assert on() is not expected


def test_inference_mode_says_so():
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled()
        with torch.inference_mode(False):
            assert not torch.is_inference_mode_enabled()
            assert on()
        with torch.enable_grad():
            assert not on()
        with torch.no_grad():
            assert torch.is_inference_mode_enabled()
    assert not torch.is_inference_mode_enabled()


def test_modes_inside_each_other():
    with torch.no_grad():
        with torch.enable_grad():
            assert on()
            with torch.no_grad():
                assert not on()
            assert on()
        assert not on()
        with torch.set_grad_enabled(True):
            assert on()
        assert not on()
    assert on()


def test_a_context_can_be_entered_again_and_within_itself():
    off = torch.no_grad()
    for _ in range(2):
        with off:
            with off:
                assert not on()
            assert not on()
        assert on()


def test_errors_leave_the_mode():
    with pytest.raises(ZeroDivisionError), torch.no_grad():
        raise ZeroDivisionError
    assert on()


def test_decorated_classes_run_their_constructor_so():
    @torch.no_grad()
    class Thing:
        def __init__(self):
            self.made = on()

        def later(self):
            return on()

    assert (Thing().made, Thing().later()) == (False, True)


def test_decorated_generators_receive_values_and_errors():
    seen = []

    @torch.no_grad()
    def generator():
        try:
            seen.append((yield on()))
        except KeyError:
            seen.append("caught")
            yield on()
        return "end"

    g = generator()
    assert next(g) is False
    assert on()
    assert g.throw(KeyError()) is False
    with pytest.raises(StopIteration) as stop:
        next(g)
    assert stop.value.value == "end"

    g = generator()
    next(g)
    with pytest.raises(StopIteration):
        g.send(5)
    g = generator()
    next(g)
    g.close()
    assert seen == ["caught", 5]
    assert on()


def test_multithreading_is_accepted():
    with autograd.set_multithreading_enabled(True) as nothing:
        assert nothing is None
    assert not autograd.is_multithreading_enabled()
