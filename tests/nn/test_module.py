"""Module: registration, names, conversion, state."""

import copy
import gc
import pickle
import weakref

import pytest

import sapwood
from sapwood import nn


class Net(nn.Module):
    """Buffers of every kind, a shared submodule and a tied weight."""

    def __init__(self):
        super().__init__()
        self.register_buffer("b1", sapwood.ones(1))
        self.register_buffer("b2", sapwood.zeros(1), persistent=False)
        self.b3 = nn.Buffer(sapwood.ones(2))
        self.b4 = nn.Buffer(sapwood.ones(2), persistent=False)
        self.register_buffer("nothing", None)
        self.lin = nn.Linear(1, 1)
        self.again = self.lin
        self.tied = nn.Linear(1, 1)
        self.tied.weight = self.lin.weight

    def extra_repr(self):
        return "a=1\nb=2"


def names(pairs):
    return [name for name, _ in pairs]


# -- registration -----------------------------------------------------------------------------------------------------


def test_names_and_duplicates():
    net = Net()
    state = ["b1", "b3", "lin.weight", "lin.bias", "again.weight", "again.bias", "tied.weight", "tied.bias"]
    assert list(net.state_dict()) == state
    assert names(net.named_parameters()) == ["lin.weight", "lin.bias", "tied.bias"]
    assert names(net.named_parameters(remove_duplicate=False)) == state[2:]
    assert names(net.named_buffers()) == ["b1", "b2", "b3", "b4"]
    assert names(net.named_buffers("p")) == ["p.b1", "p.b2", "p.b3", "p.b4"]
    assert names(net.named_modules()) == ["", "lin", "tied"]
    assert names(net.named_modules(remove_duplicate=False)) == ["", "lin", "again", "tied"]
    assert names(net.named_children()) == ["lin", "tied"]
    assert names(net.named_parameters(recurse=False)) == []


def test_repr():
    assert repr(Net()) == (
        "Net(\n  a=1\n  b=2\n"
        "  (lin): Linear(in_features=1, out_features=1, bias=True)\n"
        "  (again): Linear(in_features=1, out_features=1, bias=True)\n"
        "  (tied): Linear(in_features=1, out_features=1, bias=True)\n)"
    )


def test_a_name_stands_in_one_registry_only():
    net = Net()
    net.x = 5
    net.x = nn.ReLU()
    assert "x" in net._modules
    net.x = nn.Parameter(sapwood.ones(1))
    assert "x" not in net._modules
    assert list(net._parameters) == ["x"]
    net.x = None
    assert net.x is None
    assert "x" in net._parameters


def test_what_may_replace_what():
    net = Net()
    with pytest.raises(TypeError, match=r"nn\.Parameter"):
        net.lin.weight = sapwood.ones(1, 1)
    with pytest.raises(TypeError, match="Tensor or None"):
        net.b1 = 5
    net.lin = None
    assert names(net.named_modules()) == ["", "again", "tied"]
    with pytest.raises(TypeError, match="Module or None"):
        net.lin = 5
    net.b1 = sapwood.zeros(3)
    assert net._buffers["b1"] is net.b1


def test_attributes_follow_the_registries():
    layer = nn.Linear(2, 2)
    layer._parameters["weight"] = replaced = nn.Parameter(sapwood.ones(2, 2))
    assert layer.weight is replaced
    del layer._parameters["bias"]
    with pytest.raises(AttributeError, match="bias"):
        layer.bias  # noqa: B018
    layer._parameters = {"weight": nn.Parameter(sapwood.zeros(2, 2))}
    assert layer.weight.sum().item() == 0
    layer._parameters.update(bias=None)
    assert layer.bias is None
    layer._parameters.clear()
    assert "weight" not in vars(layer)


def test_deleting():
    net = Net()
    del net.b4, net.tied, net.lin.bias
    assert not hasattr(net, "b4")
    assert list(net._modules) == ["lin", "again"]
    assert "b4" not in net._non_persistent_buffers_set
    with pytest.raises(AttributeError):
        del net.b4


def test_before_init():
    class Early(nn.Module):
        def __init__(self):
            self.plain = 5
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"super\(\).__init__"):
        Early()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda m: m.register_parameter("a.b", None), KeyError),
        (lambda m: m.register_parameter("", None), KeyError),
        (lambda m: m.register_parameter("forward", None), KeyError),
        (lambda m: m.register_parameter("p", sapwood.ones(1)), TypeError),
        (lambda m: m.register_parameter(5, None), TypeError),
        (lambda m: m.register_buffer("weight", None), KeyError),
        (lambda m: m.register_buffer("b", 5), TypeError),
        (lambda m: m.add_module("m", 5), TypeError),
        (lambda m: m.add_module("weight", None), KeyError),
        (lambda m: m.get_submodule("a.b"), AttributeError),
        (lambda m: m.get_parameter("q"), AttributeError),
        (lambda m: m.get_buffer("weight"), AttributeError),
        (lambda m: m.set_submodule("", m), ValueError),
        (lambda m: m.train(3), ValueError),
        (lambda m: m.to(sapwood.int64), TypeError),
        (lambda m: nn.Module(3), TypeError),
        (lambda m: nn.Module(a=3), TypeError),
        (lambda m: nn.Module()(1), NotImplementedError),
    ],
)
def test_wrong_calls(call, error):
    with pytest.raises(error):
        call(nn.Linear(1, 1))


def test_dotted_names():
    net = nn.Sequential(nn.Sequential(nn.Linear(1, 1)))
    assert net.get_submodule("0.0") is net[0][0]
    assert net.get_parameter("0.0.bias") is net[0][0].bias
    net.set_submodule("0.0", nn.ReLU())
    assert repr(net[0][0]) == "ReLU()"


def test_apply_visits_children_first():
    seen = []
    nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU())).apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "ReLU", "Sequential", "Sequential"]


# -- conversion -------------------------------------------------------------------------------------------------------


def test_conversion_keeps_the_parameters_and_takes_gradients_along():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight = net[0].weight
    net(sapwood.ones(3, 2)).sum().backward()
    assert net.double() is net
    assert net[0].weight is weight
    assert weight.dtype is sapwood.float64
    assert net[0].bias.grad.dtype is sapwood.float64
    assert net[1].running_mean.dtype is sapwood.float64
    assert net[1].num_batches_tracked.dtype is sapwood.int64
    assert net.to("cpu", sapwood.float16)[0].weight.dtype is sapwood.float16
    assert net.to(sapwood.ones(1))[0].weight.dtype is sapwood.float32


def test_zero_grad_and_requires_grad():
    layer = nn.Linear(1, 1)
    layer(sapwood.ones(1, 1)).sum().backward()
    layer.zero_grad(set_to_none=False)
    assert layer.bias.grad.item() == 0
    layer.zero_grad()
    assert layer.bias.grad is None
    assert not any(p.requires_grad for p in layer.requires_grad_(False).parameters())


def test_train_and_eval_reach_all():
    net = nn.Sequential(nn.Sequential(nn.Dropout()))
    assert not net.eval()[0][0].training
    assert net.train()[0][0].training


# -- copies and lifetime ----------------------------------------------------------------------------------------------


def test_deepcopy_and_pickle_are_modules_of_their_own():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert sapwood.equal(made[0].weight, net[0].weight)
        assert made[0].weight is not net[0].weight
        made[0].weight = replaced = nn.Parameter(sapwood.zeros(2, 2))
        assert made[0]._parameters["weight"] is replaced
        made[0]._parameters["weight"] = replaced = nn.Parameter(sapwood.ones(2, 2))
        assert made[0].weight is replaced
        assert net[0].weight is not replaced
        assert made[0](sapwood.ones(1, 2)).shape == (1, 2)


def test_shallow_copy_shares_the_parameters():
    layer = nn.Linear(1, 1)
    assert copy.copy(layer).weight is layer.weight


def test_tied_weights_stay_tied():
    net = nn.Module()
    net.a, net.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    net.b.weight = net.a.weight
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert made.a.weight is made.b.weight
        assert len(list(made.parameters())) == 1


def test_a_module_dies_with_its_last_reference():
    gc.disable()
    try:
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        net.register_load_state_dict_pre_hook(lambda *args: None)
        net(sapwood.ones(1, 2)).sum().backward()
        dead = weakref.ref(net)
        del net
        assert dead() is None
    finally:
        gc.enable()


# -- state ------------------------------------------------------------------------------------------------------------


def test_load_copies_into_the_parameters():
    layer = nn.Linear(2, 1)
    weight = layer.weight
    result = layer.load_state_dict({"weight": sapwood.ones(1, 2, dtype=sapwood.float64), "x": 1}, strict=False)
    assert repr(result) == "_IncompatibleKeys(missing_keys=['bias'], unexpected_keys=['x'])"
    assert layer.weight is weight
    assert weight.tolist() == [[1.0, 1.0]]
    assert repr(layer.load_state_dict(layer.state_dict())) == "<All keys matched successfully>"


def test_load_reports_everything_at_once():
    with pytest.raises(RuntimeError) as raised:
        nn.Linear(2, 1).load_state_dict({"weight": sapwood.ones(3, 2), "zz": sapwood.ones(1)})
    text = str(raised.value)
    assert "missing keys: 'bias'" in text
    assert "unexpected keys: 'zz'" in text
    assert "weight: shapes differ: the module has (1, 2), the state (3, 2)" in text
    with pytest.raises(TypeError, match="mapping"):
        nn.Linear(1, 1).load_state_dict(5)


def test_load_with_assign_takes_the_given_tensors():
    layer = nn.Linear(2, 1)
    weight = nn.Parameter(sapwood.zeros(1, 2))
    layer.load_state_dict({"weight": weight, "bias": sapwood.zeros(1)}, assign=True)
    assert layer.weight is weight
    assert isinstance(layer.bias, nn.Parameter)


def test_state_shares_memory_and_is_detached():
    layer = nn.Linear(1, 1)
    state = layer.state_dict(prefix="p.")
    assert not state["p.weight"].requires_grad
    assert state["p.weight"].data_ptr() == layer.weight.data_ptr()
    assert layer.state_dict(keep_vars=True)["weight"] is layer.weight
    assert state._metadata == {"p": {"version": 1}}


def test_state_hooks_run_in_order():
    log = []
    layer = nn.Linear(1, 1)
    layer.register_state_dict_pre_hook(lambda m, prefix, keep: log.append("pre"))
    layer.register_state_dict_post_hook(lambda m, state, prefix, metadata: state.update(extra=1))
    layer._register_load_state_dict_pre_hook(lambda state, *rest: state.pop("extra"))
    layer.register_load_state_dict_pre_hook(lambda m, *rest: log.append(type(m).__name__))
    layer.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    state = layer.state_dict()
    assert state["extra"] == 1
    del state["bias"]
    layer.load_state_dict(state)
    assert log == ["pre", "Linear"]


def test_extra_state():
    class Extra(nn.Module):
        def get_extra_state(self):
            return {"e": 1}

        def set_extra_state(self, state):
            self.got = state

    module = Extra()
    module.load_state_dict(module.state_dict())
    assert module.got == {"e": 1}
    with pytest.raises(RuntimeError, match="_extra_state"):
        module.load_state_dict({})


def test_old_batch_norm_states_load():
    norm = nn.BatchNorm1d(2)
    state = dict(norm.state_dict())
    del state["num_batches_tracked"]
    norm.load_state_dict(state)
