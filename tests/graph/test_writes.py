"""Writes in captured graphs: in place, through views and aliases, by out=, to buffers and parameters."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agrees, identical

import sapwood
import sapwood.nn.functional as F
from sapwood import nn
from sapwood.errors import CaptureError
from sapwood.graph import capture, run


def data(x):
    y = x * 1
    y.data.mul_(3)
    return y


def data_exchanged(x):
    y = x * 1
    z = y + 1
    y.data = z * 3
    return y + z


def detached(x):
    y = x * 1
    d = y.detach()
    y.add_(1)
    d[0].mul_(2)
    return y, d


def without_grad(x):
    y = x * 1
    with sapwood.no_grad():
        y.clamp_(-0.5, 0.5)
        z = y * 2
    return y, z


def masked_view(x):
    y = x * 1
    y[1:, ::2][y[1:, ::2] > 0] = 5.0
    y[y < -1] = 0
    y[sapwood.tensor([0, 2]), 1] = x[0, :2]
    y[[0, 2]] = y[[2, 0]]
    return y


def turned(x):
    y = x * 1
    y.t_()
    y.add_(1)
    y.unsqueeze_(0)
    y[0, 1].zero_()
    return y


def through_transposed(x):
    y = x * 1
    v = y.t()
    v[0].zero_()
    w = v[1:]
    w.mul_(2)
    return y, v, w


def diagonals(x):
    y = x * 1
    y.diagonal().fill_(3.0)
    y.fill_diagonal_(2.0)
    return y


def scattered(x):
    y = x * 1
    y[:, 1:].scatter_(1, sapwood.tensor([[0], [1], [2]]), 9.0)
    y.scatter_add_(0, sapwood.tensor([[0, 1, 2, 0]]), sapwood.ones(1, 4))
    y.index_add_(0, sapwood.tensor([0, 2]), x[:2])
    y.index_fill_(1, sapwood.tensor([0, 2]), 3.0)
    y.index_copy_(0, sapwood.tensor([0, 2]), x[1:])
    y.masked_fill_(y > 2, 1.5)
    y.masked_scatter_(y > 1, x)
    y.index_put_((sapwood.tensor([0, 0]),), x[1], accumulate=True)
    return y


def compared(x):
    y = x.detach() * 1
    y.gt_(0)
    return y


def broadcast(x):
    y = sapwood.zeros(2, 3, 4)
    y.copy_(x)
    y[1] = x[0]
    y[:, 0] = 1
    return y


def results(x):
    x = x.detach()
    wide, empty, part = sapwood.zeros(3, 4, dtype=sapwood.float64), sapwood.empty(0), sapwood.zeros(2, 3, 4)
    best, where = sapwood.empty(3), sapwood.empty(3, dtype=sapwood.int64)
    sapwood.mul(x, 2, out=wide)
    sapwood.mul(x, 2, out=empty)
    sapwood.exp(x, out=part[1])
    sapwood.max(x, 1, out=(best, where))
    return wide, empty, part, best, where


def parts_of_complex(x):
    c = sapwood.complex(x, x) * 1
    sapwood.view_as_real(c)[:, 0].zero_()
    c.imag.add_(1)
    return c


def pieces(x):
    y = x.detach() * 1
    for p in y.chunk(2, 1):
        p.mul_(2)
    for r in y:
        r.add_(1)
    return y


def strided(x):
    y = x.clone()
    y.as_strided((2, 2), (2, 1)).add_(1)
    y.view(-1).unfold(0, 2, 2)[0].zero_()
    z = y.view(-1)
    z[::2] = 0
    w = z.view(2, 6)
    w[0] = w[1]
    return y, z, w


def layers(x):
    y, z = x.clone(), F.leaky_relu_(x * 1, 0.1)
    y.addcmul_(x, x)
    y.lerp_(x, 0.5)
    return F.dropout(y, 0.5, inplace=True), z


PROGRAMS = [data, data_exchanged, detached, without_grad, masked_view, turned, through_transposed, diagonals, scattered,
            compared, broadcast, results, parts_of_complex, pieces, strided, layers]  # fmt: skip


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(program, grad):
    graph = agrees(program, sapwood.ones(3, 4, requires_grad=grad))
    assert graph.warnings == []


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed):
    """Views of one tensor, taken and written to in random order, and all of them returned."""

    def program(x):
        rng = np.random.default_rng(seed)
        known = [x * 1]
        for _ in range(8):
            t = known[rng.integers(len(known))]
            match rng.integers(9):
                case 0 if t.ndim > 1:
                    known.append(t.transpose(0, 1))
                case 1 if t.ndim and t.shape[0] > 1:
                    known.append(t[1:])
                case 2 if t.ndim > 1:
                    known.append(t[0])
                case 3:
                    known.append(t.detach())
                case 4:
                    t.mul_(float(rng.integers(2, 5)))
                case 5:
                    t.copy_(known[rng.integers(len(known))].clone().sum())
                case 6:
                    t[t > 0] = float(rng.integers(5))
                case 7:
                    t.data.add_(1)
                case _:
                    known.append(t + 1)
        return known

    agrees(program, sapwood.ones(3, 4))


def test_inputs_are_written_when_asked():
    def program(x):
        x.add_(1)
        x[0] = 3
        return x * 2

    graph = agrees(program, sapwood.ones(3))
    given = sapwood.zeros(3)
    run(graph, given)
    assert given.tolist() == [0.0, 0.0, 0.0]
    run(graph, given, update=True)
    assert given.tolist() == [3.0, 1.0, 1.0]


def test_a_tensor_around_the_function():
    count = sapwood.zeros(())

    def program(x):
        count.add_(1)
        return x + count

    graph = capture(program, sapwood.ones(2))
    assert graph.writes.keys() == {"count"}
    assert run(graph, sapwood.ones(2), update=True).tolist() == [3.0, 3.0]
    assert run(graph, sapwood.ones(2)).tolist() == [4.0, 4.0]
    assert count.item() == 2


def test_two_that_change_places():
    a, b = sapwood.zeros(2), sapwood.ones(2)

    def program(x):
        old = a.clone()
        a.copy_(b)
        b.copy_(old)
        return x + a

    graph = capture(program, sapwood.zeros(2))
    run(graph, sapwood.zeros(2), update=True)
    assert (a.tolist(), b.tolist()) == ([0.0, 0.0], [1.0, 1.0])


class Moving(nn.Module):
    """Statistics kept by assignment, a state that is a plain attribute, and a table with a largest norm."""

    def __init__(self):
        super().__init__()
        self.mix, self.table = nn.Linear(4, 4), nn.Embedding(5, 4, max_norm=0.5)
        self.register_buffer("seen", sapwood.zeros(4))
        self.register_buffer("steps", sapwood.zeros((), dtype=sapwood.int64))
        self.state = sapwood.zeros(4)

    def forward(self, x):
        y = self.mix(x) + self.table(sapwood.tensor([1, 2, 1]))
        self.seen = 0.9 * self.seen + 0.1 * y.mean(0).detach()
        self.state = (self.state + y[0]).detach()
        self.steps += 1
        return y * self.seen + self.state


class Bounded(nn.Module):
    """A weight that is written over before it is used, in three ways."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(sapwood.full((4,), 3.0))

    def forward(self, x):
        with sapwood.no_grad():
            self.weight.clamp_(-1, 1).mul_(0.9)
        self.weight.data.mul_(0.5)
        self.weight.data = self.weight.data + 0.25
        return x * self.weight


MODULES = {
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.MaxPool2d(2), nn.Flatten()
        ),
        (2, 3, 6, 6),
    ),
    "batch norm": (lambda: nn.BatchNorm1d(4, momentum=0.3), (5, 4)),
    "batch norm without statistics": (lambda: nn.BatchNorm1d(4, track_running_stats=False), (5, 4)),
    "instance norm": (lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True), (2, 3, 4, 4)),
    "moving": (Moving, (3, 4)),
    "bounded": (Bounded, (4,)),
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("train", [True, False])
def test_modules_go_on(name, train):
    sapwood.manual_seed(0)
    make, shape = MODULES[name]
    agrees(make().train(train), sapwood.ones(shape, requires_grad=True))


def test_buffers_stay_unless_asked():
    model = nn.BatchNorm1d(3)
    graph = capture(model, sapwood.randn(4, 3))
    assert set(graph.writes) == {"running_mean", "running_var", "num_batches_tracked"}
    before = {k: v.clone() for k, v in model.state_dict().items()}
    graph(sapwood.randn(4, 3))
    identical(model.state_dict(), before)
    graph(sapwood.randn(4, 3), update=True)
    assert model.num_batches_tracked.item() == 2
    model.eval()
    assert capture(model, sapwood.randn(4, 3)).writes == {}


def test_a_training_step_with_func():
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))

    def step(x, y):
        params = dict(model.named_parameters())
        loss = lambda p: F.mse_loss(sapwood.func.functional_call(model, p, (x,)), y)
        grads, value = sapwood.func.grad_and_value(loss)(params)
        with sapwood.no_grad():
            for name, p in params.items():
                p.sub_(0.1 * grads[name])
        return value

    x, y = sapwood.randn(4, 3), sapwood.randn(4, 1)
    graph = capture(step, x, y)
    assert list(graph.writes) == [f"model.{n}" for n, _ in model.named_parameters()]
    start = {k: v.clone() for k, v in model.state_dict().items()}
    losses = [run(graph, x, y, update=True) for _ in range(3)]
    after = {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(start)
    for value in losses:
        assert sapwood.allclose(value, step(x, y))
    for name, value in model.state_dict().items():
        assert sapwood.allclose(value, after[name])
    assert losses[2] < losses[0]


def test_what_wrote_and_where_is_said():
    def program(x):
        y = x * 1
        np.add(x, 1, out=y)
        return y * 2

    with pytest.raises(CaptureError, match=r"np\.add at .*test_writes\.py:\d+ .* wrote to mul .* no call shows"):
        capture(program, sapwood.ones(2))


def test_an_optimizers_step_is_refused():
    w = nn.Parameter(sapwood.ones(2))
    optimizer = sapwood.optim.SGD([w], lr=0.1)
    w.grad = sapwood.ones(2)

    def before_it_is_read(x):
        optimizer.step()
        return x * w

    def never_read(x):
        optimizer.step()
        return x * 2

    for program in (before_it_is_read, never_read):
        with pytest.raises(CaptureError, match=r"SGD at .*optimizer\.step.* wrote to"):
            capture(program, sapwood.ones(2))


def test_memory_that_no_known_tensor_covers():
    memory = np.zeros(4, np.float32)
    small, large = sapwood.from_numpy(memory[:2]), sapwood.from_numpy(memory)

    def program(x):
        small.add_(x)
        return large * 2

    with pytest.raises(CaptureError, match=r"cannot follow; call clone"):
        capture(program, sapwood.ones(2))


def test_inputs_turned_in_place():
    graph = capture(lambda x: x.t_() * 2, sapwood.ones(2, 3))
    assert graph.writes == {}
    assert "x has become float32[3, 2] in place" in graph.warnings[0]
    assert graph(sapwood.ones(2, 3)).shape == (3, 2)
