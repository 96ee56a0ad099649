"""Recurrent layers: the native walk through time against the composition of ops."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood
from sapwood import nn, ops
from sapwood.kernels import builtin, threads
from sapwood.ops import warm

kernels = pytest.mark.skipif(not builtin.available(), reason=builtin.why_not() or "")

LENGTHS = {"even": (5,) * 6, "packed": (9, 9, 6, 6, 5, 1), "one": (3,), "single row": (1,) * 5}
# Sizes that fill tiles and panels, and sizes that leave something over on every side.
SIZES = {"whole": (8, 32), "odd": (5, 37), "wide": (70, 66)}


def operands(kind, lengths, features, size, dtype, bias):
    rng = np.random.default_rng(7)
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[kind]
    shapes = [(sum(lengths), features), *[(lengths[0], size)] * (2 if kind == "lstm" else 1)]
    shapes += [(gates * size, features), (gates * size, size)]
    made = [rng.standard_normal(s) / np.sqrt(s[-1]) for s in shapes]
    made += [rng.standard_normal(gates * size) if bias else None for _ in range(2)]
    return [None if a is None else sapwood.tensor(a.astype(dtype)).requires_grad_() for a in made]


def run(kind, lengths, reverse, features, size, dtype, bias=True, extra=()):
    given = operands(kind, lengths, features, size, dtype, bias)
    outs = getattr(ops, f"{kind}_layer")(*given, lengths, reverse, *extra)
    seen = outs[: 3 if kind == "lstm" else 2]
    rng = np.random.default_rng(8)
    weights = [sapwood.tensor(rng.standard_normal(tuple(o.shape)).astype(dtype)) for o in seen]
    sum((o * w).sum() for o, w in zip(seen, weights)).backward()
    return [*(o.detach().numpy() for o in outs), *(x.grad.numpy() for x in given if x is not None)]


@kernels
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn tanh", "rnn relu"])
def test_native_and_composed_agree(kind, sizes, lengths, reverse, monkeypatch):
    kind, *extra = kind.split()
    for dtype, tolerance in ((np.float32, 5e-6), (np.float64, 1e-14)):
        found = []
        for able in (True, False):
            monkeypatch.setattr(warm._State, "able", able)
            monkeypatch.setattr(warm, "LEAST", 0)
            found.append(run(kind, LENGTHS[lengths], reverse, *SIZES[sizes], dtype, lengths != "one", extra))
        for a, b in zip(*found, strict=True):
            assert a.dtype == b.dtype == dtype
            # Some dozen roundings in each of six steps, and sums of up to 36 rows.
            np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1, np.abs(b).max()))


@kernels
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_results_do_not_depend_on_threads(kind):
    before, found = threads.get_num_threads(), []
    try:
        for n in (1, 2, 3):
            threads.set_num_threads(n)
            found.append(run(kind, (33, 33, 20, 20, 3), False, 40, 70, np.float32, extra=("tanh",) * (kind == "rnn")))
    finally:
        threads.set_num_threads(before)
    for others in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], others, strict=True))


@kernels
def test_gradients_that_are_not_wanted_are_left_out():
    given = operands("lstm", (8,) * 5, 8, 32, np.float32, True)
    for i in (0, 1, 2, 4, 6):
        given[i].requires_grad_(False)
    out = ops.lstm_layer(*given, (8,) * 5, False)[0]
    out.sum().backward()
    assert [x.grad is not None for x in given] == [False, False, False, True, False, True, False]


@kernels
def test_a_backward_pass_can_be_repeated():
    given = operands("gru", (8,) * 5, 8, 32, np.float32, True)
    out = ops.gru_layer(*given, (8,) * 5, True)[0]
    first = sapwood.autograd.grad(out.sum(), given, retain_graph=True)
    second = sapwood.autograd.grad(out.sum(), given)
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(first, second))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_graph_of_the_gradient_gives_the_same_gradient(kind):
    sapwood.manual_seed(0)
    net = getattr(nn, kind)(6, 20, 2, bidirectional=True).double()
    x = sapwood.randn(5, 4, 6, dtype=sapwood.float64).requires_grad_()
    leaves = [x, *net.parameters()]
    plain = sapwood.autograd.grad(net(x)[0].sum(), leaves)
    recorded = sapwood.autograd.grad(net(x)[0].sum(), leaves, create_graph=True)
    for a, b in zip(plain, recorded):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-13)
    assert recorded[0].grad_fn is not None


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_packed_sequences_are_each_their_own(kind):
    sapwood.manual_seed(0)
    net = getattr(nn, kind)(6, 70, bidirectional=True)
    x, lengths = sapwood.randn(7, 3, 6), [4, 7, 2]
    packed = nn.utils.rnn.pack_padded_sequence(x, sapwood.tensor(lengths), enforce_sorted=False)
    out, _ = nn.utils.rnn.pad_packed_sequence(net(packed)[0])
    for i, n in enumerate(lengths):
        alone = net(x[:n, i : i + 1])[0][:, 0]
        np.testing.assert_allclose(out[:n, i].detach().numpy(), alone.detach().numpy(), rtol=0, atol=2e-6)


def test_vmap_and_forward_mode_see_through_the_layer():
    sapwood.manual_seed(0)
    net = nn.LSTM(3, 4).double()
    x, t = (sapwood.randn(2, 5, 2, 3, dtype=sapwood.float64) for _ in range(2))
    together = sapwood.func.vmap(lambda x: net(x)[0])(x)
    np.testing.assert_allclose(together[1].detach().numpy(), net(x[1])[0].detach().numpy(), rtol=1e-12)
    _, tangent = sapwood.func.jvp(lambda x: net(x)[0], (x[0],), (t[0],))
    step = 1e-6
    with sapwood.no_grad():
        quotient = (net(x[0] + step * t[0])[0] - net(x[0] - step * t[0])[0]) / (2 * step)
    np.testing.assert_allclose(tangent.detach().numpy(), quotient.numpy(), atol=1e-8)
