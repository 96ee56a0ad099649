"""What the engine's errors and their notes say about lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sapwood as torch
from sapwood import autograd
from sapwood.errors import GradError, OverwrittenError, ShapeError


def told(error, program):
    """Return the message and the notes of the error that a program ends with."""
    with pytest.raises(error) as caught:
        program()
    return str(caught.value), "\n".join(getattr(caught.value, "__notes__", ()))


def overwrites():
    x = torch.ones(3, requires_grad=True)
    h = x * 2
    y = h * h
    h.add_(1)
    h.mul_(2)
    y.sum().backward()


def test_overwritten_value_names_both_lines_and_the_fix():
    text, notes = told(OverwrittenError, overwrites)
    for part in (
        "MulBackward0 saved its argument 'other', float32 (3,)",
        "when it was made at ",
        "`y = h * h`",
        "add_ at ",
        "`h.add_(1)` has written over it",
        "2 writes since, the last by mul_ at ",
        "`h.mul_(2)`",
        "version 2 of its memory",
        "use the out-of-place form of add there",
        "tensor.clone()",
    ):
        assert part in text, part
    assert "recorded by the forward call" in notes and "y = h * h" in notes


def test_overwritten_own_result_and_many_writes():
    def program():
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        with torch.no_grad():
            for _ in range(40):
                y.add_(1)
        y.sum().backward()

    text, _ = told(OverwrittenError, program)
    assert "ExpBackward0 saved its own result" in text
    assert re.search(r"at least \d+ writes since", text) and "version 40" in text


def test_write_before_the_save_does_not_count():
    x = torch.ones(3, requires_grad=True)
    h = x * 1
    h.add_(1)
    y = h * h
    h.mul_(2)
    text, _ = told(OverwrittenError, lambda: y.sum().backward())
    assert "mul_ at" in text and "(1 write since; version 2" in text


def test_custom_function_names_the_lines_too():
    class Square(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    def program():
        h = torch.ones(3, requires_grad=True) * 1
        y = Square.apply(h)
        h.zero_()
        y.sum().backward()

    text, _ = told(OverwrittenError, program)
    assert "SquareBackward saved a tensor" in text
    assert "`y = Square.apply(h)`" in text and "`h.zero_()`" in text

    def twice():
        y = Square.apply(torch.ones(3, requires_grad=True)).sum()
        y.backward()
        y.backward()

    text, notes = told(GradError, twice)
    assert "SquareBackward, made at" in text and "freed by the earlier backward at" in text
    assert "the same loss was differentiated twice" in notes


def shared_part():
    w = torch.ones(3, requires_grad=True)
    base = (w * w).exp()
    for _ in range(2):
        loss = (base * 2).sum()
        loss.backward()


def test_second_backward_names_the_shared_part():
    text, notes = told(GradError, shared_part)
    assert "ExpBackward0, made at " in text and "`base = (w * w).exp()`" in text
    assert "freed by the earlier backward at " in text and "`loss.backward()`" in text
    assert "the part that ends in ExpBackward0 at " in notes
    assert "Move that computation into the loop" in notes
    text, notes = told(GradError, shared_part)
    assert "`loss.backward()`" in text and "the part that ends in ExpBackward0 at " in notes


def test_a_shared_part_that_saves_nothing_is_still_its_top():
    def program():
        w = torch.ones(3, requires_grad=True)
        base = (w * w) + 1
        for _ in range(2):
            (base * 2).sum().backward()

    _, notes = told(GradError, program)
    assert "the part that ends in AddBackward0" in notes


def test_same_loss_twice_through_grad():
    def program():
        w = torch.ones(3, requires_grad=True)
        y = w.exp().sum()
        autograd.grad(y, w)
        autograd.grad(y, w)

    text, notes = told(GradError, program)
    assert "`autograd.grad(y, w)`" in text
    assert "the same loss was differentiated twice" in notes


def test_retained_graph_can_be_run_again():
    w = torch.ones(3, requires_grad=True)
    y = w.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    assert w.grad.tolist() == pytest.approx([2 * 2.718281828] * 3)


def test_error_in_backward_carries_the_forward_line():
    class Wrong(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g[:2]

    def program():
        y = Wrong.apply(torch.ones(3, requires_grad=True))
        y.sum().backward()

    text, notes = told(ShapeError, program)
    assert "WrongBackward" in text
    assert f'File "{__file__}", line ' in notes and "y = Wrong.apply(" in notes
    assert "site-packages" not in notes and str(Path(torch.__file__).parent) not in notes


def test_errors_of_the_users_own_code_keep_their_class():
    def hook(g):
        raise KeyError("mine")

    def program():
        y = torch.ones(3, requires_grad=True) * 2
        y.register_hook(hook)
        y.sum().backward()

    _, notes = told(KeyError, program)
    assert "MulBackward0" in notes


def test_anomaly_shows_user_frames_only_and_hints_at_where():
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with autograd.set_detect_anomaly(True):
        root = x.sqrt()
        y = torch.where(x > 0, root, 0.0).sum()
        text, _ = told(GradError, y.backward)
    assert "SqrtBackward0 returned NaN in its gradient 0" in text
    assert "not selected by a where or a mask" in text and "safe_where" in text
    assert "root = x.sqrt()" in text and "ops/slow.py" not in text
