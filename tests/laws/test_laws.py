"""The laws of `sapwood.testing.laws` over every op in the registry."""

from __future__ import annotations

import pytest

import sapwood
from sapwood.ops.declare import registry, todo
from sapwood.testing import laws

sapwood.ops.complete()
OPS = sorted(registry)
DIFFERENTIABLE = [n for n in OPS if any(v not in (None, todo) for v in (registry[n].vjp, *registry[n].vjps))]
SMOOTH = [n for n in DIFFERENTIABLE if registry[n].smooth]


def under(law, names):
    """Return those of the ops to which the law applies."""
    return [n for n in names if laws.holds(law, registry[n])]


@pytest.mark.parametrize("name", OPS)
def test_pure(name):
    for sample in laws.gradient_samples(registry[name]):
        laws.pure(registry[name], sample)


@pytest.mark.parametrize("name", under("layout", OPS))
def test_layout(name):
    for sample in laws.samples(registry[name]):
        laws.layout(registry[name], sample)


@pytest.mark.parametrize("name", under("pullback", SMOOTH))
def test_pullback(name):
    for sample in laws.gradient_samples(registry[name]):
        laws.pullback(registry[name], sample)


@pytest.mark.parametrize("name", under("order_two", SMOOTH))
def test_order_two(name):
    for sample in laws.gradient_samples(registry[name]):
        laws.order_two(registry[name], sample)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_generic(name):
    laws.no_numpy_in_formulas(registry[name])
    for sample in laws.gradient_samples(registry[name]):
        laws.generic(registry[name], sample)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_captured(name):
    for sample in laws.samples(registry[name]):
        laws.captured(registry[name], sample)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_thrift(name):
    for sample in laws.samples(registry[name]):
        laws.thrift(registry[name], sample)


@pytest.mark.parametrize("name", [n for n in OPS if registry[n].inplace])
def test_inplace(name):
    for sample in laws.gradient_samples(registry[name]):
        laws.inplace(registry[name], sample)


@pytest.mark.parametrize("name", [n for n in OPS if registry[n].takes_out])
def test_out(name):
    for sample in laws.gradient_samples(registry[name]):
        laws.out(registry[name], sample)


@pytest.mark.parametrize("name", OPS)
def test_errors(name):
    laws.errors(registry[name])


@pytest.mark.parametrize("name", OPS)
def test_words(name):
    laws.words(registry[name])


def test_exemptions_name_a_law_and_a_reason():
    known = {"sharing", "layout", "pullback", "order_two", "captured", "thrift"}
    for op in registry.values():
        assert set(op.exempt) <= known, op.name
        assert all(len(reason.split()) > 3 for reason in op.exempt.values()), op.name
