"""The laws of `sapwood.testing.laws` over every op in the registry."""

from __future__ import annotations

import pytest

import sapwood
from sapwood.ops.declare import differentiable, registry, todo
from sapwood.testing import laws

sapwood.ops.complete()
OPS = sorted(registry)
DIFFERENTIABLE = [n for n in OPS if differentiable(registry[n]) and todo not in registry[n].vjps]
SMOOTH = [n for n in DIFFERENTIABLE if registry[n].smooth]


@pytest.mark.parametrize("name", OPS)
def test_pure(name):
    for sample in laws.samples(registry[name]):
        laws.pure(registry[name], sample)


@pytest.mark.parametrize("name", OPS)
def test_layout(name):
    for sample in laws.samples(registry[name]):
        laws.layout(registry[name], sample)


@pytest.mark.parametrize("name", SMOOTH)
def test_pullback(name):
    for sample in laws.samples(registry[name]):
        laws.pullback(registry[name], sample)


@pytest.mark.parametrize("name", SMOOTH)
def test_order_two(name):
    for sample in laws.samples(registry[name]):
        laws.order_two(registry[name], sample)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_generic(name):
    laws.no_numpy_in_formulas(registry[name])
    for sample in laws.samples(registry[name]):
        laws.generic(registry[name], sample)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_captured(name):
    for sample in laws.samples(registry[name]):
        laws.captured(registry[name], sample)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_thrift(name):
    for sample in laws.samples(registry[name]):
        laws.thrift(registry[name], sample)


@pytest.mark.parametrize("name", OPS)
def test_errors(name):
    laws.errors(registry[name])


@pytest.mark.parametrize("name", OPS)
def test_words(name):
    laws.words(registry[name])
