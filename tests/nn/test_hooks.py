"""Hooks of modules: order, replacement, removal, gradients. The expected values are PyTorch's."""

import pytest

import sapwood
from sapwood import nn
from sapwood.nn.modules import module as everywhere


class Pair(nn.Module):
    def forward(self, a, b):
        return a * 2, b * 3


def test_forward_hooks_run_in_order_and_can_be_removed():
    log = []
    layer = nn.Linear(2, 1)
    handles = [
        layer.register_forward_pre_hook(lambda m, args: log.append("p1")),
        layer.register_forward_pre_hook(lambda m, args: log.append("p0"), prepend=True),
        layer.register_forward_hook(lambda m, args, out: log.append("f1")),
        layer.register_forward_hook(lambda m, args, out: log.append("f0"), prepend=True),
    ]
    layer(sapwood.ones(1, 2))
    assert log == ["p0", "p1", "f0", "f1"]
    for handle in handles:
        handle.remove()
    layer(sapwood.ones(1, 2))
    assert len(log) == 4


def test_forward_hooks_replace():
    layer = nn.Identity()
    with layer.register_forward_pre_hook(lambda m, args: sapwood.zeros(1)):
        assert layer(sapwood.ones(1)).item() == 0
    with layer.register_forward_hook(lambda m, args, out: out * 5):
        assert layer(sapwood.ones(1)).item() == 5
    assert layer(sapwood.ones(1)).item() == 1


def test_hooks_with_kwargs():
    seen = []
    layer = nn.Linear(2, 1)
    with layer.register_forward_hook(lambda m, args, kwargs, out: seen.append((args, list(kwargs))), with_kwargs=True):
        layer(input=sapwood.ones(1, 2))
    assert seen == [((), ["input"])]
    with layer.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True):
        with pytest.raises(RuntimeError, match=r"\(args, kwargs\)"):
            layer(sapwood.ones(1, 2))


def test_always_call_runs_after_a_failure():
    seen = []
    layer = nn.Linear(2, 1)
    layer.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(RuntimeError):
        layer(sapwood.ones(1, 3))
    assert seen == [None]


def test_a_hook_put_into_the_dictionary_directly_runs():
    seen = []
    layer = nn.Identity()
    layer._forward_hooks[0] = lambda m, args, out: seen.append(1)
    layer(sapwood.ones(1))
    assert seen == [1]


def test_global_hooks():
    log = []
    handles = [
        everywhere.register_module_forward_pre_hook(lambda m, args: log.append(f"pre {type(m).__name__}")),
        everywhere.register_module_forward_hook(lambda m, args, out: log.append(type(m).__name__)),
    ]
    net = nn.Sequential(nn.ReLU())
    net(sapwood.ones(1))
    for handle in handles:
        handle.remove()
    net(sapwood.ones(1))
    assert log == ["pre Sequential", "pre ReLU", "ReLU", "Sequential"]
    assert not nn.Module._hooked


def test_registration_hooks():
    seen = []
    with everywhere.register_module_parameter_registration_hook(lambda m, name, p: seen.append(name)):
        nn.Linear(1, 1)
    assert seen == ["weight", "bias"]


def test_backward_hook_sees_all_gradients_of_the_module():
    seen = []
    module = Pair()
    module.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    a, b = sapwood.ones(2, requires_grad=True), sapwood.ones(2, requires_grad=True)
    x, _ = module(a, b)
    assert x.grad_fn.name() == "BackwardHookFunctionBackward"
    x.sum().backward()
    (grad_in, grad_out) = seen[0]
    assert [g.tolist() for g in grad_in] == [[2.0, 2.0], [0.0, 0.0]]
    assert grad_out[0].tolist() == [1.0, 1.0]
    assert grad_out[1] is None
    assert a.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError):
        module(a, b)[1].mul_(2)


def test_backward_hooks_replace_gradients():
    layer = nn.Linear(2, 1)
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10,))
    layer.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    x = sapwood.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert sapwood.allclose(x.grad, layer.weight.detach() * 20)
    assert layer.weight.grad.tolist() == [[2.0, 2.0]]
    layer.register_full_backward_hook(lambda m, gi, go: (1, 2))
    with pytest.raises(RuntimeError, match="1 gradients are expected"):
        layer(x).sum().backward()


def test_backward_hook_without_inputs_that_require_grad():
    seen = []
    layer = nn.Linear(2, 1)
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    with pytest.warns(UserWarning, match="no input"):
        layer(sapwood.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1.0]])]


def test_backward_hooks_under_create_graph():
    layer = nn.Tanh()
    layer.register_full_backward_hook(lambda m, gi, go: None)
    x = sapwood.tensor([0.5], requires_grad=True)
    (g,) = sapwood.autograd.grad(layer(x), x, create_graph=True)
    (gg,) = sapwood.autograd.grad(g, x)
    t = x.detach().tanh()
    assert sapwood.allclose(gg, -2 * t * (1 - t * t))


def test_the_two_kinds_of_backward_hooks_do_not_mix():
    layer = nn.ReLU()
    layer.register_backward_hook(lambda m, gi, go: None)
    with pytest.raises(RuntimeError, match="full backward"):
        layer.register_full_backward_hook(lambda m, gi, go: None)
