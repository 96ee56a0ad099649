"""Checkpointing: how often functions run, what stays alive, what is refused, and that gradients do not change.

The expected counts and gradients of the tables are torch 2.13's for the same programs.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import weakref

import numpy as np
import pytest

import sapwood
from sapwood import nn
from sapwood.autograd import Function, grad
from sapwood.autograd.graph import saved_tensors_hooks
from sapwood.autograd.observe import observing
from sapwood.errors import GradError, OverwrittenError, ValueRangeError
from sapwood.nn import functional as F
from sapwood.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    GraphExecGroup,
    checkpoint,
    checkpoint_sequential,
    checkpoint_to_budget,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from sapwood.utils.checkpoint.live import live_bytes
from sapwood.utils.checkpoint.plan import Problem, Unit, _greedy, cheapest, smallest

again = functools.partial(checkpoint, use_reentrant=False)
both = pytest.mark.parametrize("reentrant", [True, False])


class Counted:
    def __init__(self, function):
        self.function = function
        self.runs = 0

    def __call__(self, *args, **kwargs):
        self.runs += 1
        return self.function(*args, **kwargs)


def leaf(*shape):
    return sapwood.randn(*shape, requires_grad=True)


@pytest.fixture(autouse=True)
def seed():
    sapwood.manual_seed(0)


# -- values and counts ------------------------------------------------------------------------------------------------

PROGRAMS = {
    "elementwise": lambda x, w: (x * w).tanh().exp() + x.sin(),
    "matmul": lambda x, w: (x @ w.mT).relu() @ w,
    "inplace": lambda x, w: (x * w).add_(1).sin().mul_(2),
    "index": lambda x, w: (x * w)[[0, 1, 1]].exp() * w[sapwood.tensor([0, 1, 0])],
    "cat": lambda x, w: sapwood.cat([x * w, sapwood.stack([x[0], w[0]])]).exp(),
    "reduce": lambda x, w: sapwood.softmax(x, 1) * sapwood.logsumexp(w, 1, keepdim=True),
    "max": lambda x, w: (x * w).max(1).values.exp() + (x - w).sort(1).values[:, 0].exp(),
    "norm": lambda x, w: F.layer_norm(x * w, (3,)),
    "views": lambda x, w: (x * w).t().reshape(-1)[1:].exp(),
    "dropout": lambda x, w: F.dropout(x * w, 0.5).exp(),
}


@both
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_the_same(name, reentrant):
    x, w = leaf(2, 3), leaf(2, 3)
    state = sapwood.get_rng_state()
    direct = PROGRAMS[name](x, w)
    expected = grad(direct.sum(), (x, w))
    sapwood.set_rng_state(state)
    f = Counted(PROGRAMS[name])
    y = checkpoint(f, x, w, use_reentrant=reentrant)
    assert sapwood.equal(y, direct)
    assert f.runs == 1
    y.sum().backward()
    assert f.runs == 2
    assert sapwood.equal(x.grad, expected[0])
    assert sapwood.equal(w.grad, expected[1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_double_backward(name):
    x, w = leaf(2, 3), leaf(2, 3)
    state = sapwood.get_rng_state()

    def second(y):
        gx, gw = grad(y.sum(), (x, w), create_graph=True)
        return grad((gx * gx).sum() + gw.sum(), (x, w), allow_unused=True, materialize_grads=True)

    checkpointed = second(again(PROGRAMS[name], x, w))
    sapwood.set_rng_state(state)  # the program draws once, whatever is computed again
    for a, b in zip(checkpointed, second(PROGRAMS[name](x, w)), strict=True):
        assert sapwood.equal(a, b)


def test_arguments_without_grad():
    w = leaf(4, 4)
    x = sapwood.ones(2, 4)
    assert again(lambda x: x @ w, x).requires_grad
    with pytest.warns(UserWarning, match="no argument requires grad"):
        assert not checkpoint(lambda x: x @ w, x, use_reentrant=True).requires_grad


def test_omitting_use_reentrant_warns():
    x = leaf(3)
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(lambda x: x.exp(), x).sum().backward()
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint_sequential([sapwood.exp, sapwood.sin], 1, x)
    assert sapwood.equal(x.grad, x.detach().exp())


def test_reentrant_refuses_partial_gradients():
    x = leaf(3)
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=True).sum()
    with pytest.raises(GradError, match="use_reentrant=False"):
        grad(y, x, retain_graph=True)
    with pytest.raises(GradError, match="use_reentrant=False"):
        y.backward(inputs=[x])


def test_grad_and_inputs():
    x, w = leaf(3), leaf(3)
    f = Counted(lambda x, w: (x.exp() * w).sin())
    y = again(f, x, w).sum()
    (a,) = grad(y, x, retain_graph=True)
    assert f.runs == 2
    (b,) = grad(y, w, retain_graph=True)
    assert f.runs == 3
    y.backward(inputs=[x])
    assert f.runs == 4
    assert sapwood.equal(x.grad, a)
    assert w.grad is None
    assert sapwood.equal(b, grad((x.exp() * w).sin().sum(), w)[0])


@both
def test_retained_and_freed_graphs(reentrant):
    x = leaf(3)
    f = Counted(lambda x: x.exp().sin())
    y = checkpoint(f, x, use_reentrant=reentrant).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert f.runs == 3
    with pytest.raises(GradError, match="retain_graph"):
        y.backward()
    assert f.runs == 3


def test_a_group_of_passes_recomputes_once():
    x, w = leaf(3), leaf(3)
    f = Counted(lambda x, w: (x.exp().sin(), w.cos().sin()))
    a, b = again(f, x, w)
    with GraphExecGroup():
        a.sum().backward(retain_graph=True)
        b.sum().backward()
        with pytest.raises(GradError, match="nested"), GraphExecGroup():
            pass
    assert f.runs == 2
    assert sapwood.equal(w.grad, grad(w.cos().sin().sum(), w)[0])


def test_structures_keywords_and_plain_arguments():
    x, w = leaf(3), leaf(3)

    def f(x, k, *, w, options):
        return {"a": (x * w).sin() * options["scale"], "b": [w.exp() * k, 3]}

    r = again(f, x, 2.0, w=w, options={"scale": 3})
    (r["a"].sum() + r["b"][0].sum()).backward()
    assert sapwood.allclose(w.grad, ((x * w).cos() * x * 3 + 2 * w.exp()).detach())
    with pytest.raises(ValueRangeError, match="keyword"):
        checkpoint(f, x, 2.0, w=w, options={}, use_reentrant=True)
    with pytest.raises(ValueRangeError, match="use_reentrant=False"):
        checkpoint(f, x, use_reentrant=True, debug=True)
    with pytest.raises(ValueRangeError, match="determinism_check"):
        checkpoint(f, x, use_reentrant=False, determinism_check="strict")


def test_without_grad_mode_nothing_is_kept():
    x = leaf(3)
    with sapwood.no_grad():
        assert not again(lambda x: x.exp(), x).requires_grad


@both
@pytest.mark.parametrize("preserve", [True, False])
def test_random_numbers(reentrant, preserve):
    x = leaf(50)
    y = checkpoint(lambda x: F.dropout(x * 2, 0.5), x, use_reentrant=reentrant, preserve_rng_state=preserve)
    after = sapwood.get_rng_state()
    y.sum().backward()
    assert sapwood.equal(x.grad != 0, y != 0) == preserve
    assert sapwood.equal(sapwood.get_rng_state(), after) == preserve


def nested(depth, counts, weights):
    def level(i, x):
        def f(x):
            counts[i] += 1
            y = (x * weights[i]).sin()
            if i < depth:
                y = level(i + 1, y)
            return y.exp() * weights[i]

        return again(f, x)

    return functools.partial(level, 0)


@pytest.mark.parametrize(
    ("depth", "early_stop", "expected"),
    [
        (0, True, [2]), (0, False, [2]),
        (1, True, [2, 3]), (1, False, [2, 3]),
        (2, True, [2, 3, 4]), (2, False, [2, 3, 4]),
        (3, True, [2, 3, 4, 5]), (3, False, [2, 3, 4, 5]),
    ],
)  # fmt: skip
def test_nesting(depth, early_stop, expected):
    counts = [0] * (depth + 1)
    weights = [leaf(3) for _ in range(depth + 1)]
    x = leaf(3)
    with set_checkpoint_early_stop(early_stop):
        y = nested(depth, counts, weights)(x)
    y.sum().backward()
    assert counts == expected

    def plain(i, x):
        y = (x * weights[i]).sin()
        return (plain(i + 1, y) if i < depth else y).exp() * weights[i]

    for a, b in zip([x, *weights], grad(plain(0, x).sum(), [x, *weights]), strict=True):
        assert sapwood.equal(a.grad, b)


@pytest.mark.parametrize(
    ("switch", "argument", "expected"),
    [(None, True, 1), (None, False, 3), (True, False, 1), (False, True, 3)],
)
def test_early_stop(switch, argument, expected):
    steps = []

    def f(x):
        y = x.exp()
        steps.append(1)
        y = y.sin()
        steps.append(2)
        steps.append(3)
        return y + 1

    x = leaf(3)
    with contextlib.nullcontext() if switch is None else set_checkpoint_early_stop(switch):
        y = again(f, x, early_stop=argument)
    del steps[:]
    y.sum().backward()
    assert steps == [1, 2, 3][:expected]


def test_early_stop_passes_through_broad_handlers():
    x = leaf(3)
    swallowed = []

    def f(x):
        try:
            return x.exp().sin()
        except Exception as problem:
            swallowed.append(problem)
            raise

    again(f, x).sum().backward()
    assert not swallowed


@pytest.mark.parametrize("early_stop", [True, False])
def test_gradients_inside_the_function(early_stop):
    x = leaf(3)

    def f(x):
        y = x.exp().sin()
        (g,) = grad(y.sum(), x, create_graph=True)
        return g.cos() * y

    again(f, x, early_stop=early_stop).sum().backward()
    assert sapwood.equal(x.grad, grad(f(x).sum(), x)[0])


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * 3 * x * x + 0 * y


class Twice(Cube):
    @staticmethod
    def backward(ctx, g):
        return g * 3 * ctx.saved_tensors[0] * ctx.saved_tensors[0]


def test_custom_functions():
    x = leaf(3)
    f = Counted(lambda x: Cube.apply(x.exp()).sin())
    again(f, x).sum().backward()
    assert f.runs == 2
    assert sapwood.equal(x.grad, grad(Cube.apply(x.exp()).sin().sum(), x)[0])
    with pytest.raises(CheckpointError, match="once"):
        again(lambda x: Twice.apply(x.exp()), x).sum().backward()


def test_other_hooks():
    log = []

    def logged(kind):
        return lambda t: (log.append(kind), t)[1]

    x = leaf(3)
    with saved_tensors_hooks(logged("p"), logged("u")):
        y = again(lambda x: x.exp().sin(), x * 2) * x
    y.sum().backward()
    # the argument of the checkpointed call, and the two operands of the product
    assert log == ["p", "p", "p", "u", "u", "u"]
    expected = x.grad
    x.grad = None
    again(lambda x: x.exp().sin(), x * 2).mul(x).sum().backward()
    assert sapwood.equal(x.grad, expected)


def test_looking_at_saved_values():
    x = leaf(3)
    f = Counted(lambda x: x.exp())
    y = again(f, x)
    assert sapwood.equal(y.grad_fn._saved_result, y)
    assert f.runs == 2
    y.sum().backward()
    assert f.runs == 3


# -- refusing ---------------------------------------------------------------------------------------------------------


def changing(kind, runs):
    def f(x):
        runs.append(kind)
        first = len(runs) == 1
        if kind == "shape":
            x = x if first else x[:2]
        if kind == "dtype":
            x = x if first else x.double()
        y = x.exp()
        if (kind == "fewer" and first) or (kind == "more" and not first):
            y = y.sin().cos()
        return y.sin().sum() if kind in ("shape", "dtype") else y.sum()

    return f


@pytest.mark.parametrize(
    ("kind", "early_stop", "text"),
    [
        ("shape", True, r"float32 \(3,\) at first, float32 \(2,\) now"),
        ("dtype", True, r"float32 \(3,\) at first, float64 \(3,\) now"),
        ("fewer", True, "first run saved 3 tensors, the recomputation 1"),
        ("fewer", False, "first run saved 3 tensors, the recomputation 1"),
        ("more", False, "saves more tensors than the 1"),
    ],
)
def test_mismatch(kind, early_stop, text):
    x = leaf(3)
    y = again(changing(kind, []), x, early_stop=early_stop)
    with pytest.raises(CheckpointError, match=text):
        y.backward()


def test_mismatch_that_does_not_matter():
    x = leaf(3)
    again(changing("more", []), x).backward()  # early stop ends before the difference
    assert sapwood.equal(x.grad, x.detach().exp())
    again(changing("dtype", []), x, determinism_check="none").backward()


@pytest.mark.parametrize("switch", [True, False])
def test_debug_shows_where_the_runs_part(switch):
    x = leaf(3)
    with set_checkpoint_debug_enabled(True) if switch else contextlib.nullcontext():
        y = again(changing("fewer", []), x, debug=not switch)
    with pytest.raises(CheckpointError) as caught:
        y.backward()
    text = str(caught.value)
    assert "    exp(float32 (3,))" in text
    assert "->  first run:     sin(float32 (3,))" in text
    assert "    recomputation: sum(float32 (3,))" in text
    assert "test_checkpoint.py:" in text
    with pytest.raises(ValueRangeError, match="context_fn"):
        again(lambda x: x, x, debug=True, context_fn=lambda: (contextlib.nullcontext(), contextlib.nullcontext()))


def test_overwritten_values_are_noticed():
    x = leaf(3)
    a = x * 2
    y = again(lambda a: a.exp().sin(), a)
    a.add_(1)
    with pytest.raises(OverwrittenError, match="argument 0"):
        y.sum().backward()
    y = again(lambda x: (x.exp().add_(1)).sin(), x, early_stop=False)
    with pytest.raises(OverwrittenError, match="recomputed"):
        y.sum().backward()


def test_contexts():
    log = []

    @contextlib.contextmanager
    def entered(name):
        log.append(name)
        yield
        log.append(name + " left")

    x = leaf(2)
    y = again(lambda x: x.exp(), x, early_stop=False, context_fn=lambda: (entered("first"), entered("again")))
    y.sum().backward()
    assert log == ["first", "first left", "again", "again left"]
    with pytest.raises(ZeroDivisionError):
        again(lambda x: 1 / 0, x)
    with pytest.raises(GradError, match="swallowed"):
        again(lambda x: 1 / 0, x, context_fn=lambda: (contextlib.suppress(Exception), contextlib.nullcontext()))
    sapwood.ones(2).exp()  # the modes are as they were


# -- sequences --------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("segments", "expected"),
    [(1, [1] * 7), (2, [2] * 3 + [1] * 4), (3, [2] * 4 + [1] * 3), (7, [2] * 6 + [1])],
)
def test_sequential(segments, expected, reentrant):
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(7)]
    model = nn.Sequential(*layers)
    counts = [0] * 7
    for i, layer in enumerate(layers):
        layer.register_forward_pre_hook(lambda m, a, i=i: counts.__setitem__(i, counts[i] + 1))
    x = leaf(2, 4)
    y = checkpoint_sequential(model, segments, x, use_reentrant=reentrant)
    y.sum().backward()
    assert counts == expected
    direct = copy.deepcopy(x.detach()).requires_grad_()
    model(direct).sum().backward()
    assert sapwood.equal(direct.grad, x.grad)


def test_sequential_refuses():
    x = leaf(2)
    with pytest.raises(ValueError, match="segments"):
        checkpoint_sequential([sapwood.exp] * 2, 3, x, use_reentrant=False)
    with pytest.raises(ValueError, match="segments"):
        checkpoint_sequential([sapwood.exp] * 2, 0, x, use_reentrant=False)
    with pytest.raises(ValueError, match="unknown"):
        checkpoint_sequential([sapwood.exp], 1, x, use_reentrant=False, debug=True)


# -- memory -----------------------------------------------------------------------------------------------------------


class Watched:
    """The arrays that the ops of a program made, as weak references: what is alive is really alive."""

    def __init__(self):
        self.made = []

    def __call__(self, x):
        self.made.append(weakref.ref(x._array))
        return x

    @property
    def alive(self):
        return sum(r() is not None for r in self.made)


def test_values_are_released_without_the_collector():
    gc.disable()
    try:
        watched = Watched()

        def f(x):
            for _ in range(10):
                x = watched((x * 0.1).exp())
            return x

        x = leaf(1000)
        y = f(x)
        assert watched.alive == 10
        y.sum().backward()
        del y
        assert watched.alive == 0
        y = again(f, x)
        assert watched.alive == 1  # the result
        y.sum().backward()
        del y
        assert watched.alive == 0
        y = again(f, x)
        del y
        assert watched.alive == 0
    finally:
        gc.enable()


def test_recomputed_values_go_as_backward_uses_them():
    x = leaf(1000)
    w = sapwood.ones(1000)
    alive = []

    class Probe(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            alive.append(live_bytes([y], [x._array, w._array]))
            return g

    def f(x):
        for _ in range(4):
            x = Probe.apply(x).exp()
        return x * w

    y = again(f, x)
    assert live_bytes([y], [x._array, w._array]) == 0
    y.sum().backward()
    # Four results of exp, given up from the last to the first.
    assert alive == [3 * 4000, 2 * 4000, 4000, 0]


def test_nested_calls_do_not_keep_inner_arguments():
    x = leaf(1000)

    def outer(x):
        for _ in range(3):
            x = again(lambda x: x.exp().sin().exp(), x)
        return x

    flat = outer(x)
    assert live_bytes([flat], [x._array]) == 2 * 4000  # the arguments of the second and third call
    y = again(outer, x)
    assert live_bytes([y], [x._array]) == 0
    y.sum().backward()
    expected = x.grad
    assert sapwood.equal(expected, grad(flat.sum(), x)[0])


def test_what_a_pass_did_not_ask_for_goes_with_it():
    x, w = leaf(1000), leaf(1000)
    y = again(lambda x, w: (x.exp() * w).sin(), x, w)
    grad(y.sum(), w, retain_graph=True)
    assert live_bytes([y], [x._array, w._array]) == 0


# -- policies ---------------------------------------------------------------------------------------------------------


def selective(policy):
    return functools.partial(create_selective_checkpoint_contexts, policy)


def matmuls(x, w, calls):
    calls.append("f")
    return ((x @ w).sigmoid() @ w).exp() * w


@pytest.mark.parametrize("chosen", [[sapwood.mm], ["mm"], [sapwood.Tensor.mm], [sapwood.mm, sapwood.exp], []])
def test_chosen_results_are_kept(chosen):
    x, w, calls = leaf(4, 4), leaf(4, 4), []
    expected = grad(matmuls(x, w, calls).sum(), (x, w))
    computed = []

    def count(op, name, inputs, attrs, compute):
        if name == "mm":
            computed.append(1)
        return compute()

    with observing(count):
        y = again(matmuls, x, w, calls, context_fn=selective(chosen))
        assert len(computed) == 2
        result = grad(y.sum(), (x, w))
    assert len(computed) == (2 if chosen else 4)
    for a, b in zip(result, expected, strict=True):
        assert sapwood.equal(a, b)


def test_a_policy_function_sees_ops_and_results():
    x, w, seen = leaf(4, 4), leaf(4, 4), []

    def policy(ctx, op, *args, **kwargs):
        seen.append((op.__name__, tuple(ctx.op_output.shape), ctx.is_recompute, len(args)))
        return CheckpointPolicy.PREFER_SAVE if op is sapwood.sigmoid else CheckpointPolicy.MUST_RECOMPUTE

    again(matmuls, x, w, [], context_fn=selective(policy)).sum().backward()
    assert seen == [
        ("mm", (4, 4), False, 2), ("sigmoid", (4, 4), False, 1), ("mm", (4, 4), False, 2), ("exp", (4, 4), False, 1),
        ("mul", (4, 4), False, 2),
    ]  # fmt: skip


def test_policies_refuse():
    x = leaf(3)
    with pytest.raises(ValueRangeError, match="matmul"):
        create_selective_checkpoint_contexts([sapwood.matmul])
    with pytest.raises(TypeError, match="policy"):
        create_selective_checkpoint_contexts(3)
    y = again(lambda x: x.exp().sin(), x, context_fn=selective([sapwood.exp])).sum()
    y.backward(retain_graph=True)
    with pytest.raises(GradError, match="once"):
        y.backward()
    kept = []
    y = again(lambda x: (kept.append(x.exp()), kept[-1].sin())[1], x, context_fn=selective([sapwood.exp])).sum()
    kept[0].detach().add_(1)
    with pytest.raises(OverwrittenError, match="kept result of exp"):
        y.backward()
    runs = []
    y = again(changing("more", runs), x, early_stop=False, context_fn=selective([sapwood.exp]))
    with pytest.raises(CheckpointError, match="calls sin"):
        y.backward()


# -- budgets ----------------------------------------------------------------------------------------------------------


def block(inner):
    return nn.Sequential(
        nn.Linear(16, inner), nn.BatchNorm1d(inner), nn.Tanh(), nn.Dropout(0.2), nn.ReLU(), nn.Linear(inner, 16)
    )


class Residual(nn.Module):
    """Children in a list, one used twice, with ops of its own between them."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(block(32 * (i + 1)) for i in range(4))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        for b in [*self.blocks, self.blocks[0]]:
            x = x + b(x).tanh()
        return self.head(x)


def step(model, x):
    sapwood.manual_seed(3)
    model.zero_grad()
    loss = model(x).pow(2).sum()
    loss.backward()
    return [loss.detach()] + [p.grad.clone() for p in model.parameters()] + [b.clone() for b in model.buffers()]


@pytest.mark.parametrize("make", [lambda: nn.Sequential(*[block(64) for _ in range(4)], nn.Linear(16, 4)), Residual])
@pytest.mark.parametrize("share", [1.0, 0.8, 0.6, 0.5])
def test_budgets_are_kept_and_change_nothing(make, share):
    model = make()
    x = sapwood.randn(128, 16)
    before = checkpoint_to_budget(model, x, 10**9, repeats=1)
    assert not any(c.recomputed for c in before.children)
    assert before.before_bytes == before.predicted_bytes == before.measured_bytes
    state = copy.deepcopy(model.state_dict())
    generator = sapwood.get_rng_state()
    budget = int(before.before_bytes * share)
    report = checkpoint_to_budget(model, x, budget, repeats=1)
    assert all(sapwood.equal(a, b) for a, b in zip(state.values(), model.state_dict().values(), strict=True))
    assert list(state) == list(model.state_dict())
    assert sapwood.equal(generator, sapwood.get_rng_state())
    assert all(p.grad is None for p in model.parameters())
    assert report.before_bytes == before.before_bytes
    assert report.predicted_bytes == report.measured_bytes <= budget
    assert any(c.recomputed for c in report.children) == (share < 1)
    plain = make()
    plain.load_state_dict(state)
    for a, b in zip(step(model, x), step(plain, x), strict=True):
        assert sapwood.equal(a, b)
    for a, b in zip(step(model.eval(), x), step(plain.eval(), x), strict=True):
        assert sapwood.equal(a, b)
    model.train()
    report.undo()
    assert checkpoint_to_budget(model, x, 10**9, repeats=1).measured_bytes == before.before_bytes


def test_the_report():
    model = nn.Sequential(*[block(64) for _ in range(3)])
    x = sapwood.randn(64, 16)
    report = checkpoint_to_budget(model, x, 100_000)
    data = report.as_dict()
    assert data["budget_bytes"] == 100_000
    assert [c["name"] for c in data["children"]] == ["0", "1", "2"]
    recomputed = [c for c in report.children if c.recomputed]
    assert report.recompute_seconds == pytest.approx(sum(c.seconds for c in recomputed))
    assert report.exact
    text = str(report)
    assert text.splitlines()[0].split() == ["child", "module", "saved", "forward"]
    assert text.count("recomputed\n") == len(recomputed) > 0
    assert "budget 97.66 KiB" in text
    # Storages are counted once: the children's bytes make up the whole.
    assert sum(c.saved_bytes for c in report.children) == report.before_bytes
    assert isinstance(copy.deepcopy(model)(x), sapwood.Tensor)


def test_budgets_that_cannot_be_met():
    model = nn.Sequential(block(64), block(64))
    x = sapwood.randn(64, 16)
    with pytest.raises(ValueRangeError, match="least possible peak is") as caught:
        checkpoint_to_budget(model, x, 10)
    assert not any("forward" in m.__dict__ for m in model.modules())
    least = int(str(caught.value).split("peak is ")[1].split()[0])
    assert checkpoint_to_budget(model, x, least).measured_bytes == least
    with pytest.raises(ValueRangeError, match="no children"):
        checkpoint_to_budget(nn.Linear(2, 2), x, 10)
    with pytest.raises(ValueRangeError, match="inside another"):
        checkpoint_to_budget(model, x, 10, children=["0", "0.1"])
    with pytest.raises(GradError, match="requires no grad"):
        checkpoint_to_budget(nn.Sequential(nn.Flatten()), x, 10)


def test_children_by_name():
    model = nn.Sequential(block(64), block(64))
    x = sapwood.randn(64, 16)
    report = checkpoint_to_budget(model, x, 10**9, children=["0.2", "1"])
    assert [c.name for c in report.children] == ["0.2", "1"]


def random_problem(rng, n):
    """Return a chain of n children with ops between some of them, that save their own values and each other's."""
    units, sizes, last = [], {}, None
    for child in range(n):
        own = {len(sizes) + i for i in range(rng.integers(1, 4))}
        sizes |= {s: int(rng.integers(1, 50)) for s in own}
        arguments = frozenset() if last is None else frozenset({last})
        saved = own | (set(arguments) if rng.random() < 0.5 else set())
        units.append(Unit(child, saved, arguments))
        last = max(own)
        if rng.random() < 0.3:
            units.append(Unit(None, {last}))
    return Problem(units, sizes, rng.random(n).tolist())


@pytest.mark.parametrize("seed", range(15))
def test_the_plan_is_the_cheapest(seed):
    pytest.importorskip("scipy")
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    problem = random_problem(rng, n)
    choices = [[bool(k >> i & 1) for i in range(n)] for k in range(2**n)]
    peaks = [problem.peak(c) for c in choices]
    assert smallest(problem).peak == min(peaks)
    for budget in sorted(set(peaks))[:: max(1, len(set(peaks)) // 5)]:
        plan = cheapest(problem, budget)
        best = min(
            sum(t for t, c in zip(problem.seconds, choice) if c)
            for choice, peak in zip(choices, peaks)
            if peak <= budget
        )
        assert plan.exact
        assert plan.peak <= budget
        assert sum(t for t, c in zip(problem.seconds, plan.again) if c) == pytest.approx(best)
        greedy = _greedy(problem, budget)
        assert greedy is None or problem.peak(greedy) <= budget
    assert cheapest(problem, min(peaks) - 1) is None
