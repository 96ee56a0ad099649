"""explain: one small program per mistake, and what is said about it."""

from __future__ import annotations

import gc

import pytest

import sapwood as torch
from sapwood import autograd, nn
from sapwood.errors import ArgumentError

explain = autograd.explain


@pytest.fixture
def w():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


@pytest.fixture
def v():
    return torch.ones(3, requires_grad=True)


def only(target, loss, **options):
    (found,) = explain(target, loss, **options)
    return found


def test_a_good_gradient(w):
    found = only(w, (w * w).sum())
    assert (found.state, found.reason) == ("ok", "")
    assert found.text == "float32 (3,), from 2 to 6"
    assert w.grad is None


def test_never_used(w, v):
    found = only(w, (v * 2).sum())
    assert (found.state, found.reason) == ("none", "unused")
    assert "never used" in found.text
    assert "pass a function that computes the loss" in str(explain(w, (v * 2).sum()))


def test_used_elsewhere_only(w, v):
    side = w.exp() + torch.ones(3, dtype=torch.float64)
    found = only(w, (v * 2).sum())
    assert (found.state, found.reason) == ("none", "elsewhere")
    assert "ExpBackward0 at " in found.text and "used it, but no path leads from there to this loss" in found.text
    del side
    gc.collect()
    assert only(w, (v * 2).sum()).reason == "unused"


CUTS = [
    (lambda w: w.exp().detach(), "cut off by detach() at "),
    (lambda w: w.data, "cut off by .data at "),
    (lambda w: w.exp().sum().item(), "left the graph through item() at "),
    (lambda w: torch.tensor(w.exp().tolist()), "left the graph through tolist() at "),
    (lambda w: torch.from_numpy(w.exp().numpy(force=True)), "left the graph through numpy() at "),
    (lambda w: w.long(), "converted to integers at "),
    (lambda w: w.exp().to(torch.int32), "converted to integers at "),
]


@pytest.mark.parametrize(("cut", "text"), CUTS, ids=[t for _, t in CUTS])
def test_cut(w, v, cut, text):
    found = only(w, (v * cut(w)).sum())
    assert (found.state, found.reason) == ("none", "cut")
    assert text in found.text and f"{__file__.rpartition('/')[2]}:" in found.text


def test_cut_by_conversion_to_a_number_warns_and_is_noted(w, v):
    with pytest.warns(UserWarning, match="its gradient ends here"):
        number = float(w.sum())
    assert "left the graph through float() at " in only(w, (v * number).sum()).text


def test_cut_behind_dead_intermediates(w, v):
    def features(w):
        return (w * 2).exp().tanh().detach()

    found = only(w, (v * features(w)).sum())
    assert "cut off by detach()" in found.text and "`return (w * 2).exp().tanh().detach()`" in found.text


def test_cut_too_deep_to_search_is_suspected_as_long_as_its_model_lives(v):
    def deep():
        w = torch.ones(2, requires_grad=True)
        y = w
        for _ in range(100):
            y = y * w
        return w, y.detach()

    def suspected():
        return "far behind this cut" in only(torch.ones(2, requires_grad=True), v.sum()).text

    gc.collect()
    before = suspected()
    w, _ = deep()
    v = v * 2
    assert suspected()
    del w
    gc.collect()
    assert suspected() == before


def test_cut_by_no_grad_needs_tracking_or_a_function(w, v):
    def loss():
        with torch.no_grad():
            k = w * 2
        return (v * k).sum()

    vague = only(w, loss())
    assert vague.reason == "unused"
    assert "or it was used under no_grad, where nothing is recorded (the last such block is at " in vague.text
    assert "`with torch.no_grad():`)" in vague.text
    found = only(w, loss)
    assert found.reason == "cut" and "used under no_grad at " in found.text and "`k = w * 2`" in found.text
    with autograd.set_origin_tracking(True):
        kept = loss()
    assert "used under no_grad" in only(w, kept).text
    assert not autograd.is_origin_tracking()


def test_cut_by_an_op_without_derivative(w, v):
    found = only(w, lambda: (v * (w > 1)).sum())
    assert found.reason == "cut" and "went into gt at " in found.text and "has no derivative" in found.text


def test_cuts_after_the_loss_do_not_count(w, v):
    loss = (v * 2).sum()
    w.exp().detach()
    gc.collect()
    assert only(w, loss).reason == "unused"


def test_what_optimizers_do_under_no_grad_is_no_cut(w, v):
    optimizer = torch.optim.SGD([w], lr=0.1)
    w.grad = torch.ones(3)
    with autograd.set_origin_tracking(True):
        optimizer.step()
        assert only(w, (v * 2).sum()).reason == "unused"


def test_stale_gradient_is_mentioned(w, v):
    w.grad = torch.ones(3)
    assert only(w, (v * 2).sum()).text.endswith("; its .grad holds an earlier gradient")


def test_result_of_detach_as_target(w, v):
    d = w.detach()
    found = only(d, (v * d).sum())
    assert found.reason == "cut" and "cut off by detach()" in found.text


def test_not_a_leaf(w):
    h = w * 2
    found = only(h, (h * h).sum())
    assert (found.state, found.reason) == ("not kept", "not a leaf")
    assert "retain_grad()" in found.text and "from 4 to 12 arrives at it" in found.text
    h.retain_grad()
    assert only(h, (h * h).sum()).state == "ok"
    assert h.grad is None


def test_non_leaf_that_the_loss_does_not_use(w, v):
    h = w * 2
    found = only(h, (v * 2).sum())
    assert (found.state, found.reason) == ("none", "unused")


def test_frozen_and_plain_and_integer(v):
    model = nn.Linear(3, 1)
    model.weight.requires_grad_(False)
    found = explain(model, model(v).sum())
    assert found["weight"].reason == "frozen" and found["bias"].state == "ok"
    assert only(torch.ones(3), v.sum()).reason == "not wanted"
    assert only(torch.arange(3), v.sum()).reason == "integer"


def test_dead_relu(w):
    found = only(w, torch.relu(w - 10).sum())
    assert (found.state, found.reason) == ("zero", "dead relu")
    assert "dead relu at " in found.text and "every element lies where it is flat" in found.text


@pytest.mark.parametrize("name", ["sigmoid", "tanh"])
def test_saturated(w, name):
    loss = getattr(torch, name)(w * 1000).sum()
    found = only(w, loss)
    assert found.state == "zero" and found.reason == "saturated" and f"saturated {name}" in found.text
    assert "1 everywhere" in found.text


def test_saturated_softmax(w):
    found = only(w, (w * 1e4).softmax(0)[2])
    assert found.reason == "saturated" and "saturated softmax" in found.text


def test_tiny(w):
    found = only(w, torch.sigmoid(-w * 60).sum())
    assert (found.state, found.reason) == ("tiny", "saturated")


def test_no_slope_zero_factor_not_selected_and_zero_upstream(w):
    assert only(w, (w * 3).round().sum()).reason == "no slope"
    found = only(w, (w * torch.zeros(3)).exp().sum())
    assert found.reason == "zero factor" and "'other', which is 0 everywhere" in found.text
    assert only(w, (w * 0).sum()).reason == "zero factor"
    found = only(w, torch.where(w > 100, w.exp(), torch.zeros(3)).sum())
    assert found.reason == "not selected" and "where at " in found.text and "did not select any" in found.text


def test_line_of_the_cause_with_a_function(w):
    def loss():
        h = w * 2
        dead = torch.relu(h - 100)
        return dead.sum()

    assert "`dead = torch.relu(h - 100)`" in only(w, loss).text


def test_huge(w):
    found = only(w, (w * 1e5 * 1e4).sum())
    assert (found.state, found.reason) == ("huge", "grew")
    assert "it grew most, 1e+05 times, in MulBackward0" in found.text
    assert only(w, (w * 1e5 * 1e4).sum(), huge=1e12).state == "ok"


def test_nan_and_inf():
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    found = only(x, torch.where(x > 0, x.sqrt(), 0.0).sum())
    assert found.state == "nan" and "the first NaN was made by SqrtBackward0 at " in found.text
    found = only(x, x.sqrt().sum())
    assert found.state == "inf" and "the first infinity was made by SqrtBackward0" in found.text


def test_loss_without_a_graph(w):
    with torch.no_grad():
        loss = (w * w).sum()
    assert str(explain(w, loss)).startswith("explain: the loss is not part of a graph: it was made under no_grad")
    loss = (w * w).sum().detach()
    assert "not part of a graph: cut off by detach() at " in str(explain(w, loss))
    assert "went into gt at " in explain(w, lambda: (w > 1).float().sum()).head


def test_after_backward_only_the_structure_is_known(w):
    loss = (w * w).sum()
    loss.backward()
    text = str(explain(w, loss))
    assert "only the structure is known, the values are gone" in text and "freed by the earlier backward at" in text
    assert explain(w, loss)[0].state == "ok"


def test_the_loss_itself_and_several_elements(w):
    assert only(w, w).state == "ok"
    assert only(w, w * 3).text == "float32 (3,), 3 everywhere"


def test_leaves_everything_alone(w):
    seen = []
    h = w * 2
    h.register_hook(seen.append)
    w.register_hook(seen.append)
    loss = (h * h).sum()
    explain({"w": w, "h": h}, loss)
    assert not seen and w.grad is None
    loss.backward()
    assert len(seen) == 2 and w.grad.tolist() == [8.0, 16.0, 24.0]


def test_module_names_table_and_notebook_form():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    found = explain(model, model[0](torch.ones(1, 2)).sum())
    assert [f.name for f in found] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert found.head.startswith("explain: 2 of 4 tensors get a gradient from SumBackward0")
    assert [f.name for f in found.problems] == ["1.weight", "1.bias"]
    lines = str(found).splitlines()
    assert lines[1].split() == ["tensor", "shape", "gradient", "reason", "explanation"] and len(lines) == 6
    assert found.table()[0] == ("tensor", "shape", "gradient", "reason", "explanation")
    page = found._repr_html_()
    assert page.count("<tr>") == 5 and "<td>0.weight</td>" in page and "&lt;" not in page
    with pytest.raises(KeyError, match=r"there are 0\.weight"):
        found["2.weight"]


def test_nothing_is_kept_alive(w, v):
    import weakref

    h = w * 2
    ref = weakref.ref(h.grad_fn)
    h.detach()
    h.exp().sum().item()
    del h
    assert ref() is None


def test_mistakes_are_named(w):
    with pytest.raises(ArgumentError, match="loss must be a tensor or a function, got float"):
        explain(w, 1.0)
    with pytest.raises(ArgumentError, match="the function must return the loss, it returned NoneType"):
        explain(w, lambda: None)
    with pytest.raises(ArgumentError, match=r"\[0\] must be a tensor, got int"):
        explain([1], w.sum())


def test_complex():
    z = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    found = only(z, z.abs().sum())
    assert found.state == "ok"


def test_zero_slope_of_a_function_of_ones_own(w):
    class Flat(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * 0

    found = only(w, Flat.apply(w).sum())
    assert found.reason == "zero slope"
    assert "FlatBackward at " in found.text
    assert "turned the gradient of input 0 into 0 times what arrived" in found.text


def test_no_single_op_made_it_small(w):
    h = w
    for _ in range(5):
        h = h * 2e-3
    found = only(w, h.sum())
    assert found.reason == "zero upstream"
    assert "no single op did it" in found.text


def test_a_gradient_of_nan_from_the_beginning(w):
    found = only(w, (w * float("nan")).sum())
    assert found.state == "nan"


def test_number_of_findings_and_tensors_in_threes(w, v):
    found = explain([w, v], (w * v).sum())
    assert len(found) == 2
    assert [f.state for f in found] == ["ok", "ok"]


def test_after_backward_the_path_is_still_known(w, v):
    loss = (w * v).sum()
    loss.backward()
    w.grad = None
    found = only(w, loss)
    assert found.text == "on a path from the loss"


def test_many_cuts_drop_the_oldest():
    from sapwood import cuts

    w = torch.ones(1, requires_grad=True)
    before = dict(cuts._sites)
    try:
        for i in range(cuts.SITES + 5):
            exec(compile("\n" * i + "w.detach()", f"cut{i}.py", "exec"), {"w": w})
        assert len(cuts.cuts()) <= cuts.SITES
    finally:
        cuts._sites.clear()
        cuts._sites.update(before)


def test_what_initialisers_do_is_no_cut():
    from sapwood import cuts

    layer = nn.Linear(2, 2)
    cuts._sites.clear()
    with autograd.set_origin_tracking(True):
        nn.init.xavier_uniform_(layer.weight)
    assert not cuts.cuts()


def test_a_bad_gradient_whose_origin_backward_has_freed(w):
    loss = (w.exp() * float("nan")).sum()
    loss.backward()
    assert "a backward has freed what would tell where it came from" in only(w, loss).text
