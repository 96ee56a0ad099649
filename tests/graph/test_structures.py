"""What goes in and comes out, where calls happened, when graphs are equal, and what is said about them."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from agreement import agrees, identical, read_back

import sapwood
import sapwood.nn.functional as F
from sapwood import alias, nn
from sapwood.autograd.run import before_pass
from sapwood.errors import ArgumentError, CaptureError
from sapwood.graph import capture, parse, run
from sapwood.nn import hooks
from sapwood.state import get_mode

Pair = namedtuple("Pair", "left right")


@dataclass
class State:
    hidden: Any
    step: int = 3


def both(pair, state, scale=2):
    return Pair(pair.left + state.hidden, State(pair.right * scale, [state.step, "50%off %x", {"k": pair.left}]))


def arguments():
    return Pair(sapwood.zeros(2), sapwood.ones(3)), State(sapwood.ones(2))


def test_named_tuples_and_dataclasses():
    graph = capture(both, *arguments())
    result = graph(*arguments())
    assert type(result) is Pair
    assert type(result.right) is State
    identical((result.left, result.right.hidden), (sapwood.ones(2), 2 * sapwood.ones(3)))
    assert result.right.step[:2] == [3, "50%off %x"]
    pair, state = arguments()
    identical(graph(pair=pair, state=state).left, result.left)
    identical(graph(pair.left, pair.right, state.hidden).left, result.left)
    again = read_back(graph)(*arguments())
    assert repr(again) == repr(result)
    assert again._fields == ("left", "right")


def test_arguments_that_were_fixed():
    graph = capture(lambda x, n, *rest, way="up", **more: x * n + rest[0] + more["z"], sapwood.ones(2), 3,
                    sapwood.ones(2), z=sapwood.ones(2))  # fmt: skip
    assert [v.name for v in graph.inputs] == ["x", "rest.0", "z"]
    one = sapwood.ones(2)
    assert graph(one, 3, one, z=one).tolist() == [5.0, 5.0]
    assert graph(one, one, one).tolist() == [5.0, 5.0]
    with pytest.raises(ArgumentError, match="argument n was captured as 3"):
        graph(one, 4, one, z=one)
    with pytest.raises(ArgumentError, match="captured without way"):
        graph(one, 3, one, z=one, way="down")
    with pytest.raises(ArgumentError, match=r"takes 4 arguments \(x, n, rest.0, z\) or 3 inputs .*, got 3"):
        graph(one, 3, z=one)
    nested = capture(both, *arguments())
    with pytest.raises(ArgumentError, match="another structure of tensors"):
        nested(Pair(one, 3), State(one))
    with pytest.raises(ArgumentError, match="captured as 3"):
        nested(arguments()[0], State(one, 4))
    with pytest.raises(ArgumentError, match=r"or 3 inputs \(pair.0, pair.1, state\), got 1"):
        nested(one)


def test_what_text_cannot_hold_is_named():
    graph = capture(lambda x, f: (f(x), f, 1j, float("inf"), None, ...), sapwood.ones(2), sapwood.exp)
    assert "opaque('<function exp" in str(graph)
    again = read_back(graph)(sapwood.ones(2))
    assert repr(again[1]).startswith("<function exp")
    assert again[2:] == (1j, float("inf"), None, ...)


def test_results_of_ops_with_several():
    graph = capture(lambda x: (x.max(1), x.sort(0)), sapwood.rand(2, 3))
    assert graph(sapwood.rand(2, 3))[0].values.shape == (2,)
    read_back(graph)


encoder, decoder = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.Linear(3, 2)
factors = {"out": sapwood.ones(2)}


def decode(h):
    return decoder(h) * factors["out"]


def test_functions_that_call_modules():
    graph = agrees(lambda x: decode(encoder(x)), sapwood.ones(1, 4, requires_grad=True))
    assert [v.name for v in graph.parameters] == [
        "encoder.0.weight",
        "encoder.0.bias",
        "decoder.weight",
        "decoder.bias",
    ]
    assert [v.name for v in graph.constants] == ["factors.out"]
    scopes = {c.results[0].name: [str(s) for s in c.scope] for c in graph.calls}
    assert scopes["relu"] == ["encoder Sequential", "encoder.1 ReLU"]
    assert scopes["addmm_2"] == ["decoder Linear"]
    assert scopes["mul"] == []


def test_modules_as_arguments_in_partials_and_as_self():
    class Pipeline:
        def __init__(self):
            self.net, self.scale = encoder, sapwood.ones(3)

        def step(self, x):
            return self.net(x) * self.scale

        __call__ = step

    x = sapwood.ones(1, 4)
    apply = lambda net, x: net(x)
    for program, name in (
        (Pipeline().step, "self.net.0.weight"),
        (Pipeline(), "self.net.0.weight"),
        (encoder.forward, "0.weight"),
        (functools.partial(apply, encoder), "given0.0.weight"),
    ):
        graph = capture(program, x)
        assert graph.parameters[0].name == name
        identical(graph(x)[0, :3], program(x)[0, :3])
    graph = capture(apply, encoder, x)
    assert graph.parameters[0].name == "net.0.weight"
    identical(graph(x), encoder(x))


def test_calls_of_modules_are_counted():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Linear(2, 2)

        def forward(self, x):
            return self.part(F.relu(self.part(x)))

    graph = capture(Twice(), sapwood.ones(1, 2))
    assert [str(c.scope[0]) for c in graph.calls if c.op.name == "addmm"] == ["part Linear", "part Linear 1"]
    assert next(c for c in graph.calls if c.op.name == "relu").scope == ()


def test_equality():
    def made(n=2, op=sapwood.exp, name=None):
        return capture(lambda x, y: op(x * n) + y, sapwood.ones(2), sapwood.ones(2), name=name)

    assert made() == made(name="other")
    assert hash(made()) == hash(made())
    assert made() != made(3)
    assert made() != made(op=sapwood.sin)
    assert made() != "graph"
    assert capture(lambda x, y: x - y, *[sapwood.ones(2)] * 2) != capture(lambda x, y: y - x, *[sapwood.ones(2)] * 2)
    assert capture(lambda x: (x, x + 1), sapwood.ones(2)) != capture(lambda x: [x, x + 1], sapwood.ones(2))
    assert capture(nn.BatchNorm1d(2), sapwood.ones(3, 2)) != capture(nn.BatchNorm1d(2).eval(), sapwood.ones(3, 2))
    with_name = "graph g\ninput x: float32[2]\n{0}: float32[2] = relu(%x)  #\nreturn %{0}"
    assert parse(with_name.format("a")) == parse(with_name.format("b"))


def test_numbers_that_are_read_are_warned_of():
    weight = sapwood.ones(2)

    def program(x):
        total = x.sum().item()
        x.tolist(), x.numpy(), int(x[0]), float(x[1]), sapwood.equal(x, x), 2.0 in x
        if x.max() > 0:
            total += 1
        [1, 2, 3][x.argmax()]
        if sapwood.tensor(3.0) > 2:
            total += float(weight[0]) + sapwood.rand(1).item()
        return x * total + sapwood.repeat_interleave(x, x.long())[:1], f"{x.sum():.1f}"

    graph = capture(program, sapwood.ones(2))
    found = [w.split(" at ")[0] for w in graph.warnings]
    assert found == [
        "item() of sum", "tolist() of x", "numpy() of x", "int() of select", "float() of select_2", "equal() of x",
        "in of x", "bool() of gt", "int() of argmax", "float() of select_3", "item() of rand",
        "repeat_interleave() of to_copy",
    ]  # fmt: skip
    assert all("test_structures.py:" in w for w in graph.warnings)
    assert "`total = x.sum().item()`" in graph.warnings[0]
    assert read_back(graph).warnings == graph.warnings


def test_what_numpy_computes_is_warned_of():
    graph = capture(lambda x: np.exp(x) + np.sinc(x), sapwood.ones(2))
    assert [c.op.name for c in graph.calls] == ["exp", "add"]
    assert graph.warnings[0].startswith("np.sinc of x at ")


def test_a_backward_of_ones_own_is_warned_of():
    class Square(sapwood.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g

    graph = capture(lambda x: Square.apply(x) + 1, sapwood.ones(2, requires_grad=True))
    assert "SquareBackward" in graph.warnings[0]
    assert graph(sapwood.full((2,), 3.0)).tolist() == [10.0, 10.0]


def test_detach_and_no_grad_are_kept():
    def program(x):
        with sapwood.no_grad():
            y = x * 2
        return x.detach() * x + y

    agrees(program, sapwood.ones(3, requires_grad=True))
    graph = capture(program, sapwood.ones(3))
    x = sapwood.full((3,), 2.0, requires_grad=True)
    assert sapwood.autograd.grad(graph(x).sum(), x)[0].tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    "program",
    [
        lambda x: sapwood.func.grad(lambda y: y.sin().sum())(x),
        lambda x: sapwood.func.vmap(lambda row: row.softmax(0))(x),
        lambda x: sapwood.func.jvp(sapwood.tanh, (x,), (x,)),
        lambda x: sapwood.func.hessian(lambda y: (y * y * y).sum())(x[0]),
        lambda x: sapwood.func.vmap(sapwood.func.grad(lambda y: y.cos().sum()))(x),
    ],
)
def test_transforms_of_functions(program):
    graph = capture(program, sapwood.rand(2, 3))
    x = sapwood.rand(2, 3)
    for a, b in zip(graph(x), program(x)):
        assert sapwood.allclose(a, b)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x[(x > 0).nonzero(as_tuple=True)],
        lambda x: x[sapwood.where(x > 0)],
        lambda x: F.one_hot(x.argmax(1), 4),
        lambda x: x[x.argmax(1).int()[:2] % 3],
        lambda x: sapwood.isin(x.argmax(1), sapwood.tensor([0, 1])),
        lambda x: sapwood.take_along_dim(x, x.argsort(1), 1),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=(x[:, :3] > -1)[None]),
        lambda x: F.embedding(sapwood.tensor([0, 1]), x.clone(), max_norm=0.5),
    ],
)
def test_compositions_that_look_at_numbers(program):
    agrees(program, sapwood.ones(3, 4))


def test_the_arguments_are_not_run_twice():
    calls = []

    def program(x):
        calls.append(1)
        return x + 1

    graph = capture(program, sapwood.ones(2))
    run(graph, sapwood.ones(2))
    assert calls == [1]


def test_a_graph_within_a_capture_and_fused_functions():
    inner = capture(lambda x: x.exp() * 2, sapwood.ones(2))
    graph = agrees(lambda x: inner(x[1:]) + x[0], sapwood.ones(3))
    assert [c.op.name for c in graph.calls] == ["slice", "exp", "mul", "select", "add"]
    fused = sapwood.fuse(lambda a, b: (a * b).exp())
    graph = capture(lambda x: fused(x, x) + 1, sapwood.ones(2))
    assert [c.op.name for c in graph.calls] == ["mul", "exp", "add"]


def test_what_a_thread_computes_is_warned_of():
    found = []

    def program(x):
        thread = threading.Thread(target=lambda: found.append(x.exp()))
        thread.start()
        thread.join()
        return found[-1] + 1

    graph = capture(program, sapwood.ones(2, requires_grad=True))
    assert "made by ExpBackward0, was computed out of sight" in graph.warnings[0]


def test_nothing_is_left_behind():
    def fails(x):
        raise KeyError("gone")

    for program in (fails, lambda x: x + 1):
        with contextlib.suppress(CaptureError):
            capture(program, sapwood.ones(1))
        assert not alias.guards
        assert not before_pass
        assert not hooks.any_global()
        assert get_mode() == 1


def test_text_that_was_changed_is_refused_in_order():
    texts = [str(capture(both, *arguments())), str(capture(nn.BatchNorm1d(2), sapwood.ones(3, 2)))]
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        text = list(texts[rng.integers(2)])
        for _ in range(rng.integers(1, 4)):
            i, j = rng.integers(len(text), size=2)
            if rng.integers(2):
                text[i], text[j] = text[j], text[i]
            else:
                text[i] = rng.choice(list("%(),.:[]{}='# \n0a-"))
        try:
            parse("".join(text))
        except CaptureError:
            refused += 1
    assert refused > 300
