"""Native calls and the native loop let exceptions through that are not theirs."""

from __future__ import annotations

import pytest

import sapwood as torch
from sapwood.native.sweep import KINDS
from sapwood.node import LEAF
from sapwood.ops import nodes, warm
from sapwood.ops.declare import registry


@pytest.fixture
def native():
    if not warm.start():
        pytest.skip("there is no native code here: see sapwood.native.switch.why_not()")
    # An op's formulas become kernels with its first call.
    _ = torch.ones(2, requires_grad=True) * 2


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError, ZeroDivisionError])
def test_an_exception_inside_a_formula_is_raised_once_and_not_swallowed(native, monkeypatch, kind):
    scope = nodes.puller(registry["mul"]).__globals__
    formula, calls = scope["vjp_input"], []

    def interrupted(g, other):
        calls.append(1)
        if len(calls) == 1:
            raise kind("stop")
        return formula(g, other)

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    monkeypatch.setitem(scope, "vjp_input", interrupted)
    with pytest.raises(kind) as caught:
        (x * x).sum().backward()
    assert calls == [1]
    assert x.grad is None
    if issubclass(kind, Exception):
        assert "(x * x).sum().backward()" in "".join(caught.value.__notes__)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_refused_operands_are_explained(native):
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="mul: sizes do not broadcast"):
        _ = x * torch.ones(3)


def test_types_that_share_a_row_of_the_table(native):
    """The table that knows types has a row per address modulo its size; a leaf's type may push out its node's."""

    def row(kind):
        return (id(kind) >> 4 ^ id(kind) >> 12) % KINDS

    node = nodes.node_class(registry["mul"], "MulBackward0")
    kept = []
    for k in range(20_000):
        kept.append(type(f"Leaf{k}", (torch.Tensor,), {}))
        if row(kept[-1]) == row(node):
            break
    assert row(kept[-1]) == row(node)
    leaf = object.__new__(kept[-1])
    leaf._array, leaf._node = torch.ones(2).numpy(), LEAF
    loss = (leaf * leaf).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="what it saved was freed"):
        loss.backward()
