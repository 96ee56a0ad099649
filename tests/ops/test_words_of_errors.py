"""Errors speak of the op that was called, in the package's own words."""

from __future__ import annotations

import pytest

import sapwood as torch
from sapwood import nn

BOOL = torch.tensor([True])

CASES = {
    "sub, two bools": (lambda: BOOL - BOOL, RuntimeError, "sub: input is bool"),
    "sub, a bool tensor": (lambda: torch.ones(1) - BOOL, RuntimeError, "sub: other is bool"),
    "sub, a bool number": (lambda: torch.ones(1) - True, RuntimeError, "sub: other is bool"),
    "rsub": (lambda: 1 - BOOL, RuntimeError, "rsub: input is bool"),
    "sub_": (lambda: torch.ones(1).sub_(BOOL), RuntimeError, "sub: other is bool"),
    "neg": (lambda: -BOOL, RuntimeError, "neg: input is bool"),
    "neg_": (lambda: torch.tensor([True]).neg_(), RuntimeError, "neg: input is bool"),
    "reshape": (lambda: torch.ones(3).reshape(2, 2), RuntimeError, r"reshape: \(2, 2\) holds 4 elements"),
    "view": (lambda: torch.ones(3).view(2, 2), RuntimeError, r"view: \(2, 2\) holds 4 elements"),
    "linear": (
        lambda: nn.Linear(3, 2)(torch.ones(2, 3, dtype=torch.float64)),
        RuntimeError,
        "linear: input torch.float64, weight torch.float32",
    ),
    "item": (lambda: torch.ones(3).item(), RuntimeError, "item: a tensor of one element"),
    "bool": (lambda: bool(torch.ones(3)), RuntimeError, "bool: the truth of a tensor of 3 elements"),
    "alpha": (lambda: torch.add(torch.ones(1), 1, alpha="x"), TypeError, "add: alpha must be a number, got str"),
}


@pytest.mark.parametrize(("program", "error", "text"), CASES.values(), ids=CASES)
def test_refuses(program, error, text):
    with pytest.raises(error, match=text):
        program()
