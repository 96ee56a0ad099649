"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from collections import OrderedDict

import pytest

import sapwood
from sapwood import nn


def kinds(modules):
    return [type(m).__name__ for m in modules]


def test_sequential_as_a_list():
    s = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh(), c=nn.Sigmoid()))
    assert list(s[1:]._modules) == ["b", "c"]
    assert s[-1] is s.c
    s.append(nn.GELU())
    assert list(s._modules) == ["a", "b", "c", "3"]
    del s[0]
    assert list(s._modules) == ["0", "1", "2"]
    assert kinds([s.pop(0)]) == ["Tanh"]
    s.insert(0, nn.ELU())
    assert kinds(s) == ["ELU", "Sigmoid", "GELU"]
    assert kinds(s + nn.Sequential(nn.ReLU())) == ["ELU", "Sigmoid", "GELU", "ReLU"]
    assert kinds(nn.Sequential(nn.ReLU()) * 2) == ["ReLU", "ReLU"]
    s[0] = nn.Tanh()
    assert kinds(s) == ["Tanh", "Sigmoid", "GELU"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: nn.Sequential(5), TypeError),
        (lambda: nn.Sequential(nn.ReLU())[3], IndexError),
        (lambda: nn.Sequential() * 0, ValueError),
        (lambda: nn.Sequential() * 1.5, TypeError),
        (lambda: nn.Sequential() + [nn.ReLU()], ValueError),
        (lambda: nn.ModuleList([5]), TypeError),
        (lambda: nn.ModuleList()[0], IndexError),
        (lambda: nn.ModuleList(5), TypeError),
        (lambda: nn.ModuleList()(1), NotImplementedError),
        (lambda: nn.ModuleDict({"keys": nn.ReLU()}), KeyError),
        (lambda: nn.ModuleDict()["a"], KeyError),
        (lambda: nn.ModuleDict(5), TypeError),
        (lambda: nn.ParameterList(5), TypeError),
        (lambda: nn.ParameterList()(1), RuntimeError),
        (lambda: nn.ParameterList()[0], IndexError),
        (lambda: nn.ParameterDict({5: sapwood.ones(1)}), TypeError),
        (lambda: nn.ParameterDict({"a.b": sapwood.ones(1)}), KeyError),
    ],
)
def test_wrong_use(call, error):
    with pytest.raises(error):
        call()


def test_module_list():
    m = nn.ModuleList([nn.ReLU(), nn.Tanh(), nn.GELU()])
    del m[1:]
    m.insert(0, nn.Sigmoid())
    m += [nn.ELU()]
    assert kinds(m) == ["Sigmoid", "ReLU", "ELU"]
    assert kinds(m + [nn.Tanh()]) == ["Sigmoid", "ReLU", "ELU", "Tanh"]
    assert list(m._modules) == ["0", "1", "2"]
    assert kinds(m[-2:]) == ["ReLU", "ELU"]


def test_module_dict():
    d = nn.ModuleDict([("b", nn.ReLU()), ("a", nn.Linear(1, 1))])
    assert list(d) == ["b", "a"]
    assert "a" in d
    d.update({"c": nn.Tanh()})
    assert len(d) == 3
    assert type(d.pop("c")) is nn.Tanh
    del d["b"]
    assert list(d.state_dict()) == ["a.weight", "a.bias"]
    d.clear()
    assert not list(d.items())


def test_parameter_list():
    p = nn.ParameterList([sapwood.ones(1), nn.Parameter(sapwood.ones(2))])
    p.append(sapwood.zeros(3))
    assert [n for n, _ in p.named_parameters()] == ["0", "1", "2"]
    p[0] = sapwood.zeros(1)
    assert isinstance(p[0], nn.Parameter)
    assert len(p[1:]) == 2


def test_parameter_dict():
    p = nn.ParameterDict({"b": sapwood.ones(1), "a": sapwood.ones(2)})
    assert list(p) == ["a", "b"]
    assert list((p | nn.ParameterDict({"c": sapwood.ones(1)})).keys()) == ["a", "b", "c"]
    assert p.get("x", 5) == 5
    assert isinstance(p.setdefault("d", sapwood.ones(1)), nn.Parameter)
    assert p.popitem()[0] == "d"
    assert list(p.state_dict()) == ["a", "b"]
    del p["a"]
    assert "a" not in p
